"""Rules out of measured times: from what size on, and with how many ranks, which algorithm is taken."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from aiompi.bench.algorithms import Times
from aiompi.coll.select import tuning

#: how much faster an algorithm must be for a change, so that noise makes no rules
MARGIN: Final = 1.05


def derive(collective: str, sizes: Sequence[int], measured: Mapping[int, Times]) -> list[dict[str, Any]]:
    """Rules for a collective.

    Args:
        collective: name.
        sizes: bytes, ascending.
        measured: number of ranks, ascending -> times.

    Returns:
        For each number of ranks, up to which they hold, rules by size; those of the last hold for more ranks as well.
        At the end the rule that now serves every call.
    """
    rules = []
    for ranks, times in measured.items():
        limit = {} if ranks == max(measured) else {"max_ranks": ranks}
        rules += [{"algorithm": algorithm, **limit, **size} for algorithm, size in _by_size(sizes, times)]
    last = {"algorithm": tuning()[collective][-1].algorithm}
    return [*rules, last] if rules[-1] != last else rules


def render(rules: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Tuning data as text, a rule a line."""
    blocks = (f'  "{name}": [\n' + ",\n".join(f"    {json.dumps(rule)}" for rule in those) + "\n  ]"
              for name, those in rules.items())  # fmt: skip
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _by_size(sizes: Sequence[int], times: Times) -> Iterator[tuple[str, dict[str, int]]]:
    """The algorithms from small to large sizes, each with its limit, the last without one."""
    winners = _winners(times, len(sizes))
    for (size, winner), (larger, successor) in pairwise(zip(sizes, winners, strict=True)):
        if successor != winner:
            yield winner, {"max_bytes": _between(size, larger)}
    yield winners[-1], {}


def _winners(times: Times, number: int) -> list[str]:
    """The fastest algorithm for each size; the one before stays as long as none is faster by the margin."""
    winners: list[str] = []
    for i in range(number):
        fastest = min(times, key=lambda name: times[name][i])
        if winners and times[winners[-1]][i] <= times[fastest][i] * MARGIN:
            fastest = winners[-1]
        winners.append(fastest)
    return winners


def _between(size: int, larger: int) -> int:
    """The power of two in the middle of the two, at least the smaller one."""
    middle = math.sqrt(max(size, 1) * larger)
    return max(size, 1 << round(math.log2(middle)))
