"""Matching against a model that is too simple to be wrong, and its cost."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.engine import Mode
from aiompi.engine.matching import Matcher
from support.worlds import LocalWorld, irecv, isend

SOURCES = [0, 1]
TAGS = [0, 1]


class Model:
    """Two ordered lists: messages without a receive, and receives without a message.

    Messages are numbered in the order of their arrival, receives in the order of their start.
    """

    def __init__(self) -> None:
        self.messages: list[tuple[int, int]] = []
        self.wants: list[tuple[int, int]] = []
        self.unexpected: list[int] = []
        self.posted: list[int] = []
        self.got: dict[int, int] = {}

    def matches(self, receive: int, message: int) -> bool:
        source, tag = self.wants[receive]
        return source in (ANY_SOURCE, self.messages[message][0]) and tag in (ANY_TAG, self.messages[message][1])

    def arrive(self, message: int) -> None:
        for receive in self.posted:
            if self.matches(receive, message):
                self.posted.remove(receive)
                self.got[receive] = message
                return
        self.unexpected = sorted([*self.unexpected, message])

    def send(self, source: int, tag: int) -> None:
        self.messages.append((source, tag))
        self.arrive(len(self.messages) - 1)

    def receive(self, source: int, tag: int) -> None:
        self.wants.append((source, tag))
        receive = len(self.wants) - 1
        for message in self.unexpected:
            if self.matches(receive, message):
                self.unexpected.remove(message)
                self.got[receive] = message
                return
        self.posted.append(receive)

    def cancel(self, receive: int) -> None:
        if receive in self.posted:
            self.posted.remove(receive)

    def withdraw(self, receive: int) -> None:
        self.cancel(receive)
        if receive in self.got:
            self.arrive(self.got.pop(receive))

    def probe(self, source: int, tag: int) -> int | None:
        self.wants.append((source, tag))
        found = next((m for m in self.unexpected if self.matches(len(self.wants) - 1, m)), None)
        self.wants.pop()
        return found


class Real:
    """Perform the same operations on an engine; rank 2 receives."""

    def __init__(self) -> None:
        self.world = LocalWorld(3)
        self.comm = self.world.comms[2]
        self.sent = 0
        self.receives: list[Any] = []

    def send(self, source: int, tag: int) -> None:
        isend(self.world.comms[source], self.sent.to_bytes(2, "big"), 2, tag)
        self.sent += 1

    def receive(self, source: int, tag: int) -> None:
        self.receives.append(irecv(self.comm, source, tag))

    def cancel(self, receive: int) -> None:
        self.receives[receive].cancel()

    def withdraw(self, receive: int) -> None:
        self.receives[receive].withdraw()

    def got(self) -> dict[int, int]:
        """Return the message of each receive, without taking the results."""
        return {
            number: int.from_bytes(receive.data, "big")
            for number, receive in enumerate(self.receives)
            if receive.done() and not receive.cancelled()
        }

    def unexpected(self) -> list[int]:
        return [int.from_bytes(message.data, "big") for message in self.comm.matcher.unexpected()]


SENDS = st.tuples(st.just("send"), st.sampled_from(SOURCES), st.sampled_from(TAGS))
RECEIVES = st.tuples(st.just("receive"), st.sampled_from([ANY_SOURCE, *SOURCES]), st.sampled_from([ANY_TAG, *TAGS]))
UNDOINGS = st.tuples(st.sampled_from(["cancel", "withdraw"]), st.integers(0, 30))
OPERATIONS = st.lists(st.one_of(SENDS, RECEIVES, UNDOINGS), max_size=40)


@pytest.mark.spec("S3.2.4-2", "S3.5-1", "S3.5-2", "S3.5-5", "S3.7.4-1")
@settings(max_examples=150, deadline=None)
@given(OPERATIONS)
@example([("receive", ANY_SOURCE, 0), ("receive", 0, ANY_TAG), ("send", 0, 0), ("withdraw", 0)])
@example([("send", 0, 0), ("send", 0, 0), ("receive", 0, 0), ("withdraw", 0), ("receive", ANY_SOURCE, ANY_TAG)])
def test_engine_matches_as_the_model_does(operations: list[tuple[Any, ...]]) -> None:
    model, real = Model(), Real()
    for name, *args in operations:
        if name in ("cancel", "withdraw"):
            if not model.wants:
                continue
            args = [args[0] % len(model.wants)]
            if real.receives[args[0]].cancelled():
                continue
        getattr(model, name)(*args)
        getattr(real, name)(*args)
        assert real.got() == model.got
        assert real.unexpected() == model.unexpected
    for source in (ANY_SOURCE, *SOURCES):
        for tag in (ANY_TAG, *TAGS):
            status, message = real.comm.iprobe(source, tag), model.probe(source, tag)
            assert (status is None) is (message is None)
            if status is not None and message is not None:
                assert (status.source, status.tag) == model.messages[message]
    assert {r for r, receive in enumerate(real.receives) if not receive.done()} == set(model.posted)


@given(OPERATIONS)
@settings(max_examples=50, deadline=None)
def test_nothing_is_left_behind(operations: list[tuple[Any, ...]]) -> None:
    real = Real()
    for name, *args in operations:
        if name in ("send", "receive"):
            getattr(real, name)(*args)
        elif real.receives:
            getattr(real, name)(args[0] % len(real.receives))
    for receive in real.receives:
        receive.cancel()
    while (status := real.comm.iprobe(ANY_SOURCE, ANY_TAG)) is not None:
        irecv(real.comm, status.source, status.tag)
    matcher = real.comm.matcher
    assert not list(matcher.posted())
    assert not list(matcher.unexpected())
    assert not matcher.arrivals
    for sender in SOURCES:
        assert real.world.credit_balance(sender, 2) == real.world.settings.eager_window


def cpu_time(call: Callable[[], object]) -> float:
    """Return the seconds of CPU that a call takes."""
    gc.collect()
    start = time.thread_time()
    call()
    return time.thread_time() - start


def reversed_posted(count: int) -> None:
    w = LocalWorld(2)
    receives = [irecv(w.comms[1], 0, tag) for tag in range(count)]
    for tag in reversed(range(count)):
        isend(w.comms[0], b"x", 1, tag)
    assert all(receive.done() for receive in receives)


def reversed_unexpected(count: int) -> None:
    w = LocalWorld(2)
    for tag in range(count):
        isend(w.comms[0], b"x", 1, tag)
    assert all(irecv(w.comms[1], 0, tag).done() for tag in reversed(range(count)))


def wildcards_behind_exact_ones(count: int) -> None:
    w = LocalWorld(2)
    wild = [irecv(w.comms[1]) for _ in range(count)]
    exact = [irecv(w.comms[1], 0, tag) for tag in range(count)]
    for tag in reversed(range(count)):
        isend(w.comms[0], b"x", 1, tag)
    assert all(receive.done() for receive in wild)
    assert not any(receive.done() for receive in exact)


def flood_of_one_envelope(count: int) -> None:
    w = LocalWorld(2)
    for _ in range(count):
        isend(w.comms[0], b"x", 1)
    assert all(irecv(w.comms[1]).done() for _ in range(count))


def receives_cancelled_newest_first(count: int) -> None:
    w = LocalWorld(2)
    receives = [irecv(w.comms[1]) for _ in range(count)]
    assert all(receive.cancel() for receive in reversed(receives))


def sends_recalled_newest_first(count: int) -> None:
    w = LocalWorld(2)
    sends = [w.comms[0].isend((b"x",), 1, 1, 0, Mode.SYNCHRONOUS) for _ in range(count)]
    for send in reversed(sends):
        send.cancel()
    assert all(send.cancelled() for send in sends)


CASES = [
    reversed_posted,
    reversed_unexpected,
    wildcards_behind_exact_ones,
    flood_of_one_envelope,
    receives_cancelled_newest_first,
    sends_recalled_newest_first,
]


@pytest.mark.parametrize("case", CASES)
def test_cost_is_linear(case: Callable[[int], None]) -> None:
    # Twenty times as many take about twenty times as long, and 400 times if each looks at all others. What counts is
    # the best time of each: a core that stands still for a while, or is slow, makes only others longer.
    few = many = math.inf
    gc.disable()
    try:
        case(5)
        for turn in range(30):
            few, many = min(few, cpu_time(lambda: case(500))), min(many, cpu_time(lambda: case(10_000)))
            if turn >= 2 and many < 60 * few:
                break
    finally:
        gc.enable()
    assert many < 60 * few


def test_queues_of_reversed_receives_are_short() -> None:
    w = LocalWorld(2)
    receives = [irecv(w.comms[1], 0, tag) for tag in range(1000)]
    matcher: Matcher = w.comms[1].matcher
    assert list(matcher.posted()) == receives
    for tag in reversed(range(1000)):
        isend(w.comms[0], b"x", 1, tag)
        assert receives[tag].done()
    assert not list(matcher.posted())


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]], ids=str)
@pytest.mark.parametrize("given_up", [range(6), (1, 2, 4), (5,)], ids=str)
def test_messages_that_are_given_back_are_where_they_were(order: list[int], given_up: Iterable[int]) -> None:
    w = LocalWorld(1)
    (comm,) = w.comms
    for number in range(6):
        isend(comm, bytes([number]), 0, number % 2)
    receives = [irecv(comm, 0, number % 2) for number in range(6)]
    for number in order:
        if number in given_up:
            receives[number].withdraw()
    late = isend(comm, b"late", 0, 1)
    assert [irecv(comm, 0, ANY_TAG).result() for _ in given_up] == [bytes([number]) for number in given_up]
    assert irecv(comm, 0, 1).result() == b"late"
    assert late.done()
