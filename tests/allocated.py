"""What the ranks of tests of `aiompi.integrations` run. Workers of Dask and actors of Ray import this module."""

from __future__ import annotations

import os
import platform
import signal
import sys
from pathlib import Path
from typing import Any

import aiompi


async def hello(world: aiompi.World) -> str:
    return f"{world.rank} of {world.size} on {platform.node()}: {await world.allreduce(world.rank)}"


def hello_blocking(comm: Any) -> str:
    return f"{comm.rank} of {comm.size} on {platform.node()}: {comm.allreduce(comm.rank)}"


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
        assert error.Get_error_class() == aiompi.ERR_PROC_FAILED
    return f"{(await world.Shrink()).size} go on"


def compute(comm: Any, victim: int) -> None:
    """The worker or actor of one rank is killed while the other ranks compute."""
    comm.Barrier()
    if comm.rank == victim:
        os.kill(os.getppid(), signal.SIGKILL)
    while True:
        sum(range(1000))
