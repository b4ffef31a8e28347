"""The live table of a job: `--top` and `--attach`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiompi.errors import RemoteProtocolError
from aiompi.net import interfaces
from aiompi.wire import control
from aiompi.wire.look import Look
from aiompi_launcher.job.table import Job
from aiompi_launcher.top.client import Client
from aiompi_launcher.top.viewers import Viewers
from aiompi_launcher.top.watch import Ranks, Title, Watch
from support.jobs import KEY, LAUNCHER, Site
from support.terminal import InTerminal

PROGRAM = """\
import sys
from aiompi import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    print("first line")
    print("name? ", end="", flush=True)
    print("hello", sys.stdin.readline(), end="", flush=True)
world.Barrier()
if world.rank == 0:
    world.send(sys.stdin.readline(), dest=1)
    world.recv(source=1)
else:
    sys.exit(world.recv(source=0))
"""
NATIVE = """\
import asyncio, aiompi
async def listen(world):
    await world.recv(source=1, tag=5)
async def main(world):
    await world.barrier()
    if world.rank == 0:
        await asyncio.gather(listen(world), world.recv(source=1))
    await world.recv(source=0)
aiompi.run(main)
"""


def rows(text: str) -> list[str]:
    """The states in the last table of a text, by rank."""
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("rank  host")]
    if not heads:  # the table is hidden for a moment
        return []
    head = heads[-1]
    begin = lines[head].index("state")
    return [line[begin:] for line in lines[head + 1 :] if line.strip()]


def test_in_a_terminal(site: Site) -> None:
    """The output stays as it is above the table, also a prompt and what is typed; others look, and change nothing."""
    with InTerminal([*LAUNCHER, "--top", "-n", "2", site.program(PROGRAM)], site.environ, site.directory) as terminal:
        text = terminal.until(lambda text: "computes" in text and "Barrier at app.py:8" in text)
        assert text.splitlines()[:2] == ["first line", "name?"]
        terminal.type("Ada\n")
        terminal.until(lambda text: "hello Ada" in text and "for rank 0: recv at app.py:13" in text)
        text = terminal.until(lambda text: rows(text)[:1] == ["computes"])
        assert text.splitlines()[:3] == ["first line", "name? Ada", "hello Ada"]
        launcher = terminal.process.pid
        once = site.launch("--attach", str(launcher)).finish()
        assert (once.code, once.err) == (0, "")
        assert re.match(rf"job {launcher}: .+, 2 ranks, 0:\d\d\n", once.out)
        assert "recv at app.py:13" in rows(once.out)[1]
        with InTerminal([*LAUNCHER, "--attach", str(launcher)], site.environ, site.directory) as other:
            other.until(lambda text: "recv at app.py:13" in text)
            terminal.type("sorry\n")
            assert terminal.finish() == 1
            assert other.finish() == 0
        text = terminal.screen.text
        assert re.search(r"sorry\n(.*\n)*job \d+: ", text)
        assert "failed: exited with status 1" in rows(text)[1]
        assert "failed" in rows(other.screen.text)[1]


def test_a_wait_that_began_before(site: Site) -> None:
    """A task that waits is found, with its operation and line, and the launcher lists its job."""
    job = site.launch("-n", "2", site.program(NATIVE))
    listed = site.launch("--attach", "1").finish()
    refusal = "aiompi-launch: --attach: no job with the launcher 1 of this user runs on this machine\n"
    assert (listed.code, listed.err) == (1, refusal)
    out = ""
    while "recv from 1" not in out:
        out = site.launch("--attach", str(job.process.pid)).finish().out
    first, second = rows(out)
    assert re.fullmatch(r"waits \d\.\d s: recv from 1, any tag, and 1 more", first)
    assert re.fullmatch(r"waits \d\.\d s: recv from 0, any tag at app.py:8", second)
    job.signal(15)
    job.finish()


MEMBER = """\
import asyncio, sys
import aiompi
async def main():
    async with aiompi.join(sys.argv[1]) as member:
        if sys.argv[2] == "in":
            world = await member.assemble(at_least=2)
            await world.recv(source=1 - world.rank)
        await asyncio.sleep(1000)
