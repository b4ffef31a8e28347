"""Point-to-point operations on a communicator: sends, receives and probes (chapter 3)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from operator import index
from typing import Final, TypeVar

from aiompi.comm.state import CommunicatorState, Integer
from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from aiompi.core import Span
from aiompi.core.mode import SENDS
from aiompi.engine import Message, Mode, PersistentRequest, Receive, Request, Scattered, ScatteredReceive
from aiompi.engine.bsend import AttachedBuffer, BufferedSend, send_in_steps
from aiompi.engine.endpoint import Endpoint
from aiompi.engine.probe import MatchedProbe, Probe
from aiompi.engine.receive import Decode
from aiompi.engine.scattered import MatchedReceive, MatchedScatteredReceive
from aiompi.engine.send import Send
from aiompi.engine.slices import SendQueue
from aiompi.errors import InvalidBufferError, InvalidTagError
from aiompi.status import Status, check_status
from aiompi.wire.frame import Payload

T = TypeVar("T")
_STANDARD: Final = Mode.STANDARD
_BUFFERED: Final = Mode.BUFFERED


class PointToPoint(CommunicatorState):
    """Checks and starts sends, receives and probes."""

    __slots__ = ()

    _receive_class = Receive
    _send_class = Send

    def _start_send(self, payload: Payload, nbytes: int, dest: Integer, tag: Integer, mode: Mode) -> Request[None]:
        if not isinstance(dest, int) or not isinstance(tag, int):
            dest, tag = self._integers("dest", dest, tag)
        if not 0 <= tag <= self.tag_ub:
            raise InvalidTagError(f"{self.label}, rank {self.rank}: tag {tag} of a send is not in 0..{self.tag_ub}")
        if 0 <= dest < self._reach:
            peer = self._peers[dest] or self._peer(dest)
            if mode is _BUFFERED:
                return self._ibsend(peer, payload, nbytes, tag)
            return peer.send(payload, nbytes, self.context_id, self.rank, tag, mode)
        if dest != PROC_NULL or self.freed or self.is_revoked:
            raise self._bad_rank("destination", dest)
        return self.engine.completed_send

    def isend_encoded(
        self, steps: Generator[None, None, tuple[Payload, int]], dest: Integer, tag: Integer, mode: Mode = _STANDARD
    ) -> Request[None]:
        """Start a send whose message is still to be made; later sends to the same rank wait for it.

        Args:
            steps: generator that makes the message step by step; it returns the memory in pieces, and their total
                length.
            dest, tag, mode: see `send`. In buffered mode the send is complete when the message is in the buffer.
        """
        if mode is _BUFFERED:
            buffered = send_in_steps(
                self.engine, self._buffer(), steps, lambda steps: self.isend_encoded(steps, dest, tag)
            )
            buffered.describe(SENDS[mode], self, index(dest), index(tag))
            return buffered
        dest, tag = self._integers("dest", dest, tag)
        peer = self.reached(dest)
        if peer is None:
            return self.isend((), 0, dest, tag, mode)
        queue = self._peers[dest]
        if not isinstance(queue, SendQueue):
            queue = self._peers[dest] = SendQueue(peer, functools.partial(self._peers.__setitem__, dest, peer))
        queue.expect(steps)
        try:
            return self.isend((), 0, dest, tag, mode)
        finally:
            queue.expect(None)

    def _ibsend(self, peer: Endpoint | SendQueue, payload: Payload, nbytes: int, tag: int) -> BufferedSend:
        """Send a copy, made in the attached buffer."""
        buffer = self._buffer()
        copy, start = buffer.copy(payload, nbytes)
        send = peer.send((copy,), nbytes, self.context_id, self.rank, tag)
        buffer.hold(send, start)
        if send.done() and (error := send.exception()) is not None:
            raise error
        self.engine.disown(send)
        return BufferedSend(self.engine, send)

    def _buffer(self) -> AttachedBuffer:
        """Return the buffer attached to the communicator, or else to its session or the process."""
        session = self.session
        buffer = self.attachment.buffer or (self.engine if session is None else session).attachment.buffer
        if buffer is None:
            needs = "needs an attached buffer with room for each message and BSEND_OVERHEAD more"
            raise InvalidBufferError(f"{self.label}, rank {self.rank}: a buffered send {needs}")
        return buffer

    def send_init(
        self, message: Callable[[], tuple[Payload, int]], dest: Integer, tag: Integer, mode: Mode
    ) -> PersistentRequest[None]:
        """Bind the arguments of a send (section 3.9).

        Args:
            message: function called at each start; it returns the memory in pieces, and their total length.
            dest, tag, mode: see `isend`.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        dest, tag = self._integers("dest", dest, tag)
        if not 0 <= tag <= self.tag_ub:
            raise InvalidTagError(f"{self.label}, rank {self.rank}: tag {tag} of a send is not in 0..{self.tag_ub}")
        if dest != PROC_NULL and not 0 <= dest < self._reach:
            raise self._bad_rank("destination", dest)
        said = SENDS[mode]
        name = f"{said.removesuffix(' to').capitalize()}_init"
        request = PersistentRequest(self.engine, name, lambda: self.isend(*message(), dest, tag, mode), lambda: None)
        request.describe(f"persistent {said}", self, dest, tag)
        return request

    def recv_init(self, memory: memoryview | Scattered, source: Integer, tag: Integer) -> PersistentRequest[Status]:
        """Bind the arguments of a receive (section 3.9); see `irecv`."""
        source, tag = self._integers("source", source, tag)
        self._peer_rank(source, tag)
        request = PersistentRequest(self.engine, "Recv_init", lambda: self.irecv(memory, source, tag), Status)
        request.describe("persistent recv from", self, source, tag)
        return request

    def _start_receive(
        self,
        memory: memoryview | Scattered | None,
        source: Integer,
        tag: Integer,
        decode: Decode | None,
        status: Status | None,
    ) -> Receive:
        if not isinstance(source, int) or not isinstance(tag, int):
            source, tag = self._integers("source", source, tag)
        peer_rank = self._peer_rank(source, tag)
        if status is not None:
            check_status(status)
        if memory is None or isinstance(memory, (Span, memoryview)):
            receive = Receive(self.engine, self.matcher, memory, source, tag, peer_rank, decode, status)
        else:
            receive = ScatteredReceive(self.engine, self.matcher, memory, source, tag, peer_rank, status)
        receive.describe("recv from", self, source, tag)
        if source == PROC_NULL:
            receive.source = PROC_NULL
            receive.complete()
        else:
            self.engine.receive(receive)
        return receive

    def mprobe(self, source: Integer, tag: Integer, wrap: Callable[[Message | None], T]) -> Request[T]:
        """Start waiting for a message, and extract it for `imrecv` (MPI_Mprobe, MPI-3).

        Args:
            wrap: function that makes the result from the message; its argument is None for PROC_NULL.
        """
        source, tag = self._integers("source", source, tag)
        probe = MatchedProbe(self.engine, self.matcher, source, tag, self._peer_rank(source, tag), wrap)
        probe.describe("mprobe of", self, source, tag)
        if source == PROC_NULL:
            probe.complete(wrap(None))
        else:
            self.engine.probe(probe)
        return probe

    def improbe(self, source: Integer, tag: Integer) -> tuple[bool, Message | None]:
        """Extract the message that a receive would match now (MPI_Improbe, MPI-3).

        Returns:
            (flag, message): flag is True if there is such a message. For PROC_NULL flag is True, and message is None.
        """
        source, tag = self._integers("source", source, tag)
        peer_rank = self._peer_rank(source, tag)
        if source == PROC_NULL:
            return True, None
        message = self.engine.iprobe(self.matcher, source, tag, peer_rank)
        if message is not None:
            message.extract()
        return message is not None, message

    def envelope(self, message: Message | None) -> Status:
        """Return the status of a message that a probe has extracted; the argument is None for PROC_NULL."""
        return Status.of(source=PROC_NULL) if message is None else message.envelope()

    def imrecv(
        self,
        message: Message | None,
        memory: memoryview | Scattered | None,
        decode: Decode | None = None,
        status: Status | None = None,
        keep: Callable[[Message], object] = Message.put_back,
    ) -> Receive:
        """Start receiving a message that a probe has extracted (MPI_Imrecv, MPI-3).

        Args:
            message: the extracted message, which is received only once; None is the message from PROC_NULL.
            memory, decode, status: see `irecv`.
            keep: function that takes the message back when the receive is withdrawn.
        """
        if message is None:
            return self.irecv(memory, PROC_NULL, ANY_TAG, decode, status)
        envelope = message.source, message.tag, message.peer.rank
        if status is not None:
            check_status(status)
        receive: MatchedReceive | MatchedScatteredReceive
        if memory is None or isinstance(memory, (Span, memoryview)):
            receive = MatchedReceive(self.engine, self.matcher, memory, *envelope, decode, status)
        else:
            receive = MatchedScatteredReceive(self.engine, self.matcher, memory, *envelope, status)
        receive.keep = keep
        receive.describe("mrecv from", self, message.source, message.tag)
        self.engine.receive_matched(message, receive)
        return receive

    def probe(self, source: Integer, tag: Integer) -> Request[Status]:
        """Start waiting for a message without receiving it (section 3.8)."""
        source, tag = self._integers("source", source, tag)
        probe = Probe(self.engine, self.matcher, source, tag, self._peer_rank(source, tag))
        probe.describe("probe of", self, source, tag)
        if source == PROC_NULL:
            probe.complete(Status.of(source=PROC_NULL))
        else:
            self.engine.probe(probe)
        return probe

    def iprobe(self, source: Integer, tag: Integer) -> Status | None:
        """Return the envelope of the message that a receive would get now, or None (section 3.8)."""
        source, tag = self._integers("source", source, tag)
        peer_rank = self._peer_rank(source, tag)
        if source == PROC_NULL:
            return Status.of(source=PROC_NULL)
        message = self.engine.iprobe(self.matcher, source, tag, peer_rank)
        return None if message is None else message.envelope()

    def _peer_rank(self, source: int, tag: int) -> int:
        """Check the source and tag of a receive; return the process number of the source, or ANY_SOURCE."""
        if not 0 <= tag <= self.tag_ub and tag != ANY_TAG:
            raise InvalidTagError(f"{self.label}, rank {self.rank}: tag {tag} of a receive is not in 0..{self.tag_ub}")
        if 0 <= source < self._reach:
            return self.targets[source]
        if source in (ANY_SOURCE, PROC_NULL) and not self.freed and not self.is_revoked:
            return ANY_SOURCE
        raise self._bad_rank("source", source)
