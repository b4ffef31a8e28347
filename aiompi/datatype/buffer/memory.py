"""`MPI.buffer`, the memory that Alloc_mem returns and that user-defined operations receive."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Self

import numpy as np

from aiompi.datatype.buffer.arrays import bytes_of
from aiompi.datatype.buffer.exporters import Description, exported

__all__ = ["buffer", "memory"]


class buffer(np.ndarray[Any, np.dtype[np.uint8]]):  # noqa: N801 - the name in mpi4py
    """A sequence of bytes in memory, with the buffer protocol; `numpy.frombuffer(memory, "d")` reads doubles.

    Args:
        buf: any contiguous buffer, whose memory is shared and kept alive; empty by default.

    Attributes:
        obj: the owner of the memory.
    """

    obj: Any
    _released: bool

    def __new__(cls, buf: Any = b"") -> Self:
        if isinstance(buf, bytes) and not buf:
            return cls._over(bytearray(), None)
        return cls._over(buf, buf)

    @classmethod
    def _over(cls, exporter: Any, owner: Any, readonly: bool = False) -> Self:
        view = exported(exporter)
        if view is None:
            raise TypeError(f"buf is of type {type(exporter).__name__}, which has no buffer protocol; pass a bytearray")
        flat = view.cast("B") if isinstance(view, memoryview) and view.c_contiguous and view.nbytes else None
        plain = np.frombuffer(flat if flat is not None else bytes_of(np.asarray(view)), np.uint8)
        self = plain.view(cls)
        self.flags.writeable = self.flags.writeable and not readonly
        self.obj = owner
        self._released = False
        return self

    def __array_finalize__(self, array: Any) -> None:
        self.obj = getattr(array, "obj", None)
        self._released = False

    def __bool__(self) -> bool:
        """Return True unless the memory is empty, as for any sequence."""
        return self.size > 0

    @staticmethod
    def allocate(nbytes: int, clear: bool = False) -> buffer:
        """Return new memory.

        Args:
            nbytes: length.
            clear: True to fill it with zeros.

        Raises:
            ValueError: the length is negative.
        """
        if index(nbytes) < 0:
            raise ValueError(f"nbytes is {nbytes}: expected 0 or more")
        room = np.zeros(max(nbytes, 1), np.uint8) if clear else np.empty(max(nbytes, 1), np.uint8)
        return buffer.over(room[:nbytes])

    @classmethod
    def over(cls, room: np.ndarray[Any, np.dtype[np.uint8]]) -> Self:
        """Return the memory of an array of bytes, which is kept alive.

        Args:
            room: an array of bytes.

        Returns:
            The buffer.
        """
        made = room.view(cls)
        made.obj = room
        return made

    @staticmethod
    def frombuffer(obj: Any, readonly: bool = False) -> buffer:
        """Return the memory of any contiguous buffer.

        Args:
            obj: an object with the buffer protocol.
            readonly: True to refuse writes.

        Returns:
            The buffer.
        """
        return buffer._over(obj, obj, readonly)

    @staticmethod
    def fromaddress(address: int, nbytes: int, readonly: bool = False) -> buffer:
        """Return memory of this process at an address; the caller must keep it valid.

        Args:
            address: of the first byte.
            nbytes: number of bytes.
            readonly: True to refuse writes.

        Returns:
            The buffer.

        Raises:
            ValueError: the length is negative, or the address is 0.
            InvalidBufferError: this process has no memory at that address.
        """
        if index(nbytes) < 0 or (nbytes and not address):
            raise ValueError(f"{nbytes} bytes at address {address}: expected 0 or more, and an address that is not 0")
        if not nbytes:
            return buffer()
        return buffer._over(Description(None, address, (nbytes,), None, "|u1", readonly).array(), None)

    @property
    def address(self) -> int:
        """Address of the first byte; 0 if there is no memory."""
        if self._released or (self.obj is None and not len(self)):
            return 0
        return int(self.ctypes.data)

    @property
    def nbytes(self) -> int:
        """Length in bytes; 0 after `release`."""
        return 0 if self._released else super().size

    @property
    def readonly(self) -> bool:
        """True if the memory cannot be written."""
        return not self._released and not self.flags.writeable

    @property
    def format(self) -> str:
        """The format of unsigned bytes, "B"."""
        return "B"

    def toreadonly(self) -> buffer:
        """Return a read-only view of the same memory."""
        return buffer._over(self, self.obj, readonly=True)

    def cast(self, format: str, shape: Sequence[int] | None = None) -> memoryview:
        """Return the memory as a view of items with a format of the module struct, and with a shape.

        Args:
            format: one letter.
            shape: number of items along each axis; one axis by default.
        """
        view: Any = memoryview(self.data)
        cast: memoryview = view.cast(format) if shape is None else view.cast(format, list(shape))
        return cast

    def tobytes(self, order: str | None = None) -> bytes:
        """Return a copy of the bytes; `order` has no effect.

        Args:
            order: as of `memoryview.tobytes`.

        Returns:
            A copy of the bytes.
        """
        return super().tobytes()

    def release(self) -> None:
        """Release the memory, which is freed when nothing else refers to it."""
        self._released = True
        self.obj = None

    def __len__(self) -> int:
        return 0 if self._released else super().__len__()

    def __getitem__(self, item: Any) -> Any:
        value = super().__getitem__(self._checked(item))
        return value if isinstance(item, slice) else int(value)

    def __setitem__(self, item: Any, value: Any) -> None:
        where = self._checked(item)
        if self.readonly:
            raise TypeError("the memory is read-only")
        if not isinstance(value, int | np.integer):
            value = np.frombuffer(value, np.uint8) if len(value) else np.empty(0, np.uint8)
        super().__setitem__(where, value)

    def __delitem__(self, item: Any) -> None:
        raise NotImplementedError("bytes of memory cannot be deleted")

    def _checked(self, item: Any) -> Any:
        if not isinstance(item, slice):
            return index(item)
        if item.step not in (None, 1):
            raise IndexError(f"a step of {item.step}: memory is sliced without steps")
        return item

    def __eq__(self, other: object) -> Any:
        return self is other

    __hash__ = None

    def __repr__(self) -> str:
        return f"<MPI.buffer of {self.nbytes} bytes at {self.address:#x}>"

    __str__ = __repr__


#: name in earlier versions of mpi4py
memory = buffer
