"""Both faces have the same operations, with the same parameters; what differs is in the tables below, and why."""

from __future__ import annotations

import inspect
from itertools import takewhile
from typing import Any, Final

import pytest

import aiompi
from aiompi import MPI
from aiompi.coll import buffers, neighborhood
from aiompi.face.common import CommunicatorHandle
from aiompi.face.native.collective.nonblocking_objects import NonblockingObjectCollectives
from aiompi.face.native.job import World
from support.cases import cases

NATIVE, BLOCKING = aiompi.Intracomm, MPI.Intracomm

#: of the native face only: mpi4py has no nonblocking collectives on objects
ALWAYS_NONBLOCKING: Final = {name for name in vars(NonblockingObjectCollectives) if name[0] != "_"}
#: what the blocking face has as a constant of the module
ALWAYS_AT_HAND: Final = {"COMM_SELF"}
#: of the blocking face only: in the native one every operation is nonblocking, and what is not used any more goes
BLOCKING_ONLY: Final = {"Isendrecv", "Isendrecv_replace", "Iflush_buffer", "free"}
#: method -> parameters of one face only
ADDED: Final = {
    # mpi4py's place for a buffer to receive a pickle in: programs pass it by position, and nothing needs it
    "irecv": ("buf", "status"),  # the blocking Request takes the status when it is completed
    "recv": ("buf",),
    "sendrecv": ("recvbuf",),
    # a result in the native face, an argument in mpi4py's
    **dict.fromkeys(("probe", "Probe", "iprobe", "Iprobe"), ("status",)),
}
#: the same for messages; the native one knows its own envelope, the blocking one takes the place of probes too
ADDED_OF_MESSAGES: Final = {"irecv": ("status",), "Irecv": ("status",)}
PROBES: Final = {"Probe", "probe", "Iprobe", "iprobe"}
#: both spellings mean the same: there is no buffer in it
NEITHER: Final = {*PROBES, "Mprobe", "Improbe", "Barrier", "Ibarrier"}


def public(face: type) -> dict[str, Any]:
    """What a communicator of a face can do, apart from what both inherit."""
    classes = takewhile(lambda cls: cls is not CommunicatorHandle, face.__mro__)
    names = {name: value for cls in classes for name, value in vars(cls).items() if name[0] != "_"}
    return {name: value for name, value in names.items() if not hasattr(value, "is_absent")}


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def test_same_operations() -> None:
    native, blocking = public(NATIVE), public(BLOCKING)
    assert native.keys() - blocking.keys() == ALWAYS_NONBLOCKING | ALWAYS_AT_HAND
    assert blocking.keys() - native.keys() == BLOCKING_ONLY
    assert all(callable(value) or isinstance(value, property | classmethod) for value in native.values())


def same_parameters(native: Any, blocking: Any, added: tuple[str, ...]) -> bool:
    """Return True if names, order, defaults and kinds are the same, apart from parameters that only one of them has."""
    faces = [parameters(native), parameters(blocking)]
    shared = [[(p.name, p.default, p.kind) for p in face.values() if p.name not in added] for face in faces]
    return shared[0] == shared[1] and faces[0].keys() ^ faces[1].keys() == set(added)


@cases("name", sorted(n for n in public(NATIVE).keys() & public(BLOCKING) if callable(public(BLOCKING)[n])))
def test_same_parameters(name: str) -> None:
    added = ADDED.get(name, ())
    if "algorithm" in parameters(getattr(NATIVE, name)) and not name.endswith("_init"):
        added = (*added, "algorithm")  # mpi4py's collectives do not have it, and persistent ones are shared
    assert same_parameters(getattr(NATIVE, name), getattr(BLOCKING, name), added)


def test_messages() -> None:
    """Those that a matched probe has taken can do the same."""
    native, blocking = ({n for n in vars(face) if n[0] != "_"} for face in (aiompi.Message, MPI.Message))
    assert (native - blocking, blocking - native) == ({"status"}, {*PROBES, "free"})
    for name in native & blocking:
        added = ADDED_OF_MESSAGES.get(name, ())
        assert same_parameters(getattr(aiompi.Message, name), getattr(MPI.Message, name), added)


