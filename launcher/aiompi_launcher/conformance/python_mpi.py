"""The calls of scripts on an implementation under test that has mpi4py's names.

Each call is a coroutine, because `Machine` awaits calls. The coroutine never suspends: it makes a blocking MPI call.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any, Final

from aiompi_launcher.conformance.python_collectives import PythonCollectives
from aiompi_launcher.conformance.script import MPIFailure
from aiompi_launcher.conformance.script.calls import CALLS, CONSTANTS
from aiompi_launcher.conformance.script.machine import Memory

_OTHER_NAMES: Final = {"MPI_LONG_LONG_INT": "LONG_LONG", "MPI_2INT": "TWOINT"}
_ERRORS: Final = [name for name in CONSTANTS if name.startswith("MPI_ERR_")]


def _sending(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the call of this name, one of those that send a message."""

    async def send(self: PythonMpi, memory: Memory, count: int, datatype: Any, dest: int, tag: int, comm: Any) -> Any:
        return getattr(comm, name)(self._spec(memory, count, datatype), dest, tag)

    return send


class PythonMpi(PythonCollectives):
    """The calls of a script in a process under test.

    Args:
        module: module with the names of mpi4py, such as `aiompi.MPI`.
    """

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module)
        self._simulated: frozenset[int] = frozenset()
        self._constants: dict[str, Any] = {}
        world = module.COMM_WORLD
        world.Set_errhandler(module.ERRORS_RETURN)
        for method in {signature.method for signature in CALLS.values()} & set(dir(self)):
            setattr(self, method, self._guarded(getattr(self, method)))

    def set_simulated(self, simulated: frozenset[int]) -> None:
        """Set the ranks of COMM_WORLD that are simulated."""
        self._simulated = simulated

    def constant(self, name: str) -> Any:
        """The value of a named constant."""
        if name not in self._constants:
            self._constants[name] = self._find(name)
        return self._constants[name]

    def _find(self, name: str) -> Any:
        if CONSTANTS[name] == "function":
            return name
        own = _OTHER_NAMES.get(name, name.removeprefix("MPI_"))
        if CONSTANTS[name] == "key":
            return getattr(self._mpi, own, None)
        return getattr(self._mpi, own)

    def _guarded(self, method: Any) -> Any:
        """Wrap a call: turn exceptions into return codes."""

        async def guarded(*args: Any) -> Any:
            try:
                return await method(*args)
            except self._mpi.Exception as error:
                raise MPIFailure(self._name_of(error.Get_error_class()), str(error)) from error
            except (ValueError, TypeError, OverflowError) as error:
                raise MPIFailure("MPI_ERR_ARG", f"{type(error).__name__}: {error}") from error

        return guarded

    def _name_of(self, error_class: int) -> str:
        for name in _ERRORS:
            if self.constant(name) == error_class:
                return name
        return "MPI_ERR_OTHER"

    # Point to point.

    send, bsend, ssend, rsend = map(_sending, ("Send", "Bsend", "Ssend", "Rsend"))
    isend, ibsend, issend, irsend = map(_sending, ("Isend", "Ibsend", "Issend", "Irsend"))
    send_init, bsend_init = map(_sending, ("Send_init", "Bsend_init"))
    ssend_init, rsend_init = map(_sending, ("Ssend_init", "Rsend_init"))

    async def recv(self, memory: Memory, count: int, datatype: Any, source: int, tag: int, comm: Any) -> Any:
        status = self._mpi.Status()
        comm.Recv(self._spec(memory, count, datatype), source, tag, status)
        return status

    async def irecv(self, memory: Memory, count: int, datatype: Any, source: int, tag: int, comm: Any) -> Any:
        return comm.Irecv(self._spec(memory, count, datatype), source, tag)

    async def recv_init(self, memory: Memory, count: int, datatype: Any, source: int, tag: int, comm: Any) -> Any:
        return comm.Recv_init(self._spec(memory, count, datatype), source, tag)

    async def start(self, request: Any) -> Any:
        request.Start()
        return request

    async def startall(self, count: int, requests: list[Any]) -> list[Any]:
        self._mpi.Prequest.Startall(requests[:count])
        return requests[:count]

    async def request_free(self, request: Any) -> Any:
        request.Free()
        return self._mpi.REQUEST_NULL

    async def sendrecv(
        self,
        sent: Memory,
        count: int,
        datatype: Any,
        dest: int,
        tag: int,
        received: Memory,
        recvcount: int,
        recvtype: Any,
        source: int,
        recvtag: int,
        comm: Any,
    ) -> Any:
        status = self._mpi.Status()
        target = self._spec(received, recvcount, recvtype)
        comm.Sendrecv(self._spec(sent, count, datatype), dest, tag, target, source, recvtag, status)
        return status

    async def sendrecv_replace(
        self, memory: Memory, count: int, datatype: Any, dest: int, tag: int, source: int, recvtag: int, comm: Any
    ) -> Any:
        status = self._mpi.Status()
        comm.Sendrecv_replace(self._spec(memory, count, datatype), dest, tag, source, recvtag, status)
        return status

    async def wait(self, request: Any) -> tuple[Any, Any]:
        status = self._mpi.Status()
        if request != self._mpi.REQUEST_NULL:
            request.Wait(status)
        return self._left(request), status

    async def test(self, request: Any) -> tuple[Any, int, Any]:
        status = self._mpi.Status()
        done = request == self._mpi.REQUEST_NULL or request.Test(status)
        return (self._left(request) if done else request), int(done), status

    async def waitall(self, count: int, requests: list[Any]) -> tuple[list[Any], list[Any]]:
        statuses = [self._mpi.Status() for _ in range(count)]
        self._mpi.Request.Waitall(requests[:count], statuses)
        return [self._left(request) for request in requests[:count]], statuses

    async def waitany(self, count: int, requests: list[Any]) -> tuple[list[Any], int, Any]:
        status = self._mpi.Status()
        requests = requests[:count]
        index = self._mpi.Request.Waitany(requests, status)
        if index != self._mpi.UNDEFINED:
            requests[index] = self._left(requests[index])
        return requests, index, status

    async def probe(self, source: int, tag: int, comm: Any) -> Any:
        status = self._mpi.Status()
        comm.Probe(source, tag, status)
        return status

    async def iprobe(self, source: int, tag: int, comm: Any) -> tuple[int, Any]:
        status = self._mpi.Status()
        return int(comm.Iprobe(source, tag, status)), status

    async def cancel(self, request: Any) -> Any:
        request.Cancel()
        return request

    async def test_cancelled(self, status: Any) -> int:
        return int(status.Is_cancelled())

    async def get_count(self, status: Any, datatype: Any) -> int:
        return int(status.Get_count(datatype))

    async def get_elements(self, status: Any, datatype: Any) -> int:
        return int(status.Get_elements(datatype))

    async def buffer_attach(self, size: int) -> None:
        if not 0 <= size <= 64 * 2**20:
            raise MPIFailure("MPI_ERR_ARG", f"a buffer of {size} bytes; at most 64 MiB")
        self._mpi.Attach_buffer(bytearray(size))

    async def buffer_detach(self) -> None:
        self._mpi.Detach_buffer()

    # Datatypes.

    async def pack(
        self, memory: Memory, count: int, datatype: Any, out: Memory, size: int, position: int, comm: Any
    ) -> int:
        self._spec(memory, count, datatype)
        data = memory.view[: count * datatype.Get_extent()[1]]
        return int(datatype.Pack(data, out.view[:size], position, comm))

    async def unpack(
        self, packed: Memory, size: int, position: int, memory: Memory, count: int, datatype: Any, comm: Any
    ) -> int:
        self._spec(memory, count, datatype)
        data = memory.view[: count * datatype.Get_extent()[1]]
        return int(datatype.Unpack(packed.view[:size], position, data, comm))

    async def pack_size(self, count: int, datatype: Any, comm: Any) -> int:
        return int(datatype.Pack_size(count, comm))

    async def type_contiguous(self, count: int, old: Any) -> Any:
        return old.Create_contiguous(count)

    async def type_vector(self, count: int, length: int, stride: int, old: Any) -> Any:
        return old.Create_vector(count, length, stride)

    async def type_indexed(self, count: int, lengths: list[int], displacements: list[int], old: Any) -> Any:
        return old.Create_indexed(lengths[:count], displacements[:count])

    async def type_commit(self, datatype: Any) -> Any:
        return datatype.Commit()

    async def type_free(self, datatype: Any) -> Any:
        datatype.Free()
        return self._mpi.DATATYPE_NULL

    # Groups and communicators.

    async def comm_size(self, comm: Any) -> int:
        return int(comm.Get_size())

    async def comm_rank(self, comm: Any) -> int:
        return int(comm.Get_rank())

    async def comm_remote_size(self, comm: Any) -> int:
        return int(comm.Get_remote_size())

    async def comm_test_inter(self, comm: Any) -> int:
        return int(comm.Is_inter())

    async def comm_compare(self, one: Any, other: Any) -> int:
        return int(self._mpi.Comm.Compare(one, other))

    async def comm_group(self, comm: Any) -> Any:
        return comm.Get_group()

    async def group_incl(self, group: Any, count: int, ranks: list[int]) -> Any:
        return group.Incl(ranks[:count])

    async def group_excl(self, group: Any, count: int, ranks: list[int]) -> Any:
        return group.Excl(ranks[:count])

    async def group_size(self, group: Any) -> int:
        return int(group.Get_size())

    async def group_rank(self, group: Any) -> int:
        return int(group.Get_rank())

    async def group_free(self, group: Any) -> Any:
        group.Free()
        return self._mpi.GROUP_NULL

    async def comm_dup(self, comm: Any) -> Any:
        return comm.Dup()

    async def comm_create(self, comm: Any, group: Any) -> Any:
        return comm.Create(group)

    async def comm_split(self, comm: Any, color: int, key: int) -> Any:
        return comm.Split(color, key)

    async def comm_free(self, comm: Any) -> Any:
        comm.Free()
        return self._mpi.COMM_NULL

    async def intercomm_create(self, local: Any, leader: int, peer: Any, remote: int, tag: int) -> Any:
        return local.Create_intercomm(leader, peer, remote, tag)

    async def intercomm_merge(self, comm: Any, high: int) -> Any:
        return comm.Merge(bool(high))

    async def attr_get(self, comm: Any, key: Any) -> tuple[int, int]:
        value = None if key is None else comm.Get_attr(key)
        return (0, 0) if value is None else (int(value), 1)

    # Other calls.

    async def wtime(self) -> float:
        return float(self._mpi.Wtime())

    async def test_simulated(self, rank: int) -> int:
        return int(rank in self._simulated)

    async def test_set(self, name: str, value: int) -> None:
        """Do nothing: TEST_set affects only simulated processes."""

    async def test_get(self, name: str) -> int:
        return 0
