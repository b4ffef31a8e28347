"""Derives rules from measured times: which algorithm to use up to which size and up to which number of ranks.

No times are measured for larger numbers of ranks, for ranks that share no memory, and for objects. The present rules
for these cases stay.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from aiompi.bench.algorithms import Times
from aiompi.coll.select import Case, Rule, tuning

#: how much faster an algorithm must be to replace another, so that noise does not change rules
MARGIN: Final = 1.1


def derive(collective: str, sizes: Sequence[int], measured: Mapping[int, Times]) -> list[dict[str, Any]]:
    """Return the rules for a collective.

    Args:
        collective: name.
        sizes: bytes, ascending.
        measured: number of ranks, ascending -> times.

    Returns:
        The present rules for objects, then the new rules by number of ranks and size, then the other present rules.
    """
    present = tuning()[collective]
    rules = [rule for rule in present if rule.objects]
    rules += [
        Rule(algorithm, ranks, max_bytes, shared_memory=True)
        for ranks, times in measured.items()
        for algorithm, max_bytes in _by_size(sizes, times, _incumbent(present, ranks, sizes[0]))
    ]
    others = (rule for rule in present if not rule.objects)
    rules += [rule for rule in others if not rule.shared_memory or (rule.max_ranks or math.inf) > max(measured)]
    # From the end, so that each rule is compared with a following rule that stays.
    needed = rules[-1:]
    for rule in reversed(rules[:-1]):
        if not _covers(needed[0], rule):
            needed.insert(0, rule)
    return [_entry(rule) for rule in needed]


def _incumbent(present: Sequence[Rule], ranks: int, size: int) -> str:
    """Return the algorithm that the present rules choose."""
    case = Case(ranks, size, shared_memory=True)
    return next(rule.algorithm for rule in present if rule.applies(case))


def _covers(following: Rule, rule: Rule) -> bool:
    """Return True if `following` makes `rule` redundant: `following` has the same algorithm and no narrower limits."""
    limits = [(getattr(following, name), getattr(rule, name)) for name in ("max_ranks", "max_bytes", "max_total")]
    wider = all(limit is None or (other is not None and limit >= other) for limit, other in limits)
    wider = wider and not following.power_of_two and (rule.shared_memory or not following.shared_memory)
    wider = wider and (rule.objects or not following.objects)
    return wider and following.algorithm == rule.algorithm


def _entry(rule: Rule) -> dict[str, Any]:
    """Return a rule as in tuning data, without its defaults."""
    defaults = Rule._field_defaults
    return {name: value for name, value in rule._asdict().items() if name not in defaults or value != defaults[name]}


def render(rules: Mapping[str, Sequence[Mapping[str, Any]]], origin: Mapping[str, str]) -> str:
    """Return tuning data as text, one rule per line.

    Args:
        rules: rules by collective.
        origin: how the rules were made.
    """
    blocks = (f'    "{name}": [\n' + ",\n".join(f"      {json.dumps(rule)}" for rule in those) + "\n    ]"
              for name, those in rules.items())  # fmt: skip
    made = (f"    {json.dumps(name)}: {json.dumps(text)}" for name, text in origin.items())
    parts = {"origin": ",\n".join(made), "rules": ",\n".join(blocks)}
    return "{\n" + ",\n".join(f'  "{name}": {{\n{text}\n  }}' for name, text in parts.items()) + "\n}\n"


def _by_size(sizes: Sequence[int], times: Times, incumbent: str) -> Iterator[tuple[str, int | None]]:
    """Yield the algorithms from small to large sizes, each with its maximum size; the last has None."""
    winners = _winners(times, len(sizes), incumbent)
    for (size, winner), (larger, successor) in pairwise(zip(sizes, winners, strict=True)):
        if successor != winner:
            yield winner, _between(size, larger)
    yield winners[-1], None


def _winners(times: Times, number: int, incumbent: str) -> list[str]:
    """Return an algorithm for each size. The algorithm of the preceding size stays if no other is faster by MARGIN."""
    winners = [incumbent]
    for i in range(number):
        fastest = min(times, key=lambda name: times[name][i])
        before = times.get(winners[-1])
        winners.append(winners[-1] if before and before[i] <= times[fastest][i] * MARGIN else fastest)
    return winners[1:]


def _between(size: int, larger: int) -> int:
    """Return the power of two nearest to the geometric mean of two sizes, but at least the smaller size."""
    middle = math.sqrt(max(size, 1) * larger)
    return max(size, 1 << round(math.log2(middle)))
