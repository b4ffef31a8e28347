"""Scatter (section 4.6).

Algorithms take the channel, at the root one filled block per rank (None elsewhere), a block to be filled with the
part of this rank, and the root. The root's own part may be in its place already.
"""
