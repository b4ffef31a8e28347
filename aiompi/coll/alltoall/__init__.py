"""Alltoall (section 4.8).

Algorithms take the channel, one filled slot per rank with what is for it, and one slot per rank to be filled with
what comes from it. The two never share memory.
"""
