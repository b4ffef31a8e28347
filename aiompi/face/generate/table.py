"""The files that are written, each with its source."""

from __future__ import annotations

from typing import Final, TypeAlias

from .collectives import Blocking, CollectiveForm, CollectiveIForm, NativePersistent, Nonblocking, Persistent
from .started import Started
from .twins import Twin
from .written import Written

File: TypeAlias = Started | Twin | Written

_MOVEMENT: Final = "native/collective/movement.py"
_REDUCTION: Final = "native/collective/reduction.py"
_OBJECTS: Final = "native/collective/objects.py"
_NEIGHBORS: Final = "native/collective/neighborhood.py"
_BOUND: Final = """The collectives on buffers with their arguments bound (MPI-4).

Each run sends what is in the buffers when it starts. All ranks bind collectives in the same order, together with
other collectives, and may start them in any order.
"""
_TOPOLOGY: Final = "The {}collectives with neighbours, in the order of `inedges` and `outedges`."


def _of_buffers(form: CollectiveForm) -> list[tuple[str, list[CollectiveForm]]]:
    return [(_MOVEMENT, [form]), (_REDUCTION, [form])]


WRITTEN: Final[list[File]] = [
    Started("native/access.py"),
    Started("native/message.py"),
    Started("native/receiving.py"),
    Started("native/sending.py"),
    Twin("blocking/access.py"),
    Twin("blocking/agreement.py"),
    Twin("blocking/communicator.py"),
    Twin("blocking/file.py"),
    Twin("blocking/message.py"),
    Twin("blocking/processes.py"),
    Twin("blocking/receiving.py"),
    Twin("blocking/sending.py"),
    Twin("blocking/window.py"),
    Written(
        "native/collective/nonblocking.py",
        "Nonblocking collectives of the asyncio face on buffers (chapter 5 of MPI-3.1).",
        "NonblockingCollectives",
        "The collectives on buffers whose requests are kept, to be awaited later.",
        _of_buffers(CollectiveIForm()),
    ),
    Written(
        "native/collective/nonblocking_objects.py",
        "Nonblocking collectives of the asyncio face on objects (chapter 5 of MPI-3.1).",
        "NonblockingObjectCollectives",
        "The collectives on objects whose requests are kept, to be awaited later.",
        [(_OBJECTS, [CollectiveIForm()])],
    ),
    Written(
        "native/collective/persistent.py",
        "Persistent collectives of the asyncio face (MPI-4).",
        "PersistentCollectives",
        _BOUND,
        _of_buffers(NativePersistent()),
    ),
    Written(
        "native/collective/neighborhood_forms.py",
        "Nonblocking and persistent neighbourhood collectives of the asyncio face (chapter 7 of MPI-3.1, MPI-4).",
        "NeighborhoodForms",
        _TOPOLOGY.format("nonblocking and persistent "),
        [(_NEIGHBORS, [CollectiveIForm(), NativePersistent()])],
    ),
    Written(
        "blocking/collective/buffers.py",
        "Collectives of the blocking face on buffers (chapter 4).",
        "BufferCollectives",
        "The collectives on buffers; each returns when it is complete for this rank.",
        _of_buffers(Blocking()),
    ),
    Written(
        "blocking/collective/nonblocking.py",
        "Nonblocking collectives of the blocking face (chapter 5 of MPI-3.1).",
        "NonblockingCollectives",
        "The collectives on buffers; each starts at once and returns its request.",
        _of_buffers(Nonblocking()),
    ),
    Written(
        "blocking/collective/persistent.py",
        "Persistent collectives of the blocking face (MPI-4).",
        "PersistentCollectives",
        _BOUND,
        _of_buffers(Persistent()),
    ),
    Written(
        "blocking/collective/objects.py",
        "Collectives of the blocking face on Python objects (chapter 4).",
        "ObjectCollectives",
        "The collectives on objects; each returns when it is complete for this rank.",
        [(_OBJECTS, [Blocking()])],
    ),
    Written(
        "blocking/arrangement.py",
        "Constructors of the blocking face that an intracommunicator alone has (chapters 5 and 6).",
        "Arrangement",
        "The constructors that are collective over one group.",
        [("native/arrangement.py", [Blocking()])],
    ),
    Written(
        "blocking/collective/neighborhood.py",
        "Neighbourhood collectives of the blocking face (chapter 7 of MPI-3.1, MPI-4).",
        "NeighborhoodForms",
        _TOPOLOGY.format(""),
        [(_NEIGHBORS, [Blocking(), Nonblocking(), Persistent()])],
    ),
]
