"""Collectives of the asyncio face (chapter 4). They go on when their await is cancelled: the other ranks need them."""

from aiompi.face.native.collective.movement import MovingCollectives
from aiompi.face.native.collective.nonblocking import NonblockingCollectives
from aiompi.face.native.collective.nonblocking_objects import NonblockingObjectCollectives
from aiompi.face.native.collective.objects import ObjectCollectives
from aiompi.face.native.collective.persistent import PersistentCollectives
from aiompi.face.native.collective.reduction import CombiningCollectives

__all__ = ["Collectives"]


class Collectives(
    MovingCollectives,
    CombiningCollectives,
    ObjectCollectives,
    NonblockingCollectives,
    NonblockingObjectCollectives,
    PersistentCollectives,
):
    """The collective operations of a communicator; each starts at once and returns its request."""

    __slots__ = ()
