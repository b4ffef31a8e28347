"""Faults: each makes a simulated implementation break one rule, to test that the tester detects it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aiompi_launcher.conformance.model import tags
from aiompi_launcher.conformance.wire.packet import NOBODY, WITH_DATA, Kind, Packet
from aiompi_launcher.conformance.wire.startup import LABELS, command, submission

FIRST_USER: Final = 32000  # tags from here on are the tester's; faults do not change its messages

Rewrite = Callable[[Packet], Iterable[Packet]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A violation of one rule.

    Attributes:
        rule: id of the rule.
        rewrite: returns the packets that are sent instead of a packet.
        step: step of the start-up that sends `words` instead; empty for none.
        quirk: name of a deviation that the model implements; empty for none.
    """

    name: str
    rule: str
    rewrite: Rewrite | None = None
    step: str = ""
    words: bytes = b""
    quirk: str = ""


class Fallible:
    """Applies one fault in the model.

    Args:
        fault: the fault.
    """

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def words(self, step: str, data: bytes) -> bytes:
        """Return what is sent to the server in a step of the start-up."""
        return self._fault.words if step == self._fault.step else data

    def packets(self, packet: Packet) -> Iterable[Packet]:
        """Return the packets that are sent instead of a packet."""
        if self._fault.rewrite is None or FIRST_USER <= packet.tag < FIRST_USER + 10:
            return (packet,)
        return self._fault.rewrite(packet)

    def has(self, quirk: str) -> bool:
        """Return True if the model implements this quirk."""
        return quirk == self._fault.quirk


def _when(condition: Callable[[Packet], bool], change: Callable[[Packet], Iterable[Packet]]) -> Rewrite:
    return lambda packet: change(packet) if condition(packet) else (packet,)


def _field(kinds: set[Kind], name: str, change: Callable[[int], int]) -> Rewrite:
    """Change a field of packets of some kinds."""
    return _when(
        lambda packet: packet.type in kinds, lambda packet: [packet.replace(**{name: change(getattr(packet, name))})]
    )


def _first(packet: Packet) -> bool:
    """Return True for a packet of a user's message."""
    return packet.type in WITH_DATA and not packet.cid % 2 and not (packet.type == Kind.DATA and _more(packet))


def _more(packet: Packet) -> bool:
    return packet.type == Kind.DATA and packet.len < packet.msglen


def _long(packet: Packet) -> bool:
    return packet.type == Kind.DATASYNC and packet.len < packet.msglen


def _user(packet: Packet) -> bool:
    return packet.type in WITH_DATA and not packet.cid % 2


def _collective(tag: int) -> Callable[[Packet], bool]:
    return lambda packet: packet.type in WITH_DATA and packet.cid % 2 == 1 and packet.tag == tag


def _little_endian(packet: Packet) -> list[Packet]:
    """Swap the bytes of each 4-byte word."""
    data = packet.data
    swapped = b"".join(data[start : start + 4][::-1] for start in range(0, len(data), 4))
    return [packet.replace(data=swapped)]


def _longer(packet: Packet) -> list[Packet]:
    return [packet.replace(data=packet.data + b"\0\0\0\0", msglen=packet.msglen + 4)]


def _shorter(packet: Packet) -> list[Packet]:
    data = packet.data[:-4] if packet.len == packet.msglen else packet.data
    return [packet.replace(data=data, msglen=max(0, packet.msglen - 4))]


def _swap_ends(packet: Packet) -> list[Packet]:
    return [packet.replace(src=packet.dest, dest=packet.src)]


class _Reordering:
    """Swaps two user messages with tag 77: sends the first message after the second."""

    def __init__(self) -> None:
        self._held: list[Packet] = []

    def __call__(self, packet: Packet) -> list[Packet]:
        if not _first(packet) or packet.tag != 77:
            return [packet]
        if not self._held:
            self._held.append(packet)
            return []
        return [packet, self._held.pop()]


