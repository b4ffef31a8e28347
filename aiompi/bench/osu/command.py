"""The command: run micro-benchmarks, and show them as a table, as JSON and as a picture."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from aiompi.bench import arguments
from aiompi.bench.contender import BenchError
from aiompi.bench.machine import idle_cores
from aiompi.bench.osu import table
from aiompi.bench.osu.benchmarks import BENCHMARKS, RATE, Benchmark
from aiompi.bench.osu.peers import OURS, PEERS, Peer
from aiompi.bench.osu.run import MOST_ROUNDS, TURN, Plan, Row, measure
from aiompi.bench.results import Results, show

MOST_RANKS: Final = 64
SIZES: Final = "8,1k,8k,64k,1m,4m"

_EPILOG: Final = f"""\
benchmarks: {", ".join(BENCHMARKS)}

aiompi is the blocking face, asyncio the other one on uvloop. Of the peers, mpi4py runs with MPICH, pkl5 is its
util.pkl5, for latency_objects only, and openmpi runs with Open MPI; socket is a bare Unix socket that blocks, uvloop a
bare protocol on one, distributed a comm over TCP, and pyzmq a pair of its asyncio sockets over ipc, which sends the
arrays of objects as frames of their own: pip install 'aiompi[bench]' installs all of them.
They take turns of up to {round(TURN * 1e3)} ms, and at most {MOST_ROUNDS} rounds, in the same session. Each column is
compared with the first: a ratio below x1 means faster in us, above x1 in MB/s. Latency is half a round trip; bandwidth
that of a window of 64 messages, or as many as have 64 MiB, and a short answer; mbw_mr tells the messages per second,
too. As in the OSU micro-benchmarks all messages are sent from the same memory, which nobody changes, and received into
the same other memory, but for uvloop, distributed and pyzmq, which make bytes for each. After each turn one more round
is looked at, whether ranks receive what was sent. The time of a collective is the longest that any rank has been in a
call, by its own clock, after a barrier: the median of the calls of a turn, where the OSU micro-benchmarks print means
of calls and ranks. What takes long now and then, as where ranks that spin share cores, does not show in a median. Sizes
are those of a rank's block, or of the vector. Reductions add doubles, or bytes if the size is no multiple of 8, and in
reduce_scatter. Objects are a dict with a number and an array of so many bytes, in reductions the array alone.
Before each benchmark all contenders exchange a message that is longer than all others, and has 16 MiB at least: until
malloc has seen one it gives memory back to the kernel, and some rows would have page faults in them, depending on which
come before. targets mpich measures objects before and after such a message.
socket and uvloop have no message of 0 bytes, which are none in a stream. A peer that does not start, or fails, is left
out from then on; if it fails later, the exit status is 1 at the end.
AIOMPI_SPIN and the other settings come from the environment, as those of the peers do. mpi4py has its own thread level,
MULTIPLE; with MPI4PY_RC_THREAD_LEVEL=funneled, as aiompi has, it takes some 5 % less for 8 bytes, but ranks of MPICH do
not give way then, where there are more than cores: an allreduce takes milliseconds.
Ranks are bound to a core each, as far as there are as many; further ones begin again at the first core. In multi_lat
and mbw_mr, where the partner of a rank is half as many ranks further, the two have different ones. To have all share
one: taskset -c 0 python -m aiompi.bench.

Other commands, see their --help:
  python -m aiompi.bench targets    figures that are to be reached, and whether they are
  python -m aiompi.bench simulate   predicts collectives on other machines
  python -m aiompi.bench tune       makes tuning data for this machine
"""


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench`. Completed measurements are kept, whatever happens.

    Raises:
        BenchError: something could not be measured or written.
        BrokenPipeError: nothing reads the output any more.
    """
    chosen, benchmarks = _chosen(argv)
    peers = {**OURS, **_able(chosen.compare, benchmarks, chosen.ranks)}
    plan = Plan(benchmarks, peers, chosen.sizes, chosen.ranks, chosen.repeat, chosen.quick)
    results = Results(
        chosen.json,
        repeat=chosen.repeat,
        quick=chosen.quick,
        awake=chosen.awake,
        ranks=chosen.ranks,
        compare=chosen.compare,
        sizes=chosen.sizes,
        benchmarks=[benchmark.name for benchmark in benchmarks],
    )
    show(f"{results.head}\n{table.LEGEND}")
    rows: list[Row] = []
    failed: list[str] = []
    complete = False

    def left_out(name: str, error: BenchError, begun: bool) -> None:
        _warn(f"{name} from here on" if begun else name, error)
        if begun:
            failed.append(name)

    try:
        with idle_cores(chosen.awake):
            for row in _shown(measure(plan, left_out)):
                rows.append(row)
                results.save(complete=False, more=True, rows=[row.record() for row in rows])
        complete = not failed
    finally:
        if rows:
            _keep(rows, complete, results, chosen.plot)
    if failed:
        raise BenchError(f"not everything was measured: {', '.join(failed)} failed")


