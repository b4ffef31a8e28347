"""Jobs that are disturbed."""

from __future__ import annotations

from aiompi import core

if core.form == "pure":
    collect_ignore = ["test_shared_memory.py"]  # it has none
