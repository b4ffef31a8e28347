"""The clients of a communicator, and the messages between them (IMPI 0.0).

Each client has a master, the lowest of its ranks (section 4.2). Each collective has a tag (section 4.25). Masters form
one of two trees over the numbers 0..n-1, with the root 0. Barrier and Bcast use the tree of highest bits, in which the
parent of a number is the number without its highest bit. Gather, Gatherv and Reduce use the tree of lowest bits, in
which the parent is the number without its lowest bit. For n = 8:

    highest bits            lowest bits

          0                       0
        / | \\                   / | \\
       1  2  4                 1  2  4
      /|  |                       |  |\\
     3 5  6                       3  5 6
     |                                 |
     7                                 7
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from aiompi.coll.block import Block
from aiompi.coll.external import TypedBlock
from aiompi.comm import Channel
from aiompi.engine import Request
from aiompi.errors import InternalError

BARRIER_TAG: Final = 110
BCAST_TAG: Final = 120
GATHER_TAG: Final = 130
GATHERV_TAG: Final = 140
SCATTER_TAG: Final = 150
SCATTERV_TAG: Final = 160
ALLTOALL_TAG: Final = 170
ALLTOALLV_TAG: Final = 180
REDUCE_TAG: Final = 190
SCAN_TAG: Final = 200
DUP_TAG: Final = 210
MERGE_TAG: Final = 220
COMM_FREE_TAG: Final = 230


class Masters:
    """The clients of a communicator, numbered in the order of their masters' ranks. Method names are from the standard.

    Nothing is communicated, because all members know all clients.

    Args:
        clients: client of each rank.
    """

    __slots__ = ("_locals", "_numbers")

    def __init__(self, clients: Sequence[int]) -> None:
        numbers: dict[int, int] = {}
        self._numbers = [numbers.setdefault(client, len(numbers)) for client in clients]
        self._locals: list[list[int]] = [[] for _ in numbers]
        for rank, number in enumerate(self._numbers):
            self._locals[number].append(rank)

    @property
    def num_masters(self) -> int:
        """Number of masters: clients that have members."""
        return len(self._locals)

    def master_rank(self, number: int) -> int:
        """Return the rank of a master."""
        return self._locals[number][0]

    def is_master(self, rank: int) -> bool:
        """Return True if this is the lowest rank of its client."""
        return self.local_master_rank(rank) == rank

    def local_master_num(self, rank: int) -> int:
        """Return the number of the master of a rank's client."""
        return self._numbers[rank]

    def local_master_rank(self, rank: int) -> int:
        """Return the rank of the master of a rank's client."""
        return self.master_rank(self._numbers[rank])

    def num_local_to_master(self, number: int) -> int:
        """Return the number of ranks in the client of a master, itself included."""
        return len(self._locals[number])

    def locals_to_master(self, number: int) -> Sequence[int]:
        """Return the ranks of the client of a master, ascending, itself included."""
        return self._locals[number]

    def are_local(self, rank: int, other: int) -> bool:
        """Return True if two ranks belong to the same client."""
        return self._numbers[rank] == self._numbers[other]


@functools.lru_cache(maxsize=64)
def masters_of(clients: tuple[int, ...]) -> Masters:
    """Return the masters of a communicator, computed once."""
    return Masters(clients)


