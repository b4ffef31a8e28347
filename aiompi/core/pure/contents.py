"""The types of objects inside an object."""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import NoneType
from typing import Any, Final

from aiompi.core.pure.buffers import is_plain

#: found in an object: tuples, objects of further types, anything else
TUPLES: Final = 1
FOREIGN: Final = 2
OTHER: Final = 4
#: more items than `most`
MANY: Final = 8

_ATOMS: Final[frozenset[type]] = frozenset({NoneType, bool, int, float, str})
_CONTAINERS: Final[frozenset[type]] = frozenset({list, tuple, dict})
_are_atoms: Final = _ATOMS.issuperset
#: levels of containers inside a container
_DEEPEST: Final = 499


def contents(
    obj: object, foreign: set[type], longest: int, sequences: bytearray | None = None, most: int = sys.maxsize
) -> int:
    """Return the kinds of objects inside an object, at any depth, that msgpack's packer cannot express by itself.

    Args:
        obj: any object. An instance of a subclass counts as OTHER, and so does a dict with keys other than None, bool,
            int, float and str.
        foreign: further types; of NumPy's arrays only arrays of plain numbers count.
        longest: length from which on bytes count as OTHER.
        sequences: bytearray to which the search appends a byte for each list (0) and each tuple (1), after the bytes
            for its items.
        most: number of items of all containers together; an object with more items counts as MANY.

    Returns:
        0 if msgpack's packer expresses the whole object; otherwise a sum of flags: TUPLES if the object holds tuples,
        FOREIGN if it holds objects of the types in `foreign`, OTHER if it holds any other object or is nested too
        deeply, and MANY if it has more than `most` items. With OTHER and MANY the search ends early, so other flags may
        be missing.
    """
    kind = type(obj)
    if kind in _ATOMS:
        return 0
    if kind in _CONTAINERS:
        return _found_in(obj, foreign, longest, sequences, [most], _DEEPEST)
    if kind is bytes:
        return OTHER if len(obj) >= longest else 0  # type: ignore[arg-type]
    return _of_class(obj, foreign)


def _of_class(obj: object, foreign: set[type]) -> int:
    kind = type(obj)
    return FOREIGN if kind in foreign and (kind.__name__ != "ndarray" or is_plain(obj)) else OTHER


def _found_in(
    container: Any, foreign: set[type], longest: int, sequences: bytearray | None, left: list[int], depth: int
) -> int:
    kind = type(container)
    left[0] -= len(container)
    if left[0] < 0:
        return MANY
    if kind is dict and not _are_atoms(map(type, container)):
        return OTHER
    items: Collection[Any] = container.values() if kind is dict else container
    found = TUPLES if kind is tuple else 0
    if not _are_atoms(map(type, items)):
        for each in items:
            inner = type(each)
            if inner in _CONTAINERS:
                found |= _found_in(each, foreign, longest, sequences, left, depth - 1) if depth else OTHER
            elif inner is bytes:
                found |= OTHER if len(each) >= longest else 0
            elif inner not in _ATOMS:
                found |= _of_class(each, foreign)
            if found >= OTHER:
                return found
    if sequences is not None and kind is not dict:
        sequences.append(kind is tuple)
    return found
