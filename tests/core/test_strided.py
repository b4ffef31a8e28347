"""Copies between memory and messages, and the items of datatypes, in both forms."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi import core
from aiompi.datatype.layout import copies as pure
from aiompi.datatype.layout.blocks import Dim, StridedBlock
from aiompi.datatype.layout.layout import Layout
from aiompi.datatype.predefined import DOUBLE, INT, Datatype
from aiompi.errors import InvalidBufferError, TruncationError
from support.cases import cases
from support.limits import LIMIT
from support.typemaps import LAYOUTS, Modelled

FORMS: list[Any] = [pure]
if core.form == "native":
    from aiompi.core import _native as native

    FORMS.append(native)
needs_native = pytest.mark.skipif(core.form != "native", reason="the pure form leaves them to the general way")


def random_bytes(count: int) -> bytearray:
    return bytearray(np.random.default_rng(count).integers(0, 256, count, np.uint8))


@pytest.mark.parametrize("form", FORMS)
@given(LAYOUTS)
def test_copies(form: Any, modelled: Modelled) -> None:
    layout, addresses = modelled
    memory, base = random_bytes(layout.ub - layout.lb + 6), 3 - layout.lb
    message = bytearray(layout.size)
    made = form.Copies(layout.blocks)
    assert made.move(memory, base, message, False)
    assert message == bytes(memory[base + address] for address in addresses)
    other = random_bytes(len(memory) + 1)[1:]
    expected = bytearray(other)
    for address in addresses:
        expected[base + address] = memory[base + address]
    assert made.move(other, base, message, True)
    assert other == expected


@pytest.mark.parametrize("form", FORMS)
@given(LAYOUTS, st.integers(1, 3) | st.just(10**30))
def test_nothing_outside_is_touched(form: Any, modelled: Modelled, beyond: int) -> None:
    layout = modelled.layout
    memory, message = bytearray(layout.ub - layout.lb), bytearray(layout.size)
    made = form.Copies(layout.blocks)
    assert made.move(memory, -layout.lb, message, False)
    if layout.blocks:
        for unpacking in (False, True):
            assert not made.move(memory, -layout.lb - beyond, message, unpacking)
            assert not made.move(memory, -layout.lb + beyond, message, unpacking)
            assert not made.move(memory, -layout.lb, message[:-1], unpacking)


@needs_native
@pytest.mark.parametrize("word", [2, 4, 8])
def test_words_are_reversed(word: int) -> None:
    part = StridedBlock(4, 0, (Dim(3, 32, 16),), 16)
    memory, message = random_bytes(100), bytearray(48)
    assert native.Copies([part], [word]).move(memory, 0, message, False)
    rows = [memory[4 + 32 * i : 20 + 32 * i] for i in range(3)]
    assert message == np.frombuffer(b"".join(rows), f"u{word}").byteswap().tobytes()
    back = bytearray(100)
    assert native.Copies([part], [word]).move(back, 0, message, True)
    assert [back[4 + 32 * i : 20 + 32 * i] for i in range(3)] == rows


@needs_native
def test_too_many_dims_are_refused() -> None:
    part = StridedBlock(0, 0, (Dim(2, 1, 1),) * 65, 1)
    with pytest.raises(ValueError, match="65 dims: the most are 64"):
        native.Copies([part])


@pytest.mark.parametrize("form", FORMS)
def test_read_only_memory_is_not_written(form: Any) -> None:
    made = form.Copies(Layout.run(4).blocks)
    assert not made.move(bytes(4), 0, bytes(4), True)
    assert not made.move(bytes(4), 0, bytes(4), False)


def test_threads_copy_at_the_same_time() -> None:
    """Long copies hold no lock."""
    column = DOUBLE.Create_vector(500, 250, 500).Commit()
    memory = np.random.default_rng(1).random(500 * 500)
    units = [np.zeros(500 * 250) for _ in range(4)]
    threads = [threading.Thread(target=column.Pack, args=(memory, unit, 0)) for unit in units]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    for unit in units:
        assert np.array_equal(unit, memory.reshape(500, 500)[:, :250].reshape(-1))


TYPES = [
    INT, DOUBLE.Create_vector(3, 1, 2), INT.Create_indexed([2, 1], [3, 0]), INT.Create_resized(0, 12),
    Datatype.Create_struct([1, 2], [0, 8], [INT, DOUBLE]), DOUBLE.Create_vector(2, 1, 2).Create_resized(0, 8),
    INT.Create_indexed_block(1, [0, 5, 1, 9, 2, 20, 7, 30, 12]), INT.Create_hvector(2, 1, 2), INT.Create_resized(-4, 8),
    INT.Create_contiguous(0), INT.Create_hindexed([1], [-4]),
]  # fmt: skip


@cases("external", [False, True])
@pytest.mark.parametrize("old", TYPES, ids=str)
@cases("count", [None, 0, 1, 3, 100, -1, True, 2**70])
@cases("position", [0, 5, 300, -1, 2**70])
def test_later_calls_do_what_the_first_does(old: Datatype, count: Any, position: int, external: bool) -> None:
    """The first call of a type goes the general way here, and later ones use its items."""
    datatype = old.Dup().Commit()
    memory = random_bytes(200)
    useless = pure.Items((), None, 0, 1, lambda: False)
    results = []
    for first in (True, False, False):
        datatype._map.items = datatype._map.external_items = useless if first else None
        unit, back = bytearray(b"\xee" * 301), bytearray(b"\xdd" * 200)
        spec, target = (memory, back) if count is None else ([memory, count], [back, count])
        way = (datatype.Pack_external, datatype.Unpack_external) if external else (datatype.Pack, datatype.Unpack)
        pack, unpack = (partial(each, "external32") if external else each for each in way)
        results.append(
            [_result(pack, spec, unit, position), _result(unpack, unit, position, target), bytes(unit), bytes(back)]
        )
    assert results[1] == results[0]
    assert results[2] == results[0]


def _result(call: Any, *args: object) -> Any:
    try:
        return call(*args)
    except Exception as error:
        return type(error), str(error)


@needs_native
def test_which_memory_later_calls_take() -> None:
    datatype = INT.Create_contiguous(1).Commit()
    unit = bytearray(8)
    datatype.Pack(np.zeros(1, "i4"), unit, 0)
    items = datatype._map.items
    assert items is not None
    for memory in (np.arange(2, dtype="i4"), memoryview(bytes(8)), np.zeros((2, 1), "i4", "F"), bytes(8)):
        assert items.pack(memory, unit, 0) == 8
    for memory in (np.arange(4, dtype="i4")[::2], np.array([None]), memoryview(bytes(8))[::2], None, 5):
        assert items.pack(memory, unit, 0) == -1
    assert items.pack(bytes(8), bytes(8), 0) == items.unpack(unit, 0, bytes(8)) == -1
    with pytest.raises(InvalidBufferError, match="outbuf is read-only"):
        datatype.Pack(bytes(8), bytes(8), 0)
    with pytest.raises(TruncationError, match="nothing was moved"):
        datatype.Pack(bytes(8), unit, 4)


@needs_native
def test_memory_is_let_go() -> None:
    memory, unit = bytearray(8), bytearray(8)
    for _ in range(3):
        INT.Pack(memory, unit, 0)
        INT.Unpack(unit, 0, memory)
    memory.append(1)
    unit.append(1)
    assert (len(memory), len(unit)) == (9, 9)
