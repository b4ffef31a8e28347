"""`aiompi.spawn`: ranks of a program that no launcher has started."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi.face.native.spawn import _Forward

WORKER = """
from aiompi import MPI
parent = MPI.Comm.Get_parent()
print("here is", parent.rank, flush=True)
parent.gather(parent.rank, root=0)
parent.Disconnect()
"""
FUNCTION = """
import os

async def work(comm, number):
    await comm.gather((comm.rank, number, os.getpid()), root=0)

def fails(comm):
    comm.Abort(3)
"""


async def part(comm: Any) -> None:
    """Disconnect, and wait until nothing is left of the call."""
    runtime = comm._runtime
    await comm.Disconnect()
    await closed(runtime)


async def closed(runtime: Any) -> None:
    """Wait until the rank that was made for a call listens no more."""
    await runtime.parting
    assert runtime._transports[1]._listener is None


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module with functions for ranks."""
    import importlib

    (tmp_path / "functions_of_ranks.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("functions_of_ranks")


@pytest.mark.asyncio
async def test_ranks_of_a_program_and_their_output(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    output = io.StringIO()
    children = await aiompi.spawn(2, tmp_path / "worker.py", output=output)
    assert (children.size, children.remote_size) == (1, 2)
    assert await children.gather(None, root=aiompi.ROOT) == [0, 1]
    await part(children)
    while output.getvalue().count("\n") < 2:
        await asyncio.sleep(0.01)
    assert sorted(output.getvalue().splitlines()) == ["here is 0", "here is 1"]


@pytest.mark.asyncio
async def test_characters_of_output_that_are_read_in_parts() -> None:
    output = io.StringIO()
    async with aiompi.init() as world:
        forward = _Forward(world._runtime, output)
        for byte in "one \u20ac".encode():
            os.write(forward.write_end, bytes([byte]))
            await asyncio.sleep(0)
        os.close(forward.write_end)
        while forward.is_open:
            await asyncio.sleep(0)
    assert output.getvalue() == "one \u20ac"


@pytest.mark.asyncio
async def test_function_in_a_merged_world(functions: Any) -> None:
    world = await aiompi.spawn(2, functions.work, 7, merge=True)
    assert (world.rank, world.size) == (0, 3)
    got = await world.gather((0, 7, os.getpid()), root=0)
    assert [(rank, number) for rank, number, _ in got] == [(0, 7), (1, 7), (2, 7)]
    assert len({pid for _, _, pid in got}) == 3
    await part(world)


@pytest.mark.asyncio
async def test_function_that_ends_its_job(functions: Any) -> None:
    children = await aiompi.spawn(1, functions.fails)
    with pytest.raises(aiompi.ProcessFailedError, match="is gone"):
        await children.recv(0)
    await closed(children._runtime)


@pytest.mark.asyncio
async def test_what_cannot_be_spawned(functions: Any) -> None:
    with pytest.raises(aiompi.SpawnError, match="No such file or directory"):
        await aiompi.spawn(1, "/nowhere/program.py", output=io.StringIO())
    with pytest.raises(aiompi.InvalidArgumentError, match="cannot be pickled"):
        await aiompi.spawn(1, functions.work, lambda: None)
