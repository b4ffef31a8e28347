"""Point-to-point calls of scripts, in a simulated process."""

from __future__ import annotations

import asyncio
from typing import Final

from aiompi_launcher.conformance.model.comm import Comm
from aiompi_launcher.conformance.model.datatype import Datatype
from aiompi_launcher.conformance.model.engine import ANY, Proc, Send
from aiompi_launcher.conformance.model.request import (
    PROC_NULL,
    NullRequest,
    PersistentRequest,
    ReceiveRequest,
    Request,
    SendRequest,
    Status,
    Target,
)
from aiompi_launcher.conformance.script import MPIFailure
from aiompi_launcher.conformance.script.machine import Memory

UNDEFINED: Final = -32766
POLL: Final = 0.0005  # seconds that a nonblocking query, such as a probe or test, leaves to the other processes


class PointToPoint:
    """The calls of chapter 3 of MPI.

    Args:
        proc: the process.
    """

    def __init__(self, proc: Proc) -> None:
        self.proc = proc
        self._buffered: list[Send] = []

    def _outgoing(self, comm: Comm | None, dest: int, tag: int) -> Comm:
        comm = there(comm)
        if not (0 <= tag <= comm.universe.tag_ub):
            raise MPIFailure("MPI_ERR_TAG", f"tag {tag} is not within 0..{comm.universe.tag_ub}")
        if not (0 <= dest < len(comm.peers) or dest == PROC_NULL):
            raise MPIFailure("MPI_ERR_RANK", f"there is no rank {dest} among {len(comm.peers)}")
        return comm

    def _incoming(self, comm: Comm | None, source: int, tag: int) -> Comm:
        return self._outgoing(comm, 0 if source == ANY else source, 0 if tag == ANY else tag)

    def _start(
        self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm, *, sync: bool = False
    ) -> Request:
        comm = self._outgoing(comm, dest, tag)
        data = usable(datatype).pack(memory.view, count)
        return NullRequest() if dest == PROC_NULL else SendRequest(comm, comm.send(dest, tag, data, sync=sync))

    def _post(self, memory: Memory, count: int, datatype: Datatype, source: int, tag: int, comm: Comm) -> Request:
        comm = self._incoming(comm, source, tag)
        usable(datatype).check(memory.view, count)
        if source == PROC_NULL:
            return NullRequest()
        what = f"a message of {'any rank' if source == ANY else f'rank {source}'}, tag {tag}, on context {comm.cid}"
        receive = self.proc.receive(comm.cid, source, tag, what)
        return ReceiveRequest(receive, Target(comm, memory.view, count, datatype))

    # Blocking.

    async def send(self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> None:
        await self._start(memory, count, datatype, dest, tag, comm).wait()

    async def ssend(self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> None:
        await self._start(memory, count, datatype, dest, tag, comm, sync=True).wait()

    async def rsend(self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> None:
        await self.send(memory, count, datatype, dest, tag, comm)

    async def bsend(self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> None:
        comm = self._outgoing(comm, dest, tag)
        data = usable(datatype).pack(memory.view, count)
        if dest != PROC_NULL:
            self._buffered.append(comm.send(dest, tag, data))

    async def buffer_attach(self, size: int) -> None:
        pass

    async def buffer_detach(self) -> None:
        for send in self._buffered:
            await send.done
        self._buffered.clear()

    async def recv(self, memory: Memory, count: int, datatype: Datatype, source: int, tag: int, comm: Comm) -> Status:
        return await self._post(memory, count, datatype, source, tag, comm).wait()

    async def sendrecv(
        self,
        sent: Memory,
        count: int,
        datatype: Datatype,
        dest: int,
        tag: int,
        received: Memory,
        recvcount: int,
        recvtype: Datatype,
        source: int,
        recvtag: int,
        comm: Comm,
    ) -> Status:
        receive = self._post(received, recvcount, recvtype, source, recvtag, comm)
        await self._start(sent, count, datatype, dest, tag, comm).wait()
        return await receive.wait()

    async def sendrecv_replace(
        self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, source: int, recvtag: int, comm: Comm
    ) -> Status:
        send = self._start(memory, count, datatype, dest, tag, comm)
        status = await self._post(memory, count, datatype, source, recvtag, comm).wait()
        await send.wait()
        return status

    # Nonblocking and persistent.

    async def isend(self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> Request:
        return self._start(memory, count, datatype, dest, tag, comm)

    async def issend(self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> Request:
        return self._start(memory, count, datatype, dest, tag, comm, sync=True)

    async def irsend(self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> Request:
        return self._start(memory, count, datatype, dest, tag, comm)

    async def ibsend(self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> Request:
        return self._start(memory, count, datatype, dest, tag, comm)

    async def irecv(self, memory: Memory, count: int, datatype: Datatype, source: int, tag: int, comm: Comm) -> Request:
        return self._post(memory, count, datatype, source, tag, comm)

    async def send_init(
        self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm
    ) -> Request:
        return PersistentRequest(lambda: self._start(memory, count, datatype, dest, tag, comm))

    bsend_init = rsend_init = send_init

    async def ssend_init(
        self, memory: Memory, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm
    ) -> Request:
        return PersistentRequest(lambda: self._start(memory, count, datatype, dest, tag, comm, sync=True))

    async def recv_init(
        self, memory: Memory, count: int, datatype: Datatype, source: int, tag: int, comm: Comm
    ) -> Request:
        return PersistentRequest(lambda: self._post(memory, count, datatype, source, tag, comm))

    async def start(self, request: Request | None) -> Request:
        if not isinstance(request, PersistentRequest):
            raise MPIFailure("MPI_ERR_REQUEST", "MPI_Start of a request that is not persistent")
        request.start()
        return request

    async def startall(self, count: int, requests: list[Request | None]) -> list[Request]:
        return [await self.start(request) for request in requests[:count]]

    async def request_free(self, request: Request | None) -> None:
        return None

    async def wait(self, request: Request | None) -> tuple[Request | None, Status]:
        if request is None:
            return None, Status()
        status = await request.wait()
        return _left(request), status

    async def test(self, request: Request | None) -> tuple[Request | None, int, Status]:
        await asyncio.sleep(POLL)
        if request is not None and not request.done:
            return request, 0, Status()
        left, status = await self.wait(request)
        return left, 1, status

    async def waitall(self, count: int, requests: list[Request | None]) -> tuple[list[Request | None], list[Status]]:
        done = [await self.wait(request) for request in requests[:count]]
        return [left for left, _ in done], [status for _, status in done]

    async def waitany(self, count: int, requests: list[Request | None]) -> tuple[list[Request | None], int, Status]:
        requests = requests[:count]
        while any(request is not None for request in requests):
            for index, request in enumerate(requests):
                if request is not None and request.done:
                    requests[index], status = await self.wait(request)
                    return requests, index, status
            await asyncio.sleep(POLL)
        return requests, UNDEFINED, Status()

    async def cancel(self, request: Request | None) -> Request:
        if request is None:
            raise MPIFailure("MPI_ERR_REQUEST", "MPI_Cancel of MPI_REQUEST_NULL")
        request.cancel()
        return request

    async def test_cancelled(self, status: Status) -> int:
        return int(status.cancelled)

    # Probing and counting.

    async def probe(self, source: int, tag: int, comm: Comm) -> Status:
        comm = self._incoming(comm, source, tag)
        if source == PROC_NULL:
            return Status(source=PROC_NULL)
        message = await self.proc.probe(comm.cid, source, tag)
        if comm.has("probe-matches") and message.pair is not None and message.sync and message.complete:
            message.pair.acknowledge(message)
            message.sync = False
        return Status(message.lsrank, message.tag, message.length)

    async def iprobe(self, source: int, tag: int, comm: Comm) -> tuple[int, Status]:
        comm = self._incoming(comm, source, tag)
        await asyncio.sleep(POLL)
        message = self.proc.peek(comm.cid, source, tag)
        if message is None:
            return 0, Status()
        return 1, Status(message.lsrank, message.tag, message.length)

    async def get_count(self, status: Status, datatype: Datatype) -> int:
        size = usable(datatype).wire_size
        if self.proc.host.mischief.has("count-native"):
            size = datatype.extent
        if not size:
            return 0
        return status.length // size if status.length % size == 0 else UNDEFINED

    async def get_elements(self, status: Status, datatype: Datatype) -> int:
        sizes = [basic.wire_size for _, basic in usable(datatype).entries]
        if not sizes:
            return 0
        elements, rest = divmod(status.length, sum(sizes))
        elements *= len(sizes)
        for size in sizes:
            if rest <= 0:
                break
            rest -= size
            elements += 1
        return elements if rest == 0 else UNDEFINED


def _left(request: Request) -> Request | None:
    """Return the value of a handle after its request is complete."""
    return request if isinstance(request, PersistentRequest) else None


def there(comm: Comm | None) -> Comm:
    if comm is None:
        raise MPIFailure("MPI_ERR_COMM", "the communicator is MPI_COMM_NULL")
    return comm


def usable(datatype: Datatype | None) -> Datatype:
    if datatype is None:
        raise MPIFailure("MPI_ERR_TYPE", "the datatype is MPI_DATATYPE_NULL")
    return datatype
