"""Scan (section 4.11): each rank gets the combination of its own and all lower ranks' contributions.

Algorithms take the channel and the accumulator of this rank, which becomes the result.
"""
