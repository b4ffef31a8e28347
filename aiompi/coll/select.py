"""Selection: which algorithm serves a call.

The setting `coll` names one per collective (AIOMPI_COLL="bcast=binomial,reduce=binomial"). Otherwise, or where
that one cannot serve the call, `tuning.json` decides: for each collective a list of rules, of which the first
that applies to the call, and whose algorithm can serve it, wins. A rule applies to at most `max_ranks` ranks and
`max_bytes` bytes, both without limit when left out.

All ranks must choose alike, so that only what all know may count: the size of the communicator, the operation,
the form of the call, and the bytes of one rank's block, which they agree upon for buffers but not for objects.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pkgutil
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeAlias

from aiompi.coll.registry import COLLECTIVES, Algorithm, Collective
from aiompi.comm import Channel, Communicator
from aiompi.errors import InternalError, InvalidArgumentError

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One line of the tuning data; limits of None are no limits."""

    algorithm: str
    max_ranks: int | None = None
    max_bytes: int | None = None

    def applies(self, size: int, nbytes: int | None) -> bool:
        """Whether the rule is for `size` ranks with blocks of `nbytes`; None: not known to all ranks."""
        if self.max_ranks is not None and size > self.max_ranks:
            return False
        return self.max_bytes is None or (nbytes is not None and nbytes <= self.max_bytes)


Rules: TypeAlias = Mapping[str, tuple[Rule, ...]]


def parse(text: str | bytes) -> Rules:
    """Read tuning data.

    Raises:
        InvalidArgumentError: it names something unknown.
    """
    rules = {}
    for name, entries in json.loads(text).items():
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
    """The rules that come with the package."""
    data = pkgutil.get_data(__package__, "tuning.json")
    if data is None:
        raise InternalError("tuning.json is missing from the installed package aiompi.coll: install it again")
    return parse(data)


def select(
    comm: Communicator, collective: Collective[P], nbytes: int | None = None, commute: bool = True
) -> Callable[Concatenate[Channel, P], Coroutine[Any, None, None]]:
    """Choose the algorithm for a call.

    Args:
        nbytes: length of one rank's block; None for objects.
        commute: whether the operation of a reduction commutes.

    Raises:
        InvalidArgumentError: the setting `coll` names an unknown collective or algorithm.
    """
    forced = comm.engine.settings.coll
    if forced:
        check(forced)
        if collective.name in forced:
            algorithm = collective.algorithm(forced[collective.name])
            if _serves(algorithm, nbytes, commute):
                return algorithm.run
    for rule in tuning()[collective.name]:
        algorithm = collective.algorithms[rule.algorithm]
        if rule.applies(comm.size, nbytes) and _serves(algorithm, nbytes, commute):
            return algorithm.run
    raise InternalError(f"tuning.json has no algorithm for every call of {collective.name}")


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


def _serves(algorithm: Algorithm[P], nbytes: int | None, commute: bool) -> bool:
    return (algorithm.order_safe or commute) and (algorithm.any_form or nbytes is not None)
