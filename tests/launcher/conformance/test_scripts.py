"""The test scripts: all pass against a right peer, and each notices a wrong one (IMPI 0.0, section 5.4)."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from aiompi_launcher.conformance import catalogue
from aiompi_launcher.conformance.catalogue import CatalogueError, Script
from aiompi_launcher.conformance.faults import names
from aiompi_launcher.conformance.journal import Severity
from aiompi_launcher.conformance.results import Verdict
from aiompi_launcher.conformance.script import parse
from aiompi_launcher.conformance.setup import Setup
from support.cases import cases
from support.rehearsal import HASTY, Outcome, rehearse

ALL = catalogue.load()
GROUPS = sorted({script.group for script in ALL})
#: the scripts in parts that do not take long
PARTS = {
    f"{group} {start}": scripts[start : start + 10]
    for group in GROUPS
    for scripts in [[script for script in ALL if script.group == group]]
    for start in range(0, len(scripts), 10)
}
AT_ONCE = 6  # jobs that wait for something that never comes use no processor


@pytest.mark.spec("I5.4-2", "I5.4-6", "I5.4-7")
def test_there_are_enough():
    assert len(ALL) >= 120
    text = "".join(script.source for script in ALL)
    calls = (
        "Send Recv Sendrecv Isend Irecv Iprobe Barrier Bcast Gather Gatherv Scatter Scatterv Reduce Reduce_scatter Scan"
        " Allgather Allgatherv Allreduce Alltoall Alltoallv Comm_create Comm_dup Comm_split Comm_free Intercomm_create"
        " Intercomm_merge"
    )
    for call in calls.split():
        assert f"MPI_{call}(" in text


@cases("script", ALL)
def test_comments_say_what_is_checked_and_caught(script: Script):
    parse(script.source)
    assert script.description.endswith(".")
    assert script.caught
    assert set(script.caught) <= set(names())
    assert Setup().adjusted(script.setup)


@pytest.mark.spec("I5.1-15", "I5.1-16", "I5.3-4", "I5.4-5", "I5.4-8", "I5.4-9", "I5.4-10")
@pytest.mark.parametrize("part", PARTS.values(), ids=list(PARTS))
@pytest.mark.asyncio
async def test_right_peers_pass(part: list[Script]):
    key = lambda script: sorted(script.setup.items())  # noqa: E731
    for setup, scripts in itertools.groupby(sorted(part, key=key), key):
        outcome = await rehearse(Setup().adjusted(dict(setup)), list(scripts))
        assert [result for result in outcome.results if result.verdict is not Verdict.PASS] == []


@pytest.mark.spec("I5.1-17")
@pytest.mark.parametrize("part", PARTS.values(), ids=list(PARTS))
@pytest.mark.asyncio
async def test_wrong_peers_are_noticed(part: list[Script]):
    """Each script with each fault that its comment names."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def twin(script: Script, fault: str) -> tuple[str, Outcome]:
        async with gate:
            outcome = await rehearse(Setup().adjusted(script.setup), [script], fault, HASTY)
            return f"{script.name} with {fault}", outcome

    twins = await asyncio.gather(*(twin(script, fault) for script in part for fault in script.caught))
    assert [name for name, outcome in twins if outcome.passed] == []


#: configurations of the simulated clients (hosts, processes, place) and of those under test
CONFIGURATIONS = {
    "first": Setup(first=1),
    "last": Setup(first=0),
    "one process each": Setup(procs=1, iut_procs=1),
    "many processes": Setup(procs=3, iut_procs=4),
    "two hosts": Setup(hosts=2, procs=1),
    "two clients": Setup(clients=2, procs=1),
    "two under test": Setup(iut_clients=2, iut_procs=1),
    "between": Setup(iut_clients=2, first=1),
    "three and three": Setup(clients=3, procs=1, iut_clients=3, iut_procs=1),
    "with a key": Setup(key=2**64 - 1),
}


@pytest.mark.spec("I5.1-6", "I5.1-18")
@pytest.mark.parametrize("setup", CONFIGURATIONS.values(), ids=list(CONFIGURATIONS))
@pytest.mark.asyncio
async def test_configurations(setup: Setup):
    """In any placement scripts pass, or say that they need another one."""
    chosen = ("pt2pt/pairs", "collectives/placements", "collectives/alltoallv", "comm/split_odd_even", "pt2pt/order")
    outcome = await rehearse(setup, [script for script in ALL if script.name in chosen])
    assert outcome.passed


@pytest.mark.spec("I5.3-12", "I5.3-13")
@pytest.mark.asyncio
async def test_a_script_that_cannot_run_is_indeterminate():
    (script,) = (script for script in ALL if script.name == "flow/pairs_are_independent")
    outcome = await rehearse(Setup(procs=1, iut_procs=1), [script])
    (result,) = (result for result in outcome.results if result.name == script.name)
    assert (result.verdict, "Test skipped" in result.reason) == (Verdict.INDETERMINATE, True)


