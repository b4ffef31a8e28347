"""Reports of jobs of real processes that hang: both faces, all kinds of calls."""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Mapping

import pytest

from aiompi.core import form
from support.jobs import FACES, Site, in_face
from support.limits import expires

WHILE = "some ranks have been waiting for a while; this is what all do:"


def told(
    site: Site, size: int, program: str, last: str, env: Mapping[str, str] | None = None, silent: int = 0
) -> list[str]:
    """The lines of a report, without the times, up to the one that begins with `last`; then the job is ended.

    At the time of the first such report some ranks may still be on their way. It is the next one that as many ranks as
    `silent` have not answered: a machine that stands still for a second keeps others from it as well.
    """
    path = site.program(program)
    job = site.launch("-n", str(size), path, env={"AIOMPI_DEBUG": "0.4", **(env or {})})
    for count in itertools.count(2):
        job.expect(f"aiompi-launch: {last}", count)
        if not job.err.endswith("\n"):
            job.expect("\n", (job.out + job.err).count("\n") + 1)
        lines = [line.removeprefix("aiompi-launch: ") for line in job.err.splitlines()]
        end = [number for number, line in enumerate(lines) if line.startswith(last)][count - 1]
        begin = max(number for number, line in enumerate(lines[:end]) if line == WHILE)
        report = lines[begin + 1 : end + 1]
        if sum(": no answer: " in line for line in report) == silent:
            break
    job.signal(signal.SIGTERM)
    job.finish()
    return [re.sub(r" (for )?\d+\.\d s( ago)?", "", line) for line in report]


@pytest.mark.parametrize(
    ("face", "transport"), [("native", ""), ("blocking", ""), ("native", "tcp"), ("blocking", "unix")]
)
def test_rank_that_never_comes(site: Site, face: str, transport: str) -> None:
    program = in_face(
        face,
        """
        await comm.barrier()
        if comm.rank == 1:
            await comm.recv(source=0, tag=5)
        await comm.gather(1, root=1)
        await comm.allreduce(1)
        """,
    )
    lines = told(site, 3, program, "rank 1 has not come to allreduce #3", {"AIOMPI_TRANSPORTS": transport})
    lines = [re.sub(r"app.py:\d+", "app.py", line) for line in lines]
    where = "recv(source=0, tag=5) on MPI_COMM_WORLD at app.py"
    # In its first calls `shm` leaves the messages to the algorithm that is next in the table.
    algorithm = "shm" if form == "native" and not transport else "recursive_doubling"
    assert lines == [
        f"  rank 0: allreduce #3 on MPI_COMM_WORLD ({algorithm}) at app.py, waiting for rank 1",
        f"  rank 1: {where}, waiting for rank 0",
        f"  rank 2: allreduce #3 on MPI_COMM_WORLD ({algorithm}) at app.py, waiting for rank 0",
        f"rank 1 has not come to allreduce #3 on MPI_COMM_WORLD: it is in {where}",
    ]


@pytest.mark.parametrize("face", FACES)
def test_rank_that_computes(site: Site, face: str) -> None:
    """It does not answer, and its late answer causes no report."""
    program = in_face(
        face,
        """
        await comm.barrier()
        if comm.rank == 0:
            await comm.send("past the barrier", dest=1)
        else:
            await comm.recv(source=0)
            signal.sigtimedwait([signal.SIGUSR2], 1000)
        await comm.barrier()
        """,
    )
    lines = told(site, 2, program, "rank 1 may not have come to barrier #2", silent=1)
    assert lines[1:] == [
        "  rank 1: no answer: it computes, or waits for something else, and makes no MPI call",
        "rank 1 may not have come to barrier #2 on MPI_COMM_WORLD: it does not answer",
    ]


def test_ranks_with_different_counts(site: Site) -> None:
    """One rank has got an error and has continued; the others stay in the collective."""
    program = """
from aiompi import MPI
comm = MPI.COMM_WORLD
try:
    comm.Allgather(bytearray(1 + comm.rank), bytearray(3 * (1 + comm.rank)))
except MPI.Exception:
    comm.recv(source=comm.rank)
"""
    lines = told(site, 3, program, "ranks wait in a circle")
    assert any(
        re.search(r"rank \d: recv\(source=\d, tag=ANY_TAG\) on MPI_COMM_WORLD at app.py:7", line) for line in lines
    )


