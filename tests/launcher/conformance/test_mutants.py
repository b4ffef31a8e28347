"""Mistakes that are put into aiompi: the conformance tester finds each of them."""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
from pathlib import Path

import pytest

from aiompi_launcher.conformance import catalogue
from aiompi_launcher.conformance.results import Result, Verdict
from aiompi_launcher.conformance.runner import Runner
from aiompi_launcher.conformance.session import Limits
from aiompi_launcher.conformance.setup import Setup
from support.limits import LIMIT

PROGRAM = Path(__file__).parent / "programs" / "mutant.py"
AT_ONCE = 8
#: what needs two processes under test to come to light; one starts faster
BY_TWO = {"bound-is-told", "gather-backwards", "merge-flag", "leaders-among-the-users"}

#: mistake -> script that finds it
FOUND_BY = {
    "syncack-srqid": "modes/ssend",
    "syncack-on-arrival": "modes/ssend_waits",
    "srqid-of-32-bits": "modes/ssend_ids",
    "drqid-of-32-bits": "long/drqid",
    "drqid-not-echoed": "long/two_packets",
    "no-protoack": "flow/burst",
    "late-protoack": "flow/burst",
    "no-hiwater": "flow/stops",
    "half-datalen": "long/at_limit",
    "ssend-is-data": "modes/ssend_is_datasync",
    "send-is-datasync": "modes/send_is_data",
    "rank-of-world": "pt2pt/pairs",
    "tag-of-16-bits": "pt2pt/tag_bound",
    "one-context": "comm/isolation",
    "cancel-yes-of-matched": "cancel/of_matched",
    "cancel-oldest": "cancel/newest",
    "cancel-unanswered": "cancel/of_unmatched",
    "cancel-keeps-the-message": "cancel/of_unmatched",
    "barrier-tag": "collectives/barrier_linear",
    "barrier-tree-of-lowest-bits": "collectives/barrier_tree_inner",
    "always-linear": "collectives/bcast_tree",
    "never-linear": "collectives/barrier_linear",
    "crossover-is-short": "collectives/gather_boundary",
    "bound-is-told": "collectives/gatherv_long",
    "gather-backwards": "collectives/gather_short",
    "highest-rank-is-master": "collectives/gather_short",
    "alltoallv-tag": "collectives/alltoallv",
    "scan-tag": "collectives/scan",
    "reduction-backwards": "collectives/reduce_ordered",
    "context-skipped": "comm/dup",
    "color-and-key-swapped": "comm/split_keys",
    "leaders-send-ints": "intercomm/create",
    "merge-flag": "intercomm/merge_high",
    "free-at-once": "intercomm/free",
    "native-order": "delivery",
    "reduce-among-the-users": "collectives/reduce_linear",
    "leaders-among-the-users": "intercomm/create",
}
PARTS = [list(FOUND_BY)[start : start + AT_ONCE] for start in range(0, len(FOUND_BY), AT_ONCE)]


async def tried(name: str) -> Result:
    """The result of the script that is to find a mistake."""
    launcher = [sys.executable, "-m", "aiompi_launcher", "--client", "{client}", "{address}"]
    command = [*launcher, "-n", "{np}", str(PROGRAM), name]
    script = FOUND_BY[name] if "/" in FOUND_BY[name] else "types/int"  # the first test is in every job
    scripts = catalogue.select(catalogue.load(), [], [script])
    setup = Setup(iut_procs=2 if name in BY_TWO else 1)
    for quiet in (3, 12, 48):  # only a busy machine needs more than the first one
        results = await Runner(command, Limits(startup=LIMIT, quiet=quiet)).run(setup, scripts)
        found = [result for result in results if result.name == FOUND_BY[name]]
        # Late acknowledgements are counted at the end of a job.
        result = results[-1] if not found or found[0].verdict is Verdict.PASS else found[0]
        if result.verdict is Verdict.FAIL:
            break
    return result


@pytest.mark.spec("I5.1-17")
@pytest.mark.parametrize("names", PARTS, ids=lambda names: names[0])
@pytest.mark.asyncio
async def test_mistakes_are_found(names: list[str]):
    results = dict(zip(names, await asyncio.gather(*map(tried, names)), strict=True))
    assert {name: result.verdict for name, result in results.items()} == dict.fromkeys(names, Verdict.FAIL)


def test_all_mistakes_are_tried():
    program = PROGRAM.read_text()
    names = {name.replace("_", "-") for name in re.findall(r"@mutant\ndef (\w+)\(", program)}
    assert names == set(FOUND_BY)
    assert len(names) >= 30
    assert names == set(itertools.chain(*PARTS))
    assert names > BY_TWO
