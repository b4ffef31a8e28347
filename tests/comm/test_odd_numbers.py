"""Ranks and tags of all kinds: what is a number for Python is one for a call, and a trace changes no error."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiompi
import aiompi.trace
from aiompi import Intracomm
from aiompi.errors import InvalidRankError, InvalidTagError


class Zero:
    """A number for Python, of no class of numbers."""

    def __index__(self) -> int:
        return 0


class Odd(int):
    """A number whose `__index__` is never asked."""

    def __index__(self) -> int:
        return 77


ZEROS: list[Any] = [0, False, Zero(), Odd(0), np.int8(0), np.uint64(0)]
LARGE: list[Any] = [2**31, 2**32, 2**40, 2**63, 2**64, 2**70, -5, -(2**31) - 1, -(2**70), Odd(2**33)]
NONE: list[Any] = ["0", b"0", None, 0.0, np.float64(0), [0]]


async def _sent(comm: Intracomm, rank: Any, tag: Any) -> None:
    """Send and receive in all ways that are short, and in those that are not."""
    whole, place = np.ones(1), np.zeros(1)
    ways: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: comm.Isend(whole, rank, tag), lambda: comm.Irecv(place, rank, tag)),
        (lambda: comm.Send(whole, rank, tag), lambda: comm.Recv(place, rank, tag)),
        (lambda: comm.isend("x", rank, tag), lambda: comm.irecv(rank, tag)),
        (lambda: comm.send("x", rank, tag), lambda: comm.recv(rank, tag)),
    ]
    for send, receive in ways:
        operation = send()
        assert operation.__name__.startswith("send to 0, tag 0"), operation
        await operation
        await receive()


async def _refused(comm: Intracomm, kinds: tuple[type[Exception], ...], rank: Any, tag: Any) -> None:
    whole, place = np.ones(1), np.zeros(1)
    calls: list[Callable[[], Any]] = [
        lambda: comm.Isend(whole, rank, tag), lambda: comm.Send(whole, rank, tag), lambda: comm.isend("x", rank, tag),
        lambda: comm.send("x", rank, tag), lambda: comm.Irecv(place, rank, tag), lambda: comm.irecv(rank, tag),
        lambda: comm.Recv(place, rank, tag), lambda: comm.recv(rank, tag),
    ]  # fmt: skip
    for number, call in enumerate(calls):
        with pytest.raises(kinds):
            await call()
            pytest.fail(f"call {number} takes {rank!r}, {tag!r}")


@pytest.mark.parametrize("traced", [False, True])
def test_numbers(run: Callable[[Coroutine[Any, Any, Any]], Any], tmp_path: Path, traced: bool) -> None:
    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        recording = aiompi.trace.start(comm, tmp_path / "trace") if traced else None
        for number in ZEROS:
            await _sent(comm, number, 0)
            await _sent(comm, 0, number)
        for number in LARGE:
            await _refused(comm, (InvalidRankError,), number, 0)
            await _refused(comm, (InvalidTagError,), 0, number)
        for number in NONE:
            await _refused(comm, (TypeError,), number, 0)
            await _refused(comm, (TypeError,), 0, number)
        if recording is not None:
            recording.stop()

    run(main())
