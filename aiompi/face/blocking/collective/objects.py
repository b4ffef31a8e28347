"""Collectives on Python objects of the blocking face (chapter 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from aiompi.coll import buffers, objects
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import process
from aiompi.op import SUM, Op
from aiompi.typing import MaybeNone

T = TypeVar("T")


class ObjectCollectives(Handle):
    """The collectives of a communicator on objects; each returns when it is complete for this rank."""

    __slots__ = ()

    def barrier(self) -> None:
        """Wait until every rank has called it (section 4.3)."""
        self._finish(buffers.barrier(self._entered("barrier()")))

    @overload
    def bcast(self, obj: None, root: int = 0) -> Any: ...
    @overload
    def bcast(self, obj: T | None, root: int = 0) -> T: ...
    def bcast(self, obj: object, root: int = 0) -> Any:
        """Send the root's object to every rank (section 4.4)."""
        return self._finish(objects.bcast(self._entered("bcast(obj, root)"), process.codec, obj, root))

    @overload
    def scatter(self, sendobj: None, root: int = 0) -> Any: ...
    @overload
    def scatter(self, sendobj: Sequence[T] | None, root: int = 0) -> T: ...
    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Send item i of the root's sequence to rank i (section 4.6).

        Args:
            sendobj: `size` items at the root, or None instead of as many None.
        """
        core = self._entered("scatter(sendobj, root)")
        sequence = [None] * len(core.targets) if sendobj is None else sendobj
        return self._finish(objects.scatter(core, process.codec, sequence, root))

    def gather(self, sendobj: T, root: int = 0) -> list[T] | MaybeNone:
        """Collect the objects of all ranks at the root (section 4.5)."""
        return self._finish(objects.gather(self._entered("gather(sendobj, root)"), process.codec, sendobj, root))

    def allgather(self, sendobj: T) -> list[T]:
        """Collect the objects of all ranks on every rank (section 4.7)."""
        return self._finish(objects.allgather(self._entered("allgather(sendobj)"), process.codec, sendobj))

    @overload
    def alltoall(self, sendobj: None) -> list[Any]: ...
    @overload
    def alltoall(self, sendobj: Sequence[T]) -> list[T]: ...
    def alltoall(self, sendobj: Sequence[Any] | None) -> list[Any]:
        """Send item r of every rank's sequence to rank r (section 4.8).

        Args:
            sendobj: `size` items, or None instead of as many None.
        """
        core = self._entered("alltoall(sendobj)")
        sequence = [None] * len(core.targets) if sendobj is None else sendobj
        return self._finish(objects.alltoall(core, process.codec, sequence))

    def reduce(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, root: int = 0) -> T | MaybeNone:
        """Combine the objects of all ranks in rank order, at the root (section 4.9)."""
        core = self._entered("reduce(sendobj, op, root)")
        return self._finish(objects.reduce(core, process.codec, sendobj, op, root))

    def allreduce(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM) -> T:
        """Combine the objects of all ranks in rank order, on every rank (section 4.9.6)."""
        result: T = self._finish(objects.allreduce(self._entered("allreduce(sendobj, op)"), process.codec, sendobj, op))
        return result

    def scan(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM) -> T:
        """Combine the objects of the ranks up to and including this one in rank order (section 4.11)."""
        result: T = self._finish(objects.scan(self._entered("scan(sendobj, op)"), process.codec, sendobj, op))
        return result

    def exscan(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM) -> T | MaybeNone:
        """Combine the objects of the ranks below this one in rank order (MPI-2)."""
        return self._finish(objects.exscan(self._entered("exscan(sendobj, op)"), process.codec, sendobj, op))
