"""Allgather (section 4.7).

Algorithms take the channel and one block per rank, of which the one of this rank is filled; all get filled.
"""
