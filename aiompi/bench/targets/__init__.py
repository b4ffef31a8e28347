"""Measured figures with target values. Each module measures a family of figures, with contenders that take turns."""

from __future__ import annotations

import importlib
from typing import Final

from aiompi.bench.targets.figures import Family

#: families that are measured by default
FAMILIES: Final = ("sockets", "startup", "responsive", "streams")
#: families that are measured only if named, because they need packages of the extra `bench`
COMPARISONS: Final = ("mpich", "rma", "files", "workers")


def family(name: str) -> Family:
    """Return the family of this name, one of FAMILIES or COMPARISONS."""
    found: Family = importlib.import_module(f"{__name__}.{name}").FAMILY
    return found
