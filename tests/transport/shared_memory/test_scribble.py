"""Shared memory in which another process writes at random while messages run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.jobs import FACES, Site

PROGRAM = Path(__file__).parent / "scribble.py"


@pytest.mark.parametrize("face", FACES)
def test_only_the_connections_of_a_rank_suffer_whose_memory_is_scribbled_over(site: Site, face: str) -> None:
    """Run the program by hand with other seeds after a change of the core, also in a build with sanitizers."""
    job = site.launch("--on-failure", "continue", "-n", "6", str(PROGRAM), face, "1", env={"AIOMPI_PICKLE": "0"})
    result = job.finish()
    assert [re.sub(r"\d+ right, .*", "N", line) for line in result.lines] == ["rank 0: N", "rank 1: N"], result
    assert all(re.fullmatch(r"aiompi-launch: rank [2-5] .*", line) for line in result.err.splitlines()), result
