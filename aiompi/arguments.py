"""Checks of arguments that need nothing but Python: each names the argument, and says what is expected."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def integer(value: object, name: str) -> int:
    """An integer of any kind as an int.

    Args:
        name: of the argument, for messages.

    Raises:
        TypeError: not an integer.
    """
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is {value!r}: expected an integer") from None


def text(value: object, name: str) -> str:
    """A string.

    Raises:
        TypeError: not a string.
    """
    return instance(value, str, name, "a string")


def instance(value: object, kind: type[T], name: str, expected: str) -> T:
    """An object of a kind.

    Raises:
        TypeError: not an object of this kind.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}: expected {expected}")
    return value


def several(values: object, name: str, kind: str) -> tuple[Any, ...]:
    """The items of a sequence, or of anything else that gives them one after the other.

    Args:
        kind: what the items are, for messages.

    Raises:
        TypeError: it has no items, or is a text.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}: expected a sequence of {kind}, such as a list")
    return tuple(values)


def integers(values: object, name: str) -> tuple[int, ...]:
    """Several integers of any kind as ints.

    Raises:
        TypeError: not a sequence of integers.
    """
    return tuple(integer(value, f"{name}[{i}]") for i, value in enumerate(several(values, name, "integers")))
