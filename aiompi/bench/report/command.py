"""The command: measure the figures, and say which reach their targets."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aiompi.bench import report
from aiompi.bench.machine import machine
from aiompi.bench.report import table
from aiompi.bench.report.contender import BenchError
from aiompi.bench.report.family import Options
from aiompi.bench.report.figure import Figure

_EPILOG = """\
Every figure is measured by turns with its floor: what bare sockets, a bare uvloop protocol, bare Python processes, or
NumPy's own expressions need for the same; collectives with mpi4py and MPICH, which pip install 'aiompi[bench]'
installs. Values are medians over the turns. Processes of a contender are bound to a core each, as far as there are as
many: taskset -c 0 python -m aiompi.bench targets has them share one.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `python -m aiompi.bench targets`.

    Returns:
        The exit code: 0, also when a target is missed; 1 when something could not be measured.
    """
    arguments = _parser().parse_args(argv)
    options = Options(arguments.repeat, arguments.quick)
    results: dict[str, Any] = {"machine": machine(), "options": dataclasses.asdict(options), "figures": {}}
    print(", ".join(f"{name} {value}" for name, value in results["machine"].items()), flush=True)
    try:
        for name in arguments.families or report.FAMILIES:
            results["figures"][name] = [figure.record() for figure in _measured(name, options)]
            if arguments.json is not None:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    except (BenchError, OSError) as error:
        print(f"aiompi.bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _measured(name: str, options: Options) -> Iterator[Figure]:
    """The figures of a family, printed as they come."""
    family = report.family(name)
    note = f"{family.note}\n" if family.note else ""
    print(f"\n{note}{table.head(family.title, family.beside)}", flush=True)
    for figure in family.figures(options):
        print(table.line(figure), flush=True)
        yield figure


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aiompi.bench targets",
        description="Measure the figures that aiompi is to reach, each beside its floor.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "families",
        nargs="*",
        metavar="family",
        type=_family,
        help=f"what to measure: {', '.join(report.FAMILIES)} by default, or {', '.join(report.COMPARISONS)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there too")
    parser.add_argument(
        "--repeat", type=_count, default=Options().repeat, metavar="N", help="turns of each side (%(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="only see that everything runs; the figures mean little")
    return parser


def _family(text: str) -> str:
    known = report.FAMILIES + report.COMPARISONS
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(known)}")
    return text


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return count
