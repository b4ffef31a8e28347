"""Checks of arguments by their Python types. Each error names the argument and says what is expected."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def integer(value: object, name: str, expected: str = "an integer") -> int:
    """Return an integer of any kind as an int.

    Args:
        value: the argument.
        name: name of the argument, for messages.
        expected: description of the expected value, for messages.

    Raises:
        TypeError: the value is not an integer.
    """
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise unexpected(value, name, expected) from None


def text(value: object, name: str) -> str:
    """Return a string.

    Raises:
        TypeError: the value is not a string.
    """
    return instance(value, str, name, "a string")


def instance(value: object, kind: type[T], name: str, expected: str) -> T:
    """Return an object of class `kind`.

    Raises:
        TypeError: the value is not of class `kind`. The message contains the text `expected`.
    """
    if not isinstance(value, kind):
        raise unexpected(value, name, expected)
    return value


def unexpected(value: object, name: str, expected: str) -> TypeError:
    """Return the error for an argument of a wrong type. If the argument is awaitable, the error advises to await it."""
    hint = "; await it, and give its result" if hasattr(type(value), "__await__") else ""
    return TypeError(f"{name} is {value!r}: expected {expected}{hint}")


def several(values: object, name: str, kind: str) -> tuple[Any, ...]:
    """Return the items of a sequence or another iterable.

    Args:
        values: the argument.
        name: name of the argument, for messages.
        kind: name of the items, for messages.

    Raises:
        TypeError: the value is not iterable, or is a string.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise unexpected(values, name, f"a sequence of {kind}, such as a list")
    return tuple(values)


def integers(values: object, name: str) -> tuple[int, ...]:
    """Return several integers of any kind as ints.

    Raises:
        TypeError: the value is not a sequence of integers.
    """
    return tuple(integer(value, f"{name}[{i}]") for i, value in enumerate(several(values, name, "integers")))
