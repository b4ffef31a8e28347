"""Communicators of processes that share hardware (MPI-4.1, section 7.4.2): of a described machine and the real one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from aiompi.comm import Communicator
from aiompi.constants import (
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED,
    UNDEFINED,
)
from aiompi.create import split_type
from aiompi.create.hardware import TYPES, resource_type, resources
from aiompi.errors import InvalidArgumentError
from aiompi.info import Info
from create.conftest import Family
from support.jobs import Site


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Describe two packages of two cores with two threads each, and a NUMA node for each core of the second."""

    def write(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="ascii")

    for cpu in range(8):
        package, core = ("0-3", "4-7")[cpu // 4], f"{cpu - cpu % 2},{cpu - cpu % 2 + 1}"
        write(f"cpu/cpu{cpu}/topology/package_cpus_list", package)
        write(f"cpu/cpu{cpu}/topology/thread_siblings_list", core)  # of an old kernel
        for index, (level, kind, cpus) in enumerate(
            [(1, "Data", core), (1, "Instruction", str(cpu)), (2, "Unified", core), (3, "Unified", package)]
        ):
            for name, text in (("level", str(level)), ("type", kind), ("shared_cpu_list", cpus)):
                write(f"cpu/cpu{cpu}/cache/index{index}/{name}", text)
    for node, cpus in enumerate(["0-3", "4-5", "6-7", ""]):  # the last one has memory only
        write(f"node/node{node}/cpulist", cpus)
    return tmp_path


def test_what_the_kernel_describes(machine: Path) -> None:
    core = {"l1cache": "6,7", "l2cache": "6,7", "core": "6,7", "numanode": "6-7"}
    package = {"node": "", "package": "4-7", "l3cache": "4-7"}
    assert resources({7}, machine) == {**package, **core, "hwthread": "7"}
    assert resources({6, 7}, machine) == {**package, **core, "hwthread": None}
    assert resources({5, 6}, machine) == {**package, **dict.fromkeys(core), "hwthread": None}
    assert resources(range(8), machine) == dict.fromkeys([*package, *core, "hwthread"]) | {"node": ""}
    assert [*resources({0}, machine)] == [name for name in TYPES if name not in ("l4cache", "l5cache")]
    assert resources({3}, machine / "none") == {"node": "", "hwthread": "3"}


def test_names() -> None:
    """Those of MPICH and hwloc."""
    same = {
        "package": ("package", "socket", "cpu", "Package", "hwloc://Package", "hwloc://package"),
        "numanode": ("numanode", "numa", "ddr", "NUMANode", "hwloc://NUMANode"),
        "l3cache": ("l3cache", "L3Cache", "hwloc://L3Cache"),
        "hwthread": ("hwthread", "pu", "hwloc://PU"),
        "node": ("node", "machine", "hwloc://Machine"),
    }
    for name, names in same.items():
        assert {resource_type(each) for each in names} == {name}
    assert [resource_type(name) for name in ("", "gpu", "hwloc://", "l6cache", "mpi_shared_memory")] == [None] * 5


class Split:
    """A split of ranks that are bound to CPUs of the described machine, on one host or several."""

    def __init__(self, machine: Path, monkeypatch: pytest.MonkeyPatch, bound: list[set[int]], hosts: str = "") -> None:
        self.family, self.hosts = Family(len(bound)), hosts or "a" * len(bound)
        self._machine, self._patch, self._bound = machine, monkeypatch, bound
        self.infos: list[Info] = []

    def by(self, kind: int, hint: dict[str, str] | None = None, comms: list[Communicator] | None = None) -> list[Any]:
        """Return the ranks of the world in the communicator of each rank, None for none."""
        comms = self.family.comms if comms is None else comms
        self.infos = [Info.Create(hint) for _ in comms]
        requests = []
        for comm, info in zip(comms, self.infos, strict=True):
            rank = comm.engine.rank
            cpus = self._bound[rank]
            self._patch.setattr(
                sys.modules[split_type.__module__], "resources", lambda cpus=cpus: resources(cpus, self._machine)
            )
            requests.append(split_type(comm, kind, -rank, lambda rank=rank: self.hosts[rank], info))
        self.made = self.family.results(requests)
        return [comm and comm.targets for comm in self.made]


BOUND = [{0, 1}, {2}, {3}, {4, 5}, {6, 7}, {0, 4}]


def test_guided(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = Split(machine, monkeypatch, BOUND)
    for kind in (COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED):
        by = lambda name, kind=kind: split.by(kind, {"mpi_hw_resource_type": name})  # noqa: E731
        assert by("hwloc://Package") == [(2, 1, 0)] * 3 + [(4, 3)] * 2 + [None], "one rank is bound to neither"
        assert by("numa") == [(2, 1, 0)] * 3 + [(3,), (4,), None]
        assert by("core") == [(0,), (2, 1), (2, 1), (3,), (4,), None]
        assert by("hwthread") == [None, (1,), (2,), None, None, None]
        assert by("node") == by("mpi_shared_memory") == split.by(COMM_TYPE_SHARED) == [(5, 4, 3, 2, 1, 0)] * 6
        assert by("l4cache") == by("nonsense") == split.by(kind) == split.by(kind, {"foo": "bar"}) == [None] * 6


def test_equal_resources_of_several_hosts_are_different(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = Split(machine, monkeypatch, [{0}, {1}, {0}], "aba")
    assert split.by(COMM_TYPE_HW_GUIDED, {"mpi_hw_resource_type": "package"}) == [(2, 0), (1,), (2, 0)]


def test_unguided_splits_again_and_again(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = Split(machine, monkeypatch, [*BOUND, {2}], "aaaaaab")
    steps = []
    comms = split.family.comms
    while comms:
        groups = split.by(COMM_TYPE_HW_UNGUIDED, {}, comms)
        steps.append({group: info.get("mpi_hw_resource_type") for group, info in zip(groups, split.infos, strict=True)})
        comms = [comm for comm in split.made if comm is not None]
        if 0 not in [comm.engine.rank for comm in comms]:
            break
        first = next(comm for comm in comms if comm.engine.rank == 0).targets
        comms = [comm for comm in comms if comm.engine.rank in first]
    assert steps == [
        {(5, 4, 3, 2, 1, 0): "node", (6,): "node"},
        {(2, 1, 0): "package", (4, 3): "package", None: None},
        {(0,): "l2cache", (2, 1): "l2cache"},
        {None: None},
    ]


def test_process_sets_and_mistakes(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = Split(machine, monkeypatch, [{0}, {1}])
    assert split.by(COMM_TYPE_RESOURCE_GUIDED, {"mpi_pset_name": "mpi://WORLD"}) == [None, None], "no job, no sets"
    both = Info.Create({"mpi_pset_name": "mpi://WORLD", "mpi_hw_resource_type": "core"})
    with pytest.raises(InvalidArgumentError, match="give mpi_hw_resource_type or mpi_pset_name, and not both"):
        split_type(split.family.comms[0], COMM_TYPE_RESOURCE_GUIDED, 0, str, both)
    assert split.by(UNDEFINED) == [None, None]


REAL = """
import os
from aiompi import MPI

comm = MPI.COMM_WORLD
comm.Barrier()  # the launcher has bound all ranks before they can be connected
known = MPI.Get_hw_resource_info()
assert known["hwloc://Machine"] == "true"
bound = comm.allgather(sorted(os.sched_getaffinity(0)))
for name, single in known.items():
    part = comm.Split_type(MPI.COMM_TYPE_HW_GUIDED, info=MPI.Info.Create({"mpi_hw_resource_type": name}))
    assert bool(part) is (single == "true"), name
    if name == "hwloc://PU" and part:
        assert part.size == bound.count(bound[comm.rank])
part = comm.Split_type(MPI.COMM_TYPE_RESOURCE_GUIDED, info=MPI.Info.Create({"mpi_pset_name": "mpi://SELF"}))
whole = comm.Split_type(MPI.COMM_TYPE_RESOURCE_GUIDED, info=MPI.Info.Create({"mpi_pset_name": "mpi://WORLD"}))
print(part.size, whole.size)
info = MPI.Info.Create()
part = comm.Split_type(MPI.COMM_TYPE_HW_UNGUIDED, info=info)
if part:
    assert part.size < comm.size
    assert info.Get("mpi_hw_resource_type")
"""


def test_this_machine(site: Site) -> None:
    for options in ((), ("--bind-to", "core")):
        result = site.launch("-n", "2", *options, site.program(REAL)).finish()
        assert (result.code, result.err, result.lines) == (0, "", ["1 2", "1 2"])
