"""Tests of the core."""

from __future__ import annotations

from aiompi import core

if core.form == "pure":
    # what is about the native form, or about shared memory
    collect_ignore = ["test_copy.py", "test_leaks.py", "test_memory.py", "test_ring.py", "test_slots.py"]
