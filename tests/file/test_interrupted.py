"""Accesses in whose midst something happens: a signal arrives, or a rank is killed."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import signal
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi import MPI, File
from aiompi.file import access
from support.jobs import Site, in_face

NEW = MPI.MODE_CREATE | MPI.MODE_RDWR

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def signals() -> Iterator[list[int]]:
    """The signals that have come."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: seen.append(number))
    yield seen
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_interrupts_a_thread_that_writes(
    run: Run, tmp_path: Path, signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its system call waits for a lock, fails with EINTR, and is made again."""
    path, locked = tmp_path / "file", access.locked
    threads: list[int] = []

    def entered(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return locked(*arguments, **options)

    monkeypatch.setattr(access, "locked", entered)

    async def main() -> None:
        (comm,) = aiompi.local_world(1)
        async with File.Open(comm, path, NEW) as file:
            await file.Set_atomicity(True)
            descriptor = os.open(path, os.O_RDWR)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            writing = file.Iwrite(b"x" * 1000)
            while not threads:
                await asyncio.sleep(0.001)
            for _ in range(20):
                signal.pthread_kill(threads[0], signal.SIGUSR1)
                await asyncio.sleep(0.002)
            assert not writing.done()
            os.close(descriptor)  # which gives the lock back
            assert (await writing).count == 1000

    run(main())
    assert signals
    assert path.read_bytes() == b"x" * 1000


SIGNALS = """
import fcntl, os, signal, struct
import numpy as np
from aiompi import MPI

file = MPI.File.Open(MPI.COMM_WORLD, "f", MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Set_atomicity(True)
descriptor = os.open("f", os.O_RDWR)
seen = 0

def lock(kind):
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, 0, 0, 0, 0))

def handler(_, frame):
    global seen
    if frame.f_code.co_name == "locked":  # a system call of the access was interrupted
        seen += 1
        if seen % 3 == 0:
            lock(fcntl.F_UNLCK)

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
data = np.arange(2**21)
found = np.zeros_like(data)
lock(fcntl.F_WRLCK)
file.Write_at(0, data)
lock(fcntl.F_WRLCK)
file.Read_at_all(0, found)
signal.setitimer(signal.ITIMER_REAL, 0)
file.Close()
print(seen >= 6, (found == data).all())
"""


def test_signals_while_a_rank_writes_and_reads(site: Site) -> None:
    """In the blocking face the calls are made in the main thread, whose handlers run in their midst."""
    assert site.ok(1, SIGNALS).lines == ["True True"]


@pytest.mark.parametrize(("face", "way"), [("native", "enable"), ("blocking", "disable")])
def test_a_rank_that_is_killed_in_a_collective_write(site: Site, face: str, way: str) -> None:
    """The others are told, each piece is there or is not, and threads, descriptors and memory are given back."""
    opened = "aiompi.File" if face == "native" else "MPI.File"
    body = f"""
        import gc, threading, time, weakref
        import numpy as np
        from aiompi import MPI
        info = MPI.Info.Create({{"romio_cb_write": "{way}", "cb_nodes": "2"}})
        file = await {opened}.Open(comm, "f", MPI.MODE_CREATE | MPI.MODE_RDWR, info)
        await file.Write_all(b"head" * 1000 if comm.rank == 0 else b"")
        kind = MPI.BYTE.Create_vector(1, 1000, 1000).Create_resized(0, 3000).Commit()
        await file.Set_view(4000 + 1000 * comm.rank, MPI.BYTE, kind)
        if comm.rank == 1:
            os.pwritev = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        data = np.full(100_000, 65 + comm.rank, "u1")
        memory = weakref.ref(data)
        try:
            await file.Write_all(data)
        except MPI.ProcessFailedError as error:
            print(comm.rank, "rank 1" in str(error))
        try:
            await file.Close()
        except MPI.ProcessFailedError as error:
            print(comm.rank, "closed", not file)
        del data
        gc.collect()
        while [thread for thread in threading.enumerate() if thread.name == "aiompi-disk"]:
            time.sleep(0.01)
        names = [os.path.realpath("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd")]
        print(comm.rank, "given back", memory() is None, os.path.realpath("f") not in names)
        """
    result = site.launch("-n", "3", "--on-failure=continue", site.program(in_face(face, body))).finish()
    shown = [f"{rank} {words}" for rank in (0, 2) for words in ("True", "closed True", "given back True True")]
    assert result.lines == sorted(shown), result
    content = (site.directory / "f").read_bytes()
    whole = b"head" * 1000 + b"".join(bytes([65 + rank]) * 1000 for _ in range(100) for rank in range(3))
    border = 4000 + 3 * 2**16  # between the parts of the two ranks that write for all
    places = sorted([0, border, *range(4000, len(whole) + 1, 1000)])
    for start, stop in itertools.pairwise(places):
        assert content[start:stop] in (whole[start:stop], bytes(stop - start)[: max(0, len(content) - start)])
