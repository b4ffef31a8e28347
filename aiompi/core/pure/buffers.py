"""The memory of messages as bytes."""

from __future__ import annotations

from sys import modules
from typing import Any, Final

from aiompi.base.lazy import np

#: bytes up to which an array is copied to be sent, because a copy takes less time than a view of its memory
COPIED: Final = 1024
#: NumPy's number of its last type of plain numbers, but for float16
_CLONGDOUBLE: Final = 16
#: types of objects that share their memory with no other object
_OWNERS: Final = frozenset({bytes, bytearray})
#: destinations of messages that are bytes
Span = memoryview


class Exporter:
    """An object with the buffer protocol, from Python 3.12 on; its method `tomemory` returns the memory."""

    __slots__ = ()

    def tomemory(self) -> Any:
        """Return the memory."""
        raise NotImplementedError

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.tomemory())


def is_plain(spec: Any) -> bool:
    """Return True for an array of plain numbers of this machine."""
    numpy = modules.get("numpy")
    if numpy is None or type(spec) is not getattr(numpy, "ndarray", None):
        return False
    dtype = spec.dtype
    return bool(dtype.isnative and (dtype.num <= _CLONGDOUBLE or dtype.char == "e"))


def plain_bytes(array: Any) -> memoryview | None:
    """Return the memory of a NumPy array of plain numbers without gaps, in the order of memory.

    Returns:
        None for all other objects.
    """
    if not is_plain(array) or not array.flags.forc:
        return None
    if not array.size:
        return memoryview(bytearray() if array.flags.writeable else b"")
    return (array if array.flags.c_contiguous else array.T).data.cast("B")  # type: ignore[no-any-return]


def overlap(one: memoryview, other: memoryview) -> bool:
    """Return True if two memoryviews of contiguous bytes share a byte."""
    if type(one.obj) in _OWNERS and type(other.obj) in _OWNERS and one.obj is not other.obj:
        return False  # without NumPy
    return np.may_share_memory(one, other)


def outgoing(spec: object) -> bytes | memoryview | None:
    """Return the bytes to send for a buffer specification of a common kind, as a copy if they are few.

    The common kinds are NumPy arrays of plain numbers. An array without gaps is sent in the order of memory, a short
    array with gaps in the order of the indices. The native form also takes [memory, type] and [memory, count, type] of
    contiguous memory, if the memory is an array or the message is short.

    Returns:
        The bytes; None for specifications of any other kind, and for wrong specifications.
    """
    if not is_plain(spec):
        return None
    array: Any = spec
    if array.nbytes <= COPIED:
        return array.tobytes("A" if array.flags.forc else "C")  # type: ignore[no-any-return]
    return plain_bytes(array)


def incoming(spec: object) -> memoryview | None:
    """Return the memory of a buffer specification as the destination of a message, in the order of memory.

    Returns:
        The memory. None if `outgoing` would return None, if the memory is read-only, or if a message must be unpacked
        into it.
    """
    view = plain_bytes(spec)
    return None if view is None or view.readonly else view
