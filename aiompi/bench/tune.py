"""`python -m aiompi.bench tune`: measure the algorithms of the collectives on this machine and make tuning data.

`tuning_rules` derives rules from the measured times. This module measures, and writes the rules in the form of
`aiompi/coll/tuning.json`.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Sequence
from typing import Final

from aiompi.bench import algorithms, arguments, tuning_rules
from aiompi.bench.algorithms import Times
from aiompi.bench.contender import Contender, Conversation, aiompi_job, conversations
from aiompi.bench.results import show, write
from aiompi.bench.samples import callers, in_turns, slowest
from aiompi.coll.registry import COLLECTIVES

MOST_RANKS: Final = 64

_EPILOG: Final = f"""\
Every algorithm has a job of its own, and they take turns. Each call begins after a barrier and takes as long as its
slowest rank; times are medians of the turns. {algorithms.LEGEND}
With more ranks than cores, what leaves most ranks asleep may win though it takes more steps: compare with simulate. For
more ranks than were measured the rules stay as they are.
"""


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench tune`.

    Raises:
        BenchError: something could not be measured or written.
        BrokenPipeError: nothing reads the output any more.
    """
    chosen = _parser().parse_args(argv)
    collectives = chosen.collectives or list(COLLECTIVES)
    measured: dict[str, dict[int, Times]] = {name: {} for name in collectives}
    for ranks in chosen.ranks:
        for name, times in measure(collectives, ranks, chosen.sizes, chosen.repeat):
            sizes = algorithms.sizes_of(name, chosen.sizes)
            show("\n".join(algorithms.table(name, ranks, sizes, times, shared_memory=True)))
            measured[name][ranks] = times
    found = {n: tuning_rules.derive(n, algorithms.sizes_of(n, chosen.sizes), times) for n, times in measured.items()}
    text = tuning_rules.render(found, origin(chosen))
    if chosen.output is None:
        show(f"\n{text}".removesuffix("\n"))
    else:
        write(chosen.output, text)


def origin(chosen: argparse.Namespace) -> dict[str, str]:
    """Return the origin of the rules, for readers of the file."""
    ranks, sizes = (",".join(map(str, those)) for those in (chosen.ranks, chosen.sizes))
    names = "".join(f" {name}" for name in chosen.collectives)
    cores = len(os.sched_getaffinity(0))
    return {
        "command": f"python -m aiompi.bench tune{names} --ranks {ranks} --sizes {sizes} --repeat {chosen.repeat}",
        "machine": f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}",
        "beyond": f"the rules for more than {max(chosen.ranks)} ranks were there before and are not measured",
    }


def measure(collectives: Sequence[str], ranks: int, sizes: Sequence[int], repeat: int) -> list[tuple[str, Times]]:
    """Return the times of all algorithms of these collectives.

    Raises:
        BenchError: a job did not answer.
    """
    with conversations(*contenders(collectives, ranks), processes=ranks) as jobs:
        return [(name, _times(jobs, name, algorithms.sizes_of(name, sizes), repeat)) for name in collectives]


def contenders(collectives: Sequence[str], ranks: int) -> list[Contender]:
    """Return one job for each algorithm: in job i, each collective uses its algorithm i.

    The number of jobs is the largest number of algorithms of a collective.
    """
    names = {collective: list(COLLECTIVES[collective].algorithms) for collective in collectives}
    jobs = []
    for number in range(max(map(len, names.values()))):
        chosen = ",".join(f"{collective}={those[number]}" for collective, those in names.items() if number < len(those))
        jobs.append(aiompi_job(ranks, f"AIOMPI_COLL={chosen}"))
    return jobs


def _times(jobs: Sequence[Conversation], collective: str, sizes: Sequence[int], repeat: int) -> Times:
    names = list(COLLECTIVES[collective].algorithms)
    columns = [_column(jobs[: len(names)], collective, size, repeat) for size in sizes]
    return {name: [column[i] for column in columns] for i, name in enumerate(names)}


def _column(jobs: Sequence[Conversation], collective: str, nbytes: int, repeat: int) -> list[float]:
    """Return the seconds per call in each job; the jobs take turns."""
    sides = callers({"work": "collective", "name": collective, "nbytes": nbytes}, jobs, slowest)
    return [statistics.median(samples) for samples in in_turns(repeat, *sides)]


def _parser() -> argparse.ArgumentParser:
    description = "Measure the algorithms of the collectives on this machine, and make tuning data of the times."
    parser = arguments.parser("tune", description, _EPILOG)
    algorithms.add_arguments(parser, "2,4", "8,512,4k,32k,256k,2m", MOST_RANKS)
    arguments.add_turns(parser, 5)
    parser.add_argument(
        "--output", type=arguments.writable, metavar="FILE", help="write the rules there, not to standard output"
    )
    return parser
