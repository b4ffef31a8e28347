"""The lower tester: checks each packet of the implementation under test against chapter 3 (section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi_launcher.conformance.journal import Deviation, Journal, Severity
from aiompi_launcher.conformance.lower_end import EndTester, Long, Pair
from aiompi_launcher.conformance.model.comm import Comm, Expected
from aiompi_launcher.conformance.model.engine import Message
from aiompi_launcher.conformance.model.host import Host
from aiompi_launcher.conformance.model.universe import ProcInfo
from aiompi_launcher.conformance.wire.packet import ACKNOWLEDGEMENTS, COUNTED, WITH_DATA, Identity, Kind, Packet


def _error(rule: str, problem: str, expected: Packet | None, actual: Packet) -> Deviation:
    return Deviation(rule, problem, expected.header() if expected else None, actual.header())


class LowerTester(EndTester):
    """Checks all packets of the simulated hosts.

    Args:
        journal: for steps and deviations.

    Attributes:
        may_finish: True if hosts may send FINI.
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.may_finish = False
        self._finished: set[tuple[int, int]] = set()

    # Channels.

    def danced(self, host: Host, address: str, word: bytes, accepted: bool) -> None:
        """Check a host that has connected and sent its rank (section 2.3.8)."""
        deviations = []
        rank = int.from_bytes(word)
        if len(word) < 4:
            deviations.append(Deviation("I2.3.8-3", f"{address} connected and did not send its host rank", None, word))
        elif not accepted:
            problem = f"{address} announces host rank {rank}, which is not due at host {host.info.rank}"
            deviations.append(Deviation("I2.3.8-6", problem, None, word))
        self.journal.write(f"{address} > host {host.info.rank}: host rank {rank}", word, tuple(deviations))

    def channel_ended(self, host: Host, peer: int, unfinished: bytes) -> None:
        text = f"host {peer} closed its channel to host {host.info.rank}"
        problem = f"{text} without FINI" + (f", inside a packet ({len(unfinished)} bytes)" if unfinished else "")
        self.journal.write(text, unfinished, (Deviation("I2.4-8", problem, None, unfinished or None),))

    def refused(self, host: Host, peer: int, packet: Packet, why: str) -> None:
        """Ignore a packet that the model rejects: `packet_received` has already recorded its deviations."""

    # Packets.

    def packet_sent(self, host: Host, peer: int, packet: Packet) -> None:
        self.journal.write(f"host {host.info.rank} > host {peer}: {packet}", packet.header())
        ranks = _ranks(host, packet.dest, packet.src)
        if ranks is None:
            return
        pair = self._pair(*ranks)
        pair.counted_out += packet.type in COUNTED
        if packet.type in WITH_DATA:
            pair.cancels.pop(packet.srqid, None)  # an id may be reused
        if packet.type == Kind.DATASYNC:
            pair.ours[packet.srqid] = "sync"
        elif packet.type == Kind.DATA and packet.len == packet.msglen:
            pair.ours[packet.srqid] = "data"
        elif packet.type == Kind.PROTOACK:
            pair.acks_out += 1
        elif packet.type == Kind.CANCEL:
            pair.cancels[packet.srqid] = "sent"
        elif packet.type == Kind.SYNCACK:
            self._acknowledged(pair, packet)
        elif packet.type == Kind.CANCELYES:
            pair.theirs.pop(packet.srqid, None)

    def _acknowledged(self, pair: Pair, packet: Packet) -> None:
        first = pair.theirs.pop(packet.srqid, None)
        pair.answered.add(packet.srqid)
        if first is not None and first.len < first.msglen:
            pair.long[packet.drqid] = Long(first, first.len)

    def packet_received(self, host: Host, peer: int, packet: Packet) -> None:
        deviations = tuple(self._check(host, peer, packet))
        self.journal.write(f"host {peer} > host {host.info.rank}: {packet}", packet.header(), deviations)

    def _check(self, host: Host, peer: int, packet: Packet) -> Iterator[Deviation]:
        if packet.type not in set(Kind):
            yield _error("I3.5-6", f"there is no pk_type {packet.type}", None, packet)
            return
        yield from self._check_finished(host, peer, packet)
        yield from _check_unused(packet)
        if packet.type == Kind.FINI:
            return
        yield from _check_ends(host, peer, packet)
        ranks = _ranks(host, packet.src, packet.dest)
        if ranks is None:
            return
        pair = self._pair(*ranks)
        yield from self._check_flow(host, pair, packet)
        checks = {
            Kind.DATA: self._check_data,
            Kind.DATASYNC: self._check_datasync,
            Kind.SYNCACK: self._check_syncack,
            Kind.CANCEL: self._check_cancel,
            Kind.CANCELYES: self._check_answer,
            Kind.CANCELNO: self._check_answer,
        }
        if packet.type in checks:
            yield from checks[Kind(packet.type)](host, pair, packet)

    def _check_finished(self, host: Host, peer: int, packet: Packet) -> Iterator[Deviation]:
        channel = host.info.rank, peer
        if channel in self._finished and packet.type not in ACKNOWLEDGEMENTS:
            yield _error("I3.8-1", f"{packet.name} after FINI: only acknowledgements may follow", None, packet)
        if packet.type == Kind.FINI:
            self._finished.add(channel)
            if not self.may_finish:
                yield _error("I2.4-3", "FINI while processes of the host have not finished", None, packet)

    def _check_flow(self, host: Host, pair: Pair, packet: Packet) -> Iterator[Deviation]:
        universe = host.universe
        if packet.type in COUNTED:
            pair.counted_in += 1
            under_way = pair.counted_in - universe.ackmark * pair.acks_out
            if under_way > universe.hiwater:
                problem = f"{under_way} packets without PROTOACK; hiwater is {universe.hiwater}"
                yield _error("I3.6-5", problem, None, packet)
        if packet.type == Kind.PROTOACK:
            pair.acks_in += 1
            if pair.acks_in * universe.ackmark > pair.counted_out:
                problem = f"PROTOACK {pair.acks_in} after {pair.counted_out} packets; ackmark is {universe.ackmark}"
                yield _error("I3.6-3", problem, None, packet)

    # Their messages.

    def _check_message(self, host: Host, packet: Packet) -> Iterator[Deviation]:
        limit = host.universe.maxdatalen
        if packet.len > limit:
            yield _error("I3.5-3", f"pk_len {packet.len} is more than maxdatalen {limit}", None, packet)
        if packet.len > packet.msglen:
            right = packet.replace(msglen=packet.len)
            yield _error("I3.5-17", f"pk_len {packet.len} is more than pk_msglen {packet.msglen}", right, packet)
        if not 0 <= packet.tag <= host.universe.tag_ub:
            yield _error("I3.4-1", f"pk_tag {packet.tag} is not within 0..{host.universe.tag_ub}", None, packet)
        yield from _check_rank(host, packet)

    def _check_data(self, host: Host, pair: Pair, packet: Packet) -> Iterator[Deviation]:
        if packet.len == packet.msglen:
            pair.data[packet.srqid] = pair.data.get(packet.srqid, 0) + 1
            pair.started.discard(packet.srqid)
            yield from self._check_message(host, packet)
            return
        long = pair.long.get(packet.drqid)
        if long is None:
            yield self._stray(pair, packet)
            return
        yield from self._check_continuation(host, pair, packet, long)

    def _stray(self, pair: Pair, packet: Packet) -> Deviation:
        """Check DATA with pk_len < pk_msglen that continues no message."""
        if packet.srqid in pair.theirs:
            return _error("I3.7.2-2", "more of a long message before its SYNCACK", None, packet)
        known = {long.first.srqid: drqid for drqid, long in pair.long.items()}
        if packet.srqid in known:
            right = packet.replace(drqid=known[packet.srqid])
            return _error("I3.7.2-5", "pk_drqid is not that of the SYNCACK", right, packet)
        right = packet.replace(type=Kind.DATASYNC)
        return _error("I3.7.2-2", "the first packet of a long message is DATASYNC, this is DATA", right, packet)

    def _check_continuation(self, host: Host, pair: Pair, packet: Packet, long: Long) -> Iterator[Deviation]:
        first = long.first
        pair.started.add(first.srqid)
        for rule, name in (
            ("I3.7.2-3", "srqid"),
            ("I3.5-12", "msglen"),
            ("I3.5-13", "tag"),
            ("I3.5-13", "cid"),
            ("I3.5-13", "lsrank"),
        ):
            wanted = getattr(first, name)
            if getattr(packet, name) != wanted:
                problem = f"pk_{name} {getattr(packet, name)} differs from {wanted} in the first packet of the message"
                yield _error(rule, problem, packet.replace(**{name: wanted}), packet)
        limit = host.universe.maxdatalen
        if packet.len > limit:
            yield _error("I3.5-3", f"pk_len {packet.len} is more than maxdatalen {limit}", None, packet)
        long.received += packet.len
        if long.received > first.msglen:
            yield _error("I3.5-17", f"{long.received} bytes of a message of {first.msglen}", None, packet)
        elif long.received < first.msglen and packet.len != limit:
            yield _note(
                "I3.7.2-7", f"{packet.len} bytes in a packet that is not the last; maxdatalen is {limit}", packet
            )
        if long.received >= first.msglen:
            del pair.long[packet.drqid]

    def _check_datasync(self, host: Host, pair: Pair, packet: Packet) -> Iterator[Deviation]:
        yield from self._check_message(host, packet)
        limit = host.universe.maxdatalen
        if packet.srqid in pair.theirs:
            yield _error("I3.5-1", f"pk_srqid {packet.srqid:#x} is in use by an unanswered message", None, packet)
        pair.theirs[packet.srqid] = packet
        pair.answered.discard(packet.srqid)
        pair.started.discard(packet.srqid)
        if packet.len < packet.msglen <= limit:
            right = packet.replace(len=packet.msglen)
            yield _error("I3.7.1-1", f"a message of {packet.msglen} bytes fits one packet", right, packet)
        elif packet.len < packet.msglen and packet.len == 0:
            yield _error("I3.7.2-7", "the first packet of a long message has no data", None, packet)
        elif packet.len < packet.msglen and packet.len != limit:
            yield _note("I3.7.2-7", f"{packet.len} bytes in a first packet; maxdatalen is {limit}", packet)

    # Answers to our messages.

    def _check_syncack(self, host: Host, pair: Pair, packet: Packet) -> Iterator[Deviation]:
        state = pair.ours.get(packet.srqid)
        cancel = pair.cancels.get(packet.srqid)
        if state is None:
            waiting = [srqid for srqid, state in pair.ours.items() if state == "sync"]
            right = packet.replace(srqid=waiting[0]) if waiting else None
            yield _error("I3.7.1-5", f"no message has pk_srqid {packet.srqid:#x}", right, packet)
        elif state == "data":
            yield _error("I3.7.1-4", "SYNCACK to a DATA packet", None, packet)
        elif state == "acknowledged":
            yield _error("I3.7.1-4", "a second SYNCACK to one message", None, packet)
        elif cancel == "yes":
            yield _error("I3.7.4-6", "SYNCACK after CANCELYES", None, packet)
        elif cancel == "no":
            yield _error("I3.7.4-6", "SYNCACK after CANCELNO: it comes first", None, packet)
        if state == "sync":
            pair.ours[packet.srqid] = "acknowledged"

    def _check_answer(self, host: Host, pair: Pair, packet: Packet) -> Iterator[Deviation]:
        state = pair.cancels.get(packet.srqid)
        if state is None:
            sent = [srqid for srqid, state in pair.cancels.items() if state == "sent"]
            right = packet.replace(srqid=sent[0]) if sent else None
            yield _error("I3.7.4-3", f"no CANCEL had pk_srqid {packet.srqid:#x}", right, packet)
            return
        if state != "sent":
            yield _error("I3.7.4-3", "a second answer to one CANCEL", None, packet)
        if packet.type == Kind.CANCELYES and pair.ours.get(packet.srqid) == "acknowledged":
            yield _error("I3.7.4-6", "CANCELYES after SYNCACK", packet.replace(type=Kind.CANCELNO), packet)
        pair.cancels[packet.srqid] = "yes" if packet.type == Kind.CANCELYES else "no"

    def _check_cancel(self, host: Host, pair: Pair, packet: Packet) -> Iterator[Deviation]:
        messages = pair.data.get(packet.srqid, 0) + (packet.srqid in pair.theirs or packet.srqid in pair.answered)
        if not messages:
            yield _error("I3.7.4-8", f"CANCEL of {packet.srqid:#x}, which no message had", None, packet)
        elif packet.srqid in pair.started:
            yield _error("I3.7.4-1", "CANCEL of a message whose SYNCACK has come", None, packet)

    # Checks that need the model.

    def collective(self, comm: Comm, message: Message, expected: Expected) -> None:
        """Check a message in a collective context against the message that the collective expects next."""
        packet = message.packet
        if packet is None:
            return
        subject = f"{expected.operation}: rank {message.lsrank} to rank {comm.rank} on context {message.cid}"
        if message.tag not in expected.tags:
            right = packet.replace(tag=expected.tags[0]).header()
            problem = f"{subject} has tag {message.tag}, not {expected.tags[0]}"
            self.journal.object(Deviation(expected.rule, problem, right, packet.header()))
        elif message.tag != expected.tags[0]:
            right = packet.replace(tag=expected.tags[0]).header()
            problem = f"{expected.operation} uses tag {message.tag}, as a misprint of the document has it"
            self.journal.object(Deviation(expected.rule, problem, right, packet.header(), Severity.NOTE))
        if expected.length is not None and message.length != expected.length:
            problem = f"{subject} has {message.length} bytes, not {expected.length}"
            right = packet.replace(msglen=expected.length, len=min(expected.length, comm.universe.maxdatalen)).header()
            self.journal.object(Deviation(expected.rule, problem, right, packet.header()))

    def matched(self, comm: Comm, message: Message) -> None:
        """Check the source of a received message of a user."""
        packet = message.packet
        if packet is None or not 0 <= message.lsrank < len(comm.peers):
            return
        if comm.peers[message.lsrank] != message.source:
            problem = f"pk_lsrank {message.lsrank} on context {message.cid} is rank {comm.peers[message.lsrank]} of"
            right = packet.replace(lsrank=comm.peers.index(message.source)) if message.source in comm.peers else None
            self.journal.object(_error("I3.5-11", f"{problem} COMM_WORLD, not {message.source}", right, packet))

    def early(self, message: Message, rule: str, problem: str) -> None:
        """Handle a message that arrived before it could be sent."""
        if message.packet is not None:
            self.journal.object(_error(rule, problem, None, message.packet))

    def objected(self, rule: str, problem: str) -> None:
        """Record a deviation that the model found in a message."""
        self.journal.object(Deviation(rule, problem))