@pytest.mark.spec("I5.1-1")
@pytest.mark.asyncio
async def test_the_protocol_is_tested_and_not_mpi():
    """A synchronous send that is acknowledged twice does all that MPI asks for; the document asks for one SYNCACK."""
    (script,) = (script for script in ALL if script.name == "modes/ssend")
    outcome = await rehearse(Setup(), [script], "two-syncacks")
    (result,) = (result for result in outcome.results if result.name == script.name)
    assert result.verdict is Verdict.FAIL
    assert {report.partition(": ")[2] for report in result.reports} == {"Result: Pass"}
    assert {deviation.section for deviation in result.deviations} == {"3.7.1"}


@pytest.mark.spec("I5.1-1")
@pytest.mark.asyncio
async def test_what_the_document_leaves_open_fails_nothing():
    """Fields that do not count may hold anything; that is noted."""
    (script,) = (script for script in ALL if script.name == "pt2pt/order")
    outcome = await rehearse(Setup(), [script], "reserved")
    assert outcome.passed
    assert {(deviation.rule, deviation.severity) for deviation in outcome.deviations} == {("I3.5-9", Severity.NOTE)}


@pytest.mark.spec("I5.4-1")
def test_only_scripts_know_what_is_tested():
    """No file of the tester itself knows one of them by name."""
    for path in catalogue.SCRIPTS.parent.rglob("*.py"):
        words = set(re.findall(r"\w+/\w+", path.read_text()))
        assert words.isdisjoint(script.name for script in ALL), path


@pytest.mark.spec("I5.4-1", "I5.4-2")
@pytest.mark.asyncio
async def test_verdicts_come_from_the_text_of_a_script_alone(tmp_path: Path):
    """The same under other names, in other groups, and with other words about them."""
    comment = "/* Something. Rules:\n   Rules: I1.1-1\n*/\n"
    for name, body in {
        "pass": '{ report("Result: Fail"); }',
        "fail": '{ report("Result: Pass"); }',
        "mixed": '{ report("Result: Pass"); report("Result: Fail"); }',
        "skipped": '{ report("Test skipped."); }',
    }.items():
        write(tmp_path, "shutdown", name, comment + body)
    outcome = await rehearse(Setup(), catalogue.load(tmp_path))
    verdicts = {result.name: result.verdict for result in outcome.results if "/" in result.name}
    assert verdicts == {
        "shutdown/pass": Verdict.FAIL,
        "shutdown/fail": Verdict.PASS,
        "shutdown/mixed": Verdict.FAIL,
        "shutdown/skipped": Verdict.INDETERMINATE,
    }


def write(root: Path, group: str, name: str, text: str) -> None:
    (root / group).mkdir(exist_ok=True)
    (root / group / f"{name}.impi").write_text(text)


@pytest.mark.spec("I5.4-2")
def test_scripts_are_read_from_disk_each_time(tmp_path: Path):
    write(
        tmp_path,
        "b",
        "two",
        "/* A test.\n   Rules: I3.5-1 I3.5-2\n   Setup: clients=2 hiwater=3\n   Caught: tag */\n{ }",
    )
    write(tmp_path, "a", "one", "/* Another\n * test.\n * Rules: I4.10-1\n */\n{ }")
    one, two = catalogue.load(tmp_path)
    assert (one.name, one.description, one.rules, one.caught) == ("a/one", "Another test.", ("I4.10-1",), ())
    assert (two.group, two.rules, two.setup) == ("b", ("I3.5-1", "I3.5-2"), {"clients": 2, "hiwater": 3})
    write(tmp_path, "a", "one", "/* Changed. Rules: I4.10-1 */ {")
    with pytest.raises(CatalogueError, match="has no line Rules:"):
        catalogue.load(tmp_path)
    write(tmp_path, "a", "one", "/* Changed.\n   Rules: I4.10-1\n   Setup: hiwater */ {")
    with pytest.raises(CatalogueError, match=r"Setup: has the form `clients=2 procs=1`, not `hiwater`"):
        catalogue.load(tmp_path)
    (tmp_path / "a" / "one.impi").write_bytes(b"/* \xc3\xa9 */ {")
    with pytest.raises(CatalogueError, match="byte 3 is not an ASCII character"):
        catalogue.load(tmp_path)


@pytest.mark.parametrize(
    ("groups", "chosen", "expected"),
    [([], [], len(ALL)), (["probe"], [], 5), (["probe"], ["pt2pt/pairs"], 6), ([], ["pt2pt/pairs"], 1)],
)
def test_selection(groups: list[str], chosen: list[str], expected: int):
    assert len(catalogue.select(ALL, groups, chosen)) == expected


def test_every_fault_is_caught_by_a_script():
    assert len(set(names())) == len(names())
    assert {fault for script in ALL for fault in script.caught} <= set(names())
    assert len({fault for script in ALL for fault in script.caught}) > 100


def test_selection_of_what_is_not_there():
    with pytest.raises(CatalogueError, match=r"no group p2p; there are cancel, "):
        catalogue.select(ALL, ["p2p"], [])
    with pytest.raises(CatalogueError, match="no script pt2pt/par;"):
        catalogue.select(ALL, [], ["pt2pt/par"])


def test_rules_exist():
    """Ids have the form of the checklist; which ones there are is no matter of this repository."""
    rules: Iterable[str] = {rule for script in ALL for rule in script.rules}
    assert all(re.fullmatch(r"I[1-5](\.\d+){1,2}-\d+", rule) for rule in rules)
    assert len(set(rules)) > 100
