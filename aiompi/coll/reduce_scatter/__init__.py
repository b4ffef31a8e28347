"""Reduce-scatter (section 4.10).

Algorithms take the channel, the operand of this rank, and the number of items of every rank's segment; the operand
becomes the result in the segment of this rank.
"""
