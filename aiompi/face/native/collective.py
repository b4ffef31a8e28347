"""Collectives of the native face (chapter 4). An await that is cancelled leaves them running: the others need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiompi.coll import buffers, objects
from aiompi.engine import Request
from aiompi.face.common import Membership
from aiompi.objects import Codec
from aiompi.op import SUM, Op


class Collectives(Membership):
    """The collective operations of a communicator; each starts at once and returns its request."""

    __slots__ = ()

    _codec: Codec

    def barrier(self) -> Request[None]:
        """Complete when every rank has called it (section 4.3)."""
        return buffers.barrier(self._core)

    Barrier = barrier

    def bcast(self, obj: Any, root: int = 0) -> Request[Any]:
        """The root's object, on every rank (section 4.4). `obj` is ignored elsewhere."""
        return objects.bcast(self._core, self._codec, obj, root)

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Request[Any]:
        """Item i of the root's sequence, on rank i (section 4.6). `sendobj` has `size` items at the root."""
        return objects.scatter(self._core, self._codec, sendobj, root)

    def gather(self, sendobj: Any, root: int = 0) -> Request[list[Any] | None]:
        """The objects of all ranks in rank order at the root, None elsewhere (section 4.5)."""
        return objects.gather(self._core, self._codec, sendobj, root)

    def allgather(self, sendobj: Any) -> Request[list[Any]]:
        """The objects of all ranks in rank order (section 4.7)."""
        return objects.allgather(self._core, self._codec, sendobj)

    def alltoall(self, sendobj: Sequence[Any]) -> Request[list[Any]]:
        """Item r of every rank's sequence, on rank r, in rank order (section 4.8)."""
        return objects.alltoall(self._core, self._codec, sendobj)

    def reduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM, root: int = 0) -> Request[Any]:
        """The objects of all ranks combined in rank order, at the root; None elsewhere (section 4.9)."""
        return objects.reduce(self._core, self._codec, sendobj, op, root)

    def allreduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Request[Any]:
        """The objects of all ranks combined in rank order, on every rank (section 4.9.6)."""
        return objects.allreduce(self._core, self._codec, sendobj, op)

    def Bcast(self, buf: Any, root: int = 0) -> Request[None]:
        """Fill the buffer of every rank with the root's (section 4.4)."""
        return buffers.bcast(self._core, buf, root)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """Block i of the root's buffer goes to rank i (section 4.6).

        Args:
            sendbuf: at the root (size, count) items, C order; ignored elsewhere.
            recvbuf: (count,) items; IN_PLACE at the root leaves its block where it is.
            root: rank.
        """
        return buffers.scatter(self._core, sendbuf, recvbuf, root)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """The buffers of all ranks become the blocks of the root's (section 4.5).

        Args:
            sendbuf: (count,) items; IN_PLACE at the root when its block is in place.
            recvbuf: at the root (size, count) items, C order; ignored elsewhere.
            root: rank.
        """
        return buffers.gather(self._core, sendbuf, recvbuf, root)

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """The buffers of all ranks, of any lengths, come to places in the root's (section 4.5).

        Args:
            sendbuf: (count,) items, of which each rank has its own number; IN_PLACE at the root.
            recvbuf: at the root `[buf, counts]`, `[buf, (counts, displs)]`, also with a type: numbers of items, and
                where they go, in items; ignored elsewhere.
            root: rank.
        """
        return buffers.gatherv(self._core, sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """The buffers of all ranks become the blocks of everyone's (section 4.7).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (size, count) items, C order.
        """
        return buffers.allgather(self._core, sendbuf, recvbuf)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """Block r of every rank goes to rank r (section 4.8).

        Args:
            sendbuf: (size, count) items, C order, or IN_PLACE.
            recvbuf: (size, count) items, C order.
        """
        return buffers.alltoall(self._core, sendbuf, recvbuf)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request[None]:
        """Combine the buffers of all ranks element by element, into the root's (section 4.9).

        Args:
            sendbuf: (count,) items, or IN_PLACE at the root.
            recvbuf: (count,) items at the root; ignored elsewhere.
            op: operation, defined for the datatype.
            root: rank.
        """
        return buffers.reduce(self._core, sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request[None]:
        """Combine the buffers of all ranks element by element, into everyone's (section 4.9.6).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items.
            op: operation, defined for the datatype.
        """
        return buffers.allreduce(self._core, sendbuf, recvbuf, op)

    ibarrier, ibcast, iscatter, igather = barrier, bcast, scatter, gather
    iallgather, ialltoall, ireduce, iallreduce = allgather, alltoall, reduce, allreduce
    Ibarrier, Ibcast, Iscatter, Igather, Igatherv = barrier, Bcast, Scatter, Gather, Gatherv
    Iallgather, Ialltoall, Ireduce, Iallreduce = Allgather, Alltoall, Reduce, Allreduce
