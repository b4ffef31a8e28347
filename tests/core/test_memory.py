"""No argument, and no object made without `__init__`, makes the native core touch memory that is not its own."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aiompi import MPI
from aiompi.core import _native as native
from aiompi.core._native import Exposed, MatchQueues, Outgoing, PeerProcess, PostedReceive, Ring
from aiompi.errors import InternalError

PROGRAM = Path(__file__).parent / "odd_calls.py"
SIZE = 4096


def ring(memory: Any = None) -> Ring:
    return Ring(memory or mmap.mmap(-1, 4 * SIZE), SIZE, -1, True)


def receive(memory: memoryview | None = None) -> PostedReceive[Any]:
    return PostedReceive(SimpleNamespace(), None, memory, 1, 2, 1)


@pytest.mark.parametrize("seed", range(8))
def test_odd_calls_do_not_crash(seed: int, tmp_path: Path) -> None:
    last = tmp_path / "last"
    line = [sys.executable, "-X", "faulthandler", str(PROGRAM), str(seed), "3000", str(last)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr[-3000:]}\nthe last call: {last.read_text().strip()}"


def unexpected() -> native.MessageBase:
    return native.MessageBase(None, None, 1, 2, 0, 0, rts=False, sync=False)


def test_a_receive_is_withdrawn_only_where_it_is_posted() -> None:
    here: MatchQueues[Any, Any] = MatchQueues()
    there: MatchQueues[Any, Any] = MatchQueues()
    posted, other = receive(), receive()
    here.post(posted)
    there.post(other)
    with pytest.raises((InternalError, IndexError)):
        there.withdraw(posted)
    with pytest.raises(InternalError, match="anew"):
        posted.__init__(SimpleNamespace(), None, None, 5, 6, 1)  # type: ignore[misc]
    assert there.take_posted(1, 2) is other
    assert here.take_posted(1, 2) is posted


def test_a_message_is_removed_only_where_it_is_kept() -> None:
    here: MatchQueues[Any, Any] = MatchQueues()
    there: MatchQueues[Any, Any] = MatchQueues()
    message, other = unexpected(), unexpected()
    here.keep(message)
    there.keep(other)
    with pytest.raises(InternalError, match="elsewhere"):
        there.remove_unexpected(message)
    with pytest.raises(InternalError, match="anew"):
        message.__init__(None, here, 5, 6, 0, 0, rts=False, sync=False)  # type: ignore[misc]
    assert here.find_unexpected(1, 2) is message
    assert there.find_unexpected(1, 2) is other


def test_messages_of_one_order_are_put_back_one_behind_the_other() -> None:
    queues: MatchQueues[Any, Any] = MatchQueues()
    messages = [unexpected() for _ in range(3)]
    for message in messages:
        queues.restore(message)
    assert [*queues.unexpected()] == messages


def test_a_memoryview_that_was_released_is_not_used() -> None:
    memory = memoryview(bytearray(8))
    waiting = receive(memory)
    memory.release()
    with pytest.raises(ValueError, match="released"):
        waiting.take(1, 2, memoryview(b"12345678"))
    with pytest.raises(ValueError, match="released"):
        receive(memory)
    with pytest.raises(ValueError, match="released"):
        receive().take(1, 2, memory)
    with pytest.raises(TypeError, match="memoryview is expected"):
        native.overlap(memoryview(b""), 1)  # type: ignore[arg-type]


def test_fewer_peers_than_are_reached_are_an_error() -> None:
    class Communicator(native.CommunicatorBase[Any]):
        pass

    comm = Communicator()
    comm._reach, comm._peers, comm.tag_ub = 9, [], 9
    with pytest.raises(IndexError):
        comm.send([b""], 0, 8, 0)
    peer: Any = native.PeerBase.__new__(native.PeerBase)
    with pytest.raises(IndexError):
        peer.frame((), memoryview(b""))


def test_a_list_that_grows_while_it_is_read_has_no_more_room() -> None:
    pieces: list[Any] = []

    class Number:
        def __int__(self) -> int:
            if len(pieces) < 500:
                pieces.append((Number(), 1))
            return 1

    pieces.append((Number(), 1))
    with pytest.raises(InternalError, match="too many pieces"):
        Exposed(PeerProcess(-1), pieces, ring(), 0)

    class Memories(list[Any]):
        def __len__(self) -> int:
            return 1

    exchanges = native.SlotExchanges(None, [])
    engine: Any = native.ProgressBase(None)
    memories = Memories(mmap.mmap(-1, 3 * SIZE) for _ in range(64))
    with pytest.raises(InternalError):
        native.Slots(engine, exchanges, 1, 0, 64, memories, [None], [0])


def test_what_is_made_once_is_not_made_anew() -> None:
    frame = Outgoing(bytes(48), [b"1234"])
    with pytest.raises(InternalError):
        frame.__init__(bytes(48), [b"1234"])  # type: ignore[misc]
    part = SimpleNamespace(dims=(), memory=0, packed=0, run=8, span=lambda: (0, 8), packed_end=lambda: 8)
    copies = native.Copies([part])  # type: ignore[list-item]
    with pytest.raises(InternalError):
        copies.__init__([part])  # type: ignore[list-item, misc]
    with pytest.raises(InternalError, match="ends at 8"):
        native.Items([part], None, 0, 8, None)  # type: ignore[list-item]


def test_copies_of_which_a_part_is_missing_copy_nothing() -> None:
    places = np.arange(0, 24, 8)
    whole = SimpleNamespace(dims=(), memory=0, packed=0, run=8, span=lambda: (0, 8), packed_end=lambda: 8)
    wrong = {
        "packed": SimpleNamespace(dims=(), offsets=places, packed=None, runs=8, span=whole.span, packed_end=len),
        "span": SimpleNamespace(dims=(), memory=2**40, packed=0, run=8, span=lambda: 1 // 0, packed_end=len),
    }
    for part in wrong.values():
        copies: Any = native.Copies.__new__(native.Copies)
        with pytest.raises((AttributeError, ZeroDivisionError)):
            copies.__init__([whole, part])
        message = bytearray(8)
        assert copies.move(b"12345678", 0, message, False)
        assert message == b"12345678", "only what has been described is copied"


def test_slots_allow_no_block_for_which_they_have_no_room() -> None:
    engine: Any = native.ProgressBase(None)
    memories = [mmap.mmap(-1, 3 * SIZE) for _ in range(2)]
    group = native.SlotGroup(engine, native.SlotExchanges(None, []), 1, 0, 1024, memories, [None, None], [0, 1])
    group.limit({3: 1024, 5: 512, 9: 2**62})
    for collective, most in ((3, 1025), (5, 513), (16, 2**62)):
        with pytest.raises(InternalError, match="no room"):
            group.limit({collective: most})

    class Liar(int):
        """A number that compares as it likes."""

        def __ge__(self, other: object) -> bool:
            return True

        __le__ = __lt__ = __ge__

        def __gt__(self, other: object) -> bool:
            return False

    with pytest.raises(InternalError, match="no such"):
        group.limit({Liar(2**28): 8})
    with pytest.raises(InternalError, match="no room"):
        group.limit({3: Liar(2**28)})


def test_memory_that_is_not_aligned_is_refused() -> None:
    memory = memoryview(mmap.mmap(-1, 4 * SIZE))[8:]
    with pytest.raises(InternalError, match="multiple of 64"):
        ring(memory)


def test_the_memory_of_a_ring_in_a_cycle_is_given_back_as_it_was_taken() -> None:
    class Landing:
        ring: Ring

    memory = mmap.mmap(-1, 4 * SIZE)
    view = memoryview(memory)
    inner = ring(view)  # before its landing, so that the collector of cycles comes to it first
    landing = Landing()
    landing.ring = inner
    sink: Any = SimpleNamespace(land=lambda header, landings=[landing]: landings[0])
    other = Ring(view, SIZE, -1, False)
    frame = Outgoing((7).to_bytes(4, "little") + bytes(20) + (2048).to_bytes(8, "little") + bytes(16), [bytes(2048)])
    other.write(frame, 64)
    inner.read(sink, 1)  # from now on the ring refers to its landing, which refers to it
    del inner, landing, sink, other, frame
    gc.collect()
    view.release()
    memory.close()  # which nothing else keeps


def test_a_module_that_pretends_to_be_numpy_has_no_arrays() -> None:
    program = """
