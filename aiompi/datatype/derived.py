"""Constructors of derived datatypes (section 3.12.1; 4.1.2 to 4.1.7 of MPI-3.1).

Arguments are copied. Counts and block lengths may be 0, which makes no entries; strides and displacements may have any
value. A derived type must be committed before it is used in communication, but not to derive other types from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from aiompi import constants
from aiompi.base.arguments import integer
from aiompi.base.lazy import np
from aiompi.datatype import arguments as check
from aiompi.datatype.arguments import Numbers
from aiompi.datatype.array_parts import distributed, subarray
from aiompi.datatype.handle import TypeHandle, TypeState
from aiompi.datatype.typemap import F, TypeMap, recalled

if TYPE_CHECKING:
    from aiompi.datatype.datatype import Datatype


class Constructors(TypeHandle):
    """The constructors, as methods of the old datatype.

    All of them

    Raises:
        InvalidArgumentError: sequences of different lengths, or displacements of more than 64 bits.
        InvalidCountError: a count or block length is negative.
        InvalidTypeError: this type is null, freed or a marker, or a type of a struct is null or freed.
        TypeError: an argument is not an integer, or not a sequence of integers.
    """

    __slots__ = ()

    def Dup(self) -> Self:
        """Make a new type with the same type map, bounds and committed state (section 4.1.10 of MPI-3.1)."""
        old = self._component()

        def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
            return form(old)

        made = TypeMap.derived(constants.COMBINER_DUP, {}, (old,), compose)
        made.dtype = old.dtype
        duplicate = self._of(made, TypeState(committed=self._state.committed))
        self._copy_attributes(duplicate)
        return duplicate

    Create_dup = Dup

    def Create_contiguous(self, count: int) -> Self:
        """Make a type of copies one after the other (MPI_Type_contiguous).

        Args:
            count: number of copies, one extent apart.

        Returns:
            The new datatype.
        """
        old = self._component()
        count = check.count(count, "count")

        def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
            return form(old).repeat(count, old.extent)

        return self._derive(constants.COMBINER_CONTIGUOUS, {"count": count}, old, compose)

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Self:
        """Make a type of blocks at equal distances (MPI_Type_vector).

        Args:
            count: number of blocks.
            blocklength: copies in each block, one extent apart.
            stride: distance from block to block, in extents; it may be negative, 0, or less than a block.

        Returns:
            The new datatype.
        """
        return self._vector(constants.COMBINER_VECTOR, count, blocklength, stride, self._component().extent)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Self:
        """Make a type of blocks at equal distances (MPI_Type_create_hvector).

        Args:
            count: number of blocks.
            blocklength: copies in each block, one extent apart.
            stride: distance from block to block, in bytes.

        Returns:
            The new datatype.
        """
        return self._vector(constants.COMBINER_HVECTOR, count, blocklength, stride, 1)

    def Create_indexed(self, blocklengths: Numbers, displacements: Numbers) -> Self:
        """Make a type of blocks with their own lengths and displacements, in the order listed (MPI_Type_indexed).

        Args:
            blocklengths: shape (count,), copies in each block, one extent apart.
            displacements: shape (count,), where each block begins, in extents.

        Returns:
            The new datatype.
        """
        return self._indexed(constants.COMBINER_INDEXED, blocklengths, displacements, self._component().extent)

    def Create_hindexed(self, blocklengths: Numbers, displacements: Numbers) -> Self:
        """Make a type of blocks with their own lengths and displacements, as listed (MPI_Type_create_hindexed).

        Args:
            blocklengths: shape (count,), copies in each block, one extent apart.
            displacements: shape (count,), where each block begins, in bytes.

        Returns:
            The new datatype.
        """
        return self._indexed(constants.COMBINER_HINDEXED, blocklengths, displacements, 1)

    def Create_indexed_block(self, blocklength: int, displacements: Numbers) -> Self:
        """Make a type of blocks of equal length with their own displacements (MPI_Type_create_indexed_block).

        Args:
            blocklength: copies in each block, one extent apart.
            displacements: shape (count,), where each block begins, in extents.

        Returns:
            The new datatype.
        """
        return self._blocks(constants.COMBINER_INDEXED_BLOCK, blocklength, displacements, self._component().extent)

    def Create_hindexed_block(self, blocklength: int, displacements: Numbers) -> Self:
        """Make a type of blocks of equal length with their own displacements (MPI_Type_create_hindexed_block).

        Args:
            blocklength: copies in each block, one extent apart.
            displacements: shape (count,), where each block begins, in bytes.

        Returns:
            The new datatype.
        """
        return self._blocks(constants.COMBINER_HINDEXED_BLOCK, blocklength, displacements, 1)

    @classmethod
    def Create_struct(cls, blocklengths: Numbers, displacements: Numbers, datatypes: Sequence[Datatype]) -> Self:
        """Make a type of blocks of different types (MPI_Type_create_struct, MPI_Type_struct).

        Args:
            blocklengths: shape (count,), copies in each block, one extent of its type apart.
            displacements: shape (count,), where each block begins, in bytes.
            datatypes: (count) types; LB and UB set the bounds of the struct.

        Returns:
            The new datatype.
        """
        maps = _components(datatypes)
        known = recalled(constants.COMBINER_STRUCT, maps, blocklengths, displacements)
        if known is not None:
            return cls._of(known)
        lengths = check.few_counts(blocklengths, "blocklengths")
        starts = check.few_integers(displacements, "displacements")
        check.same_length(blocklengths=lengths, displacements=starts, datatypes=maps)
        blocks: list[tuple[TypeMap, Any, Any]] = []

        def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
            if not blocks:  # the type map is new
                blocks.extend(_same_types(maps, starts, lengths))
            joined: F = kind.concat([_block(form(old), old.extent, start, length) for old, start, length in blocks])
            return joined

        given = {"blocklengths": lengths, "displacements": starts}
        return cls._of(TypeMap.derived(constants.COMBINER_STRUCT, given, maps, compose))

    def Create_subarray(
        self,
        sizes: Numbers,
        subsizes: Numbers,
        starts: Numbers,
        order: int = constants.ORDER_C,
    ) -> Self:
        """Make the type of a block of an array, with the extent of the whole array (MPI_Type_create_subarray).

        Args:
            sizes: shape (ndims,), elements of the array in each dimension.
            subsizes: shape (ndims,), elements of the block, from 1 to the size of the array.
            starts: shape (ndims,), indices of the first element of the block.
            order: ORDER_C (the last index varies fastest) or ORDER_FORTRAN (the first index does).

        Returns:
            The new datatype.

        Raises:
            InvalidArgumentError: the block is not within the array, there are no dimensions, or `order` is
                unknown.
        """
        old = self._component()
        known = recalled(constants.COMBINER_SUBARRAY, (old,), sizes, subsizes, starts, order)
        return self._of(subarray(old, sizes, subsizes, starts, order) if known is None else known)

    def Create_darray(
        self,
        size: int,
        rank: int,
        gsizes: Numbers,
        distribs: Numbers,
        dargs: Numbers,
        psizes: Numbers,
        order: int = constants.ORDER_C,
    ) -> Self:
        """Make the type of one process's part of an array distributed over a grid (MPI_Type_create_darray).

        The type has the extent of the whole array. Its size is 0 if the process owns no element.

        Args:
            size: number of processes.
            rank: rank of the process in the row-major grid.
            gsizes: shape (ndims,), elements of the array in each dimension.
            distribs: shape (ndims,), DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC or DISTRIBUTE_NONE.
            dargs: shape (ndims,), elements of a block, or DISTRIBUTE_DFLT_DARG; ignored for DISTRIBUTE_NONE.
            psizes: shape (ndims,), processes in each dimension of the grid.
            order: ORDER_C (the last index varies fastest) or ORDER_FORTRAN (the first index does).

        Returns:
            The new datatype.

        Raises:
            InvalidArgumentError: the grid does not have `size` processes, `rank` is out of range, blocks do not
                cover the array, or another argument is invalid.
        """
        return self._of(distributed(self._component(), size, rank, gsizes, distribs, dargs, psizes, order))

    def Create_resized(self, lb: int, extent: int) -> Self:
        """Make a type with the same entries and new bounds (MPI_Type_create_resized).

        Args:
            lb: lower bound in bytes; markers in the old type no longer count.
            extent: bytes from one item to the next; may be less than the size of the data, 0, or negative.

        Returns:
            The new datatype.
        """
        old = self._component()
        lb, extent = integer(lb, "lb"), integer(extent, "extent")

        def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
            return form(old)

        given = {"lb": lb, "extent": extent}
        return self._derive(constants.COMBINER_RESIZED, given, old, compose, (lb, lb + extent))

    Resized = Create_resized

    def _vector(self, combiner: int, count: int, blocklength: int, stride: int, unit: int) -> Self:
        """Make a type of blocks that are `stride` units of `unit` bytes apart."""
        old = self._component()
        count, blocklength = check.count(count, "count"), check.count(blocklength, "blocklength")
        stride = integer(stride, "stride")

        def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
            return form(old).repeat(blocklength, old.extent).repeat(count, stride * unit)

        given = {"count": count, "blocklength": blocklength, "stride": stride}
        return self._derive(combiner, given, old, compose)

    def _indexed(self, combiner: int, blocklengths: Any, displacements: Any, unit: int) -> Self:
        """Make a type of blocks at displacements in units of `unit` bytes."""
        old = self._component()
        few = _are_few(displacements)
        lengths = (check.few_counts if few else check.counts)(blocklengths, "blocklengths")
        starts = (check.few_integers if few else check.integers)(displacements, "displacements")
        check.same_length(blocklengths=lengths, displacements=starts)

        def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
            there, each = np.asarray(starts, np.int64), np.asarray(lengths, np.int64)
            check.check_reach(there, each, unit, old.extent)
            return form(old).place(there * unit, each, old.extent)

        return self._derive(combiner, {"blocklengths": lengths, "displacements": starts}, old, compose)

    def _blocks(self, combiner: int, blocklength: int, displacements: Any, unit: int) -> Self:
        """Make a type of blocks of equal length at displacements in units of `unit` bytes."""
        old = self._component()
        blocklength = check.count(blocklength, "blocklength")
        few = _are_few(displacements)
        starts = (check.few_integers if few else check.integers)(displacements, "displacements")

        def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
            there = np.asarray(starts, np.int64)
            check.check_reach(there, blocklength, unit, old.extent)
            return form(old).place(there * unit, blocklength, old.extent)

        return self._derive(combiner, {"blocklength": blocklength, "displacements": starts}, old, compose)


def _are_few(numbers: object) -> bool:
    """Return True for a short list: it becomes a tuple, by which `TypeMap.derived` finds an equal earlier call."""
    return isinstance(numbers, list | tuple) and len(numbers) <= 64


def _components(datatypes: Iterable[object]) -> tuple[TypeMap, ...]:
    """Return the type maps of the types of a struct; markers are allowed."""
    if not isinstance(datatypes, list | tuple | Iterable):
        raise TypeError(f"datatypes is {datatypes!r}: expected a sequence of Datatypes")
    maps = []
    for i, datatype in enumerate(datatypes):
        if not isinstance(datatype, TypeHandle):
            raise TypeError(f"datatypes[{i}] is {datatype!r}: expected a Datatype")
        if datatype._null:
            datatype._component(f"datatypes[{i}]")
        maps.append(datatype._map)
    return tuple(maps)


def _same_types(
    maps: tuple[TypeMap, ...], starts: tuple[int, ...], lengths: tuple[int, ...]
) -> Iterator[tuple[TypeMap, Any, Any]]:
    """Yield (type, displacements, lengths) for each run of blocks of one type: arrays, or ints for a single block."""
    first = 0
    for last, old in enumerate(maps):
        if last + 1 < len(maps) and maps[last + 1] is old:
            continue
        if first == last:
            yield old, starts[first], lengths[first]
        else:
            there, each = (np.array(numbers[first : last + 1], np.int64) for numbers in (starts, lengths))
            check.check_reach(there, each, 1, old.extent)
            yield old, there, each
        first = last + 1


def _block(part: F, extent: int, start: Any, length: Any) -> F:
    if isinstance(start, int):
        return part.repeat(length, extent).shift(start)
    return part.place(start, length, extent)
