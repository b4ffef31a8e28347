"""The protocol between this rank and a rank of another IMPI client (IMPI 0.0, section 3.7).

`aiompi.impi.channel` knows the packets and their order. This module connects the packets with requests and queues.
Short messages and the first packets of long ones arrive unasked, and wait in the queue of unexpected messages. IMPI
limits these packets only by hiwater, the number of packets that may be sent and not yet read.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from aiompi.core.allocation import allocate
from aiompi.engine.endpoint import Endpoint
from aiompi.engine.message import Landing, Message
from aiompi.engine.receive import Receive
from aiompi.engine.send import STANDARD, Mode, Send
from aiompi.impi.channel import Incoming, Outgoing, Pair, Phase
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.engine.gateway import Gateway
    from aiompi.engine.matching import Matcher
    from aiompi.wire.frame import Payload


class ImpiSend(Send):
    """A message that is being sent to another client.

    Attributes:
        outgoing: packets of the message, which refer to this request; None once the send is complete.
    """

    __slots__ = ("outgoing",)

    outgoing: Outgoing | None

    def _finish(self) -> None:
        self.peer.engine.sends.pop(self.srqid, None)
        self.outgoing = None  # a cycle of references would keep the memory
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


class ImpiMessage(Message):
    """An unexpected message of another client, or one whose receive was withdrawn.

    Attributes:
        incoming: packets of the message; None once the message has been matched.
        beginning: data of the first packet of a long message that has not been matched.
    """

    __slots__ = ("beginning", "incoming")

    def __init__(self, peer: ImpiPeer, matcher: Matcher, source: int, tag: int, length: int) -> None:
        super().__init__(peer, matcher, source, tag, length, 0, rts=False, sync=False)
        self.incoming: Incoming | None = None
        self.beginning = memoryview(b"")

    @classmethod
    def of(cls, peer: ImpiPeer, matcher: Matcher, incoming: Incoming, data: memoryview) -> ImpiMessage:
        """Make a message that is not matched."""
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
    """A rank of another client (protocol aiompi.impi.channel.PairUser).

    Args:
        gateway: the gateway of this rank.
        rank: rank in the world.
        own, other: this process and the other process, as packets name them.
        external: True if user data is sent in external32; otherwise it is sent in the form of this machine.

    Attributes:
        pair: the state of the packets between the two processes.
    """

    __slots__ = ("_gateway", "external", "pair")

    def __init__(self, gateway: Gateway, rank: int, own: bytes, other: bytes, *, external: bool) -> None:
        super().__init__(gateway.engine, rank)
        self._gateway = gateway
        self.external = external
        self.pair = Pair(own, other, gateway.limits, self)

    # Sending.

    def send(
        self, payload: Payload, nbytes: int, context: int, source: int, tag: int, mode: Mode = STANDARD, note: int = 0
    ) -> Send:
        """Start a message; see `Endpoint.send`.

        Args:
            payload: the payload, already in the representation in which it is sent.
            mode: a ready send waits for its receive as a standard send does, because IMPI has no ready mode.
            note: not sent to other clients.
        """
        request = ImpiSend(self.engine, self, payload, nbytes)
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
            self.link = self.engine.environment.connect(self)
        owner = None if last_of is None else last_of.owner
        if self.link.send(header, data, owner) and owner is not None:
            owner.sent()

    def waits(self, outgoing: Outgoing) -> None:
        writing = self._gateway.writing
        if writing is not None and self.error is None:
            outgoing.write_ahead(self.pair.limits.datalen, writing.write)

    def recall(self, send: Send) -> None:
        assert isinstance(send, ImpiSend)
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
        send: ImpiSend = outgoing.owner
        send.recalling = False
        if outgoing.phase is not Phase.UNMATCHED:
            send.matched()

    # Receiving.

    def arrived(self, incoming: Incoming, data: memoryview) -> None:
        if self._gateway.closed:
            self.pair.forbid_recall(incoming)  # it will not be received (section 3.8)
            return
        matcher = self.engine.matcher(incoming.cid)
        receive = matcher.take_posted(incoming.lsrank, incoming.tag)
        if receive is None:
            matcher.add_unexpected(ImpiMessage.of(self, matcher, incoming, data))
        else:
            self._give(incoming, receive, data)

    def deliver(self, message: Message, receive: Receive) -> None:
        assert isinstance(message, ImpiMessage)
        receive.order = message.order
        incoming, message.incoming = message.incoming, None
        if incoming is not None:
            self._give(incoming, receive, message.beginning if message.data is None else message.data)
            return
        receive.from_other_client(self)
        message.deliver_to(receive)

    def _give(self, incoming: Incoming, receive: Receive, data: memoryview) -> None:
        """Give a message to the receive that it matches, and tell its sender."""
        receive.from_other_client(self)
        if incoming.missing:
            incoming.place = self._land(incoming, receive)
            self.pair.match(incoming)  # before the data are copied, since the sender waits for this
            self.continued(incoming, data)
        else:
            self.pair.match(incoming)
            receive.take(incoming.lsrank, incoming.tag, data)

    def _land(self, incoming: Incoming, receive: Receive) -> Landing:
        """Make the landing of a long message. All of it will come, wanted or not (section 3.7.2)."""
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
        message: ImpiMessage = incoming.place
        message.matcher.remove_unexpected(message)

    def forbid_recall(self, message: Message) -> None:
        if isinstance(message, ImpiMessage) and message.incoming is not None:
            self.pair.forbid_recall(message.incoming)

    def allow_recall(self, message: Message) -> None:
        if isinstance(message, ImpiMessage) and message.incoming is not None:
            self.pair.allow_recall(message.incoming)

    def consumed(self, eager: int) -> None:
        """Do nothing: packets are acknowledged when they have been read."""

    def odd(self, what: str) -> None:
        warnings.warn(f"rank {self.engine.rank}, IMPI: {what}", RuntimeWarning, stacklevel=2)

    def fini(self) -> None:
        """Do nothing: the hosts tell each other when all their processes are finished."""