class Span:
    """A communicator that spans clients, for one collective on it.

    The endpoints of a collective with a root are the root and the masters of the other clients. Relative numbers count
    the endpoints from the root: the root has 0, and the next master after the master of the root's client has 1.

    Args:
        channel: of the collective.
        tag: tag of the collective's messages between clients.

    Attributes:
        channel: to all ranks, with this tag.
        local: to the ranks of this rank's client.
        masters: of all clients.
        rank: of this process.
        xsize: bytes from which messages are long.
        linear: True if masters send directly to the root, False if they send along a tree.
    """

    __slots__ = ("_clients", "_settings", "_user", "channel", "linear", "local", "masters", "rank", "xsize")

    def __init__(self, channel: Channel, tag: int) -> None:
        comm = channel.comm
        universe = comm.engine.universe
        if universe is None:
            raise InternalError(f"{channel.where}: an algorithm of IMPI in a job without IMPI")
        self.channel = channel.tagged(tag)
        self._clients = comm.placement.clients[: comm.size]
        self.masters: Masters = masters_of(self._clients)
        self.rank = channel.rank
        self.local = channel.among(self.masters.locals_to_master(self.number))
        self.xsize = universe.xsize
        self.linear = self.masters.num_masters <= universe.maxlinear
        self._settings = comm.engine.settings
        self._user: Channel | None = None
        if tag == REDUCE_TAG and self._settings.impi_reduce_point_to_point:
            self._user = channel.tagged(tag, point_to_point=True)

    # Messages to and from other clients. Historic clients need another byte order or context (see `Settings`).

    def isend(self, block: Block, dest: int) -> Request[None]:
        """Start sending items to a rank of another client."""
        if isinstance(block, TypedBlock) and self._listed(dest, self._settings.impi_native_order):
            block = block.native
        return block.isend(self._channel_of(dest), dest)

    async def receive(self, block: Block, source: int) -> None:
        """Receive items from a rank of another client."""
        channel = self._channel_of(source)
        if not isinstance(block, TypedBlock) or not self._listed(source, self._settings.impi_native_order):
            await block.irecv(channel, source)
            return
        native = block.native
        await native.irecv(channel, source)
        block.copy_native(native)

    def _channel_of(self, rank: int) -> Channel:
        if self._user is None or not self._listed(rank, self._settings.impi_reduce_point_to_point):
            return self.channel
        return self._user

    def _listed(self, rank: int, clients: tuple[str, ...]) -> bool:
        """Return True if `rank` belongs to one of `clients`, and not to the client of this process."""
        return bool(clients) and str(self._clients[rank]) in clients and not self.is_local(rank)

    @property
    def number(self) -> int:
        """Number of the master of this rank's client."""
        return self.masters.local_master_num(self.rank)

    @property
    def is_master(self) -> bool:
        """True if this rank is the master of its client."""
        return self.masters.is_master(self.rank)

    def is_local(self, root: int) -> bool:
        """Return True if the root belongs to this rank's client."""
        return self.masters.are_local(self.rank, root)

    def local_root(self, root: int) -> int:
        """Return the endpoint of this client, as a rank in `local`: the root if it is local, otherwise the master."""
        return self.masters.locals_to_master(self.number).index(root) if self.is_local(root) else 0

    def others(self, root: int) -> list[int]:
        """Return the numbers, ascending, of the masters of all clients but the root's."""
        own = self.masters.local_master_num(root)
        return [number for number in range(self.masters.num_masters) if number != own]

    def relative(self, root: int) -> int | None:
        """Return the relative number of this rank, None if it is no endpoint."""
        if self.rank == root:
            return 0
        if self.is_local(root) or not self.is_master:
            return None
        return (self.number - self.masters.local_master_num(root)) % self.masters.num_masters

    def absolute(self, relative: int, root: int) -> int:
        """Return the number of the master with a relative number."""
        return (relative + self.masters.local_master_num(root)) % self.masters.num_masters

    def endpoint(self, relative: int, root: int) -> int:
        """Return the rank of the endpoint with a relative number."""
        return self.masters.master_rank(self.absolute(relative, root)) if relative else root


def cubedim(n: int) -> int:
    """Smallest i with 2**i >= n; -1 for n <= 0 (section 4.2)."""
    return (n - 1).bit_length() if n > 0 else -1


def highbit(r: int, dim: int) -> int:
    """Position of the highest set bit among the low `dim` bits of r; -1 if no bit is set (section 4.2)."""
    return (r & ((1 << dim) - 1)).bit_length() - 1


def high_parent(number: int) -> int:
    """The number without its highest bit."""
    return number ^ (1 << highbit(number, number.bit_length()))


def high_children(number: int, n: int) -> list[int]:
    """The children of `number` in the tree of highest bits over 0..n-1, in ascending order of the bit that they add."""
    dim = cubedim(n)
    children = [number | 1 << bit for bit in range(highbit(number, dim) + 1, dim)]
    return [child for child in children if child < n]


def low_parent(number: int) -> int:
    """The number without its lowest bit."""
    return number & (number - 1)


def low_children(number: int, n: int) -> list[int]:
    """The children of `number` in the tree of lowest bits over 0..n-1, in ascending order of the bit that they add.

    The subtree of a child c of 0 has the numbers c..2c-1.
    """
    lowest = number & -number or 1 << cubedim(n)
    children = [number | 1 << bit for bit in range(cubedim(lowest))]
    return [child for child in children if child < n]
