"""The hardware that a process may use, as Linux describes it in sysfs (MPI-4.1, sections 7.4.2 and 9.1.2)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: types of resources, from the largest to the smallest: MPICH's name, and hwloc's
TYPES: Final = {
    "node": "Machine",
    "package": "Package",
    "numanode": "NUMANode",
    "l5cache": "L5Cache",
    "l4cache": "L4Cache",
    "l3cache": "L3Cache",
    "l2cache": "L2Cache",
    "l1cache": "L1Cache",
    "core": "Core",
    "hwthread": "PU",
}
#: other names that MPICH knows
_ALIASES: Final = {"machine": "node", "socket": "package", "cpu": "package", "numa": "numanode", "ddr": "numanode"}
_HWLOC: Final = "hwloc://"


def resource_type(name: str) -> str | None:
    """Return MPICH's name of a type of resources; None if there is no such type.

    Args:
        name: a name that MPICH or hwloc uses, with or without the prefix `hwloc://`; letter case does not matter.
    """
    plain = name.lower().removeprefix(_HWLOC)
    by_hwloc = {hwloc.lower(): ours for ours, hwloc in TYPES.items()}
    found = _ALIASES.get(plain) or by_hwloc.get(plain) or plain
    return found if found in TYPES else None


def resources(
    allowed: Collection[int] | None = None, root: str | os.PathLike[str] = "/sys/devices/system"
) -> dict[str, str | None]:
    """Return the resources that this process is restricted to, by type, from the largest to the smallest.

    Args:
        allowed: the CPUs that the process may use; by default those of this thread, which a cpuset, taskset or
            `--bind-to` may have limited.
        root: directory in which the kernel describes CPUs and NUMA nodes.

    Returns:
        For each type that the kernel describes, the resource that contains all allowed CPUs, as a list of CPUs such as
        "0-3,8"; None if the allowed CPUs belong to several resources. The resource of type "node", the whole machine,
        is the empty string.
    """
    from pathlib import Path  # slow

    cpus = set(os.sched_getaffinity(0) if allowed is None else allowed)
    lists = dict(_lists(Path(root), min(cpus)))
    found: dict[str, str | None] = {"node": ""}
    found |= {name: lists[name] if cpus <= _cpus(lists[name]) else None for name in TYPES if name in lists}
    return found


def _lists(root: Path, cpu: int) -> Iterator[tuple[str, str]]:
    """Yield the type and the list of CPUs of each resource that contains a given CPU."""
    place = root / "cpu" / f"cpu{cpu}"
    for name, files in {
        "package": ("package_cpus_list", "core_siblings_list"),
        "core": ("core_cpus_list", "thread_siblings_list"),
    }.items():
        lists = filter(None, (_read(place / "topology" / file) for file in files))
        if (cpus := next(lists, None)) is not None:
            yield name, cpus
    for cache in (place / "cache").glob("index*"):
        level, cpus = _read(cache / "level"), _read(cache / "shared_cpu_list")
        if level and cpus and _read(cache / "type") != "Instruction":
            yield f"l{level}cache", cpus
    for node in (root / "node").glob("node*/cpulist"):
        if cpu in _cpus(cpus := _read(node)):
            yield "numanode", cpus
    yield "hwthread", str(cpu)


def _read(path: Path) -> str:
    """Return the text of a file; the empty string if the file cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text(encoding="ascii").strip()
    return ""


def _cpus(text: str) -> set[int]:
    """Return the CPUs of a list such as "0-3,8"."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
