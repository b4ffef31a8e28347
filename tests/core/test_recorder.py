"""The recorder writes into a file that others map, and asks Python for names, which may close it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import CodeType, SimpleNamespace
from typing import Any

import pytest

from aiompi.core import PeerBase, Recorder, Request
from aiompi.core.pure import recorder as layout
from support.cases import cases

CAPACITY = 4


class Names:
    """Names of which one runs other code."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    def now(self) -> int:
        return 10**12

    def classify(self, code: CodeType, /) -> int:
        self.meanwhile()
        return layout.PROGRAM if code.co_filename == __file__ else layout.LIBRARY

    def place(self, called: CodeType | None, at: layout.Position, caller: layout.Position | None, /) -> int:
        self.meanwhile()
        return 7

    def room(self, written: int, /) -> int:
        return written + 2

    def word(self, text: str, /) -> int:
        return 1

    def way(self, peer: Any, /) -> int:
        self.meanwhile()
        return layout.TCP


def made() -> tuple[Recorder, Names, bytearray]:
    memory, names = bytearray(layout.RECORDS + CAPACITY * layout.RECORD.size), Names()
    return Recorder(memory, names), names, memory


def request() -> Request[None]:
    return Request(SimpleNamespace(recorder=None))


def way_of(memory: bytearray, handle: int) -> int:
    at = layout.RECORDS + (handle - 1) * layout.RECORD.size
    return int(layout.RECORD.unpack_from(memory, at)[10])


@cases("forged", [2**64 - 1, 2**63, 0, 1])
def test_the_number_of_records_is_not_taken_from_the_file(forged: int) -> None:
    recorder, _, memory = made()
    recorder.start(layout.SEND, 0, 1, 2, 3)
    layout.COUNT.pack_into(memory, layout.HEAD, forged)
    second = recorder.start(layout.SEND, 0, 1, 2, 3)
    recorder.past(layout.GC, 0.5)
    layout.COUNT.pack_into(memory, layout.HEAD, forged)
    recorder.end(second, layout.TCP)
    assert (second, way_of(memory, second)) == (2, layout.TCP)


def test_nothing_is_written_where_the_file_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, names, memory = made()
    assert [recorder.start(layout.SEND, 0, 1, 2, 3) for _ in range(2)] == [1, 2]
    monkeypatch.setattr(names, "room", lambda written: written)
    assert [recorder.start(layout.SEND, 0, 1, 2, 3) for _ in range(2)] == [0, 0]
    recorder.past(layout.GC, 0.5)
    assert not any(memory[layout.RECORDS + 2 * layout.RECORD.size :])


def test_a_word_is_that_of_the_next_call() -> None:
    """Not of a garbage collection that comes between, or of a wait."""
    recorder, _, memory = made()
    recorder.word = 5
    recorder.past(layout.GC, 0.5)
    recorder.waits(request())
    recorder.start(layout.COLLECTIVE, 0, 1, 2, 3)
    recorder.start(layout.COLLECTIVE, 0, 1, 2, 3)
    records = [layout.RECORD.unpack_from(memory, layout.RECORDS + n * layout.RECORD.size) for n in range(4)]
    assert [record[11] for record in records] == [0, 0, 5, 0]


def calls(recorder: Recorder) -> dict[str, Callable[[], object]]:
    """Return calls that ask for names on their way."""
    handle = recorder.start(layout.RECV, 0, 1, 2, 3)
    traced = request()
    traced.traced = handle
    return {
        "start": lambda: recorder.start(layout.SEND, 0, 1, 2, 3),
        "past": lambda: recorder.past(layout.GC, 0.5),
        "waits for a new record": lambda: recorder.waits(request()),
        "waits": lambda: recorder.waits(traced),
        "sent": lambda: recorder.sent(handle, request(), None),
    }


@cases("call", list(calls(made()[0])))
def test_a_recorder_that_is_closed_meanwhile_writes_nothing(call: str) -> None:
    recorder, names, memory = made()
    chosen, closed = calls(recorder)[call], []

    def close() -> None:
        recorder.close()
        memory.clear()  # nothing refers to it any more: the next write would be anywhere
        closed.append(True)

    names.meanwhile = close
    chosen()
    assert closed


def test_the_memory_of_a_recorder_in_a_cycle_is_given_back() -> None:
    memory: Any = bytearray(layout.RECORDS + CAPACITY * layout.RECORD.size)
    naming: Any = {}
    naming["recorder"] = Recorder(memory, naming)  # the collector clears the older one of the two first
    del naming
    gc.collect()
    memory.clear()


@cases("number", [2**31, 2**40, 2**70, -(2**31) - 1, "1", None, 1.5])
def test_a_number_that_no_call_accepts_is_shown_as_none(number: object) -> None:
    assert layout.shown(number) == -1


def test_a_peer_is_asked_for_its_way() -> None:
    recorder, _, memory = made()
    handle = recorder.start(layout.SEND, 0, 1, 2, 3)
    recorder.sent(handle, request(), PeerBase.__new__(PeerBase))
    assert way_of(memory, handle) == layout.TCP
