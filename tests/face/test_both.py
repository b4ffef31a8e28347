"""Both faces have the same operations, with the same parameters; what differs is in the tables below, and why."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pytest

import aiompi
from aiompi import MPI
from aiompi.face.job import World

NATIVE, BLOCKING = aiompi.Intracomm, MPI.Intracomm

#: of the native face only, where every collective can be awaited later and both spellings mean the same
ALWAYS_NONBLOCKING: Final = {
    f"{prefix}{name}"
    for prefix in "iI"
    for name in ("barrier", "bcast", "scatter", "gather", "allgather", "alltoall", "reduce", "allreduce")
}
#: method -> parameters of one face only
ADDED: Final = {
    # mpi4py's place for a buffer to receive a pickle in: programs pass it by position, and nothing needs it
    "irecv": ("buf", "status"),  # the blocking Request takes the status when it is completed
    "recv": ("buf",),
    "sendrecv": ("recvbuf",),
    # a result in the native face, an argument in mpi4py's
    "probe": ("status",),
    "Probe": ("status",),
    "iprobe": ("status",),
    "Iprobe": ("status",),
}


def public(face: type) -> dict[str, Any]:
    return {name: value for name, value in vars(face).items() if name[0] != "_"}


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def test_same_operations() -> None:
    native, blocking = public(NATIVE), public(BLOCKING)
    assert native.keys() - blocking.keys() == ALWAYS_NONBLOCKING
    assert blocking.keys() - native.keys() == set()
    assert all(callable(value) or isinstance(value, property) for value in native.values())


@pytest.mark.parametrize("name", sorted(name for name in public(BLOCKING) if callable(public(BLOCKING)[name])))
def test_same_parameters(name: str) -> None:
    """Names, order, defaults and kinds."""
    native, blocking = (parameters(getattr(face, name)) for face in (NATIVE, BLOCKING))
    only_one = native.keys() ^ blocking.keys()
    assert only_one == set(ADDED.get(name, ()))
    shared = [[p for p in face.values() if p.name not in only_one] for face in (native, blocking)]
    assert [(p.name, p.default, p.kind) for p in shared[0]] == [(p.name, p.default, p.kind) for p in shared[1]]


@pytest.mark.parametrize("name", sorted(name for name in public(NATIVE)))
def test_spelling_tells_buffers_from_objects(name: str) -> None:
    """Where both exist: the first letter is the only difference."""
    if name[0].isupper() and name.lower() in public(NATIVE) and name not in ("Probe", "Iprobe", "Barrier", "Ibarrier"):
        buffers, objects = parameters(getattr(NATIVE, name)), parameters(getattr(NATIVE, name.lower()))
        assert list(buffers)[1:2] != []
        assert any("buf" in parameter for parameter in buffers)
        assert not any("buf" in parameter for parameter in objects)


def test_ends_of_a_job() -> None:
    """The native face ends where it begins, with its World."""
    assert public(World).keys() == {"finalize", "leave"}
    assert callable(MPI.Finalize)


def test_same_names_for_constants_types_and_errors() -> None:
    """Whatever is no function is the same object in both faces."""
    names = set(dir(MPI)) & set(dir(aiompi))
    assert {"ANY_SOURCE", "INT", "SUM", "Status", "TruncationError", "PROC_NULL", "IN_PLACE", "Op"} <= names
    different = {name for name in names if name[0] != "_" and getattr(MPI, name) is not getattr(aiompi, name)}
    assert different == {"Intracomm", "Request"}
