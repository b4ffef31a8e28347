"""The command line: measures the figures, and prints which reach their targets."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from aiompi.bench import arguments, targets
from aiompi.bench.machine import idle_cores
from aiompi.bench.results import Results, show
from aiompi.bench.targets.figures import Figure, Options, head, line

_EPILOG = """\
Every figure is measured by turns with its floor: the same by bare sockets, a bare uvloop protocol, bare Python
processes, or mpi4py and MPICH, which pip install 'aiompi[bench]' installs. Values are medians over the turns. Processes
of a contender are bound to a core each, as far as there are as many: taskset -c 0 python -m aiompi.bench targets has
them share one.
"""


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench targets`. Missed targets are not an error.

    Raises:
        BenchError: something could not be measured or written.
        BrokenPipeError: nothing reads the output any more.
    """
    chosen = _parser().parse_args(argv)
    options = Options(chosen.repeat, chosen.quick)
    results = Results(chosen.json, repeat=chosen.repeat, quick=chosen.quick, awake=chosen.awake)
    show(results.head)
    families = chosen.families or targets.FAMILIES
    figures: dict[str, list[dict[str, Any]]] = {}
    with idle_cores(chosen.awake):
        for name in families:
            figures[name] = [figure.record() for figure in _measured(name, options)]
            last = name == families[-1]
            results.save(complete=last, more=not last, figures=figures)


def _measured(name: str, options: Options) -> Iterator[Figure]:
    """Return the figures of a family; print each when it is measured."""
    family = targets.family(name)
    note = f"{family.note}\n" if family.note else ""
    show(f"\n{note}{head(family.title, family.beside)}")
    for figure in family.figures(options):
        show(line(figure))
        yield figure


def _parser() -> argparse.ArgumentParser:
    families, comparisons = ", ".join(targets.FAMILIES), ", ".join(targets.COMPARISONS)
    description = "Measure the figures that aiompi is to reach, each beside its floor."
    parser = arguments.parser("targets", description, _EPILOG)
    known = arguments.name(targets.FAMILIES + targets.COMPARISONS)
    parser.add_argument(
        "families",
        nargs="*",
        action=arguments.Once,
        metavar="family",
        type=known,
        help=f"what to measure: {families} by default, or {comparisons}",
    )
    arguments.add_turns(parser, Options().repeat)
    arguments.add_results(parser)
    arguments.add_awake(parser)
    return parser
