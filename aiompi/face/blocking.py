"""The blocking face, shaped as mpi4py: every call starts an operation of the engine and waits for it in place.

Importing does no I/O. The first use of a communicator joins the job that the launcher has started this process
for, or makes a job of one rank; the end of the process leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from aiompi.coll import buffers, objects
from aiompi.comm import Communicator
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.datatype import memory_to_receive, memory_to_send
from aiompi.driver.blocking import BlockingDriver, refuse_running_loop
from aiompi.engine import Mode
from aiompi.engine import Request as EngineRequest
from aiompi.face.common import Membership
from aiompi.face.process import process
from aiompi.face.requests import Request
from aiompi.op import SUM, Op
from aiompi.status import Status

T = TypeVar("T")


class Intracomm(Membership):
    """A communicator of the blocking face (chapter 5), with mpi4py's names.

    Errors are raised as `MPI.Exception`s by the call that meets them.
    """

    __slots__ = ("_core", "_driver", "_predefined")

    def __init__(self, predefined: str) -> None:
        self._predefined = predefined

    def __getattr__(self, name: str) -> Any:
        """The first use of a predefined communicator initialises."""
        if name not in ("_core", "_driver"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        runtime = process.runtime
        self._core: Communicator = getattr(runtime, self._predefined)
        self._driver: BlockingDriver = process.driver
        return getattr(self, name)

    def _finish(self, request: EngineRequest[T]) -> T:
        if not request._done:
            self._wait(request)
        return request.result()

    def _wait(self, request: EngineRequest[Any]) -> None:
        """Wait for an operation that belongs to the call: when a signal handler raises, nothing of it stays behind."""
        try:
            self._driver.finish(request)
        except BaseException:
            request.withdraw()
            raise

    # Point-to-point, buffers (chapter 3).

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request[None]:
        """Start a standard send of a buffer specification (section 3.7)."""
        memory = memory_to_send(buf)
        return Request(self._core.isend((memory,), len(memory), dest, tag))

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request[None]:
        """Start a synchronous send of a buffer specification (section 3.4)."""
        memory = memory_to_send(buf)
        return Request(self._core.isend((memory,), len(memory), dest, tag, mode=Mode.SYNCHRONOUS))

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Status]:
        """Start a receive into a writable buffer specification (section 3.7)."""
        return Request(self._core.irecv(memory_to_receive(buf), source, tag))

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer specification, standard mode (section 3.2.1)."""
        refuse_running_loop("Comm.Send", "await comm.Send(buf, dest)")
        memory = memory_to_send(buf)
        self._finish(self._core.isend((memory,), len(memory), dest, tag))

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer specification, synchronous mode (section 3.4)."""
        refuse_running_loop("Comm.Ssend", "await comm.Ssend(buf, dest)")
        memory = memory_to_send(buf)
        self._finish(self._core.isend((memory,), len(memory), dest, tag, mode=Mode.SYNCHRONOUS))

    def Recv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> None:
        """Receive into a writable buffer specification (section 3.2.4).

        Raises:
            TruncationError: the message is longer than the buffer.
        """
        refuse_running_loop("Comm.Recv", "await comm.Recv(buf, source)")
        request = self._core.irecv(memory_to_receive(buf), source, tag)
        if not request._done:
            self._wait(request)
        if status is not None:
            status.assign(request.status)
        if request._error is not None:
            raise request._error

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send one buffer and receive into another, without deadlock (section 3.10)."""
        refuse_running_loop("Comm.Sendrecv", "await comm.Sendrecv(...)")
        received = self._core.irecv(memory_to_receive(recvbuf), source, recvtag, None, status)
        self._exchange(received, lambda: self.Send(sendbuf, dest, sendtag))

    def _exchange(self, receive: EngineRequest[T], send: Callable[[], None]) -> T:
        try:
            send()
        except BaseException:
            receive.withdraw()
            raise
        return self._finish(receive)

    # Point-to-point, Python objects.

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request[None]:
        """Start a standard send of an object."""
        payload, nbytes = process.runtime.codec.dumps(obj)
        return Request(self._core.isend(payload, nbytes, dest, tag))

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request[None]:
        """Start a synchronous send of an object."""
        payload, nbytes = process.runtime.codec.dumps(obj)
        return Request(self._core.isend(payload, nbytes, dest, tag, mode=Mode.SYNCHRONOUS))

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Any]:
        """Start receiving an object of any size; `buf` is not needed and ignored."""
        return Request(self._core.irecv(None, source, tag, process.runtime.codec.loads))

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object, standard mode."""
        refuse_running_loop("Comm.send", "await comm.send(obj, dest)")
        payload, nbytes = process.runtime.codec.dumps(obj)
        self._finish(self._core.isend(payload, nbytes, dest, tag))

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object, synchronous mode."""
        refuse_running_loop("Comm.ssend", "await comm.ssend(obj, dest)")
        payload, nbytes = process.runtime.codec.dumps(obj)
        self._finish(self._core.isend(payload, nbytes, dest, tag, mode=Mode.SYNCHRONOUS))

    def recv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Receive an object of any size; `buf` is not needed and ignored."""
        refuse_running_loop("Comm.recv", "await comm.recv(source)")
        return self._finish(self._core.irecv(None, source, tag, process.runtime.codec.loads, status))

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Send an object and receive another, without deadlock; `recvbuf` is not needed and ignored."""
        refuse_running_loop("Comm.sendrecv", "await comm.sendrecv(...)")
        received = self._core.irecv(None, source, recvtag, process.runtime.codec.loads, status)
        return self._exchange(received, lambda: self.send(sendobj, dest, sendtag))

    # Probe (section 3.8).

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Wait for a message without receiving it."""
        refuse_running_loop("Comm.Probe", "await comm.probe(source, tag)")
        envelope = self._finish(self._core.probe(source, tag))
        if status is not None:
            status.assign(envelope)
        return True

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Whether there is a message that a receive would get now."""
        envelope = self._core.iprobe(source, tag)
        if envelope is None:
            self._driver.poll()
            envelope = self._core.iprobe(source, tag)
        if envelope is not None and status is not None:
            status.assign(envelope)
        return envelope is not None

    probe = Probe
    iprobe = Iprobe

    # Collectives (chapter 4); `face.native` describes the arguments.

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

    def Abort(self, errorcode: int = 1) -> NoReturn:
        """End all ranks of the job, and this process, with this exit status (section 7.5)."""
        runtime = process.runtime
        runtime.abort(errorcode, f"rank {runtime.engine.rank} called Abort({errorcode})")
        runtime.exit(errorcode)

    def __repr__(self) -> str:
        return repr(self._core) if process.initialized else f"<MPI {self._predefined}, not initialised yet>"

    def __reduce__(self) -> str:
        """By name: what arrives in another process is its own communicator (section 2.4.1)."""
        return "COMM_WORLD" if self is COMM_WORLD else "COMM_SELF"


COMM_WORLD = Intracomm("world")
COMM_SELF = Intracomm("self_comm")
