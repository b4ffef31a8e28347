"""The CPUs that each rank of a host may use (`--bind-to`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from typing import Final

NONE: Final = "none"
CORE: Final = "core"
SOCKET: Final = "socket"
UNITS: Final = (NONE, CORE, SOCKET)
_CPUS: Final = "/sys/devices/system/cpu"


def cpus_of(local: int, unit: str, allowed: Collection[int], root: str | os.PathLike[str] = _CPUS) -> set[int]:
    """Return the CPUs for a rank: a unit that this process may use. Units are assigned to ranks in turn.

    Args:
        local: number of the rank on its host.
        unit: CORE or SOCKET.
        allowed: CPUs that this process may use, perhaps limited by a cpuset, taskset or Slurm.
        root: directory in which the kernel describes CPUs.
    """
    units: dict[str, set[int]] = {}
    for cpu in sorted(allowed):
        units.setdefault(_unit(os.path.join(root, f"cpu{cpu}", "topology"), unit) or str(cpu), set()).add(cpu)
    return list(units.values())[local % len(units)]


def bind(pid: int, local: int, unit: str) -> None:
    """Restrict a process that has just started to its CPUs; see `cpus_of`."""
    if unit != NONE:
        try:
            os.sched_setaffinity(pid, cpus_of(local, unit, os.sched_getaffinity(0)))
        except ProcessLookupError:  # it has ended
            pass
        except OSError as error:
            raise OSError(error.errno, f"--bind-to {unit}: it cannot be bound to CPUs: {error.strerror}") from None


def _unit(topology: str, unit: str) -> str:
    """Return the name of the core or socket of a CPU; empty if the kernel does not tell."""
    names = ("physical_package_id",) if unit == SOCKET else ("core_cpus_list", "thread_siblings_list")
    for name in names:
        with contextlib.suppress(OSError), open(os.path.join(topology, name), encoding="ascii") as file:
            return file.read().strip()
    return ""
