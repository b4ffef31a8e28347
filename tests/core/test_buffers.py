"""The memory of buffer specifications, in the form that is in use, beside what the general way makes of them."""

from __future__ import annotations

import array
import sys
from typing import Any

import numpy as np
import pytest

from aiompi import core
from aiompi.datatype.buffer.bufspec import memory_to_receive, memory_to_send, resolve_recv, resolve_send
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.predefined import DATATYPE_NULL, DOUBLE, INT
from support.cases import cases

NUMBERS = np.arange(24, dtype="f8")
LONG = np.arange(4000, dtype="f8")
VECTOR = DOUBLE.Create_vector(3, 1, 2).Commit()
TYPES = [
    DOUBLE, INT, VECTOR, DOUBLE.Create_contiguous(2).Commit(), DOUBLE.Create_resized(0, 16).Commit(),
    DOUBLE.Create_hindexed([1], [8]).Commit(), DOUBLE.Create_hindexed([1], [-8]).Commit(),
    DOUBLE.Create_contiguous(0).Commit(), DOUBLE.Create_indexed_block(2, [0, 1]).Commit(),
    DOUBLE.Create_vector(2, 1, 2), DATATYPE_NULL, "d", "x",
    Datatype.Create_struct([1, 1], [0, 8], [INT, DOUBLE]).Commit(),
]  # fmt: skip
MEMORIES: list[Any] = [
    NUMBERS, LONG, NUMBERS.reshape(4, 6).T, NUMBERS[::2], NUMBERS[:0], NUMBERS.astype(">f8"), NUMBERS.tobytes(),
    bytearray(64), memoryview(bytearray(64)), memoryview(bytes(64)), array.array("d", range(8)), np.array(["a", None]),
    NUMBERS.view([("a", "f8")]), None, 5, np.zeros(4, "u1"),
]  # fmt: skip
SPECS: list[Any] = [
    *MEMORIES,
    *([memory, datatype] for memory in MEMORIES for datatype in TYPES),
    *([memory, count, datatype] for memory in MEMORIES[:9] for datatype in TYPES for count in (0, 1, 3, 400)),
    *((NUMBERS, count, VECTOR) for count in (-1, True, 2**70, np.int64(2), 1.0, None, "1", (1, 2))),
    [NUMBERS, 2], [NUMBERS, 2, 1, DOUBLE], [NUMBERS], [], (NUMBERS, DOUBLE),
]  # fmt: skip


def read(memory: Any) -> bytes:
    return bytes(memory) if isinstance(memory, core.Span | memoryview | bytes) else bytes(memory.packed())


def outcome(make: Any, spec: Any) -> Any:
    try:
        return read(make(spec))
    except Exception as error:
        return type(error), str(error)


@cases("spec", SPECS)
def test_messages_are_those_of_the_general_way(spec: Any) -> None:
    general = outcome(lambda spec: resolve_send(spec, "buf"), spec)
    assert outcome(memory_to_send, spec) == general
    assert outcome(memory_to_send, spec) == general


@cases("spec", SPECS)
def test_destinations_are_those_of_the_general_way(spec: Any) -> None:
    assert outcome(memory_to_receive, spec) == outcome(lambda spec: resolve_recv(spec, "buf"), spec)


def test_a_long_message_aliases_its_array() -> None:
    memory = LONG.copy()
    message = memory_to_send([memory, 3000, DOUBLE])
    assert len(message) == 24_000
    memory[0] = 77
    assert np.frombuffer(message, "f8")[0] == 77
    assert np.shares_memory(np.frombuffer(message, "f8"), memory)


def test_a_destination_is_as_long_as_its_items() -> None:
    memory = NUMBERS.copy()
    target = memoryview(memory_to_receive([memory, 3, DOUBLE]))  # type: ignore[arg-type]
    assert target.nbytes == 24
    target[:] = bytes(24)
    assert memory.tolist() == [0, 0, 0, *range(3, 24)]


@pytest.mark.skipif(core.form != "native", reason="the pure form leaves them to the general way")
def test_what_is_usual() -> None:
    for spec in ([NUMBERS, DOUBLE], [NUMBERS, 3, DOUBLE], (NUMBERS, 1, VECTOR), [bytes(64), DOUBLE], NUMBERS):
        assert core.outgoing(spec) is not None
    for spec in ([NUMBERS, DOUBLE], [NUMBERS, 3, DOUBLE], NUMBERS):
        assert core.incoming(spec) is not None
    for spec in ([NUMBERS, 1, VECTOR], [bytearray(64), DOUBLE], [bytes(64), DOUBLE]):
        assert core.incoming(spec) is None
    freed = DOUBLE.Create_vector(3, 1, 2).Commit()
    assert core.outgoing([NUMBERS, 1, freed]) is not None
    freed.Free()
    assert core.outgoing([NUMBERS, 1, freed]) is None


def test_nothing_is_kept() -> None:
    memory, other = NUMBERS.copy(), bytearray(64)
    before = sys.getrefcount(memory), sys.getrefcount(None)
    for _ in range(1000):
        memory_to_send([memory, 3, DOUBLE])
        memory_to_receive([memory, 3, DOUBLE])
        memory_to_send([other, 1, VECTOR])
        memory_to_send(LONG)
    assert sys.getrefcount(memory) == before[0]
    assert sys.getrefcount(None) - before[1] < 500
    other.append(1)
    assert len(other) == 65
