"""Addresses and the memory to which they refer: Get_address, BOTTOM (sections 3.12.2 and 3.12.6).

An address is the real address of a byte, so differences within one storage are distances in bytes. Addresses are
checked before use: `Get_address` registers the storage of the location, and every piece of a buffer at BOTTOM must lie
in a registered storage that still exists. The registry holds weak references to owners. Owners without support for weak
references, such as bytearray, are kept alive and in place until `release`.

    owner      the object that frees the memory, not a slice or view of it
    storage    the memory of one owner, from its first byte to its last
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self, SupportsIndex, TypeAlias

from aiompi.base.arguments import integer
from aiompi.base.lazy import is_array, np
from aiompi.datatype.buffer.exporters import exported
from aiompi.datatype.layout import arrange
from aiompi.datatype.layout.layout import Layout, Part, StridedBlock
from aiompi.datatype.layout.layout import span_of as bounds_of
from aiompi.errors import InvalidBufferError, InvalidTypeError

__all__ = [
    "AddressConstant", "BOTTOM", "BUFFER_AUTOMATIC", "IN_PLACE", "Aint_add", "Aint_diff", "Bottom", "BufferAutomatic",
    "Free_address", "Get_address", "InPlace", "Piece", "Registry", "Storage", "array_of", "owner_of",
    "registry", "span_of",
]  # fmt: skip

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Offsets: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
#: positions of runs in memory, positions in the message, and lengths
Runs: TypeAlias = tuple[Offsets, Offsets, Offsets]

#: number of layouts cached with their storages, for programs that use them repeatedly
_RECENT: Final = 16


class AddressConstant(int):
    """An address that stands for a buffer (section 2.5.4). It equals its number, but cannot be used in arithmetic."""

    __slots__ = ()

    _name: ClassVar[str]
    _value: ClassVar[int]

    def __new__(cls) -> Self:
        return super().__new__(cls, cls._value)

    def _refuse(self, other: object) -> NoReturn:
        raise TypeError(f"{self._name} stands for a buffer: use Aint_add and Aint_diff for address arithmetic")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


class Bottom(AddressConstant):
    """Type of `BOTTOM`, the origin of absolute addresses (section 3.12.2). It equals 0."""

    __slots__ = ()

    _name, _value = "BOTTOM", 0


class InPlace(AddressConstant):
    """Type of `IN_PLACE`, passed as the send buffer if the receive buffer holds the contribution."""

    __slots__ = ()

    _name, _value = "IN_PLACE", -1


class BufferAutomatic(AddressConstant):
    """Type of `BUFFER_AUTOMATIC`, which selects memory that grows with the messages (MPI-4.1)."""

    __slots__ = ()

    _name, _value = "BUFFER_AUTOMATIC", -2


BOTTOM: Final = Bottom()
IN_PLACE: Final = InPlace()
BUFFER_AUTOMATIC: Final = BufferAutomatic()


def owner_of(location: object) -> Any:
    """Return the object that owns a buffer's memory: the buffer itself or, for a view, the object that it views."""
    while (parent := _parent(location)) is not None:
        location = parent
    return location


def _parent(location: object) -> object:
    """Return the object whose memory `location` uses; None if `location` owns its memory, or the owner is unknown."""
    if is_array(location):
        base = location.base
        # The base of a view made by numpy's stride_tricks is a helper object, whose base is the array.
        return next((it for it in (base, getattr(base, "base", None)) if is_array(it) or _exports(it)), None)
    if isinstance(location, memoryview):
        return location.obj
    return getattr(location, "_b_base_", None)  # set for a member of a ctypes structure or array


def _exports(candidate: object) -> bool:
    try:
        memoryview(candidate).release()  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


