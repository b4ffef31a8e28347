"""`aiompi.spawn`: ranks of a program that no launcher has started."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi.face.native.output import Forward

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

async def raises(comm, at):
    if comm.rank == at:
        await comm.recv(0)
        raise ValueError("bad luck")
    await comm.barrier()
"""


async def part(comm: Any) -> None:
    """Disconnect; check that nothing is left of the call."""
    runtime = comm._runtime
    await comm.Disconnect()
    await closed(runtime)


async def closed(runtime: Any) -> None:
    """Wait until the rank that was made for a call listens no more."""
    await runtime.parting()
    assert runtime.wiring.transports[1]._listener is None


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
    await children.Disconnect()
    assert sorted(output.getvalue().splitlines()) == ["here is 0", "here is 1"]


PRINTER = """
import sys
from aiompi import MPI
parent = MPI.Comm.Get_parent()
count = parent.bcast(None, root=0)
for number in range(count):
    print(f"[9] line {number}")
sys.stdout.flush()
print("no end", end="", file=sys.stderr)
parent.send(0, 0)
parent.Disconnect()
"""


async def everything(lines: aiompi.OutputLines) -> list[aiompi.OutputLine]:
    return [line async for line in lines]


@pytest.fixture
def printer(tmp_path: Path) -> Path:
    (tmp_path / "printer.py").write_text(PRINTER)
    return tmp_path / "printer.py"


@pytest.mark.asyncio
async def test_lines_of_ranks_one_after_the_other(printer: Path) -> None:
    lines = aiompi.OutputLines()
    with pytest.raises(aiompi.LocalProtocolError, match="no lines before"):
        await anext(lines)
    children = await aiompi.spawn(2, printer, output=lines)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(lines), 0.01)  # which loses nothing
    await children.bcast(2, root=aiompi.ROOT)
    got = asyncio.create_task(everything(lines))
    await part(children)
    assert sorted(await got) == sorted(
        aiompi.OutputLine(rank, *line)
        for rank in range(2)
        for line in [("[9] line 0", False), ("[9] line 1", False), ("no end", True)]
    )
    assert await everything(lines) == []
    with pytest.raises(aiompi.LocalProtocolError, match="belong to other ranks"):
        await aiompi.spawn(1, printer, output=lines)


@pytest.mark.asyncio
async def test_ranks_wait_for_a_program_that_does_not_take_their_lines(printer: Path) -> None:
    lines, count = aiompi.OutputLines(), 80_000
    children = await aiompi.spawn(1, printer, output=lines)
    await children.bcast(count, root=aiompi.ROOT)
    done = children.irecv(source=0)
    while lines._length < 2**18:
        await asyncio.sleep(0.01)
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert lines._length < 2**19
    assert not done.done()
    assert len([await anext(lines) for _ in range(count)]) == count
    await done
    await part(children)
    assert [line.text for line in await everything(lines)] == ["no end"]


@pytest.mark.asyncio
@pytest.mark.parametrize("closes", [False, True])
async def test_ranks_whose_lines_nobody_takes_end(printer: Path, closes: bool) -> None:
    lines = aiompi.OutputLines()
    children = await aiompi.spawn(1, printer, output=lines)
    if closes:
        await lines.aclose()
    await children.bcast(50_000, root=aiompi.ROOT)
    await part(children)
    assert len(await everything(lines)) == (0 if closes else 50_001)


@pytest.mark.asyncio
async def test_lines_of_what_cannot_be_started() -> None:
    lines = aiompi.OutputLines()
    with pytest.raises(aiompi.SpawnError, match="No such file"):
        await aiompi.spawn(1, "/nowhere/program.py", output=lines)
    assert await everything(lines) == [], "the error says why"


@pytest.mark.asyncio
async def test_cancelled_call_ends_what_it_has_started(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text("import os\nprint(os.getpid(), flush=True)\nos.read(os.pipe()[0], 1)\n")
    lines = aiompi.OutputLines()
    spawning = asyncio.ensure_future(aiompi.spawn(1, tmp_path / "stuck.py", output=lines))
    while lines._forward is None:
        await asyncio.sleep(0.01)
    first = await anext(lines)
    assert os.path.exists(f"/proc/{first.text}")
    spawning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spawning
    assert not os.path.exists(f"/proc/{first.text}")
    assert first not in await everything(lines)


@pytest.mark.asyncio
async def test_characters_of_output_that_are_read_in_parts() -> None:
    output = io.StringIO()
    async with aiompi.init() as world:
        forward = Forward(world._runtime, output)
        for byte in "one \u20ac".encode():
            os.write(forward.write_end, bytes([byte]))
            await asyncio.sleep(0)
        os.close(forward.write_end)
        await forward.ended
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
@pytest.mark.parametrize("merge", [False, True])
async def test_function_that_raises(functions: Any, merge: bool) -> None:
    """The error of the program has the exception, whichever rank it waits for. The output has its traceback once."""
    output = io.StringIO()
    comm = await aiompi.spawn(3, functions.raises, 1, merge=merge, output=output)
    await comm.send("it waits", 1)
    waiting = [comm.recv(source) for source in range(merge, 3 + merge)]
    for request in waiting:
        with pytest.raises(aiompi.ProcessFailedError, match=f"gone: rank {1 - merge} failed: ValueError: bad luck"):
            await request
    with pytest.raises(aiompi.ProcessFailedError, match="ValueError: bad luck"):
        await comm.Disconnect()
    await closed(comm._runtime)
    assert output.getvalue().count("bad luck") == output.getvalue().count("Traceback") + 1 == 2, output.getvalue()


@pytest.mark.asyncio
async def test_what_cannot_be_spawned(functions: Any) -> None:
    with pytest.raises(aiompi.SpawnError, match="No such file or directory"):
        await aiompi.spawn(1, "/nowhere/program.py", output=io.StringIO())
    with pytest.raises(aiompi.InvalidArgumentError, match="cannot be pickled"):
        await aiompi.spawn(1, functions.work, lambda: None)
