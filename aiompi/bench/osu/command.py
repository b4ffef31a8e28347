"""The command: run micro-benchmarks, and show them as a table, as JSON and as a picture."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from aiompi.bench import algorithms
from aiompi.bench.machine import machine
from aiompi.bench.osu import table
from aiompi.bench.osu.benchmarks import BENCHMARKS
from aiompi.bench.osu.peers import OURS, PEERS, Peer
from aiompi.bench.osu.run import TURN, Plan, Row, measure
from aiompi.bench.report.contender import BenchError

MOST_RANKS: Final = 64
SIZES: Final = "8,1k,8k,64k,1m,4m"

_EPILOG: Final = f"""\
benchmarks: {", ".join(BENCHMARKS)}

aiompi is the blocking face, asyncio the other one on uvloop. Of the peers, mpi4py runs with MPICH and openmpi with
Open MPI, uvloop is a bare protocol on a Unix socket, and distributed is a comm over TCP: pip install 'aiompi[bench]'
installs all of them.
They take turns of {round(TURN * 1e3)} ms in the same session, and each column is compared with the first. Latency is
half a round trip; bandwidth that of a window of 64 messages, or as many as have 64 MiB, and a short answer. The time of
a collective is that of a call which begins after a barrier, until its slowest rank has ended; sizes are those of a
rank's block, or of the vector. AIOMPI_SPIN and the other settings come from the environment. Ranks are bound to a core
each, as far as there are as many: taskset -c 0 python -m aiompi.bench has them share one.

Other commands, see their --help:
  python -m aiompi.bench targets    figures that are to be reached, and whether they are
  python -m aiompi.bench simulate   predicts collectives on other machines
  python -m aiompi.bench tune       makes tuning data for this machine
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `python -m aiompi.bench`; returns the exit code: 1 when something could not be measured."""
    arguments = _parser().parse_args(argv)
    if arguments.plot is not None and importlib.util.find_spec("matplotlib") is None:
        print("aiompi.bench: --plot needs matplotlib: pip install matplotlib", file=sys.stderr)
        return 1
    plan = Plan(
        [BENCHMARKS[name] for name in arguments.benchmarks or BENCHMARKS],
        {**OURS, **_installed(arguments.compare, arguments.ranks)},
        arguments.sizes,
        arguments.ranks,
        arguments.repeat,
        arguments.quick,
    )
    about = machine()
    print(f"{', '.join(f'{name} {value}' for name, value in about.items())}\n{table.LEGEND}", flush=True)
    rows: list[Row] = []
    try:
        for row in _shown(measure(plan)):
            rows.append(row)
            _write(arguments, about, rows)
        if arguments.plot is not None:
            _plot(rows, arguments.plot)
    except (BenchError, OSError, ValueError) as error:
        print(f"aiompi.bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _plot(rows: Sequence[Row], path: Path) -> None:
    from aiompi.bench.osu import plot

    plot.save(rows, path)


def _installed(names: Sequence[str], ranks: int) -> Mapping[str, Peer]:
    """The peers of these names that are there; the others are named."""
    found = {}
    for name in names:
        try:
            PEERS[name].start(ranks)
        except BenchError as error:
            print(f"without {name}: {error}", file=sys.stderr)
        else:
            found[name] = PEERS[name]
    return found


def _shown(rows: Iterator[Row]) -> Iterator[Row]:
    for _, group in groupby(rows, lambda row: row.benchmark):
        for number, row in enumerate(group):
            print(table.line(row) if number else f"{table.head(row)}\n{table.line(row)}", flush=True)
            yield row


def _write(arguments: argparse.Namespace, about: dict[str, Any], rows: Sequence[Row]) -> None:
    if arguments.json is None:
        return
    options = {"repeat": arguments.repeat, "quick": arguments.quick}
    results = {"machine": about, "options": options, "rows": [row.record() for row in rows]}
    arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aiompi.bench",
        description="Run the OSU micro-benchmarks, of aiompi and of its peers by turns.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, sizes, turns = parser.add_argument, algorithms.size_list(SIZES), algorithms.rank_count(1000)
    add("benchmarks", nargs="*", metavar="benchmark", type=_benchmark, help="which to run (all)")
    add("--compare", type=_peers, default=[], metavar="PEER,...", help=f"of {','.join(PEERS)}")
    add("-n", "--ranks", type=_ranks, default=4, metavar="N", help="of benchmarks for more than two (%(default)s)")
    add("--sizes", type=algorithms.size_list, default=sizes, metavar="BYTES,...", help=f"({SIZES})")
    add("--repeat", type=turns, default=5, metavar="N", help="turns of each (%(default)s)")
    add("--json", type=Path, metavar="FILE", help="write all samples there too")
    add("--plot", type=Path, metavar="FILE", help="draw a picture of them, such as out.png or out.svg")
    add("--quick", action="store_true", help="only see that everything runs; the figures mean little")
    return parser


def _benchmark(text: str) -> str:
    name = text.removeprefix("osu_")
    if name not in BENCHMARKS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(BENCHMARKS)}")
    return name


def _peers(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PEERS)}")
    return list(dict.fromkeys(names))


def _ranks(text: str) -> int:
    count = algorithms.rank_count(MOST_RANKS)(text)
    if count % 2:
        raise argparse.ArgumentTypeError(f"{text} is odd: multi_lat and mbw_mr need pairs of ranks")
    return count
