"""The options of the launcher, and the types of their arguments."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import Any, Final

from aiompi_launcher.cli.arguments import Arguments
from aiompi_launcher.cli.version import ShowVersion
from aiompi_launcher.hosts import hostlist
from aiompi_launcher.spec import WIDTH
from aiompi_launcher.start import binding

MAX_PORT: Final = 65535
_CONTINUE: Final = "continue"

_DESCRIPTION: Final = "Run a program as an MPI job of several ranks, on this machine or on several hosts."
_EPILOG: Final = """\
Several programs make one job when they are separated by a colon; each section has its own -n, --wdir, -x and
--env. Files named *.py are run by this Python. The exit code is that of the first rank that fails (128 + the number
of the signal that killed it), 124 after --timeout, 130 after Ctrl-C.

examples:
  aiompi-launch -n 4 app.py --steps 100
  aiompi-launch -n 4 -m package.module
  aiompi-launch -n 4 -c "from aiompi import MPI; print(MPI.COMM_WORLD.rank)"
  aiompi-launch --hosts node1:4,node2:4 app.py        on other machines, by ssh
  aiompi-launch -n 1 master.py : -n 3 --env OMP_NUM_THREADS=1 worker.py
  aiompi-launch --mpi4py --as-mpiexec pytest          tests that run mpiexec
  aiompi-launch --serve                   nothing is started; members come and go with aiompi.join("host:port")
  aiompi-launch --attach                  in another terminal: what the ranks of a job do now
  aiompi-launch --server 1                in one terminal: an IMPI server, prints host:port
  aiompi-launch --client 0 HOST:PORT -n 4 app.py      in another
"""


def job_parser(name: str) -> Arguments:
    parser = Arguments(
        prog=name,
        usage="%(prog)s [options] [-n N] program [args] [: [-n N] program [args]]...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and the form of the core")
    job = parser.add_argument_group("the whole job, given in the first section")
    job.add_argument(
        "--tag-output", action="store_true", help="prefix lines with [RANK] (stdout) or [RANK:err] (stderr)"
    )
    job.add_argument("--output-dir", metavar="DIR", help="write to DIR/rank.N.out and rank.N.err instead")
    job.add_argument(
        "--trace", action=_SetVariable, type=_trace_directory, metavar="DIR",
        help="record what the ranks do, for `python -m aiompi.trace DIR`",
    )  # fmt: skip
    job.add_argument(
        "--top", action="store_true", help="show in the terminal, below the output, what each rank does now"
    )
    job.add_argument(
        "--stdin", type=_stdin_rank, default=0, metavar="RANK|none", help="rank that reads standard input (0)"
    )
    job.add_argument(
        "--no-prefork", dest="prefork", action="store_false", help="start an interpreter for each rank of a program"
    )
    job.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="kill the job after this time")
    job.add_argument(
        "--on-failure", choices=("abort", _CONTINUE), default="",
        help="end the job when a rank fails, or tell the others and go on (abort; with --serve: continue)",
    )  # fmt: skip
    for option in ("-disable-auto-cleanup", "--disable-auto-cleanup"):  # of MPICH
        job.add_argument(option, dest="on_failure", action="store_const", const=_CONTINUE, help=argparse.SUPPRESS)
    job.add_argument("--with-ft", dest="on_failure", type=_fault_tolerance, help=argparse.SUPPRESS)  # of Open MPI
    _add_placement(parser.add_argument_group("where ranks run, given in the first section"))
    job.add_argument("-v", "--verbose", action="store_true", help="report progress on stderr")
    _add_roles(parser)
    _add_section_options(parser.add_argument_group("each section"))
    return parser


def _add_placement(group: Any) -> None:
    group.add_argument(
        "--hosts", "-hosts", metavar="NAME[:SLOTS],...", help="hosts, and how many ranks each has room for"
    )
    group.add_argument("--hostfile", "-hostfile", metavar="FILE", help="the same from a file, one host a line")
    group.add_argument("--ppn", "-ppn", type=_count, metavar="N", help="ranks of each host, instead of its slots")
    group.add_argument(
        "--universe-size", "-usize", type=_count, metavar="N",
        help="processes that there is room for, spawned ones included (the slots of the hosts, or the cores)",
    )  # fmt: skip
    group.add_argument(
        "--map-by", choices=(hostlist.BY_SLOT, hostlist.BY_NODE), default=hostlist.BY_SLOT,
        help="fill a host before the next one, or give each one rank in turn (slot)",
    )  # fmt: skip
    group.add_argument(
        "--bind-to",
        choices=binding.UNITS,
        default=binding.NONE,
        help="CPUs that each rank may use: all, or those of one",
    )
    group.add_argument(
        "--starter", type=_starter, metavar="ssh|srun|local",
        help="how hosts are reached, with options: 'ssh -p 2222' (ssh; in an allocation of Slurm srun)",
    )  # fmt: skip
    group.add_argument(
        "--width", type=_count, default=WIDTH, metavar="N",
        help=f"agents that one process starts; more hosts are started by those ({WIDTH})",
    )  # fmt: skip
    group.add_argument(
        "--preload", action="append", default=[], metavar="PATH",
        help="copy a file or directory to each host, where it is in the working directory of the ranks",
    )  # fmt: skip


def _add_roles(parser: argparse.ArgumentParser) -> None:
    roles = parser.add_argument_group("other ways to make a job")
    roles.add_argument(
        "--as-mpiexec", action="store_true",
        help="as first option, with a COMMAND: run it with an mpiexec and an mpirun on PATH that take MPICH's options",
    )  # fmt: skip
    roles.add_argument(
        "--serve", nargs="?", type=_members, const=(None, 1, None), metavar="N|MIN:MAX",
        help="let N ranks join that others start; without N, or with limits, let members come and go",
    )  # fmt: skip
    roles.add_argument(
        "--attach", nargs="?", type=_count, const=0, metavar="PID",
        help="show the table of --top of a running job of yours: that of this launcher, or the only one",
    )  # fmt: skip
    roles.add_argument("--server", "-server", type=_count, metavar="N", help="be the IMPI server of N clients")
    roles.add_argument(
        "--client", "-client", nargs=2, metavar=("RANK", "HOST:PORT"), help="be an IMPI client of that server"
    )
    roles.add_argument(
        "--hosts-per-client",
        dest="impi_hosts",
        type=_count,
        metavar="N",
        help="divide the ranks among N IMPI hosts (1)",
    )
    roles.add_argument("--auth", "-auth", metavar="LIST", help="IMPI authentication methods, preferred ones first: 1,0")
    roles.add_argument(
        "--start-timeout", type=_seconds, metavar="SECONDS",
        help="time in which all ranks, clients or hosts must have come",
    )  # fmt: skip
    _add_network_options(parser.add_argument_group("the network"))


def _add_network_options(group: Any) -> None:
    group.add_argument("--bind", metavar="HOST", help="address to listen on; for --client one per host, with commas")
    group.add_argument("--port", "-port", type=_port, help="port to listen on (any free one)")
    group.add_argument(
        "--interface", action=_SetVariable, metavar="LIST", help="interfaces or networks to use: eth0,10.0.0.0/8"
    )
    group.add_argument("--port-range", action=_SetVariable, metavar="A-B", help="ports for everything that listens")
    group.add_argument(
        "--tls", action=_SetVariable, choices=("auto", "on", "off"),
        help="encrypt TCP connections (auto), also refuse other implementations of IMPI (on), or encrypt none (off)",
    )  # fmt: skip
    for option, what in (("cert", "a certificate"), ("key", "its private key"), ("ca", "the authorities of others")):
        group.add_argument(
            f"--{option}", dest=f"tls_{option}", action=_SetVariable, type=os.path.abspath, metavar="FILE",
            help=f"{what}, for TLS",
        )  # fmt: skip


def section_parser(name: str) -> Arguments:
    parser = Arguments(prog=name, add_help=False)
    _add_section_options(parser)
    return parser


def _add_section_options(group: Any) -> None:
    group.add_argument(
        "-n", "-np", type=_count, default=0, metavar="N", help="number of ranks (1, or all slots of the hosts)"
    )
    group.add_argument("--wdir", "-wdir", metavar="DIR", help="working directory")
    group.add_argument(
        "-x", dest="environ", action="append", default=[], type=_export, metavar="NAME[=VALUE]",
        help="set a variable, or insist that it is set",
    )  # fmt: skip
    group.add_argument(
        "--env", dest="environ", action="append", type=_assignment, metavar="NAME=VALUE", help="set a variable"
    )
    group.add_argument(
        "--mpi4py", action="store_true", help="the program was written for mpi4py, which aiompi takes the place of"
    )
    for option, metavar, what in (("-m", "MODULE", "a module"), ("-c", "CODE", "code")):
        group.add_argument(option, metavar=metavar, default=argparse.SUPPRESS, help=f"run {what} with this Python")


class _SetVariable(argparse.Action):
    """An option that is a setting: sets the variable AIOMPI_<option> for this launcher and for its ranks."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        os.environ[f"AIOMPI_{self.dest.upper()}"] = values


