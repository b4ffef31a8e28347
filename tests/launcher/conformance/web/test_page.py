"""The test tool: what the page shows and does, over HTTP and its WebSocket (IMPI 0.0, sections 5.1 and 5.2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, CookieJar, WSServerHandshakeError

from aiompi_launcher.conformance import archive, catalogue, cli
from aiompi_launcher.conformance.command import PLACEHOLDERS, Command, fill
from aiompi_launcher.conformance.results import Verdict
from aiompi_launcher.conformance.session import Limits
from aiompi_launcher.conformance.setup import Setup
from aiompi_launcher.conformance.web import app, listener
from aiompi_launcher.conformance.web.app import Tool
from launcher.conformance.web.serving import serving, visiting
from support.descriptors import no_more_descriptors
from support.limits import LIMIT
from support.rehearsal import peers

LAUNCHED = f"{shlex.quote(sys.executable)} -m aiompi_launcher --client {{client}} {{address}} -n {{np}} -m {{module}}"
PATIENT = Limits(startup=LIMIT, quiet=LIMIT)


class Page:
    """A page that is open.

    Attributes:
        events: that have come.
    """

    def __init__(self, client: ClientSession, url: str, socket: ClientWebSocketResponse) -> None:
        self.client = client
        self.url = url
        self.events: list[dict[str, Any]] = []
        self._socket = socket
        self._others: list[asyncio.Task[None]] = []

    async def ask(self, **request: Any) -> None:
        await self._socket.send_json(request)

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next event of a kind with these fields."""
        while True:
            event = await self._socket.receive_json(timeout=LIMIT)
            self.events.append(event)
            if event["event"] == kind and all(event.get(name) == value for name, value in fields.items()):
                return event

    async def result(self, name: str) -> dict[str, Any]:
        while True:
            result = (await self.until("result"))["result"]
            if result["name"] == name:
                return result

    async def text(self, path: str) -> str:
        async with self.client.get(self.url + path) as response:
            response.raise_for_status()
            return await response.text()

    def lines(self) -> list[str]:
        return [event["text"] for event in self.events if event["event"] == "line"]

    def start_others(self, command: str, setup: Setup, faulty: str = "", *, startup_only: bool = False) -> None:
        """Do what the person does: start the other side with the address that is shown."""
        found = re.search(r"(\d+\.\d+\.\d+\.\d+):(\d+)", command)
        assert found is not None
        address = found[1], int(found[2])
        for peer in peers(setup, faulty):
            self._others.append(asyncio.create_task(peer.run(*address, startup_only=startup_only)))

    async def close(self) -> None:
        await self._socket.close()
        for task in self._others:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Page]:
    async with visiting(Tool("127.0.0.1", catalogue.SCRIPTS, PATIENT)) as (url, client):
        page = Page(client, url, await client.ws_connect(url + "/live"))
        try:
            yield page
        finally:
            await page.close()


SETUP = {"clients": 1, "hosts": 1, "procs": 1, "first": 0, "iut_clients": 1, "iut_procs": 2}
OTHERS = Setup(procs=1)


@pytest.mark.spec("I5.1-4", "I5.1-11", "I5.1-12", "I5.2-4", "I5.4-4")
@pytest.mark.asyncio
async def test_a_person_runs_tests():
    async with opened() as page:
        await page.ask(
            action="start", setup=SETUP, template="impirun -client {client} {address} -np {np} {interpreter}"
        )
        waiting = await page.until("state", state="waiting")
        (command,) = waiting["commands"]
        assert re.match(r"IMPI_AUTH_NONE=1 impirun -client 1 127\.0\.0\.1:\d+ -np 2 \S+ -m ", command)
        page.start_others(command, OTHERS)
        await page.until("state", state="ready")
        await page.ask(action="run", tests=["probe/probe", "pt2pt/ranks_to_zero"])
        assert (await page.result("probe/probe"))["verdict"] == "pass"
        assert (await page.result("pt2pt/ranks_to_zero"))["verdict"] == "pass"
        await page.until("state", state="ready")
        assert "rank 0: Result: Pass" in page.lines()
        assert page.lines()[-1] == "PASS pt2pt/ranks_to_zero"
        await page.ask(action="finish")
        assert (await page.result("shutdown"))["verdict"] == "pass"


