"""Messages that a matched probe has taken (MPI-3, section 3.8.2), in the native face."""

from __future__ import annotations

from typing import Any

from aiompi import engine
from aiompi.comm import Communicator
from aiompi.datatype import memory_to_receive
from aiompi.engine import OwnedReceive, Receive, Request
from aiompi.errors import InvalidRequestError
from aiompi.objects import Codec
from aiompi.status import Status


class Message:
    """A message that no other receive can get; to be received once. It is false afterwards.

    Attributes:
        status: its envelope.
    """

    __slots__ = ("_codec", "_core", "_message", "_received", "status")

    def __init__(self, core: Communicator, codec: Codec, message: engine.Message | None) -> None:
        self._core = core
        self._codec = codec
        self._message = message
        self._received = False
        self.status = core.envelope(message)

    def irecv(self, status: Status | None = None) -> Request[Any]:
        """Start receiving the message as an object.

        Args:
            status: filled with the envelope when the result is taken.

        Raises:
            InvalidRequestError: the message was received before.
        """
        return self._take(None, status)

    def recv(self, status: Status | None = None) -> OwnedReceive[Any]:
        """Receive the message as an object; when the await is cancelled, it is unexpected again."""
        return OwnedReceive(self.irecv(status))

    def Irecv(self, buf: Any, status: Status | None = None) -> Request[Status]:
        """Start receiving the message into a writable buffer specification.

        Raises:
            InvalidRequestError: the message was received before.
        """
        return self._take(buf, status)

    def Recv(self, buf: Any, status: Status | None = None) -> OwnedReceive[Status]:
        """Receive the message into a buffer; when the await is cancelled, it is unexpected again."""
        return OwnedReceive(self.Irecv(buf, status))

    def _take(self, buf: Any, status: Status | None) -> Receive:
        memory = None if buf is None else memory_to_receive(buf)
        if self._received:
            raise InvalidRequestError("this message was received before: a matched probe gives it once")
        self._received = True
        decode = self._codec.loads if buf is None else None
        return self._core.imrecv(self._message, memory, decode, status)

    def __bool__(self) -> bool:
        return not self._received

    def __repr__(self) -> str:
        return f"<Message {'received' if self._received else self.status}>"
