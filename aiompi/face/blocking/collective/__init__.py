"""Collectives of the blocking face (chapter 4); `aiompi.face.native.collective` describes their arguments."""

from aiompi.face.blocking.collective.buffers import BufferCollectives
from aiompi.face.blocking.collective.nonblocking import NonblockingCollectives
from aiompi.face.blocking.collective.objects import ObjectCollectives
from aiompi.face.blocking.request_kinds import Prequest
from aiompi.face.persistent import PersistentCollectives

__all__ = ["Collectives"]


class Collectives(BufferCollectives, NonblockingCollectives, ObjectCollectives, PersistentCollectives[Prequest[None]]):
    """The collective operations of a communicator."""

    __slots__ = ()
