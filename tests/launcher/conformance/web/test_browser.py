"""The page in a browser: what a person sees, at a desk and on a phone (IMPI 0.0, section 5.2).

Only run where there is a browser; test_page.py has what needs none. Pictures of the page are kept in the temporary
folder of the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiompi_launcher.conformance import archive, catalogue
from aiompi_launcher.conformance.session import Limits
from aiompi_launcher.conformance.web.app import Tool
from launcher.conformance.web.serving import serving
from support.browser import Tab, browsing
from support.limits import LIMIT

ALLTOALL = 170  # the tag of MPI_Alltoall
TESTER = [sys.executable, "-m", "aiompi_launcher.conformance.cli"]
#: a simulated implementation, which is wrong in one way
OTHER = f"{shlex.join(TESTER)} peer {{client}} {{address}} -np {{np}} --fault alltoall-tag"


class Shell:
    """The other side: a user that pastes command lines."""

    def __init__(self) -> None:
        self._running: list[asyncio.subprocess.Process] = []

    async def paste(self, line: str) -> None:
        self._running.append(
            await asyncio.create_subprocess_shell(line, stdout=asyncio.subprocess.DEVNULL, start_new_session=True)
        )

    async def close(self) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@contextlib.asynccontextmanager
async def looking(directory: Path, width: int, height: int, *, phone: bool = False) -> AsyncIterator[tuple[Tab, Shell]]:
    """The page in a window of this size, and the other side."""
    shell = Shell()
    tool = Tool("127.0.0.1", catalogue.SCRIPTS, Limits(startup=LIMIT, quiet=LIMIT))
    async with serving(tool) as url, browsing(directory) as tab:
        try:
            await tab.go(url, width, height, phone=phone)
            await tab.until("document.getElementById('state')?.textContent === 'no job'")
            yield tab, shell
            assert tab.troubles == []
        finally:
            await shell.close()


async def start(tab: Tab, shell: Shell, procs: int = 1) -> None:
    """One client here between two clients of one on the other side, until tests can be selected."""
    for name, value in {"procs": procs, "iut_procs": 1, "iut_clients": 2, "first": 1}.items():
        await tab.type(f"[name={name}]", str(value))
    await tab.type("[name=template]", OTHER)
    await tab.click("button[value=scripts]")
    await tab.until("document.querySelectorAll('#command-list code').length === 2")
    for number in (1, 2):
        await shell.paste(await tab.text(f"#command-list li:nth-child({number}) code"))
    await tab.until("document.getElementById('state').textContent === 'ready for tests'")


async def choose(tab: Tab, *tests: str) -> None:
    """Open groups, and check the boxes of some tests in them."""
    for group in dict.fromkeys(test.partition("/")[0] for test in tests):
        await tab.click(f"[data-group={group}] summary strong")
    for test in tests:
        await tab.click(f"[data-test='{test}'] input")


async def run(tab: Tab) -> None:
    await tab.click("#run")
    await tab.until("document.getElementById('log').textContent.includes('All tests completed')")


async def seen(tab: Tab, selector: str) -> dict[str, Any]:
    """Text of an element, and its colours as (red, green, blue)."""
    text, *colors = await tab.value(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}), s = getComputedStyle(e);"
        " return [e.innerText, s.color, s.backgroundColor] })()"
    )
    ink, paper = [tuple(map(int, re.findall(r"\d+", color)[:3])) for color in colors]
    return {"text": text, "ink": ink, "paper": paper}


def brightness(color: tuple[int, ...]) -> float:
    """Relative luminance, as WCAG 2 has it."""
    parts = [part / 255 for part in color]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    dark, bright = sorted((brightness(one), brightness(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.spec("I5.1-4", "I5.1-12", "I5.1-15", "I5.2-1", "I5.2-4", "I5.4-4")
@pytest.mark.asyncio
async def test_results_come_in_color_while_tests_run(tmp_path: Path):
    async with looking(tmp_path, 1100, 900) as (tab, shell):
        await start(tab, shell)
        await choose(tab, "cancel/of_unmatched", "collectives/alltoall_long", "probe/iprobe", "probe/probe")
        assert await tab.text("#count") == "4 of 201 selected"
        await tab.value(
            "window.seen = []; new MutationObserver((changes) => { for (const { target } of changes)"
            " if (target.className === 'verdict')"
            "   seen.push(`${target.parentElement.dataset.test} ${target.textContent}`) })"
            ".observe(document.getElementById('groups'), { subtree: true, childList: true })"
        )
        await run(tab)
        assert await tab.value("seen") == [
            "cancel/of_unmatched running",
            "cancel/of_unmatched indeterminate",
            "collectives/alltoall_long running",
            "collectives/alltoall_long fail",
            "probe/iprobe running",
            "probe/iprobe pass",
            "probe/probe running",
            "probe/probe pass",
        ]
        assert await tab.text("#tally") == "2 pass\n1 fail\n1 indeterminate"
        assert await tab.text("[data-group=probe] .tally") == "2 pass"
        for scheme in ("light", "dark"):
            await tab.colors(scheme)
            green, red, yellow, neutral = [
                await seen(tab, f"[data-test='{test}']")
                for test in ("probe/probe", "collectives/alltoall_long", "cancel/of_unmatched", "comm/dup")
            ]
            assert green["paper"][1] > max(green["paper"][0], green["paper"][2])
            assert red["paper"][0] > 1.1 * max(red["paper"][1:])
            assert min(yellow["paper"][:2]) > yellow["paper"][2]
            assert neutral["paper"] == (0, 0, 0)  # none
            for item, word in ((green, "pass"), (red, "fail"), (yellow, "indeterminate")):
                assert word in item["text"].splitlines()
                assert contrast(item["ink"], item["paper"]) > 4.5
            await tab.picture(tmp_path / f"desk-{scheme}.png", whole=True)


@pytest.mark.spec("I5.4-3")
@pytest.mark.asyncio
async def test_the_next_start_is_the_one_thing_to_look_at(tmp_path: Path):
    """The page says how many starts are to come. Failures are shown first, and what ranks say alike is folded."""
    async with looking(tmp_path, 1100, 900) as (tab, shell):
        await start(tab, shell, procs=3)
        assert await tab.value("document.getElementById('next').checkVisibility()") is False
        await choose(tab, "long/at_limit", "flow/strict", "probe/probe", "collectives/alltoall_long")
        await tab.click("#run")
        for number in (1, 2):
            await tab.until(f"document.getElementById('next-title').textContent.endsWith('start {number} of 2')")
            await tab.until("document.getElementById('next').checkVisibility()")
            assert (await tab.value("document.title")).startswith(f"Run start {number} of 2")
            top = "(e => e.getBoundingClientRect().top)(document.getElementById('next'))"
            assert 0 <= await tab.value(top) < 100
            assert float(await tab.value("getComputedStyle(document.querySelector('main section')).opacity")) < 0.6
            assert ("1 more to come" in await tab.text("#next-why")) is (number == 1)
            await tab.picture(tmp_path / f"start-{number}.png")
            for client in (1, 2):
                await shell.paste(await tab.text(f"#command-list li:nth-child({client}) code"))
            await tab.until("!document.getElementById('next').checkVisibility()")
        await tab.until("document.getElementById('log').textContent.includes('All tests completed')")
        assert await tab.value("document.title") == "IMPI conformance tester"
        shown = await tab.value("[...document.querySelectorAll('.results > li')].map((e) => e.dataset.result)")
        assert shown[0] == "collectives/alltoall_long"
        assert {"long/at_limit", "probe/probe"} <= set(shown)
        assert (await seen(tab, "#failed li"))["paper"][0] > 200
        assert await tab.value("document.getElementById('passed').checkVisibility()") is False
        assert " ranks: Result: Pass" in await tab.text("#log")
        assert "rank 2: Result: Pass" not in await tab.text("#log"), "it is folded"
        await tab.picture(tmp_path / "results.png", whole=True)


@pytest.mark.spec("I5.1-5", "I5.1-14", "I5.1-17", "I5.1-20", "I5.2-3", "I5.2-6")
@pytest.mark.asyncio
async def test_source_details_and_downloads(tmp_path: Path):
    async with looking(tmp_path, 1100, 900) as (tab, shell):
        await start(tab, shell)
        await choose(tab, "collectives/alltoall_long")
        await tab.click("[data-test='collectives/alltoall_long'] button")
        await tab.until("document.querySelector('dialog[open] pre')")
        (script,) = catalogue.select(catalogue.load(), [], ["collectives/alltoall_long"])
        assert await tab.text("dialog pre") == script.source
        assert set(script.rules) <= set(re.findall(r"I[\d.]+-\d+", await tab.text("#dialog-body p")))
        await tab.click("#close")
        await run(tab)

        await tab.click("[data-test='collectives/alltoall_long'] button:last-of-type")
        await tab.until("document.querySelector('dialog[open] .trace')")
        expected, actual = await tab.value(
            "[...document.querySelector('.beside').children].map((e) =>"
            " [e.querySelector('h4').innerText, e.querySelector('mark').innerText, e.getBoundingClientRect().y])"
        )
        assert expected[:2] == ["Expected", f"{ALLTOALL:08x}"]
        assert actual[:2] == ["Actual", f"{ALLTOALL + 1:08x}"]
        assert expected[2] == actual[2]  # side by side
        assert f"tag={ALLTOALL + 1}" in await tab.text(".trace")
        await tab.picture(tmp_path / "details.png")
        await tab.click("#close")

        assert "FAIL          collectives/alltoall_long" in (await tab.download("a[href='results.txt']")).decode()
        assert json.loads(await tab.download("a[href='results.json']"))["tests"][-1]["verdict"] == "fail"
        assert b"<failure" in await tab.download("a[href='results.xml']")
        assert await tab.download("a[href='interpreter.pyz']") == archive.interpreter()
        await tab.click("#clear")
        await tab.until("document.getElementById('log').textContent === ''")
        assert await tab.value("document.querySelectorAll('.pass, .fail').length") == 0


@pytest.mark.spec("I5.2-2")
@pytest.mark.asyncio
async def test_groups_are_shown_and_hidden_and_selected(tmp_path: Path):
    async with looking(tmp_path, 1100, 900) as (tab, _):
        shown = "document.querySelector('[data-test=\"probe/probe\"]').checkVisibility()"
        assert await tab.value(shown) is False
        await tab.click("[data-group=probe] summary strong")
        assert await tab.value(shown) is True
        await tab.click("[data-group=probe] summary input")
        assert await tab.value(shown) is True  # selecting does not hide
        probes = [script for script in catalogue.load() if script.group == "probe"]
        assert await tab.text("#count") == f"{len(probes)} of 201 selected"
        await tab.click("[data-test='probe/probe'] input")
        assert await tab.text("#count") == f"{len(probes) - 1} of 201 selected"
        assert await tab.value("document.querySelector('[data-group=probe] summary input').indeterminate") is True
        await tab.click("[data-group=probe] summary strong")
        assert await tab.value(shown) is False
        await tab.click("#all")
        assert await tab.text("#count") == "201 of 201 selected"
        await tab.click("#none")
        assert await tab.text("#count") == "0 of 201 selected"
        assert await tab.value("document.getElementById('run').disabled") is True


@pytest.mark.spec("I5.1-8", "I5.1-9", "I5.2-3")
@pytest.mark.asyncio
async def test_on_a_phone(tmp_path: Path):
    """Nothing is wider than the screen, and fingers find the buttons."""
    async with looking(tmp_path, 390, 844, phone=True) as (tab, shell):
        await start(tab, shell)
        await choose(tab, "collectives/alltoall_long", "probe/probe")
        await tab.picture(tmp_path / "phone-tests.png")
        await run(tab)
        assert await tab.value("document.documentElement.scrollWidth") <= 390
        small = await tab.value(
            "[...document.querySelectorAll('button, .button, summary')].filter((e) => e.checkVisibility())"
            ".filter((e) => e.getBoundingClientRect().height < 24).map((e) => e.outerHTML)"
        )
        assert small == []
        await tab.click("[data-test='collectives/alltoall_long'] button:last-of-type")
        await tab.until("document.querySelector('dialog[open] .trace')")
        assert await tab.value("document.getElementById('dialog').scrollWidth") <= 390
        assert await tab.value("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.hex'))")
        row = "document.querySelector('.hex').getBoundingClientRect().height / 8 / parseFloat(getComputedStyle("
        assert await tab.value(f"{row}document.querySelector('.hex')).fontSize)") < 2  # no line is broken
        await tab.picture(tmp_path / "phone-details.png")
        await tab.click("#close")
        await tab.click("#stop")
        await tab.until("document.getElementById('state').textContent === 'no job'")
        await tab.click("button[value=startup]")
        await tab.until("document.querySelector('#command-list code')")
        assert (await tab.text("#command-list code")).endswith("--startup-only")
        await tab.picture(tmp_path / "phone-command.png")
        for number in (1, 2):
            await shell.paste(await tab.text(f"#command-list li:nth-child({number}) code"))
        await tab.until("document.getElementById('log').textContent.includes('PASS start-up only')")
        assert "client 2 > COLL P_PID" in await tab.text("#log")
        await tab.picture(tmp_path / "phone-whole.png", whole=True)