class _Span:
    """An array interface over the memory from the first byte of an array to its last."""

    def __init__(self, base: np.ndarray[Any, Any], start: int, nbytes: int) -> None:
        self.base = base
        self.__array_interface__ = {
            "data": (start, not base.flags.writeable),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def span_of(owner: object) -> Bytes:
    """Return all memory of an owner in address order; the result keeps the owner alive and in place."""
    if not is_array(owner):
        memory: Any = exported(owner)
        return span_of(memory) if is_array(memory) else np.frombuffer(memory, np.uint8)
    if owner.size == 0:
        return np.empty(0, np.uint8)
    reach = [(n - 1) * stride for n, stride in zip(owner.shape, owner.strides, strict=True)]
    start = _address(owner) + sum(step for step in reach if step < 0)
    nbytes = sum(abs(step) for step in reach) + owner.itemsize
    return np.asarray(_Span(owner, start, nbytes))


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


class Storage:
    """The registered memory of one owner.

    Args:
        owner: result of `owner_of`.
        forget: called when the owner is deleted.

    Attributes:
        start: address of the first byte.
        stop: address after the last byte.
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
        """Return the memory, which stays in place while the result lives; None if it was freed or has moved."""
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
    """The part of a layout in one memory.

    Attributes:
        layout: layout of the part; packed positions are those in the whole message.
        memory: the memory of the part.
        base: position in `memory` of address 0 of the layout.
    """

    layout: Layout
    memory: memoryview | Bytes
    base: int


class _Index(NamedTuple):
    """Storages in address order. No storage contains another, so both bounds increase."""

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
        """Return, for each range [low, high), the index of the storage that contains it, or -1."""
        if not self.storages:
            return np.full(lows.shape, -1, np.int64)
        # Of the storages that begin at or before `low`, the last one has the highest end.
        which = np.searchsorted(self.starts, lows, "right") - 1
        return np.where((which >= 0) & (highs <= self.stops[which]), which, -1)

    def distribute(self, layout: Layout, name: str) -> dict[Storage, Layout]:
        """Return the part of a layout in each storage; packed positions remain positions in the whole message.

        Raises:
            InvalidBufferError: a run is not within a storage.
        """
        found: dict[Storage, list[Part]] = {}
        spans = [part.span() for part in layout.blocks]
        whole = self.locate(*np.array(spans, np.int64).reshape(-1, 2).T)
        for part, which in zip(layout.blocks, whole.tolist(), strict=True):
            if which >= 0:
                found.setdefault(self.storages[which], []).append(part)
                continue
            for which, runs in self._distribute_runs(part, name):
                found.setdefault(self.storages[which], []).append(runs)
        return {storage: Layout(layout.size, bounds_of(parts), tuple(parts)) for storage, parts in found.items()}

    def _distribute_runs(self, part: Part, name: str) -> Iterator[tuple[int, Part]]:
        """Split a part that is not within a single storage: yield (index of storage, part) for each resulting part."""
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
        """Cut the chosen runs where storages end: adjacent runs of two variables may have been merged into one run."""
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
        f"{name}: {nbytes} bytes at address {address:#x} are not within memory that was passed to Get_address, "
        "or the memory was freed; take the address of the variable, keep the variable, and stay within it"
    )


class Registry:
    """The storages whose addresses were taken."""

    def __init__(self) -> None:
        self._storages: dict[int, Storage] = {}  # by id() of the owner
        self._index: _Index | None = None  # None: must be rebuilt
        self._recent: dict[Layout, dict[Storage, Layout]] = {}  # results with this index

    def __len__(self) -> int:
        return len(self._storages)

    def add(self, location: object) -> int:
        """Register the storage of a buffer.

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
        """Unregister the storage of a buffer; addresses in it become invalid."""
        self._drop(id(owner_of(location)))

    def _drop(self, key: int) -> None:
        self._storages.pop(key, None)
        self._index = None

    def resolve(self, layout: Layout, writable: bool, name: str) -> list[Piece]:
        """Return the memory of a layout of absolute addresses.

        Args:
            layout: result of `Datatype.layout_of`.
            writable: True if it will be written.
            name: name of the argument, for messages.

        Returns:
            Pieces that together form the packed message. They keep the memory alive.

        Raises:
            InvalidBufferError: a run is not within the memory of a live owner, or is in read-only memory that
                will be written.
        """
        while True:
            parts = self._distributed(layout, name)
            memories = {storage: storage.memory() for storage in parts}
            if gone := [storage for storage, memory in memories.items() if memory is None]:
                # A smaller storage at the place of a freed one may still exist.
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
    """Return a buffer as an array of its elements; as an array of its bytes if it is contiguous and not yet an array.

    Args:
        name: name of the argument, for messages.

    Raises:
        InvalidTypeError: the elements are references to Python objects.
        TypeError: the object has no buffer protocol.
    """
    array: np.ndarray[Any, Any]
    if is_array(buffer):
        array = np.asarray(buffer)  # a masked array or another subclass may behave differently
    elif is_array(view := exported(buffer)):
        array = view
    elif view is None:
        raise TypeError(
            f"{name} is of type {type(buffer).__name__}, which has no buffer protocol; pass a bytearray, a numpy "
            "array or the like, or a slice of one"
        )
    else:
        # cast() accepts only formats of one letter.
        array = np.frombuffer(view, np.uint8) if view.c_contiguous and view.format != "O" else np.asarray(view)
    if array.dtype.hasobject:
        raise InvalidTypeError(f"{name} holds references to Python objects, which cannot be sent as bytes")
    return array


#: the registry of this process
registry: Final = Registry()


def Get_address(location: object) -> int:
    """Return the address of a location in memory (MPI_Get_address, section 3.12.2; MPI_Address).

    A buffer at BOTTOM may then use all addresses in the same storage. A bytearray cannot be resized until
    `Free_address`.

    Args:
        location: a bytearray, numpy array, array, ctypes object, or a slice of one: any buffer. A constant that
            replaces a buffer, such as BOTTOM, is its own address. The address of None is 0.

    Returns:
        Address of the first element of the location, bytes.

    Raises:
        InvalidTypeError: the location holds references to Python objects.
        TypeError: the object has no buffer protocol.
    """
    if location is None or isinstance(location, AddressConstant):
        return int(location or 0)
    if getattr(location, "address", None) == 0:  # an `MPI.buffer` without memory
        return 0
    return registry.add(location)


def Free_address(location: object) -> None:
    """Unregister the storage of a location; addresses in it become invalid.

    Memory is unregistered when it is freed. Objects that do not support weak references, such as bytes and bytearray,
    stay registered and cannot be resized until this call.

    Args:
        location: see `Get_address`; any part of the storage.
    """
    registry.release(location)


def Aint_add(base: SupportsIndex, disp: SupportsIndex) -> int:
    """Return the address `disp` bytes after an address (MPI_Aint_add, 4.1.5 of MPI-3.1).

    Args:
        base: an address.
        disp: displacement in bytes.

    Returns:
        The address.
    """
    return integer(base, "base") + integer(disp, "disp")


def Aint_diff(addr1: SupportsIndex, addr2: SupportsIndex) -> int:
    """Return `addr1 - addr2`, the bytes from `addr2` to `addr1` (MPI_Aint_diff, 4.1.5 of MPI-3.1).

    Args:
        addr1: an address.
        addr2: an address.

    Returns:
        The number of bytes.
    """
    return integer(addr1, "addr1") - integer(addr2, "addr2")