def _fields() -> Iterable[Fault]:
    data = {Kind.DATA, Kind.DATASYNC}
    sync = {Kind.SYNCACK}
    answers = {Kind.CANCELYES, Kind.CANCELNO}
    yield Fault("tag", "I3.5-13", _when(_first, lambda p: [p.replace(tag=p.tag + 1)]))
    yield Fault("negative-tag", "I3.4-1", _when(_first, lambda p: [p.replace(tag=-p.tag - 1)]))
    yield Fault("context", "I3.3-1", _when(_user, lambda p: [p.replace(cid=p.cid + 1000)]))
    yield Fault("lsrank", "I3.5-11", _when(_user, lambda p: [p.replace(lsrank=p.lsrank + 1)]))
    yield Fault("msglen-lies", "I3.5-17", _when(_first, lambda p: [p.replace(msglen=max(0, p.len - 1), len=p.len)]))
    yield Fault("unknown-source", "I3.2-1", _when(_user, lambda p: [p.replace(src=NOBODY)]))
    yield Fault("unknown-destination", "I3.2-1", _when(_user, lambda p: [p.replace(dest=NOBODY)]))
    yield Fault("swapped-ends", "I3.5-10", _when(lambda p: p.type == Kind.SYNCACK, _swap_ends))
    yield Fault("native-bytes", "I1.2.2-1", _when(_user, _little_endian))
    yield Fault("too-long", "I3.7.1-1", _when(_first, _longer))
    yield Fault("too-short", "I3.7.1-1", _when(lambda p: _first(p) and p.len >= 4, _shorter))
    yield Fault("twice", "I3.5-1", _when(lambda p: _first(p) and p.len == p.msglen, lambda p: [p, p]))
    yield Fault("lost", "I3.1-1", _when(_first, lambda p: []))
    yield Fault("reordered", "I3.5-15", _Reordering())
    yield Fault("unknown-type", "I3.5-6", _when(_first, lambda p: [p.replace(type=9)]))
    yield Fault("wrong-syncack", "I3.7.1-5", _field(sync, "srqid", lambda value: value + 100))
    yield Fault("truncated-srqid", "I3.7.1-5", _field(sync, "srqid", lambda value: value & 1))
    yield Fault("no-syncack", "I3.7.1-3", _when(lambda p: p.type == Kind.SYNCACK, lambda p: []))
    yield Fault("two-syncacks", "I3.7.1-4", _when(lambda p: p.type == Kind.SYNCACK, lambda p: [p, p]))
    yield Fault("syncack-on-arrival", "I3.7.1-3", quirk="syncack-on-arrival")
    yield Fault("ssend-as-data", "I3.7.1-2", _field({Kind.DATASYNC}, "type", lambda _: Kind.DATA))
    yield Fault("send-as-datasync", "I3.7.1-2", _when(_first, lambda p: [p.replace(type=Kind.DATASYNC)]))
    yield Fault("cancel-unanswered", "I3.7.4-3", _when(lambda p: p.type in answers, lambda p: []))
    yield Fault("cancel-twice-answered", "I3.7.4-3", _when(lambda p: p.type in answers, lambda p: [p, p]))
    yield Fault("cancel-wrong-srqid", "I3.7.4-3", _field(answers, "srqid", lambda value: value + 1))
    yield Fault("cancel-always-yes", "I3.7.4-5", _field({Kind.CANCELNO}, "type", lambda _: Kind.CANCELYES))
    yield Fault("cancel-always-no", "I3.7.4-4", _field({Kind.CANCELYES}, "type", lambda _: Kind.CANCELNO))
    yield Fault("cancel-of-nothing", "I3.7.4-8", _field({Kind.CANCEL}, "srqid", lambda value: value + 1000))
    yield Fault("cancel-oldest", "I3.7.4-7", quirk="cancel-oldest")
    yield Fault("reserved", "I3.5-9", _field(data, "reserved", lambda _: 5))


def _flow() -> Iterable[Fault]:
    protoack = {Kind.PROTOACK}
    yield Fault("ignores-hiwater", "I3.6-5", quirk="ignore-hiwater")
    yield Fault("no-protoack", "I3.6-3", quirk="no-protoack")
    yield Fault("two-protoacks", "I3.6-3", _when(lambda p: p.type in protoack, lambda p: [p, p]))
    yield Fault("protoack-at-once", "I3.6-3", quirk="protoack-at-once")
    yield Fault("syncack-uncounted", "I3.6-2", quirk="syncack-uncounted")
    yield Fault("protoack-swapped", "I3.5-10", _when(lambda p: p.type in protoack, _swap_ends))


def _long_messages() -> Iterable[Fault]:
    yield Fault("long-as-data", "I3.7.2-2", _when(_long, lambda p: [p.replace(type=Kind.DATA)]))
    yield Fault("long-wrong-drqid", "I3.7.2-5", _when(_more, lambda p: [p.replace(drqid=p.drqid + 1000)]))
    yield Fault("long-wrong-srqid", "I3.7.2-3", _when(_more, lambda p: [p.replace(srqid=p.srqid + 1)]))
    yield Fault("long-wrong-msglen", "I3.5-12", _when(_more, lambda p: [p.replace(msglen=p.msglen + 1)]))
    yield Fault("long-wrong-tag", "I3.5-13", _when(_more, lambda p: [p.replace(tag=p.tag + 1)]))
    yield Fault("long-empty-first", "I3.7.2-7", _when(_long, lambda p: [p.replace(data=b"")]))
    yield Fault("long-overrun", "I3.5-17", _when(_more, lambda p: [p.replace(data=p.data + bytes(p.msglen))]))
    yield Fault("long-not-split", "I3.5-3", quirk="not-split")
    yield Fault("long-unasked", "I3.7.2-2", quirk="long-unasked")
    yield Fault("split-short", "I3.7.1-1", quirk="split-short")
    yield Fault("drqid-32-bits", "I3.7.2-5", _when(_more, lambda p: [p.replace(drqid=p.drqid & 0xFFFFFFFF)]))


