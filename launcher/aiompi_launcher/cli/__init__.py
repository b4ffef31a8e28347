"""The command line of aiompi-launch and impirun."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from aiompi.errors import InvalidArgumentError, MPIError
from aiompi_launcher.cli.arguments import Arguments
from aiompi_launcher.cli.limits import check_limits
from aiompi_launcher.cli.version import ShowVersion
from aiompi_launcher.hosts import hostlist
from aiompi_launcher.hosts.hostlist import Host
from aiompi_launcher.spec import (
    EXIT_FAILURE,
    EXIT_NOT_FOUND,
    EXIT_SIGNAL,
    START_PATIENCE,
    WIDTH,
    CommandSpec,
    HostsSpec,
    RunSpec,
    Section,
    ServerAddress,
    ServerSpec,
    ServeSpec,
    Spec,
)
from aiompi_launcher.start import binding

_MAX_PORT: Final = 65535
_CONTINUE: Final = "continue"
_SHIMS: Final = os.path.join(os.path.dirname(__file__), "shims")
#: destination -> option, for options about ranks that the launcher starts
_OF_RANKS: Final = {
    "n": "-n",
    "wdir": "--wdir",
    "environ": "-x and --env",
    "mpi4py": "--mpi4py",
    "tag_output": "--tag-output",
    "output_dir": "--output-dir",
    "stdin": "--stdin",
    "prefork": "--no-prefork",
    "bind_to": "--bind-to",
    "hosts": "--hosts",
    "hostfile": "--hostfile",
    "ppn": "--ppn",
    "starter": "--starter",
    "universe_size": "--universe-size",
    "preload": "--preload",
    "width": "--width",
}

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
  aiompi-launch --server 1                in one terminal: an IMPI server, prints host:port
  aiompi-launch --client 0 HOST:PORT -n 4 app.py      in another
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of aiompi-launch; return the exit code."""
    return _main(sys.argv[1:] if argv is None else argv, "aiompi-launch")


def impirun(argv: Sequence[str] | None = None) -> int:
    """Entry point of impirun, the same program under the name that IMPI 0.0 gives it (section 2.2)."""
    return _main(sys.argv[1:] if argv is None else argv, "impirun")


def _main(argv: Sequence[str], name: str) -> int:
    _open_standard_descriptors()
    try:
        spec = parse(argv, name)
        check_limits()
        return _run(spec, name)
    except KeyboardInterrupt:
        return EXIT_SIGNAL + signal.SIGINT
    except (OSError, MPIError) as error:
        with contextlib.suppress(OSError):
            print(f"{name}: {_explain(error)}", file=sys.stderr)
        return EXIT_FAILURE


def _explain(error: OSError | MPIError) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}: raise the limit of open files (ulimit -n)"
    if isinstance(error, FileNotFoundError) and not error.filename and _cwd_is_gone():
        return "the working directory has been deleted; change to one that exists"
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _cwd_is_gone() -> bool:
    """Return True if the working directory has been deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _run(spec: Spec, name: str) -> int:
    if isinstance(spec, ServerSpec):
        from aiompi_launcher.impi import server

        return server.run(spec, name)
    if isinstance(spec, CommandSpec):
        return _replace_process(spec, name)
    from aiompi_launcher import launch

    return launch.run(spec, name) if isinstance(spec, RunSpec) else launch.serve(spec, name)


def _replace_process(spec: CommandSpec, name: str) -> int:
    """Replace this process by the command, which finds `mpiexec` on PATH (see `aiompi_launcher.cli.mpiexec`)."""
    os.environ["AIOMPI_MPIEXEC_PYTHON"] = sys.executable  # what the shims run
    os.environ["PATH"] = os.pathsep.join([_SHIMS, os.environ.get("PATH", os.defpath)])
    if spec.mpi4py:
        from aiompi.compat import pass_on

        pass_on(os.environ)
    try:
        os.execvp(spec.argv[0], spec.argv)
    except OSError as error:
        print(f"{name}: --as-mpiexec: {spec.argv[0]}: {error.strerror}", file=sys.stderr)
    return EXIT_NOT_FOUND


def _open_standard_descriptors() -> None:
    """Open descriptors 0 to 2 if they are closed, so that no socket gets their numbers, here and in child processes."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def parse(argv: Sequence[str], name: str) -> Spec:
    """Parse a command line.

    Args:
        argv: arguments, without the name of the program.
        name: of the program, for messages.

    Raises:
        SystemExit: the command line is wrong (status 2 after a message on stderr), or asks for help.
    """
    parser = _parser(name)
    if [*argv[:1]] == ["--as-mpiexec"] or [*argv[:2]] == ["--mpi4py", "--as-mpiexec"]:
        return _command(parser, argv)
    first, *others = _sections(argv)
    options = parser.parse_args(first)
    _check(parser, options, others)
    if options.serve is not None:
        size, at_least, at_most = options.serve
        if size is None and options.on_failure == "abort":
            parser.error("--serve without a number goes on when a member fails: it takes no --on-failure=abort")
        return ServeSpec(
            size=size,
            at_least=at_least,
            at_most=at_most,
            bind=options.bind or "",
            port=options.port or 0,
            timeout=options.timeout,
            start_timeout=options.start_timeout,
            verbose=options.verbose,
            on_failure=options.on_failure,
        )
    if options.server is not None:
        return _server_spec(parser, options)
    programs = [_program(parser, options)]
    section_parser = _section_parser(name)
    programs += [_program(parser, section_parser.parse_args(section)) for section in others]
    try:
        return _run_spec(parser, options, *_place(options, programs))
    except MPIError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"--hostfile {options.hostfile}: {error.strerror}")


