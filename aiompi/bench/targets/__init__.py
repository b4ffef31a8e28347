"""The figures with targets: one module per family, which lets contenders take turns and compares their measurements."""

from __future__ import annotations

import importlib
from typing import Final

from aiompi.bench.targets.family import Family

#: families that are measured by default
FAMILIES: Final = (
    "latency", "bandwidth", "objects", "idle", "startup", "memory", "matching", "responsive", "streams",
    "datatype", "impi",
)  # fmt: skip
#: families that are measured only if named, because they need packages of the extra `bench`, or several hosts
COMPARISONS: Final = ("collective", "mpich", "asynchronous", "network", "levels")


def family(name: str) -> Family:
    """Return the family of this name, one of FAMILIES or COMPARISONS."""
    found: Family = importlib.import_module(f"{__name__}.{name}").FAMILY
    return found
