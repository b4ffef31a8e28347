"""A simulated host: channels to other hosts, and flow control by pairs of processes (sections 2.3.8, 3.6 to 3.8)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from aiompi_launcher.conformance.model.engine import Message, Options, Proc, Send, decided
from aiompi_launcher.conformance.model.universe import HostInfo, ProcInfo, Universe
from aiompi_launcher.conformance.wire.packet import COUNTED, HEADER, WITH_DATA, Identity, Kind, Packet, decode
from aiompi_launcher.conformance.wire.startup import address_of

if TYPE_CHECKING:
    from aiompi_launcher.conformance.model.comm import Comm, Expected

MOST_DATA: Final = 64 * 2**20  # bytes of one packet that are read, whatever was negotiated
_DANCE: Final = 10.0  # seconds for a connection and its 4 bytes


class Observer(Protocol):
    """Observer of the traffic (the lower tester, section 5.1). Each method is called before the event takes effect."""

    def packet_received(self, host: Host, peer: int, packet: Packet) -> None: ...
    def packet_sent(self, host: Host, peer: int, packet: Packet) -> None: ...
    def danced(self, host: Host, address: str, word: bytes, accepted: bool) -> None: ...
    def channel_ended(self, host: Host, peer: int, unfinished: bytes) -> None: ...
    def refused(self, host: Host, peer: int, packet: Packet, why: str) -> None: ...
    def collective(self, comm: Comm, message: Message, expected: Expected) -> None: ...
    def matched(self, comm: Comm, message: Message) -> None: ...
    def early(self, message: Message, rule: str, problem: str) -> None: ...
    def objected(self, rule: str, problem: str) -> None: ...


class Mischief(Protocol):
    """Base class of faults of a simulated peer, which the tester must notice."""

    def packets(self, packet: Packet) -> Iterable[Packet]:
        """Return the packets to send instead of a packet."""

    def has(self, quirk: str) -> bool:
        """Return True if an algorithm has the fault of this name."""


class Pair:
    """A local and a remote process: their flow control, and their messages to each other.

    Attributes:
        sent: counter of section 3.6 for what goes out.
        received: counted packets since the last PROTOACK.
        owed: PROTOACKs that are withheld.
    """

    def __init__(self, host: Host, local: Proc, remote: ProcInfo) -> None:
        self.host = host
        self.local = local
        self.remote = remote
        self.sent = 0
        self.received = 0
        self.owed = 0
        self._queue: deque[tuple[Packet, Callable[[], None] | None]] = deque()

    def packet(self, kind: Kind, srqid: int = 0, drqid: int = 0) -> Packet:
        return Packet(kind, self.local.info.identity, self.remote.identity, srqid, drqid)

    def _message(self, kind: Kind, send: Send, data: bytes) -> Packet:
        packet = self.packet(kind, send.srqid)
        return packet.replace(msglen=len(send.data), lsrank=send.lsrank, tag=send.tag, cid=send.cid, data=data)

    # Out.

    def enqueue(self, packet: Packet, on_sent: Callable[[], None] | None = None) -> None:
        """Send a counted packet when flow control allows it."""
        self._queue.append((packet, on_sent))
        self.pump()

    def pump(self) -> None:
        limit = self.host.universe.hiwater
        while self._queue and (self.sent < limit or self.host.mischief.has("ignore-hiwater")):
            packet, on_sent = self._queue.popleft()
            self.sent += 1
            self.host.emit(self.remote.host, packet, self.local.options)
            if on_sent is not None:
                on_sent()

    def send(self, send: Send) -> None:
        """Send the first packet of a message. A short message has only this packet (section 3.7)."""
        send.first = self._first_bytes(len(send.data))
        long = send.first < len(send.data) or len(send.data) > self.host.universe.maxdatalen
        if send.sync or long:
            self.local.sends[send.srqid] = send
        kind = Kind.DATASYNC if send.sync or long else Kind.DATA
        packet = self._message(kind, send, send.data[: send.first])

        def sent() -> None:
            send.state = "sent"
            if kind is Kind.DATA:
                send.done.set_result(None)

        self.enqueue(packet, sent)
        if long and self.host.mischief.has("long-unasked"):
            self._go_on(send, send.first, 0)

    def _first_bytes(self, length: int) -> int:
        """Return the number of bytes in the first packet of a message."""
        limit = self.host.universe.maxdatalen
        if self.host.mischief.has("not-split"):
            return length
        if self.host.mischief.has("split-short") and 1 < length <= limit:
            return length // 2
        return length if length <= limit else min(self.local.options.first_bytes or limit, limit)

    def _go_on(self, send: Send, start: int, drqid: int) -> None:
        """Send the rest of a long message, after its SYNCACK."""
        limit = self.host.universe.maxdatalen
        step = min(self.local.options.other_bytes or limit, limit)
        for position in range(start, len(send.data), step):
            data = send.data[position : position + step]
            last = position + step >= len(send.data)
            packet = self._message(Kind.DATA, send, data).replace(drqid=drqid)
            self.enqueue(packet, (lambda: send.done.set_result(None)) if last else None)

    def cancel(self, send: Send) -> asyncio.Future[bool]:
        """Cancel a send; send CANCEL where only the destination can decide (section 3.7.4)."""
        queued = next((entry for entry in self._queue if entry[0].srqid == send.srqid), None)
        if send.state == "queued" and queued is not None:
            self._queue.remove(queued)
            self.local.sends.pop(send.srqid, None)
            return decided(outcome=True)
        if send.state != "sent":
            return decided(outcome=False)
        send.state = "cancelling"
        send.cancelled = asyncio.get_running_loop().create_future()
        self.local.sends[send.srqid] = send
        self.enqueue(self.packet(Kind.CANCEL, srqid=send.srqid))
        return send.cancelled

    # In.

    def acknowledge(self, message: Message) -> None:
        """Send SYNCACK for a message that is matched."""
        drqid = 0
        if not message.complete:
            drqid = self.local.options.drqid & 2**64 - 1 or self.host.new_drqid()
            self.local.incoming[drqid] = message
        self.enqueue(self.packet(Kind.SYNCACK, srqid=message.srqid, drqid=drqid))

    def count(self) -> None:
        """Count a packet that was read."""
        self.received += 1
        if self.received >= self.host.universe.ackmark or self.host.mischief.has("protoack-at-once"):
            self.received = 0
            self.owed += 1
            self.pay()

    def pay(self) -> None:
        """Send the PROTOACKs that are due, before the queued packets."""
        while self.owed and not self.local.options.withhold_protoack and not self.host.mischief.has("no-protoack"):
            self.owed -= 1
            self.host.emit(self.remote.host, self.packet(Kind.PROTOACK), self.local.options)

    def take(self, packet: Packet) -> str:
        """Handle a packet for this process. Return a description of the mistake in it, or nothing."""
        if packet.type in COUNTED:
            self.local.received[Kind(packet.type)] += 1
            if packet.type != Kind.SYNCACK or not self.host.mischief.has("syncack-uncounted"):
                self.count()
        handlers = {
            Kind.DATA: self._data,
            Kind.DATASYNC: self._first,
            Kind.PROTOACK: self._protoack,
            Kind.SYNCACK: self._syncack,
            Kind.CANCEL: self._cancel,
            Kind.CANCELYES: self._answer,
            Kind.CANCELNO: self._answer,
        }
        return handlers[Kind(packet.type)](packet)

    def _first(self, packet: Packet) -> str:
        message = Message(
            self.remote.rank,
            packet.lsrank,
            packet.tag,
            packet.cid,
            packet.msglen,
            bytearray(packet.data),
            packet.type == Kind.DATASYNC,
            packet.srqid,
            self,
            packet,
        )
        if self.host.mischief.has("syncack-on-arrival") and message.sync and message.complete:
            self.acknowledge(message)
            message.sync = False
        self.local.arrive(message)
        return ""

    def _data(self, packet: Packet) -> str:
        if packet.len == packet.msglen:
            return self._first(packet)
        message = self.local.incoming.get(packet.drqid)
        if message is None:
            return f"pk_drqid {packet.drqid:#x} belongs to no message that is under way"
        message.data += packet.data
        if message.complete:
            del self.local.incoming[packet.drqid]
            self.local.progress(message)
        return ""

    def _protoack(self, packet: Packet) -> str:
        self.sent = max(0, self.sent - self.host.universe.ackmark)
        self.pump()
        return ""

    def _syncack(self, packet: Packet) -> str:
        send = self.local.sends.get(packet.srqid)
        if send is None or send.dest != self.remote.rank or send.state == "matched":
            return f"pk_srqid {packet.srqid:#x} belongs to no message that waits for a SYNCACK"
        cancelling = send.state == "cancelling"
        send.state = "matched"
        if not cancelling:
            del self.local.sends[packet.srqid]
        if len(send.data) > send.first:
            self._go_on(send, send.first, packet.drqid)
        else:
            send.done.set_result(None)
        return ""

    def _cancel(self, packet: Packet) -> str:
        mine = [m for m in self.local.unexpected if m.pair is self and m.srqid == packet.srqid]
        if mine:
            self.local.unexpected.remove(mine[0 if self.host.mischief.has("cancel-oldest") else -1])
        self.enqueue(self.packet(Kind.CANCELYES if mine else Kind.CANCELNO, srqid=packet.srqid))
        return ""

    def _answer(self, packet: Packet) -> str:
        send = self.local.sends.pop(packet.srqid, None)
        if send is None or send.cancelled is None or send.cancelled.done():
            return f"pk_srqid {packet.srqid:#x} belongs to no message that is being cancelled"
        if send.state == "cancelling":
            send.state = "sent"
            if packet.type == Kind.CANCELNO and (send.sync or not send.done.done()):
                self.local.sends[packet.srqid] = send
        send.cancelled.set_result(packet.type == Kind.CANCELYES)
        return ""


class Host:
    """A simulated host.

    Args:
        info: description of the host in the start-up.
        universe: the job.
        observer: looks at the packets of the host.
        mischief: makes the host break a rule.

    Attributes:
        lost: becomes the reason when a channel ends before its time.
    """

    def __init__(self, info: HostInfo, universe: Universe, observer: Observer, mischief: Mischief) -> None:
        self.info = info
        self.universe = universe
        self.observer = observer
        self.mischief = mischief
        self.procs = {proc.rank: Proc(proc, self) for proc in universe.procs if proc.host == info.rank}
        self.neighbours: dict[int, Proc] = dict(self.procs)
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._pairs: dict[tuple[int, int], Pair] = {}
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._farewells: dict[int, asyncio.Event] = {}
        self._expected = {h.rank for h in universe.hosts if h.client != info.client and h.rank > info.rank}
        self._complete = asyncio.Event()
        self._drqids = itertools.count(1)
        self._ranks: dict[Identity, ProcInfo] = {proc.identity: proc for proc in universe.procs}
        self._check()

    def neighbour(self, rank: int) -> Proc | None:
        """Return a process of the same client, which is reached in memory."""
        return self.neighbours.get(rank)

    def pair(self, local: int, remote: int) -> Pair:
        key = local, remote
        if key not in self._pairs:
            self._pairs[key] = Pair(self, self.procs[local], self.universe.procs[remote])
        return self._pairs[key]

    def new_drqid(self) -> int:
        """Return a request id for a long incoming message."""
        return next(self._drqids)

    def pay(self) -> None:
        """Send the PROTOACKs that are no longer withheld."""
        for pair in self._pairs.values():
            pair.pay()

    # Connecting.

    async def connect(self) -> None:
        """Connect to the hosts of lower rank, and wait for connections from the hosts of higher rank."""
        for peer in self.universe.hosts[: self.info.rank]:
            if peer.client != self.info.client:
                await self._dial(peer)
        await self._complete.wait()

    async def _dial(self, peer: HostInfo) -> None:
        address = address_of(peer.identifier)
        if address is None:
            raise ConnectionError(f"H_IPV6 {peer.identifier.hex()} of host {peer.rank} has no IPv4 address")
        source = (address_of(self.info.identifier) or "0.0.0.0", 0)
        async with asyncio.timeout(_DANCE):
            reader, writer = await asyncio.open_connection(address, peer.port, local_addr=source)
        writer.write(struct.pack(">I", self.info.rank + self.mischief.has("dance-other-rank")))
        self._attach(peer.rank, reader, writer)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a connection of a host. The first 4 bytes on the connection are the rank of the host."""
        address = writer.get_extra_info("peername")[0]
        word = b""
        good = False
        try:
            with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                async with asyncio.timeout(_DANCE):
                    word = await reader.readexactly(4)
            rank = int.from_bytes(word) if len(word) == 4 else -1
            good = rank in self._expected
            self.observer.danced(self, address, word, good)
        finally:
            if not good:
                writer.close()
        if good:
            self._expected.discard(rank)
            self._attach(rank, reader, writer)
            self._check()

    def _check(self) -> None:
        if not self._expected:
            self._complete.set()

    def _attach(self, peer: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[peer] = writer
        self._farewells[peer] = asyncio.Event()
        self._readers[peer] = asyncio.create_task(self._read(peer, reader))

    # Packets.

    def emit(self, peer: int, packet: Packet, options: Options) -> None:
        """Write a packet without regard to flow control."""
        for actual in self.mischief.packets(packet):
            if options.junk:
                actual = _with_junk(actual)
            self.observer.packet_sent(self, peer, actual)
            self._write(peer, actual.encode(), options.piecemeal)

    def _write(self, peer: int, data: bytes, piece: int) -> None:
        writer = self._writers.get(peer)
        if writer is None or writer.is_closing():
            return
        size = piece or len(data)
        for start in range(0, len(data), size):
            writer.write(data[start : start + size])

    async def _read(self, peer: int, reader: asyncio.StreamReader) -> None:
        unfinished = b""
        try:
            while True:
                header = await reader.readexactly(HEADER)
                packet = decode(header)
                if packet.type in WITH_DATA:
                    if packet.len > MOST_DATA:
                        self.observer.packet_received(self, peer, packet)
                        break
                    packet = packet.replace(data=await reader.readexactly(packet.len), len=packet.len)
                self.observer.packet_received(self, peer, packet)
                if packet.type == Kind.FINI:
                    self._farewells[peer].set()
                self._dispatch(peer, packet)
        except asyncio.IncompleteReadError as error:
            unfinished = error.partial
        except ConnectionError:
            pass
        if self._farewells[peer].is_set() and not unfinished:
            return
        self.observer.channel_ended(self, peer, unfinished)
        self._farewells[peer].set()
        if not self.lost.done():
            self.lost.set_result(f"the channel of host {self.info.rank} to host {peer} ended without FINI")

    def _dispatch(self, peer: int, packet: Packet) -> None:
        source, dest = self._ranks.get(packet.src), self._ranks.get(packet.dest)
        if packet.type not in set(Kind) or source is None or dest is None or dest.rank not in self.procs:
            return  # the observer has said so
        if source.host != peer:
            return
        why = self.pair(dest.rank, source.rank).take(packet)
        if why:
            self.observer.refused(self, peer, packet, why)

    # The end.

    async def finish(self) -> None:
        """Exchange FINI on all channels after all processes have ended, and close them (sections 2.4 and 3.8)."""
        for peer in self._writers:
            self.emit(peer, Packet(Kind.FINI), Options())
            if self.mischief.has("data-after-fini"):
                self.emit(peer, self._nonsense(peer), Options())
        for farewell in self._farewells.values():
            await farewell.wait()
        self.close()
        await self.closed()

    def _nonsense(self, peer: int) -> Packet:
        """Return a packet of a message that no process expects."""
        there = next(proc for proc in self.universe.procs if proc.host == peer)
        return self.pair(min(self.procs), there.rank).packet(Kind.DATA)

    def close(self) -> None:
        """Close all channels at once."""
        for reader in self._readers.values():
            reader.cancel()
        for writer in self._writers.values():
            writer.close()

    async def closed(self) -> None:
        """Wait until all channels are closed."""
        await asyncio.gather(*self._readers.values(), return_exceptions=True)
        for writer in self._writers.values():
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _with_junk(packet: Packet) -> Packet:
    """Return the packet with ones in all fields that a receiver ignores for this kind of packet (section 3.5)."""
    ones = {"seqnum": 2**64 - 1, "count": -1, "dtype": 2**64 - 1, "reserved": 2**64 - 1}
    if packet.type not in WITH_DATA:
        ones |= {"len": 2**32 - 1, "msglen": 2**64 - 1, "lsrank": -1, "tag": -1, "cid": 2**64 - 1}
        if packet.type != Kind.SYNCACK:
            ones["drqid"] = 2**64 - 1
        if packet.type == Kind.PROTOACK:
            ones["srqid"] = 2**64 - 1
        if packet.type == Kind.FINI:
            ones |= {"srqid": 2**64 - 1}
    return packet.replace(**ones)
