"""The two directions between two processes of different clients (IMPI 0.0, sections 3.5 to 3.7)."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, Self

from aiompi.errors import RemoteProtocolError
from aiompi.impi.channel.message import Incoming, Outgoing, Payload, Phase
from aiompi.impi.packet import COUNTED, HEADER, Packet, PacketType, describe
from aiompi.impi.universe import Universe

_pack: Final = HEADER.pack
_DATA: Final = int(PacketType.DATA)
_DATASYNC: Final = int(PacketType.DATASYNC)


class Limits(NamedTuple):
    """Limits that the clients have agreed upon.

    Attributes:
        datalen: most bytes of data in a packet (IMPI_Pk_maxdatalen).
        ackmark: number of packets after which the receiver sends PROTOACK.
        hiwater: most unacknowledged packets.
    """

    datalen: int
    ackmark: int
    hiwater: int

    @classmethod
    def of(cls, universe: Universe) -> Self:
        """Return the limits of a job."""
        return cls(universe.datalen, universe.ackmark, universe.hiwater)


class PairUser(Protocol):
    """The interface through which a `Pair` sends packets and reports events."""

    def transmit(self, header: bytes, data: Payload, last_of: Outgoing | None) -> None:
        """Send a packet to the host, after all earlier ones.

        Args:
            header: its 128 bytes.
            data: views of the memory of a message, which must not change until the packet has left.
            last_of: the message whose last packet this is; its memory is free once the packet has left.
        """

    def waits(self, outgoing: Outgoing) -> None:
        """The rest of a long message waits for a matching receive. Until then, the rest may be written ahead."""

    def arrived(self, incoming: Incoming, data: memoryview) -> None:
        """The first packet of a message has arrived. Call `pair.match` once a receive has matched the message.

        Args:
            data: data of that packet; valid only during the call.
        """

    def continued(self, incoming: Incoming, data: memoryview) -> None:
        """More of a matched message has arrived; it is complete when `incoming.missing` is 0."""

    def recalled(self, incoming: Incoming) -> None:
        """The sender has cancelled a message before it was matched: forget it."""

    def matched(self, outgoing: Outgoing) -> None:
        """A receive has matched a message that was sent as DATASYNC."""

    def cancelled(self, outgoing: Outgoing) -> None:
        """The cancellation of a message has succeeded."""

    def not_cancelled(self, outgoing: Outgoing) -> None:
        """The cancellation of a message has failed: it had been matched before."""

    def odd(self, what: str) -> None:
        """The other side violates the protocol in a way that can be tolerated; reported once per kind."""


class Pair:
    """The traffic between this process and one process of another client.

    Args:
        own, other: the two processes, 24 bytes each as `pack_proc` makes them.
        limits: of the job.
        user: receives events, and sends packets.

    Attributes:
        unacknowledged: number of packets that the other side has not acknowledged, at most hiwater.
    """

    def __init__(self, own: bytes, other: bytes, limits: Limits, user: PairUser) -> None:
        self.own = own
        self.other = other
        self.limits = limits
        self.unacknowledged = 0
        self._user = user
        self._queue: deque[Outgoing | bytes] = deque()
        self._outgoing: dict[int, Outgoing] = {}
        self._unmatched: dict[int, dict[Incoming, None]] = {}
        self._arriving: dict[int, Incoming] = {}
        self._received = 0
        self._next_drqid = itertools.count(1).__next__
        self._next_seqnum = itertools.count(1).__next__
        self._reported: set[str] = set()
        self._handlers: dict[int, Callable[[Packet, memoryview], None]] = {
            PacketType.DATA: self._data,
            PacketType.DATASYNC: functools.partial(self._begin, sync=True),
            PacketType.PROTOACK: self._protoack,
            PacketType.SYNCACK: self._syncack,
            PacketType.CANCEL: self._cancel,
            PacketType.CANCELYES: self._cancelyes,
            PacketType.CANCELNO: self._cancelno,
        }

    @property
    def idle(self) -> bool:
        """True if no packet waits for flow control."""
        return not self._queue

    # Sending.

    def send(self, message: Outgoing) -> None:
        """Start to send a message; its first packet leaves once flow control allows (sections 3.7.1 and 3.7.2)."""
        self._enqueue(message)

    def _enqueue(self, entry: Outgoing | bytes) -> None:
        self._queue.append(entry)
        if len(self._queue) == 1:
            self._flow()

    def _flow(self) -> None:
        """Send queued packets in order, up to hiwater. `transmit` may queue more packets meanwhile."""
        queue, hiwater = self._queue, self.limits.hiwater
        while queue and self.unacknowledged < hiwater:
            self.unacknowledged += 1
            entry = queue[0]
            if isinstance(entry, bytes):
                queue.popleft()
                self._user.transmit(entry, (), None)
            else:
                self._leave(entry)

    def _leave(self, message: Outgoing) -> None:
        """Send the next packet of the message that is first in the queue."""
        first = message.phase is Phase.QUEUED
        nbytes = min(message.left, self.limits.datalen)
        data = message.take(nbytes)
        if first:
            kind = _DATASYNC if message.sync or message.left else _DATA
            message.phase = Phase.UNMATCHED if kind == _DATASYNC else Phase.SENT
            if kind == _DATASYNC:
                self._outgoing[message.srqid] = message
        else:
            kind = _DATA
        last = not message.left
        if last and not first:
            message.phase = Phase.ENDED
        if last or first:
            self._queue.popleft()
        header = _pack(
            kind, nbytes, self.own, self.other, message.srqid, message.drqid, message.nbytes, message.lsrank,
            message.tag, message.cid, self._next_seqnum(), 0, 0, 0,
        )  # fmt: skip
        self._user.transmit(header, data, message if last else None)
        if message.left and message.phase is Phase.UNMATCHED:
            self._user.waits(message)

    def cancel(self, message: Outgoing) -> bool:
        """Try to cancel a message (section 3.7.4).

        Returns:
            False if it is too late. If it is not too late, the pair calls `cancelled` or `not_cancelled` of the
            `PairUser`: at once if no packet of the message has been sent, else when the other side has answered.
        """
        if message.phase is Phase.QUEUED:
            self._queue.remove(message)
            message.phase = Phase.ENDED
            self._user.cancelled(message)
            return True
        if message.phase not in (Phase.SENT, Phase.UNMATCHED):
            return False
        if not message.cancelling:
            message.cancelling = True
            self._outgoing[message.srqid] = message
            self._answer(PacketType.CANCEL, message.srqid)
        return True

    def match(self, incoming: Incoming) -> None:
        """Record that a receive has matched a message: its sender cannot cancel it any more, and gets a due SYNCACK."""
        self.forbid_recall(incoming)
        incoming.matched = True
        if incoming.missing:
            incoming.drqid = self._next_drqid()
            self._arriving[incoming.drqid] = incoming
        if incoming.sync:
            self._answer(PacketType.SYNCACK, incoming.srqid, incoming.drqid)

    def forbid_recall(self, incoming: Incoming) -> None:
        """Refuse a CANCEL of a message from now on."""
        unmatched = self._unmatched.get(incoming.srqid)
        if unmatched is not None:
            unmatched.pop(incoming, None)
            if not unmatched:
                del self._unmatched[incoming.srqid]

    def allow_recall(self, incoming: Incoming) -> None:
        """Undo `forbid_recall`."""
        self._unmatched.setdefault(incoming.srqid, {})[incoming] = None

    def _answer(self, kind: PacketType, srqid: int, drqid: int = 0) -> None:
        self._enqueue(self._pack(kind, srqid, drqid))

    def _pack(self, kind: PacketType, srqid: int, drqid: int = 0) -> bytes:
        return Packet(kind, 0, self.own, self.other, srqid, drqid).pack()

    # Receiving.

    def receive(self, packet: Packet, data: memoryview) -> None:
        """Handle a complete packet from the other process.

        Args:
            packet: header of the packet.
            data: the bytes behind the header.

        Raises:
            RemoteProtocolError: the packet breaks the protocol; the channel cannot be used any more.
        """
        if packet.pk_type in COUNTED:
            self._received += 1
            if self._received == self.limits.ackmark:
                self._received = 0
                # Not queued: PROTOACK is not subject to flow control (section 3.6).
                self._user.transmit(Packet(PacketType.PROTOACK, 0, self.own, self.other).pack(), (), None)
        self._handlers[packet.pk_type](packet, data)

    def _data(self, packet: Packet, data: memoryview) -> None:
        if packet.pk_len == packet.pk_msglen:
            self._begin(packet, data, sync=False)
        else:
            self._continue(packet, data)

    def _begin(self, packet: Packet, data: memoryview, sync: bool) -> None:
        length = packet.pk_msglen
        incoming = Incoming(
            packet.pk_srqid, packet.pk_cid, packet.pk_lsrank, packet.pk_tag, length, length - packet.pk_len, sync
        )
        self.allow_recall(incoming)
        self._user.arrived(incoming, data)

    def _continue(self, packet: Packet, data: memoryview) -> None:
        incoming = self._arriving.get(packet.pk_drqid)
        if incoming is None:
            raise RemoteProtocolError(
                f"{describe(packet)} continues message {packet.pk_drqid}, which is not arriving here"
            )
        if packet.pk_len > incoming.missing:
            raise RemoteProtocolError(
                f"{describe(packet)} brings {packet.pk_len} bytes of message {packet.pk_drqid}, which misses only "
                f"{incoming.missing}"
            )
        incoming.missing -= packet.pk_len
        if not incoming.missing:
            del self._arriving[packet.pk_drqid]
        self._user.continued(incoming, data)

    def _protoack(self, packet: Packet, data: memoryview) -> None:
        self.unacknowledged -= self.limits.ackmark
        if self.unacknowledged < 0:
            self.unacknowledged = 0
            self._odd(packet, "acknowledges packets that were not sent: the other side counts differently")
        self._flow()

    def _syncack(self, packet: Packet, data: memoryview) -> None:
        message = self._answered(packet)
        if message.phase is not Phase.UNMATCHED:
            raise RemoteProtocolError(f"{describe(packet)} acknowledges message {message.srqid} twice, or unasked")
        late = message.cancelling and self._withdraw_cancel(message)
        if not message.cancelling:
            del self._outgoing[message.srqid]
        message.drqid = packet.pk_drqid
        message.phase = Phase.FLOWING if message.left else Phase.ENDED
        self._user.matched(message)
        if message.left:
            self._enqueue(message)
        if late:
            self._user.not_cancelled(message)

    def _withdraw_cancel(self, message: Outgoing) -> bool:
        """If the CANCEL of a message still waits for flow control, withdraw the CANCEL and return True."""
        cancel = self._pack(PacketType.CANCEL, message.srqid)
        if cancel not in self._queue:
            return False
        self._queue.remove(cancel)
        message.cancelling = False
        return True

    def _cancel(self, packet: Packet, data: memoryview) -> None:
        unmatched = self._unmatched.get(packet.pk_srqid)
        if unmatched is None:
            self._answer(PacketType.CANCELNO, packet.pk_srqid)
            return
        newest = next(reversed(unmatched))
        self.forbid_recall(newest)
        self._user.recalled(newest)
        self._answer(PacketType.CANCELYES, packet.pk_srqid)

    def _cancelyes(self, packet: Packet, data: memoryview) -> None:
        message = self._answered(packet)
        if not message.cancelling or message.phase not in (Phase.SENT, Phase.UNMATCHED):
            raise RemoteProtocolError(f"{describe(packet)}: message {message.srqid} has been matched, or not cancelled")
        del self._outgoing[message.srqid]
        message.cancelling = False
        message.phase = Phase.ENDED
        self._user.cancelled(message)

    def _cancelno(self, packet: Packet, data: memoryview) -> None:
        message = self._answered(packet)
        if not message.cancelling:
            raise RemoteProtocolError(f"{describe(packet)}: message {message.srqid} has not been cancelled")
        message.cancelling = False
        if message.phase is Phase.SENT:
            message.phase = Phase.ENDED
        if message.phase is not Phase.UNMATCHED:
            del self._outgoing[message.srqid]
        self._user.not_cancelled(message)

    def _answered(self, packet: Packet) -> Outgoing:
        message = self._outgoing.get(packet.pk_srqid)
        if message is None:
            raise RemoteProtocolError(f"{describe(packet)} answers message {packet.pk_srqid}, which is not in progress")
        return message

    def _odd(self, packet: Packet, what: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            self._user.odd(f"{describe(packet)} {what}")
