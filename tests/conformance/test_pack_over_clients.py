"""Packing units on communicators that span IMPI clients (IMPI 0.0, section 4.1), in both faces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi import MPI
from aiompi.comm import Communicator
from aiompi.datatype import CHAR, DOUBLE, INT, LONG, PACKED, Datatype
from support.impi_worlds import ImpiWorld

MIXED = bytes.fromhex("00000001 3ff0000000000000")


def in_face(face: str, core: Communicator) -> Any:
    if face == "native":
        return aiompi.Intracomm(None, core)  # type: ignore[arg-type]
    comm = MPI.Intracomm()
    comm._core = core
    return comm


@pytest.fixture
def world() -> ImpiWorld:
    return ImpiWorld([2, 1])


@pytest.mark.spec("I4.1-5")
@pytest.mark.parametrize("face", ["native", "blocking"])
def test_pack_is_external32_without_header(world: ImpiWorld, face: str) -> None:
    comm = in_face(face, world.comms[0])
    unit = bytearray(16)
    position = INT.Pack(np.array([1], "i"), unit, 0, comm)
    position = DOUBLE.Pack(np.array([1.0]), unit, position, comm)
    assert (position, bytes(unit)) == (12, MIXED + bytes(4))


@pytest.mark.spec("I4.1-6")
@pytest.mark.parametrize("face", ["native", "blocking"])
def test_pack_size_is_exact(world: ImpiWorld, face: str) -> None:
    comm = in_face(face, world.comms[0])
    mixed = Datatype.Create_struct([1, 1], [0, 8], [DOUBLE, CHAR])
    assert [LONG.Pack_size(1, comm), LONG.Pack_size(3, comm), mixed.Pack_size(1, comm)] == [4, 12, 9]


@pytest.mark.spec("I4.1-7")
def test_unpack_takes_what_another_client_has_packed(world: ImpiWorld) -> None:
    """Sent as PACKED; and what was sent with its types is received as PACKED."""
    sender, receiver = (in_face("native", world.comms[rank]) for rank in (0, 2))
    typed = Datatype.Create_struct([1, 1], [0, 8], [INT, DOUBLE]).Commit()
    memory = np.array([(1, 0, 1.0)], "i4, i4, f8")
    for spec in ([MIXED, PACKED], [memory, 1, typed]):
        unit = bytearray(12)
        requests = [sender._core.isend((payload(world.comms[0], spec),), 12, 2, 5)]
        requests.append(receiver._core.irecv(memoryview(unit), 0, 5))
        world.run()
        assert all(request.done() for request in requests)
        assert bytes(unit) == MIXED
        number, fraction = np.zeros(1, "i"), np.zeros(1)
        position = INT.Unpack(unit, 0, number, receiver)
        assert DOUBLE.Unpack(unit, position, fraction, receiver) == 12
        assert (number[0], fraction[0]) == (1, 1.0)


def payload(comm: Communicator, spec: Any) -> memoryview:
    """A message to another client."""
    return comm.conversion.to_send(spec, 2)
