"""Collectives of the native face (chapter 4). An await that is cancelled leaves them running: the others need them."""

from aiompi.engine import PersistentRequest
from aiompi.face.native.collective.buffers import BufferCollectives
from aiompi.face.native.collective.objects import ObjectCollectives
from aiompi.face.persistent import PersistentCollectives

__all__ = ["Collectives"]


class Collectives(BufferCollectives, ObjectCollectives, PersistentCollectives[PersistentRequest[None]]):
    """The collective operations of a communicator; each starts at once and returns its request.

    The i-forms are the same; they are there for programs that name them.
    """

    __slots__ = ()
