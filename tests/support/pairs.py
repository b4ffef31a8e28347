"""Two pairs joined in memory: each packet passes through bytes, as fast and in such pieces as the test likes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from aiompi.impi.channel import Incoming, Limits, Outgoing, Pair
from aiompi.impi.packet import HEADER, HEADER_BYTES, Packet, PacketReader, PacketType, pack_proc

from .worlds import pour

PROCS = tuple(pack_proc(bytes(15) + bytes([number]), 4000 + number) for number in range(8))


class Received:
    """A message at its receiver, with as much of it as has come."""

    def __init__(self, incoming: Incoming, data: bytes) -> None:
        self.incoming = incoming
        self.data = bytearray(data)

    @property
    def complete(self) -> bool:
        return len(self.data) == self.incoming.length


class Side:
    """One process with its pair (protocol aiompi.impi.channel.PairUser).

    Attributes:
        packets: every packet that it has sent, with its data.
        messages: those that have arrived and were not taken back, in order.
        accepting: whether a message is matched at once.
        free: messages whose memory is free again.
        told, cancelled, not_cancelled: what the other side has said about messages.
        oddities: what it does wrong.
        room: packets that may still be written ahead.
    """

    def __init__(self, number: int, other: int, limits: Limits, accepting: bool = True) -> None:
        self.pair = Pair(PROCS[number], PROCS[other], limits, self)
        self.accepting = accepting
        self.packets: list[tuple[Packet, bytes]] = []
        self.messages: list[Received] = []
        self.free: list[Outgoing] = []
        self.told: list[Outgoing] = []
        self.cancelled_ones: list[Outgoing] = []
        self.not_cancelled_ones: list[Outgoing] = []
        self.oddities: list[str] = []
        self.stream = bytearray()
        self.room = 0
        self._next_srqid = 0

    def transmit(self, header: bytes, data: Sequence[bytes | memoryview], last_of: Outgoing | None) -> None:
        packet, body = Packet._make(HEADER.unpack(header)), b"".join(data)
        assert len(body) == packet.pk_len
        self.packets.append((packet, body))
        self.stream += header + body
        if last_of is not None:
            self.free.append(last_of)

    def waits(self, outgoing: Outgoing) -> None:
        outgoing.write_ahead(self.pair.limits.datalen, self._write)

    def _write(self, data: Sequence[bytes | memoryview]) -> list[bytes] | None:
        if not self.room:
            return None
        self.room -= 1
        return [b"".join(data)]

    def arrived(self, incoming: Incoming, data: memoryview) -> None:
        received = Received(incoming, bytes(data))
        incoming.place = received
        self.messages.append(received)
        if self.accepting:
            self.pair.match(incoming)

    def continued(self, incoming: Incoming, data: memoryview) -> None:
        incoming.place.data += data

    def recalled(self, incoming: Incoming) -> None:
        self.messages.remove(incoming.place)

    def matched(self, outgoing: Outgoing) -> None:
        self.told.append(outgoing)

    def cancelled(self, outgoing: Outgoing) -> None:
        self.cancelled_ones.append(outgoing)

    def not_cancelled(self, outgoing: Outgoing) -> None:
        self.not_cancelled_ones.append(outgoing)

    def odd(self, what: str) -> None:
        self.oddities.append(what)

    def send(self, data: bytes, tag: int = 7, cid: int = 0, sync: bool = False) -> Outgoing:
        """Send a message; its memory is in two pieces."""
        self._next_srqid += 1
        middle = len(data) // 3
        pieces = [piece for piece in (data[:middle], memoryview(data)[middle:]) if len(piece)]
        message = Outgoing(pieces, len(data), self._next_srqid, cid, 3, tag, sync)
        self.pair.send(message)
        return message

    def match(self, index: int = 0) -> None:
        """A receive matches a message."""
        self.pair.match(self.messages[index].incoming)

    def get(self, packet: Packet, data: bytes = b"") -> None:
        """Hand it a packet from its counterpart, however wrong."""
        filled = packet._replace(pk_src=self.pair.other, pk_dest=self.pair.own)
        found: list[Packet] = []

        def receive(header: Packet, whole: memoryview) -> None:
            found.append(header)
            self.pair.receive(header, whole[HEADER_BYTES:])

        pour(PacketReader(2**20, receive), filled.pack() + data)
        assert len(found) == 1

    @property
    def kinds(self) -> list[str]:
        """Types of the packets that it has sent."""
        return [PacketType(packet.pk_type).name for packet, _ in self.packets]

    @property
    def received(self) -> list[bytes]:
        return [bytes(message.data) for message in self.messages]


class Joined:
    """Two sides, and the streams between them.

    Args:
        cut: most bytes that arrive at once.
        seed: decides which direction moves on.
    """

    def __init__(
        self,
        datalen: int = 100,
        ackmark: int = 10,
        hiwater: int = 20,
        cut: int = 2**30,
        seed: int = 0,
        accepting: bool = True,
    ) -> None:
        limits = Limits(datalen, ackmark, hiwater)
        self.left, self.right = Side(0, 1, limits, accepting), Side(1, 0, limits, accepting)
        self._random = random.Random(seed)
        self._cut = cut
        self._streams = [(self.left, self._reader(self.right)), (self.right, self._reader(self.left))]

    def _reader(self, to: Side) -> PacketReader:
        return PacketReader(to.pair.limits.datalen, lambda packet, whole: to.pair.receive(packet, whole[HEADER_BYTES:]))

    def step(self) -> bool:
        """Let some bytes of one direction arrive; False when all is quiet."""
        busy = [(sender, reader) for sender, reader in self._streams if sender.stream]
        if busy:
            sender, reader = self._random.choice(busy)
            self._move(sender, reader)
        return bool(busy)

    def _move(self, sender: Side, reader: PacketReader) -> None:
        some = bytes(sender.stream[: self._cut])
        del sender.stream[: len(some)]
        pour(reader, some)

    def run(self) -> Joined:
        """Let everything arrive, and what follows from it."""
        while self.step():
            pass
        return self

    def to_right(self) -> None:
        """Let all that the left side has sent arrive, while nothing comes back."""
        while self.left.stream:
            self._move(*self._streams[0])

    def to_left(self) -> None:
        """Let all that the right side has sent arrive."""
        while self.right.stream:
            self._move(*self._streams[1])
