"""What both faces have in common: the identity of a communicator, and the checks of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiompi.comm import Communicator, Group
from aiompi.datatype import Buffer, resolve_recv
from aiompi.engine.bsend import Attachment
from aiompi.errors import InvalidBufferError
from aiompi.wire.frame import Payload


class Membership:
    """Who and where this process is in a communicator."""

    __slots__ = ()

    _core: Communicator

    @property
    def rank(self) -> int:
        """Rank of this process, 0..size-1."""
        return self._core.rank

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._core.size

    @property
    def name(self) -> str:
        """Name for diagnostics (MPI_Comm_get_name)."""
        return self._core.name

    @property
    def group(self) -> Group:
        """The processes in rank order."""
        return self._core.group

    def Get_rank(self) -> int:
        return self._core.rank

    def Get_size(self) -> int:
        return self._core.size

    def Get_name(self) -> str:
        return self._core.name

    def Get_group(self) -> Group:
        return self._core.group


def contents(buffer: Buffer) -> Callable[[], tuple[Payload, int]]:
    """What a persistent send asks for at each start: the message that is in a buffer now."""

    def message() -> tuple[Payload, int]:
        memory = buffer.packed()
        return (memory,), len(memory)

    return message


def attach(attachment: Attachment, buf: Any) -> None:
    """Attach a buffer specification, or None for a buffer without a limit.

    Raises:
        InvalidBufferError: a buffer is attached already, or it is read-only or not contiguous.
    """
    if buf is None:
        attachment.attach(None, None)
        return
    buffer = resolve_recv(buf, "buf")
    if not buffer.contiguous:
        raise InvalidBufferError("buf is not contiguous; attach memory without gaps")
    attachment.attach(buf, buffer.view)
