"""Registry: the collectives, and the algorithms of each by name.

An algorithm is the coroutine that its file is named after. Its first argument is the channel; the `__init__` of its
folder describes the others, which are the same for all algorithms of a collective.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Final, Generic, NamedTuple, ParamSpec

from aiompi.coll import intercomm
from aiompi.coll.accumulator import Accumulator
from aiompi.coll.allgather.bruck import bruck as allgather_bruck
from aiompi.coll.allgather.linear import linear as allgather_linear
from aiompi.coll.allgather.recursive_doubling import recursive_doubling as allgather_recursive_doubling
from aiompi.coll.allgather.ring import ring as allgather_ring
from aiompi.coll.allgather.shm import shm as allgather_shm
from aiompi.coll.allgather.two_level import two_level as allgather_two_level
from aiompi.coll.allreduce.linear import linear as allreduce_linear
from aiompi.coll.allreduce.rabenseifner import rabenseifner as allreduce_rabenseifner
from aiompi.coll.allreduce.recursive_doubling import recursive_doubling as allreduce_recursive_doubling
from aiompi.coll.allreduce.ring import ring as allreduce_ring
from aiompi.coll.allreduce.shm import shm as allreduce_shm
from aiompi.coll.allreduce.two_level import two_level as allreduce_two_level
from aiompi.coll.alltoall.bruck import bruck as alltoall_bruck
from aiompi.coll.alltoall.linear import linear as alltoall_linear
from aiompi.coll.alltoall.pairwise import pairwise as alltoall_pairwise
from aiompi.coll.alltoall.shm import shm as alltoall_shm
from aiompi.coll.alltoall.two_level import two_level as alltoall_two_level
from aiompi.coll.barrier.dissemination import dissemination as barrier_dissemination
from aiompi.coll.barrier.shm import shm as barrier_shm
from aiompi.coll.barrier.two_level import two_level as barrier_two_level
from aiompi.coll.bcast.binomial import binomial as bcast_binomial
from aiompi.coll.bcast.linear import linear as bcast_linear
from aiompi.coll.bcast.pipelined_chain import pipelined_chain as bcast_pipelined_chain
from aiompi.coll.bcast.scatter_recursive_doubling import scatter_recursive_doubling as bcast_scatter_recursive_doubling
from aiompi.coll.bcast.scatter_ring import scatter_ring as bcast_scatter_ring
from aiompi.coll.bcast.shm import shm as bcast_shm
from aiompi.coll.bcast.two_level import two_level as bcast_two_level
from aiompi.coll.block import Block
from aiompi.coll.exscan.recursive_doubling import recursive_doubling as exscan_recursive_doubling
from aiompi.coll.exscan.shm import shm as exscan_shm
from aiompi.coll.gather.binomial import binomial as gather_binomial
from aiompi.coll.gather.linear import linear as gather_linear
from aiompi.coll.gather.shm import shm as gather_shm
from aiompi.coll.gather.two_level import two_level as gather_two_level
from aiompi.coll.impi import reduce as impi_reduce
from aiompi.coll.impi.alltoall import alltoall as impi_alltoall
from aiompi.coll.impi.alltoall import alltoallv as impi_alltoallv
from aiompi.coll.impi.barrier import barrier as impi_barrier
from aiompi.coll.impi.bcast import bcast as impi_bcast
from aiompi.coll.impi.gather import allgather as impi_allgather
from aiompi.coll.impi.gather import allgatherv as impi_allgatherv
from aiompi.coll.impi.gather import gather as impi_gather
from aiompi.coll.impi.gather import gatherv as impi_gatherv
from aiompi.coll.impi.scatter import scatter as impi_scatter
from aiompi.coll.impi.scatter import scatterv as impi_scatterv
from aiompi.coll.reduce.binomial import binomial as reduce_binomial
from aiompi.coll.reduce.linear import linear as reduce_linear
from aiompi.coll.reduce.rabenseifner import rabenseifner as reduce_rabenseifner
from aiompi.coll.reduce.shm import shm as reduce_shm
from aiompi.coll.reduce.two_level import two_level as reduce_two_level
from aiompi.coll.reduce_scatter.pairwise import pairwise as reduce_scatter_pairwise
from aiompi.coll.reduce_scatter.recursive_halving import recursive_halving as reduce_scatter_recursive_halving
from aiompi.coll.reduce_scatter.shm import shm as reduce_scatter_shm
from aiompi.coll.scan.linear import linear as scan_linear
from aiompi.coll.scan.recursive_doubling import recursive_doubling as scan_recursive_doubling
from aiompi.coll.scan.shm import shm as scan_shm
from aiompi.coll.scatter.binomial import binomial as scatter_binomial
from aiompi.coll.scatter.linear import linear as scatter_linear
from aiompi.coll.scatter.shm import shm as scatter_shm
from aiompi.coll.scatter.two_level import two_level as scatter_two_level
from aiompi.comm import Channel
from aiompi.errors import InvalidArgumentError

P = ParamSpec("P")


class Algorithm(NamedTuple, Generic[P]):
    """One algorithm of a collective.

    Attributes:
        run: the coroutine; it awaits nothing but requests of the channel.
        order_safe: True if it combines in the order of ranks; if not, it serves only operations that commute.
        any_form: True if it moves blocks and accumulators as a whole; if not, it cuts them into pieces, and serves only
            buffers whose length all ranks know.
        any_lengths: True if the blocks of buffers may differ in length, as in Gatherv. Where all ranks know the
            lengths, an algorithm that cuts may serve as well.
    """

    run: Callable[Concatenate[Channel, P], Coroutine[Any, None, None]]
    order_safe: bool = True
    any_form: bool = True
    any_lengths: bool = True

    @classmethod
    def cutting(cls, run: Callable[..., Coroutine[Any, None, None]], order_safe: bool = True) -> Algorithm[P]:
        """Make the entry of an algorithm that cuts accumulators, and therefore takes a `Vector`."""
        return cls(run, order_safe, any_form=False)


@dataclasses.dataclass(slots=True, eq=False)
class Collective(Generic[P]):
    """A collective; each is equal to itself only.

    Attributes:
        name: in tuning data and settings.
        algorithms: by name.
        over_clients: algorithms of IMPI 0.0, for buffers on communicators that span clients. The first that can serve a
            call is used. Empty for a collective that IMPI 0.0 does not have.
        between_groups: algorithm of intercommunicators; None if the collective is not defined there, and for Allgather,
            which uses that of Alltoall.
    """

    name: str
    algorithms: Mapping[str, Algorithm[P]]
    over_clients: tuple[Algorithm[P], ...] = ()
    between_groups: Callable[Concatenate[Channel, P], Coroutine[Any, Any, None]] | None = None

    def algorithm(self, name: str) -> Algorithm[P]:
        """Return the algorithm of a name.

        Raises:
            InvalidArgumentError: there is no algorithm of that name.
        """
        found = self.algorithms.get(name)
        if found is None:
            raise InvalidArgumentError(
                f"{self.name} has no algorithm {name!r}; it has {', '.join(sorted(self.algorithms))}"
            )
        return found


BARRIER: Final[Collective[[]]] = Collective(
    "barrier",
    {
        "shm": Algorithm(barrier_shm),
        "dissemination": Algorithm(barrier_dissemination),
        "two_level": Algorithm(barrier_two_level),
    },
    (Algorithm(impi_barrier),),
    intercomm.barrier,
)
BCAST: Final[Collective[[Block, int]]] = Collective(
    "bcast",
    {
        "shm": Algorithm(bcast_shm),
        "binomial": Algorithm(bcast_binomial),
        "linear": Algorithm(bcast_linear),
        "scatter_recursive_doubling": Algorithm(bcast_scatter_recursive_doubling, any_form=False),
        "scatter_ring": Algorithm(bcast_scatter_ring, any_form=False),
        "pipelined_chain": Algorithm(bcast_pipelined_chain, any_form=False),
        "two_level": Algorithm(bcast_two_level),
    },
    (Algorithm(impi_bcast),),
    intercomm.bcast,
)
GATHER: Final[Collective[[Block, Sequence[Block] | None, int]]] = Collective(
    "gather",
    {
        "shm": Algorithm(gather_shm, any_form=False, any_lengths=False),
        "binomial": Algorithm(gather_binomial, any_form=False, any_lengths=False),
        "linear": Algorithm(gather_linear),
        "two_level": Algorithm(gather_two_level, any_form=False, any_lengths=False),
    },
    (Algorithm(impi_gather, any_lengths=False), Algorithm(impi_gatherv)),
    intercomm.gather,
)
SCATTER: Final[Collective[[Sequence[Block] | None, Block, int]]] = Collective(
    "scatter",
    {
        "shm": Algorithm(scatter_shm, any_form=False, any_lengths=False),
        "binomial": Algorithm(scatter_binomial, any_form=False, any_lengths=False),
        "linear": Algorithm(scatter_linear),
        "two_level": Algorithm(scatter_two_level, any_form=False, any_lengths=False),
    },
    (Algorithm(impi_scatter, any_lengths=False), Algorithm(impi_scatterv)),
    intercomm.scatter,
)
ALLGATHER: Final[Collective[[Sequence[Block]]]] = Collective(
    "allgather",
    {
        "shm": Algorithm(allgather_shm, any_lengths=False),
        "bruck": Algorithm(allgather_bruck, any_form=False),
        "linear": Algorithm(allgather_linear),
        "recursive_doubling": Algorithm(allgather_recursive_doubling, any_form=False),
        "ring": Algorithm(allgather_ring),
        "two_level": Algorithm(allgather_two_level, any_form=False),
    },
    (Algorithm(impi_allgather, any_lengths=False), Algorithm(impi_allgatherv)),
)
ALLTOALL: Final[Collective[[Sequence[Block], Sequence[Block]]]] = Collective(
    "alltoall",
    {
        "shm": Algorithm(alltoall_shm, any_lengths=False),
        "bruck": Algorithm(alltoall_bruck, any_form=False, any_lengths=False),
        "linear": Algorithm(alltoall_linear),
        "pairwise": Algorithm(alltoall_pairwise),
        "two_level": Algorithm(alltoall_two_level, any_form=False, any_lengths=False),
    },
    (Algorithm(impi_alltoall, any_lengths=False), Algorithm(impi_alltoallv)),
    intercomm.exchange,
)
REDUCE: Final[Collective[[Accumulator, int]]] = Collective(
    "reduce",
    {
        "binomial": Algorithm(reduce_binomial),
        "shm": Algorithm(reduce_shm, any_form=False),
        "linear": Algorithm.cutting(reduce_linear),
        "rabenseifner": Algorithm.cutting(reduce_rabenseifner),
        "two_level": Algorithm(reduce_two_level, order_safe=False),
    },
    (Algorithm(impi_reduce.reduce_commutative, order_safe=False), Algorithm(impi_reduce.reduce_ordered)),
    intercomm.reduce,
)
ALLREDUCE: Final[Collective[[Accumulator]]] = Collective(
    "allreduce",
    {
        "shm": Algorithm(allreduce_shm),
        "linear": Algorithm.cutting(allreduce_linear),
        "recursive_doubling": Algorithm(allreduce_recursive_doubling),
        "rabenseifner": Algorithm.cutting(allreduce_rabenseifner),
        "ring": Algorithm.cutting(allreduce_ring, order_safe=False),
        "two_level": Algorithm.cutting(allreduce_two_level, order_safe=False),
    },
    (Algorithm(impi_reduce.allreduce_commutative, order_safe=False), Algorithm(impi_reduce.allreduce_ordered)),
    intercomm.allreduce,
)
REDUCE_SCATTER: Final[Collective[[Accumulator, Sequence[int]]]] = Collective(
    "reduce_scatter",
    {
        "recursive_halving": Algorithm.cutting(reduce_scatter_recursive_halving, order_safe=False),
        "pairwise": Algorithm.cutting(reduce_scatter_pairwise),
        "shm": Algorithm.cutting(reduce_scatter_shm),
    },
    (
        Algorithm(impi_reduce.reduce_scatter_commutative, order_safe=False),
        Algorithm(impi_reduce.reduce_scatter_ordered),
    ),
    intercomm.reduce_scatter,
)
SCAN: Final[Collective[[Accumulator]]] = Collective(
    "scan",
    {
        "shm": Algorithm(scan_shm, any_form=False),
        "linear": Algorithm(scan_linear),
        "recursive_doubling": Algorithm(scan_recursive_doubling),
    },
    (Algorithm(impi_reduce.scan),),
)
EXSCAN: Final[Collective[[Accumulator]]] = Collective(
    "exscan",
    {
        "shm": Algorithm(exscan_shm, any_form=False),
        "recursive_doubling": Algorithm(exscan_recursive_doubling),
    },
)

_ALL: Final[tuple[Collective[...], ...]] = (
    BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, REDUCE_SCATTER, SCAN, EXSCAN,
)  # fmt: skip

COLLECTIVES: Final[Mapping[str, Collective[...]]] = {collective.name: collective for collective in _ALL}