def _chosen(argv: Sequence[str]) -> tuple[argparse.Namespace, list[Benchmark]]:
    """Return the options and the benchmarks of a command line; exit if they do not fit together."""
    parser = _parser()
    chosen = parser.parse_args(argv)
    benchmarks = [BENCHMARKS[name] for name in chosen.benchmarks or BENCHMARKS]
    if 0 in chosen.sizes and (empty := _names(one for one in benchmarks if one.unit == RATE)):
        parser.error(f"argument --sizes: 0 bytes have no bandwidth: leave 0 out, or {empty}")
    if chosen.ranks % 2 and (paired := _names(one for one in benchmarks if one.paired)):
        parser.error(f"argument -n/--ranks: {chosen.ranks} is odd: take an even number, or leave out {paired}")
    if chosen.plot is not None:
        if chosen.json is not None and chosen.json.resolve() == chosen.plot.resolve():
            parser.error(f"argument --plot: {chosen.plot} is the file of --json, too")
        _check_format(chosen.plot)
    return chosen, benchmarks


def _names(benchmarks: Iterable[Benchmark]) -> str:
    return ", ".join(benchmark.name for benchmark in benchmarks)


def _check_format(path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchError("--plot needs matplotlib: pip install matplotlib")
    from aiompi.bench.osu import plot  # imports matplotlib

    known = plot.formats()
    if path.suffix.lower() not in known:
        raise BenchError(f"--plot {path}: its suffix is none of {', '.join(known)}")


def _able(names: Sequence[str], benchmarks: Sequence[Benchmark], ranks: int) -> Mapping[str, Peer]:
    """Return the named peers that are installed and can run any of the benchmarks; print a warning for the others."""
    found = {}
    for name in names:
        peer = PEERS[name]
        try:
            peer.start(ranks)
            if not any(map(peer.can, benchmarks)):
                raise BenchError(f"it cannot run {_names(benchmarks)}")
        except BenchError as error:
            _warn(name, error)
        else:
            found[name] = peer
    return found


def _keep(rows: Sequence[Row], complete: bool, results: Results, picture: Path | None) -> None:
    """Write all results. This also repairs a file that an interrupt has left half written."""
    try:
        results.save(complete=complete, rows=[row.record() for row in rows])
    finally:
        if picture is not None:
            from aiompi.bench.osu import plot  # imports matplotlib

            try:
                plot.save(rows, picture)
            except OSError as error:
                raise BenchError(f"{picture}: {error.strerror}") from None


def _warn(left_out: str, error: BenchError) -> None:
    print(f"without {left_out}: {error}", file=sys.stderr, flush=True)


def _shown(rows: Iterator[Row]) -> Iterator[Row]:
    for _, group in groupby(rows, lambda row: row.benchmark):
        for number, row in enumerate(group):
            show(table.line(row) if number else f"{table.head(row)}\n{table.line(row)}")
            yield row


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("", "Run the OSU micro-benchmarks, of aiompi and of its peers by turns.", _EPILOG)
    add, peers = parser.add_argument, arguments.list_of(arguments.name(PEERS))
    ranks = arguments.count(MOST_RANKS)
    add("benchmarks", nargs="*", action=arguments.Once, metavar="benchmark", type=_benchmark, help="which to run (all)")
    add("--compare", type=peers, default=[], metavar="PEER,...", help=f"of {','.join(PEERS)}")
    add("-n", "--ranks", type=ranks, default=4, metavar="N", help="of benchmarks for more than two (%(default)s)")
    arguments.add_sizes(parser, SIZES)
    arguments.add_turns(parser, 5)
    arguments.add_results(parser)
    arguments.add_awake(parser)
    add("--plot", type=arguments.writable, metavar="FILE", help="draw a picture of them, such as out.png or out.svg")
    return parser


def _benchmark(text: str) -> str:
    return arguments.name(BENCHMARKS)(text.removeprefix("osu_"))
