"""Worlds without sockets: frames or packets arrive at once, one byte at a time, or in any order between links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.impi_worlds import ImpiWorld
from support.worlds import LIMIT, SIZES, LocalWorld, WireWorld, pattern

World = LocalWorld | WireWorld | ImpiWorld

#: limits of packets so small that a message takes several packets
PACKETS = {"datalen": 300, "ackmark": 2, "hiwater": 3}

WORLDS: dict[str, Callable[..., World]] = {
    "hub": LocalWorld,
    "wires": WireWorld,
    "bytes": lambda size, **settings: WireWorld(size, cut=1, seed=1, **settings),
    "shuffled": lambda size, **settings: WireWorld(size, cut=61, seed=2, **settings),
    "clients": lambda size, **settings: ImpiWorld([1] * size, cut=61, seed=3, limits=PACKETS, **settings),
}


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> Callable[..., World]:
    """Return a function that makes a world of a given size."""

    def make(size: int = 2, **settings: Any) -> World:
        return WORLDS[request.param](size, **{"eager_limit": LIMIT, "eager_window": 8192, **settings})

    return make


@pytest.fixture(params=SIZES)
def data(request: pytest.FixtureRequest) -> bytes:
    """Return a message for each protocol."""
    return pattern(SIZES[request.param])
