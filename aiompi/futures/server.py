"""The program of workers in another job than their master.

    aiompi-launch -n 4 -m aiompi.futures.server [--service NAME]

The ranks of this job are the workers of one executor, which another program of the same user makes with
`MPIPoolExecutor(service=NAME)`. Executors also start this program as their workers.
"""

from __future__ import annotations

import argparse
import os
import sys

from aiompi.comm import Communicator
from aiompi.constants import THREAD_MULTIPLE
from aiompi.create import ports
from aiompi.errors import InvalidPortError, JobAbortedError, ProcessFailedError
from aiompi.face.blocking import COMM_WORLD
from aiompi.face.blocking.process import process
from aiompi.futures.blocking import serve_master
from aiompi.futures.workers import SERVER, SERVICE
from aiompi.wire.variables import ENV_PARENT


def main() -> None:
    """Do the tasks of a master, which has started or connects to this process, until the master dismisses it."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {SERVER}", description="Be a worker of an executor.", allow_abbrev=False
    )
    parser.add_argument("--service", metavar="NAME", default=SERVICE, help=f"name of these workers ({SERVICE})")
    options = parser.parse_args()
    started = ENV_PARENT in os.environ
    try:
        process.start(THREAD_MULTIPLE)
        serve_master(process.runtime.parent or _accept(options.service), 0, COMM_WORLD)
    except (ProcessFailedError, JobAbortedError, InvalidPortError) as error:
        sys.exit(None if started else f"the master of this worker is gone: {error}")


def _accept(service: str) -> Communicator:
    """Publish a name and wait for an executor that uses it."""
    core, driver, names = COMM_WORLD._core, process.driver, process.runtime.names
    port = None
    if core.rank == 0:
        with driver.exclusive("Open_port"):
            port = driver.wait(core.engine.spawn(ports.open_port(core.engine)))
        names.publish(service, port)
    with driver.exclusive("Accept"):
        master = driver.wait(ports.accept(core, port, 0))
    if port is not None:
        names.withdraw(service)
        ports.close_port(core.engine, port)
    return master


if __name__ == "__main__":
    main()