def _note(rule: str, problem: str, packet: Packet) -> Deviation:
    return Deviation(rule, problem, None, packet.header(), Severity.NOTE)


def _find(host: Host, identity: Identity) -> ProcInfo | None:
    return next((proc for proc in host.universe.procs if proc.identity == identity), None)


def _ranks(host: Host, theirs: Identity, ours: Identity) -> tuple[int, int] | None:
    a, b = _find(host, theirs), _find(host, ours)
    return None if a is None or b is None else (a.rank, b.rank)


def _check_ends(host: Host, peer: int, packet: Packet) -> Iterator[Deviation]:
    """Check that pk_src is a process of the sending host and pk_dest one of the receiving host (sections 3.2, 3.5)."""
    for name, identity, owner in (("pk_src", packet.src, peer), ("pk_dest", packet.dest, host.info.rank)):
        proc = _find(host, identity)
        if proc is None:
            yield _error("I3.2-1", f"{name} {identity} is nobody's P_IPV6 and P_PID", None, packet)
        elif proc.host != owner:
            swapped = packet.replace(src=packet.dest, dest=packet.src)
            right = swapped if packet.type not in WITH_DATA else None
            yield _error("I3.5-10", f"{name} is rank {proc.rank}, which is not of host {owner}", right, packet)


