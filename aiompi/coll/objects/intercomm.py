"""The collectives on objects between the groups of an intercommunicator (MPI-2, section 5.2.2 of MPI-3.1).

Roots are ROOT, PROC_NULL, or ranks of the remote group. Results are those of `aiompi.coll.objects` with what the
remote group contributes; in the group of the root only the root has one, of bcast and scatter it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiompi.coll import intercomm
from aiompi.coll.accumulator import Codec, ObjectAccumulator
from aiompi.coll.block import Block
from aiompi.coll.intercomm import remote_root
from aiompi.coll.objects.common import commutes, empty, filled, start
from aiompi.coll.signature import Signature
from aiompi.comm import Channel, Communicator
from aiompi.constants import ROOT
from aiompi.engine import Request
from aiompi.op import Op


def bcast(comm: Communicator, codec: Codec, obj: Any, root: int) -> Request[Any]:
    rank = remote_root(comm, root, "bcast")
    block = Block.holding(*codec.dumps(obj)) if root == ROOT else Block()

    async def run(channel: Channel) -> Any:
        await intercomm.bcast(channel, block, root)
        return codec.loads(block.data) if root >= 0 else None

    return start(comm, run, Signature.of("bcast", rank))


def scatter(comm: Communicator, codec: Codec, sequence: Sequence[Any] | None, root: int) -> Request[Any]:
    rank = remote_root(comm, root, "scatter")
    blocks = filled(comm, codec, sequence, "scatter") if root == ROOT else None
    own = Block() if root >= 0 else None

    async def run(channel: Channel) -> Any:
        await intercomm.scatter(channel, blocks, own, root)
        return None if own is None else codec.loads(own.data)

    return start(comm, run, Signature.of("scatter", rank))


def gather(comm: Communicator, codec: Codec, obj: Any, root: int) -> Request[list[Any] | None]:
    rank = remote_root(comm, root, "gather")
    own = Block.holding(*codec.dumps(obj)) if root >= 0 else None
    blocks = empty(comm) if root == ROOT else None

    async def run(channel: Channel) -> list[Any] | None:
        await intercomm.gather(channel, own, blocks, root)
        return None if blocks is None else [codec.loads(block.data) for block in blocks]

    return start(comm, run, Signature.of("gather", rank))


def allgather(comm: Communicator, codec: Codec, obj: Any) -> Request[list[Any]]:
    own = Block.holding(*codec.dumps(obj))
    return _exchange(comm, codec, [own] * len(comm.targets), "allgather")


def alltoall(comm: Communicator, codec: Codec, sequence: Sequence[Any]) -> Request[list[Any]]:
    return _exchange(comm, codec, filled(comm, codec, sequence, "alltoall"), "alltoall")


def _exchange(comm: Communicator, codec: Codec, outgoing: Sequence[Block], operation: str) -> Request[list[Any]]:
    incoming = empty(comm)

    async def run(channel: Channel) -> list[Any]:
        await intercomm.exchange(channel, outgoing, incoming)
        return [codec.loads(block.data) for block in incoming]

    return start(comm, run, Signature.of(operation))


def reduce(comm: Communicator, codec: Codec, obj: Any, op: Op | Callable[[Any, Any], Any], root: int) -> Request[Any]:
    rank = remote_root(comm, root, "reduce")
    commutes(comm, op, "reduce")

    async def run(channel: Channel) -> Any:
        accumulator = ObjectAccumulator(obj, op, codec) if root >= 0 else None
        result = Block() if root == ROOT else None
        await intercomm.reduce(channel, accumulator, result, root)
        return None if result is None else codec.loads(result.data)

    return start(comm, run, Signature.of("reduce", rank, op))


def allreduce(comm: Communicator, codec: Codec, obj: Any, op: Op | Callable[[Any, Any], Any]) -> Request[Any]:
    commutes(comm, op, "allreduce")

    async def run(channel: Channel) -> Any:
        result = Block()
        await intercomm.allreduce(channel, ObjectAccumulator(obj, op, codec), result)
        return codec.loads(result.data)

    return start(comm, run, Signature.of("allreduce", None, op))
