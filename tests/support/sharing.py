"""Which objects share something that can be changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def changeable(obj: Any) -> Iterator[Any]:
    """Yield the lists, dicts, byte arrays and arrays in an object."""
    if isinstance(obj, list | dict | bytearray | np.ndarray):
        yield obj
    if isinstance(obj, dict | list | tuple):
        for item in obj.values() if isinstance(obj, dict) else obj:
            yield from changeable(item)
    elif isinstance(obj, np.ndarray) and obj.dtype.hasobject:
        for item in obj.flat:
            yield from changeable(item)


def share(one: Any, other: Any) -> bool:
    """Return True if a change of one object can be seen in the other."""
    for mine, theirs in itertools.product(changeable(one), changeable(other)):
        if mine is theirs:
            return True
        if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray) and np.shares_memory(mine, theirs):
            return True
    return False


def sharing(named: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Return the names of pairs of objects that share something."""
    return [(one, other) for one, other in itertools.combinations(named, 2) if share(named[one], named[other])]
