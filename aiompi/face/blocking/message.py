# Written by aiompi/face/generate from native/message.py, generate/blocking/message.py: edit these files.
"""Messages that a matched probe has taken (MPI-3, section 3.8.2), in the blocking face."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from aiompi import engine
from aiompi.base.opaque import Reference
from aiompi.comm import Communicator
from aiompi.comm.conversion import Place
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.errors import InvalidRequestError
from aiompi.face.blocking.process import check_running_loop, process, wait
from aiompi.face.blocking.requests import Request
from aiompi.status import Status
from aiompi.typing import BufSpec

if TYPE_CHECKING:
    from aiompi.face.blocking.receiving import Probes


class _Taken:
    """A message that a matched probe has taken; handles denote it.

    Args:
        core: communicator on which the message has arrived; None: COMM_SELF.
        message: None is the message from PROC_NULL.

    Attributes:
        retain: stops the message from being put back when this object is garbage collected; None unless the message
            came back from a receive that was withdrawn.
    """

    __slots__ = ("__weakref__", "core", "message", "retain")

    def __init__(self, core: Communicator | None, message: engine.Message | None) -> None:
        self.core = core
        self.message = message
        self.retain: Callable[[], object] | None = None


class Message(Reference[_Taken]):
    """A message that no other receive can get. The handle is MESSAGE_NULL, and false, after the message is received.

    Args:
        message: the message to which the new handle refers; None for a null handle.
    """

    __slots__ = ()

    _gated: ClassVar[bool] = True

    _kind = _Taken

    _advice = "receive it, and send what it holds"

    def __new__(cls, message: Message | None = None) -> Self:
        return cls._another(Message, message)

    @classmethod
    def _of(cls, core: Communicator, message: engine.Message | None) -> Message:
        """Return the handle of a message that a probe on a communicator has taken."""
        return cls._denote(_NO_PROC if message is None else _Taken(core, message))

    def free(self) -> None:
        """Make the handle null if it is a copy of MESSAGE_NO_PROC; do nothing to a message, which must be received."""
        if self._denoted is _NO_PROC and self is not MESSAGE_NO_PROC:
            self._denoted = None

    def _place(self, buf: BufSpec) -> Place:
        core = (self._denoted and self._denoted.core) or process.runtime.self_comm
        return core.conversion.to_receive(buf)

    def _receive(self, memory: Place | None, status: Status | None) -> Any:
        """Receive the message; if a signal handler raises meanwhile, the message can be received again."""
        receive = self._start(memory, status)
        del memory  # the traceback of an error keeps this frame, which must not keep the memory
        wait(receive)
        return receive.result()

    def _start(self, memory: Place | None, status: Status | None = None) -> engine.Receive:
        taken = self._denoted
        if taken is None:
            raise InvalidRequestError("the message is MPI_MESSAGE_NULL: there is none, or it was received before")
        home = taken.core  # without `taken`, so that the receive does not keep its message
        core = home or process.runtime.self_comm
        process.check_thread()
        decode = process.codec.loads if memory is None else None
        here = weakref.ref(self)

        def keep(message: engine.Message) -> None:
            holder = here()
            if holder is None:
                message.put_back()
            else:
                holder._denoted = again = _Taken(home, message)
                again.retain = message.drop_with(again)

        receive = core.imrecv(taken.message, memory, decode, status, keep)
        if taken.retain is not None:
            taken.retain()
        if self is not MESSAGE_NO_PROC:
            self._denoted = None
        return receive

    @classmethod
    def Probe(cls, comm: Probes, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        """Wait for a message and take it (MPI_Mprobe, MPI-3).

        Args:
            comm: a communicator.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the message.

        Returns:
            The message; `recv` or `Recv` receives it.

        Raises:
            InvalidRankError: there is no such rank.
            InvalidTagError: the tag is out of range.
        """
        return comm.Mprobe(source, tag, status)

    @classmethod
    def Iprobe(
        cls, comm: Probes, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        """Take the message that a receive would match now, or return None (MPI_Improbe, MPI-3).

        Args:
            comm: a communicator.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the message.

        Returns:
            The message; `recv` or `Recv` receives it.

        Raises:
            InvalidRankError: there is no such rank.
            InvalidTagError: the tag is out of range.
        """
        return comm.Improbe(source, tag, status)

    probe = Probe

    iprobe = Iprobe

    def __repr__(self) -> str:
        if self._denoted is None or self._denoted.message is None:
            return f"<Message {'from PROC_NULL' if self else 'null'}>"
        return f"<Message {self._denoted.message.envelope()}>"

    def irecv(self) -> Request[Any]:
        """Start to receive the message as an object (section 3.8 of MPI-3.1).

        Returns:
            A request whose result is the object.

        Raises:
            InvalidRequestError: the message has been received already.
            InvalidTypeError: completing it: the message is no object.
        """
        return Request._denote(self._start(None))

    def recv(self, status: Status | None = None) -> Any:
        """Receive the message as an object (section 3.8 of MPI-3.1).

        Args:
            status: filled with the envelope of the message.

        Returns:
            The object.

        Raises:
            InvalidRequestError: the message has been received already.
            InvalidTypeError: the message is no object.
            BlockingCallError: an event loop is running in this thread.
        """
        check_running_loop("Message.recv", "await message.recv()")
        return self._receive(None, status)

    def Irecv(self, buf: BufSpec) -> Request[Status]:
        """Start to receive the message into a buffer (MPI_Imrecv, MPI-3).

        Args:
            buf: a writable buffer specification, at least as long as the message; it must not be touched before the
                receive is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidRequestError: the message has been received already.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            TruncationError: completing it: the message is longer than the buffer.
        """
        return Request._denote(self._start(self._place(buf)))

    def Recv(self, buf: BufSpec, status: Status | None = None) -> None:
        """Receive the message into a buffer (MPI_Mrecv, MPI-3).

        Args:
            buf: a writable buffer specification, at least as long as the message; it must not be touched before the
                receive is complete.
            status: filled with the envelope of the message.

        Raises:
            InvalidRequestError: the message has been received already.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            TruncationError: the message is longer than the buffer.
            BlockingCallError: an event loop is running in this thread.
        """
        check_running_loop("Message.Recv", "await message.Recv(buf)")
        self._receive(self._place(buf), status)


_NO_PROC: Final = _Taken(None, None)
MESSAGE_NULL: Final = Message()
MESSAGE_NO_PROC: Final = Message._denote(_NO_PROC)

Message._constants = {"MESSAGE_NULL": MESSAGE_NULL, "MESSAGE_NO_PROC": MESSAGE_NO_PROC}
