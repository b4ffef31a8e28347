"""Exclusive scan (section 4.11, and MPI-2): each rank gets the combination of all lower ranks' contributions.

Algorithms take the channel and the accumulator of this rank, which becomes the result; that of rank 0 stays as it is,
and is no result.
"""