@pytest.mark.spec("I5.4-3")
@pytest.mark.asyncio
async def test_another_job_asks_for_a_new_start():
    async with opened() as page:
        await page.ask(action="start", setup=SETUP)
        page.start_others((await page.until("state", state="waiting"))["commands"][0], OTHERS)
        await page.until("state", state="ready")
        await page.ask(action="run", tests=["long/at_limit", "probe/probe"])  # the first needs smaller packets
        await page.until("line", text="For these tests the other side is to be started 2 more times.")
        await page.until("line", text="The next test needs another job: start the other side again.")
        waiting = await page.until("state", state="waiting")
        assert (waiting["start"], waiting["starts"]) == (1, 2)
        page.start_others(waiting["commands"][0], OTHERS)
        assert (await page.result("long/at_limit"))["verdict"] == "pass"
        waiting = await page.until("state", state="waiting")
        assert (waiting["start"], waiting["starts"]) == (2, 2)
        page.start_others(waiting["commands"][0], OTHERS)
        assert (await page.result("probe/probe"))["verdict"] == "pass"


@pytest.mark.spec("I5.1-14", "I5.1-17", "I5.1-20", "I5.2-4")
@pytest.mark.asyncio
async def test_a_failure_shows_what_was_expected():
    async with opened() as page:
        await page.ask(action="start", setup=SETUP)
        page.start_others((await page.until("state", state="waiting"))["commands"][0], OTHERS, "reduce-tag")
        await page.until("state", state="ready")
        await page.ask(action="run", tests=["ops/sum"])
        result = await page.result("ops/sum")
        (deviation,) = result["deviations"]
        assert (result["verdict"], deviation["rule"], deviation["section"]) == ("fail", "I4.16-3", "4.16")
        expected, actual = bytes.fromhex(deviation["expected"]), bytes.fromhex(deviation["actual"])
        assert (expected[84:88], actual[84:88]) == ((190).to_bytes(4), (191).to_bytes(4))
        assert any("tag=191" in step["text"] for step in result["steps"])
        assert "FAIL          ops/sum" in await page.text("/results.txt")
        assert json.loads(await page.text("/results.json"))["tests"][-1]["name"] == "ops/sum"
        assert "<failure" in await page.text("/results.xml")
        await page.ask(action="clear")
        await page.until("clear")
        assert json.loads(await page.text("/results.json"))["tests"] == []


@pytest.mark.spec("I5.1-8", "I5.1-9")
@pytest.mark.asyncio
async def test_startup_only_shows_each_step():
    async with opened() as page:
        await page.ask(action="start", setup=SETUP, startup_only=True)
        (command,) = (await page.until("state", state="waiting"))["commands"]
        assert command.endswith(" --startup-only")
        page.start_others(command, OTHERS, startup_only=True)
        assert (await page.result("start-up only"))["verdict"] == "pass"
        steps = [event["step"]["text"] for event in page.events if event["event"] == "step"]
        assert any(text.endswith("> AUTH, mask 0x1") for text in steps)
        assert "client 1 > COLL P_PID" in steps


@pytest.mark.spec("I5.2-3", "I5.3-17", "I5.4-11")
@pytest.mark.asyncio
async def test_emergency_stop_and_again():
    async with opened() as page:
        await page.ask(action="start", setup=SETUP)
        await page.until("state", state="waiting")
        await page.ask(action="start", setup=SETUP)
        assert "wait for the end" in (await page.until("error"))["text"]
        await page.ask(action="stop")
        await page.until("state", state="idle")
        await page.ask(action="start", setup=SETUP)
        page.start_others((await page.until("state", state="waiting"))["commands"][0], OTHERS)
        await page.until("state", state="ready")


@pytest.mark.asyncio
async def test_a_page_that_is_opened_later_sees_the_same():
    async with opened() as page:
        await page.ask(action="start", setup=SETUP)
        command = (await page.until("state", state="waiting"))["commands"]
        async with page.client.ws_connect(page.url + "/live") as late:
            catalogue_, state = [await late.receive_json() for _ in range(2)]
        assert len(catalogue_["scripts"]) == len(catalogue.load())
        assert (state["state"], state["commands"], state["setup"]) == ("waiting", command, SETUP)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"action": "run", "tests": []}, "select tests first"),
        ({"action": "run", "tests": ["../x"]}, "there is no script ../x"),
        ({"action": "start", "setup": {"clients": "2"}}, "clients must be a number"),
        ({"action": "start", "setup": {"clients": 0}}, "at least 1"),
        ({"action": "start", "setup": {"server": "x"}}, "the server is HOST:PORT"),
        ({"action": "start", "template": "run {what}"}, "the placeholders are"),
        ({"action": "start", "template": "'"}, "the command: No closing quotation"),
        ({"action": "fly"}, "there is no action 'fly'"),
        ([], "there is no action None"),
    ],
)
@pytest.mark.asyncio
async def test_wrong_requests(request_: Any, problem: str):
    async with opened() as page:
        await page._socket.send_json(request_)
        assert problem in (await page.until("error"))["text"]


