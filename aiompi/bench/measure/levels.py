"""Collectives by a named algorithm, in the blocking face of aiompi."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from aiompi.bench.measure import calls as measure


def collective_by(comm: Any, algorithm: str, name: str, nbytes: int, calls: int) -> list[float]:
    """Seconds that each call of a collective takes with an algorithm; see `calls.collective`."""
    engine = comm._core.engine
    before = engine.settings
    engine.settings = dataclasses.replace(before, coll={name: algorithm})
    try:
        return measure.collective(comm, name, nbytes, calls)
    finally:
        engine.settings = before


WORKS: Final[dict[str, Callable[..., Any]]] = {"collective_by": collective_by}
