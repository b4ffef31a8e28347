"""The protocols behind a send and a receive: the frames between this rank and one other rank.

Eager: a message of at most `eager_limit` bytes is sent at once, as long as the receiver has granted memory for it
(`credit`). If the receiver can copy from the memory of this rank, the limit is `shm_eager_limit` bytes.

Rendezvous: any other message is announced (RTS). When the message is matched, the receiver asks for it (CTS), and the
payload goes from user memory to user memory (DATA). A receiver that can read the sender's memory copies the matched
message itself, and answers (SYNCACK). So a sender without credit waits for its receiver, and order and progress are
kept. Announcements are bounded too: at most MAX_ANNOUNCED are unanswered. The sender withholds all further messages
until the receiver asks for them (`withheld`).

The receiver trusts no frame. A frame that exceeds these bounds, or a message with the source of another rank, breaks
the connection with a RemoteProtocolError.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.core.allocation import LARGE, allocate, copied
from aiompi.core.pure.peer import OVERHEAD
from aiompi.engine.message import Landing, Message
from aiompi.engine.receive import Receive
from aiompi.engine.sending_peer import SendingPeer
from aiompi.engine.single_copy import copy_from_sender
from aiompi.errors import RemoteProtocolError
from aiompi.wire import frame
from aiompi.wire.frame import EAGER, MAX_ANNOUNCED, Offer

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.matching import Matcher
    from aiompi.engine.seams import Failable

#: contexts that messages of one peer may open before this rank has made the communicators
MAX_CONTEXTS = 2**14
#: most announcements that are kept with their offers; for further messages this rank asks the sender
_MAX_OFFERS = 2**12


class Peer(SendingPeer):
    """One other rank that understands frames, or this rank itself.

    Attributes:
        recallable: by srqid, unexpected messages that the sender may still cancel.
        contexts_opened: contexts that messages of the peer have opened before this rank has made their communicators.
    """

    __slots__ = ("_announced", "contexts_opened", "recallable")

    _message_class = Message  # of messages that the core keeps

    def __init__(self, engine: Engine, rank: int, credit: int) -> None:
        super().__init__(engine, rank, credit, sys.maxsize if rank == engine.rank else MAX_ANNOUNCED)
        self.recallable: dict[int, Message] = {}
        self.contexts_opened = 0
        self._announced = 0  # messages that the peer has announced unasked, and that are not matched

    # Receiving: frames of the peer in their order (protocol aiompi.wire.frame.Sink).

    def handle(self, header: tuple[int, ...], payload: memoryview) -> None:
        _HANDLERS.get(header[0], Peer._unknown)(self, header, payload)

    def land(self, header: tuple[int, ...]) -> Landing:
        kind, tag, source, credit, context, length, srqid, drqid = header
        self.gain(credit)
        if kind == frame.DATA:
            return self._landing(drqid, length)
        eager = self._hold(length)
        matcher = self._matcher(context, source)
        receive = matcher.take_posted(source, tag)
        if receive is not None:
            return self._land_at(receive, header, eager)
        if kind == frame.EAGER_READY:
            self.emit(frame.NOTREADY, srqid=srqid)
            return Landing.dropped(self, length, eager)
        message = Message(self, matcher, source, tag, length, srqid, rts=False, sync=kind == frame.EAGER_SYNC)
        message.note = drqid
        try:
            landing = Landing(self, message, allocate(length), length, 0)
            message.eager = eager
        except MemoryError:
            landing = Landing.dropped(self, length, eager)
        self._keep(message)
        return landing

    def land_at(self, receive: Receive, header: tuple[int, ...]) -> Landing:
        """Return the landing of an eager message that the core has matched."""
        receive.resume()
        return self._land_at(receive, header, self._hold(header[5]))

    def _land_at(self, receive: Receive, header: tuple[int, ...], eager: int) -> Landing:
        kind, tag, source, _, _, length, srqid, note = header
        if kind != EAGER:
            self.emit(frame.SYNCACK, srqid=srqid)
        receive.note = note
        try:
            return receive.begin(self, source, tag, length, length, eager)
        except MemoryError:
            receive.out_of_memory(source, tag, length)
            return Landing.dropped(self, length, eager)

    def _keep(self, message: Message) -> None:
        """Keep a message for which no receive is posted; drop it if no receive can be posted any more."""
        if message.matcher.error is not None:
            message.discard()
            return
        self.allow_recall(message)
        message.matcher.add_unexpected(message)

    def _eager(self, header: tuple[int, ...], payload: memoryview) -> None:
        kind, tag, source, _, context, length, srqid, note = header
        matcher = self._matcher(context, source)
        receive = matcher.take_posted(source, tag)
        if receive is not None:
            if kind != EAGER:
                self.emit(frame.SYNCACK, srqid=srqid)
            self._return_credit(length + OVERHEAD)
            receive.note = note
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
            message.data = memoryview(bytearray(payload)) if length < LARGE else copied(payload)
            message.eager = eager
        except MemoryError:
            self.consumed(eager)
        if srqid or matcher.error is not None:
            self._keep(message)
        else:
            matcher.add_unexpected(message)

    def _matcher(self, context: int, source: int) -> Matcher:
        """Return the queues of the context in which the peer sends a message with this source number."""
        matcher = self._contexts.get(context)
        if matcher is None:
            self.contexts_opened += 1
            if self.contexts_opened > MAX_CONTEXTS:
                raise RemoteProtocolError(
                    f"rank {self.rank} sent messages on {MAX_CONTEXTS} communicators that this rank does not have, and "
                    "on another one"
                )
            matcher = self.engine.matcher(context)
            matcher.opener = self
        self._check_source(matcher, source)
        return matcher

    def _check_source(self, matcher: Matcher, source: int) -> None:
        if not matcher.admits(self.rank, source):
            raise RemoteProtocolError(self._forgery(matcher, source))

    def _forgery(self, matcher: Matcher, source: int) -> str:
        return f"rank {self.rank} sent a message as source {source} of context {matcher.context}, which it is not"

    def refuse(self, message: Message) -> None:
        """Drop a message that names another rank than its sender as its source, and break the connection."""
        message.extract()
        if message.landing is not None:
            message.landing.drop()
        self.break_off(self._forgery(message.matcher, message.source))

    def offer(self, header: tuple[int, ...], offer: Offer) -> None:
        self.gain(header[3])
        self._take_announcement(header, offer)

    def _rts(self, header: tuple[int, ...], payload: memoryview) -> None:
        self._take_announcement(header, None)

    def _take_announcement(self, header: tuple[int, ...], offer: Offer | None) -> None:
        """Match a message that is announced, or keep the announcement."""
        kind, tag, source, _, context, length, srqid, note = header
        matcher = self._matcher(context, source)
        receive = matcher.take_posted(source, tag)
        if receive is not None:
            receive.note = note
            self.fetch(receive, source, tag, length, srqid, offer)
            return
        if kind == frame.RTS_READY:
            self.emit(frame.NOTREADY, srqid=srqid)
            return
        self._announced += 1
        if self._announced > self._max_announced:
            raise RemoteProtocolError(
                f"rank {self.rank} announced {MAX_ANNOUNCED} messages that this rank has not received, and another one"
            )
        message = Message(self, matcher, source, tag, length, srqid, rts=True, sync=False)
        message.note = note
        message.offer = offer if self._announced <= _MAX_OFFERS else None
        self._keep(message)

    def deliver(self, message: Message, receive: Receive) -> None:
        if message.order:  # an early message has none
            receive.order = message.order
        receive.note = message.note
        if message.rts:
            self.announcement_dropped(message)
            self.fetch(receive, message.source, message.tag, message.length, message.srqid, message.offer)
            return
        if message.sync:
            self.emit(frame.SYNCACK, srqid=message.srqid)
        message.deliver_to(receive)

    def announcement_dropped(self, message: Message) -> None:
        if not message.asked:
            self._announced -= 1
        elif message.early and self.questions is not None:
            self.questions.early.pop(message.srqid, None)

    def fetch(self, receive: Receive, source: int, tag: int, length: int, srqid: int, offer: Offer | None) -> None:
        """Copy a long message from the peer's memory, or ask the peer to send the message."""
        if offer is not None and offer.land(self, receive, source, tag, length, srqid):
            return
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
        """Ask the peer to send a message that it has announced."""
        drqid = self.engine.next_id()
        self.engine.arriving[drqid] = landing
        self.emit(frame.CTS, length=landing.length, srqid=srqid, drqid=drqid)

    def _copy(self, landing: Landing, srqid: int, offer: Offer) -> None:
        """Copy a message that is on offer, in turn with other copies."""
        landing.offer = offer
        invitation = offer.invite(landing.memory[: landing.length])
        if invitation is not None:
            number, address = invitation
            self.emit(frame.INVITE, number, length=landing.length, srqid=srqid, drqid=address)
        self.engine.copy_queue.begin(functools.partial(copy_from_sender, self, landing, srqid, offer))

    def copy_on(self, receive: Receive, memory: memoryview, srqid: int, offer: Offer, filled: int) -> None:
        landing = Landing(self, receive, memory, receive.length, 0)
        landing.offer = offer
        landing.filled = filled
        self.engine.copy_queue.begin_later(functools.partial(copy_from_sender, self, landing, srqid, offer))

    def _landing(self, drqid: int, length: int) -> Landing:
        landing = self.engine.arriving.pop(drqid, None)
        if landing is None or landing.peer is not self or landing.length != length:
            raise RemoteProtocolError(f"rank {self.rank} sent {length} bytes of data that this rank has not asked for")
        return landing

    def forbid_recall(self, message: Message) -> None:
        self.recallable.pop(message.srqid, None)

    def allow_recall(self, message: Message) -> None:
        if message.srqid:
            self.recallable[message.srqid] = message

    def _data(self, header: tuple[int, ...], payload: memoryview) -> None:
        length, drqid = header[5], header[7]
        if length == 0 and drqid not in self.engine.arriving:
            return
        self._landing(drqid, length).put(payload)

    def _cancel(self, header: tuple[int, ...], payload: memoryview) -> None:
        srqid = header[6]
        message = self.recallable.pop(srqid, None)
        if message is None:
            self.emit(frame.CANCELNO, srqid=srqid)
            return
        message.matcher.remove(message)
        message.discard()
        self.emit(frame.CANCELYES, srqid=srqid)

    # Failures, and the end.

    def spread_revocation(self, context: int) -> None:
        self.emit(frame.REVOKE, context=context)

    def _revoke(self, header: tuple[int, ...], payload: memoryview) -> None:
        self.engine.failure.revoked(header[4], self.rank)

    def _unknown(self, header: tuple[int, ...], payload: memoryview) -> None:
        raise RemoteProtocolError(f"a frame of unknown kind {header[0]}")

    def fini(self) -> None:
        if self.link is not None:
            self.emit(frame.FINI)

    def _fini(self, header: tuple[int, ...], payload: memoryview) -> None:
        self._withheld = None
        self.mark_finalized()

    def drop_unfinished(self) -> list[Failable]:
        self.recallable = {}
        self._withheld = None
        self._end_questions()
        arriving = self.engine.arriving
        for drqid in [drqid for drqid, landing in arriving.items() if landing.peer is self]:
            del arriving[drqid]
        return super().drop_unfinished()


#: kind of a frame -> its handler, except for an eager frame that is matched at once
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
    frame.REVOKE: Peer._revoke,
    frame.WITHHELD: Peer._withholds,
    frame.ASK: Peer._asked_for,
    frame.RTS_ASKED: Peer._take_asked,
    frame.RTS_ANY: Peer._take_asked,
    frame.RTS_EARLY: Peer._take_asked,
    frame.TURN: Peer._in_turn,
    frame.RTS_ASKED | frame.READY: Peer._take_asked,
    frame.RTS_ANY | frame.READY: Peer._take_asked,
    frame.RTS_EARLY | frame.READY: Peer._take_asked,
}
