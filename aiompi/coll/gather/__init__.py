"""Gather (section 4.5).

Algorithms take the channel, a filled block with the contribution of this rank, at the root one block per rank to be
filled (None elsewhere), and the root. The root's own contribution may be in its place already.
"""
