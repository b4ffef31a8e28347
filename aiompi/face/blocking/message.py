"""Messages that a matched probe has taken (MPI-3, section 3.8.2), in the blocking face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from aiompi import engine
from aiompi.comm import Communicator
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.driver.blocking import refuse_running_loop
from aiompi.errors import InvalidRequestError
from aiompi.face.blocking.process import process
from aiompi.face.blocking.requests import Request
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.face.blocking.point_to_point import PointToPoint


class Message:
    """A message that no other receive can get; once it has been received it is MESSAGE_NULL, and false."""

    __slots__ = ("_core", "_message", "_null")

    _gated: ClassVar[bool] = True

    def __init__(self, core: Communicator | None = None, message: engine.Message | None = None) -> None:
        self._core = core
        self._message = message
        self._null = core is None

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        """Receive the message into a writable buffer specification (MPI_Mrecv, MPI-3).

        Raises:
            InvalidRequestError: it is MESSAGE_NULL.
            TruncationError: it is longer than the buffer.
        """
        refuse_running_loop("Message.Recv", "await message.Recv(buf)")
        self.Irecv(buf).Wait(status)

    def Irecv(self, buf: Any) -> Request[Status]:
        """Start receiving the message into a writable buffer specification (MPI_Imrecv, MPI-3).

        Raises:
            InvalidRequestError: it is MESSAGE_NULL.
        """
        core = self._core or process.runtime.self_comm
        return self._take(core.conversion.to_receive(buf))

    def recv(self, status: Status | None = None) -> Any:
        """Receive the message as an object.

        Raises:
            InvalidRequestError: it is MESSAGE_NULL.
        """
        refuse_running_loop("Message.recv", "await message.recv()")
        return self.irecv().wait(status)

    def irecv(self) -> Request[Any]:
        """Start receiving the message as an object.

        Raises:
            InvalidRequestError: it is MESSAGE_NULL.
        """
        return self._take(None)

    def _take(self, memory: Any) -> Request[Any]:
        if self._null:
            raise InvalidRequestError("the message is MPI_MESSAGE_NULL: there is none, or it was received before")
        core = self._core or process.runtime.self_comm
        process.admit()
        self._null = self is not MESSAGE_NO_PROC
        decode = process.runtime.codec.loads if memory is None else None
        return Request(core.imrecv(self._message, memory, decode))

    @classmethod
    def Probe(
        cls, comm: PointToPoint, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message:
        """Wait for a message and take it (MPI_Mprobe, MPI-3)."""
        return comm.Mprobe(source, tag, status)

    @classmethod
    def Iprobe(
        cls, comm: PointToPoint, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        """Take the message that a receive would get now, None if there is none (MPI_Improbe, MPI-3)."""
        return comm.Improbe(source, tag, status)

    probe = Probe
    iprobe = Iprobe

    def __bool__(self) -> bool:
        return not self._null

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self is other or (self._null and other._null)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self._message is None:
            return f"<Message {'null' if self._null else 'from PROC_NULL'}>"
        return f"<Message {self._message.envelope()}>"


MESSAGE_NULL = Message()
MESSAGE_NO_PROC = Message()
MESSAGE_NO_PROC._null = False
