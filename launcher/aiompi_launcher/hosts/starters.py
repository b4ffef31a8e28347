"""The command that starts an agent on a host, with its standard input and output as the channel to it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Final

from aiompi_launcher.hosts.hostlist import is_this_machine
from aiompi_launcher.jobspec import MODULE

SSH: Final = "ssh"
SRUN: Final = "srun"
LOCAL: Final = "local"
STARTERS: Final = (SSH, SRUN, LOCAL)
#: the module of an agent; the modules of a command line would take longer to import than all others that it needs
_AGENT: Final = "aiompi_launcher.hosts.agent"
#: No question is asked, and a host that is cut off is noticed within 12 s.
_SSH_OPTIONS: Final = ("-Tx", "-oBatchMode=yes", "-oServerAliveInterval=3", "-oServerAliveCountMax=3")
#: One task with all that the allocation has of the host, beside other steps.
_SRUN_OPTIONS: Final = ("--overlap", "-N1", "-n1", "--mpi=none", "--cpu-bind=none", "--quiet", "--export=ALL")


def default_starter(allocated: bool) -> str:
    """Return the starter for hosts: srun in an allocation of Slurm, if it is installed, otherwise ssh."""
    import shutil  # agents do not need it

    return SRUN if allocated and shutil.which(SRUN) else SSH


def is_local(starter: Sequence[str], host: str) -> bool:
    """Return True if the agent of a host is a process of this machine, started without ssh."""
    return starter[0] == LOCAL or (os.path.basename(starter[0]) != SRUN and is_this_machine(host))


def command(starter: Sequence[str], host: str, patience: float) -> list[str]:
    """Return the command that starts an agent.

    Args:
        starter: one of STARTERS, and options for it.
        host: its name.
        patience: seconds in which ssh must have connected.

    The Python of this process runs the agent, which has to have the same path on all hosts.
    """
    agent = [*MODULE, _AGENT]
    if is_local(starter, host):
        return [*agent, LOCAL]
    if os.path.basename(starter[0]) == SRUN:
        return [*starter, *_SRUN_OPTIONS, f"-w{host}", *agent, SRUN]
    path = os.environ.get("PYTHONPATH")
    words = [*(() if path is None else ("env", f"PYTHONPATH={path}")), *agent, SSH]
    timeout = f"-oConnectTimeout={max(1, round(patience))}"
    return [*starter, *_SSH_OPTIONS, timeout, host, f"exec {shlex.join(words)}"]
