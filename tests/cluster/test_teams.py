"""Workers of servers on several machines that are one team, by the address and key of a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from support.limits import LIMIT
from support.machines import Machine, Machines, until
from support.served import PROGRAM

KEY = {"AIOMPI_KEY": "ab" * 32}
PORT = "8080"
ASK = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{PORT}', timeout=5).read().decode())"


def complete(machine: Machine) -> list[str]:
    """Return the hosts and processes of all workers, once one on this machine finds two on each of the first two."""
    found: list[str] = []

    def ask() -> bool:
        done = machine.python("-c", ASK)
        found[:] = sorted(json.loads(done.stdout)[1]) if done.returncode == 0 else []
        return [worker.split()[0] for worker in found] == ["node1", "node1", "node2", "node2"]

    until(ask)
    return found


def test_workers_on_two_machines_are_one_team(machines: Machines, tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(PROGRAM)
    one, other, third = machines
    launcher = (sys.executable, "-m", "aiompi_launcher", "--serve", "--bind", "0.0.0.0")
    job = third.popen(*launcher, env=KEY)
    assert job.stdout is not None
    settings = KEY | {"JOB": job.stdout.readline().strip()}
    uvicorn = (sys.executable, "-m", "uvicorn", "--workers", "2", "--port", PORT, "served:app")
    servers = [
        machine.popen(*uvicorn, cwd=str(tmp_path), env=settings, stderr=subprocess.STDOUT) for machine in machines[:2]
    ]
    before = complete(one)
    assert complete(other) == before
    victim = next(pid for pid, command in other.processes().items() if "spawn_main" in command)
    os.kill(victim, signal.SIGKILL)
    until(lambda: complete(one) != before)
    for process in (*servers, job):
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=LIMIT)
