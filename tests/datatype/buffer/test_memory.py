"""Plain memory: `MPI.buffer` and Free_mem."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

from aiompi.datatype.buffer.memory import buffer
from aiompi.MPI import Free_mem
from support.cases import cases


def test_no_memory() -> None:
    empty = buffer()
    assert (empty.address, empty.nbytes, len(empty), empty.obj, empty.readonly) == (0, 0, 0, None, False)
    assert memoryview(empty).tobytes() == b""


def test_memory_is_shared() -> None:
    owner = bytearray(b"abc")
    view = buffer(owner)
    view[1:] = b"xy"
    view[0] = 65
    assert (owner, view.obj, view.tobytes()) == (bytearray(b"Axy"), owner, b"Axy")
    assert type(view[0]) is int
    assert isinstance(view[1:], buffer)
    assert bytes(view[1:]) == b"xy"


def test_the_buffer_protocol() -> None:
    view = memoryview(buffer(array.array("d", [1.0, 2.0])))
    assert (view.format, view.itemsize, view.shape, view.readonly) == ("B", 1, (16,), False)
    assert np.frombuffer(buffer(array.array("d", [1.0, 2.0])), "d").tolist() == [1.0, 2.0]


def test_read_only_memory() -> None:
    for view in (
        buffer(b"abc"),
        buffer.frombuffer(bytearray(b"abc"), readonly=True),
        buffer(bytearray(3)).toreadonly(),
    ):
        assert view.readonly
        with pytest.raises(TypeError, match="read-only"):
            view[:] = 0


def test_wrong_use() -> None:
    view = buffer(bytearray(4))
    with pytest.raises(IndexError):
        view[4]
    with pytest.raises(IndexError, match="step"):
        view[::2]
    with pytest.raises(TypeError):
        view[None]
    with pytest.raises(ValueError, match="broadcast"):
        view[0:1] = view[1:3]
    with pytest.raises(NotImplementedError):
        del view[0]
    for wrong in (None, 0, [], ()):
        with pytest.raises(TypeError, match="buffer protocol"):
            buffer(wrong)


def test_new_memory() -> None:
    memory = buffer.allocate(6)
    assert (memory.nbytes, memory.readonly) == (6, False)
    assert memory.address
    assert buffer.allocate(4, clear=True).tobytes() == bytes(4)
    with pytest.raises(ValueError, match="expected 0 or more"):
        buffer.allocate(-1)
    Free_mem(memory)
    assert (memory.address, memory.nbytes, len(memory)) == (0, 0, 0)


@cases("wrong", [None, bytearray(3), memoryview(bytearray(3)), np.zeros(3, np.uint8)])
def test_only_memory_of_its_own_is_freed(wrong: Any) -> None:
    with pytest.raises(TypeError, match=rf"mem is of type {type(wrong).__name__}: expected the MPI.buffer that Alloc"):
        Free_mem(wrong)
    assert wrong is None or len(wrong) == 3


def test_memory_at_an_address() -> None:
    owner = bytearray(b"abc")
    view = buffer.fromaddress(buffer(owner).address, 3)
    view[0] = 65
    assert owner == b"Abc"
    for address, nbytes in ((0, 1), (buffer(owner).address, -1)):
        with pytest.raises(ValueError, match="at address"):
            buffer.fromaddress(address, nbytes)


def test_items_of_other_formats() -> None:
    items = buffer.allocate(24).cast("i", (2, 3))
    items[1, 2] = 7
    assert items.tolist()[1][2] == 7
