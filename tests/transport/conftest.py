"""Worlds over real sockets, which leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from aiompi.settings import MIN_RING
from aiompi.transport.shared_memory import SharedMemory
from support.worlds import STREAMS, PolledWorld, open_descriptors


@pytest.fixture(params=STREAMS)
def kind(request: pytest.FixtureRequest) -> str:
    """Name of a transport over stream sockets."""
    return str(request.param)


@pytest.fixture(scope="session")
def warm() -> None:
    """Make uvloop open the descriptors that it opens once per process."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.sleep(0))


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, warm: None) -> Iterator[None]:
    """No test leaves a descriptor or a socket file behind."""
    before = open_descriptors()
    yield
    if open_descriptors() != before:
        gc.collect()  # errors and the frames that they came through refer to each other
    assert open_descriptors() == before
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def polled(kind: str, tmp_path: Path) -> Iterator[Callable[..., PolledWorld]]:
    """Return a function that makes a world of blocking drivers, which is closed at the end."""
    worlds: list[PolledWorld] = []

    def make(size: int = 2, **settings: Any) -> PolledWorld:
        worlds.append(PolledWorld(kind, size, str(tmp_path), **settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.__exit__()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use sockets with the smallest buffers that the kernel allows, and the smallest rings.

    A receive buffer of TCP that is smaller than a segment of loopback would only make it wait for its timers.
    """

    def set_options(self: Any, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        if sock.family == socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)

    for cls in STREAMS.values():
        monkeypatch.setattr(cls, "set_options", set_options)
    monkeypatch.setattr(SharedMemory, "ring_size", property(lambda _: MIN_RING, lambda *_: None), raising=False)
