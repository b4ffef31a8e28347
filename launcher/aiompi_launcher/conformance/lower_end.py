"""The lower tester at the end of a test: it finds messages that are left over, and messages that are missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aiompi_launcher.conformance.journal import Deviation, Journal
from aiompi_launcher.conformance.model.engine import Message
from aiompi_launcher.conformance.model.host import Host
from aiompi_launcher.conformance.wire.packet import Packet

_MOST_SHOWN: Final = 3  # unexpected messages that are shown


@dataclass
class Long:
    """An incoming long message: its first packet, and the bytes so far."""

    first: Packet
    received: int


@dataclass
class Pair:
    """The traffic between a process under test and a simulated one.

    Attributes:
        theirs: synchronous messages of the process under test that have no SYNCACK yet, by srqid.
        answered: srqids of synchronous messages of the process under test that have got a SYNCACK.
        long: incoming long messages, by our drqid.
        ours: our messages, by srqid: `data`, `sync`, `acknowledged`, `cancelled`.
        cancels: our CANCELs, by srqid: `sent`, `yes`, `no`.
        started: srqids of long messages whose rest has begun to arrive.
    """

    theirs: dict[int, Packet] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    data: dict[int, int] = field(default_factory=dict)
    long: dict[int, Long] = field(default_factory=dict)
    ours: dict[int, str] = field(default_factory=dict)
    cancels: dict[int, str] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    counted_in: int = 0
    acks_out: int = 0
    counted_out: int = 0
    acks_in: int = 0


class EndTester:
    """Records the traffic of all pairs of processes, and checks the traffic at the end of a test.

    Args:
        journal: for steps and deviations.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._pairs: dict[tuple[int, int], Pair] = {}

    def left_over(self, hosts: list[Host]) -> None:
        """Check after a test that no message is left unreceived."""
        for host in hosts:
            for proc in host.procs.values():
                for message in proc.unexpected:
                    self._left(proc.rank, message)
                proc.unexpected.clear()

    def _left(self, rank: int, message: Message) -> None:
        packet = message.packet
        if packet is None:
            return
        what = f"a message of rank {message.lsrank} to rank {rank} of COMM_WORLD, tag {message.tag}"
        rule = "I4.1-2" if message.cid % 2 else "I3.5-1"
        problem = f"{what}, {message.length} bytes, on context {message.cid}, which no call has sent"
        self.journal.object(Deviation(rule, problem, None, packet.header()))

    def closed(self, host: Host) -> None:
        """Check at the end of a job that all PROTOACKs have arrived."""
        for (theirs, ours), pair in self._pairs.items():
            due = pair.counted_out // host.universe.ackmark
            if ours in host.procs and pair.acks_in < due:
                problem = f"rank {theirs} sent {pair.acks_in} PROTOACKs for {pair.counted_out} packets, not {due}"
                self.journal.object(Deviation("I3.6-3", problem))

    def stuck(self, hosts: list[Host]) -> list[str]:
        """Describe what the simulated processes wait for after a hang."""
        lines = []
        for host in hosts:
            for proc in host.procs.values():
                for receive in filter(lambda receive: receive.what, proc.posted):
                    lines.append(f"rank {proc.rank} waits for {receive.what}")
                    if receive.rule:
                        self.journal.object(Deviation(receive.rule, f"{lines[-1]}, which does not come"))
                    self._instead(proc.rank, receive.what, proc.unexpected)
                lines += [
                    f"rank {proc.rank} waits for the answer of {send.dest} to its message {srqid}"
                    for srqid, send in proc.sends.items()
                ]
        for (theirs, ours), pair in self._pairs.items():
            if any(ours in host.procs for host in hosts):
                self._stopped(hosts[0], theirs, ours, pair)
        return lines

    def _instead(self, rank: int, what: str, unexpected: list[Message]) -> None:
        for message in unexpected[:_MOST_SHOWN]:
            if message.packet is not None:
                problem = f"rank {rank} waits for {what}; what has come instead is on context {message.cid}, tag"
                header = message.packet.header()
                rule = "I4.3-2" if "context" in what and f"context {message.cid}" not in what else "I3.5-15"
                self.journal.object(Deviation(rule, f"{problem} {message.tag}", None, header))

    def _stopped(self, host: Host, theirs: int, ours: int, pair: Pair) -> None:
        due = pair.counted_out // host.universe.ackmark
        if pair.acks_in < due:
            problem = f"rank {theirs} has sent rank {ours} {pair.acks_in} PROTOACKs for {pair.counted_out} packets"
            self.journal.object(Deviation("I3.6-3", f"{problem}, not {due}"))
        for srqid, state in pair.cancels.items():
            if state == "sent":
                problem = f"rank {theirs} has not answered the CANCEL of {srqid:#x}"
                self.journal.object(Deviation("I3.7.4-3", problem))
        for srqid, state in pair.ours.items():
            if state == "sync" and pair.cancels.get(srqid) != "yes":
                problem = f"rank {theirs} has not sent a SYNCACK for {srqid:#x}"
                self.journal.object(Deviation("I3.7.1-3", problem))

    def _pair(self, theirs: int, ours: int) -> Pair:
        return self._pairs.setdefault((theirs, ours), Pair())
