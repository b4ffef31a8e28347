"""The agent of a job that another program has started, such as srun. Rank 0 runs it: see `aiompi.job.bootstrap`.

Standard input has the specification of the job as a line of JSON. It ends when the process of rank 0 ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import Final, NamedTuple

from aiompi.settings import load as load_settings
from aiompi.wire import liveness
from aiompi_launcher.job.rendezvous import ServerInMemory
from aiompi_launcher.job.states import RankState
from aiompi_launcher.job.supervisor import Supervisor
from aiompi_launcher.job.table import Job
from aiompi_launcher.net.control import ControlServer

_NAME: Final = "aiompi"


class _Spec(NamedTuple):
    """The job, as `start_agent` of `aiompi.job.bootstrap.meeting` describes it."""

    size: int
    listener: int
    credential_listener: int | None
    credential: str
    key: str
    on_failure: str
    start_timeout: float
    heartbeat: float | None


def main() -> int:
    """Run the job to its end; return the exit status, which no process reads."""
    spec = _Spec(**json.loads(_line()))
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in (spec.listener, spec.credential_listener):
            with contextlib.suppress(OSError):
                os.close(descriptor)  # such as the socket of the process manager, which waits until it is closed
    return asyncio.run(_serve(spec))


def _line() -> bytes:
    line = b""
    while not line.endswith(b"\n") and (data := os.read(0, 1)):
        line += data
    return line


async def _serve(spec: _Spec) -> int:
    settings, seconds = load_settings(), liveness.interval(spec.heartbeat)
    job = Job(spec.size, directory="", spawned=False, survives=spec.on_failure == "continue", heartbeat=seconds)
    # Ctrl-Z and debuggers stop all ranks of some engines, so a stopped rank is expelled only on demand.
    supervisor = Supervisor(job, _NAME, expel_stopped=spec.heartbeat is not None)
    job.namespace = "" if spec.heartbeat is None else liveness.namespace()
    loop = asyncio.get_running_loop()

    def rank_0_ended() -> None:
        loop.remove_reader(0)
        if job.ranks[0].state is RankState.EXPECTED:
            supervisor.fail("rank 0 ended before it had joined the job")

    loop.add_reader(0, rank_0_ended)
    supervisor.limit_start(spec.start_timeout)
    if spec.credential_listener is not None:
        _hand_out(spec.credential, socket.socket(fileno=spec.credential_listener))
    await supervisor.meet(ServerInMemory(spec.size))
    server = ControlServer(
        supervisor.connections,
        bytes.fromhex(spec.key),
        socket.socket(fileno=spec.listener),
        hello_timeout=settings.connect_timeout,
        heartbeat=seconds,
        settings=settings,
    )
    with contextlib.closing(server):
        return await supervisor.finish()


def _hand_out(text: str, listener: socket.socket) -> None:
    """Send a new credential of munge with this text to each connection: a host can read a credential only once."""
    from aiompi.job.bootstrap import munge  # for Slurm only

    listener.settimeout(0)

    def give() -> None:
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            with sock:
                sock.sendall(munge.encode(text.encode()))  # it fits into the buffer of a new connection

    asyncio.get_running_loop().add_reader(listener, give)


if __name__ == "__main__":
    os._exit(main())  # nothing is left to be done at the exit of Python
