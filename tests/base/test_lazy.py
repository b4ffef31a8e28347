"""NumPy is imported when it is needed: not by programs that send objects and bytes."""

from __future__ import annotations

import sys

import pytest

from aiompi.base.lazy import is_array, np, numpy_is_loaded
from support.jobs import FACES, NEAREST, Site, in_face

PROGRAM = """
from array import array
from aiompi import MPI
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
large = {"bytes": bytes(300_000), "text": "x" * 1_000_000, "list": [*range(10_000)]}
for obj in (rank, {"a": [1.5, None]}, large):
    request = comm.isend(obj, right)
    await comm.recv(source=left)
    await request
    await comm.bcast(obj)
    await comm.gather(obj)
    await comm.allgather(obj)
    await comm.alltoall([obj] * size)
    await comm.scatter([obj] * size)
await comm.allreduce(1)
await comm.reduce(1)
await comm.scan(1)
await comm.barrier()
print("objects", "numpy" in sys.modules)
for nbytes in (8, 300_000):
    for ours, theirs in (
        (bytes(nbytes), bytearray(nbytes)),
        (array("d", bytes(nbytes)), array("d", bytes(nbytes))),
        (memoryview(bytes(nbytes)), [bytearray(nbytes), "d"]),
        ([bytes(nbytes), MPI.DOUBLE], [bytearray(nbytes), nbytes // 8, MPI.DOUBLE]),
    ):
        request = comm.Isend(ours, right)
        await comm.Recv(theirs, left)
        await request
        await comm.Bcast(theirs)
    await comm.Allgather(bytes(nbytes), bytearray(size * nbytes))
    await comm.Alltoall(bytes(size * nbytes), bytearray(size * nbytes))
print("bytes", "numpy" in sys.modules)
"""


@pytest.mark.parametrize(("face", "transport"), [*zip(FACES, (NEAREST, "tcp"), strict=True)])
def test_a_job_without_arrays_does_not_import_numpy(site: Site, face: str, transport: str) -> None:
    body = PROGRAM.replace("await request", "request.wait()") if face == "blocking" else PROGRAM
    lines = site.ok(3, in_face(face, body), env={"AIOMPI_TRANSPORTS": transport}).lines
    assert lines == ["bytes False"] * 3 + ["objects False"] * 3


def test_names_are_those_of_numpy() -> None:
    import numpy

    assert numpy_is_loaded()
    assert np.ndarray is numpy.ndarray
    assert is_array(numpy.zeros(1))
    assert not is_array(b"")
    with pytest.raises(AttributeError, match="nonsense"):
        np.nonsense  # noqa: B018


def test_nothing_is_an_array_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros(1)
    monkeypatch.delitem(sys.modules, "numpy")
    assert not numpy_is_loaded()
    assert not is_array(array)
