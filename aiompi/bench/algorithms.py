"""Algorithms of collectives beside each other: the arguments and the table of `simulate` and `tune`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from aiompi.coll.registry import COLLECTIVES
from aiompi.coll.select import preferred

#: algorithm -> seconds, by size
Times: TypeAlias = Mapping[str, Sequence[float]]

LEGEND: Final = "* marks the fastest algorithm of a column, < the one that the tuning data choose."

_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20}


def table(collective: str, ranks: int, sizes: Sequence[int], times: Times) -> Iterator[str]:
    """A heading, and a line per algorithm with its times.

    Args:
        sizes: bytes of one rank's block, or of the vector.
    """
    best = [min(column) for column in zip(*times.values(), strict=True)]
    chosen = [preferred(COLLECTIVES[collective], ranks, size) for size in sizes]
    yield f"\n{f'{collective}, {ranks} ranks':34}" + "".join(f"{bytes_text(size):>14}  " for size in sizes)
    for name, row in times.items():
        marks = (
            ("*" if t == b else " ") + ("<" if name == c else " ") for t, b, c in zip(row, best, chosen, strict=True)
        )
        yield f"  {name:32}" + "".join(f"{t * 1e6:11.1f} us{m}" for t, m in zip(row, marks, strict=True))


def sizes_of(collective: str, sizes: Sequence[int]) -> Sequence[int]:
    """The sizes that make a difference."""
    return sizes if collective != "barrier" else [0]


def add_arguments(parser: argparse.ArgumentParser, ranks: str, sizes: str, most_ranks: int) -> None:
    """Which collectives, numbers of ranks and sizes; the last two as the user would write the defaults."""
    add, of_ranks = parser.add_argument, list_of(rank_count(most_ranks))
    add("collectives", nargs="*", metavar="collective", type=_collective, help="all by default")
    add("--ranks", type=of_ranks, default=of_ranks(ranks), metavar="N,...", help=f"at most {most_ranks} ({ranks})")
    add("--sizes", type=size_list, default=size_list(sizes), metavar="BYTES,...", help=f"({sizes})")


def list_of(item: Callable[[str], int]) -> Callable[[str], list[int]]:
    """Reads a list with commas, in order."""
    return lambda text: sorted({item(part.strip().lower()) for part in text.split(",")})


def size_list(text: str) -> list[int]:
    """Reads sizes such as 8,64k,4m."""
    return list_of(_size)(text)


def rank_count(most: int) -> Callable[[str], int]:
    """Reads a number of ranks."""

    def count(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {most}")
        return int(text)

    return count


def _size(text: str) -> int:
    digits = text.rstrip("km")
    unit = text[len(digits) :]
    if not digits.isdecimal() or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 8, 64k or 4m")
    return int(digits) * _UNITS[unit]


def _collective(text: str) -> str:
    if text not in COLLECTIVES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(COLLECTIVES)}")
    return text


def bytes_text(size: int) -> str:
    """A number of bytes as one writes it."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
