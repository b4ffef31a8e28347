"""Return status of a receive or a probe (section 3.2.5)."""

from __future__ import annotations

from typing import Protocol

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG, UNDEFINED


class _Sized(Protocol):
    @property
    def extent(self) -> int: ...


class Status:
    """Envelope and length of a message.

    A new one is the empty status (section 3.7.3): source ANY_SOURCE, tag ANY_TAG, no bytes, not cancelled.

    Attributes:
        source: rank of the sender in the communicator.
        tag: tag of the message.
        error: error class; set only by operations on several requests (section 3.2.5).
        nbytes: length of the message in bytes.
    """

    __slots__ = ("_cancelled", "error", "nbytes", "source", "tag")

    def __init__(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, nbytes: int = 0, cancelled: bool = False) -> None:
        self.source = source
        self.tag = tag
        self.error = errors.SUCCESS
        self.nbytes = nbytes
        self._cancelled = cancelled

    def Get_source(self) -> int:
        return self.source

    def Get_tag(self) -> int:
        return self.tag

    def Get_error(self) -> int:
        return self.error

    def Get_count(self, datatype: _Sized | None = None) -> int:
        """Number of items in the message (section 3.2.5).

        Args:
            datatype: type of the items; bytes by default.

        Returns:
            Items, or UNDEFINED when the message is not a whole number of them.
        """
        if datatype is None:
            return self.nbytes
        if datatype.extent == 0:
            return 0 if self.nbytes == 0 else UNDEFINED
        count, rest = divmod(self.nbytes, datatype.extent)
        return UNDEFINED if rest else count

    @property
    def count(self) -> int:
        return self.nbytes

    def Is_cancelled(self) -> bool:
        """Whether the operation was cancelled (section 3.8)."""
        return self._cancelled

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def assign(self, other: Status) -> None:
        """Take over the fields of another status, except `error` (section 3.2.5)."""
        self.source, self.tag, self.nbytes = other.source, other.tag, other.nbytes
        self._cancelled = other._cancelled

    def __repr__(self) -> str:
        flag = ", cancelled" if self._cancelled else ""
        return f"Status(source={self.source}, tag={self.tag}, nbytes={self.nbytes}{flag})"
