"""`python -m aiompi.bench faults`: a campaign of jobs with failures.

A seed decides everything about a job except its timing. An injection names its victim by a number. In jobs whose
processes come and go, timing decides which process the victim's number denotes.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from aiompi.bench import arguments
from aiompi.bench.contender import TRANSPORTS as TRANSPORTS
from aiompi.bench.contender import BenchError
from aiompi.bench.faults.growth import churn, percentiles, recovery
from aiompi.bench.faults.storms import STORMS
from aiompi.bench.faults.trial import Outcome, Plan
from aiompi.bench.results import show

WAYS: Final = tuple(STORMS)
KINDS: Final = ("kill", "stop", "pause", "cut", "leave")

_EPILOG: Final = """\
Each line is a job in which something is wrong; the table says how many injections there were.
kill: SIGKILL. stop: SIGSTOP, until the process is expelled (AIOMPI_HEARTBEAT=0.5). pause: SIGSTOP for less. cut: a link
between two living processes is shut down or reset. leave: SIGTERM.
blocking, native: the face of a launched job; serve: its ranks join. spawn: ranks start children and compute with them.
members: members come and go. executor, pool: workers that MPIPoolExecutor or pool() has started; open: that come.
After each job: all survivors name the same members; only those that were hit are missing; all results were right;
everybody is together again, and the job ends, within 5 s beyond the heartbeat; no process, file, link, and no more
descriptors are left.
--recovery N and --churn N are figures instead: the time from the death of one of three members to a sum of the others,
whose 99th percentile must be at most 50 ms on an idle machine, and what N visits of a third member leave behind.
`--seed N --count 1` repeats the job with this seed. A run ends after --count injections or --seconds.
"""


def plan_of(seed: int, transports: Sequence[str], ways: Sequence[str], kinds: Sequence[str]) -> Plan:
    """Return the job of a seed. The seed chooses a transport, a kind of job (key of `STORMS`) and the injections."""
    numbers = random.Random(seed)
    transport = numbers.choice(transports)
    way = numbers.choice([way for way in ways if {*kinds} & {*STORMS[way][1]}])
    storm, possible = STORMS[way]
    return storm.plan_of(seed, transport, way, [kind for kind in possible if kind in kinds], numbers)


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench faults`.

    Raises:
        BenchError: something went wrong in a job.
    """
    chosen = _parser().parse_args(argv)
    for measure, count in ((recovery, chosen.recovery), (churn, chosen.churn)):
        for transport in chosen.transports if count else ():
            measure(count, transport)
    if not (chosen.recovery or chosen.churn):
        _campaign(chosen)


def _campaign(chosen: argparse.Namespace) -> None:
    injected: Counter[tuple[str, str, str]] = Counter()
    recoveries: list[float] = []
    failures = jobs = 0
    for plan, outcome in _outcomes(chosen, injected):
        jobs += 1
        for kind, count in outcome.injected.items():
            injected[plan.transport, plan.way, kind] += count
        recoveries += [] if outcome.recovery is None else [outcome.recovery]
        if outcome.wrong:
            failures += 1
            show("\n".join([f"seed {plan.seed}: {plan}", *(f"  {text}" for text in outcome.wrong)]))
            show("    " + outcome.errors.replace("\n", "\n    ") if chosen.verbose else "")
        elif chosen.verbose:
            show(f"seed {plan.seed}: {plan.transport} {plan.way}, {dict(outcome.injected)}")
    _summarize(injected, recoveries, jobs, chosen.seed)
    if failures:
        raise BenchError(f"{failures} of {jobs} jobs went wrong")


def _outcomes(
    chosen: argparse.Namespace, injected: Mapping[tuple[str, str, str], int]
) -> Iterator[tuple[Plan, Outcome]]:
    """Run the jobs, several at once, until there were enough injections."""

    def run(seed: int) -> tuple[Plan, Outcome]:
        plan = plan_of(seed, chosen.transports, chosen.ways, chosen.kinds)
        with tempfile.TemporaryDirectory(prefix="f", ignore_cleanup_errors=True) as directory:
            return plan, STORMS[plan.way][0](plan, Path(directory)).run()

    end = time.monotonic() + chosen.seconds
    seeds = itertools.count(chosen.seed)
    running: deque[Future[tuple[Plan, Outcome]]] = deque()
    with ThreadPoolExecutor(chosen.jobs) as threads:
        while True:
            more = sum(injected.values()) < chosen.count and time.monotonic() < end
            while more and len(running) < chosen.jobs:
                running.append(threads.submit(run, next(seeds)))
            if not running:
                return
            yield running.popleft().result()


def _summarize(injected: Mapping[tuple[str, str, str], int], recoveries: list[float], jobs: int, seed: int) -> None:
    show(f"{sum(injected.values())} injections in {jobs} jobs, seeds {seed} to {seed + jobs - 1}")
    for transport, way in sorted({key[:2] for key in injected}):
        counts = "".join(f"{kind:>8} {injected.get((transport, way, kind), 0):4}" for kind in KINDS)
        show(f"{transport:14}{way:10}{counts}")
    if recoveries:
        show("from a kill to the next sum of all survivors: " + percentiles([1e3 * time for time in recoveries])[0])


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("faults", "Kill, stop and cut off ranks while they communicate.", _EPILOG)
    parser.add_argument(
        "--count", type=arguments.count(10**6), default=100, metavar="N", help="injections (%(default)s)"
    )
    parser.add_argument(
        "--recovery", type=arguments.count(10**5), metavar="N", help="kill one of three members so many times instead"
    )
    parser.add_argument(
        "--churn", type=arguments.count(10**6), metavar="N", help="let a third member join and leave so many times"
    )
    parser.add_argument("--jobs", type=arguments.count(100), default=1, metavar="N", help="at once (%(default)s)")
    parser.add_argument("--seconds", type=arguments.positive, default=3600.0, help="at most (%(default)g)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first job; each next one has the next (%(default)s)"
    )
    for name, known in (("transports", TRANSPORTS), ("ways", WAYS), ("kinds", KINDS)):
        kind = arguments.list_of(arguments.name(known))
        parser.add_argument(f"--{name}", type=kind, default=list(known), metavar="NAME,...", help=", ".join(known))
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="report each job, and all output of those that fail"
    )
    return parser
