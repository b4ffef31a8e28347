"""Worlds in which communicators are made, with checks of all communicators of one call."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from aiompi.comm import Communicator
from aiompi.engine import Request
from support.worlds import LocalWorld, WireWorld, irecv, isend


class Family:
    """The ranks of a world, which all make the same call.

    Args:
        size: number of ranks.
        seed: decides in which order messages arrive; None: at once.
    """

    def __init__(self, size: int, seed: int | None = None) -> None:
        self.world = LocalWorld(size) if seed is None else WireWorld(size, seed=seed)
        self.comms = self.world.comms

    def start(self, call: Callable[[Communicator], Request[Any]]) -> list[Request[Any]]:
        return [call(comm) for comm in self.comms]

    def all(self, call: Callable[[Communicator], Request[Any]]) -> list[Any]:
        """The results of a call on each rank of the world."""
        return self.results(self.start(call))

    def results(self, requests: list[Request[Any]]) -> list[Any]:
        self.world.run()
        return [request.result() for request in requests]

    def check_connected(self, comms: list[Communicator]) -> None:
        """Each pair of members can communicate, under the ranks of the communicator, and meets nothing else."""
        assert len({comm.context_id for comm in comms}) == 1
        by_world = {comm.engine.rank: comm for comm in comms}
        reach = [(by_world[other], dest, comm) for comm in comms for dest, other in enumerate(comm.targets)]
        for receiver, dest, sender in reach:
            tag = sender.rank * 100 + dest
            isend(sender, b"%d" % sender.engine.rank, dest, tag)
            receive = irecv(receiver, -1, tag)
            self.world.run()
            assert receive.result() == b"%d" % sender.engine.rank
            assert receive.status.source == sender.rank
            assert receiver.targets[sender.rank] == sender.engine.rank


def distinct(comms: list[Communicator]) -> bool:
    """Return True if no two communicators of a process share a context."""
    pairs = list(itertools.chain.from_iterable((comm.context_id, comm.context_id + 1) for comm in comms))
    return len(set(pairs)) == len(pairs)


@pytest.fixture(params=[None, 0, 1], ids=["at once", "seed 0", "seed 1"])
def family(request: pytest.FixtureRequest) -> Callable[[int], Family]:
    """Makes a family of a size; messages arrive at once, or in different orders."""
    return lambda size: Family(size, request.param)