@pytest.mark.spec("I5.1-5", "I5.2-6")
@pytest.mark.asyncio
async def test_pages_and_sources():
    async with opened() as page:
        html = await page.text("/")
        script = await page.text("/page.js")
        for identifier in set(re.findall(r'\$\("([\w-]+)"\)', script)):
            assert f'id="{identifier}"' in html
        assert "http://" not in html + script + await page.text("/style.css")  # no assets from elsewhere
        assert (await page.text("/script/pt2pt/pairs")).startswith("/* Every process sends ten numbers")
        assert await page.text("/manual") == catalogue.MANUAL.read_text()
        async with page.client.get(page.url + f"/{archive.NAME}") as response:
            assert await response.read() == archive.interpreter()
        for link in ("manual", archive.NAME, "https://www.nist.gov/publications/impi-making-mpi-interoperable"):
            assert f'<a href="{link}"' in html
        for path in ("/script/pt2pt/none", "/script/..%2F..%2Fsetup.py/x", "/results.exe", "/bench.py"):
            async with page.client.get(page.url + path) as response:
                assert response.status == 404


@pytest.mark.spec("I5.2-5")
@pytest.mark.asyncio
async def test_instructions_are_the_current_ones(capsys: pytest.CaptureFixture[str]):
    """What the page and the manual tell to fill in, press or write is there, and what is there is told."""
    async with opened() as page:
        told = (await page.until("catalogue"))["placeholders"]
        html, manual = await page.text("/"), await page.text("/manual")
    assert told == PLACEHOLDERS
    fill([f"{{{name}}}" for name in told], Setup(), 1, ("127.0.0.1", 9))
    assert set(re.findall(r"`\{(\w+)\}`", manual)) == set(told)
    labels = re.findall(r"press \*([^*]+)\*", manual)
    assert labels
    assert all(f">{label}</button>" in html for label in labels)
    actions = set(re.findall(r"aiompi-impi-tester ([a-z]+)", manual))
    assert actions == set(re.findall(r"aiompi-impi-tester ([a-z]+)", cli.__doc__ or ""))
    helps = ""
    for action in actions:
        with pytest.raises(SystemExit):
            cli.main([action, "--help"])
        helps += capsys.readouterr().out
    running = manual.partition("## The interpreter")[0]
    assert set(re.findall(r"--[a-z][a-z-]+", running)) <= set(re.findall(r"--[a-z][a-z-]+", helps))


@pytest.mark.spec("I5.1-2", "I5.1-12")
@pytest.mark.asyncio
async def test_page_manager_and_interpreter_are_three_parts():
    """A person opens the page, and runs the very command line that it shows, which starts aiompi."""
    printed: list[str] = []
    async with opened() as page:
        await page.ask(action="start", setup=SETUP | {"iut_procs": 1}, template=LAUNCHED)
        (command,) = (await page.until("state", state="waiting"))["commands"]
        shell = Command(["sh", "-c", command], {}, printed.append)
        await shell.start()
        try:
            await page.until("state", state="ready")
            await page.ask(action="run", tests=["types/int"])
            assert (await page.result("types/int"))["verdict"] == "pass"
            await page.ask(action="finish")
            assert (await page.result("shutdown"))["verdict"] == "pass"
        finally:
            assert await shell.end(LIMIT) == 0
    assert "types/int rank 1 done" in printed


@pytest.mark.spec("I5.2-1", "I5.2-3")
@pytest.mark.asyncio
async def test_verdicts_have_a_word_and_a_color():
    async with opened() as page:
        html, style, script = [await page.text(path) for path in ("/", "/style.css", "/page.js")]
    for verdict in Verdict:
        color = re.search(
            rf"^\.{verdict.value} {{ color: var\((--[\w-]+)\); background: var\((--[\w-]+)\); }}", style, re.M
        )
        assert color is not None
        assert all(f"{name}: light-dark(" in style for name in color.groups())
    assert "mark(result.name, result.verdict, result.verdict)" in script
    for control in ("Run startup only", "Run startup and prepare for scripts", "Run selected tests", "Clear"):
        assert f">{control}</button>" in html


