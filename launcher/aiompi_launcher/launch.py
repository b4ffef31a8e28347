"""Runs a job, from its specification to its exit code.

The launcher forks the watchdog, and starts the processes that fork ranks. The fork servers import the modules of a rank
while the launcher imports its own modules, which takes about as long. So this module imports little.
"""

from __future__ import annotations

import os
import shlex

from aiompi.wire.variables import ENV_CONTROL, ENV_LIFELINE, ENV_SPAWN_OPTIONS
from aiompi_launcher.spec import RunSpec
from aiompi_launcher.start.ranks import Starting
from aiompi_launcher.start.watchdog import contact, job_directory


def run(spec: RunSpec, name: str) -> int:
    """Run a job whose processes the launcher starts.

    Args:
        spec: the job.
        name: of the program, for messages.

    Returns:
        The exit code for the launcher.

    Raises:
        OSError: the directory of the job or of its output cannot be created.
        InvalidArgumentError: a setting is wrong, or the job has an IMPI server, but no authentication method is
            available.
    """
    if spec.output_dir:
        os.makedirs(spec.output_dir, exist_ok=True)
    lifeline = _describe_job(spec)
    with job_directory() as (directory, watchdog):
        if spec.hosts is not None:
            from aiompi_launcher.supervise import Supervision  # the agents of the hosts start fork servers

            return Supervision(spec, name, lifeline, directory, watchdog).run_on(spec.hosts)
        with Starting(spec, {ENV_CONTROL: contact(directory)}) as starting:
            from aiompi_launcher.supervise import Supervision  # meanwhile

            return Supervision(spec, name, lifeline, directory, watchdog).run(starting)


def _describe_job(spec: RunSpec) -> str | None:
    """Set variables of this process, which ranks inherit. Return the one by which the parent of the job finds it."""
    if spec.universe_size:
        os.environ["AIOMPI_UNIVERSE_SIZE"] = str(spec.universe_size)
    options = ["--tag-output"] if spec.tag_output else []
    options += ["--starter", shlex.join(spec.hosts.starter)] if spec.hosts else []
    os.environ.pop(ENV_SPAWN_OPTIONS, None)
    if options:
        os.environ[ENV_SPAWN_OPTIONS] = shlex.join(options)
    return os.environ.pop(ENV_LIFELINE, None)  # ranks do not have it