def _command(parser: argparse.ArgumentParser, argv: Sequence[str]) -> CommandSpec:
    *mpi4py, option = argv[: argv.index("--as-mpiexec") + 1]
    command = argv[len(mpi4py) + 1 :]
    if not command:
        parser.error(f"{option} needs the command that is to find mpiexec")
    return CommandSpec(argv=tuple(command), mpi4py=bool(mpi4py))


def _server_spec(parser: argparse.ArgumentParser, options: argparse.Namespace) -> ServerSpec:
    from aiompi.impi.auth import parse_preference
    from aiompi.impi.command import MAX_CLIENTS

    if options.server > MAX_CLIENTS:
        parser.error(f"--server {options.server}: an IMPI job has at most {MAX_CLIENTS} clients")
    try:
        preference = None if options.auth is None else parse_preference(options.auth)
    except MPIError as error:
        parser.error(str(error))
    return ServerSpec(
        clients=options.server,
        bind=options.bind or "",
        port=options.port or 0,
        auth=preference,
        timeout=options.timeout,
        start_timeout=options.start_timeout,
        verbose=options.verbose,
    )


def _place(options: argparse.Namespace, programs: list[Section]) -> tuple[list[Section], HostsSpec | None, int]:
    """Return the programs with their numbers of ranks; their hosts (None for this machine only); and all slots."""
    allocated: list[Host] = []
    if options.hosts is not None:
        hosts = hostlist.parse_hosts(options.hosts)
    elif options.hostfile is not None:
        hosts = hostlist.read_hostfile(options.hostfile)
    else:
        hosts = allocated = [] if options.client else hostlist.slurm_allocation()
    slots = sum(options.ppn or host.slots for host in hosts)
    if len(programs) == 1 and not programs[0].size:
        programs = [programs[0]._replace(size=slots or 1)]
    programs = [program._replace(size=program.size or 1) for program in programs]
    if not hosts or (len(hosts) == 1 and not options.starter and hostlist.is_this_machine(hosts[0].name)):
        if options.start_timeout is not None:
            raise InvalidArgumentError("--start-timeout is for --serve, --server and --hosts")
        return programs, None, slots
    ranks = hostlist.place(hosts, sum(program.size for program in programs), options.map_by, options.ppn)
    used = [(host.name, tuple(numbers)) for host, numbers in zip(hosts, ranks, strict=True) if numbers]
    from aiompi_launcher.hosts import starters  # its imports take time, and a job on this machine does not need it

    starter = shlex.split(options.starter or "") or [starters.default_starter(bool(allocated))]
    spec = HostsSpec(
        names=tuple(name for name, _ in used),
        ranks=tuple(numbers for _, numbers in used),
        starter=tuple(starter),
        files=tuple(options.preload),
        width=options.width,
        patience=options.start_timeout or START_PATIENCE,
    )
    return programs, spec, slots


