"""The command that starts an agent on a host, with its standard input and output as the channel to it."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aiompi_launcher.hosts.hostlist import is_this_machine
from aiompi_launcher.hosts.messages import Part, Plan
from aiompi_launcher.spec import MODULE
from aiompi_launcher.start.forked import AT_START

SSH: Final = "ssh"
SRUN: Final = "srun"
LOCAL: Final = "local"
STARTERS: Final = (SSH, SRUN, LOCAL)
#: the module of an agent; it parses no command line, because importing a parser would take most of the time
_AGENT: Final = "aiompi_launcher.hosts.agent"
#: argument of an agent that forks its ranks
FORK: Final = "fork"
#: No question is asked. The channel to the agent notices a host that is cut off.
_SSH_OPTIONS: Final = ("-Tx", "-oBatchMode=yes", "-oServerAliveInterval=0")
#: One task, which gets all allocated cores of the host, even while other steps run there.
_SRUN_OPTIONS: Final = ("--overlap", "-N1", "-n1", "--mpi=none", "--cpu-bind=none", "--quiet", "--export=ALL")


def default_starter(allocated: bool) -> str:
    """Return the starter for hosts: srun if the hosts are a Slurm allocation and srun is installed, otherwise ssh."""
    import shutil  # agents do not need it

    return SRUN if allocated and shutil.which(SRUN) else SSH


def is_local(starter: Sequence[str], host: str) -> bool:
    """Return True if the agent of a host is a process of this machine, started without ssh."""
    return starter[0] == LOCAL or (os.path.basename(starter[0]) != SRUN and is_this_machine(host))


def command(starter: Sequence[str], host: str, patience: float, *, forks: bool = False) -> list[str]:
    """Return the command that starts an agent.

    Args:
        starter: one of STARTERS, and options for it.
        host: name of the agent's host.
        patience: seconds in which ssh must have connected.
        forks: True if the agent can fork its ranks.

    The Python of this process runs the agent; it must have the same path on all hosts.
    """
    agent, fork = [*MODULE, _AGENT], [FORK] if forks else []
    if is_local(starter, host):
        return [*agent, LOCAL, *fork]
    if os.path.basename(starter[0]) == SRUN:
        return [*starter, *_SRUN_OPTIONS, f"-w{host}", *agent, SRUN, *fork]
    variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(AT_START)]
    words = [*(("env", *variables) if variables else ()), *agent, SSH, *fork]
    timeout = f"-oConnectTimeout={max(1, round(patience))}"
    return [*starter, *_SSH_OPTIONS, timeout, host, f"exec {shlex.join(words)}"]


class StartedAgent(NamedTuple):
    """A running starter.

    Attributes:
        plan: of the agent.
        process: the starter, which leads its own process group.
    """

    plan: Plan
    process: subprocess.Popen[bytes]


def start_agents(plan: Plan, parts: Sequence[Part], on_start: Callable[[int], object]) -> list[StartedAgent]:
    """Start the agents of this process, with the plan of each. No event loop is needed.

    Args:
        plan: of this process, or of the whole job in the launcher.
        parts: the hosts to reach.
        on_start: called with the process group of each starter.

    Raises:
        OSError: a starter cannot be started.
    """
    started = []
    for group in divide(parts, plan.width):
        argv = command(plan.starter, group[0].name, plan.patience, forks=plan.prefork)
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0)
        on_start(process.pid)
        started.append(StartedAgent(plan._replace(parts=group), process))
    return started


def divide(parts: Sequence[Part], width: int) -> list[list[Part]]:
    """Divide hosts among at most `width` agents. The first host of each group is the host of its agent."""
    count = min(width, len(parts))
    cuts = [len(parts) * number // count for number in range(count + 1)] if count else []
    return [list(parts[low:high]) for low, high in itertools.pairwise(cuts)]