def test_operations_that_were_started_before(site: Site) -> None:
    """The report names the operation, the place of its start, and the place of the wait."""
    program = """
from aiompi import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    request = comm.Ibarrier()
    request.Wait()
elif comm.rank == 1:
    requests = [comm.irecv(source=0, tag=2), comm.Irecv(bytearray(3), 2)]
    MPI.Request.Waitall(requests)
elif comm.rank == 2:
    comm.Ssend(b"x", 3, 7)
else:
    comm.Recv(bytearray(1), source=1, tag=MPI.ANY_TAG)
"""
    lines = told(site, 4, program, "rank 3 has not come to Ibarrier #1 on MPI_COMM_WORLD: it is in Recv")
    recv = "Recv(source=1, tag=ANY_TAG) on MPI_COMM_WORLD at app.py:13"
    algorithm = "shm" if form == "native" else "dissemination"
    assert lines[:4] == [
        f"  rank 0: Ibarrier #1 on MPI_COMM_WORLD ({algorithm}) of app.py:5, in Wait at app.py:6, waiting for rank 3",
        "  rank 1: irecv(source=0, tag=2) on MPI_COMM_WORLD of app.py:8 and 1 more, in Waitall at app.py:9, waiting "
        "for ranks 0, 2",
        "  rank 2: Ssend(dest=3, tag=7) on MPI_COMM_WORLD at app.py:11, waiting for rank 3",
        f"  rank 3: {recv}, waiting for rank 1",
    ]
    assert lines[-1] == f"rank 3 has not come to Ibarrier #1 on MPI_COMM_WORLD: it is in {recv}"


def test_finalize_waits_for_the_others(site: Site) -> None:
    program = """
import signal
from aiompi import MPI
comm = MPI.COMM_WORLD
if comm.rank == 1:
    signal.sigtimedwait([signal.SIGUSR2], 1000)
MPI.Finalize()
"""
    assert told(site, 3, program, "  rank 2", silent=1) == [
        "  rank 0: Finalize at app.py:7",
        "  rank 1: no answer: it computes, or waits for something else, and makes no MPI call",
        "  rank 2: Finalize at app.py:7",
    ]


def test_all_threads_are_told(site: Site) -> None:
    program = """
import threading
from aiompi import MPI
comm = MPI.COMM_WORLD
threading.Thread(target=comm.recv, args=(None, 0, 3), daemon=True).start()
comm.probe(source=MPI.ANY_SOURCE, tag=4)
"""
    lines = told(site, 2, program, "  rank 1: probe", {"AIOMPI_THREAD_LEVEL": "multiple"})
    assert "  rank 0: probe(source=ANY_SOURCE, tag=4) on MPI_COMM_WORLD at app.py:6" in lines
    assert any(line.startswith("  rank 0: recv(source=0, tag=3) on MPI_COMM_WORLD at") for line in lines)


@pytest.mark.parametrize("face", FACES)
def test_ranks_that_do_not_wait_are_silent(site: Site, face: str) -> None:
    """This includes a rank with a receive that is awaited only shortly before its end, and a rank that probes."""
    program = in_face(
        face,
        """
        await comm.barrier()
        pending = comm.irecv(source=1 - comm.rank)
        until = time.monotonic() + 1.3 * float(os.environ["AIOMPI_DEBUG"])
        while time.monotonic() < until:
            comm.iprobe(source=1 - comm.rank, tag=3)
            {pause}
        await comm.barrier()
        await comm.isend(1, dest=1 - comm.rank){wait}
        await pending{wait}
        await comm.barrier()
        """.replace("{wait}", "" if face == "native" else ".wait()").replace(
            "{pause}", "await asyncio.sleep(0)" if face == "native" else ""
        ),
    )

    def silent(seconds: float) -> bool:  # unless a machine that stands still keeps a rank from the others for so long
        result = site.run(2, "import asyncio, time\n" + program, env={"AIOMPI_DEBUG": str(seconds)})
        assert result.code == 0, result
        return result.err == ""

    assert expires(silent)


@pytest.mark.parametrize("face", FACES)
def test_nothing_is_watched_unless_asked_for(site: Site, face: str) -> None:
    program = in_face(
        face,
        """
        await comm.barrier()
        print("aiompi.hang_report" in sys.modules, len(aiompi.hooks.active()))
        """,
    )
    assert site.ok(2, "import aiompi.hooks\n" + program).lines == ["False 0"] * 2
    assert site.ok(1, "import aiompi.hooks\n" + program, env={"AIOMPI_DEBUG": "9"}).lines == ["True 1"]