import sys, types
class ndarray:
    pass
sys.modules["numpy"] = types.SimpleNamespace(ndarray=ndarray)
from aiompi.core import _native
assert _native.plain_bytes(ndarray()) is None
assert _native.outgoing(ndarray()) is None
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "AIOMPI_CORE": "native"})


def test_an_array_that_a_message_refers_to_is_not_moved() -> None:
    array = np.zeros(1000)
    span = native.incoming(array)
    with pytest.raises(ValueError, match="resize"):
        array.resize(10**6)
    assert span is not None


def test_a_specification_that_changes_meanwhile_keeps_its_array() -> None:
    class Communicator:
        """One whose call of a property changes what is sent."""

        @property
        def collectives(self) -> int:
            spec[0] = None
            gc.collect()
            return 0

        @collectives.setter
        def collectives(self, number: int) -> None:
            pass

    engine: Any = native.ProgressBase(None)
    engine.stepping = engine.degraded = False
    memories = [mmap.mmap(-1, 3 * SIZE) for _ in range(2)]
    group = native.SlotGroup(engine, native.SlotExchanges(None, []), 1, 0, 1024, memories, [None, None], [0, 1])
    group.limit({2: 1024})
    group.use(SimpleNamespace(latest=None), False, False)
    array = np.full(128, 7.0)
    known = weakref.ref(array)
    spec: list[Any] = [array, MPI.DOUBLE]
    assert type(native.incoming(spec)) is native.Span  # the datatype is one that slots know
    del array
    exchange = group.bcast(Communicator(), spec, 1)
    assert exchange is not None
    assert known() is not None


def test_a_message_to_oneself_may_lie_in_the_memory_of_its_receive() -> None:
    memory = bytearray(range(100))
    waiting = receive(memoryview(memory)[4:68])
    waiting.take(1, 2, memoryview(memory)[:64])
    assert memory[4:68] == bytes(range(64))
