"""Permission for other ranks on this host to copy from and to this rank's memory, where Yama requires a permission.

Yama is a security module of Linux. With `ptrace_scope` 1, Yama lets a process access the memory of its descendants.
Yama also lets a process access the memory of any process that has named the accessing process or one of its ancestors.
So a rank names its agent, which is an ancestor of all ranks that the agent has started. No wider permission is given.
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
    """Let an agent and its descendants access the memory of this process, where Yama requires it.

    The agent must be an ancestor of this process, so that a wrong process id gives no other process access.

    Args:
        agent: process id of the agent; 0 if there is no agent.

    Returns:
        True if the agent may access the memory now; `withdraw` ends this.
    """
    if not agent or _scope() != _RESTRICTED or agent not in _ancestors():
        return False
    with contextlib.suppress(OSError):  # a sandbox forbids it
        name_tracer(agent)
        return True
    return False


def withdraw() -> None:
    """Let only ancestors of this process access its memory again."""
    with contextlib.suppress(OSError):
        name_tracer(0)


def _scope() -> str:
    with contextlib.suppress(OSError), open(SCOPE, encoding="ascii") as file:
        return file.read().strip()
    return ""


def _ancestors() -> Iterator[int]:
    """Find the ancestors of this process, the nearest first."""
    process = "self"
    with contextlib.suppress(OSError):  # they are hidden
        for _ in range(_DEEPEST):
            with open(f"/proc/{process}/stat", "rb") as file:
                process = file.read().rpartition(b")")[2].split()[1].decode()
            if process == "0":
                return
            yield int(process)
