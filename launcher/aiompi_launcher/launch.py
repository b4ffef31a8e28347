"""Runs a job, from its specification to its exit code.

The launcher first forks a fork server, the process that forks the ranks of Python programs, and then the watchdog. The
fork server imports the modules of a rank while the launcher imports its own modules. So this module imports only
modules that both need.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys

from aiompi.wire.variables import ENV_CONTROL, ENV_LIFELINE, ENV_SPAWN_OPTIONS
from aiompi_launcher.spec import RunSpec
from aiompi_launcher.start.forked import ForkServer, fork
from aiompi_launcher.start.forkserver import Rank
from aiompi_launcher.start.ranks import Starting, forks
from aiompi_launcher.start.watchdog import contact, job_directory


def run(spec: RunSpec, name: str, *, alone: bool) -> int | Rank:
    """Run a job whose processes the launcher starts.

    Args:
        spec: the job.
        name: of the program, for messages.
        alone: True if this process runs nothing but the launcher, so that ranks can be forked from it.

    Returns:
        The exit code for the launcher. In a process that was forked as a rank, the result is the `Rank`, which the
        caller must run.

    Raises:
        OSError: the directory of the job or of its output cannot be created.
        InvalidArgumentError: a setting is wrong, or the job has an IMPI server, but no authentication method is
            available.
    """
    forks_ranks = spec.hosts is None and any(forks(spec, program) for program in spec.programs)
    if not (alone and forks_ranks and _is_bare_python()):
        return _run(spec, name, None)
    del sys.path[0]  # the directory of the launcher's program, or the working directory
    server = fork()
    if isinstance(server, Rank):
        return server
    with contextlib.closing(server):
        return _run(spec, name, server)


def _run(spec: RunSpec, name: str, server: ForkServer | None) -> int:
    if spec.output_dir:
        os.makedirs(spec.output_dir, exist_ok=True)
    lifeline = _describe_job(spec)
    with job_directory() as (directory, watchdog):
        if spec.hosts is not None:
            from aiompi_launcher.supervise import Supervision  # the agents of the hosts start fork servers

            return Supervision(spec, name, lifeline, directory, watchdog).run_on(spec.hosts)
        with Starting(spec, {ENV_CONTROL: contact(directory)}, server) as starting:
            from aiompi_launcher.supervise import Supervision  # meanwhile

            return Supervision(spec, name, lifeline, directory, watchdog).run(starting)


def _is_bare_python() -> bool:
    """Return True if this Python has no options, which forked ranks would inherit, and has its standard streams."""
    first = sys.orig_argv[1]
    return (first == "-m" or not first.startswith("-")) and None not in (sys.stdin, sys.stdout, sys.stderr)


def _describe_job(spec: RunSpec) -> str | None:
    """Set variables that ranks inherit. Return and unset ENV_LIFELINE, the way to the parent of the job."""
    if spec.universe_size:
        os.environ["AIOMPI_UNIVERSE_SIZE"] = str(spec.universe_size)
    options = ["--tag-output"] if spec.tag_output else []
    options += ["--starter", shlex.join(spec.hosts.starter)] if spec.hosts else []
    os.environ.pop(ENV_SPAWN_OPTIONS, None)
    if options:
        os.environ[ENV_SPAWN_OPTIONS] = shlex.join(options)
    return os.environ.pop(ENV_LIFELINE, None)  # ranks do not have it
