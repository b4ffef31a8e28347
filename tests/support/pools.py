"""Parts of the programs that tests of executors run."""

from __future__ import annotations

from typing import Final

from .jobs import Result
from .limits import LIMIT

#: imports, functions that end their worker, and `until`
HEAD: Final = (
    f"LIMIT = {LIMIT}"
    + """
import asyncio, os, re, signal, sys, time
import aiompi
from aiompi import MPI, futures
from aiompi.futures import (
    BrokenExecutor, MPICommExecutor, MPIPoolExecutor, ProcessPoolExecutor, get_comm_workers, pool
)

def die(_=None):
    os.kill(os.getpid(), signal.SIGKILL)

def die_once(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "survived"
    os._exit(3)

def until(condition):
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
"""
)


def lines(result: Result) -> list[str]:
    """Return the lines that a program has printed."""
    return result.out.splitlines()
