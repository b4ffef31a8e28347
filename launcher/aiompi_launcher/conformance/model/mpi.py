"""All calls of scripts, in a simulated process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from aiompi_launcher.conformance.model import collective, create
from aiompi_launcher.conformance.model.comm import Comm
from aiompi_launcher.conformance.model.datatype import Datatype, indexed, predefined
from aiompi_launcher.conformance.model.engine import ANY, Options, Proc
from aiompi_launcher.conformance.model.op import NAMES, Op
from aiompi_launcher.conformance.model.pt2pt import UNDEFINED, PointToPoint, there, usable
from aiompi_launcher.conformance.model.request import PROC_NULL
from aiompi_launcher.conformance.script import MPIFailure
from aiompi_launcher.conformance.script.calls import CONSTANTS
from aiompi_launcher.conformance.script.machine import Memory
from aiompi_launcher.conformance.wire.packet import Kind

_ERRORS: Final = ("MPI_SUCCESS", *(name for name in CONSTANTS if name.startswith("MPI_ERR_")))
_COMPARISONS: Final = ("MPI_IDENT", "MPI_CONGRUENT", "MPI_SIMILAR", "MPI_UNEQUAL")
_NUMBERS: Final = {
    "MPI_ANY_SOURCE": ANY,
    "MPI_ANY_TAG": ANY,
    "MPI_PROC_NULL": PROC_NULL,
    "MPI_UNDEFINED": UNDEFINED,
    "MPI_BSEND_OVERHEAD": 0,
    **{name: number for number, name in enumerate(_ERRORS)},
    **{name: number for number, name in enumerate(_COMPARISONS)},
}

#: what is the same in all simulated processes
_SHARED: Final[dict[str, Any]] = (
    _NUMBERS
    | {name: predefined(name) for name, kind in CONSTANTS.items() if kind == "type" and name != "MPI_DATATYPE_NULL"}
    | {name: Op(name) for name in NAMES}
    | {name: name for name, kind in CONSTANTS.items() if kind in ("key", "function")}
    | {name: None for name in CONSTANTS if name.endswith("_NULL") and name not in _NUMBERS}
    | {"MPI_GROUP_EMPTY": ()}
)

Group = tuple[int, ...]  # ranks in COMM_WORLD


class ModelMpi(PointToPoint):
    """The calls of a script in a simulated process.

    Args:
        proc: the process.
        controls: True if `TEST_set` and `TEST_get` mean something: not in a simulated process under test.
    """

    def __init__(self, proc: Proc, *, controls: bool) -> None:
        super().__init__(proc)
        self._simulated: frozenset[int] = frozenset()
        self._controls = controls
        procs = proc.host.universe.procs
        self.world = Comm(proc, 0, [info.rank for info in procs])
        self._own = Comm(proc, 2**64, [proc.rank])  # outside the numbering, and never on a channel
        self._constants = _SHARED | {"MPI_COMM_WORLD": self.world, "MPI_COMM_SELF": self._own}

    def set_simulated(self, simulated: frozenset[int]) -> None:
        """The ranks of COMM_WORLD that are simulated."""
        self._simulated = simulated

    def constant(self, name: str) -> Any:
        return self._constants[name]

    # Datatypes and packing.

    async def type_contiguous(self, count: int, old: Datatype) -> Datatype:
        return self._indexed([count], [0], old)

    async def type_vector(self, count: int, length: int, stride: int, old: Datatype) -> Datatype:
        return self._indexed([length] * count, [stride * block for block in range(count)], old)

    async def type_indexed(self, count: int, lengths: list[int], displacements: list[int], old: Datatype) -> Datatype:
        return self._indexed(lengths[:count], displacements[:count], old)

    def _indexed(self, lengths: list[int], displacements: list[int], old: Datatype) -> Datatype:
        if min([*lengths, 0]) < 0 or min([*displacements, 0]) < 0 or sum(lengths) > 2**20:
            raise MPIFailure("MPI_ERR_ARG", "lengths and displacements are not negative, and at most 2**20 elements")
        return indexed(lengths, displacements, usable(old))

    async def type_commit(self, datatype: Datatype) -> Datatype:
        return usable(datatype)

    async def type_free(self, datatype: Datatype) -> None:
        return None

    async def pack(
        self, memory: Memory, count: int, datatype: Datatype, out: Memory, size: int, position: int, comm: Comm
    ) -> int:
        data = usable(datatype).pack(memory.view, count)
        if comm.has("pack-native"):
            data = bytes(memory.view[: len(data)])
        if position + len(data) > min(size, len(out.view)):
            raise MPIFailure("MPI_ERR_TRUNCATE", f"{len(data)} bytes do not fit behind {position} of {size}")
        out.view[position : position + len(data)] = data
        return position + len(data)

    async def unpack(
        self, packed: Memory, size: int, position: int, memory: Memory, count: int, datatype: Datatype, comm: Comm
    ) -> int:
        usable(datatype).check(memory.view, count)
        end = position + count * datatype.wire_size
        if end > min(size, len(packed.view)):
            raise MPIFailure("MPI_ERR_TRUNCATE", f"{count} {datatype.name} end at {end} of {size}")
        datatype.unpack(bytes(packed.view[position:end]), memory.view)
        return end

    async def pack_size(self, count: int, datatype: Datatype, comm: Comm) -> int:
        return count * usable(datatype).wire_size

    # Collectives.

    def _rooted(self, comm: Comm | None, root: int = 0) -> Comm:
        comm = there(comm)
        if comm.remote is not None:
            raise MPIFailure("MPI_ERR_COMM", "MPI-1 has no collectives on intercommunicators")
        if not 0 <= root < comm.size:
            raise MPIFailure("MPI_ERR_ROOT", f"there is no rank {root} among {comm.size}")
        return comm

    async def barrier(self, comm: Comm) -> None:
        await collective.barrier(self._rooted(comm))

    async def bcast(self, memory: Memory, count: int, datatype: Datatype, root: int, comm: Comm) -> None:
        comm = self._rooted(comm, root)
        data = usable(datatype).pack(memory.view, count) if comm.rank == root else b""
        data = await collective.bcast(comm, data, root, count * datatype.wire_size)
        if comm.rank != root:
            datatype.unpack(data, memory.view)

    async def gather(
        self, sent: Memory, count: int, datatype: Datatype, out: Memory, n: int, t: Datatype, root: int, comm: Comm
    ) -> None:
        comm = self._rooted(comm, root)
        blocks = await collective.gather(comm, usable(datatype).pack(sent.view, count), root)
        _store(blocks, out, [n * rank for rank in range(len(blocks))], t)

    async def gatherv(
        self,
        sent: Memory,
        count: int,
        datatype: Datatype,
        out: Memory,
        counts: list[int],
        displacements: list[int],
        t: Datatype,
        root: int,
        comm: Comm,
    ) -> None:
        comm = self._rooted(comm, root)
        at_root = comm.rank == root
        known, unit = (counts[: comm.size], usable(t).wire_size) if at_root else ([0] * comm.size, 0)
        blocks = await collective.gatherv(comm, usable(datatype).pack(sent.view, count), root, known, unit)
        _store(blocks, out, displacements, t)

    async def scatter(
        self, sent: Memory, n: int, t: Datatype, out: Memory, count: int, datatype: Datatype, root: int, comm: Comm
    ) -> None:
        comm = self._rooted(comm, root)
        blocks = _blocks(sent, [n] * comm.size, [n * r for r in range(comm.size)], t) if comm.rank == root else []
        data = await collective.scatter(comm, blocks, count * usable(datatype).wire_size, root)
        datatype.unpack(data, out.view)

    async def scatterv(
        self,
        sent: Memory,
        counts: list[int],
        displacements: list[int],
        t: Datatype,
        out: Memory,
        count: int,
        datatype: Datatype,
        root: int,
        comm: Comm,
    ) -> None:
        comm = self._rooted(comm, root)
        blocks = _blocks(sent, counts[: comm.size], displacements, t) if comm.rank == root else []
        data = await collective.scatterv(comm, blocks, count * usable(datatype).wire_size, root)
        datatype.unpack(data, out.view)

    async def allgather(
        self, sent: Memory, count: int, datatype: Datatype, out: Memory, n: int, t: Datatype, comm: Comm
    ) -> None:
        comm = self._rooted(comm)
        blocks = await collective.allgather(comm, usable(datatype).pack(sent.view, count))
        _store(blocks, out, [n * rank for rank in range(comm.size)], t)

    async def allgatherv(
        self,
        sent: Memory,
        count: int,
        datatype: Datatype,
        out: Memory,
        counts: list[int],
        displacements: list[int],
        t: Datatype,
        comm: Comm,
    ) -> None:
        comm = self._rooted(comm)
        data = usable(datatype).pack(sent.view, count)
        blocks = await collective.allgatherv(comm, data, counts[: comm.size], usable(t).wire_size)
        _store(blocks, out, displacements, t)

    async def alltoall(
        self, sent: Memory, count: int, datatype: Datatype, out: Memory, n: int, t: Datatype, comm: Comm
    ) -> None:
        comm = self._rooted(comm)
        blocks = _blocks(sent, [count] * comm.size, [count * rank for rank in range(comm.size)], datatype)
        _store(await collective.alltoall(comm, blocks), out, [n * rank for rank in range(comm.size)], t)

    async def alltoallv(
        self,
        sent: Memory,
        counts: list[int],
        displacements: list[int],
        datatype: Datatype,
        out: Memory,
        recvcounts: list[int],
        recvdisplacements: list[int],
        t: Datatype,
        comm: Comm,
    ) -> None:
        comm = self._rooted(comm)
        blocks = _blocks(sent, counts[: comm.size], displacements, datatype)
        sizes = [count * usable(t).wire_size for count in recvcounts[: comm.size]]
        _store(await collective.alltoallv(comm, blocks, sizes), out, recvdisplacements, t)

    async def reduce(
        self, sent: Memory, out: Memory, count: int, datatype: Datatype, op: Op, root: int, comm: Comm
    ) -> None:
        comm = self._rooted(comm, root)
        data = usable(datatype).pack(sent.view, count)
        result = await collective.reduce(comm, data, _combine(op, datatype), op.commutative, root)
        if comm.rank == root:
            datatype.unpack(result, out.view)

    async def allreduce(self, sent: Memory, out: Memory, count: int, datatype: Datatype, op: Op, comm: Comm) -> None:
        data = usable(datatype).pack(sent.view, count)
        comm = self._rooted(comm)
        datatype.unpack(await collective.allreduce(comm, data, _combine(op, datatype), op.commutative), out.view)

    async def reduce_scatter(
        self, sent: Memory, out: Memory, counts: list[int], datatype: Datatype, op: Op, comm: Comm
    ) -> None:
        comm = self._rooted(comm)
        counts = counts[: comm.size]
        data = usable(datatype).pack(sent.view, sum(counts))
        sizes = [count * datatype.wire_size for count in counts]
        combine = _combine(op, datatype)
        datatype.unpack(await collective.reduce_scatter(comm, data, combine, op.commutative, sizes), out.view)

    async def scan(self, sent: Memory, out: Memory, count: int, datatype: Datatype, op: Op, comm: Comm) -> None:
        data = usable(datatype).pack(sent.view, count)
        datatype.unpack(await collective.scan(self._rooted(comm), data, _combine(op, datatype)), out.view)

    async def op_create(self, function: str, commute: int) -> Op:
        return Op(function, bool(commute))

    async def op_free(self, op: Op) -> None:
        return None

    # Groups and communicators.

    async def comm_size(self, comm: Comm) -> int:
        return there(comm).size

    async def comm_rank(self, comm: Comm) -> int:
        return there(comm).rank

    async def comm_remote_size(self, comm: Comm) -> int:
        return len(there(comm).peers)

    async def comm_test_inter(self, comm: Comm) -> int:
        return int(there(comm).remote is not None)

    async def comm_compare(self, one: Comm, other: Comm) -> int:
        if one is other:
            return _NUMBERS["MPI_IDENT"]
        groups = [(one.group, other.group), (one.remote or [], other.remote or [])]
        if all(a == b for a, b in groups):
            return _NUMBERS["MPI_CONGRUENT"]
        return _NUMBERS["MPI_SIMILAR" if all(sorted(a) == sorted(b) for a, b in groups) else "MPI_UNEQUAL"]

    async def comm_group(self, comm: Comm) -> Group:
        return tuple(there(comm).group)

    async def group_incl(self, group: Group, count: int, ranks: list[int]) -> Group:
        return tuple(group[rank] for rank in _ranks(group, ranks[:count]))

    async def group_excl(self, group: Group, count: int, ranks: list[int]) -> Group:
        out = set(_ranks(group, ranks[:count]))
        return tuple(member for rank, member in enumerate(group) if rank not in out)

    async def group_size(self, group: Group) -> int:
        return len(group)

    async def group_rank(self, group: Group) -> int:
        return group.index(self.proc.rank) if self.proc.rank in group else UNDEFINED

    async def group_free(self, group: Group) -> None:
        return None

    async def comm_dup(self, comm: Comm) -> Comm:
        return await create.dup(there(comm))

    async def comm_create(self, comm: Comm, group: Group) -> Comm | None:
        return await create.create(self._rooted(comm), group)

    async def comm_split(self, comm: Comm, color: int, key: int) -> Comm | None:
        return await create.split(self._rooted(comm), None if color == UNDEFINED else color, key)

    async def comm_free(self, comm: Comm) -> None:
        await create.free(there(comm))

    async def intercomm_create(self, local: Comm, leader: int, peer: Comm, remote: int, tag: int) -> Comm:
        return await create.intercomm(self._rooted(local, leader), leader, peer, remote, tag)

    async def intercomm_merge(self, comm: Comm, high: int) -> Comm:
        if there(comm).remote is None:
            raise MPIFailure("MPI_ERR_COMM", "this is no intercommunicator")
        return await create.merge(comm, bool(high))

    async def attr_get(self, comm: Comm, key: str) -> tuple[int, int]:
        comm = there(comm)
        if key == "MPI_TAG_UB":
            return comm.universe.tag_ub, 1
        procs = [comm.universe.procs[rank] for rank in sorted({*comm.group, *(comm.remote or ())})]
        units = [proc.client if "CLIENT" in key else proc.host for proc in procs]
        order = sorted(set(units), key=units.index)
        mine = self.proc.info.client if "CLIENT" in key else self.proc.info.host
        color = mine if comm.has("wrong-color") else order.index(mine)
        return (color if key.endswith("COLOR") else len(order)), 1

    # The rest.

    async def wtime(self) -> float:
        return time.monotonic()

    async def test_simulated(self, rank: int) -> int:
        return int(rank in self._simulated)

    async def test_set(self, name: str, value: int) -> None:
        if not self._controls:
            return
        if name not in Options.NAMES:
            raise MPIFailure("MPI_ERR_ARG", f"TEST_set knows {', '.join(Options.NAMES)}, not {name}")
        self.proc.set_option(name, value)

    async def test_get(self, name: str) -> int:
        if not self._controls:
            return 0
        if name == "unexpected":
            return len(self.proc.unexpected)
        if name.upper() not in Kind.__members__:
            kinds = ", ".join(kind.lower() for kind in Kind.__members__)
            raise MPIFailure("MPI_ERR_ARG", f"TEST_get knows unexpected, {kinds}, not {name}")
        return self.proc.received[Kind[name.upper()]]


def _combine(op: Op | None, datatype: Datatype) -> collective.Combine:
    if op is None:
        raise MPIFailure("MPI_ERR_OP", "the operation is MPI_OP_NULL")
    return lambda invec, inoutvec: op.combine(datatype, invec, inoutvec)


def _blocks(memory: Memory, counts: list[int], displacements: list[int], datatype: Datatype) -> list[bytes]:
    starts = [displacement * usable(datatype).extent for displacement in displacements]
    return [datatype.pack(memory.view[start:], n) for n, start in zip(counts, starts, strict=False)]


def _store(blocks: Sequence[bytes], memory: Memory, displacements: list[int], datatype: Datatype) -> None:
    for block, displacement in zip(blocks, displacements, strict=False):
        count = len(block) // (usable(datatype).wire_size or 1)
        start = memory.view[displacement * datatype.extent :]
        datatype.check(start, count)
        datatype.unpack(block, start)


def _ranks(group: Group, ranks: list[int]) -> list[int]:
    wrong = [rank for rank in ranks if not 0 <= rank < len(group)]
    if wrong or len(set(ranks)) != len(ranks):
        raise MPIFailure("MPI_ERR_RANK", f"{ranks} are no different ranks of a group of {len(group)}")
    return ranks
