"""`python -m aiompi.bench`: measure this machine, and say how far aiompi is from the floor."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import aiompi
from aiompi.bench import report
from aiompi.bench.report import table
from aiompi.bench.report.contender import BenchError
from aiompi.bench.report.family import Options
from aiompi.bench.report.figure import Figure

#: what is not a measurement of this machine -> its module
COMMANDS: Final = {"simulate": "aiompi.bench.simulate.command", "tune": "aiompi.bench.tune.command"}

#: distributions on which figures depend, those of the extra `bench` too
_PACKAGES: Final = ("numpy", "uvloop", "mpi4py", "mpich")

_EPILOG = """\
python -m aiompi.bench simulate predicts collectives on other machines, python -m aiompi.bench tune makes tuning data
for this one; see their --help.
Every figure is measured by turns with its floor: what bare sockets, a bare uvloop protocol, bare Python processes, or
NumPy's own expressions need for the same; collectives with mpi4py and MPICH, which pip install 'aiompi[bench]'
installs. Values are medians over the turns. Processes of a contender are bound to a core each, as far as there are as
many: taskset -c 0 python -m aiompi.bench has them share one.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0, also when a target is missed; 1 when something could not be measured."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        command: int = importlib.import_module(COMMANDS[argv[0]]).main(argv[1:])
        return command
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


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "aiompi": aiompi.__version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _PACKAGES if _is_installed(name)},
        "system": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
    }


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aiompi.bench",
        description="Measure aiompi on this machine.",
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


if __name__ == "__main__":
    sys.exit(main())