def _check_rank(host: Host, packet: Packet) -> Iterator[Deviation]:
    """Check pk_lsrank, as far as the communicator is known."""
    source = _find(host, packet.src)
    if packet.cid // 2 or source is None or packet.lsrank == source.rank:
        return
    right = packet.replace(lsrank=source.rank)
    yield _error(
        "I3.5-11", f"pk_lsrank {packet.lsrank} on COMM_WORLD, where the sender is {source.rank}", right, packet
    )


#: fields that are not valid, besides pk_reserved (section 3.5)
_UNUSED: Final = {
    Kind.SYNCACK: ("len", "msglen", "lsrank", "tag", "cid", "seqnum", "count", "dtype"),
    Kind.PROTOACK: ("len", "srqid", "drqid", "msglen", "lsrank", "tag", "cid", "seqnum", "count", "dtype"),
    Kind.CANCEL: ("len", "drqid", "msglen", "lsrank", "tag", "cid", "seqnum", "count", "dtype"),
    Kind.FINI: ("len", "srqid", "drqid", "msglen", "lsrank", "tag", "cid", "seqnum", "count", "dtype"),
}
_UNUSED_BY: Final = _UNUSED | {Kind.CANCELYES: _UNUSED[Kind.CANCEL], Kind.CANCELNO: _UNUSED[Kind.CANCEL]}


def _check_unused(packet: Packet) -> Iterator[Deviation]:
    names = [*_UNUSED_BY.get(Kind(packet.type), ()), "reserved"]
    filled = [f"pk_{name}" for name in names if getattr(packet, name)]
    if filled:
        yield _note(
            "I3.5-9", f"{packet.name} has other values than 0 in {', '.join(filled)}, which do not count", packet
        )
