"""The tests of all collectives, between groups too, over clients whose ranks are mixed; compared with numpy as there.

They have any number of ranks, any root, any counts, datatypes with gaps, IN_PLACE, operations that do not commute, and
any order of arrival.
"""

from __future__ import annotations

import dataclasses
import random
from types import ModuleType

import pytest
from hypothesis import settings

import coll.test_every_collective
import coll.test_intercomm
import coll.test_reductions
from aiompi.comm import Communicator, Group
from coll.impi.clients import ClientWorld

#: of each test, which has many more for one client
EXAMPLES = 15

#: tests that name an algorithm, or compare floating-point sums: those of IMPI depend on the root, and on the clients
ELSEWHERE = {
    "test_all_of_reduce_scatter_may_come_to_one_rank_in_the_midst_of_its_memory",
    "test_floating_results_are_the_same_bits_on_all_ranks_and_in_all_runs",
    "test_floating_results_do_not_depend_on_the_root",
}


def of_module(module: ModuleType, group_of: str) -> dict[str, object]:
    """The tests of a module, under names of their own and with fewer examples."""
    found = {name: test for name, test in vars(module).items() if name.startswith("test_") and name not in ELSEWHERE}
    for test in found.values():
        if hasattr(test, "hypothesis"):
            settings(max_examples=EXAMPLES, deadline=None)(test)  # type: ignore[arg-type]
    return {name.replace("test_", f"test_{group_of}", 1): test for name, test in found.items()}


globals().update(of_module(coll.test_every_collective, ""))
globals().update(of_module(coll.test_reductions, "reduction_"))
globals().update(of_module(coll.test_intercomm, "intercomm_"))


@pytest.fixture(scope="session")
def world():
    """Makes a world as `coll.wires.World` is, of clients that the seed chooses, and the crossover values with them."""

    def make(size, seed=0, **values):
        chance = random.Random(seed + size)
        clients = []
        while sum(clients) < size:
            clients.append(chance.randint(1, size - sum(clients)))
        return MixedClients(clients, seed, chance, **values)

    return make


class MixedClients(ClientWorld):
    """A world whose procs are dealt out to the clients at random."""

    def __init__(self, clients, seed, chance, **values):
        limits = {"xsize": chance.choice([0, 8, 1024]), "maxlinear": chance.choice([0, 4])}
        super().__init__(clients, None, seed, **limits, **values)
        procs = chance.sample(self.universe.procs, self.size)
        self.universe = dataclasses.replace(self.universe, procs=tuple(procs))
        for rank, engine in enumerate(self._engines):
            engine.universe = self.universe
            self.comms[rank] = Communicator(engine, Group.of(range(self.size), rank), 0, "WORLD")
