"""Buffers: what a caller passes as memory, count and datatype, resolved and checked (sections 3.2.2 and 3.12.5)."""
