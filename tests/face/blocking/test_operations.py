"""The blocking face: every operation in real jobs. The checks name the rules that they are for."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from support.jobs import Site

TESTS: Final = Path(__file__).parents[2]
PROGRAMS: Final = Path(__file__).parent / "programs"
CHECKS: Final = TESTS / "face" / "checks"
OPERATIONS: Final = str(PROGRAMS / "operations.py")
#: large messages ask their receiver in shared memory, too
ASKING: Final = {"AIOMPI_SHM_EAGER_LIMIT": "100000", "AIOMPI_TCP_EAGER_LIMIT": "0"}


@pytest.fixture
def site(site: Site) -> Site:
    """A place whose programs import helpers of tests."""
    site.environ["PYTHONPATH"] += f"{os.pathsep}{TESTS}"
    return site


@pytest.mark.spec(
    "S2.2-2", "S2.3-2", "S2.4.1-1", "S2.4.1-2", "S2.4.1-3", "S2.4.1-4", "S2.4.1-5", "S2.4.1-6", "S2.4.1-7",
    "S2.4.1-8", "S2.4.1-9", "S2.7-4", "S2.7-6", "S3.2.1-1", "S3.2.1-2", "S3.2.1-3", "S3.2.2-1", "S3.2.3-2",
    "S3.2.3-3", "S3.2.3-4", "S3.2.3-6", "S3.2.3-7", "S3.2.4-4", "S3.2.4-5", "S3.2.4-6", "S3.2.4-7", "S3.2.4-8",
    "S3.2.5-1", "S3.2.5-2", "S3.2.5-3", "S3.2.5-4", "S3.4-1", "S3.4-2", "S3.4-4", "S3.4-5", "S3.4-6", "S3.4-8",
    "S3.4-9", "S3.5-1", "S3.5-3", "S3.5-4", "S3.6-1", "S3.6-2", "S3.6-3", "S3.6-5", "S3.6-6", "S3.6-7", "S3.6-8",
    "S3.6-10", "S3.6-11", "S3.6.1-1", "S3.7-2", "S3.7-3", "S3.7-4", "S3.7-5", "S3.7-7", "S3.7.3-2", "S3.7.3-5",
    "S3.7.3-6", "S3.7.3-7", "S3.7.3-8", "S3.7.3-10", "S3.7.3-11", "S3.7.3-12", "S3.7.3-15", "S3.7.3-16", "S3.7.4-1",
    "S3.7.4-2", "S3.7.4-6", "S3.7.5-1", "S3.7.5-3", "S3.7.5-4", "S3.7.5-5", "S3.7.5-6", "S3.7.5-7", "S3.7.5-8",
    "S3.7.5-9", "S3.7.5-10", "S3.7.5-11", "S3.7.5-12", "S3.7.5-13", "S3.7.5-14", "S3.7.5-15", "S3.7.5-16",
    "S3.7.5-17", "S3.7.5-18", "S3.7.5-19", "S3.7.5-20", "S3.7.5-21", "S3.7.5-22", "S3.7.5-23", "S3.8-1", "S3.8-2",
    "S3.8-3", "S3.8-4", "S3.8-5", "S3.8-6", "S3.8-7", "S3.8-11", "S3.8-12", "S3.8-13", "S3.8-14", "S3.8-15",
    "S3.8-16", "S3.8-17", "S3.8-18", "S3.8-19", "S3.8-20", "S3.9-1", "S3.9-2", "S3.9-3", "S3.9-4", "S3.9-5",
    "S3.9-6", "S3.9-7", "S3.9-8", "S3.9-9", "S3.9-10", "S3.9-12", "S3.10-1", "S3.10-2", "S3.10-3", "S3.10-4",
    "S3.10-5", "S3.10-6", "S3.10-7", "S3.10-8", "S3.11-1", "S3.11-2", "S3.11-3", "S3.11-4", "S4.1-4", "S4.1-7",
    "S4.1-8", "S4.2-2", "S4.3-1", "S4.4-1", "S4.4-3", "S4.5-1", "S4.6-1", "S4.7-1", "S4.8-1", "S4.9.1-1",
    "S5.2.2-1", "S5.2.3-1", "S5.2.4-1", "S5.2.4-2", "S5.2.4-3", "S5.3.2-1", "S5.4.1-1", "S5.4.1-2", "S5.4.2-1",
    "S5.4.2-2", "S5.4.2-3", "S5.4.2-5", "S5.4.2-6", "S5.4.2-7", "S5.4.2-8", "S5.4.2-9", "S5.4.2-11", "S5.4.3-1",
    "S5.4.3-2", "S5.4.3-3", "S5.5-1", "S5.6-1", "S5.6-2", "S5.6-5", "S5.6.1-1", "S5.6.1-2", "S5.6.1-3", "S5.6.2-1",
    "S5.6.2-4", "S5.6.2-6", "S5.6.2-8", "S5.6.2-9", "S5.7.1-2", "S5.7.1-3", "S5.7.1-6", "S7.1.1-4", "S7.4-1",
    "S7.5-1", "S7.5-3", "S7.5-4",
)  # fmt: skip
@pytest.mark.parametrize(("size", "transports"), [(3, ""), (2, "tcp")])
def test_operations(site: Site, size: int, transports: str) -> None:
    env = {"AIOMPI_TRANSPORTS": transports, **ASKING}
    result = site.launch("-n", str(size), OPERATIONS, env=env).finish()
    assert (result.code, result.err) == (0, "")
    assert re.fullmatch(r"(\d+ checks passed\n)\1*", result.out)
    assert len(result.lines) == size


@pytest.mark.spec("I1.1-1", "I1.1-2", "I1.1-3")
def test_operations_over_clients(site: Site) -> None:
    """All but those that only ranks of one client have, in a job whose clients talk IMPI with each other.

    Packets are short, so that long messages take several. Three clients are in the tests of the native face.
    """
    sizes = (1, 2)
    env = {"IMPI_AUTH_KEY": "5678", "AIOMPI_IMPI_NATIVE": "0", "AIOMPI_IMPI_DATALEN": "64K", **ASKING}
    server = site.launch("--server", str(len(sizes)), env=env)
    server.expect("\n")
    address = server.out.strip()
    clients = [
        site.launch(
            "--client", str(rank), address, "--bind", f"127.0.0.{rank + 1}", "-n", str(size), OPERATIONS, env=env
        )
        for rank, size in enumerate(sizes)
    ]
    for client, size in zip(clients, sizes, strict=True):
        result = client.finish()
        assert (result.code, result.err) == (0, "")
        assert re.fullmatch(r"(\d+ checks passed\n)\1*", result.out)
        assert len(result.lines) == size
    assert server.finish().code == 0


def test_operations_without_launcher(site: Site) -> None:
    """A job of one rank."""
    result = site.start(sys.executable, OPERATIONS).finish()
    assert (result.code, result.err, len(result.lines)) == (0, "", 1)


def test_marks_are_the_rules_of_the_checks() -> None:
    """The mark above names the same rules as the docstrings of the checks, in the order of the specification."""
    paths = [*PROGRAMS.glob("*.py"), *CHECKS.glob("*.py")]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf8")))]
    texts = [
        ast.get_docstring(node) or "" for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    named = {rule for text in texts for rule in re.findall(r"S\d[\d.]*-\d+", text)}
    (mark,) = (mark for mark in test_operations.pytestmark if mark.name == "spec")  # type: ignore[attr-defined]
    assert list(mark.args) == sorted(named, key=place)


def place(rule: str) -> tuple[list[int], int]:
    """Return the section and the number of a rule."""
    section, _, number = rule.removeprefix("S").partition("-")
    return [int(part) for part in section.split(".")], int(number)


def test_integers_of_numpy(site: Site) -> None:
    """Ranks, roots and tags may be any integers; the error for anything else names the argument."""
    program = """
