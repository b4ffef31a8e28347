"""Tests of the core."""

from __future__ import annotations

from aiompi import core

if core.form == "pure":
    collect_ignore = ["test_copy.py", "test_memory.py", "test_ring.py", "test_slots.py"]  # it has no shared memory
