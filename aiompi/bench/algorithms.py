"""Arguments and output table of the commands `simulate` and `tune`, which compare algorithms of collectives."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from aiompi.bench import arguments, numerals
from aiompi.coll.registry import COLLECTIVES
from aiompi.coll.select import Case, preferred

#: algorithm -> seconds, by size
Times: TypeAlias = Mapping[str, Sequence[float]]

LEGEND: Final = "* marks the fastest algorithm of a column, < the one that the tuning data choose."


def table(collective: str, ranks: int, sizes: Sequence[int], times: Times, *, shared_memory: bool) -> Iterator[str]:
    """Yield a heading, and a line per algorithm with its times.

    Args:
        sizes: bytes of one rank's block, or of the vector.
        shared_memory: True if the ranks share memory.
    """
    best = [min(column) for column in zip(*times.values(), strict=True)]
    cases = [Case(ranks, size, shared_memory=shared_memory) for size in sizes]
    chosen = [preferred(COLLECTIVES[collective], case) for case in cases]
    yield f"\n{f'{collective}, {ranks} ranks':34}" + "".join(f"{numerals.size(size):>14}  " for size in sizes)
    for name, row in times.items():
        marks = (
            ("*" if t == b else " ") + ("<" if name == c else " ") for t, b, c in zip(row, best, chosen, strict=True)
        )
        yield f"  {name:32}" + "".join(f"{t * 1e6:11.1f} us{m}" for t, m in zip(row, marks, strict=True))


def sizes_of(collective: str, sizes: Sequence[int]) -> Sequence[int]:
    """Return the sizes that matter to a collective."""
    return sizes if collective != "barrier" else [0]


def add_arguments(parser: argparse.ArgumentParser, ranks: str, sizes: str, most_ranks: int) -> None:
    """Add arguments for collectives, ranks and sizes. `ranks` and `sizes` are their defaults in command-line syntax."""
    add, of_ranks = parser.add_argument, arguments.ascending(arguments.count(most_ranks))
    known = arguments.name(COLLECTIVES)
    add("collectives", nargs="*", action=arguments.Once, metavar="collective", type=known, help="all by default")
    add("--ranks", type=of_ranks, default=of_ranks(ranks), metavar="N,...", help=f"at most {most_ranks} ({ranks})")
    arguments.add_sizes(parser, sizes)
