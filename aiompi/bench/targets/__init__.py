"""The figures: a module per family, which gives contenders their turns and compares what they measured."""

from __future__ import annotations

import importlib
from typing import Final

from aiompi.bench.targets.family import Family

#: what is measured unless families are named
FAMILIES: Final = (
    "latency", "bandwidth", "objects", "idle", "startup", "memory", "matching", "responsive", "datatype", "impi",
)  # fmt: skip
#: what is measured only when it is named, because it needs what the extra `bench` installs
COMPARISONS: Final = ("collective", "mpich", "asynchronous")


def family(name: str) -> Family:
    """The family of that name, one of FAMILIES or COMPARISONS."""
    found: Family = importlib.import_module(f"{__name__}.{name}").FAMILY
    return found
