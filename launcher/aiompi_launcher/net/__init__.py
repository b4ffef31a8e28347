"""Connections to the launcher.

listen     listening sockets, and how connections are accepted and limited
control    the control connection of a rank: the proof of the key, then messages
"""
