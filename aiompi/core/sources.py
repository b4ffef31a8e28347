"""Checks that the native core was built from the present sources. After a `git pull` it may be outdated."""

from __future__ import annotations

import os
import zlib
from typing import Final

_PLACE: Final = os.path.join(os.path.dirname(__file__), "native")


def fingerprint(place: str = _PLACE) -> int:
    """Return a 32-bit hash of the sources of the native core; 0 if they are not installed, as with a wheel."""
    number = 0
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith((".pyx", ".pxi", ".h")))
    except FileNotFoundError:
        return 0
    for name in names:
        with open(os.path.join(place, name), "rb") as file:
            number = zlib.crc32(file.read(), zlib.crc32(name.encode(), number))
    return number


def check(built_from: int) -> None:
    """Check that the native core was built from the present sources, before any other use of the core.

    Raises:
        ImportError: the sources have changed since the build.
    """
    if fingerprint() not in (0, built_from):
        project = os.path.dirname(os.path.dirname(os.path.dirname(_PLACE)))
        raise ImportError(
            f"the native core was built from other sources than those in {_PLACE}: build it again "
            f"(pip install -e {project}), or choose the pure form (AIOMPI_CORE=pure)",
            name="aiompi.core",
        )
