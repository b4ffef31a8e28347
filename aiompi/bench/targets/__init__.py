"""The figures with targets: one module per family, which lets contenders take turns and compares their measurements."""

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
