"""What the ranks of tests of `aiompi.integrations` run. Workers of Dask and actors of Ray import this module."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Any

import aiompi
from aiompi.job.bootstrap.meeting import connect
from aiompi.settings import load


async def hello(world: aiompi.World) -> str:
    return f"{world.rank} of {world.size} on {platform.node()}: {await world.allreduce(world.rank)}"


def hello_blocking(comm: Any) -> str:
    return f"{comm.rank} of {comm.size} on {platform.node()}: {comm.allreduce(comm.rank)}"


async def program(world: aiompi.World, text: str) -> list[str]:
    """Run the program of the README for asyncio; return what it prints."""
    printed: list[str] = []
    names: dict[str, Any] = {"print": printed.append}
    exec(text.replace("aiompi.run(main)", ""), names)
    await names["main"](world)
    return printed


def program_blocking(comm: Any, text: str) -> list[str]:
    """Run a program as it is; return what it prints."""
    printed: list[str] = []
    exec(text.replace("from aiompi import", "from mpi4py import"), {"print": printed.append})
    return printed


async def intrude(world: aiompi.World) -> str:
    """A process with another key dials the agent while the job runs; return what it is told."""
    told = ""
    if world.rank == 0:
        host, port = world._runtime.agent._socket.getpeername()[:2]  # type: ignore[union-attr]
        try:
            await asyncio.to_thread(connect, [host], port, bytes(32), 3, load(), 60.0)
        except aiompi.MPIError as error:
            told = str(error)
    return await world.bcast(told)


async def add(world: aiompi.World, start: Any) -> tuple[int, int, Any]:
    return world.rank, os.getpid(), start + await world.allreduce(world.rank)


def add_blocking(comm: Any, start: Any) -> tuple[int, int, Any]:
    from mpi4py import MPI

    assert comm == MPI.COMM_WORLD
    return comm.rank, os.getpid(), start + comm.allreduce(comm.rank)


async def fail(world: aiompi.World) -> None:
    if world.rank == 1:
        raise ValueError("no luck")
    await world.recv(source=1)


def fail_blocking(comm: Any) -> None:
    if comm.rank == 1:
        raise ValueError("no luck")
    comm.recv(source=1)


async def leave(world: aiompi.World) -> None:
    if world.rank == 1:
        sys.exit(4)
    await world.recv(source=1)


def leave_blocking(comm: Any) -> None:
    if comm.rank == 1:
        sys.exit(4)
    comm.recv(source=1)


async def wait(world: aiompi.World, path: str = "") -> None:
    if path:
        Path(f"{path}-{world.rank}").write_text(str(os.getpid()))
    await world.recv()


def wait_blocking(comm: Any, path: str = "") -> None:
    if path:
        Path(f"{path}-{comm.rank}").write_text(str(os.getpid()))
    comm.recv()


def is_watched(pid: int) -> bool:
    """Return True if there is a process that watches this one."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            *program, last = [b"", *path.read_bytes().split(b"\0")[:-1]]
            if any(word.endswith(b"companion.py") for word in program) and last == str(pid).encode():
                return True
    return False


def wait_or_hold(comm: Any, path: str) -> None:
    """On each host but node1 one rank holds the GIL for long. All others wait."""
    shared = comm.Split_type(aiompi.MPI.COMM_TYPE_SHARED)
    holds = shared.rank == 0 and platform.node() != "node1"
    while holds and not is_watched(os.getpid()):
        time.sleep(0.01)
    Path(f"{path}-{comm.rank}").touch()
    if holds:
        ctypes.PyDLL(None).sleep(100)
    comm.recv()


async def survive(world: aiompi.World, victim: int) -> str:
    """One rank is killed; the others say how many they are."""
    try:
        await world.barrier()
        if world.rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        await world.recv(source=victim)
    except aiompi.JobAbortedError:
        raise
    except aiompi.ProcessFailedError as error:
        assert error.Get_error_class() == aiompi.MPI.ERR_PROC_FAILED
    return f"{(await world.Shrink()).size} go on"


def compute(comm: Any, victim: int) -> None:
    """The worker or actor of one rank is killed while the other ranks compute."""
    comm.Barrier()
    if comm.rank == victim:
        os.kill(os.getppid(), signal.SIGKILL)
    while True:
        sum(range(1000))
