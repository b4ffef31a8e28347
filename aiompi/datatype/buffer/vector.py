"""Vector specifications: buffers with one block per rank, of different sizes, for Gatherv and similar calls.

The forms are those of mpi4py:

    buf                           one equal block for each rank
    [buf, type]
    [buf, counts]                 displacements and datatype are inferred
    [buf, counts, type]
    [buf, (counts, displs)]       also with the type
    [buf, counts, displs, type]

`counts` holds the number of items of each rank, and `displs` the item at which each block begins, both in rank order. A
single number for `counts` applies to every rank; a single number for `displs` is the distance from block to block.
Without `displs` the blocks are adjacent. A tuple of two after `buf` is always counts and displacements.

If each block has its own datatype (Alltoallw), one must be given for each rank, and displacements are in bytes:

    [buf, types]                  one item of each type, all at the start
    [buf, (counts, displs), types]
    [buf, counts, displs, types]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from aiompi.base.arguments import integer
from aiompi.datatype import arguments
from aiompi.datatype.buffer.address import Bottom
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.buffer.bufspec import parts, resolve_type
from aiompi.datatype.buffer.disjoint import refuse_common, refuse_overlap
from aiompi.datatype.buffer.region import Flat, Region, region
from aiompi.datatype.datatype import Datatype
from aiompi.errors import InvalidArgumentError, InvalidCountError

Numbers: TypeAlias = int | list[int] | None

#: keys of blocks that have been checked; programs repeat an exchange with the same types
_checked: Final[set[tuple[object, ...]]] = set()
_MOST_CHECKED: Final = 256
_are_integers: Final = frozenset({int}).issuperset


def resolve_vector_send(spec: object, name: str, nblocks: int) -> list[Buffer]:
    """Resolve the vector specification of a buffer to read from.

    Args:
        spec: vector specification, see the module.
        name: name of the argument, for messages.
        nblocks: number of ranks.

    Returns:
        The block of each rank.

    Raises:
        InvalidArgumentError: `counts` or `displs` does not have one entry for each rank.
        InvalidBufferError: a block is not within the memory.
        InvalidCountError: a count is negative, or the memory is not a whole number of blocks.
        InvalidTypeError: see `resolve_send`.
        TypeError: `spec` is not a vector specification.
    """
    return _resolve(spec, name, nblocks, writable=False)


def resolve_vector_recv(spec: object, name: str, nblocks: int) -> list[Buffer]:
    """Resolve the vector specification of a buffer to write into.

    Args, Returns and Raises are those of `resolve_vector_send`; in addition

    Raises:
        InvalidBufferError: the memory is read-only, or two blocks overlap.
        InvalidTypeError: items of the datatype, or entries of one, overlap.
    """
    return _receiving(_resolve(spec, name, nblocks, writable=True), name)


def resolve_typed_send(spec: object, name: str, nblocks: int) -> list[Buffer]:
    """Resolve the specification of a buffer to read from, in which each block has its own datatype.

    Args, Returns and Raises are those of `resolve_vector_send`.
    """
    return _resolve_typed(spec, name, nblocks, writable=False)


def resolve_typed_recv(spec: object, name: str, nblocks: int) -> list[Buffer]:
    """Resolve the specification of a buffer to write into, in which each block has its own datatype.

    Args, Returns and Raises are those of `resolve_vector_recv`.
    """
    return _resolve_typed(spec, name, nblocks, writable=True)


def _receiving(buffers: list[Buffer], name: str) -> list[Buffer]:
    for buffer in buffers:
        refuse_overlap(buffer, name)
    refuse_common(buffers, name)
    return buffers


def _resolve(spec: object, name: str, nblocks: int, *, writable: bool) -> list[Buffer]:
    memory, counts, displs, datatype = _parse(spec, name, nblocks)
    where = region(memory, name, writable)
    if datatype is None:
        datatype = where.datatype()
    if counts is None:
        counts = _equal(where.infer(datatype, 0), datatype, nblocks, name)
    if isinstance(counts, int):
        counts = [counts] * nblocks
    if displs is None:
        displs = [0, *itertools.accumulate(counts[:-1])]
    elif isinstance(displs, int):
        displs = [i * displs for i in range(nblocks)]
    return [where.items(datatype, displ, count) for count, displ in zip(counts, displs, strict=True)]


def _equal(items: int, datatype: Datatype, nblocks: int, name: str) -> int:
    count, rest = divmod(items, nblocks)
    if rest:
        raise InvalidCountError(
            f"{name} holds {items} items of {datatype}, which cannot be cut into {nblocks} equal blocks, one per "
            "rank; pass the counts, as in [buf, counts]"
        )
    return count


def _resolve_typed(spec: object, name: str, nblocks: int, *, writable: bool) -> list[Buffer]:
    memory, counts, displs, given = _parse_typed(spec, name)
    if len(given) != nblocks:
        raise InvalidArgumentError(f"types in {name} has {len(given)} entries: expected {nblocks}, one for each rank")
    if isinstance(memory, Bottom) and (counts is None or displs is None):
        raise InvalidCountError(f"{name} is BOTTOM without counts or displacements; pass both, for each rank")
    where = region(memory, name, writable)
    key = _key(where, given, counts, displs, writable)
    if key in _checked and isinstance(where, Flat):
        view, numbers, offsets = where.view, counts or [1] * nblocks, displs or [0] * nblocks
        return [Buffer(view, numbers[i], datatype, offsets[i]) for i, datatype in enumerate(given)]  # type: ignore[arg-type]
    numbers = _one_each(1 if counts is None else _counts(counts, name, nblocks), nblocks)
    offsets = _one_each(0 if displs is None else _numbers(displs, f"displs in {name}", nblocks), nblocks)
    buffers = [_at(where, *block, name) for block in zip(given, numbers, offsets, strict=True)]
    if writable:
        _receiving(buffers, name)
    if key and all(buffer.datatype is datatype for buffer, datatype in zip(buffers, given, strict=True)):
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked.add(key)
    return buffers


def _key(where: Region, given: Sequence[object], counts: object, displs: object, writable: bool) -> tuple[object, ...]:
    """Return a key with all inputs of the checks of blocks in contiguous memory; empty if it cannot be made."""
    if not isinstance(where, Flat):
        return ()
    key: list[object] = [writable, where.nbytes]
    for numbers in (counts, displs):
        if numbers is not None and not (type(numbers) is list and _are_integers(map(type, numbers))):
            return ()
        key.append(None if numbers is None else tuple(numbers))
    for datatype in given:
        if not isinstance(datatype, Datatype) or datatype.usable_items is None:
            return ()
        key.append(datatype._map)
    return tuple(key)


def _one_each(numbers: Numbers, nblocks: int) -> list[int]:
    return numbers if isinstance(numbers, list) else [numbers or 0] * nblocks


def _at(where: Region, given: object, count: int, displ: int, name: str) -> Buffer:
    """Return the items of the given type from byte `displ` on."""
    datatype = resolve_type(given, name, not count)
    if datatype is None:
        raise TypeError(f"types in {name} has None: expected a Datatype or a type code such as 'd'")
    item, rest = divmod(displ, datatype.extent) if datatype.extent > 0 else (0, displ)
    if not rest:
        return where.items(datatype, item, count)
    return where.items(datatype.Create_hindexed([count], [displ]).Commit(), 0, 1)


def _parse_typed(spec: object, name: str) -> tuple[object, Any, Any, Sequence[object]]:
    """Return memory, counts, displacements and datatypes."""
    match spec:
        case (memory, [*types]):
            return memory, None, None, types
        case (memory, (counts, displs), [*types]) | (memory, counts, displs, [*types]):
            return memory, counts, displs, types
    raise arguments.SpecificationError(
        f"{name} is not a buffer specification with a datatype for each rank: pass [buf, types], "
        "[buf, (counts, displs), types] or [buf, counts, displs, types]"
    )


def _parse(spec: object, name: str, nblocks: int) -> tuple[object, Numbers, Numbers, Datatype | None]:
    """Return memory, counts, displacements and datatype."""
    if not isinstance(spec, list | tuple):
        return spec, None, None, None
    forms = "a vector specification: pass [buf, counts], [buf, counts, type] or [buf, (counts, displs), type]"
    memory, counts, displs, datatype = parts(spec, name, forms)
    numbers = _counts(counts, name, nblocks)
    empty = numbers is not None and not any(_one_each(numbers, nblocks))
    return memory, numbers, _numbers(displs, f"displs in {name}", nblocks), resolve_type(datatype, name, empty)


def _counts(value: Any, name: str, nblocks: int) -> Numbers:
    numbers = _numbers(value, f"counts in {name}", nblocks)
    if (min(numbers, default=0) if isinstance(numbers, list) else numbers or 0) < 0:
        raise InvalidCountError(f"counts in {name} are {numbers}: expected 0 or more")
    return numbers


def _numbers(value: Any, what: str, nblocks: int) -> Numbers:
    """Return one number for all ranks, or a number for each rank; None if no number is given."""
    if value is None:
        return None
    if type(value) is list and set(map(type, value)) == {int}:  # the usual case
        numbers = value
    elif isinstance(value, str | bytes) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        return integer(value, what)
    else:
        numbers = [integer(number, what) for number in value]
    if len(numbers) != nblocks:
        raise InvalidArgumentError(f"{what} has {len(numbers)} entries: expected {nblocks}, one for each rank")
    return numbers
