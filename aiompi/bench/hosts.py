"""`python -m aiompi.bench hosts`: start-up on several hosts, beside mpi4py with MPICH under the same engine.

Each turn is a whole job: its ranks start, complete a barrier and end. Commands take turns.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from aiompi.bench import arguments
from aiompi.bench.contender import LAUNCHER, PATIENCE, BenchError, environment, installed
from aiompi.bench.results import Results, show
from aiompi.bench.samples import in_turns

#: a job of aiompi takes at most so many times as long as one of mpi4py under its engine
GOAL: Final = 1.5
PROGRAMS: Final = {name: f"from {name} import MPI; MPI.COMM_WORLD.Barrier()" for name in ("mpi4py", "aiompi")}
_MOST_RANKS: Final = 4096

_EPILOG: Final = """\
The hosts are reached by ssh from this one. In an allocation of Slurm its hosts are used by srun as well.
Python and its packages have the same path on all of them.
"""


class Start(NamedTuple):
    """A command that starts a job.

    Attributes:
        name: for the table.
        argv: the command.
        beside: name of the command to which this one is compared; empty for one of mpi4py itself.
    """

    name: str
    argv: tuple[str, ...]
    beside: str = ""


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench hosts`.

    Raises:
        BenchError: a job has failed, or MPICH or mpi4py is not installed.
        BrokenPipeError: nothing reads the output any more.
    """
    parser = arguments.parser("hosts", __doc__.partition(": ")[2].partition("\n")[0], _EPILOG)
    parser.add_argument("hosts", metavar="HOST[:SLOTS],...", help="hosts of the ranks, as for --hosts of aiompi-launch")
    parser.add_argument("-n", type=arguments.count(_MOST_RANKS), metavar="N", help="ranks (as many as slots)")
    arguments.add_turns(parser, 9)
    arguments.add_results(parser)
    chosen = parser.parse_args(argv)
    hosts: str = chosen.hosts
    names = hosts.split(",")
    count = chosen.n or sum(int(name.partition(":")[2] or 1) for name in names)
    repeat = 1 if chosen.quick else chosen.repeat
    results = Results(chosen.json, repeat=repeat, quick=chosen.quick, awake=False, hosts=hosts, ranks=count)
    show(f"{results.head}\n\n{f'{count} ranks':30}  median ms   ratio  goal")
    starts = [*_by_ssh(hosts, count), *_by_srun(len(names), count)]
    samples = dict(zip(starts, in_turns(repeat, *(partial(_time, start) for start in starts)), strict=True))
    medians = {start.name: statistics.median(taken) for start, taken in samples.items()}
    for start in starts:
        ratio = medians[start.name] / medians[start.beside or start.name]
        judged = f"  {'reached' if ratio <= GOAL else 'missed'} (at most {GOAL})" if start.beside else ""
        show(f"{start.name:30} {medians[start.name]:9.0f} {ratio:7.2f}{judged}")
    results.save(complete=True, starts=[{"name": start.name, "ms": taken} for start, taken in samples.items()])


def _by_ssh(hosts: str, count: int) -> list[Start]:
    mpiexec = (installed("mpich", "mpiexec.hydra"), "-hosts", hosts, "-n", str(count))
    launch = (*LAUNCHER, "--hosts", hosts, "-n", str(count))
    return [
        Start("mpiexec, mpi4py", (*mpiexec, *_python("mpi4py"))),
        Start("mpiexec, aiompi", (*mpiexec, *_python("aiompi")), "mpiexec, mpi4py"),
        Start("aiompi-launch --hosts", (*launch, *_python("aiompi")), "mpiexec, mpi4py"),
    ]


def _by_srun(hosts: int, count: int) -> list[Start]:
    if "SLURM_JOB_ID" not in os.environ or shutil.which("srun") is None:
        return []
    srun = ("srun", "-Q", f"-N{hosts}", f"-n{count}", "--overlap")
    return [
        Start("srun --mpi=pmi2, mpi4py", (*srun, "--mpi=pmi2", *_python("mpi4py"))),
        *(Start(f"srun --mpi={kind}, aiompi", (*srun, f"--mpi={kind}", *_python("aiompi")), "srun --mpi=pmi2, mpi4py")
          for kind in ("pmi2", "none")),
    ]  # fmt: skip


def _python(name: str) -> tuple[str, ...]:
    return sys.executable, "-c", PROGRAMS[name]


def _time(start: Start) -> float:
    """Return the milliseconds from the start of a job to its end."""
    environ = environment() | {"MPI4PY_LIBMPI": installed("mpich", "libmpi.so.12")}
    began = time.perf_counter()
    try:
        done = subprocess.run(start.argv, check=False, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{start.name} has not ended within {PATIENCE:g} s") from None
    if done.returncode:
        raise BenchError(f"{start.name} ended with status {done.returncode}: {done.stderr.strip()}")
    return (time.perf_counter() - began) * 1e3
