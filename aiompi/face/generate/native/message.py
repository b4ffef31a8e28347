"""Messages that a matched probe has taken (MPI-3, section 3.8.2), in the asyncio face."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from aiompi import engine, hooks
from aiompi.comm import Communicator
from aiompi.engine import AwaitableCall, Receive, Request, Scattered
from aiompi.engine.receive import Decode
from aiompi.errors import InvalidRequestError
from aiompi.objects import Codec
from aiompi.status import Status
from aiompi.typing import BufSpec


@hooks.surface
class Message:
    """A message that no other receive can get; to be received once. It is false afterwards.

    When the await of `recv` or `Recv` is cancelled, this object has the message again, and another call can receive it.
    If nothing refers to this object any more, the message is unexpected again, and any receive can get it.

    Attributes:
        status: its envelope.
    """

    __slots__ = ("__weakref__", "_codec", "_core", "_message", "_received", "_retain", "status")

    def __init__(self, core: Communicator, codec: Codec, message: engine.Message | None) -> None:
        self._core = core
        self._codec = codec
        self._message = message
        self._received = False
        self._retain: Callable[[], object] | None = None  # undoes `drop_with`: the message outlives this object
        self.status = core.envelope(message)

    def irecv(self, status):
        """
        Args:
            status: filled with the envelope when the result is taken.
        """
        return self._take(None, self._codec, status)

    def recv(self, status: Status | None = None) -> AwaitableCall[Any]:
        """Receive the message as an object (section 3.8 of MPI-3.1).

        Args:
            status: filled with the envelope of the message.

        Returns:
            A request, to be awaited once, whose result is the object.

        Raises:
            InvalidRequestError: the message has been received already.
            InvalidTypeError: awaiting it: the message is no object.
        """
        return AwaitableCall(self.irecv(status))

    def Irecv(self, buf, status):
        """Start to receive the message into a buffer (MPI_Imrecv, MPI-3)."""
        return self._take(self._core.conversion.to_receive(buf), None, status)

    def Recv(self, buf: BufSpec, status: Status | None = None) -> AwaitableCall[Status]:
        """Receive the message into a buffer (MPI_Mrecv, MPI-3).

        Args:
            buf: a writable buffer specification, at least as long as the message; it must not be touched before the
                receive is complete.
            status: filled with the envelope of the message.

        Returns:
            A request, to be awaited once, whose result is the Status.

        Raises:
            InvalidRequestError: the message has been received already.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            TruncationError: awaiting it: the message is longer than the buffer.
        """
        return AwaitableCall(self.Irecv(buf, status))

    def _take(self, memory: memoryview | Scattered | None, decode: Decode | None, status: Status | None) -> Receive:
        self._core.engine.driver.check_thread()
        if self._received:
            raise InvalidRequestError("this message was received before: a matched probe gives it once")
        here = weakref.ref(self)

        def keep(message: engine.Message) -> None:
            holder = here()
            if holder is None:
                message.put_back()
            else:
                holder._message, holder._received = message, False
                holder._retain = message.drop_with(holder)

        receive = self._core.imrecv(self._message, memory, decode, status, keep)
        if self._retain is not None:
            self._retain()
        self._message, self._received = None, True
        return receive

    def __bool__(self) -> bool:
        return not self._received

    def __repr__(self) -> str:
        return f"<Message {'received' if self._received else self.status}>"
