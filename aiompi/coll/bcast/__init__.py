"""Broadcast (section 4.4).

Algorithms take the channel, a block and the root. They fill the block at every rank but the root, where it is filled
already.
"""
