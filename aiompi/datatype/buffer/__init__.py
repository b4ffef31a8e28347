"""Buffers: the memory, count and datatype that a caller passes, resolved and checked (sections 3.2.2, 3.12.5)."""
