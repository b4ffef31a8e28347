"""Alltoall (section 4.8).

Algorithms take the channel, one filled block per rank with what is for it, and one block per rank to be filled with
what comes from it. The two never share memory.
"""
