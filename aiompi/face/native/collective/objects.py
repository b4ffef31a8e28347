"""Collectives on Python objects of the native face (chapter 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from aiompi.coll import buffers, objects
from aiompi.engine import Request
from aiompi.face.native.handle import Handle
from aiompi.objects import Codec
from aiompi.op import SUM, Op
from aiompi.typing import MaybeNone

T = TypeVar("T")


class ObjectCollectives(Handle):
    """The collectives of a communicator on objects; each starts at once and returns its request.

    `algorithm` names the algorithm instead of the settings and the tuning data; all ranks must name the same.

    Raises:
        InvalidArgumentError: there is no algorithm of that name, or it cannot serve the call.
    """

    __slots__ = ()

    _codec: Codec

    def barrier(self, *, algorithm: str | None = None) -> Request[None]:
        """Complete when every rank has called it (section 4.3)."""
        return buffers.barrier.using(algorithm)(self._admitted)

    @overload
    def bcast(self, obj: None, root: int = 0, *, algorithm: str | None = None) -> Request[Any]: ...
    @overload
    def bcast(self, obj: T | None, root: int = 0, *, algorithm: str | None = None) -> Request[T]: ...
    def bcast(self, obj: object, root: int = 0, *, algorithm: str | None = None) -> Request[Any]:
        """The root's object, on every rank (section 4.4). `obj` is ignored elsewhere."""
        return objects.bcast(self._admitted, self._codec, obj, root, algorithm=algorithm)

    @overload
    def scatter(self, sendobj: None, root: int = 0, *, algorithm: str | None = None) -> Request[Any]: ...
    @overload
    def scatter(self, sendobj: Sequence[T] | None, root: int = 0, *, algorithm: str | None = None) -> Request[T]: ...
    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0, *, algorithm: str | None = None) -> Request[Any]:
        """Item i of the root's sequence, on rank i (section 4.6). `sendobj` has `size` items at the root."""
        return objects.scatter(self._admitted, self._codec, sendobj, root, algorithm=algorithm)

    def gather(self, sendobj: T, root: int = 0, *, algorithm: str | None = None) -> Request[list[T] | MaybeNone]:
        """The objects of all ranks in rank order at the root, None elsewhere (section 4.5)."""
        return objects.gather(self._admitted, self._codec, sendobj, root, algorithm=algorithm)

    def allgather(self, sendobj: T, *, algorithm: str | None = None) -> Request[list[T]]:
        """The objects of all ranks in rank order (section 4.7)."""
        return objects.allgather(self._admitted, self._codec, sendobj, algorithm=algorithm)

    def alltoall(self, sendobj: Sequence[T], *, algorithm: str | None = None) -> Request[list[T]]:
        """Item r of every rank's sequence, on rank r, in rank order (section 4.8)."""
        return objects.alltoall(self._admitted, self._codec, sendobj, algorithm=algorithm)

    def reduce(
        self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, root: int = 0, *, algorithm: str | None = None
    ) -> Request[T | MaybeNone]:
        """The objects of all ranks combined in rank order, at the root; None elsewhere (section 4.9)."""
        return objects.reduce(self._admitted, self._codec, sendobj, op, root, algorithm=algorithm)

    def allreduce(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None) -> Request[T]:
        """The objects of all ranks combined in rank order, on every rank (section 4.9.6)."""
        return objects.allreduce(self._admitted, self._codec, sendobj, op, algorithm=algorithm)

    def scan(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None) -> Request[T]:
        """The objects of the ranks up to this one, it included, combined in rank order (section 4.11)."""
        return objects.scan(self._admitted, self._codec, sendobj, op, algorithm=algorithm)

    def exscan(
        self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None
    ) -> Request[T | MaybeNone]:
        """The objects of the ranks below this one combined in rank order; None on rank 0 (MPI-2)."""
        return objects.exscan(self._admitted, self._codec, sendobj, op, algorithm=algorithm)

    ibarrier = barrier
    ibcast = bcast
    iscatter = scatter
    igather = gather
    iallgather = allgather
    ialltoall = alltoall
    ireduce = reduce
    iallreduce = allreduce
    iscan = scan
    iexscan = exscan
