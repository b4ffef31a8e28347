"""A simulated process: its posted receives, and the messages that wait for a receive (chapter 3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiompi_launcher.conformance.wire.packet import Kind, Packet

if TYPE_CHECKING:
    from aiompi_launcher.conformance.model.host import Host, Pair
    from aiompi_launcher.conformance.model.universe import ProcInfo

ANY: Final = -1  # source, tag


@dataclass(eq=False, slots=True)
class Message:
    """A message at its destination.

    Attributes:
        source: rank in COMM_WORLD.
        length: in bytes; `data` grows to it.
        sync: True if the sender wants to know that the message is matched.
        pair: sender and receiver of a message that comes in packets; None for a message that comes through memory.
        packet: first packet of the message.
        on_match: tells a sender of the same client that the message is matched.
        receive: receive that matches the message.
    """

    source: int
    lsrank: int
    tag: int
    cid: int
    length: int
    data: bytearray
    sync: bool = False
    srqid: int = 0
    pair: Pair | None = None
    packet: Packet | None = None
    on_match: Callable[[], None] | None = None
    receive: Receive | None = None

    @property
    def complete(self) -> bool:
        return len(self.data) >= self.length


@dataclass(eq=False, slots=True)
class Receive:
    """A posted receive.

    Attributes:
        source: rank in the communicator, or ANY.
        done: future of the complete message; cancelling the receive cancels the future.
        what, rule: description and rule of the awaited message, for the report if the message never comes.
    """

    cid: int
    source: int
    tag: int
    done: asyncio.Future[Message]
    what: str = ""
    rule: str = ""

    def fits(self, message: Message) -> bool:
        return self.cid == message.cid and self.source in (ANY, message.lsrank) and self.tag in (ANY, message.tag)


@dataclass(eq=False, slots=True)
class Send:
    """A message at its source.

    Attributes:
        done: future that is done once the buffer is free and, for a synchronous send, the message has been matched.
        first: number of bytes in the first packet.
        state: `queued` by flow control, `sent`, `cancelling`, `matched`.
        message: the message object at the destination, if the message goes through memory.
        cancelled: future of the outcome of a cancel.
    """

    dest: int
    cid: int
    lsrank: int
    tag: int
    data: bytes
    sync: bool
    srqid: int
    done: asyncio.Future[None]
    first: int = 0
    state: str = "queued"
    message: Message | None = None
    cancelled: asyncio.Future[bool] | None = None


class Options:
    """Variants of behaviour within the rules that scripts can choose (`TEST_set`).

    Attributes:
        junk: fill ignored fields with ones.
        withhold_protoack: other than 0 to send no PROTOACK.
        drqid: request id for each long message received; 0 to number these messages consecutively.
        srqid: request id for each message sent; 0 to number the messages consecutively.
        first_bytes, other_bytes: data bytes in the first packet of a long message and in its other packets; 0 for the
            maximum.
        piecemeal: size in bytes of the pieces in which packets are written; 0 to write each packet at once.
    """

    NAMES: Final = ("junk", "withhold_protoack", "drqid", "srqid", "first_bytes", "other_bytes", "piecemeal")

    def __init__(self) -> None:
        self.junk = 0
        self.withhold_protoack = 0
        self.drqid = 0
        self.srqid = 0
        self.first_bytes = 0
        self.other_bytes = 0
        self.piecemeal = 0


def decided(*, outcome: bool) -> asyncio.Future[bool]:
    """Return a future that is done."""
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    future.set_result(outcome)
    return future


@dataclass(eq=False)
class Proc:
    """A simulated process.

    Attributes:
        unexpected: messages in order of arrival that no receive has matched.
        posted: receives in order.
        sends: sends that expect an answer, by request id.
        incoming: long messages that have arrived in part, by our request id.
        received: packets by kind.
        max_cid: IMPI_max_cid.
    """

    info: ProcInfo
    host: Host
    unexpected: list[Message] = field(default_factory=list)
    posted: list[Receive] = field(default_factory=list)
    sends: dict[int, Send] = field(default_factory=dict)
    incoming: dict[int, Message] = field(default_factory=dict)
    received: Counter[Kind] = field(default_factory=Counter)
    options: Options = field(default_factory=Options)
    max_cid: int = 1
    next_request: int = 1
    _arrivals: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return self.info.rank

    def reset(self) -> None:
        """Reset all variants of behaviour."""
        self.options = Options()
        self.host.pay()

    def set_option(self, name: str, value: int) -> None:
        """Set a variant of behaviour; PROTOACKs that are no longer withheld are sent."""
        setattr(self.options, name, value)
        self.host.pay()

    # Receiving.

    def receive(self, cid: int, source: int, tag: int, what: str = "", rule: str = "") -> Receive:
        """Start a receive."""
        receive = Receive(cid, source, tag, asyncio.get_running_loop().create_future(), what, rule)
        message = next(filter(receive.fits, self.unexpected), None)
        if message is None:
            self.posted.append(receive)
        else:
            self.unexpected.remove(message)
            self._match(receive, message)
        return receive

    def withdraw(self, receive: Receive) -> bool:
        """Cancel a receive, if nothing has matched it."""
        if receive not in self.posted:
            return False
        self.posted.remove(receive)
        receive.done.cancel()
        return True

    def arrive(self, message: Message) -> None:
        """Match a message of which at least the first packet has arrived."""
        receive = next((receive for receive in self.posted if receive.fits(message)), None)
        if receive is None:
            self.unexpected.append(message)
            for waiter in self._arrivals:
                if not waiter.done():
                    waiter.set_result(None)
            self._arrivals.clear()
            return
        self.posted.remove(receive)
        self._match(receive, message)

    def peek(self, cid: int, source: int, tag: int) -> Message | None:
        """Return the message that a receive would match now; None if there is none."""
        probe = Receive(cid, source, tag, asyncio.get_running_loop().create_future())
        return next(filter(probe.fits, self.unexpected), None)

    async def probe(self, cid: int, source: int, tag: int) -> Message:
        """Wait for the message that a receive would get."""
        while (message := self.peek(cid, source, tag)) is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._arrivals.append(waiter)
            await waiter
        return message

    def _match(self, receive: Receive, message: Message) -> None:
        message.receive = receive
        if message.pair is not None and message.sync:
            message.pair.acknowledge(message)
        if message.on_match is not None:
            message.on_match()
        self.progress(message)

    def progress(self, message: Message) -> None:
        """Handle more data of a matched message."""
        if message.receive is not None and message.complete and not message.receive.done.done():
            message.receive.done.set_result(message)

    # Sending.

    def send(self, dest: int, cid: int, lsrank: int, tag: int, data: bytes, *, sync: bool = False) -> Send:
        """Start a send.

        Args:
            dest: rank in COMM_WORLD.
            lsrank: own rank in the communicator.
            data: as it travels.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        send = Send(dest, cid, lsrank, tag, data, sync, self._request(), done)
        peer = self.host.neighbour(dest)
        if peer is None:
            self.host.pair(self.rank, dest).send(send)
            return send
        message = Message(self.rank, lsrank, tag, cid, len(data), bytearray(data), sync)
        send.message, send.state = message, "sent"
        if sync:
            message.on_match = lambda: done.set_result(None)
        else:
            done.set_result(None)
        peer.arrive(message)
        return send

    def cancel(self, send: Send) -> asyncio.Future[bool]:
        """Start to cancel a send (section 3.7.4). The future becomes True if the cancellation succeeds."""
        peer = self.host.neighbour(send.dest)
        if peer is None:
            return self.host.pair(self.rank, send.dest).cancel(send)
        gone = send.message in peer.unexpected
        if gone:
            assert send.message is not None
            peer.unexpected.remove(send.message)
        return decided(outcome=gone)

    def _request(self) -> int:
        if self.options.srqid:
            return self.options.srqid
        self.next_request += 1
        return self.next_request
