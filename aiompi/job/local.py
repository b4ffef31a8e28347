"""Ranks that live in one process, without a job: `local_world`."""

from __future__ import annotations

import os

from aiompi.engine import Driver
from aiompi.job.runtime import Runtime
from aiompi.job.start import make_communicators
from aiompi.settings import Settings
from aiompi.transport.loopback import Hub, Loopback
from aiompi.transport.template import Site
from aiompi.wire.hello import NAMESPACE_BYTES


def local_runtimes(size: int, driver: Driver, settings: Settings | None = None) -> list[Runtime]:
    """Return ranks that live in one process and wait in one driver, connected by loopback."""
    hub = Hub()
    runtimes = []
    job = os.urandom(NAMESPACE_BYTES)
    for rank in range(size):
        runtime = Runtime(driver, settings=settings)
        runtime.universe_size = size
        runtime.engine.join_world(rank, size)
        runtime.engine.processes.enrol(job, b"", 0)
        runtime.wiring.in_local_world = True
        runtime.wiring.add(Loopback(runtime.engine, Site(), hub))
        make_communicators(runtime)
        runtimes.append(runtime)
    return runtimes
