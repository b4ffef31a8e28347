"""Allreduce (section 4.9.6).

Algorithms take the channel and the accumulator of this rank, which becomes the result, the same on all ranks to the
last bit.
"""