def _collectives() -> Iterable[Fault]:
    for tag, name in tags.NAMES.items():
        rule = {110: "I4.10-1", 120: "I4.11-1"}.get(tag, "I4.25-1")
        name = name.lower()
        yield Fault(f"{name}-tag", rule, _when(_collective(tag), lambda p: [p.replace(tag=p.tag + 1)]))
        yield Fault(f"{name}-context", "I4.3-2", _when(_collective(tag), lambda p: [p.replace(cid=p.cid - 1)]))
        yield Fault(f"{name}-longer", rule, _when(_collective(tag), _longer))
        if tag not in (tags.BARRIER, tags.FREE):  # whose messages are empty
            yield Fault(f"{name}-native", "I1.2.2-1", _when(_collective(tag), _little_endian))
        yield Fault(f"{name}-twice", "I4.1-2", _when(_collective(tag), lambda p: [p, p]))
        yield Fault(f"{name}-lost", "I4.1-10", _when(_collective(tag), lambda p: []))
    for quirk, rule in (
        ("linear-only", "I4.10-3"),
        ("tree-only", "I4.10-2"),
        ("barrier-answers-early", "I4.10-5"),
        ("bcast-skips-empty", "I4.11-5"),
        ("gather-crossover", "I4.12-1"),
        ("gather-always-long", "I4.12-1"),
        ("gather-reversed", "I4.12-3"),
        ("bound-not-zero", "I4.13-1"),
        ("scatter-crossover", "I4.14-1"),
        ("scatter-reversed", "I4.14-3"),
        ("reduce-combines-once", "I4.16-3"),
        ("reduce-ignores-order", "I4.16-7"),
        ("scan-wrong-order", "I4.18-1"),
        ("alltoall-crossover", "I4.22-1"),
        ("alltoall-transposed", "I4.22-4"),
        ("alltoallv-skips-empty", "I4.23-1"),
        ("root-by-rank", "I4.10-4"),
        ("context-step", "I4.3-4"),
        ("split-swapped", "I4.7-1"),
        ("leaders-send-ints", "I4.8-2"),
        ("merge-wrong-flag", "I4.9-3"),
        ("wrong-color", "I2.5-4"),
        ("count-native", "I1.2.2-3"),
        ("probe-matches", "I3.7.3-4"),
        ("truncates-silently", "I3.7.2-11"),
        ("pack-native", "I4.1-5"),
    ):
        yield Fault(quirk, rule, quirk=quirk)


def _startup() -> Iterable[Fault]:
    done = command(int.from_bytes(b"DONE"))
    yield Fault("auth-length", "I2.3.2-6", step="auth", words=command(0x41555448, b"\0\0\1"))
    yield Fault("auth-mask", "I2.3.3-10", step="auth", words=command(0x41555448, b"\0\0\0\0"))
    yield Fault("auth-missing", "I2.3.2-7", step="auth", words=b"")
    yield Fault("impi-length", "I2.3.4-1", step="impi", words=command(0x494D5049, bytes(8)))
    yield Fault("impi-rank", "I2.3.4-5", step="impi", words=command(0x494D5049, b"\0\0\0\x63"))
    yield Fault("label-order", "I2.3.5-5", step="C_NPROCS", words=submission(0x1000, bytes(8)))
    yield Fault("label-none", "I2.3.5-13", step="C_NPROCS", words=submission(0, b""))
    yield Fault("label-size", "I2.3.5-16", step="C_DATALEN", words=submission(0x1300, bytes(8)))
    yield Fault("label-limit", "I2.3.5-31", step="C_TAGUB", words=submission(0x1400, b"\0\0\0\1"))
    yield Fault("label-version", "I2.3.5-17", step="C_VERSION", words=submission(0x1000, b"\0\0\0\1" * 2))
    for label in LABELS.values():
        yield Fault(f"label-{label.name.lower()}-missing", "I2.3.5-14", step=label.name, words=b"")
    yield Fault("coll-length", "I2.3.2-6", step="C_NHOSTS", words=command(0x434F4C4C, b"\0"))
    yield Fault("done-payload", "I2.3.6-1", step="done", words=command(0x444F4E45, bytes(4)))
    yield Fault("done-twice", "I2.3.2-8", step="done", words=done * 2)
    yield Fault("dance-other-rank", "I2.3.8-6", quirk="dance-other-rank")
    yield Fault("fini-before-barrier", "I4.24-1", quirk="fini-before-barrier")
    yield Fault("fini-early", "I2.4-3", _when(_first, lambda p: [p, Packet(Kind.FINI)]))
    yield Fault("no-fini", "I2.4-4", _when(lambda p: p.type == Kind.FINI, lambda p: []))
    yield Fault("data-after-fini", "I3.8-1", quirk="data-after-fini")


def _every() -> Iterator[Fault]:
    for part in (_fields, _flow, _long_messages, _collectives, _startup):
        yield from part()


def fault(name: str) -> Fault:
    """Return a fault by name, in its initial state.

    Raises:
        KeyError: there is no fault of this name.
    """
    for fault in _every():
        if fault.name == name:
            return fault
    raise KeyError(name)


def names() -> list[str]:
    """Return the names of all faults."""
    return [fault.name for fault in _every()]
