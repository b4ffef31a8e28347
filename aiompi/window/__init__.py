"""One-sided communication (MPI-4.1, chapter 12): a rank reads and writes another rank's memory, its window."""

from aiompi.window.making import allocate, allocate_shared, create, create_dynamic, free
from aiompi.window.window import Window

__all__ = ["Window", "allocate", "allocate_shared", "create", "create_dynamic", "free"]