def _run_spec(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    programs: list[Section],
    hosts: HostsSpec | None,
    slots: int,
) -> RunSpec:
    room = 0 if "AIOMPI_UNIVERSE_SIZE" in os.environ or not slots else max(slots, sum(p.size for p in programs))
    spec = RunSpec(
        programs=tuple(programs),
        tag_output=options.tag_output,
        output_dir=options.output_dir,
        stdin_rank=options.stdin,
        timeout=options.timeout,
        verbose=options.verbose,
        on_failure=options.on_failure,
        server=options.client and _endpoint(parser, options),
        prefork=options.prefork,
        bind_to=options.bind_to,
        hosts=hosts,
        universe_size=options.universe_size or room,
    )
    if spec.server is not None and spec.server.hosts > spec.size:
        parser.error(f"--hosts-per-client {spec.server.hosts}: there are only {spec.size} ranks")
    if spec.stdin_rank is not None and spec.stdin_rank >= spec.size:
        parser.error(f"--stdin {spec.stdin_rank}: there are only ranks 0 to {spec.size - 1}")
    return spec


def _sections(argv: Sequence[str]) -> list[list[str]]:
    sections: list[list[str]] = [[]]
    for word in argv:
        if word == ":":
            sections.append([])
        else:
            sections[-1].append(word)
    return sections


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace, others: list[list[str]]) -> None:
    if options.as_mpiexec:
        parser.error("--as-mpiexec comes first, or after --mpi4py")
    modes = [name for name in ("serve", "server", "client") if getattr(options, name) is not None]
    if len(modes) > 1:
        parser.error(f"--{modes[0]} and --{modes[1]} exclude each other")
    listens = options.serve is not None or options.server is not None
    if listens and (options.command or others):
        parser.error(f"--{modes[0]} starts no program: it takes no command")
    for name, option in _OF_RANKS.items() if listens else ():
        if getattr(options, name) != parser.get_default(name):
            parser.error(f"--{modes[0]} starts no program: it takes no {option}")
    if not modes and options.bind is not None:
        parser.error("--bind is for --serve, --server and --client")
    if not listens and options.port is not None:
        parser.error("--port is for --serve and --server")
    if options.impi_hosts is not None and options.client is None:
        parser.error("--hosts-per-client is for --client")
    given = [name for name in ("client", "hosts", "hostfile") if getattr(options, name) is not None]
    if len(given) > 1:
        parser.error(f"--{given[0]} and --{given[1]} exclude each other")
    if options.auth is not None and options.server is None:
        parser.error("--auth is for --server")


def _program(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Section:
    command = options.command
    if command[:1] in (["-m"], ["-c"]):
        command = [sys.executable, *command] if len(command) > 1 else []
    if not command:
        parser.error("no program to run; each section needs one")
    return Section(
        argv=tuple(command),
        size=options.n,
        directory=options.wdir,
        environ=dict(options.environ),
        mpi4py=options.mpi4py,
    )


def _parser(name: str) -> Arguments:
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


def _section_parser(name: str) -> Arguments:
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
    """Sets the variable of the setting with the name of the option, for this launcher and for its ranks."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        os.environ[f"AIOMPI_{self.dest.upper()}"] = values


# Types of arguments.


def _starter(text: str) -> str:
    from aiompi_launcher.hosts import starters

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
    """Return the size of a job (None for an open job), and its least and largest number of members."""
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
    if not 0 <= port <= _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not in 0 to {_MAX_PORT}")
    return port


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


def _endpoint(parser: argparse.ArgumentParser, options: argparse.Namespace) -> ServerAddress:
    rank, address = options.client
    host, _, port = address.rpartition(":")
    if not rank.isdecimal():
        parser.error(f"--client {rank}: the rank must be a number")
    if not host or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
        parser.error(f"--client {rank} {address}: expected HOST:PORT as the server prints it")
    return ServerAddress(
        client_rank=int(rank),
        host=host.strip("[]"),
        port=int(port),
        hosts=options.impi_hosts or 1,
        bind=tuple(options.bind.split(",")) if options.bind else (),
    )
