"""Progress bars of `map` and `starmap`."""

from __future__ import annotations

import re
import sys

import pytest

from aiompi.futures import ThreadPoolExecutor
from support.jobs import Site
from support.terminal import InTerminal

PROGRAM = """\
import asyncio
from aiompi.futures import ThreadPoolExecutor, pool

async def main():
    async with pool(max_workers=1) as executor:
        print([number async for number in executor.map(abs, range(-3, 3), chunksize=2, progress="numbers")])

if __name__ == "__main__":
    with ThreadPoolExecutor() as executor:
        print(sum(executor.starmap(pow, [(2, 3)] * 20, chunksize=6, progress="[powers]")))
    asyncio.run(main())
"""


def test_bars_in_a_terminal(site: Site) -> None:
    """They count calls, not chunks, and the program's output is beside them."""
    command = [sys.executable, site.program(PROGRAM, "program.py")]
    with InTerminal(command, site.environ, site.directory) as terminal:
        assert terminal.finish() == 0
        powers, total, numbers, results = filter(None, terminal.screen.text.splitlines())
    assert re.match(r"\[powers\] .*━ +20/20 ", powers)
    assert total == "160"
    assert re.match(r"numbers .*━ +6/6 ", numbers)
    assert results == "[3, 2, 1, 0, 1, 2]"


def test_no_bar_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """Where standard error is no terminal nothing is written."""
    with ThreadPoolExecutor() as executor:
        assert [*executor.map(abs, [-1, 2], progress="numbers")] == [1, 2]
    assert capsys.readouterr() == ("", "")