import numpy as np
from aiompi import MPI

world = MPI.COMM_WORLD
other, tag, root = np.int64(1 - world.rank), np.int32(5), np.int64(0)
sent, received, all = np.ones(3), np.zeros(3), np.zeros(6)
world.Sendrecv(sent, other, tag, received, other, tag)
requests = [world.Irecv(received, other, tag), world.Isend(sent, other, tag)]
requests += [world.Recv_init(received, other, tag), world.Send_init(sent, other, tag)]
MPI.Prequest.Startall(requests[2:])
MPI.Request.Waitall(requests)
for send in (world.send, world.isend, world.issend):
    send(tag, other, tag)
    assert world.probe(other, tag)
    assert world.iprobe(other, tag)
    assert world.mprobe(other, tag).recv() == 5
for call in (world.bcast, world.gather, world.reduce):
    call(3, root=root)
world.scatter([1, 2], root)
world.Bcast(sent, root)
world.Gather(sent, all, root)
world.Scatter(all, sent, root)
world.Reduce(sent, received, root=root)
assert world.Split(root, other).size == 2
world.Gatherv(sent, (all, [3, 3]), root)
world.Scatterv((all, [3, 3]), sent, root)
pair = world.Split(world.rank).Create_intercomm(root, world, other, tag)
assert pair.bcast(3, MPI.ROOT if world.rank == 0 else root) == (None if world.rank == 0 else 3)
pair.Bcast(sent, MPI.ROOT if world.rank == 0 else root)
assert world.Create_dist_graph_adjacent([other], [other]).neighbor_allgather(1) == [1]
for call in (lambda: world.send(1, "1"), lambda: world.Send(sent, None), lambda: world.irecv(source=0.5)):
    try:
        call()
    except TypeError as error:
        print(str(error).partition(": ")[2])
"""
    refused = ["dest is '1'", "dest is None", "source is 0.5"]
    result = site.ok(2, program)
    assert sorted(result.lines) == sorted(2 * [f"{given}: expected an integer" for given in refused])
