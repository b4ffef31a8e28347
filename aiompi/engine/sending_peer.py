"""`SendingPeer`: the messages of this rank to another rank, and that rank's answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.core.pure.peer import OVERHEAD
from aiompi.engine.failure import another
from aiompi.engine.send import STANDARD, Mode, Send
from aiompi.engine.single_copy import copy_to_receiver
from aiompi.engine.withheld import WithholdingEndpoint
from aiompi.errors import RemoteProtocolError
from aiompi.wire import frame
from aiompi.wire.frame import EAGER, HEADER, Payload

if TYPE_CHECKING:
    from aiompi.core import Request
    from aiompi.engine.seams import Link, Sharing

_pack: Final = HEADER.pack

#: mode -> kind of the frame of a short message, and of a long message
_KINDS: Final = {
    Mode.STANDARD: (EAGER, frame.RTS),
    Mode.BUFFERED: (EAGER, frame.RTS),
    Mode.SYNCHRONOUS: (frame.EAGER_SYNC, frame.RTS),
    Mode.READY: (frame.EAGER_READY, frame.RTS_READY),
}


class SendingPeer(WithholdingEndpoint):
    """One other rank, as the destination of messages. `aiompi.engine.peer.Peer` adds the messages of that rank."""

    __slots__ = ()

    def send(
        self, payload: Payload, nbytes: int, context: int, source: int, tag: int, mode: Mode = STANDARD, note: int = 0
    ) -> Request[None]:
        engine = self.engine
        cost = nbytes + OVERHEAD
        if mode is not STANDARD or nbytes > engine.brief_limit or cost > self.credit:
            request = Send(engine, self, payload, nbytes)
            try:
                self._send_acknowledged(request, context, source, tag, mode, note)
            except BaseException:
                request.withdraw()  # the caller does not get it
                raise
            return request
        link = self.link or self.connect()
        header = _pack(EAGER, tag, source, self._owed, context, nbytes, 0, note)
        self.credit -= cost
        self._owed = 0
        if link.dispatch(header, payload):
            return engine.completed_send
        request = Send(engine, self, payload, nbytes)
        request.expendable = engine.lenient
        try:
            if link.send(header, payload, request):
                request.sent()
        except BaseException:
            request.withdraw()
            raise
        return request

    @property
    def _sharing(self) -> Sharing | None:
        return None if self.link is None else self.link.sharing

    def _send_acknowledged(self, request: Send, context: int, source: int, tag: int, mode: Mode, note: int) -> None:
        """Start a message that the receiver must answer, or for which the link has no room."""
        nbytes, cost = request.nbytes, request.nbytes + OVERHEAD
        short, _ = _KINDS[mode]
        request.expendable = self.engine.lenient and short == EAGER and nbytes <= self.engine.eager_limit
        request.ready = mode is Mode.READY
        self._fail_if_gone(request)
        if request.done():
            return
        link = self.link or self.connect()
        limit = self.engine.tcp_eager_limit if link.far else self.engine.eager_limit
        eager = nbytes <= limit and not self._exposes(request, mode) and self._affords(cost)
        if not eager or short != EAGER:
            request.acknowledged = False
            request.context = context
            request.srqid = self.engine.next_id()
            self.engine.sends[request.srqid] = request
            self._unanswered += 1
        if not eager:
            request.unsent = True
            if self._unanswered <= self._max_announced:
                self.announce(request, context, source, tag, mode, note)
            else:
                self._withhold(request, (context, source, tag, mode, note))
            return
        self.credit -= cost
        header = self._header(short, tag, source, context, nbytes, request.srqid, note)
        if link.send(header, request.payload, request):
            request.sent()

    def _exposes(self, request: Send, mode: Mode) -> bool:
        """Return True if the peer is to copy a message from the memory of this rank."""
        sharing = self._sharing
        return sharing is not None and _KINDS[mode][1] == frame.RTS and sharing.exposes(request.payload, request.nbytes)

    def announce(self, request: Send, context: int, source: int, tag: int, mode: Mode, note: int) -> None:
        kind, sharing = _KINDS[mode][1], self._sharing
        if sharing is not None and self._exposes(request, mode):
            envelope = kind, tag, source, context, request.nbytes, request.srqid, note
            if self._give(envelope, lambda header: sharing.expose(header, request.payload)):
                request.unsent = False
                request.sent()
                return
        self.emit(kind, tag, source, context, request.nbytes, request.srqid, note)

    def recall(self, send: Send) -> None:
        if self._withheld is not None and self._withheld.take(send.srqid):
            self._answer_to(send.srqid).recalled()
        elif send.srqid in self.engine.sends and not send.recalling:
            send.recalling = True
            self.emit(frame.CANCEL, srqid=send.srqid)

    def emit(
        self,
        kind: int,
        tag: int = 0,
        source: int = 0,
        context: int = 0,
        length: int = 0,
        srqid: int = 0,
        drqid: int = 0,
    ) -> None:
        """Send a frame without payload."""
        if self.error is not None:
            return
        header = self._header(kind, tag, source, context, length, srqid, drqid)
        (self.link or self.connect()).send(header, (), None)

    def adopt(self, link: Link) -> None:
        """Send frames to the peer over this link, unless another link is in use. The peer may use a different link."""
        if link not in self._links:
            self._links.append(link)
        if self.link is None:
            self.link = link
            if self.engine.ends_for(self.rank):
                self.emit(frame.FINI)

    def connect(self) -> Link:
        link = self.engine.environment.connect(self)
        self.adopt(link)
        return self.link or link

    def assist_on(self, send: Send, write: Callable[[int], bool]) -> None:
        part = functools.partial(copy_to_receiver, self, send, send.payload, write)
        self.engine.assisted[send.srqid] = part
        self.engine.copy_queue.begin_later(part)

    def break_off(self, cause: str) -> None:
        """Break the connection in the next turn, because the peer has violated the protocol."""
        for link in self._links:
            self.engine.driver.call_soon(link.lost, cause)

    # Frames by which the peer answers.

    def _cts(self, header: tuple[int, ...], payload: memoryview) -> None:
        wanted, srqid, drqid = header[5:]
        request = self._answered(srqid)
        if wanted > request.nbytes:
            raise RemoteProtocolError(f"rank {self.rank} asks for {wanted} bytes of a message of {request.nbytes}")
        self._answer_to(srqid)
        request.acknowledged, request.unsent = True, False
        pieces = request.payload if wanted == request.nbytes else frame.beginning(request.payload, wanted)
        header_bytes = self._header(frame.DATA, 0, 0, 0, wanted, 0, drqid)
        if (self.link or self.connect()).send(header_bytes, pieces, request):
            request.sent()

    def _invited(self, header: tuple[int, ...], payload: memoryview) -> None:
        """Refuse an invitation that the core has not accepted, or ignore it if its message is complete or withdrawn."""
        number, wanted, srqid, address = header[1], *header[5:]
        request = self.engine.sends.get(srqid)
        if request is None or request.peer is not self or self._sharing is None:
            return
        if wanted > request.nbytes or number <= 0 or address + wanted > frame.ADDRESSES:
            raise RemoteProtocolError(
                f"rank {self.rank} has {wanted} bytes of a message of {request.nbytes} written to {address:#x}, by "
                f"invitation {number}"
            )
        if request.invited:  # each invitation may cost this rank a copy of the whole message
            raise RemoteProtocolError(f"rank {self.rank} has a message written twice")

    def _syncack(self, header: tuple[int, ...], payload: memoryview) -> None:
        if self._answered(header[6]).unsent:
            raise RemoteProtocolError(f"rank {self.rank} has matched a message without asking for it")
        self._answer_to(header[6]).matched()

    def _notready(self, header: tuple[int, ...], payload: memoryview) -> None:
        if not self._answered(header[6]).ready:
            raise RemoteProtocolError(f"rank {self.rank} was not ready for a message that is not in ready mode")
        self._answer_to(header[6]).not_ready(self.rank)

    def _protoack(self, header: tuple[int, ...], payload: memoryview) -> None:
        """Do nothing more: such a frame only returns credit, in its header."""

    def _cancelyes(self, header: tuple[int, ...], payload: memoryview) -> None:
        if not self._answered(header[6]).recalling:
            raise RemoteProtocolError(f"rank {self.rank} gives back a message that this rank has not recalled")
        self._answer_to(header[6]).recalled()

    def _cancelno(self, header: tuple[int, ...], payload: memoryview) -> None:
        """Record that the recall came too late. If the message still needs an answer, the answer completes the send."""
        request = self.engine.sends.get(header[6])
        if request is not None and request.peer is self:
            request.recalling = False
            if self.finalize_error is not None:
                del self.engine.sends[request.srqid]
                request.fail(another(self.finalize_error))

    def _answer_to(self, srqid: int) -> Send:
        """Remove and return a send whose last answer has come; afterwards nothing refers to its memory."""
        request = self._answered(srqid)
        del self.engine.sends[srqid]
        self._unanswered -= 1
        self._release(srqid)
        part = self.engine.assisted.pop(srqid, None)
        if part is not None:
            self.engine.copy_queue.drop(part)
        return request

    def _answered(self, srqid: int) -> Send:
        request = self.engine.sends.get(srqid)
        if request is None or request.peer is not self:
            raise RemoteProtocolError(f"rank {self.rank} answers to a message that was not sent to it")
        return request