@pytest.mark.asyncio
async def test_no_page_elsewhere_can_reach_in():
    async with opened() as page:
        headers = {"Origin": "http://evil.example"}
        async with page.client.get(page.url + "/", headers=headers) as response:
            assert response.status == 403
        with pytest.raises(WSServerHandshakeError):
            await page.client.ws_connect(page.url + "/live", headers=headers)
        async with page.client.get(page.url + "/") as response:
            assert "default-src 'self'" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize("address", ["127.0.0.1", "192.0.2.1"])
@pytest.mark.asyncio
async def test_a_token_is_needed(address: str):
    """Also on loopback, which other users of the machine reach. Nothing without it is kept connected."""
    tool = Tool(address, catalogue.SCRIPTS, PATIENT)
    assert len(tool.token) > 30
    async with serving(tool) as with_token, ClientSession(cookie_jar=CookieJar(unsafe=True)) as client:
        url = with_token.partition("/?")[0]
        for path in ("/", "/?token=x", "/?token=%ED%A0%80", "/results.txt", "/live", "/page.js"):
            async with client.get(url + path, data=b"x" * 2**16) as response:
                assert (response.status, response.headers["Connection"]) == (403, "close")
        async with client.get(with_token) as response:
            assert response.status == 200
        async with client.get(url + "/results.txt") as response:  # with the cookie
            assert response.status == 200


@pytest.mark.asyncio
async def test_two_testers_of_one_machine_do_not_share_a_cookie():
    tools = [Tool("127.0.0.1", catalogue.SCRIPTS, PATIENT) for _ in range(2)]
    async with visiting(tools[0]) as (one, client), serving(tools[1]) as other:
        async with client.get(other) as response:
            assert response.status == 200
        for url in (one, other.partition("/?")[0]):
            async with client.get(url + "/results.txt") as response:
                assert response.status == 200


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n"])
@pytest.mark.asyncio
async def test_silent_connections_hold_up_nobody(sent: bytes):
    """Few may be silent at a time, also where there are few descriptors."""
    async with visiting(Tool("127.0.0.1", catalogue.SCRIPTS, PATIENT)) as (url, client):
        port = int(url.rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(listener.MOST_WAITING + 40)]
        for _, writer in silent:
            writer.write(sent)
        assert await silent[0][0].read() == b"", "the oldest is closed"
        async with client.get(url + "/results.txt") as response:
            assert response.status == 200
        for _, writer in silent:
            writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"\r\n\r\nGET", b"x" * 2**15])
@pytest.mark.asyncio
async def test_a_request_has_little_time(monkeypatch: pytest.MonkeyPatch, sent: bytes):
    monkeypatch.setattr(listener, "PATIENCE", 0.2 if len(sent) < 2**14 else LIMIT)
    monkeypatch.setattr(app, "_KEPT", 10 * LIMIT)  # for what is no request this time does not count
    async with serving(Tool("127.0.0.1", catalogue.SCRIPTS, PATIENT)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(re.findall(r":(\d+)/", url)[0]))
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), LIMIT) == b""
        writer.close()


@pytest.mark.asyncio
async def test_a_request_that_comes_in_pieces_is_served():
    async with serving(Tool("127.0.0.1", catalogue.SCRIPTS, PATIENT)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(re.findall(r":(\d+)/", url)[0]))
        request = (
            f"GET /{url.partition('/?')[2].join(['?', ''])} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        )
        for start in range(0, len(request), 20):
            writer.write(request[start : start + 20])
            await writer.drain()
            await asyncio.sleep(0)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()


@pytest.mark.asyncio
async def test_descriptors_run_out():
    async with visiting(Tool("127.0.0.1", catalogue.SCRIPTS, PATIENT)) as (url, client):
        port = int(url.rpartition(":")[2])
        first, second = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        third = socket.socket()
        with first, second, third:
            third.setblocking(False)
            await asyncio.sleep(0.01)
            with no_more_descriptors():
                await asyncio.get_running_loop().sock_connect(third, ("127.0.0.1", port))
                first.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(first, 1) == b""
        async with client.get(url + "/results.txt") as response:
            assert response.status == 200


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "1" * 5000])
@pytest.mark.asyncio
async def test_what_is_no_request_of_the_page(text: str):
    async with opened() as page:
        await page._socket.send_str(text)
        await page.until("error")
        await page.ask(action="fly")
        assert "no action" in (await page.until("error", text="there is no action 'fly'"))["text"]
