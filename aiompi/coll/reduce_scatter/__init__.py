"""Reduce-scatter (section 4.10).

Algorithms take the channel, the accumulator of this rank, and the number of items of every rank's segment. The
accumulator becomes the result in the segment of this rank.
"""
