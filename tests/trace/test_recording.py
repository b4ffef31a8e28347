"""What the ranks of a job record."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import textwrap
from pathlib import Path
from typing import Any

import pytest

import aiompi
import aiompi.trace
from aiompi import core
from aiompi.core.pure import recorder as layout
from aiompi.errors import LocalProtocolError
from aiompi.trace import recording
from aiompi.trace.analysis import wakes
from aiompi.trace.reading import read
from aiompi.trace.recording import Recording
from support.jobs import Site


def records(path: Path) -> list[tuple[Any, ...]]:
    data = path.read_bytes()
    head, capacity = layout.COUNT.unpack_from(data, layout.HEAD)[0], layout.HEADER.unpack_from(data)[2]
    numbers = range(max(0, head - capacity), head)
    return [layout.RECORD.unpack_from(data, layout.RECORDS + n % capacity * layout.RECORD.size) for n in numbers]


def of_kind(found: list[tuple[Any, ...]], kind: int) -> list[tuple[Any, ...]]:
    return [record for record in found if record[9] == kind]


def test_messages_and_collectives(site: Site) -> None:
    """Both ends of a message are recorded, with places, also those of a rank that was killed."""
    program = """
        import os, signal, time
        from aiompi import MPI
        world = MPI.COMM_WORLD
        if world.rank == 0:
            world.send(b"x" * 50, dest=1, tag=7)
        else:
            world.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
        world.Barrier()
        os.mkdir(f"past-{world.rank}")
        while not os.path.exists(f"past-{1 - world.rank}"):  # the launcher kills the other one, too
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    job = site.launch("-n", "2", "--trace", str(site.directory / "trace"), site.program(textwrap.dedent(program)))
    assert job.finish().code == 128 + signal.SIGKILL
    first, second = (records(site.directory / "trace" / f"rank-{rank}.trace") for rank in range(2))
    (sent,), (received,) = of_kind(first, layout.SEND), of_kind(second, layout.RECV)
    assert sent[4:7] == (sent[4], 1, 7)
    assert received[3:7] == (sent[3], sent[4], 0, 7)
    assert received[0] <= received[1] <= received[2] or not received[1]
    assert sent[0] <= received[2]
    for found in first, second:
        (barrier,) = of_kind(found, layout.COLLECTIVE)
        assert barrier[6] == 0
        assert 0 < barrier[0] <= barrier[2]
    names = (site.directory / "trace" / "rank-1.names").read_text()
    assert '"call": "recv"' in names
    assert 'app.py", 8, "<module>"]' in names


def test_a_second_trace_needs_another_directory(site: Site) -> None:
    (site.directory / "trace").mkdir()
    (site.directory / "trace" / "rank-0.trace").touch()
    job = site.launch("-n", "1", "--trace", str(site.directory / "trace"), "-c", "pass")
    result = job.finish()
    assert result.code == 2
    assert "has a trace already" in result.err


@pytest.mark.filterwarnings("ignore:the recording of a rank ends")
def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserved: list[int] = []

    def reserve(file: int, start: int, nbytes: int) -> None:
        if len(reserved) == 2:
            raise OSError(errno.ENOSPC, "no space left")
        reserved.append(nbytes)

    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        with aiompi.trace.start(comm, tmp_path / "full"):
            for number in range(5):
                await comm.send(number, 0)
                assert await comm.recv(0) == number

    monkeypatch.setattr(recording, "_STEP", 4)
    monkeypatch.setattr(os, "posix_fallocate", reserve)
    asyncio.run(main())
    assert reserved == [layout.RECORDS, 4 * layout.RECORD.size]
    assert len(records(tmp_path / "full" / "rank-0.trace")) == 4
    with pytest.raises(OSError, match="no space"):
        aiompi.trace.start(aiompi.local_world(1)[0], tmp_path / "none")


def test_start_and_stop(tmp_path: Path) -> None:
    """A service is recorded for a while; the ring keeps the last records."""
    asyncio.run(_record_two_times(tmp_path))
    found = records(tmp_path / "all" / "rank-0.trace")
    (sent,), (received,) = of_kind(found, layout.SEND), of_kind(found, layout.RECV)
    assert sent[3:7] == received[3:7]  # context, bytes, peer and tag, also of a message that was there before
    assert not of_kind(found, layout.COLLECTIVE)
    assert [record[6] for record in records(tmp_path / "last" / "rank-0.trace")] == [18, 18, 19, 19]


async def _record_two_times(tmp_path: Path) -> None:
    (world,) = aiompi.local_world(1)
    with aiompi.trace.start(world, tmp_path / "all"):
        with pytest.raises(LocalProtocolError):
            aiompi.trace.start(world, tmp_path / "again")
        request = world.isend(1, dest=0)
        await world.recv(source=0)
        await request
    await world.barrier()
    recording = Recording(world._core.engine, tmp_path / "last", capacity=4)
    for tag in range(20):
        request = world.isend(1, dest=0, tag=tag)
        await world.recv(source=0, tag=tag)
        await request
    recording.stop()
    recording.stop()


SLEEPERS = """\
import os, time
rank = int(os.environ["AIOMPI_RANK"])
os.environ["AIOMPI_THREAD_LEVEL"] = "multiple" if rank == 1 else "single"
import aiompi

async def main(world):
    for _ in range(5):
        await world.send(await world.recv(source=0), dest=0)

if rank == 2:
    aiompi.run(main)
else:
    from aiompi import MPI
    world = MPI.COMM_WORLD
    for step in range(5):
        if rank:
            world.send(world.recv(source=0), dest=0)
            continue
        time.sleep(0.05)
        for other in 1, 2:
            world.send(step, dest=other)
            world.recv(source=other)
"""


@pytest.mark.skipif(core.form == "pure", reason="it has no shared memory")
def test_wake_ups_by_doorbells_are_recorded(site: Site) -> None:
    """Rank 1 has several threads, rank 2 an event loop. They sleep for 50 ms before a message wakes them."""
    job = site.launch("-n", "3", "--trace", "trace", site.program(SLEEPERS))
    result = job.finish()
    assert (result.code, result.err) == (0, "")
    found = wakes(read(site.directory / "trace"))
    for rank in 1, 2:
        assert {wake.peer for wake in found[rank]} == {0}
        assert any(wake.delay is not None and wake.delay > 0 for wake in found[rank])


def test_messages_with_processes_of_another_job(site: Site) -> None:
    """A record has no number for a process of a spawned job."""
    program = """
        import sys
        from aiompi import MPI
        parent = MPI.Comm.Get_parent()
        if parent == MPI.COMM_NULL:
            other = MPI.COMM_SELF.Spawn(sys.executable, [__file__])
            other.send(b"x", dest=0)
            assert other.recv(source=0) == b"y"
            other.Send(b"z", dest=0)
            other.Barrier()
        else:
            assert parent.recv(source=0) == b"x"
            parent.send(b"y", dest=0)
            parent.Recv(bytearray(1), source=0)
            parent.Barrier()
    """
    job = site.launch("--trace", str(site.directory / "trace"), site.program(textwrap.dedent(program)))
    result = job.finish()
    assert (result.code, result.err) == (0, "")
    found = records(site.directory / "trace" / "rank-0.trace")
    for kind, count in (layout.SEND, 2), (layout.RECV, 1):
        assert [record[5] for record in of_kind(found, kind)] == [-1] * count
    assert -1 in {record[5] for record in of_kind(found, layout.PART)}
