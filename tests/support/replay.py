"""A recorded job in which aiompi replaces some clients; the others repeat what they sent.

A `Script` speaks for all recorded processes. It takes the packets in the order in which they crossed the network: it
waits for those of our ranks, and sends those of the others, with the request ids that our ranks have chosen in place
of the recorded ones, as the peer itself would have repeated them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TypeAlias

from aiompi.impi.command import Broadcast, Code, CommandReader, decode_broadcast
from aiompi.impi.label import join
from aiompi.impi.packet import COUNTED, HEADER_BYTES, WITH_DATA, Packet, PacketReader, PacketType, pack_proc
from aiompi.impi.universe import Universe

from .impi_worlds import Relay, Stream
from .recordings import FOLDER, Connection, connections
from .worlds import pour

Whole: TypeAlias = tuple[Packet, bytes]
_SERVER_AUTH_BYTES = 8
_HOST_RANK_BYTES = 4


def described(job: str) -> Universe:
    """Return what the server of a recorded job sent to its clients."""
    reader, arrays = CommandReader(2**20), dict[int, Broadcast]()
    reader.receive_data(connections(job)[0].answered)
    reader.skip(_SERVER_AUTH_BYTES)
    while (command := reader.next_command([Code.IMPI, Code.COLL, Code.DONE])) is not None:
        if command.code is Code.COLL:
            array = decode_broadcast(command.payload)
            arrays[array.label] = array
    clients = arrays[0x1100].mask.bit_length()
    return join(clients, arrays)


def timeline(job: str) -> list[Whole]:
    """All packets between hosts in the order in which they were seen, without FINI."""
    streams: dict[tuple[str, str], list[Whole]] = {}
    for channel in connections(job):
        if channel.between_hosts:
            sent, answered = channel.sent[_HOST_RANK_BYTES:], channel.answered
            streams[_ends(channel)] = packets(sent)
            streams[_ends(channel)[::-1]] = packets(answered)
    order = re.findall(
        r"H\(([\d.]+):(\d+) \w+\)->H\(([\d.]+):(\d+)\) (?!FINI|FIN\b|host rank)",
        (FOLDER / job / "wire.txt").read_text(encoding="utf8"),
    )
    found = [streams[f"{a}_{b}", f"{c}_{d}"].pop(0) for a, b, c, d in order]
    assert all([packet.pk_type for packet, _ in left] == [PacketType.FINI] for left in streams.values())
    return found


def _ends(channel: Connection) -> tuple[str, str]:
    return channel.connector, channel.acceptor


def packets(stream: bytes) -> list[Whole]:
    """The packets of a stream as they are, each with its data."""
    found: list[Whole] = []
    pour(PacketReader(2**16, lambda packet, whole: found.append((packet, bytes(whole[HEADER_BYTES:])))), stream)
    return found


def meaning(packet: Packet, data: bytes) -> Whole:
    """A packet without what each implementation chooses for itself: request ids and sequence numbers."""
    return packet._replace(pk_srqid=0, pk_drqid=0, pk_seqnum=0), data


class Script:
    """The recorded processes.

    Args:
        relay: carries packets from and to our ranks.
        job: name of the recording.
        ours: ranks of the world that are ours.

    Attributes:
        expected, found: what our ranks sent to each process, then and now.
    """

    def __init__(self, relay: Relay, job: str, ours: set[int]) -> None:
        universe = relay.universe
        procs = [pack_proc(proc.ipv6, proc.pid) for proc in universe.procs]
        self._relay = relay
        self._ranks = {proc: rank for rank, proc in enumerate(procs)}
        self._ours = {procs[rank] for rank in ours}
        self._steps = [
            step for step in timeline(job) if (step[0].pk_src in self._ours) != (step[0].pk_dest in self._ours)
        ]
        self._at = 0
        self._waiting: Counter[Whole] = Counter()
        self._srqids: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)  # of our messages that are answered
        self._recorded_srqids: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
        self._drqids: dict[tuple[bytes, bytes, int], int] = {}  # ours, by the recorded message
        self.expected: dict[tuple[int, int], list[Whole]] = defaultdict(list)
        self.found: dict[tuple[int, int], list[Whole]] = defaultdict(list)
        for packet, data in self._steps:
            if packet.pk_src in self._ours:
                self._note(self.expected, packet, data)
                if packet.pk_type == PacketType.DATASYNC:
                    self._recorded_srqids[packet.pk_src, packet.pk_dest].append(packet.pk_srqid)
        for rank in range(universe.size):
            if rank not in ours:
                relay.down[rank] = Stream(PacketReader(universe.datalen, self._take))

    @property
    def over(self) -> bool:
        """True if everything has been sent."""
        return self._at == len(self._steps)

    def _note(self, notes: dict[tuple[int, int], list[Whole]], packet: Packet, data: bytes) -> None:
        notes[self._ranks[packet.pk_src], self._ranks[packet.pk_dest]].append(meaning(packet, data))

    def start(self) -> None:
        """Send what comes first."""
        self._go_on()

    def _take(self, packet: Packet, whole: memoryview) -> None:
        data = bytes(whole[HEADER_BYTES:])
        pair = packet.pk_src, packet.pk_dest
        self._note(self.found, packet, data)
        if packet.pk_type == PacketType.DATASYNC:
            self._srqids[pair].append(packet.pk_srqid)
        elif packet.pk_type == PacketType.SYNCACK:
            self._drqids[packet.pk_dest, packet.pk_src, packet.pk_srqid] = packet.pk_drqid
        self._waiting[meaning(packet, data)] += 1
        self._go_on()

    def _go_on(self) -> None:
        while not self.over:
            packet, data = self._steps[self._at]
            if packet.pk_src in self._ours:
                key = meaning(packet, data)
                if not self._waiting[key]:
                    return
                self._waiting[key] -= 1
                self._at += 1
            else:
                self._at += 1
                sent = self._translated(packet)
                self._relay.put(self._relay.down[self._ranks[packet.pk_dest]], sent.pack() + data)

    def _translated(self, packet: Packet) -> Packet:
        """With the ids that our ranks gave to what this packet answers or continues."""
        pair = packet.pk_dest, packet.pk_src
        if packet.pk_type == PacketType.SYNCACK:
            index = self._recorded_srqids[pair].index(packet.pk_srqid)
            return packet._replace(pk_srqid=self._srqids[pair][index])
        if packet.pk_type in WITH_DATA and packet.pk_len < packet.pk_msglen and packet.pk_drqid:
            return packet._replace(pk_drqid=self._drqids[packet.pk_src, packet.pk_dest, packet.pk_srqid])
        return packet


def counted(sent: list[Whole]) -> tuple[list[Whole], list[Whole]]:
    """The packets that flow control counts: those that continue a long message, and the others.

    Each kind has its order; where the continuations come in between is up to the sender.
    """
    kinds: tuple[list[Whole], list[Whole]] = ([], [])
    for packet, data in sent:
        if packet.pk_type in COUNTED:
            goes_on = packet.pk_type == PacketType.DATA and packet.pk_len < packet.pk_msglen
            kinds[not goes_on].append((packet, data))
    return kinds
