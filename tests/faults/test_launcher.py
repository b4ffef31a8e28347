"""The launcher is killed, interrupted, or not alone: every process and file of its job is gone afterwards."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from jobs import FACES, Site, in_face

# All ranks wait for each other, after they have said so; rank 1 would survive a polite signal.
WAITING = """
if comm.rank == 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
await comm.recv(source=1 - comm.rank)
"""


@pytest.mark.parametrize("face", FACES)
def test_killed_launcher_leaves_nothing_behind(site: Site, face: str) -> None:
    job = site.launch("-n", "2", site.program(in_face(face, WAITING)))
    job.expect("ready", 2)
    assert len(site.directories()) == 1
    job.signal(signal.SIGKILL)
    assert job.finish().code == -signal.SIGKILL
    site.settle()


def test_launcher_killed_while_its_ranks_compute(site: Site) -> None:
    """Ranks that are not in the library cannot notice: the watchdog ends them, and what they have started."""
    job = site.launch(
        "-n", "2", site.program("import subprocess\nprint('ready', flush=True)\nsubprocess.run(['sleep', '600'])\n")
    )
    job.expect("ready", 2)
    job.signal(signal.SIGKILL)
    job.finish()
    site.settle()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_to_the_launcher_ends_the_job(site: Site, face: str, signum: int, code: int) -> None:
    polite = WAITING.replace("SIGTERM, signal.SIG_IGN", "SIGTERM, signal.SIG_DFL")
    job = site.launch("-n", "2", site.program(in_face(face, polite)))
    job.expect("ready", 2)
    job.signal(signum)
    assert job.finish().code == code
    site.settle()


def test_impatient_user(site: Site) -> None:
    """The second Ctrl-C kills ranks that ignore the first one."""
    ignore = "import os, signal\nsignal.signal(signal.SIGINT, lambda *_: os.write(1, b'no'))\n"
    job = site.launch("-n", "2", site.program(ignore + in_face("blocking", WAITING)))
    job.expect("ready", 2)
    job.signal(signal.SIGINT)
    job.expect("no", 2)
    job.signal(signal.SIGINT)
    assert job.finish().code == 130


def test_two_jobs_at_once(site: Site) -> None:
    """They see nothing of each other, and the end of the one is not the end of the other."""
    body = """
    print("ready", flush=True)
    print(await comm.allgather(sys.argv[1]), comm.size, flush=True)
    if sys.argv[1] == "b":
        await comm.recv()
    """
    program = site.program(in_face("blocking", body))
    first, second = (site.launch("-n", "2", program, name) for name in "ab")
    second.expect("['b', 'b'] 2", 2)
    result = first.finish()
    assert (result.code, result.lines) == (0, ["['a', 'a'] 2"] * 2 + ["ready"] * 2)
    assert second.process.poll() is None
    second.signal(signal.SIGTERM)
    assert second.finish().code == 143


def test_directory_of_a_dead_job_is_swept(site: Site) -> None:
    """When launcher and watchdog were both killed, the next launcher of this user cleans up."""
    job = site.launch("-n", "1", site.program(in_face("blocking", "print('ready', flush=True)\nawait comm.recv()")))
    job.expect("ready")
    (stale,) = site.directories()
    for pid in site.processes():
        os.kill(pid, signal.SIGKILL)
    job.finish()
    assert site.directories() == [stale]
    assert sorted(os.listdir(site.base / stale)) == ["control", "lock", "rank-0"]
    foreign = site.base / "aiompi-not-a-job"
    foreign.mkdir()
    assert site.ok(2, in_face("blocking", "await comm.Barrier()")).code == 0
    assert site.directories() == [foreign.name]
    foreign.rmdir()


def test_directory_is_private_while_the_job_runs(site: Site) -> None:
    job = site.launch("-n", "1", site.program(in_face("native", "print('ready', flush=True)\nawait comm.recv()")))
    job.expect("ready")
    (name,) = site.directories()
    assert (site.base / name).stat().st_mode & 0o777 == 0o700
    for pid, command in site.processes().items():
        key = dict(
            entry.split("=", 1) for entry in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in entry
        ).get("AIOMPI_KEY")
        assert key is None or key not in command
    job.signal(signal.SIGTERM)
    job.finish()
