"""Leave for the other ranks of this host to copy from and to the memory of this one, where Yama asks for that.

With `ptrace_scope` 1 this security module of Linux lets a process reach the memory of its descendants, and of those
processes which have named it, or an ancestor of it. So a rank names the agent that has started it: the other ranks
that the agent has started descend from it, too. No wider leave is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from aiompi.core._native import name_tracer

#: file with the mode of Yama; there is none without Yama
SCOPE: Final = "/proc/sys/kernel/yama/ptrace_scope"
#: the mode in which a process can name another one
_RESTRICTED: Final = "1"
#: maximum of processes from a rank up to the agent
_DEEPEST: Final = 64


def admit(agent: int) -> bool:
    """Let an agent and its descendants reach the memory of this process, if that is needed, and it is an ancestor.

    It gives the number of no other process away: nothing is an ancestor of this one that has not started it.

    Args:
        agent: id of its process; 0 if there is none.

    Returns:
        True if it may now; `withdraw` ends that.
    """
    if not agent or _scope() != _RESTRICTED or agent not in _ancestors():
        return False
    with contextlib.suppress(OSError):  # a sandbox forbids it
        name_tracer(agent)
        return True
    return False


def withdraw() -> None:
    """Let only ancestors of this process reach its memory again."""
    with contextlib.suppress(OSError):
        name_tracer(0)


def _scope() -> str:
    with contextlib.suppress(OSError), open(SCOPE, encoding="ascii") as file:
        return file.read().strip()
    return ""


def _ancestors() -> Iterator[int]:
    """Find the processes from which this one descends, the nearest first."""
    process = "self"
    with contextlib.suppress(OSError):  # they are hidden
        for _ in range(_DEEPEST):
            with open(f"/proc/{process}/stat", "rb") as file:
                process = file.read().rpartition(b")")[2].split()[1].decode()
            if process == "0":
                return
            yield int(process)
