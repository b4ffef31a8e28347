"""Persistent sends (section 3.9), the same in both faces."""

from __future__ import annotations

from typing import Generic, TypeVar

from aiompi.engine import Mode, PersistentRequest
from aiompi.face.common import CommunicatorHandle
from aiompi.typing import BufSpec

#: class of the persistent requests of a face
Inactive = TypeVar("Inactive")


class PersistentSends(CommunicatorHandle, Generic[Inactive]):
    """The sends of a communicator with their arguments bound (section 3.9)."""

    __slots__ = ()

    def Send_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Inactive:
        """Bind the arguments of `Isend`; each start sends what is in the buffer then (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `Start`, in the asyncio face `start`, starts the send.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        return self._send_init(buf, dest, tag, Mode.STANDARD)

    def Bsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Inactive:
        """Bind the arguments of `Ibsend`; each start sends what is in the buffer then (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `Start`, in the asyncio face `start`, starts the send.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        return self._send_init(buf, dest, tag, Mode.BUFFERED)

    def Ssend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Inactive:
        """Bind the arguments of `Issend`; each start sends what is in the buffer then (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `Start`, in the asyncio face `start`, starts the send.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        return self._send_init(buf, dest, tag, Mode.SYNCHRONOUS)

    def Rsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Inactive:
        """Bind the arguments of `Irsend`; each start needs the matching receive to be posted (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `Start`, in the asyncio face `start`, starts the send.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        return self._send_init(buf, dest, tag, Mode.READY)

    def _send_init(self, buf: BufSpec, dest: int, tag: int, mode: Mode) -> Inactive:
        core = self._admitted
        return self._bound(core.send_init(core.conversion.prepare(buf, dest), dest, tag, mode))

    def _bound(self, request: PersistentRequest[None]) -> Inactive:
        """Return the request as one of the face."""
        raise NotImplementedError
