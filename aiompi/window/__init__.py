"""One-sided communication (MPI-4.1, chapter 12): a rank reads and writes another rank's memory, its window."""

from aiompi.window.making import Plan, allocate, allocate_shared, create, create_dynamic, free, together
from aiompi.window.window import Window

__all__ = ["Plan", "Window", "allocate", "allocate_shared", "create", "create_dynamic", "free", "together"]
