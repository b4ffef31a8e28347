"""Collectives on Python objects of the blocking face (chapter 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiompi.coll import buffers, objects
from aiompi.driver.blocking import refuse_running_loop
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import process
from aiompi.op import SUM, Op


class ObjectCollectives(Handle):
    """The collectives of a communicator on objects; each returns when it is complete for this rank."""

    __slots__ = ()

    def barrier(self) -> None:
        """Wait until every rank has called it (section 4.3)."""
        refuse_running_loop("Comm.barrier", "await comm.barrier()")
        self._finish(buffers.barrier(self._admitted))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The root's object, on every rank (section 4.4). `obj` is ignored elsewhere."""
        refuse_running_loop("Comm.bcast", "await comm.bcast(obj, root)")
        return self._finish(objects.bcast(self._admitted, process.codec, obj, root))

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Item i of the root's sequence, on rank i (section 4.6).

        Args:
            sendobj: `size` items at the root, or None instead of as many None.
            root: rank.
        """
        refuse_running_loop("Comm.scatter", "await comm.scatter(sendobj, root)")
        core = self._admitted
        sequence = [None] * len(core.targets) if sendobj is None else sendobj
        return self._finish(objects.scatter(core, process.codec, sequence, root))

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """The objects of all ranks in rank order at the root, None elsewhere (section 4.5)."""
        refuse_running_loop("Comm.gather", "await comm.gather(sendobj, root)")
        return self._finish(objects.gather(self._admitted, process.codec, sendobj, root))

    def allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all ranks in rank order (section 4.7)."""
        refuse_running_loop("Comm.allgather", "await comm.allgather(sendobj)")
        return self._finish(objects.allgather(self._admitted, process.codec, sendobj))

    def alltoall(self, sendobj: Sequence[Any] | None) -> list[Any]:
        """Item r of every rank's sequence, on rank r, in rank order (section 4.8).

        Args:
            sendobj: `size` items, or None instead of as many None.
        """
        refuse_running_loop("Comm.alltoall", "await comm.alltoall(sendobj)")
        core = self._admitted
        sequence = [None] * len(core.targets) if sendobj is None else sendobj
        return self._finish(objects.alltoall(core, process.codec, sequence))

    def reduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM, root: int = 0) -> Any:
        """The objects of all ranks combined in rank order, at the root; None elsewhere (section 4.9)."""
        refuse_running_loop("Comm.reduce", "await comm.reduce(sendobj, op, root)")
        return self._finish(objects.reduce(self._admitted, process.codec, sendobj, op, root))

    def allreduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        """The objects of all ranks combined in rank order, on every rank (section 4.9.6)."""
        refuse_running_loop("Comm.allreduce", "await comm.allreduce(sendobj, op)")
        return self._finish(objects.allreduce(self._admitted, process.codec, sendobj, op))

    def scan(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        """The objects of the ranks up to this one, it included, combined in rank order (section 4.11)."""
        refuse_running_loop("Comm.scan", "await comm.scan(sendobj, op)")
        return self._finish(objects.scan(self._admitted, process.codec, sendobj, op))

    def exscan(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        """The objects of the ranks below this one combined in rank order; None on rank 0 (MPI-2)."""
        refuse_running_loop("Comm.exscan", "await comm.exscan(sendobj, op)")
        return self._finish(objects.exscan(self._admitted, process.codec, sendobj, op))
