"""Return status of a receive or a probe (section 3.2.5)."""

from __future__ import annotations

from typing import Any, Final, Protocol, Self

from aiompi import errors
from aiompi.base.arguments import integer
from aiompi.constants import ANY_SOURCE, ANY_TAG, UNDEFINED


class _Signature(Protocol):
    def elements(self, nbytes: int, external: bool = False) -> int: ...
    def nbytes(self, elements: int) -> int: ...


class _Layout(Protocol):
    @property
    def size(self) -> int: ...


class _Datatype(Protocol):
    """The part of a datatype that a status uses."""

    @property
    def size(self) -> int: ...
    @property
    def external(self) -> _Layout: ...
    @property
    def signature(self) -> _Signature: ...


class Status:
    """Envelope and length of a message.

    A new status is empty (section 3.7.3): source ANY_SOURCE, tag ANY_TAG, no bytes, not cancelled.

    Args:
        status: status to copy; None for an empty one.

    Attributes:
        source: rank of the sender in the communicator.
        tag: tag of the message.
        error: error class; set only by operations on several requests (section 3.2.5).
        nbytes: length of the message in bytes. A message from another IMPI client counts with its length in external32.
    """

    __slots__ = ("__weakref__", "_cancelled", "_external", "error", "nbytes", "source", "tag")

    source: int
    tag: int
    error: int
    nbytes: int

    def __new__(cls, status: Status | None = None) -> Self:
        self = super().__new__(cls)
        if status is None:
            status = _EMPTY
        elif not isinstance(status, Status):
            raise TypeError(f"status is of type {type(status).__name__}: expected a Status, or nothing")
        self.assign(status)
        self.error = status.error
        return self

    @classmethod
    def of(
        cls,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        nbytes: int = 0,
        cancelled: bool = False,
        external: bool = False,
    ) -> Self:
        """Return the status of a message.

        Args:
            source, tag, nbytes, cancelled: fields of the status.
            external: True if `nbytes` is the length in external32.

        Returns:
            The status.
        """
        self = object.__new__(cls)
        self.source = source
        self.tag = tag
        self.error = errors.SUCCESS
        self.nbytes = nbytes
        self._cancelled = cancelled
        self._external = external
        return self

    def Get_source(self) -> int:
        """Return the rank of the sender.

        Returns:
            The rank.
        """
        return self.source

    def Set_source(self, source: int) -> None:
        """Set the rank of the sender (MPI_Status_set_source, MPI-4.1).

        Args:
            source: rank.
        """
        self.source = integer(source, "Set_source: source")

    def Get_tag(self) -> int:
        """Return the tag of the message.

        Returns:
            The tag.
        """
        return self.tag

    def Set_tag(self, tag: int) -> None:
        """Set the tag of the message (MPI_Status_set_tag, MPI-4.1).

        Args:
            tag: tag.
        """
        self.tag = integer(tag, "Set_tag: tag")

    def Get_error(self) -> int:
        """Return the error class.

        Returns:
            The error class.
        """
        return self.error

    def Set_error(self, error: int) -> None:
        """Set the error class (MPI_Status_set_error, MPI-4.1).

        Args:
            error: error class.
        """
        self.error = integer(error, "Set_error: error")

    def Get_count(self, datatype: _Datatype | None = None) -> int:
        """Return the number of items in the message (MPI_Get_count, section 3.2.5).

        Args:
            datatype: type of the items; BYTE by default.

        Returns:
            The number, or UNDEFINED if the message is not a whole number of items.

        Raises:
            InvalidTypeError: the type is null or freed.
        """
        if datatype is None:
            return self.nbytes
        size = _existing(datatype).external.size if self._external else _existing(datatype).size
        if size == 0:
            return 0 if self.nbytes == 0 else UNDEFINED
        count, rest = divmod(self.nbytes, size)
        return UNDEFINED if rest else count

    def Get_elements(self, datatype: _Datatype) -> int:
        """Return the number of basic elements in the message (MPI_Get_elements, section 3.12.5).

        Args:
            datatype: type with which the message was received or will be received.

        Returns:
            The number of elements, including the elements of an incomplete last item; UNDEFINED if the message ends
            inside an element.

        Raises:
            InvalidTypeError: the type is null or freed.
        """
        return _existing(datatype).signature.elements(self.nbytes, self._external)

    def Set_elements(self, datatype: _Datatype, count: int) -> None:
        """Set the length of the message to `count` basic elements of a type (MPI_Status_set_elements).

        Args:
            datatype: type of the elements.
            count: number of elements.

        Raises:
            InvalidCountError: the count is negative, or the type has no elements.
            InvalidTypeError: the type is null or freed.
        """
        signature = _existing(datatype).signature
        count = integer(count, "Set_elements: count")
        if count < 0 or (count and datatype.size == 0):
            raise errors.InvalidCountError(f"count is {count}: expected 0 or more, and 0 for a type without elements")
        self.nbytes = signature.nbytes(count)
        self._external = False

    @property
    def count(self) -> int:
        """Length of the message in bytes."""
        return self.nbytes

    @count.setter
    def count(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._external = False

    def Is_cancelled(self) -> bool:
        """Return True if the operation was cancelled (MPI_Test_cancelled, section 3.8).

        Returns:
            True or False.
        """
        return self._cancelled

    def Set_cancelled(self, flag: bool) -> None:
        """Set whether the operation was cancelled (MPI_Status_set_cancelled, MPI-2).

        Args:
            flag: True if the operation was cancelled.
        """
        self._cancelled = bool(flag)

    @property
    def cancelled(self) -> bool:
        """True if the operation was cancelled."""
        return self._cancelled

    @cancelled.setter
    def cancelled(self, flag: bool) -> None:
        self._cancelled = bool(flag)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (), {name: getattr(self, name) for name in _FIELDS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def py2f(self) -> list[int]:
        """Return the fields as F_STATUS_SIZE integers, for programs in Fortran.

        Returns:
            F_STATUS_SIZE integers.
        """
        return [self.source, self.tag, self.error, self.nbytes & 0x7FFFFFFF, self.nbytes >> 31, int(self._cancelled)]

    @classmethod
    def f2py(cls, arg: list[int]) -> Self:
        """Return the status with these fields, the inverse of `py2f`.

        Args:
            arg: integers as `py2f` gives them.

        Returns:
            The status.
        """
        status = cls()
        status.source, status.tag, status.error = arg[:3]
        status.nbytes, status._cancelled = arg[3] | arg[4] << 31, bool(arg[5])
        return status

    def clear(self) -> None:
        """Make this the empty status (section 3.7.3)."""
        self.assign(_EMPTY)
        self.error = errors.SUCCESS

    def assign(self, other: Status) -> None:
        """Copy the fields of another status, except `error` (section 3.2.5).

        Args:
            other: status to copy.
        """
        self.source, self.tag, self.nbytes = other.source, other.tag, other.nbytes
        self._cancelled, self._external = other._cancelled, other._external

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in _FIELDS)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        flag = ", cancelled" if self._cancelled else ""
        return f"Status(source={self.source}, tag={self.tag}, nbytes={self.nbytes}{flag})"


_FIELDS: Final = Status.__slots__[1:]
_EMPTY: Final = Status.of()


def _existing(datatype: _Datatype) -> _Datatype:
    if not hasattr(datatype, "signature"):
        raise TypeError(f"datatype is {datatype!r}: expected a Datatype")
    if not datatype:
        raise errors.InvalidTypeError("datatype is MPI_DATATYPE_NULL, or was freed; pass the type of the items")
    return datatype


def check_status(status: object) -> None:
    """Refuse an object that is not a status, before anything is received.

    Raises:
        TypeError: the object is not a Status.
    """
    if not isinstance(status, Status):
        raise TypeError(f"status is of type {type(status).__name__}: expected a Status, or None")
