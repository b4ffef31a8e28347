"""Signal handlers that raise at any point of a call: nothing touches the memory of the call afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.interrupts import everywhere
from support.worlds import PolledWorld, irecv, irecv_into, isend, pattern

_TURNS = 100
#: those of messages that the native core does not move alone, where no handler could run
SIZES = {"in pieces": 60_000, "lent": 300_000, "exposed": 3 * 2**20}


def connected(directory: Path) -> PolledWorld:
    w = PolledWorld("shared_memory", 2, str(directory), ring_size=2**16)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    w.finish(isend(w.comms[1], b"x", 0), irecv(w.comms[0]))
    return w


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_message_is_what_it_was_when_its_send_was_interrupted(tmp_path: Path, size: int) -> None:
    memory = bytearray(pattern(size))
    for w in everywhere(lambda: connected(tmp_path), lambda w: isend(w.comms[0], memory, 1, 1)):
        memory[:] = bytes(size)
        for _ in range(_TURNS):
            w.poll()
        receive = irecv(w.comms[1], 0, 1)
        for _ in range(_TURNS):
            w.poll()
        assert not receive.done() or receive.result() == pattern(size)
        memory[:] = pattern(size)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_nothing_comes_into_the_memory_of_a_receive_that_was_interrupted(tmp_path: Path, size: int) -> None:
    """The message is there before the receive: one that is posted before runs in the native core alone."""
    memory = bytearray(size)

    def make() -> PolledWorld:
        w = connected(tmp_path)
        isend(w.comms[0], pattern(size), 1, 1)
        w.until(lambda: w.comms[1].iprobe(0, 1) is not None)
        return w

    for w in everywhere(make, lambda w: irecv_into(w.comms[1], memory, 0, 1)):
        memory[:] = mine = b"\xaa" * size
        isend(w.comms[0], pattern(size), 1, 1)
        for _ in range(_TURNS):
            w.poll()
        assert memory == mine