@cases("name", [f"{mode}send_init".capitalize() for mode in ("", "b", "s", "r")] + ["Recv_init"])
def test_persistent_requests_have_the_arguments_of_their_operations(name: str) -> None:
    operation = f"I{name.lower()}".removesuffix("_init")
    assert same_parameters(getattr(NATIVE, name), getattr(NATIVE, operation), ())


@pytest.mark.parametrize("face", [NATIVE, BLOCKING])
@cases("name", [name.capitalize() for name in buffers.__all__])
def test_collectives_have_three_forms_with_the_same_arguments(name: str, face: type) -> None:
    assert same_parameters(getattr(face, f"I{name.lower()}"), getattr(face, name), ())
    added = ("info",) if face is NATIVE else ("info", "algorithm")
    assert same_parameters(getattr(face, f"{name}_init"), getattr(face, name), added)


@pytest.mark.parametrize("kind", ["Cartcomm", "Graphcomm", "Distgraphcomm"])
def test_communicators_with_a_topology(kind: str) -> None:
    """As those without; collectives between neighbours have three forms too."""
    faces = [getattr(aiompi, kind), getattr(MPI, kind)]
    native, blocking = (public(face).keys() for face in faces)
    nonblocking = {"ineighbor_allgather", "ineighbor_alltoall"}
    assert (native - blocking, blocking - native) == (ALWAYS_NONBLOCKING | ALWAYS_AT_HAND | nonblocking, BLOCKING_ONLY)
    for name in map(str.capitalize, neighborhood.__all__):
        forms = [getattr(face, form) for face in faces for form in (name, f"I{name.lower()}")]
        assert all(same_parameters(form, forms[0], ()) for form in forms)
        assert all(same_parameters(getattr(face, f"{name}_init"), forms[0], ("info",)) for face in faces)


@cases("name", sorted(name for name in public(NATIVE)))
def test_spelling_tells_buffers_from_objects(name: str) -> None:
    """Where both exist: the first letter is the only difference."""
    if name[0].isupper() and name.lower() in public(NATIVE) and name not in NEITHER:
        buffers, objects = parameters(getattr(NATIVE, name)), parameters(getattr(NATIVE, name.lower()))
        assert list(buffers)[1:2] != []
        assert any("buf" in parameter for parameter in buffers)
        assert not any("buf" in parameter for parameter in objects)


def test_ends_of_a_job() -> None:
    """The native face ends where it begins, with its World, which also allocates memory."""
    assert public(World).keys() - public(NATIVE).keys() == {"finalize", "leave", "Alloc_mem"}
    assert callable(MPI.Finalize)
    assert callable(MPI.Alloc_mem)


def test_same_names_for_constants_types_and_errors() -> None:
    """Whatever is no function is the same object in both faces."""
    names = set(dir(MPI)) & set(dir(aiompi))
    assert {"ANY_SOURCE", "SUM", "Status", "TruncationError", "PROC_NULL", "IN_PLACE", "Op"} <= names
    different = {name for name in names if name[0] != "_" and getattr(MPI, name) is not getattr(aiompi, name)}
    assert different == {
        "COMM_NULL", "Cartcomm", "Comm", "Distgraphcomm", "File", "Graphcomm", "Intercomm", "Intracomm",
        "Message", "Request", "Session", "Win",
    }  # fmt: skip


def test_files_have_the_same_operations() -> None:
    """The asyncio face returns the status; what it cannot tell without waiting is no property there."""
    native, blocking = public_of_files(aiompi.File), public_of_files(MPI.File)
    assert blocking - native == {"size", "atomicity"}
    assert native <= blocking


def public_of_files(face: type) -> set[str]:
    return {name for name in dir(face) if name[0] != "_"}
