"""Collectives of the blocking face (chapter 4); `aiompi.face.native.collective` describes their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiompi.coll import buffers, objects
from aiompi.driver.blocking import refuse_running_loop
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import process
from aiompi.op import SUM, Op


class Collectives(Handle):
    """The collective operations of a communicator; each returns when it is complete for this rank."""

    __slots__ = ()

    def Barrier(self) -> None:
        """Wait until every rank has called it (section 4.3)."""
        refuse_running_loop("Comm.Barrier", "await comm.barrier()")
        self._finish(buffers.barrier(self._core))

    barrier = Barrier

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The root's object, on every rank (section 4.4)."""
        refuse_running_loop("Comm.bcast", "await comm.bcast(obj, root)")
        return self._finish(objects.bcast(self._core, process.runtime.codec, obj, root))

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Item i of the root's sequence, on rank i (section 4.6)."""
        refuse_running_loop("Comm.scatter", "await comm.scatter(sendobj, root)")
        return self._finish(objects.scatter(self._core, process.runtime.codec, sendobj, root))

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """The objects of all ranks in rank order at the root, None elsewhere (section 4.5)."""
        refuse_running_loop("Comm.gather", "await comm.gather(sendobj, root)")
        return self._finish(objects.gather(self._core, process.runtime.codec, sendobj, root))

    def allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all ranks in rank order (section 4.7)."""
        refuse_running_loop("Comm.allgather", "await comm.allgather(sendobj)")
        return self._finish(objects.allgather(self._core, process.runtime.codec, sendobj))

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Item r of every rank's sequence, on rank r, in rank order (section 4.8)."""
        refuse_running_loop("Comm.alltoall", "await comm.alltoall(sendobj)")
        return self._finish(objects.alltoall(self._core, process.runtime.codec, sendobj))

    def reduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM, root: int = 0) -> Any:
        """The objects of all ranks combined in rank order, at the root; None elsewhere (section 4.9)."""
        refuse_running_loop("Comm.reduce", "await comm.reduce(sendobj, op, root)")
        return self._finish(objects.reduce(self._core, process.runtime.codec, sendobj, op, root))

    def allreduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        """The objects of all ranks combined in rank order, on every rank (section 4.9.6)."""
        refuse_running_loop("Comm.allreduce", "await comm.allreduce(sendobj, op)")
        return self._finish(objects.allreduce(self._core, process.runtime.codec, sendobj, op))

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Fill the buffer of every rank with the root's (section 4.4)."""
        refuse_running_loop("Comm.Bcast", "await comm.Bcast(buf, root)")
        self._finish(buffers.bcast(self._core, buf, root))

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Block i of the root's buffer goes to rank i (section 4.6)."""
        refuse_running_loop("Comm.Scatter", "await comm.Scatter(sendbuf, recvbuf, root)")
        self._finish(buffers.scatter(self._core, sendbuf, recvbuf, root))

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """The buffers of all ranks become the blocks of the root's (section 4.5)."""
        refuse_running_loop("Comm.Gather", "await comm.Gather(sendbuf, recvbuf, root)")
        self._finish(buffers.gather(self._core, sendbuf, recvbuf, root))

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """The buffers of all ranks, of any lengths, come to places in the root's (section 4.5)."""
        refuse_running_loop("Comm.Gatherv", "await comm.Gatherv(sendbuf, recvbuf, root)")
        self._finish(buffers.gatherv(self._core, sendbuf, recvbuf, root))

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """The buffers of all ranks become the blocks of everyone's (section 4.7)."""
        refuse_running_loop("Comm.Allgather", "await comm.Allgather(sendbuf, recvbuf)")
        self._finish(buffers.allgather(self._core, sendbuf, recvbuf))

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Block r of every rank goes to rank r (section 4.8)."""
        refuse_running_loop("Comm.Alltoall", "await comm.Alltoall(sendbuf, recvbuf)")
        self._finish(buffers.alltoall(self._core, sendbuf, recvbuf))

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Combine the buffers of all ranks element by element, into the root's (section 4.9)."""
        refuse_running_loop("Comm.Reduce", "await comm.Reduce(sendbuf, recvbuf, op, root)")
        self._finish(buffers.reduce(self._core, sendbuf, recvbuf, op, root))

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine the buffers of all ranks element by element, into everyone's (section 4.9.6)."""
        refuse_running_loop("Comm.Allreduce", "await comm.Allreduce(sendbuf, recvbuf, op)")
        self._finish(buffers.allreduce(self._core, sendbuf, recvbuf, op))
