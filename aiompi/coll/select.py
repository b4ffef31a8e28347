"""Selection: which algorithm serves a call.

A call may name an algorithm. The setting `coll` names an algorithm for a collective
(AIOMPI_COLL="bcast=binomial,reduce=binomial"); this algorithm runs each call that it can serve. Otherwise `tuning.json`
decides. This file has a list of rules for each collective. A call uses the first rule that applies to the call and
whose algorithm can serve the call. A rule has three limits: `max_ranks` for the number of ranks, `max_bytes` for the
bytes of one rank's block, and `max_total` for the bytes of the blocks of all ranks. A limit may be omitted. A rule may
have further conditions: `power_of_two`: the number of ranks is a power of two; `objects`: each rank knows only the
length of its own block; `shared_memory`: all ranks share memory; `hosts`: the ranks are on several hosts and some of
them share memory. The file also names the machine and the command that made it.

On a communicator that spans IMPI clients, calls on buffers use only the algorithms of IMPI 0.0, if that standard has
the collective.

All ranks must choose the same algorithm. Therefore the choice depends only on facts that all ranks know: the
communicator, the operation, the form of the call, and the length of one rank's block, which is known for buffers but
not for objects.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeAlias

from aiompi.coll.registry import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BCAST,
    COLLECTIVES,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCAN,
    SCATTER,
    Algorithm,
    Collective,
)
from aiompi.coll.signature import note_of
from aiompi.comm import Channel, Communicator
from aiompi.engine import MOST_IN_ROUNDS, ROOM, room
from aiompi.errors import InternalError, InvalidArgumentError, InvalidCommError

P = ParamSpec("P")
#: name of the algorithms that go through slots
_SLOTS: Final = "shm"


class Case(NamedTuple):
    """The properties of a call on which the choice depends; all ranks know the same values.

    Attributes:
        size: number of ranks.
        nbytes: bytes of one rank's block (the mean, if the blocks differ), or of the vector of a reduction. None for
            objects, and if not all ranks know the number.
        commute: True if the operation of a reduction commutes.
        equal: True if all blocks are equally long.
        shared_memory: True if all ranks share memory.
        hosts: True if the ranks are on several hosts, and some share memory.
    """

    size: int
    nbytes: int | None = None
    commute: bool = True
    equal: bool = True
    shared_memory: bool = False
    hosts: bool = False

    def obstacle(self, algorithm: Algorithm[P]) -> str | None:
        """Return the kind of calls to which the algorithm is limited; None if it can serve this call."""
        if not (algorithm.order_safe or self.commute):
            return "operations that commute"
        if not algorithm.any_form and self.nbytes is None:
            return "buffers whose length all ranks know"
        if not (algorithm.any_lengths or self.equal):
            return "blocks of equal length"
        return None


class Rule(NamedTuple):
    """One line of the tuning data; a limit that is None does not apply."""

    algorithm: str
    max_ranks: int | None = None
    max_bytes: int | None = None
    max_total: int | None = None
    power_of_two: bool = False
    shared_memory: bool = False
    objects: bool = False
    hosts: bool = False

    def applies(self, case: Case) -> bool:
        """Return True if the rule applies to a call."""
        size, nbytes = case.size, case.nbytes
        if self.max_ranks is not None and size > self.max_ranks:
            return False
        if self.shared_memory and not case.shared_memory:
            return False
        if self.hosts and not case.hosts:
            return False
        if self.power_of_two and size & (size - 1):
            return False
        if self.objects and nbytes is not None:
            return False
        if self.max_total is not None and (nbytes is None or nbytes * size > self.max_total):
            return False
        return self.max_bytes is None or (nbytes is not None and nbytes <= self.max_bytes)


Rules: TypeAlias = Mapping[str, tuple[Rule, ...]]


def parse(text: str | bytes) -> Rules:
    """Read tuning data.

    Raises:
        InvalidArgumentError: the data names an unknown collective or algorithm.
    """
    rules = {}
    for name, entries in json.loads(text)["rules"].items():
        collective = _collective(name)
        try:
            rules[name] = tuple(Rule(**entry) for entry in entries)
        except TypeError as error:
            raise InvalidArgumentError(f"tuning data of {name}: {error}") from None
        for rule in rules[name]:
            collective.algorithm(rule.algorithm)
    return rules


@functools.cache
def tuning() -> Rules:
    """Return the rules that come with the package."""
    try:
        with open(os.path.join(os.path.dirname(__file__), "tuning.json"), "rb") as file:
            return parse(file.read())
    except FileNotFoundError:
        raise InternalError("tuning.json is missing from the installed package aiompi.coll: install it again") from None


def select(
    comm: Communicator,
    collective: Collective[P],
    nbytes: int | None = None,
    *,
    commute: bool = True,
    equal: bool = True,
    algorithm: str | None = None,
) -> Callable[Concatenate[Channel, P], Coroutine[Any, None, None]]:
    """Choose the algorithm for a call. On an intercommunicator it is always the algorithm between groups.

    Args:
        nbytes, commute, equal: see `Case`.
        algorithm: name, the same on all ranks; None if the setting or the tuning data decide.

    Raises:
        InvalidArgumentError: the call names an unknown algorithm, or an algorithm that cannot serve the call; or the
            setting `coll` names an unknown collective or algorithm.
        InvalidCommError: the collective is not defined on an intercommunicator.
    """
    if comm.remote is not None:
        if collective.between_groups is None:
            raise InvalidCommError(
                f"{comm.where(collective.name)}: not defined on an intercommunicator; merge it, or use its local group"
            )
        run = collective.between_groups
    else:
        case = Case(comm.size, nbytes, commute, equal, comm.shares_memory, comm.spans_hosts)
        if algorithm is not None:
            run = _named(collective, algorithm, case).run
        else:
            run = _forced(comm, collective, case) or usual(collective, case)
    recorder = comm.engine.recorder
    if recorder is not None:
        recorder.word = recorder.naming.word(getattr(run, "func", run).__name__)  # in the record of the call
    return run


def _forced(
    comm: Communicator, collective: Collective[P], case: Case
) -> Callable[Concatenate[Channel, P], Coroutine[Any, None, None]] | None:
    """Return the algorithm that the setting `coll` names, if that algorithm can serve the call; otherwise None."""
    forced = comm.engine.settings.coll
    if not forced:
        return None
    check(forced)
    if collective.name not in forced:
        return None
    candidate = collective.algorithm(forced[collective.name])
    return candidate.run if case.obstacle(candidate) is None else None


def select_over_clients(
    collective: Collective[P], case: Case, algorithm: str | None
) -> Callable[Concatenate[Channel, P], Coroutine[Any, None, None]]:
    """Return the algorithm of IMPI 0.0 for a call on buffers, in which ranks of other implementations may take part.

    Args:
        collective: a collective that IMPI 0.0 has.
        algorithm: algorithm that the call names; must be None, because a call over clients cannot choose.

    Raises:
        InvalidArgumentError: the call names an algorithm.
    """
    if algorithm is not None:
        raise InvalidArgumentError(
            f"algorithm {algorithm!r} of {collective.name}: the communicator spans IMPI clients, where the "
            "algorithms are those of IMPI 0.0; leave the choice to aiompi"
        )
    return next(able.run for able in collective.over_clients if case.obstacle(able) is None)


@functools.lru_cache(2**12)
def usual(collective: Collective[...], case: Case) -> Callable[..., Coroutine[Any, None, None]]:
    """Return the algorithm that the tuning data choose.

    If this algorithm uses slots, the function has a substitute: the best algorithm without slots. The substitute serves
    calls in which the members have no slots, or no slots yet.
    """
    name = preferred(collective, case)
    run = collective.algorithms[name].run
    if name != _SLOTS:
        return run
    substitute = preferred(collective, case, slots=False)
    return functools.partial(run, otherwise=collective.algorithms[substitute].run)


@functools.lru_cache(2**12)
def preferred(collective: Collective[...], case: Case, *, slots: bool = True) -> str:
    """Return the name of the algorithm that the tuning data choose; if `slots` is False, never `shm`."""
    for rule in tuning()[collective.name]:
        if rule.algorithm == _SLOTS and not slots:
            continue
        if case.obstacle(collective.algorithms[rule.algorithm]) is None and rule.applies(case):
            return rule.algorithm
    raise InternalError(f"tuning.json has no algorithm for every call of {collective.name}")


def direct_limits(comm: Communicator) -> dict[int, int]:
    """Return, by number of the collective (`aiompi.coll.signature`), the bytes of the longest block that uses slots.

    The collectives are those on buffers that the core can call directly. For blocks up to this length `preferred`
    chooses slots.
    """
    return {} if comm.engine.settings.coll else _direct_limits(comm.size, room(comm.context_id))


@functools.cache
def _direct_limits(size: int, most: int) -> dict[int, int]:
    limits = {}
    for name, (collective, shown) in _DIRECT.items():
        rules = tuning()[collective.name]
        lengths = sorted({0, _UNLIMITED, *(rule.max_bytes or (rule.max_total or 0) // size for rule in rules)})
        cases = (Case(size, nbytes, shared_memory=True) for nbytes in lengths)  # all operations of the core commute
        beyond = next((case.nbytes for case in cases if preferred(collective, case) != _SLOTS), None)
        limit = max((nbytes for nbytes in lengths if beyond is None or nbytes < beyond), default=-1)
        if name not in _IN_ROUNDS or most < ROOM or size > MOST_IN_ROUNDS:
            limit = min(limit, most // size if shown else most)
        limits[note_of(name, None, None)] = limit
    return limits


#: the collectives that the core can call directly; True if the blocks of all ranks together must fit in a slot
_DIRECT: Final[Mapping[str, tuple[Collective[...], bool]]] = {
    "Barrier": (BARRIER, False),
    "Bcast": (BCAST, False),
    "Gather": (GATHER, False),
    "Scatter": (SCATTER, True),
    "Allgather": (ALLGATHER, False),
    "Alltoall": (ALLTOALL, True),
    "Reduce": (REDUCE, False),
    "Allreduce": (ALLREDUCE, True),
    "Reduce_scatter_block": (REDUCE_SCATTER, False),
    "Scan": (SCAN, False),
}


#: the collectives of `_DIRECT` whose blocks may be longer than a slot
_IN_ROUNDS: Final = frozenset({"Bcast", "Allgather", "Alltoall", "Reduce", "Allreduce"})
#: more bytes than memory has
_UNLIMITED: Final = 2**47


def check(coll: Mapping[str, str]) -> None:
    """Check the setting `coll`.

    Raises:
        InvalidArgumentError: it names an unknown collective or algorithm.
    """
    for name, algorithm in coll.items():
        try:
            _collective(name).algorithm(algorithm)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"setting coll (AIOMPI_COLL): {error}") from None


def _collective(name: str) -> Collective[...]:
    found = COLLECTIVES.get(name)
    if found is None:
        raise InvalidArgumentError(f"there is no collective {name!r}; there are {', '.join(sorted(COLLECTIVES))}")
    return found


def _named(collective: Collective[P], name: str, case: Case) -> Algorithm[P]:
    algorithm = collective.algorithm(name)
    obstacle = case.obstacle(algorithm)
    if obstacle is not None:
        able = [name for name, other in collective.algorithms.items() if case.obstacle(other) is None]
        raise InvalidArgumentError(
            f"algorithm {name!r} of {collective.name} serves only {obstacle}; this call takes {', '.join(sorted(able))}"
        )
    return algorithm
