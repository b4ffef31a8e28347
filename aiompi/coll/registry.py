"""Registry: the collectives, and the algorithms of each by name.

An algorithm is the coroutine that its file is named after. What it takes behind the channel is the same for all
algorithms of a collective, and described in their folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Final, Generic, ParamSpec

from aiompi.coll.allgather.ring import ring as allgather_ring
from aiompi.coll.allreduce.recursive_doubling import recursive_doubling as allreduce_recursive_doubling
from aiompi.coll.alltoall.linear import linear as alltoall_linear
from aiompi.coll.barrier.dissemination import dissemination as barrier_dissemination
from aiompi.coll.bcast.binomial import binomial as bcast_binomial
from aiompi.coll.gather.linear import linear as gather_linear
from aiompi.coll.operand import Operand
from aiompi.coll.reduce.binomial import binomial as reduce_binomial
from aiompi.coll.scatter.linear import linear as scatter_linear
from aiompi.coll.slot import Slot
from aiompi.comm import Channel
from aiompi.errors import InvalidArgumentError

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True, slots=True)
class Algorithm(Generic[P]):
    """One algorithm of a collective.

    Attributes:
        run: the coroutine; it awaits nothing but requests of the channel.
        order_safe: whether operands are combined in the order of ranks; if not, it serves only operations that commute.
        any_form: whether it moves slots and operands as a whole; if not, it cuts them into pieces, and serves only
            buffers, whose length all ranks know.
    """

    run: Callable[Concatenate[Channel, P], Coroutine[Any, None, None]]
    order_safe: bool = True
    any_form: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Collective(Generic[P]):
    """A collective.

    Attributes:
        name: in tuning data and settings.
        algorithms: by name.
    """

    name: str
    algorithms: Mapping[str, Algorithm[P]]

    def algorithm(self, name: str) -> Algorithm[P]:
        """
        Raises:
            InvalidArgumentError: there is no algorithm of that name.
        """
        found = self.algorithms.get(name)
        if found is None:
            raise InvalidArgumentError(
                f"{self.name} has no algorithm {name!r}; it has {', '.join(sorted(self.algorithms))}"
            )
        return found


BARRIER: Final[Collective[[]]] = Collective("barrier", {"dissemination": Algorithm(barrier_dissemination)})
BCAST: Final[Collective[[Slot, int]]] = Collective("bcast", {"binomial": Algorithm(bcast_binomial)})
GATHER: Final[Collective[[Slot, Sequence[Slot] | None, int]]] = Collective(
    "gather", {"linear": Algorithm(gather_linear)}
)
SCATTER: Final[Collective[[Sequence[Slot] | None, Slot, int]]] = Collective(
    "scatter", {"linear": Algorithm(scatter_linear)}
)
ALLGATHER: Final[Collective[[Sequence[Slot]]]] = Collective("allgather", {"ring": Algorithm(allgather_ring)})
ALLTOALL: Final[Collective[[Sequence[Slot], Sequence[Slot]]]] = Collective(
    "alltoall", {"linear": Algorithm(alltoall_linear)}
)
REDUCE: Final[Collective[[Operand, int]]] = Collective("reduce", {"binomial": Algorithm(reduce_binomial)})
ALLREDUCE: Final[Collective[[Operand]]] = Collective(
    "allreduce", {"recursive_doubling": Algorithm(allreduce_recursive_doubling)}
)

COLLECTIVES: Final[Mapping[str, Collective[...]]] = {
    collective.name: collective
    for collective in (BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE)
}
