"""What passes between this rank and one of another IMPI client (IMPI 0.0, section 3.7).

`aiompi.impi.channel` knows the packets and their order; here they meet requests and queues. Messages come unasked,
the first packet of a long one too, and wait among the unexpected ones; IMPI has no other limit to them than hiwater,
which counts packets until they have been read.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from aiompi.datatype.buffer.allocation import allocate
from aiompi.engine.endpoint import Endpoint
from aiompi.engine.message import Landing, Message
from aiompi.engine.receive import Receive
from aiompi.engine.send import Mode, Send
from aiompi.impi.channel import Incoming, Outgoing, Pair, Phase
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.engine.gateway import Gateway
    from aiompi.engine.match import Matcher
    from aiompi.wire.frame import Payload


class ForeignSend(Send):
    """A message on its way to another client.

    Attributes:
        outgoing: its packets, which refer to it; None once it is complete.
    """

    __slots__ = ("outgoing",)

    peer: ImpiPeer
    outgoing: Outgoing | None

    def _finish(self) -> None:
        self._engine.sends.pop(self.srqid, None)
        self.outgoing = None  # in no cycle, since that would keep the memory
        super()._finish()

    def sent(self) -> None:
        self.released = True
        if self.acknowledged and not self._done:
            self._complete_once()

    def detach(self) -> None:
        assert self.outgoing is not None
        self.payload = ()
        self.outgoing.detach()
        if self.peer.link is not None:
            self.peer.link.detach(self, lent=False)


class ForeignMessage(Message):
    """An unexpected message of another client, or one that has lost its receive.

    Attributes:
        incoming: its packets; None once it has been matched.
        beginning: data of the first packet of a long message that has not been matched.
    """

    __slots__ = ("beginning", "incoming")

    def __init__(self, peer: ImpiPeer, matcher: Matcher, source: int, tag: int, length: int) -> None:
        super().__init__(peer, matcher, source, tag, length, 0, rts=False, sync=False)
        self.incoming: Incoming | None = None
        self.beginning = memoryview(b"")

    @classmethod
    def of(cls, peer: ImpiPeer, matcher: Matcher, incoming: Incoming, data: memoryview) -> ForeignMessage:
        """A message that nobody has received."""
        message = cls(peer, matcher, incoming.lsrank, incoming.tag, incoming.length)
        message.incoming = incoming
        message.rts = bool(incoming.missing)
        message.sync = incoming.sync
        copy = memoryview(bytearray(data))
        if message.rts:
            message.beginning = copy
        else:
            message.data = copy
        incoming.place = message
        return message

    def envelope(self) -> Status:
        assert isinstance(self.peer, ImpiPeer)
        return Status.of(self.source, self.tag, self.length, external=self.peer.external)


class ImpiPeer(Endpoint):
    """A rank of another client (protocol aiompi.impi.channel.Correspondent).

    Args:
        gateway: of this rank.
        rank: in the world.
        own, other: the two processes as packets name them.
        external: whether user data travels in external32; otherwise as it lies in the memory of this machine.

    Attributes:
        pair: what has been said.
    """

    __slots__ = ("_gateway", "external", "pair")

    def __init__(self, gateway: Gateway, rank: int, own: bytes, other: bytes, *, external: bool) -> None:
        super().__init__(gateway.engine, rank)
        self._gateway = gateway
        self.external = external
        self.pair = Pair(own, other, gateway.limits, self)

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
    ) -> Send:
        """Start a message; see `Endpoint.send`.

        Args:
            payload: in the form in which it travels.
            mode: IMPI has no ready mode: such a message waits for its receive as any other.
            note: not told to other clients.
        """
        request = ForeignSend(self.engine, self, payload, nbytes)
        self._fail_if_gone(request)
        if request.done():
            return request
        synchronous = mode is Mode.SYNCHRONOUS
        request.srqid = self.engine.next_id()
        request.acknowledged = not synchronous and nbytes <= self.pair.limits.datalen
        outgoing = Outgoing(payload, nbytes, request.srqid, context, source, tag, synchronous, request)
        request.outgoing = outgoing
        self.engine.sends[request.srqid] = request
        self.pair.send(outgoing)
        return request

    def transmit(self, header: bytes, data: Payload, last_of: Outgoing | None) -> None:
        if self.error is not None:
            return
        if self.link is None:
            self.link = self.engine.connect(self)
        owner = None if last_of is None else last_of.owner
        if self.link.send(header, data, owner) and owner is not None:
            owner.sent()

    def waits(self, outgoing: Outgoing) -> None:
        writing = self._gateway.writing
        if writing is not None and self.error is None:
            outgoing.write_ahead(self.pair.limits.datalen, writing.write)

    def recall(self, send: Send) -> None:
        assert isinstance(send, ForeignSend)
        assert send.outgoing is not None
        if send.outgoing.phase is Phase.SENT:
            send.acknowledged = False  # the answer is awaited, even if the memory is free before it comes
        if self.pair.cancel(send.outgoing):
            send.recalling = not send.done()

    def matched(self, outgoing: Outgoing) -> None:
        outgoing.owner.matched()

    def cancelled(self, outgoing: Outgoing) -> None:
        if self._gateway.writing is not None:
            while outgoing.ahead:
                self._gateway.writing.erase(outgoing.ahead.popleft())
        outgoing.owner.recalled()

    def not_cancelled(self, outgoing: Outgoing) -> None:
        send: ForeignSend = outgoing.owner
        send.recalling = False
        if outgoing.phase is not Phase.UNMATCHED:
            send.matched()

    # Receiving.

    def arrived(self, incoming: Incoming, data: memoryview) -> None:
        if self._gateway.closed:
            self.pair.forbid_recall(incoming)  # nobody will receive it (section 3.8)
            return
        matcher = self.engine.matcher(incoming.cid)
        receive = matcher.take_posted(incoming.lsrank, incoming.tag)
        if receive is None:
            matcher.add_unexpected(ForeignMessage.of(self, matcher, incoming, data))
        else:
            self._give(incoming, receive, data)

    def deliver(self, message: Message, receive: Receive) -> None:
        assert isinstance(message, ForeignMessage)
        receive.order = message.order
        incoming, message.incoming = message.incoming, None
        if incoming is not None:
            self._give(incoming, receive, message.beginning if message.data is None else message.data)
            return
        receive.from_abroad(self)
        message.hand_to(receive)

    def _give(self, incoming: Incoming, receive: Receive, data: memoryview) -> None:
        """A message that nobody has matched goes to its receive; its sender is told."""
        receive.from_abroad(self)
        if incoming.missing:
            incoming.place = self._land(incoming, receive)
            self.pair.match(incoming)  # The sender hears of it before the data are copied: it waits for that.
            self.continued(incoming, data)
        else:
            self.pair.match(incoming)
            receive.take(incoming.lsrank, incoming.tag, data)

    def _land(self, incoming: Incoming, receive: Receive) -> Landing:
        """Memory for a long message, all of which will come, wanted or not (section 3.7.2)."""
        receive.source, receive.tag, receive.length = incoming.lsrank, incoming.tag, incoming.length
        try:
            return Landing(self, receive, self._memory(receive), incoming.length, 0)
        except (MemoryError, ValueError):
            receive.out_of_memory(receive.source, receive.tag, receive.length)
            return Landing.dropped(self, incoming.length)

    def _memory(self, receive: Receive) -> memoryview:
        return allocate(receive.wanted(receive.length)) if receive.memory is None else receive.memory

    def continued(self, incoming: Incoming, data: memoryview) -> None:
        landing: Landing = incoming.place
        if self.engine.error is None:
            landing.put(data)

    def recalled(self, incoming: Incoming) -> None:
        message: ForeignMessage = incoming.place
        message.matcher.remove_unexpected(message)

    def forbid_recall(self, message: Message) -> None:
        if isinstance(message, ForeignMessage) and message.incoming is not None:
            self.pair.forbid_recall(message.incoming)

    def allow_recall(self, message: Message) -> None:
        if isinstance(message, ForeignMessage) and message.incoming is not None:
            self.pair.allow_recall(message.incoming)

    def consumed(self, eager: int) -> None:
        """Nothing: packets are acknowledged when they have been read."""

    def odd(self, what: str) -> None:
        warnings.warn(f"rank {self.engine.rank}, IMPI: {what}", RuntimeWarning, stacklevel=2)

    def fini(self) -> None:
        """Nothing: it is the hosts that tell each other, once all their processes are finished."""
