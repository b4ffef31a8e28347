"""Broadcast (section 4.4).

Algorithms take the channel, a filled block at the root and gets filled everywhere else, and the root.
"""
