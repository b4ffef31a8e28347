"""The examples of MPI-1.1 that must complete, in the blocking face: those of the tests for the asyncio face."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.jobs import Site

TESTS = Path(__file__).parents[1]
CHAPTERS = ["chapter3", "chapter4", "chapter5", "datatypes"]


@pytest.mark.spec("S3.7.5-18", "S5.5-1")
@pytest.mark.parametrize(
    ("size", "transports", "chapters", "examples"),
    [(9, "", ["chapter5"], 13), (3, "", CHAPTERS, 128), (3, "tcp", CHAPTERS, 128), (1, "", ["chapter4"], 21)],
)
def test_blocking_face(site: Site, size: int, transports: str, chapters: list[str], examples: int) -> None:
    """As a job of real processes; each example runs where there are processes enough."""
    env = {"AIOMPI_TRANSPORTS": transports, "PYTHONPATH": os.pathsep.join([site.environ["PYTHONPATH"], str(TESTS)])}
    program = str(TESTS / "conformance" / "programs" / "examples.py")
    modules = [f"test_examples_{chapter}" for chapter in chapters]
    result = site.launch("-n", str(size), program, *modules, env=env).finish()
    assert (result.code, result.err, result.lines) == (0, "", [f"{examples} examples"])