asyncio.run(main())
"""


def test_members_of_an_open_job(site: Site) -> None:
    """They have rows in and outside of a world, and none when they have gone."""
    environ = site.environ | {"AIOMPI_KEY": KEY}
    with InTerminal([*LAUNCHER, "--serve", "--top"], environ, site.directory) as terminal:
        address = terminal.until(lambda text: "127.0.0.1:" in text and "\n" in text).split()[0]
        member = [sys.executable, site.program(MEMBER), address]
        started = [site.start(*member, where, env={"AIOMPI_KEY": KEY}) for where in ("in", "in", "out")]
        text = terminal.until(lambda text: text.count("recv from") == 2 and "is in no world" in text)
        assert sorted(re.findall(r"\(member \d\)", text)) == ["(member 1)", "(member 2)", "(member 3)"]
        assert re.search(r"waits \d\.\d s.*: recv from 1, any tag at app.py:7", text)
        started[2].signal(9)
        text = terminal.until(lambda text: "is in no world" not in text and "--serve at" in text)
        assert "has failed: it closed its connection" in text
        for each in started[:2]:
            each.signal(9)
        terminal.process.terminate()
        terminal.finish()


def test_without_a_terminal_or_rich(site: Site) -> None:
    """One line says that there is no table, and the job runs."""
    program = site.program("print('done')")
    result = site.launch("--top", program).finish()
    assert result.out == "done\n"
    assert result.err == "aiompi-launch: --top needs a terminal; the job runs without the table\n"
    hidden = (
        "import sys, importlib.util as util; find = util.find_spec; util.find_spec = lambda name: name != 'rich' and "
        "find(name) or None; from aiompi_launcher.cli import main; sys.exit(main())"
    )
    with InTerminal([sys.executable, "-c", hidden, "--top", program], site.environ, site.directory, 120) as terminal:
        assert terminal.finish() == 0
        reason = "--top needs rich, which comes with the extra trace of aiompi; the job runs without the table"
        assert terminal.screen.text.splitlines() == [f"aiompi-launch: {reason}", "done"]


class Silent:
    """No rank answers."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def ask(self, number: int) -> None:
        self.asked.append(number)

    def looks(self, number: int) -> list[Look]:
        return [Look(0, "here", "runs")]


@contextlib.asynccontextmanager
async def viewed(path: str) -> AsyncIterator[Silent]:
    """A job that can be looked at at a path."""
    silent, loop = Silent(), asyncio.get_running_loop()
    viewers = Viewers(lambda: Title(1, "app.py", 1, 0.0), Watch(silent))
    with interfaces.listen_unix(path) as listener:
        listener.setblocking(False)
        loop.add_reader(listener, lambda: viewers.admit(listener.accept()[0]))
        yield silent
        viewers.close()
        loop.remove_reader(listener)


async def look(path: str) -> Client | None:
    _, client = await asyncio.get_running_loop().create_unix_connection(Client, path)
    return await client.introduced


def test_no_other_user_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel names the user of each viewer; another one gets no byte. A viewer refuses the launcher of another."""

    async def main() -> None:
        path = str(tmp_path / "top")
        async with viewed(path) as silent:
            monkeypatch.setattr(interfaces, "credentials", lambda sock: (7, os.getuid() + 1))
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(stranger, path)
                assert await loop.sock_recv(stranger, 100) == b""
            monkeypatch.setattr(Viewers, "admit", lambda viewers, connection: greeted.append(connection))
            greeted: list[socket.socket] = []
            assert await look(path) is None
            assert silent.asked == []
            for connection in greeted:
                connection.close()

    asyncio.run(main())


def test_a_viewer_only_looks(tmp_path: Path) -> None:
    """Ranks are asked from the byte after its banner to its end, and another byte is its end. The 17th is refused."""

    async def main() -> None:
        path = str(tmp_path / "top")
        async with viewed(path) as silent:
            client = await look(path)
            assert client is not None
            assert (client.title.program, silent.asked) == ("app.py", [])
            looked = asyncio.Event()
            client.watch(looked.set)
            await looked.wait()
            assert client.looks == [Look(0, "here", "runs")]
            client.watch(looked.set)
            await client.ended
            assert silent.asked[-1] == 0
            others = [await look(path) for _ in range(17)]
            assert [other is None for other in others] == [False] * 16 + [True]
            for other in filter(None, others):
                other.close()

    asyncio.run(main())


def test_ranks_of_a_table() -> None:
    """Answers of ranks are checked; a rank that does not answer computes, and one that ends has a state of its own."""
    job = Job(4, directory="", spawned=False, survives=True)
    for rank in range(4):
        job.received(rank, control.Join(0))
        job.received(rank, control.Card({"host": f"node{rank}"}))
    job.introduce([{}] * 4)
    job.actions()
    sent: list[int] = []
    ranks = Ranks(job, lambda action: sent.append(action.number))
    ranks.ask(5)
    assert sent == [0, 1, 2, 3]
    job.received(0, control.Looked(5, [*Look(9, "elsewhere", "waits", 1.5, "\x1b[2Jrecv", 1)]))
    job.received(1, control.Looked(5, [*Look(1, "", "runs", messages=float("nan"))]))
    job.received(2, control.Leave())
    job.received(3, control.Failed(3, "raised an error"))
    looks = [*ranks.looks(5)]
    assert [look.host for look in looks] == ["node0", "node1", "node2", "node3"]
    with pytest.raises(RemoteProtocolError, match="at most 4096 are allowed"):
        control.Decoder().receive_data(control.encode(control.Looked(1, ["x" * 5000])))
    states = ["waits 1.5 s for rank 1: \\x1b[2Jrecv", "computes", "left", "failed: raised an error"]
    assert [str(look) for look in looks] == states
