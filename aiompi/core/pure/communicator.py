"""The base of a communicator: the start of sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from aiompi.core.mode import SENDS, Mode
from aiompi.core.pure.awaitable import AwaitableCall
from aiompi.core.pure.handle import RequestHandle
from aiompi.core.pure.recorder import FAILED, RECV, SEND, shown
from aiompi.core.pure.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import SupportsIndex

    from aiompi.status import Status


#: class of its receives
R = TypeVar("R", bound=Request[Any])


class CommunicatorBase(Generic[R]):
    """The base of a communicator, which starts sends and receives; see `aiompi.comm.communicator.Communicator`."""

    __slots__ = ("_peers", "_reach", "context_id", "engine", "matcher", "rank", "tag_ub", "targets")

    _receive_class: ClassVar[type[Any]]
    _send_class: ClassVar[type[Any]]

    engine: Any
    matcher: Any
    targets: Sequence[int]
    context_id: int
    rank: int
    tag_ub: int
    _peers: list[Any]
    _reach: int

    def process_of(self, rank: int) -> int:
        """Return the process number of a rank of the peer group; -1 for no such rank, or one of another job."""
        return shown(self.targets[rank]) if 0 <= rank < len(self.targets) else -1

    def admitted(self) -> Self:
        """Return this communicator for a call.

        Raises:
            LocalProtocolError: the thread or event loop of the call may not make calls.
        """
        driver = self.engine.driver
        if not driver.admits():
            driver.check_thread()
        return self

    def send(
        self,
        payload: Sequence[bytes | memoryview],
        nbytes: int,
        dest: SupportsIndex,
        tag: SupportsIndex,
        mode: Mode = Mode.STANDARD,
    ) -> Request[None]:
        """Start a send and return an internal request. All messages that have left at once share one request.

        Args:
            payload: memory of the message in pieces, `nbytes` in all; it must stay unchanged until completion.
            dest: rank, or PROC_NULL.
            tag: 0..tag_ub.
            mode: communication mode (section 3.4).

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidBufferError: the mode is buffered, and the attached buffer has no room.
        """
        recorder = self.engine.recorder
        if recorder is None:
            return self._start_send(payload, nbytes, dest, tag, mode)
        to = shown(dest)
        handle = recorder.start(SEND, self.context_id, self.process_of(to), shown(tag), nbytes)
        try:
            request = self._start_send(payload, nbytes, dest, tag, mode)
        except BaseException:
            recorder.end(handle, FAILED)
            raise
        recorder.sent(handle, request, self._peers[to] if 0 <= to < len(self._peers) else None)
        return request

    def isend(
        self,
        payload: Sequence[bytes | memoryview],
        nbytes: int,
        dest: SupportsIndex,
        tag: SupportsIndex,
        mode: Mode = Mode.STANDARD,
    ) -> Request[None]:
        """Start a send and return a request for the user, which no other send shares.

        Args, Raises:
            As of `send`.
        """
        name, to, number = SENDS[mode], shown(dest), shown(tag)
        request = self.send(payload, nbytes, dest, tag, mode)
        if request is self.engine.completed_send:
            request = Request(self.engine)
            request._done = True  # without `complete`: nothing waits for it yet
        request.describe(name, self, to, number)
        return request

    def own_send(
        self,
        payload: Sequence[bytes | memoryview],
        nbytes: int,
        dest: SupportsIndex,
        tag: SupportsIndex,
        mode: Mode = Mode.STANDARD,
    ) -> AwaitableCall[None]:
        """Start a send; return the request to await.

        Args, Raises:
            As of `send`.
        """
        name, to, number = SENDS[mode], shown(dest), shown(tag)
        made = AwaitableCall(self.send(payload, nbytes, dest, tag, mode))
        made.describe(name, self, to, number)
        return made

    def send_short(self, spec: object, dest: object, tag: object) -> bool:
        """Check the thread (see `admitted`), and send an array of numbers at once; return False if impossible."""
        self.admitted()
        return False

    def send_object(self, codec: object, obj: object, dest: object, tag: object) -> bool:
        """Check the thread (see `admitted`), and send a small plain object at once; return False if impossible."""
        self.admitted()
        return False

    def own_send_object(self, codec: object, obj: object, dest: object, tag: object) -> AwaitableCall[None] | None:
        """Do what `send_object` does, but return the request to await instead of True, and None instead of False."""
        self.admitted()
        return None

    def own_send_short(self, spec: object, dest: object, tag: object) -> AwaitableCall[None] | None:
        """Do what `send_short` does, but return the request to await instead of True, and None instead of False."""
        self.admitted()
        return None

    def isend_short(self, spec: object, dest: object, tag: object, kind: type[RequestHandle] | None = None) -> Any:
        """Do what `send_short` does, but return a request that no other send shares, or None instead of False.

        Args:
            kind: class of the handle that is returned; None for the request itself.
        """
        self.admitted()
        return None

    def recv_short(self, spec: object, source: object, tag: object, status: Status | None) -> R | None:
        """Start a receive as `irecv_short` does, but for a call that blocks, and poll for the message for a moment."""
        self.admitted()
        return None

    def recv_object(
        self, decode: Callable[[bytearray | memoryview], Any], source: Any, tag: Any, status: Status | None
    ) -> R:
        """Check the thread (see `admitted`), start to receive an object, and poll for its message for a moment."""
        self.admitted()
        return self.irecv(None, source, tag, decode, status)

    def irecv_short(self, spec: object, source: object, tag: object, kind: type[RequestHandle] | None = None) -> Any:
        """Check the thread (see `admitted`), and start a receive into an array of numbers; return None if impossible.

        Args:
            kind: class of the handle that is returned; None for the request itself.
        """
        self.admitted()
        return None

    def own_recv_short(
        self, spec: object, source: object, tag: object, status: Status | None
    ) -> AwaitableCall[Any] | None:
        """Start a receive as `irecv_short` does, but return an `AwaitableCall`; it fails if a possible sender fails."""
        self.admitted()
        return None

    def own_recv_object(
        self, codec: Callable[[bytearray | memoryview], Any], source: Any, tag: Any, status: Status | None
    ) -> AwaitableCall[Any]:
        """Check the thread (see `admitted`), and start to receive an object; return the request to await."""
        self.admitted()
        return self.own_recv(None, source, tag, codec, status)

    def irecv(
        self,
        memory: Any,
        source: SupportsIndex,
        tag: SupportsIndex,
        decode: Callable[[bytearray | memoryview], Any] | None = None,
        status: Status | None = None,
    ) -> R:
        """Start a receive.

        Args:
            memory: destination of the message, bytes or memory with gaps; None to take a message of any length.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            decode: function that makes the result from the bytes of the message; without it the result is the Status.
            status: filled when the result is taken.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        recorder = self.engine.recorder
        if recorder is None:
            return self._start_receive(memory, source, tag, decode, status)
        handle = recorder.start(RECV, self.context_id, self.process_of(shown(source)), shown(tag), 0)
        try:
            request = self._start_receive(memory, source, tag, decode, status)
        except BaseException:
            recorder.end(handle, FAILED)
            raise
        request.traced = handle
        if request._done:
            recorder.ended(request)
        return request

    def own_recv(
        self,
        memory: Any,
        source: SupportsIndex,
        tag: SupportsIndex,
        decode: Callable[[bytearray | memoryview], Any] | None = None,
        status: Status | None = None,
    ) -> AwaitableCall[Any]:
        """Start a receive and return the request for its await.

        Args, Raises:
            As of `irecv`.
        """
        return AwaitableCall(self.irecv(memory, source, tag, decode, status))

    def _start_send(
        self, payload: Sequence[bytes | memoryview], nbytes: int, dest: SupportsIndex, tag: SupportsIndex, mode: Mode
    ) -> Request[None]:
        """Start a send by the general path."""
        raise NotImplementedError

    def _start_receive(
        self,
        memory: Any,
        source: SupportsIndex,
        tag: SupportsIndex,
        decode: Callable[[bytearray | memoryview], Any] | None,
        status: Status | None,
    ) -> R:
        """Start a receive by the general path."""
        raise NotImplementedError
