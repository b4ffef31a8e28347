"""The command line: prints predicted times of all algorithms, by collective, number of ranks and size."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from aiompi.bench import algorithms, arguments
from aiompi.bench.results import show
from aiompi.bench.simulate.calls import predict
from aiompi.bench.simulate.network import Model
from aiompi.coll.registry import COLLECTIVES

MOST_RANKS: Final = 1024

_EPILOG: Final = f"""\
A message of m bytes takes alpha + m * beta on both sides, combining m bytes gamma * m; sizes are those of a rank's
block, or of the vector. {algorithms.LEGEND}
A ring of 1,024 ranks is a million messages, which take half a minute to compute.
"""


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench simulate`.

    Raises:
        BenchError: something could not be written.
        BrokenPipeError: nothing reads the output any more.
    """
    chosen = _parser().parse_args(argv)
    model = Model(chosen.alpha * 1e-6, 1e-9 / chosen.bandwidth, 1e-9 / chosen.combining)
    for collective in chosen.collectives or COLLECTIVES:
        sizes = algorithms.sizes_of(collective, chosen.sizes)
        for ranks in chosen.ranks:
            times = predictions(collective, ranks, sizes, model)
            show("\n".join(algorithms.table(collective, ranks, sizes, times, shared_memory=False)))


def predictions(collective: str, ranks: int, sizes: Sequence[int], model: Model) -> algorithms.Times:
    """Return the times of all algorithms of a collective."""
    return {
        name: [predict(collective, name, ranks, size, model) for size in sizes]
        for name in COLLECTIVES[collective].algorithms
    }


def _parser() -> argparse.ArgumentParser:
    description = "Predict the time of collectives on a network in the alpha-beta-gamma model."
    parser = arguments.parser("simulate", description, _EPILOG)
    algorithms.add_arguments(parser, "4,16,64", "8,64k,4m", MOST_RANKS)
    add = parser.add_argument
    add("--alpha", type=arguments.positive, default=30.0, metavar="US", help="microseconds per message (%(default)s)")
    add("--bandwidth", type=arguments.positive, default=2.0, metavar="GB/S", help="1 / beta (%(default)s)")
    add("--combining", type=arguments.positive, default=5.0, metavar="GB/S", help="1 / gamma (%(default)s)")
    return parser
