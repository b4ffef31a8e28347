"""Checks of the arguments of datatype constructors, and the error classes of datatypes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from aiompi.base.arguments import integer
from aiompi.base.lazy import np
from aiompi.errors import InvalidArgumentError, InvalidCountError, InvalidTypeError

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

# Sequences of integers that callers may pass.
Numbers: TypeAlias = "Sequence[int] | np.ndarray[Any, np.dtype[np.integer[Any]]]"


# mpi4py raises built-in Python exceptions in these cases, so these classes derive from those exceptions as well.


class UnknownFormatError(InvalidTypeError, BufferError):
    """No datatype corresponds to the elements of the memory."""


class InvalidCodeError(InvalidTypeError, KeyError):
    """A type code does not exist, or a datatype has no type code."""


class SpecificationError(TypeError, ValueError):
    """A list or tuple is not a buffer specification."""


_LARGEST: Final = 2**63 - 1


def count(value: object, name: str) -> int:
    """Return a checked number of copies.

    Raises:
        InvalidCountError: the number is negative.
        TypeError: the value is not an integer.
    """
    number = integer(value, name)
    if number < 0:
        raise InvalidCountError(f"{name} is {number}: expected 0 or more")
    return number


def integers(values: object, name: str) -> Integers:
    """Return a read-only copy of a sequence of integers, shape (n,).

    Raises:
        InvalidArgumentError: a value needs more than 64 bits.
        TypeError: `values` is not a sequence of integers.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}: expected a sequence of integers, such as a list or a numpy array")
    if not isinstance(values, np.ndarray | list | tuple):
        values = list(values)
    try:
        given = np.asarray(values)
    except (ValueError, OverflowError):  # rows of different lengths, or numbers that are too large
        given = np.empty(len(values), object)
    if given.ndim != 1:
        raise TypeError(f"{name} has {given.ndim} dimensions: expected a sequence of integers")
    if given.dtype.kind in "iu" and (given.dtype != np.uint64 or not given.size or given.max() <= _LARGEST):
        array = np.array(given, np.int64)
    else:
        array = _one_by_one(values, name)
    array.flags.writeable = False
    return array


def few_integers(values: object, name: str) -> tuple[int, ...]:
    """Convert a sequence of n integers, usually a short one, to a tuple of n integers.

    Raises:
        InvalidArgumentError, TypeError: see `integers`.
    """
    # NumPy would need several times as long for a list of a few numbers.
    if type(values) in (list, tuple) and set(map(type, values)) == {int}:  # type: ignore[call-overload]
        numbers: tuple[int, ...] = tuple(values)  # type: ignore[arg-type]
        if max(numbers) <= _LARGEST and min(numbers) >= -_LARGEST:
            return numbers
    return tuple(integers(values, name).tolist())


def few_counts(values: object, name: str) -> tuple[int, ...]:
    """Convert a sequence of n numbers of copies, usually a short one, to a tuple of n integers.

    Raises:
        InvalidCountError: a number is negative.
        InvalidArgumentError, TypeError: see `integers`.
    """
    numbers = few_integers(values, name)
    if min(numbers, default=0) < 0:
        raise _negative(numbers, name)
    return numbers


def counts(values: object, name: str) -> Integers:
    """Return a read-only copy of a sequence of numbers of copies, shape (n,).

    Raises:
        InvalidCountError: a number is negative.
        InvalidArgumentError, TypeError: see `integers`.
    """
    array = integers(values, name)
    if array.min(initial=0) < 0:
        raise _negative(array, name)
    return array


def _negative(numbers: tuple[int, ...] | Integers, name: str) -> InvalidCountError:
    at = int(np.argmin(numbers))
    return InvalidCountError(f"{name}[{at}] is {numbers[at]}: expected 0 or more")


def same_length(**sequences: Any) -> None:
    """Check that sequences, given by name, have equal lengths.

    Raises:
        InvalidArgumentError: the lengths differ.
    """
    if len(set(map(len, sequences.values()))) > 1:
        given = ", ".join(f"{name} has {len(sequence)}" for name, sequence in sequences.items())
        raise InvalidArgumentError(f"sequences of equal length are expected, one entry per block, but {given}")


def check_reach(displacements: Integers, lengths: Integers | int, scale: int, extent: int) -> None:
    """Check that blocks of `lengths` items of `extent` bytes at `displacements * scale` have 64-bit addresses.

    Raises:
        InvalidArgumentError: an address needs more than 64 bits.
    """
    if not displacements.size:
        return
    longest = lengths if isinstance(lengths, int) else int(lengths.max())
    furthest = max(int(displacements.max()), -int(displacements.min())) * abs(scale)
    if furthest + longest * max(1, abs(extent)) > _LARGEST:
        raise InvalidArgumentError(
            f"displacements and block lengths reach beyond 2**63 bytes: the furthest block is {furthest} bytes away, "
            f"the longest has {longest} items of {extent} bytes"
        )


def _one_by_one(values: Any, name: str) -> Integers:
    numbers = [integer(value, f"{name}[{i}]") for i, value in enumerate(values)]
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        raise InvalidArgumentError(f"{name} has values of more than 64 bits: {max(numbers, key=abs)}") from None
