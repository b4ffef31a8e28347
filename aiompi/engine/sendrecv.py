"""Send and receive in one operation (MPI_Sendrecv, section 3.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiompi.core import Request
from aiompi.engine.receive import Decode, Receive
from aiompi.errors import InvalidRequestError
from aiompi.status import Status


def sendrecv(receive: Receive, start_send: Callable[[], Request[None]]) -> SendrecvRequest:
    """Start the send that belongs to a receive; withdraw the receive if the send cannot be started."""
    try:
        return SendrecvRequest(start_send(), receive)
    except BaseException:
        receive.withdraw()
        raise


class SendrecvRequest(Request[Any]):
    """A send and a receive together: complete when both are."""

    __slots__ = ("_pending", "_receive", "_send")

    def __init__(self, send: Request[None], receive: Receive) -> None:
        super().__init__(send._engine)
        self._send = send
        self._receive = receive
        self._pending = 2
        parts: tuple[Request[Any], ...] = send, receive
        for part in parts:
            if part.done():
                self._part_done(part)
            else:
                part.when_done(self._part_done)

    def _part_done(self, part: Request[Any]) -> None:
        self._error = self._error or part._error
        self._pending -= 1
        if self._pending == 0:
            self._cancelled = self._receive.cancelled()
            self._engine.failures += self._error is not None
            self.complete()

    def exception(self) -> BaseException | None:
        error = super().exception()  # an error handler may have changed it
        parts = self._send.exception() or self._receive.exception()
        return error or parts

    def result(self) -> Any:
        if self.exception() is not None:
            super().result()
        return self._receive.result()

    @property
    def __name__(self) -> str:
        return f"sendrecv ({self._receive.__name__})"

    @property
    def decode(self) -> Decode | None:
        """The function that makes the result from the received bytes; None if the result needs no function."""
        return self._receive.decode

    def cancel(self) -> bool:
        """Refuse, as other implementations do: MPI can cancel a send or a receive only (section 3.8).

        Raises:
            InvalidRequestError: the request is not complete.
        """
        if self._done:
            return False
        raise InvalidRequestError(
            "Cancel: the request is of a send and a receive together, which cannot be cancelled: start them by Isend "
            "and Irecv"
        )

    def free(self) -> None:
        self._send.free()
        self._receive.free()

    @property
    def status(self) -> Status:
        """The status of the receive."""
        return self._receive.status

    def quiescent(self) -> bool:
        return self._receive.quiescent()

    def lost_message_error(self) -> BaseException | None:
        return self._receive.lost_message_error()

    def withdraw(self) -> None:
        self._receive.withdraw()
        self._send.withdraw()
