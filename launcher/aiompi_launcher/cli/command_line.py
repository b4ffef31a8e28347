"""From a command line to the spec of a job or server."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from aiompi.errors import InvalidArgumentError, MPIError
from aiompi_launcher.cli.options import MAX_PORT, job_parser, section_parser
from aiompi_launcher.hosts import hostlist
from aiompi_launcher.hosts.hostlist import Host
from aiompi_launcher.spec import (
    START_PATIENCE,
    AttachSpec,
    CommandSpec,
    HostsSpec,
    RunSpec,
    Section,
    ServerAddress,
    ServerSpec,
    ServeSpec,
    Spec,
)

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


def parse(argv: Sequence[str], name: str) -> Spec:
    """Parse a command line.

    Args:
        argv: arguments, without the name of the program.
        name: of the program, for messages.

    Raises:
        SystemExit: the command line is wrong (status 2 after a message on stderr), or asks for help.
    """
    parser = job_parser(name)
    if [*argv[:1]] == ["--as-mpiexec"] or [*argv[:2]] == ["--mpi4py", "--as-mpiexec"]:
        return _command(parser, argv)
    first, *others = _sections(argv)
    options = parser.parse_args(first)
    _check(parser, options, others)
    if options.attach is not None:
        return AttachSpec(options.attach or None)
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
            top=options.top,
            on_failure=options.on_failure,
        )
    if options.server is not None:
        return _server_spec(parser, options)
    programs = [_program(parser, options)]
    sections = section_parser(name)
    programs += [_program(parser, sections.parse_args(section)) for section in others]
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
    from aiompi.impi.auth import parse_preference  # for this command only
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
    """Return the programs with their sizes, the hosts (None for this machine only), and the total number of slots."""
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
    from aiompi_launcher.hosts import (
        starters,
    )  # here: it takes time, and a job on this machine does not need it

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
        top=options.top,
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
    modes = [name for name in ("attach", "serve", "server", "client") if getattr(options, name) is not None]
    if len(modes) > 1:
        parser.error(f"--{modes[0]} and --{modes[1]} exclude each other")
    listens = options.serve is not None or options.server is not None
    starts = not modes or options.client is not None
    if not starts and (options.command or others):
        parser.error(f"--{modes[0]} starts no program: it takes no command")
    for name, option in _OF_RANKS.items() if not starts else ():
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
    if options.top and (options.server is not None or options.attach is not None):
        parser.error(f"--{modes[0]} has no ranks of its own: it takes no --top")
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


def _endpoint(parser: argparse.ArgumentParser, options: argparse.Namespace) -> ServerAddress:
    rank, address = options.client
    host, _, port = address.rpartition(":")
    if not rank.isdecimal():
        parser.error(f"--client {rank}: the rank must be a number")
    if not host or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        parser.error(f"--client {rank} {address}: expected HOST:PORT as the server prints it")
    return ServerAddress(
        client_rank=int(rank),
        host=host.strip("[]"),
        port=int(port),
        hosts=options.impi_hosts or 1,
        bind=tuple(options.bind.split(",")) if options.bind else (),
    )
