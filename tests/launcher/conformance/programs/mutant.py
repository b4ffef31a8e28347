"""The test interpreter on an aiompi with a mistake: `mutant.py NAME`. The scripts must notice each of them."""

from __future__ import annotations

import functools
import importlib
import os
import struct
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from aiompi.coll.algorithms import impi as collectives
from aiompi.coll.algorithms.clients import BCAST_TAG, Masters, Span, low_children, low_parent
from aiompi.coll.external import ExternalAccumulator
from aiompi.create import agreement, impi
from aiompi.impi.channel.message import Outgoing
from aiompi.impi.channel.pair import Limits, Pair
from aiompi.impi.packet import PacketType
from aiompi_launcher.conformance.interpreter import main

MUTANTS: dict[str, Callable[[], None]] = {}


def mutant(function: Callable[[], None]) -> Callable[[], None]:
    """A mistake, by the name of the function that makes it."""
    MUTANTS[function.__name__.replace("_", "-")] = function
    return function


def wrap(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Replace a function by one that gets the original as its first argument."""

    def replace(function: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **options: Any) -> Any:
            return function(original, *args, **options)

        setattr(owner, name, wrapped)

    return replace


def limit(**changes: Callable[[int], int]) -> None:
    """Other limits than those that were agreed upon."""
    original = Limits.of.__func__  # type: ignore[attr-defined]

    def of(cls: type[Limits], universe: Any) -> Limits:
        limits = original(cls, universe)
        return limits._replace(**{name: change(getattr(limits, name)) for name, change in changes.items()})

    Limits.of = classmethod(of)  # type: ignore[method-assign, assignment]


def outgoing(change: Callable[[Outgoing], None]) -> None:
    """Change each message of a user, or of a collective, before it is sent."""

    @wrap(Outgoing, "__init__")
    def init(original: Any, self: Outgoing, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        if self.tag not in range(32000, 32010):  # those of the tester itself
            change(self)


# Packets.


@mutant
def syncack_srqid() -> None:
    @wrap(Pair, "_answer")
    def answer(original: Any, self: Pair, kind: PacketType, srqid: int, drqid: int = 0) -> None:
        original(self, kind, srqid + (kind is PacketType.SYNCACK), drqid)


@mutant
def syncack_on_arrival() -> None:
    @wrap(Pair, "_begin")
    def begin(original: Any, self: Pair, packet: Any, data: Any, sync: bool) -> None:
        if sync and packet.pk_len == packet.pk_msglen:
            self._answer(PacketType.SYNCACK, packet.pk_srqid)
            sync = False
        original(self, packet, data, sync)


@mutant
def srqid_of_32_bits() -> None:
    @wrap(Pair, "_begin")
    def begin(original: Any, self: Pair, packet: Any, data: Any, sync: bool) -> None:
        original(self, packet._replace(pk_srqid=packet.pk_srqid & 0xFFFFFFFF), data, sync)


@mutant
def drqid_of_32_bits() -> None:
    @wrap(Pair, "_syncack")
    def syncack(original: Any, self: Pair, packet: Any, data: Any) -> None:
        original(self, packet._replace(pk_drqid=packet.pk_drqid & 0xFFFFFFFF), data)


@mutant
def drqid_not_echoed() -> None:
    @wrap(Pair, "_syncack")
    def syncack(original: Any, self: Pair, packet: Any, data: Any) -> None:
        original(self, packet._replace(pk_drqid=0), data)


@mutant
def no_protoack() -> None:
    @wrap(Pair, "receive")
    def receive(original: Any, self: Pair, packet: Any, data: Any) -> None:
        self._received = 0
        original(self, packet, data)


@mutant
def late_protoack() -> None:
    limit(ackmark=lambda ackmark: ackmark + 1)


@mutant
def no_hiwater() -> None:
    limit(hiwater=lambda _: 10**6)


@mutant
def half_datalen() -> None:
    @wrap(Pair, "__init__")
    def init(original: Any, self: Pair, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        self.limits = self.limits._replace(datalen=self.limits.datalen // 2)


@mutant
def ssend_is_data() -> None:
    outgoing(lambda message: setattr(message, "sync", False))


@mutant
def send_is_datasync() -> None:
    outgoing(lambda message: setattr(message, "sync", True))


@mutant
def rank_of_world() -> None:
    outgoing(lambda message: setattr(message, "lsrank", message.lsrank + 1))


@mutant
def tag_of_16_bits() -> None:
    outgoing(lambda message: setattr(message, "tag", message.tag & 0xFFFF))


@mutant
def one_context() -> None:
    outgoing(lambda message: setattr(message, "cid", message.cid & 1))


@mutant
def cancel_yes_of_matched() -> None:
    @wrap(Pair, "_cancel")
    def cancel(original: Any, self: Pair, packet: Any, data: Any) -> None:
        if packet.pk_srqid in self._unmatched:
            original(self, packet, data)
        else:
            self._answer(PacketType.CANCELYES, packet.pk_srqid)


@mutant
def cancel_oldest() -> None:
    @wrap(Pair, "_cancel")
    def cancel(original: Any, self: Pair, packet: Any, data: Any) -> None:
        unmatched = self._unmatched.get(packet.pk_srqid)
        if unmatched is not None:
            self._unmatched[packet.pk_srqid] = dict.fromkeys(reversed(unmatched))
        original(self, packet, data)


@mutant
def cancel_unanswered() -> None:
    Pair._cancel = lambda self, packet, data: None  # type: ignore[method-assign]


@mutant
def cancel_keeps_the_message() -> None:
    @wrap(Pair, "_cancel")
    def cancel(original: Any, self: Pair, packet: Any, data: Any) -> None:
        known = packet.pk_srqid in self._unmatched
        self._answer(PacketType.CANCELYES if known else PacketType.CANCELNO, packet.pk_srqid)


# Collectives.


def every_span(change: Callable[[Span, int], None]) -> None:
    @wrap(Span, "__init__")
    def init(original: Any, self: Span, channel: Any, tag: int) -> None:
        original(self, channel, tag)
        change(self, tag)


@mutant
def barrier_tag() -> None:
    collectives.BARRIER_TAG = 111  # type: ignore[misc]


@mutant
def barrier_tree_of_lowest_bits() -> None:
    others = {"high_children": low_children, "high_parent": low_parent}
    code = collectives._between_masters.__code__
    collectives._between_masters = FunctionType(code, {**vars(collectives), **others})  # type: ignore[assignment]


@mutant
def always_linear() -> None:
    every_span(lambda self, _: setattr(self, "linear", True))


@mutant
def never_linear() -> None:
    every_span(lambda self, _: setattr(self, "linear", False))


@mutant
def crossover_is_short() -> None:
    every_span(lambda self, _: setattr(self, "xsize", self.xsize + 1))


@mutant
def bound_is_told() -> None:
    every_span(lambda self, tag: setattr(self, "xsize", 10**9 if tag == BCAST_TAG else self.xsize))


@mutant
def gather_backwards() -> None:
    @wrap(collectives, "_pass_on")
    def pass_on(original: Any, span_: Any, parts: list[Any], root: int, relative: int) -> Any:
        return original(span_, parts[::-1], root, relative)


@mutant
def highest_rank_is_master() -> None:
    Masters.master_rank = lambda self, number: self._locals[number][-1]  # type: ignore[method-assign]


@mutant
def alltoallv_tag() -> None:
    collectives.ALLTOALLV_TAG = 170  # type: ignore[misc]


@mutant
def scan_tag() -> None:
    collectives.SCAN_TAG = 190  # type: ignore[misc]


@mutant
def reduction_backwards() -> None:
    @wrap(ExternalAccumulator, "absorb")
    def absorb(original: Any, self: ExternalAccumulator, lower: bool) -> None:
        original(self, not lower)


# Communicators.


@mutant
def context_skipped() -> None:
    async def reach(self: Any, union: Any) -> int:
        ids = self._comm.ids
        (highest,) = await union.maximum(ids.highest | 1)
        ids.highest = highest + 4
        return int(highest) + 3

    agreement.ImpiAgreement.reach = reach  # type: ignore[method-assign]


@mutant
def color_and_key_swapped() -> None:
    @wrap(importlib.import_module("aiompi.create.split"), "split_table")
    def table(original: Any, channel: Any, color: int, key: int) -> Any:
        return original(channel, key, color)


@mutant
def leaders_send_ints() -> None:
    impi.pack = lambda numbers: struct.pack(f">{len(numbers)}i", *numbers)


@mutant
def merge_flag() -> None:
    @wrap(impi.ImpiMergedGroups, "__init__")
    def init(original: Any, self: Any, channel: Any, high: bool) -> None:
        original(self, channel, not high)


@mutant
def free_at_once() -> None:
    async def fence(channel: Any, tag: int) -> None:
        pass

    importlib.import_module("aiompi.create.free").fence = fence  # type: ignore[attr-defined]


# What historic implementations do, for which there are settings.


@mutant
def native_order() -> None:
    os.environ["AIOMPI_IMPI_NATIVE_ORDER"] = "0"


@mutant
def reduce_among_the_users() -> None:
    os.environ["AIOMPI_IMPI_REDUCE_POINT_TO_POINT"] = "0"


@mutant
def leaders_among_the_users() -> None:
    os.environ["AIOMPI_IMPI_LEADERS_COLLECTIVE"] = "0"


if __name__ == "__main__":
    MUTANTS[sys.argv[1]]()
    sys.exit(main([]))
