"""Signatures: numbers by which ranks notice that they call different collectives (section 4.1).

Each message of a collective carries a signature as its note (see `aiompi.wire.frame`):

    bits 0-7     the collective, its index in NAMES + 1; or the constructor, its index in CONSTRUCTORS + 128
    bits 8-15    the operation of a reduction, its index in OPERATIONS + 1; 255 for a user's operation; 0 for none
    bits 16-47   the root + 1; 0 for none
    bits 48-63   a digest of the lengths of all blocks, if every rank passes all lengths; otherwise 0
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from aiompi.comm.channel import ROOT, root_of
from aiompi.errors import InvalidCountError, InvalidOpError, InvalidRootError, MPIError, OtherError
from aiompi.op import Op
from aiompi.op.operation import PREDEFINED

#: the names in the order of their numbers; new names are appended
NAMES: Final = (
    "Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall", "Alltoallv",
    "Alltoallw", "Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan", "bcast", "gather",
    "scatter", "allgather", "alltoall", "reduce", "allreduce", "scan", "exscan",
    "Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw",
    "neighbor_allgather", "neighbor_alltoall",
)  # fmt: skip
#: constructors of communicators in the order of their numbers; new names are appended
CONSTRUCTORS: Final = (
    "Comm_dup", "Comm_create", "Comm_split", "Comm_split_type", "Intercomm_create", "Intercomm_merge", "Cart_create",
    "Graph_create", "Dist_graph_create", "Dist_graph_create_adjacent", "Comm_create_from_group",
    "Intercomm_create_from_groups", "Comm_accept", "Comm_connect", "Comm_spawn", "Cart_sub",
)  # fmt: skip
OPERATIONS: Final = tuple(PREDEFINED)
#: in place of the name of a user's operation; its number is `_USER`
BY_USER: Final = ""
_USER: Final = 255
#: the first bit of the digest
LENGTHS: Final = 48

_COLLECTIVE_NUMBERS: Final = {
    **{name: place for place, name in enumerate(NAMES, 1)},
    **{name: place for place, name in enumerate(CONSTRUCTORS, 128)},
}
_COLLECTIVES: Final = {number: name for name, number in _COLLECTIVE_NUMBERS.items()}
_OPERATION_NUMBERS: Final[dict[str | None, int]] = {name: place for place, name in enumerate(OPERATIONS, 1)}
_OPERATION_NUMBERS.update({None: 0, BY_USER: _USER})


class Signature(NamedTuple):
    """The properties of a call on which all ranks must agree.

    Attributes:
        name: of the collective.
        root: rank; None for a call without a root.
        operation: name of a predefined operation; BY_USER for a user's operation; None for a call without an operation.
        lengths: digest of the lengths of all blocks; 0 for a call without a digest.
    """

    name: str
    root: int | None = None
    operation: str | None = None
    lengths: int = 0

    @classmethod
    def of(cls, name: str, root: int | None = None, op: object = None) -> Signature:
        """Return the signature of a call; `op` is an operation, or a function of two objects."""
        return cls(name, root, None if op is None else _operation(op))

    @property
    def note(self) -> int:
        """The signature as a number."""
        return note_of(self.name, self.root, self.operation) | self.lengths << LENGTHS

    @classmethod
    def from_note(cls, note: int) -> Signature:
        """Return the signature of another rank.

        Raises:
            LookupError: the number stands for no collective that is known here.
        """
        name, operation = note & 0xFF, note >> 8 & 0xFF
        return cls(
            _COLLECTIVES[name],
            root_of(note),
            BY_USER if operation == _USER else OPERATIONS[operation - 1] if operation else None,
            note >> LENGTHS,
        )

    def __str__(self) -> str:
        details = [] if self.operation is None else [self.operation or "an operation of the user"]
        details += [] if self.root is None else [f"root {self.root}"]
        return f"{self.name} with {' and '.join(details)}" if details else self.name


def digest(lengths: Sequence[int]) -> int:
    """Return a number from 1 to 65535. Other lengths most probably give another number."""
    return zlib.crc32(repr([*lengths]).encode()) % 0xFFFF + 1


def _operation(op: object) -> str:
    return op.name if isinstance(op, Op) and op.is_predefined else BY_USER


@functools.lru_cache(2**12)
def note_of(name: str, root: int | None, operation: str | None) -> int:
    """Return the number of a signature without lengths, and without making the signature."""
    number = 0 if root is None else root + 1
    return _COLLECTIVE_NUMBERS[name] | _OPERATION_NUMBERS[operation] << 8 | number << ROOT


def disagreement(where: str, source: int, theirs: int, ours: int) -> MPIError:
    """Return the error for a message of a rank that has made another call than this rank.

    Args:
        where: call of this rank.
        source: the other rank.
        theirs, ours: notes of the two calls.
    """
    own = Signature.from_note(ours)
    try:
        other: object = Signature.from_note(theirs)
    except LookupError:
        other = "a collective that is not known here"
    kind: type[MPIError] = OtherError
    if isinstance(other, Signature) and other[:-1] == own[:-1]:
        return InvalidCountError(
            f"{where}: rank {source} has passed other lengths of blocks than this rank; pass the same ones on all ranks"
        )
    if isinstance(other, Signature) and other.name == own.name:
        kind = InvalidOpError if other.root == own.root else InvalidRootError
    return kind(
        f"{where}: rank {source} has called {other}, this rank {own}; all ranks must call the same collectives in the "
        "same order, with the same roots and operations"
    )
