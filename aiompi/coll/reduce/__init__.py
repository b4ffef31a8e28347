"""Reduce (section 4.9.1).

Algorithms take the channel, the accumulator of this rank, which at the root becomes the result, and the root.
"""
