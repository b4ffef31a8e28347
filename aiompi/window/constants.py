"""Constants of windows (MPI-4.1, chapter 12)."""

from __future__ import annotations

from typing import Final

from aiompi.constants import Constant

__all__ = [
    "LOCK_EXCLUSIVE", "LOCK_SHARED", "MODE_NOCHECK", "MODE_NOPRECEDE", "MODE_NOPUT", "MODE_NOSTORE", "MODE_NOSUCCEED",
    "WIN_BASE", "WIN_CREATE_FLAVOR", "WIN_DISP_UNIT", "WIN_FLAVOR", "WIN_FLAVOR_ALLOCATE", "WIN_FLAVOR_CREATE",
    "WIN_FLAVOR_DYNAMIC", "WIN_FLAVOR_SHARED", "WIN_MODEL", "WIN_SEPARATE", "WIN_SIZE", "WIN_UNIFIED",
]  # fmt: skip

# Keys of attributes.
WIN_BASE: Final = 7
WIN_SIZE: Final = 8
WIN_DISP_UNIT: Final = 9
WIN_CREATE_FLAVOR: Final = 10
WIN_FLAVOR: Final = WIN_CREATE_FLAVOR
WIN_MODEL: Final = 11

# How a window was made.
WIN_FLAVOR_CREATE: Final = 1
WIN_FLAVOR_ALLOCATE: Final = 2
WIN_FLAVOR_DYNAMIC: Final = 3
WIN_FLAVOR_SHARED: Final = 4

# Memory models: how accesses become visible to the target. All windows have the unified model.
WIN_SEPARATE: Final = 1
WIN_UNIFIED: Final = 2

# Kinds of locks.
LOCK_EXCLUSIVE: Final[int] = Constant("LOCK_EXCLUSIVE", 1)
LOCK_SHARED: Final = 2

# Assertions of the program in calls that synchronise.
MODE_NOCHECK: Final = 1
MODE_NOSTORE: Final = 2
MODE_NOPUT: Final = 4
MODE_NOPRECEDE: Final = 8
MODE_NOSUCCEED: Final = 16
