"""What passes between this rank and one other: the protocols behind a send and a receive.

Eager: a message of at most `eager_limit` bytes goes out at once, as long as the receiver has granted memory for it
(`credit`). If the receiver shares memory with this rank, the same holds up to `shm_eager_limit` bytes: the message is
written into memory that the receiver reads, and an object may stay there.

Rendezvous: any other message announces itself (RTS), is asked for when it is matched (CTS) and goes from user memory to
user memory (DATA). Where the receiver can read the memory of the message, it copies it when it is matched, and answers
(SYNCACK). So a sender without credit waits for its receiver, while order and progress are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.datatype.buffer.allocation import copied
from aiompi.engine.copies import read_part, write_part
from aiompi.engine.credit import OVERHEAD, Creditor
from aiompi.engine.message import Landing, Message, place
from aiompi.engine.receive import Receive
from aiompi.engine.send import Mode, Send
from aiompi.errors import RemoteProtocolError
from aiompi.wire import frame
from aiompi.wire.frame import EAGER, HEADER, Keep, Offer, Payload

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.match import Matcher
    from aiompi.engine.request import Request
    from aiompi.engine.seams import Failable, Link, Sharing

_pack: Final = HEADER.pack
_STANDARD: Final = Mode.STANDARD

#: mode -> kind of the frame of a short message, and of a long one
_KINDS: Final = {
    Mode.STANDARD: (EAGER, frame.RTS),
    Mode.BUFFERED: (EAGER, frame.RTS),
    Mode.SYNCHRONOUS: (frame.EAGER_SYNC, frame.RTS),
    Mode.READY: (frame.EAGER_READY, frame.RTS_READY),
}


class Peer(Creditor):
    """One other rank, or this rank itself, which understands frames.

    Attributes:
        recallable: by srqid, unexpected messages that the sender may still cancel.
    """

    __slots__ = ("_contexts", "recallable")

    def __init__(self, engine: Engine, rank: int, credit: int) -> None:
        super().__init__(engine, rank, credit)
        self._contexts = engine.contexts
        self.recallable: dict[int, Message] = {}

    # Sending.

    def send(
        self,
        payload: Payload,
        nbytes: int,
        context: int,
        source: int,
        tag: int,
        mode: Mode = Mode.STANDARD,
        note: int = 0,
    ) -> Request[None]:
        engine = self.engine
        cost = nbytes + OVERHEAD
        if mode is not _STANDARD or nbytes > engine.eager_limit or cost > self.credit or engine.troubled:
            streamable = mode is _STANDARD and engine.eager_limit < nbytes <= engine.shm_eager_limit
            if streamable and self._send_straight(payload, nbytes, context, source, tag, note):
                return engine.departed
            request = Send(engine, self, payload, nbytes)
            try:
                self._send_acknowledged(request, context, source, tag, mode, note)
            except BaseException:
                request.withdraw()  # nobody else has it
                raise
            return request
        link = self.link or self.connect()
        header = _pack(EAGER, tag, source, self._owed, context, nbytes, 0, note)
        self.credit -= cost
        self._owed = 0
        if link.dispatch(header, payload):
            return engine.departed
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
        """Start a message that is not simply handed over, most of all one that the receiver must answer."""
        nbytes, cost = request.nbytes, request.nbytes + OVERHEAD
        short, long = _KINDS[mode]
        request.expendable = self.engine.lenient and short == EAGER and nbytes <= self.engine.eager_limit
        self._fail_if_gone(request)
        if request.done():
            return
        link = self.link or self.connect()
        eager = nbytes <= self.engine.eager_limit and self._affords(cost)
        if not eager or short != EAGER:
            request.acknowledged = False
            request.srqid = self.engine.next_id()
            self.engine.sends[request.srqid] = request
        if not eager:
            if long != frame.RTS or not self._shared(request, context, source, tag, mode, note):
                self.emit(long, tag, source, context, nbytes, request.srqid, note)
            return
        self.credit -= cost
        header = self._header(short, tag, source, context, nbytes, request.srqid, note)
        if link.send(header, request.payload, request):
            request.sent()

    def _shared(self, request: Send, context: int, source: int, tag: int, mode: Mode, note: int) -> bool:
        """Send a long message through memory that the peer reads, if there is some for it."""
        sharing, nbytes = self._sharing, request.nbytes
        if sharing is None:
            return False
        payload, longer = request.payload, nbytes > self.engine.shm_eager_limit

        def announce(header: bytes) -> bool:
            return longer and sharing.expose(header, payload, nbytes)

        if self._give((frame.RTS, tag, source, context, nbytes, request.srqid, note), 0, announce):
            request.sent()
            return True
        if mode is Mode.SYNCHRONOUS or longer:
            return False
        sent = True  # for all that is known when this is interrupted: then nobody waits for an answer
        try:
            sent = self._send_straight(payload, nbytes, context, source, tag, note)
        finally:
            if sent:
                self.engine.sends.pop(request.srqid, None)
                request.acknowledged = True
        if sent:
            request.sent()
        return sent

    def _send_straight(self, payload: Payload, nbytes: int, context: int, source: int, tag: int, note: int) -> bool:
        """Send a message by one copy to where the peer reads it; False if that cannot be done now."""
        sharing = self._sharing
        if sharing is None or not self._affords(nbytes + OVERHEAD) or self.engine.troubled:
            return False
        envelope = EAGER, tag, source, context, nbytes, 0, note
        return self._give(envelope, nbytes + OVERHEAD, lambda header: sharing.stream(header, payload, nbytes))

    def recall(self, send: Send) -> None:
        if send.srqid in self.engine.sends and not send.recalling:
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
        """Use a link for our frames, unless there is one already; the peer may use another one for its own."""
        if link not in self._links:
            self._links.append(link)
        if self.link is None:
            self.link = link
            if self.engine.finished:
                self.emit(frame.FINI)

    def connect(self) -> Link:
        link = self.engine.connect(self)
        self.adopt(link)
        return self.link or link

    # Receiving: frames of the peer, in order (protocol aiompi.wire.frame.Sink).

    def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
        kind, tag, source, credit, context, length, _, note = header
        self.credit += credit
        if kind == EAGER and context in self._contexts:
            matcher = self._contexts[context]
            receive = matcher.take_posted(source, tag)
            if receive is None:
                self._keep_eager(matcher, header, payload)
                return
            self._owed += length + OVERHEAD
            if self._owed >= self._ackmark:
                self._acknowledge()
            if note:
                receive.noted(note)
            receive.take(source, tag, payload)
            return
        _HANDLERS.get(kind, Peer._unknown)(self, header, payload)

    def land(self, header: tuple[int, ...], keep: Keep | None = None) -> Landing:
        kind, tag, source, credit, context, length, srqid, drqid = header
        self.credit += credit
        if kind == frame.DATA:
            return self._landing(drqid, length)
        eager = self._hold(length)
        matcher = self.engine.matcher(context)
        receive = matcher.take_posted(source, tag)
        if receive is not None:
            if kind != EAGER:
                self.emit(frame.SYNCACK, srqid=srqid)
            receive.noted(drqid)
            try:
                return receive.begin(self, source, tag, length, length, eager, keep)
            except MemoryError:
                receive.out_of_memory(source, tag, length)
                return Landing.dropped(self, length, eager)
        if kind == frame.EAGER_READY:
            self.emit(frame.NOTREADY, srqid=srqid)
            return Landing.dropped(self, length, eager)
        message = Message(self, matcher, source, tag, length, srqid, rts=False, sync=kind == frame.EAGER_SYNC)
        message.note = drqid
        try:
            landing = Landing(self, message, place(length, keep), length, 0)
            message.eager = eager
        except MemoryError:
            landing = Landing.dropped(self, length, eager)
        self._keep(message)
        return landing

    def _keep(self, message: Message) -> None:
        """No receive is posted for the message."""
        self.allow_recall(message)
        message.matcher.add_unexpected(message)

    def _eager(self, header: tuple[int, ...], payload: memoryview) -> None:
        kind, tag, source, _, context, length, srqid, note = header
        matcher = self.engine.matcher(context)
        receive = matcher.take_posted(source, tag)
        if receive is not None:
            if kind != EAGER:
                self.emit(frame.SYNCACK, srqid=srqid)
            self._return_credit(length + OVERHEAD)
            receive.noted(note)
            receive.take(source, tag, payload)
            return
        if kind == frame.EAGER_READY:
            self.emit(frame.NOTREADY, srqid=srqid)
            self._return_credit(length + OVERHEAD)
            return
        self._keep_eager(matcher, header, payload)

    def _keep_eager(self, matcher: Matcher, header: tuple[int, ...], payload: memoryview) -> None:
        kind, tag, source, _, _, length, srqid, note = header
        message = Message(self, matcher, source, tag, length, srqid, rts=False, sync=kind == frame.EAGER_SYNC)
        eager = self._hold(length)
        message.note = note
        try:
            message.data = copied(payload)
            message.eager = eager
        except MemoryError:
            self.consumed(eager)
        self._keep(message)

    def offer(self, header: tuple[int, ...], offer: Offer) -> None:
        self.credit += header[3]
        self._announced(header, offer)

    def _rts(self, header: tuple[int, ...], payload: memoryview) -> None:
        self._announced(header, None)

    def _announced(self, header: tuple[int, ...], offer: Offer | None) -> None:
        kind, tag, source, _, context, length, srqid, note = header
        matcher = self.engine.matcher(context)
        receive = matcher.take_posted(source, tag)
        if receive is not None:
            receive.noted(note)
            self._fetch(receive, source, tag, length, srqid, offer)
            return
        if kind == frame.RTS_READY:
            self.emit(frame.NOTREADY, srqid=srqid)
            return
        message = Message(self, matcher, source, tag, length, srqid, rts=True, sync=False)
        message.note = note
        message.offer = offer
        self._keep(message)

    def deliver(self, message: Message, receive: Receive) -> None:
        receive.order = message.order
        if message.note:
            receive.noted(message.note)
        if message.rts:
            self._fetch(receive, message.source, message.tag, message.length, message.srqid, message.offer)
            return
        if message.sync:
            self.emit(frame.SYNCACK, srqid=message.srqid)
        message.hand_to(receive)

    def _fetch(self, receive: Receive, source: int, tag: int, length: int, srqid: int, offer: Offer | None) -> None:
        """Copy a long message from where it is, or ask for it."""
        wanted = receive.wanted(length)
        try:
            landing = receive.begin(self, source, tag, length, wanted)
        except (MemoryError, ValueError):
            receive.out_of_memory(source, tag, length)
            self.emit(frame.CTS, srqid=srqid)
        else:
            if offer is None or not offer.stands():
                self.ask(landing, srqid)
            else:
                self._copy(landing, srqid, offer)

    def ask(self, landing: Landing, srqid: int) -> None:
        """Have a message sent that has announced itself."""
        drqid = self.engine.next_id()
        self.engine.arriving[drqid] = landing
        self.emit(frame.CTS, length=landing.length, srqid=srqid, drqid=drqid)

    def _copy(self, landing: Landing, srqid: int, offer: Offer) -> None:
        """Copy what is on offer, in turn with all else that is."""
        landing.offer = offer
        invitation = offer.invite(landing.memory[: landing.length])
        if invitation is not None:
            number, address = invitation
            self.emit(frame.INVITE, number, length=landing.length, srqid=srqid, drqid=address)
        self.engine.copies.begin(functools.partial(read_part, self, landing, srqid, offer))

    def _landing(self, drqid: int, length: int) -> Landing:
        landing = self.engine.arriving.pop(drqid, None)
        if landing is None or landing.peer is not self or landing.length != length:
            raise RemoteProtocolError(f"rank {self.rank} sent {length} bytes of data that nobody asked for")
        return landing

    def forbid_recall(self, message: Message) -> None:
        self.recallable.pop(message.srqid, None)

    def allow_recall(self, message: Message) -> None:
        if message.srqid:
            self.recallable[message.srqid] = message

    def _cts(self, header: tuple[int, ...], payload: memoryview) -> None:
        wanted, srqid, drqid = header[5:]
        request = self._answered(srqid)
        if wanted > request.nbytes:
            raise RemoteProtocolError(f"rank {self.rank} asks for {wanted} bytes of a message of {request.nbytes}")
        self._answer_to(srqid)
        request.acknowledged = True
        pieces = request.payload if wanted == request.nbytes else frame.beginning(request.payload, wanted)
        header_bytes = self._header(frame.DATA, 0, 0, 0, wanted, 0, drqid)
        if (self.link or self.connect()).send(header_bytes, pieces, request):
            request.sent()

    def _invited(self, header: tuple[int, ...], payload: memoryview) -> None:
        number, wanted, srqid, address = header[1], *header[5:]
        request, sharing = self.engine.sends.get(srqid), self._sharing
        if request is None or request.peer is not self or sharing is None:
            return  # it is of no use any more
        if wanted > request.nbytes or number <= 0:
            raise RemoteProtocolError(
                f"rank {self.rank} has {wanted} bytes of a message of {request.nbytes} written, by invitation {number}"
            )
        write = sharing.assist(request.payload, wanted, number, address)
        if write is not None:
            part = self.engine.assisting[srqid] = functools.partial(write_part, request, request.payload, write)
            self.engine.copies.begin(part)

    def _answer_to(self, srqid: int) -> Send:
        """The send that is answered for the last time: nothing refers to its memory any more."""
        request = self._answered(srqid)
        del self.engine.sends[srqid]
        part = self.engine.assisting.pop(srqid, None)
        if part is not None:
            self.engine.copies.drop(part)
        return request

    def _data(self, header: tuple[int, ...], payload: memoryview) -> None:
        length, drqid = header[5], header[7]
        if length == 0 and drqid not in self.engine.arriving:
            return
        self._landing(drqid, length).put(payload)

    def _syncack(self, header: tuple[int, ...], payload: memoryview) -> None:
        self._answer_to(header[6]).matched()

    def _notready(self, header: tuple[int, ...], payload: memoryview) -> None:
        self._answer_to(header[6]).not_ready(self.rank)

    def _protoack(self, header: tuple[int, ...], payload: memoryview) -> None:
        """The credit of the header was all."""

    def _cancel(self, header: tuple[int, ...], payload: memoryview) -> None:
        srqid = header[6]
        message = self.recallable.pop(srqid, None)
        if message is None:
            self.emit(frame.CANCELNO, srqid=srqid)
            return
        message.matcher.remove_unexpected(message)
        self.consumed(message.eager)
        self.emit(frame.CANCELYES, srqid=srqid)

    def _cancelyes(self, header: tuple[int, ...], payload: memoryview) -> None:
        self._answer_to(header[6]).recalled()

    def _cancelno(self, header: tuple[int, ...], payload: memoryview) -> None:
        """Too late: the answer to the message itself completes the send, if there still is one to come."""
        request = self.engine.sends.get(header[6])
        if request is not None and request.peer is self:
            request.recalling = False
            if self.farewell is not None:
                del self.engine.sends[request.srqid]
                request.fail(self.farewell)

    def _answered(self, srqid: int) -> Send:
        request = self.engine.sends.get(srqid)
        if request is None or request.peer is not self:
            raise RemoteProtocolError(f"rank {self.rank} answers to a message that was not sent to it")
        return request

    def _unknown(self, header: tuple[int, ...], payload: memoryview) -> None:
        raise RemoteProtocolError(f"a frame of unknown kind {header[0]}")

    # The end.

    def fini(self) -> None:
        if self.link is not None:
            self.emit(frame.FINI)

    def _fini(self, header: tuple[int, ...], payload: memoryview) -> None:
        self.leave()

    def abandon(self) -> list[Failable]:
        self.recallable = {}
        arriving = self.engine.arriving
        for drqid in [drqid for drqid, landing in arriving.items() if landing.peer is self]:
            del arriving[drqid]
        return super().abandon()


#: what is done with a frame of a kind, unless it is eager and meets its receive at once
_HANDLERS: Final[dict[int, Callable[[Peer, tuple[int, ...], memoryview], None]]] = {
    EAGER: Peer._eager,
    frame.EAGER_SYNC: Peer._eager,
    frame.EAGER_READY: Peer._eager,
    frame.RTS: Peer._rts,
    frame.RTS_READY: Peer._rts,
    frame.CTS: Peer._cts,
    frame.DATA: Peer._data,
    frame.SYNCACK: Peer._syncack,
    frame.NOTREADY: Peer._notready,
    frame.PROTOACK: Peer._protoack,
    frame.CANCEL: Peer._cancel,
    frame.CANCELYES: Peer._cancelyes,
    frame.CANCELNO: Peer._cancelno,
    frame.FINI: Peer._fini,
    frame.INVITE: Peer._invited,
}