# Types of arguments.


def _starter(text: str) -> str:
    from aiompi_launcher.hosts import starters  # for this option only

    words = shlex.split(text)
    if not words or os.path.basename(words[0]) not in starters.STARTERS:
        raise argparse.ArgumentTypeError(f"{text!r} begins with none of {', '.join(starters.STARTERS)}")
    return text


def _fault_tolerance(text: str) -> str:
    if text not in ("ulfm", "mpi"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected ulfm")
    return _CONTINUE


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _count(text: str) -> int:
    count = _number(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return count


def _members(text: str) -> tuple[int | None, int, int | None]:
    """Return the size of a job (None for an open job), and the least and the largest number of members."""
    least, colon, most = text.partition(":")
    if not colon:
        return _count(text), 1, None
    at_least, at_most = _count(least or "1"), _count(most) if most else None
    if at_most is not None and at_most < at_least:
        raise argparse.ArgumentTypeError(f"{text}: {at_most} is less than {at_least}")
    return None, at_least, at_most


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return seconds


def _port(text: str) -> int:
    port = _number(text)
    if not 0 <= port <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not in 0 to {MAX_PORT}")
    return port


def _trace_directory(text: str) -> str:
    if any(name.endswith(".trace") for name in (os.listdir(text) if os.path.isdir(text) else ())):
        raise argparse.ArgumentTypeError(f"{text} has a trace already: name another directory")
    return os.path.abspath(text)


def _stdin_rank(text: str) -> int | None:
    return None if text == "none" else _number(text)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _export(text: str) -> tuple[str, str]:
    if "=" in text:
        return _assignment(text)
    if text not in os.environ:
        raise argparse.ArgumentTypeError(f"{text} is not set here; use NAME=VALUE")
    return text, os.environ[text]
