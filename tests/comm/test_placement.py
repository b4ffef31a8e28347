"""The placement of processes, and its four attributes (IMPI 0.0, section 2.5)."""

from __future__ import annotations

from typing import Any

import pytest

import aiompi
from aiompi import MPI, errors
from aiompi.comm import Communicator, Group
from aiompi.comm.placement import Placement
from aiompi.constants import CONTEXT_SELF, IMPI_CLIENT_COLOR, IMPI_CLIENT_SIZE, IMPI_HOST_COLOR, IMPI_HOST_SIZE
from aiompi.impi.universe import Universe
from support.cases import cases
from support.universes import universe
from support.worlds import LocalWorld

KEYS = (IMPI_CLIENT_SIZE, IMPI_CLIENT_COLOR, IMPI_HOST_SIZE, IMPI_HOST_COLOR)
#: ranks 0 1 2 are of client 0, on two hosts, rank 3 of client 1, ranks 4 5 of client 2
JOB = universe([2, 1], 1, 2)


def world(job: Universe | None = JOB) -> LocalWorld:
    made = LocalWorld(6 if job is None else job.size)
    for engine in made.engines:
        engine.universe = job
        made.comms[engine.rank] = part(made, engine.rank, list(range(made.size)))
    return made


def part(made: LocalWorld, rank: int, members: list[int], remote: list[int] | None = None) -> Communicator:
    """A communicator of some ranks as one of them has it."""
    other = None if remote is None else Group.of(remote)
    return Communicator(made.engines[rank], Group.of(members, rank), 8, "", other)


def read(core: Communicator) -> list[Any]:
    """The attributes, the same in both faces."""
    native = aiompi.Intracomm(None, core)  # type: ignore[arg-type]
    blocking = MPI.Intracomm()
    blocking._core = core
    assert [native.Get_attr(key) for key in KEYS] == [blocking.Get_attr(key) for key in KEYS]
    return [native.Get_attr(key) for key in KEYS]


@pytest.mark.spec("I2.5-1", "I2.5-2", "I2.5-3")
def test_the_world_counts_clients_and_hosts() -> None:
    comms = world().comms
    assert [read(comm) for comm in comms] == [
        [3, 0, 4, 0], [3, 0, 4, 0], [3, 0, 4, 1], [3, 1, 4, 2], [3, 2, 4, 3], [3, 2, 4, 3],
    ]  # fmt: skip
    assert read(comms[5]) == [3, 2, 4, 3], "constant"


@pytest.mark.spec("I2.5-1", "I2.5-4")
@pytest.mark.parametrize("members", [[0, 2, 4], [4, 2, 0]])
def test_parts_without_members_leave_no_gap(members: list[int]) -> None:
    """Clients 0 and 2, of which client 0 with both hosts; the order of ranks does not matter."""
    made = world()
    expected = {0: [2, 0, 3, 0], 2: [2, 0, 3, 1], 4: [2, 1, 3, 2]}
    assert {rank: read(part(made, rank, members)) for rank in members} == expected


@pytest.mark.spec("I2.5-1", "I2.5-5")
def test_communicators_of_one_client() -> None:
    made = world()
    assert read(part(made, 1, [0, 1, 2])) == [1, 0, 2, 0]
    alone = Communicator(made.engines[4], Group.of([4], 4), CONTEXT_SELF, "MPI_COMM_SELF")
    assert read(alone) == [1, 0, 1, 0]


@pytest.mark.spec("I2.5-1")
def test_both_groups_of_an_intercommunicator_count() -> None:
    made = world()
    assert read(part(made, 4, [4, 5], [0, 3])) == [3, 2, 3, 2]
    assert read(part(made, 0, [0, 3], [4, 5])) == [3, 0, 3, 0]


@pytest.mark.spec("I2.5-9")
def test_a_job_without_clients() -> None:
    assert [read(comm) for comm in world(None).comms] == [[1, 0, 1, 0]] * 6


@pytest.mark.spec("I2.5-7")
@cases("key", KEYS)
def test_they_cannot_be_changed(key: int) -> None:
    comm = aiompi.Intracomm(None, world().comms[0])  # type: ignore[arg-type]
    for change in (lambda: comm.Set_attr(key, 1), lambda: comm.Delete_attr(key), lambda: comm.Free_keyval(key)):
        with pytest.raises(errors.InvalidArgumentError, match=f"predefined attribute key {key} cannot be"):
            change()
    assert comm.Get_attr(key) == read(comm._core)[KEYS.index(key)]


def test_native_is_what_no_host_carries() -> None:
    made = world()
    assert not made.comms[0].native
    assert part(made, 0, [0, 1, 2]).native
    assert not part(made, 0, [0, 1], [3]).native, "the other group is of another client"
    assert world(None).comms[0].native
    assert Placement.of(universe(1, 1, native=True), [0, 1]).native, "they connect their processes with each other"
