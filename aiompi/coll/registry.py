"""Registry: the collectives, and the algorithms of each by name.

An algorithm is a coroutine function in the module of its collective. Its name is the name of the function. The first
argument is the channel. The docstring of the module describes the other arguments, which are the same for all
algorithms of a collective.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Final, Generic, NamedTuple, ParamSpec

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.algorithms import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    bcast,
    exscan,
    gather,
    impi,
    intercomm,
    reduce,
    reduce_scatter,
    scan,
    scatter,
)
from aiompi.coll.block import Block
from aiompi.comm import Channel
from aiompi.errors import InvalidArgumentError

P = ParamSpec("P")


class Algorithm(NamedTuple, Generic[P]):
    """One algorithm of a collective.

    Attributes:
        run: the coroutine; it awaits nothing but requests of the channel.
        order_safe: True if the algorithm combines in the order of ranks; otherwise it serves only commutative
            operations.
        any_form: True if the algorithm moves blocks and accumulators as a whole. If it is False, the algorithm cuts
            blocks or accumulators into pieces, and serves only buffers whose length all ranks know.
        any_lengths: True if the blocks of buffers may differ in length, as in Gatherv. An algorithm that cuts blocks
            can also have `any_lengths`, if all ranks know all lengths, as in Allgatherv.
    """

    run: Callable[Concatenate[Channel, P], Coroutine[Any, None, None]]
    order_safe: bool = True
    any_form: bool = True
    any_lengths: bool = True

    @classmethod
    def cutting(cls, run: Callable[..., Coroutine[Any, None, None]], *, order_safe: bool = True) -> Algorithm[P]:
        """Make the entry of an algorithm that cuts accumulators, and therefore takes a `Vector`."""
        return cls(run, order_safe, any_form=False)


@dataclasses.dataclass(slots=True, eq=False)
class Collective(Generic[P]):
    """A collective; each is equal to itself only.

    Attributes:
        name: in tuning data and settings.
        algorithms: by name.
        over_clients: algorithms of IMPI 0.0, for buffers on communicators that span clients. The first algorithm that
            can serve a call is used. Empty for a collective that is not in IMPI 0.0.
        between_groups: algorithm for intercommunicators. None if the collective is not defined on intercommunicators,
            and for Allgather, which uses Alltoall's algorithm there.
    """

    name: str
    algorithms: Mapping[str, Algorithm[P]]
    over_clients: tuple[Algorithm[P], ...] = ()
    between_groups: Callable[Concatenate[Channel, P], Coroutine[Any, Any, None]] | None = None

    def algorithm(self, name: str) -> Algorithm[P]:
        """Return the algorithm of a name.

        Raises:
            InvalidArgumentError: no algorithm has this name.
        """
        found = self.algorithms.get(name)
        if found is None:
            raise InvalidArgumentError(
                f"{self.name} has no algorithm {name!r}; it has {', '.join(sorted(self.algorithms))}"
            )
        return found


def _by_name(*algorithms: Algorithm[P]) -> dict[str, Algorithm[P]]:
    return {algorithm.run.__name__: algorithm for algorithm in algorithms}


BARRIER: Final[Collective[[]]] = Collective(
    "barrier",
    _by_name(
        Algorithm(barrier.shm),
        Algorithm(barrier.dissemination),
        Algorithm(barrier.two_level),
    ),
    (Algorithm(impi.barrier),),
    intercomm.barrier,
)
BCAST: Final[Collective[[Block, int]]] = Collective(
    "bcast",
    _by_name(
        Algorithm(bcast.shm),
        Algorithm(bcast.binomial),
        Algorithm(bcast.linear),
        Algorithm(bcast.scatter_recursive_doubling, any_form=False),
        Algorithm(bcast.scatter_ring, any_form=False),
        Algorithm(bcast.pipelined_chain, any_form=False),
        Algorithm(bcast.two_level),
    ),
    (Algorithm(impi.bcast),),
    intercomm.bcast,
)
GATHER: Final[Collective[[Block, Sequence[Block] | None, int]]] = Collective(
    "gather",
    _by_name(
        Algorithm(gather.shm, any_form=False, any_lengths=False),
        Algorithm(gather.binomial, any_form=False, any_lengths=False),
        Algorithm(gather.linear),
        Algorithm(gather.two_level, any_form=False, any_lengths=False),
    ),
    (Algorithm(impi.gather, any_lengths=False), Algorithm(impi.gatherv)),
    intercomm.gather,
)
SCATTER: Final[Collective[[Sequence[Block] | None, Block, int]]] = Collective(
    "scatter",
    _by_name(
        Algorithm(scatter.shm, any_form=False, any_lengths=False),
        Algorithm(scatter.binomial, any_form=False, any_lengths=False),
        Algorithm(scatter.linear),
        Algorithm(scatter.two_level, any_form=False, any_lengths=False),
    ),
    (Algorithm(impi.scatter, any_lengths=False), Algorithm(impi.scatterv)),
    intercomm.scatter,
)
ALLGATHER: Final[Collective[[Sequence[Block]]]] = Collective(
    "allgather",
    _by_name(
        Algorithm(allgather.shm, any_lengths=False),
        Algorithm(allgather.bruck, any_form=False),
        Algorithm(allgather.linear),
        Algorithm(allgather.recursive_doubling, any_form=False),
        Algorithm(allgather.ring),
        Algorithm(allgather.two_level, any_form=False),
    ),
    (Algorithm(impi.allgather, any_lengths=False), Algorithm(impi.allgatherv)),
)
ALLTOALL: Final[Collective[[Sequence[Block], Sequence[Block]]]] = Collective(
    "alltoall",
    _by_name(
        Algorithm(alltoall.shm, any_lengths=False),
        Algorithm(alltoall.bruck, any_form=False, any_lengths=False),
        Algorithm(alltoall.linear),
        Algorithm(alltoall.pairwise),
        Algorithm(alltoall.two_level, any_form=False, any_lengths=False),
    ),
    (Algorithm(impi.alltoall, any_lengths=False), Algorithm(impi.alltoallv)),
    intercomm.exchange,
)
REDUCE: Final[Collective[[Accumulator, int]]] = Collective(
    "reduce",
    _by_name(
        Algorithm(reduce.binomial),
        Algorithm(reduce.shm, any_form=False),
        Algorithm.cutting(reduce.linear),
        Algorithm.cutting(reduce.rabenseifner),
        Algorithm(reduce.two_level, order_safe=False),
    ),
    (Algorithm(impi.reduce_commutative, order_safe=False), Algorithm(impi.reduce_ordered)),
    intercomm.reduce,
)
ALLREDUCE: Final[Collective[[Accumulator]]] = Collective(
    "allreduce",
    _by_name(
        Algorithm(allreduce.shm),
        Algorithm.cutting(allreduce.linear),
        Algorithm(allreduce.recursive_doubling),
        Algorithm.cutting(allreduce.rabenseifner),
        Algorithm.cutting(allreduce.ring, order_safe=False),
        Algorithm.cutting(allreduce.two_level, order_safe=False),
    ),
    (Algorithm(impi.allreduce_commutative, order_safe=False), Algorithm(impi.allreduce_ordered)),
    intercomm.allreduce,
)
REDUCE_SCATTER: Final[Collective[[Accumulator, Sequence[int]]]] = Collective(
    "reduce_scatter",
    _by_name(
        Algorithm.cutting(reduce_scatter.recursive_halving, order_safe=False),
        Algorithm.cutting(reduce_scatter.pairwise),
        Algorithm.cutting(reduce_scatter.shm),
    ),
    (
        Algorithm(impi.reduce_scatter_commutative, order_safe=False),
        Algorithm(impi.reduce_scatter_ordered),
    ),
    intercomm.reduce_scatter,
)
SCAN: Final[Collective[[Accumulator]]] = Collective(
    "scan",
    _by_name(
        Algorithm(scan.shm, any_form=False),
        Algorithm(scan.linear),
        Algorithm(scan.recursive_doubling),
    ),
    (Algorithm(impi.scan),),
)
EXSCAN: Final[Collective[[Accumulator]]] = Collective(
    "exscan",
    _by_name(
        Algorithm(exscan.shm, any_form=False),
        Algorithm(exscan.recursive_doubling),
    ),
)

_ALL: Final[tuple[Collective[...], ...]] = (
    BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, REDUCE_SCATTER, SCAN, EXSCAN,
)  # fmt: skip

COLLECTIVES: Final[Mapping[str, Collective[...]]] = {collective.name: collective for collective in _ALL}
