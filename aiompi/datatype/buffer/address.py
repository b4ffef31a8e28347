"""Addresses, and the memory behind them: Get_address, BOTTOM (sections 3.12.2 and 3.12.6).

An address is the real address of a byte, so that differences inside one storage are distances in bytes. But no
address is followed blindly. `Get_address` notes in whose memory the location is; a buffer that starts at BOTTOM
is looked up there, piece by piece, and every piece must lie in a storage that still exists. Owners are known by
weak reference. Those that allow none, such as bytearray, are kept, and kept from moving, until `release`.

    owner      the object that frees the memory: not a slice or view of it, but what that was taken from
    storage    the memory of one owner, from its first byte to its last
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, SupportsIndex, TypeAlias

import numpy as np

from aiompi.arguments import integer
from aiompi.datatype.buffer.constant import Constant
from aiompi.datatype.buffer.exporters import exported
from aiompi.datatype.layout import arrange
from aiompi.datatype.layout.layout import Layout, Part, StridedBlock
from aiompi.datatype.layout.layout import span_of as bounds_of
from aiompi.errors import InvalidBufferError, InvalidTypeError

__all__ = [
    "BOTTOM", "Aint_add", "Aint_diff", "Bottom", "Constant", "Free_address", "Get_address", "Piece", "Registry",
    "Storage", "array_of", "owner_of", "registry", "span_of",
]  # fmt: skip

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Offsets: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
#: where runs lie in memory, where in the message, and how long they are
Runs: TypeAlias = tuple[Offsets, Offsets, Offsets]


#: so many layouts are remembered with the storages they lie in, for programs that use them over and over
_RECENT: Final = 16


class Bottom(Constant):
    """Type of `BOTTOM`, the buffer from which absolute addresses count (section 3.12.2). It equals 0."""

    __slots__ = ()

    _name, _value = "BOTTOM", 0


BOTTOM: Final = Bottom()


def owner_of(location: object) -> Any:
    """The object that frees the memory in which a buffer lies: what it is a view of, or itself."""
    while (parent := _parent(location)) is not None:
        location = parent
    return location


def _parent(location: object) -> object:
    """What an object has its memory from; None if that is its own, or that of a stranger."""
    if isinstance(location, np.ndarray):
        base = location.base
        # A view made by numpy's strided tricks has a helper for its base, and the array behind that.
        return next(
            (it for it in (base, getattr(base, "base", None)) if isinstance(it, np.ndarray) or _exports(it)), None
        )
    if isinstance(location, memoryview):
        return location.obj
    return getattr(location, "_b_base_", None)  # of a member of a ctypes structure or array


def _exports(candidate: object) -> bool:
    try:
        memoryview(candidate).release()  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


class _Span:
    """The bytes of an array from its first in memory to its last, to be taken up by numpy."""

    def __init__(self, base: np.ndarray[Any, Any], start: int, nbytes: int) -> None:
        self.base = base
        self.__array_interface__ = {
            "data": (start, not base.flags.writeable),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def span_of(owner: object) -> Bytes:
    """All memory of an owner, in the order of addresses; while it lives, so does the owner, which cannot move."""
    if not isinstance(owner, np.ndarray):
        memory: Any = exported(owner)
        return span_of(memory) if isinstance(memory, np.ndarray) else np.frombuffer(memory, np.uint8)
    if owner.size == 0:
        return np.empty(0, np.uint8)
    reach = [(n - 1) * stride for n, stride in zip(owner.shape, owner.strides, strict=True)]
    start = _address(owner) + sum(step for step in reach if step < 0)
    nbytes = sum(abs(step) for step in reach) + owner.itemsize
    return np.asarray(_Span(owner, start, nbytes))


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


class Storage:
    """The memory of one owner as it was registered.

    Args:
        owner: see `owner_of`.
        forget: called when the owner is gone.

    Attributes:
        start: address of the first byte.
        stop: address behind the last byte.
    """

    __slots__ = ("_owner", "_pin", "start", "stop")

    def __init__(self, owner: object, forget: Callable[[weakref.ref[Any]], None]) -> None:
        memory = span_of(owner)
        self.start = _address(memory)
        self.stop = self.start + memory.size
        self._pin: Bytes | None = None
        self._owner: weakref.ref[Any] | None = None
        try:
            self._owner = weakref.ref(owner, forget)
        except TypeError:
            self._pin = memory

    def memory(self) -> Bytes | None:
        """The memory, which stays in place while the result lives; None if it was freed or has moved."""
        if self._owner is None:
            return self._pin
        owner = self._owner()
        try:
            memory = None if owner is None else span_of(owner)
        except (ValueError, BufferError):  # closed
            return None
        there = memory is not None and (_address(memory), memory.size) == (self.start, self.stop - self.start)
        return memory if there else None


class Piece(NamedTuple):
    """The part of a layout that lies in one memory.

    Attributes:
        layout: says for every byte of the part where it is in the whole packed message.
        memory: the bytes in which it lies.
        base: position in `memory` of address 0 of the layout.
    """

    layout: Layout
    memory: memoryview | Bytes
    base: int


class _Index(NamedTuple):
    """Storages in the order of their addresses. None contains another, so that both bounds grow."""

    starts: Offsets
    stops: Offsets
    storages: list[Storage]

    @classmethod
    def of(cls, storages: Iterable[Storage]) -> _Index:
        outer: list[Storage] = []
        for storage in sorted(storages, key=lambda it: (it.start, -it.stop)):
            if not outer or storage.stop > outer[-1].stop:
                outer.append(storage)
        starts = np.array([it.start for it in outer], np.int64)
        return cls(starts, np.array([it.stop for it in outer], np.int64), outer)

    def locate(self, lows: Offsets, highs: Offsets) -> Offsets:
        """For every range [low, high) the number of the storage it lies in, -1 where there is none."""
        if not self.storages:
            return np.full(lows.shape, -1, np.int64)
        # Of those that begin early enough, the last one reaches farthest.
        which = np.searchsorted(self.starts, lows, "right") - 1
        return np.where((which >= 0) & (highs <= self.stops[which]), which, -1)

    def distribute(self, layout: Layout, name: str) -> dict[Storage, Layout]:
        """The parts of a layout by the storages they lie in; each says its place in the whole message.

        Raises:
            InvalidBufferError: a run is in none.
        """
        found: dict[Storage, list[Part]] = {}
        spans = [part.span() for part in layout.blocks]
        whole = self.locate(_integers(span.low for span in spans), _integers(span.high for span in spans))
        for part, which in zip(layout.blocks, whole.tolist(), strict=True):
            if which >= 0:
                found.setdefault(self.storages[which], []).append(part)
                continue
            for which, runs in self._distribute_runs(part, name):
                found.setdefault(self.storages[which], []).append(runs)
        return {storage: Layout(layout.size, bounds_of(parts), tuple(parts)) for storage, parts in found.items()}

    def _distribute_runs(self, part: Part, name: str) -> Iterator[tuple[int, Part]]:
        """What of one part, which does not lie in one storage as a whole, lies in which."""
        memory, packed, lengths = part.expand()
        which = self.locate(memory, memory + lengths)
        if part.kind is None and (which < 0).any():
            memory, packed, lengths = self._cut(which < 0, (memory, packed, lengths))
        order = np.argsort(packed)
        memory, packed, lengths = memory[order], packed[order], lengths[order]
        which = self.locate(memory, memory + lengths)
        if (unknown := which < 0).any():
            raise _unknown(int(memory[unknown][0]), int(lengths[unknown][0]), name)
        for number in np.unique(which).tolist():
            mine = which == number
            if part.kind is None:
                parts = arrange.runs(memory[mine], packed[mine], lengths[mine])
            else:
                element = StridedBlock(0, 0, (), int(lengths[0]), part.kind, part.packed_run)
                parts = arrange.scattered(element, memory[mine], packed[mine])
            yield from ((number, it) for it in parts)

    def _cut(self, chosen: np.ndarray[Any, np.dtype[np.bool_]], runs: Runs) -> Runs:
        """Some runs cut where storages end: two variables may be neighbours by chance, and their runs one."""
        pieces: list[tuple[int, int, int]] = []
        for start, packed, length in zip(*(column[chosen].tolist() for column in runs), strict=True):
            stop, shift = start + length, packed - start
            which = int(np.searchsorted(self.stops, start, "right"))
            while which < len(self.stops) and self.stops[which] < stop:
                end = int(self.stops[which])
                pieces.append((start, start + shift, end - start))
                start, which = end, which + 1
            pieces.append((start, start + shift, stop - start))
        cut = np.array(pieces, np.int64).T
        memory, packed, lengths = (np.concatenate((old[~chosen], new)) for old, new in zip(runs, cut, strict=True))
        return memory, packed, lengths


def _unknown(address: int, nbytes: int, name: str) -> InvalidBufferError:
    return InvalidBufferError(
        f"{name}: {nbytes} bytes at address {address:#x} are in no memory that Get_address knows, or partly outside, "
        "or the memory was freed; take the address of the variable, keep the variable, and stay within it"
    )


def _integers(values: Iterable[int]) -> Offsets:
    return np.fromiter(values, np.int64)


class Registry:
    """The storages that addresses were taken in."""

    def __init__(self) -> None:
        self._storages: dict[int, Storage] = {}  # by id() of the owner
        self._index: _Index | None = None  # None: must be made anew
        self._recent: dict[Layout, dict[Storage, Layout]] = {}  # found with this index

    def __len__(self) -> int:
        return len(self._storages)

    def add(self, location: object) -> int:
        """Register the memory that a buffer lies in, all of its owner's.

        Returns:
            The address of the first element.
        """
        array = array_of(location, "location")
        address = _address(array)
        owner = owner_of(location)
        known = self._storages.get(id(owner))
        if known is None or known.memory() is None:
            self._register(owner)
        return address

    def _register(self, owner: object) -> None:
        key = id(owner)

        def forget(_: object) -> None:
            if self._storages.get(key) is storage:
                self._drop(key)

        storage = Storage(owner, forget)
        if storage.start < storage.stop:
            self._storages[key] = storage
            self._index = None

    def release(self, location: object) -> None:
        """Forget the memory that a buffer lies in; addresses in it lead nowhere from now on."""
        self._drop(id(owner_of(location)))

    def _drop(self, key: int) -> None:
        self._storages.pop(key, None)
        self._index = None

    def resolve(self, layout: Layout, writable: bool, name: str) -> list[Piece]:
        """The memory of a layout of absolute addresses.

        Args:
            layout: as `Datatype.layout_of` gives it.
            writable: whether it will be written.
            name: name of the argument, for messages.

        Returns:
            Pieces that make up the packed message together. They keep the memory.

        Raises:
            InvalidBufferError: a run is not within the memory of a living owner, or in memory that is read-only
                and will be written.
        """
        while True:
            parts = self._distributed(layout, name)
            memories = {storage: storage.memory() for storage in parts}
            if gone := [storage for storage, memory in memories.items() if memory is None]:
                # What was in their shade may still be there.
                self._storages = {key: it for key, it in self._storages.items() if it not in gone}
                self._index = None
                continue
            return [
                _piece(parts[storage], memory, storage.start, writable, name)
                for storage, memory in memories.items()
                if memory is not None
            ]

    def _distributed(self, layout: Layout, name: str) -> dict[Storage, Layout]:
        index = self._index
        if index is None:
            index = self._index = _Index.of(list(self._storages.values()))
            self._recent.clear()
        parts = self._recent.get(layout)
        if parts is None:
            parts = index.distribute(layout, name)
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent[layout] = parts
        return parts


def _piece(layout: Layout, memory: Bytes, start: int, writable: bool, name: str) -> Piece:
    if writable and not memory.flags.writeable:
        raise InvalidBufferError(
            f"{name}: address {start:#x} is in read-only memory of {memory.size} bytes, which cannot receive; take "
            "the address of writable memory such as a bytearray or a numpy array"
        )
    return Piece(layout, memory, -start)


def array_of(buffer: object, name: str) -> np.ndarray[Any, Any]:
    """The elements of a buffer; or its bytes, if it is not an array of numpy, but is contiguous.

    Args:
        name: name of the argument, for messages.

    Raises:
        InvalidTypeError: they are references to Python objects.
        TypeError: not an object with the buffer protocol.
    """
    array: np.ndarray[Any, Any]
    if isinstance(buffer, np.ndarray):
        array = np.asarray(buffer)  # a masked array, or another subclass with a mind of its own
    elif isinstance(view := exported(buffer), np.ndarray):
        array = view
    elif view is None:
        raise TypeError(
            f"{name} is of type {type(buffer).__name__}, which has no buffer protocol; pass a bytearray, a numpy "
            "array or the like, or a slice of one"
        )
    else:
        # Not cast(), which takes only formats of one letter.
        array = np.frombuffer(view, np.uint8) if view.c_contiguous and view.format != "O" else np.asarray(view)
    if array.dtype.hasobject:
        raise InvalidTypeError(f"{name} holds references to Python objects, which mean nothing as bytes")
    return array


#: of this process
registry: Final = Registry()


def Get_address(location: object) -> int:
    """Address of a location in memory (MPI_Get_address, section 3.12.2; MPI_Address).

    From now on a buffer at BOTTOM may use addresses in the same storage, also before and behind the location. A
    bytearray cannot be resized until `Free_address`.

    Args:
        location: a bytearray, numpy array, array, ctypes object, or a slice of one: any buffer. The constants that
            stand for buffers, such as BOTTOM, are their own address, and that of None is 0.

    Returns:
        Address of its first element, bytes.

    Raises:
        InvalidTypeError: it holds references to Python objects.
        TypeError: not an object with the buffer protocol.
    """
    if location is None or isinstance(location, Constant):
        return int(location or 0)
    return registry.add(location)


def Free_address(location: object) -> None:
    """Forget the storage of a location, so that addresses in it lead nowhere.

    Memory is forgotten when it is freed; only what allows no weak references, such as bytes and bytearray, stays,
    and cannot be resized, until it is released.

    Args:
        location: as for `Get_address`; any part of the storage.
    """
    registry.release(location)


def Aint_add(base: SupportsIndex, disp: SupportsIndex) -> int:
    """Address that is `disp` bytes after an address (MPI_Aint_add, 4.1.5 of MPI-3.1)."""
    return integer(base, "base") + integer(disp, "disp")


def Aint_diff(addr1: SupportsIndex, addr2: SupportsIndex) -> int:
    """Bytes from the second of two addresses to the first (MPI_Aint_diff, 4.1.5 of MPI-3.1)."""
    return integer(addr1, "addr1") - integer(addr2, "addr2")
