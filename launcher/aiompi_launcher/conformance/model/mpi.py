"""All calls of scripts, in a simulated process."""

from __future__ import annotations

import time
from typing import Any, Final

from aiompi_launcher.conformance.model import create
from aiompi_launcher.conformance.model.collective_calls import Collectives
from aiompi_launcher.conformance.model.comm import Comm
from aiompi_launcher.conformance.model.datatype import Datatype, indexed, predefined
from aiompi_launcher.conformance.model.engine import ANY, Options, Proc
from aiompi_launcher.conformance.model.op import NAMES, Op
from aiompi_launcher.conformance.model.pt2pt import UNDEFINED, there, usable
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


class ModelMpi(Collectives):
    """The calls of a script in a simulated process.

    Args:
        proc: the process.
        controls: True if `TEST_set` and `TEST_get` have an effect; False in a simulated process under test.
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


def _ranks(group: Group, ranks: list[int]) -> list[int]:
    wrong = [rank for rank in ranks if not 0 <= rank < len(group)]
    if wrong or len(set(ranks)) != len(ranks):
        raise MPIFailure("MPI_ERR_RANK", f"{ranks} are no different ranks of a group of {len(group)}")
    return ranks
