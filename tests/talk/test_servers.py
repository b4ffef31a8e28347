"""The workers of real servers find each other without configuration, and replace each other."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable

import pytest

from support.jobs import Running, Site
from support.limits import LIMIT
from support.served import AIOHTTP, LITESTAR, PROGRAM, QUART


class Served:
    """A server with workers of a program."""

    def __init__(self, site: Site, *command: str, program: str = PROGRAM) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = str(listener.getsockname()[1])
        self.path = site.program(program, "served.py")
        words = (word.replace("PORT", self._port) for word in command)
        self.server: Running = site.start(sys.executable, "-m", *words, "served:app")

    def workers(self, complete: Callable[[set[int]], bool]) -> tuple[set[int], int]:
        """Return the processes of the workers and the number of requests, once the workers are complete."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}", timeout=5) as reply:
                    count, found = json.load(reply)
                pids = {int(process.split()[1]) for process in found}
                if complete(pids):
                    return pids, count
            time.sleep(0.05)
        raise AssertionError(f"the workers are not complete: {self.server.out}{self.server.err}")

    def end(self) -> None:
        self.server.signal(signal.SIGTERM)
        self.server.finish()


def test_gunicorn_replaces_a_killed_worker(site: Site) -> None:
    served = Served(site, "gunicorn", "-w", "2", "-k", "asgi", "-b", "127.0.0.1:PORT")
    first, count = served.workers(lambda pids: len(pids) == 2)
    victim = max(first)
    os.kill(victim, signal.SIGKILL)
    _, later = served.workers(lambda pids: len(pids) == 2 and victim not in pids)
    assert later > count, "the state of the team goes on with the other worker"
    served.end()
    site.settle()


@pytest.mark.parametrize(
    ("program", "server"),
    [
        (PROGRAM, ["uvicorn", "--workers", "2", "--port", "PORT"]),
        (QUART, ["hypercorn", "-w", "2", "-b", "127.0.0.1:PORT"]),
        (LITESTAR, ["gunicorn", "-k", "uvicorn_worker.UvicornWorker", "-w", "2", "-b", "127.0.0.1:PORT"]),
        (AIOHTTP, ["gunicorn", "-k", "aiohttp.GunicornWebWorker", "-w", "2", "-b", "127.0.0.1:PORT"]),
    ],
    ids=["Starlette on uvicorn", "Quart on hypercorn", "Litestar on uvicorn_worker", "aiohttp on gunicorn"],
)
def test_a_hangup_replaces_all_workers(site: Site, program: str, server: list[str]) -> None:
    served = Served(site, *server, program=program)
    first, _ = served.workers(lambda pids: len(pids) == 2)
    served.server.signal(signal.SIGHUP)
    served.workers(lambda pids: len(pids) == 2 and not pids & first)
    served.end()
    site.settle()


@pytest.mark.parametrize(
    "server",
    [["uvicorn", "--port", "PORT"], ["gunicorn", "-k", "asgi", "-b", "127.0.0.1:PORT"]],
    ids=lambda words: words[0],
)
def test_a_changed_program_is_reloaded(site: Site, server: list[str]) -> None:
    served = Served(site, *server, "--reload")
    first, _ = served.workers(lambda pids: len(pids) == 1)
    os.utime(served.path)
    served.workers(lambda pids: len(pids) == 1 and not pids & first)
    served.end()
    site.settle()
