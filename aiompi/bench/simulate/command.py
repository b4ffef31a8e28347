"""The command: predicted times of all algorithms, by collective, number of ranks and size."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from aiompi.bench import algorithms
from aiompi.bench.simulate.calls import predict
from aiompi.bench.simulate.network import Model
from aiompi.coll.registry import COLLECTIVES

MOST_RANKS: Final = 1024

_EPILOG: Final = f"""\
A message of m bytes takes alpha + m * beta on both sides, combining m bytes gamma * m; sizes are those of a rank's
block, or of the vector. {algorithms.LEGEND}
A ring of 1,024 ranks is a million messages, which take half a minute to compute.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `python -m aiompi.bench simulate`; returns the exit code, 0."""
    arguments = _parser().parse_args(argv)
    model = Model(arguments.alpha * 1e-6, 1e-9 / arguments.bandwidth, 1e-9 / arguments.combining)
    for collective in arguments.collectives or COLLECTIVES:
        sizes = algorithms.sizes_of(collective, arguments.sizes)
        for ranks in arguments.ranks:
            times = predictions(collective, ranks, sizes, model)
            print("\n".join(algorithms.table(collective, ranks, sizes, times)), flush=True)
    return 0


def predictions(collective: str, ranks: int, sizes: Sequence[int], model: Model) -> algorithms.Times:
    """Times of all algorithms of a collective."""
    return {
        name: [predict(collective, name, ranks, size, model) for size in sizes]
        for name in COLLECTIVES[collective].algorithms
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aiompi.bench simulate",
        description="Predict the time of collectives on a network in the alpha-beta-gamma model.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    algorithms.add_arguments(parser, "4,16,64", "8,64k,4m", MOST_RANKS)
    add = parser.add_argument
    add("--alpha", type=_positive, default=30.0, metavar="US", help="microseconds per message (%(default)s)")
    add("--bandwidth", type=_positive, default=2.0, metavar="GB/S", help="1 / beta (%(default)s)")
    add("--combining", type=_positive, default=5.0, metavar="GB/S", help="1 / gamma (%(default)s)")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not greater than 0")
    return value
