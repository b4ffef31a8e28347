"""Which buffers share memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.datatype.buffer import disjoint
from aiompi.datatype.buffer.address import BOTTOM, Get_address
from aiompi.datatype.buffer.buffer import blocks
from aiompi.datatype.buffer.bufspec import check_disjoint, memory_to_exchange, resolve_recv, resolve_send
from aiompi.datatype.buffer.disjoint import MOST_RUNS, groups_share_memory, refuse_overlap, shares_memory
from aiompi.datatype.predefined import BYTE, DOUBLE, INT
from aiompi.errors import InvalidBufferError, InvalidTypeError
from support.cases import cases

TABLE = np.zeros((6, 8))
FLAT = np.zeros(96, "i")


def shared(one: Any, other: Any) -> bool:
    found = shares_memory(resolve_send(one), resolve_send(other))
    assert shares_memory(resolve_send(other), resolve_send(one)) is found
    return found


@pytest.mark.spec("S2.2-2")
@cases(
    ("one", "other", "expected"),
    [
        (TABLE, TABLE, True),
        (TABLE[:3], TABLE[3:], False),
        (TABLE[:3], TABLE[2:], True),
        (TABLE[0, :4], TABLE[0, 3:], True),
        (TABLE[0, :4], TABLE[0, 4:], False),
        (TABLE[:, 0], TABLE[:, 7], False),
        (TABLE[:, 0], TABLE[:, 1], False),
        (TABLE[:, 0], TABLE[2], True),
        (TABLE[:, 3], TABLE[2, :3], False),
        (TABLE[::2], TABLE[1::2], False),
        (TABLE[::2], TABLE[::-3], True),
        (TABLE[:, ::-1], TABLE, True),
        (TABLE, np.zeros((6, 8)), False),
        (TABLE[:0], TABLE, False),
        ([TABLE, 0], TABLE, False),
        (None, TABLE, False),
        (TABLE.data.cast("B")[8:], TABLE[0, :1], False),
        (TABLE.data.cast("B")[7:], TABLE[0, :1], True),
    ],
)
def test_slices(one: Any, other: Any, expected: bool) -> None:
    assert shared(one, other) is expected


@st.composite
def types(draw: st.DrawFn) -> Any:
    """Part of FLAT, through a type with gaps, whose entries may overlap."""
    count, length, stride = draw(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 5)))
    type_ = INT.Create_vector(count, length, stride).Commit()
    return [FLAT, (1, draw(st.integers(0, 3))), type_] if draw(st.booleans()) else [FLAT, (2, 0), type_]


def elements(spec: Any) -> set[int]:
    """Which elements of FLAT belong to a buffer."""
    _, (count, displ), type_ = spec
    marks = np.arange(96, dtype="i")
    return set(np.frombuffer(resolve_send([marks, (count, displ), type_]).packed(), "i").tolist())


@given(one=types(), other=types())
def test_exact_for_interleaved_types(one: Any, other: Any) -> None:
    assert shared(one, other) is bool(elements(one) & elements(other))


@given(some=st.lists(types(), max_size=4), others=st.lists(types(), max_size=4))
def test_groups_share_what_their_members_share(some: list[Any], others: list[Any]) -> None:
    expected = any(elements(one) & elements(other) for one in some for other in others)
    groups = [[resolve_send(spec) for spec in specs] for specs in (some, others)]
    assert groups_share_memory(*groups) is groups_share_memory(*groups[::-1]) is expected


def test_blocks_of_two_memories_are_told_apart_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disjoint, "_interval", None)  # is not asked for
    some, others = (blocks(resolve_send(np.zeros((40, 2))), 40) for _ in range(2))
    assert not groups_share_memory(some, others)


def test_blocks_at_absolute_addresses_may_lie_in_several_memories() -> None:
    first, second = np.zeros(4), np.zeros(4)
    both = DOUBLE.Create_hindexed([4, 4], [Get_address(first), Get_address(second)]).Commit()
    assert groups_share_memory([resolve_send([BOTTOM, 1, both])] * 2, [resolve_send(second[3:])])
    assert not groups_share_memory([resolve_send([BOTTOM, 1, both])] * 2, [resolve_send(np.zeros(4))])


def test_members_of_one_group_may_share_memory() -> None:
    assert not groups_share_memory([resolve_send(TABLE[:3]), resolve_send(TABLE[2:4])], [resolve_send(TABLE[4:])])


def test_regular_strides_are_exact_for_any_number_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disjoint, "_runs", None)  # is not asked for
    memory = np.zeros((3 * MOST_RUNS, 4), "u1")
    assert shared(memory[:, 1], memory[-2:])
    assert not shared(memory[:, 1], memory[:, 2])
    assert not shared(memory[:, 1], memory[::-3, 2:])
    assert shared(memory[:, 1:3], memory[::-3, 2:])


def test_of_very_many_irregular_runs_only_the_bounds_are_compared() -> None:
    memory = np.zeros(8 * MOST_RUNS, "u1")
    offsets = np.random.default_rng(0).permutation(2 * MOST_RUNS)
    few, many = (
        [memory, 1, BYTE.Create_hindexed_block(1, (3 * offsets[:n]).tolist()).Commit()]
        for n in (MOST_RUNS, MOST_RUNS + 1)
    )
    last = 3 * int(offsets[0])
    for type_, decided in ((few, True), (many, False)):
        assert shared(type_, memory[last : last + 2]) is decided  # doubtful ones are let through
        assert not shared(type_, memory[last + 1 : last + 2])
        assert not shared(type_, memory[-2:])


def test_what_numpy_finds_too_hard_is_compared_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disjoint, "MOST_WORK", 1)
    cube = np.zeros((7, 11, 13), "u1")
    one, other = cube[::2, 1::3, ::4], cube[1::3, ::2, 1::5]
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(one, other, max_work=1)  # type: ignore[arg-type]
    assert shared(one, other) is np.shares_memory(one, other)


def test_runs_in_two_memories_of_one_type() -> None:
    irregular = INT.Create_indexed([1, 2, 1], [0, 3, 9]).Commit()
    assert not shared([FLAT, 1, irregular], FLAT[1:3])
    assert not shared([FLAT, 1, irregular], FLAT[5:9])
    assert shared([FLAT, 1, irregular], FLAT[4:9])


@pytest.mark.spec("S3.10-5", "S2.2-2")
@cases(
    ("send", "receive"),
    [
        (FLAT, FLAT),
        (FLAT[:4], FLAT[3:]),
        (FLAT.reshape(12, 8)[:, 1], FLAT[9:10]),
        ([FLAT, 1, INT], [FLAT, 2, INT]),
        (FLAT.data, FLAT[::5]),
    ],
)
def test_buffers_of_one_exchange_must_not_overlap(send: Any, receive: Any) -> None:
    with pytest.raises(InvalidBufferError, match="sendbuf and recvbuf share memory; pass separate buffers"):
        memory_to_exchange(send, receive)
    with pytest.raises(InvalidBufferError, match="these and those share memory"):
        check_disjoint(resolve_send(send), resolve_recv(receive), "these", "those")


def test_columns_of_one_table_can_be_exchanged() -> None:
    table = np.arange(12.0).reshape(3, 4)
    message, target = memory_to_exchange(table[:, 1], table[:, 0])
    assert not isinstance(target, memoryview)
    target.unpack(message)
    assert table.tolist() == [[1, 1, 2, 3], [5, 5, 6, 7], [9, 9, 10, 11]]


def test_the_memory_of_an_exchange_is_the_users_own() -> None:
    source, target = np.arange(300.0), np.zeros(300)
    for send, receive in ((source, target), ([source, DOUBLE], [target, 300])):
        message, memory = memory_to_exchange(send, receive)
        assert not isinstance(memory, resolve_recv(target).__class__)
        assert np.shares_memory(message, source)
        assert np.shares_memory(np.frombuffer(memory, "u1"), target)
        assert len(message) == len(memory) == 2400


@pytest.mark.spec("S3.12.5-4")
@cases(
    ("type_", "count", "overlaps"),
    [
        (INT.Create_vector(2, 2, 1), 1, True),
        (INT.Create_vector(2, 1, 0), 1, True),
        (INT.Create_indexed([2, 1], [0, 1]), 1, True),
        (INT.Create_indexed([2, 1], [0, 2]), 3, False),
        (INT.Create_hindexed([1, 1], [0, 2]), 1, True),
        (INT.Create_vector(2, 1, 2).Create_resized(0, 4), 1, False),
        (INT.Create_vector(2, 1, 2).Create_resized(0, 4), 2, False),
        (INT.Create_vector(2, 1, 2).Create_resized(0, 4), 3, True),
        (INT.Create_resized(0, 2), 2, True),
        (INT.Create_resized(0, 0), 2, True),
        (INT.Create_vector(2, 2, 1), 0, False),
    ],
)
def test_receiving_into_a_byte_twice(type_: Any, count: int, overlaps: bool) -> None:
    spec = [FLAT, count, type_.Commit()]
    assert resolve_send(spec).nbytes == count * type_.size
    if overlaps:
        with pytest.raises(InvalidTypeError, match=f"type in answer cannot receive: {count} items of .* twice"):
            resolve_recv(spec, "answer")
    else:
        refuse_overlap(resolve_recv(spec), "answer")


def test_the_check_of_a_type_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiompi.datatype.layout import layout

    calls: list[Any] = []

    def overlapping(blocks: Any) -> bool:
        calls.append(blocks)
        return False

    monkeypatch.setattr(layout, "overlapping", overlapping)
    type_ = BYTE.Create_indexed([1, 2], [0, 3]).Commit()
    for _ in range(3):
        resolve_recv([bytearray(40), 4, type_])
    assert len(calls) == 1
