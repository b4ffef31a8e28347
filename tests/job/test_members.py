"""Jobs that are open: processes join, are a world together, leave or fail, and are a world again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import inspect
import logging
import math
import os
import re
import signal
import socket
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import aiompi
from aiompi import InvalidArgumentError, JobAbortedError, Settings
from aiompi.wire.control import MAX_DEPTH
from aiompi_launcher.cli import parse
from aiompi_launcher.job.open_job import OpenJob
from support.jobs import KEY, Running, Site
from support.limits import LIMIT
from support.worlds import open_descriptors

pytestmark = pytest.mark.usefixtures("no_job")

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]

#: for what does the same in every event loop
in_one_loop = pytest.mark.parametrize("run", ["asyncio"], indirect=True)


@contextlib.asynccontextmanager
async def members(count: int, **options: Any) -> AsyncIterator[tuple[aiompi.ServedJob, list[aiompi.Membership]]]:
    """Serve a job in this process, with so many members in this process."""
    async with contextlib.AsyncExitStack() as stack:
        job = await stack.enter_async_context(aiompi.serve(**options))
        joins = [aiompi.join(job.address, job.key, attributes={"n": n}) for n in range(count)]
        yield job, [await stack.enter_async_context(join) for join in joins]


async def assemble(some: list[aiompi.Membership], **options: Any) -> list[aiompi.AssembledWorld]:
    return await asyncio.gather(*(member.assemble(**options) for member in some))


async def sums(worlds: list[aiompi.AssembledWorld]) -> list[int]:
    return await asyncio.gather(*(world.allreduce(1) for world in worlds))


def _delays() -> Iterator[bool]:
    """Tell of each TCP connection of this process whether it holds messages back."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as sock:
            if sock.family == socket.AF_INET and sock.getpeername():
                yield not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_world_of_all_members_is_the_same_at_each(run: Run) -> None:
    """No connection holds a message back until the one before is acknowledged, which takes 40 ms each time."""

    async def main() -> None:
        async with members(3) as (job, joined):
            worlds = await assemble(joined, at_least=3)
            delays = list(_delays())
            assert len(delays) >= 4
            assert not any(delays)
            assert await sums(worlds) == [3, 3, 3]
            assert [world.rank for world in worlds] == [0, 1, 2]
            assert {world.generation for world in worlds} == {1}
            assert all(world.members == job.members() for world in worlds)
            assert [member.attributes for member in job.members()] == [{"n": 0}, {"n": 1}, {"n": 2}]
            assert [member.id for member in job.members()] == [member.id for member in joined]
            assert not any(world.changed.is_set() for world in worlds)
        assert job.members() == ()

    run(main())


def test_a_newcomer_and_a_member_that_leaves_make_the_others_assemble_again(run: Run) -> None:
    async def main() -> None:
        async with members(2) as (job, joined):
            changes = joined[0].job.changes()
            first = await assemble(joined, at_least=2)
            async with aiompi.join(job.address, job.key) as newcomer:
                waiting = asyncio.ensure_future(newcomer.assemble(at_least=3))
                assert "asks for a new world" in await first[0].changed
                assert await sums(first) == [2, 2], "the world works until it is left"
                second = [*await assemble(joined), await waiting]
                assert await sums(second) == [3, 3, 3]
                for world in first:
                    with pytest.raises(aiompi.RevokedError, match="has left world 1 of its job"):
                        await world.barrier()
            assert await second[1].changed
            with pytest.raises(aiompi.ProcessFailedError, match=r"rank 2 has left world 2 of the job: .* assemble"):
                await second[0].recv(source=2)
            third = await assemble(joined)
            assert [world.generation for world in third] == [3, 3]
            assert await sums(third) == [2, 2]
        kinds = [change.kind async for change in changes]
        assert kinds[:2] == ["joined", "left"]

    run(main())


#: calls in a world, which need no other process if it has one rank
CALLS: dict[str, Callable[[Any], Any]] = {
    "send": lambda world: world.send(1, 0),
    "isend": lambda world: world.isend(1, 0),
    "iprobe": lambda world: world.iprobe(),
    "barrier": lambda world: world.barrier(),
    "allreduce": lambda world: world.allreduce(1),
    "bcast": lambda world: world.bcast(1),
    "alltoall": lambda world: world.alltoall([1] * world.size),
    "Allreduce": lambda world: world.Allreduce(bytearray(8), bytearray(8)),
    "scan": lambda world: world.scan(1),
    "Dup": lambda world: world.Dup(),
    "Split": lambda world: world.Split(),
    "Create_group": lambda world: world.Create_group(world.group),
    "Shrink": lambda world: world.Shrink(),
    "Agree": lambda world: world.Agree(1),
    "of COMM_SELF": lambda world: world.COMM_SELF.allreduce(1),
    "Open_port": lambda world: world.Open_port(),
    "Publish_name": lambda world: world.Publish_name("name", "port"),
    "Spawn": lambda world: world.Spawn("true"),
}


@in_one_loop
@pytest.mark.parametrize("size", [1, 2])
def test_every_call_in_a_world_that_was_left_is_refused(run: Run, size: int) -> None:
    """Also if the call would need no other process, and a collective also while the member still leaves."""

    async def refused(world: aiompi.AssembledWorld) -> None:
        for call in CALLS.values():
            with pytest.raises(aiompi.RevokedError, match="has left world 1 of its job"):
                result = call(world)
                if inspect.isawaitable(result):
                    await result

    async def main() -> None:
        async with members(size) as (_, joined):
            first = await assemble(joined, at_least=size)
            second = [asyncio.create_task(member.assemble(at_least=size)) for member in joined]
            while any(member.world is not None for member in joined):
                await asyncio.sleep(0)
            for world in first:
                with pytest.raises(aiompi.RevokedError):
                    world.allreduce(1)
            await asyncio.gather(*second)
            while any(member._departures for member in joined):
                await asyncio.sleep(0)
            for world in first:
                await refused(world)

    run(main())


@in_one_loop
def test_members_that_do_not_ask_until_the_time_is_over(run: Run) -> None:
    async def main() -> None:
        async with members(3) as (_, joined):
            with pytest.raises(TimeoutError, match=r"no world within 0.05 s: 1 of at least 2 members have asked"):
                await joined[0].assemble(at_least=2, within=0.05)
            first = await assemble(joined, at_least=3)
            assert {world.generation for world in first} == {1}
            second = await assemble(joined[:2], within=0.1)
            assert [world.size for world in second] == [2, 2]
            assert "asks for a new world" in await first[2].changed
            with pytest.raises(aiompi.ProcessFailedError):
                await first[2].recv(source=0)

    run(main())


def test_a_call_of_assemble_that_is_cancelled(run: Run) -> None:
    async def main() -> None:
        async with members(3) as (_, joined):
            for at_least in (3, 2):  # while it waits, and while its world starts
                call = asyncio.ensure_future(joined[0].assemble(at_least))
                await asyncio.sleep(0)
                with pytest.raises(aiompi.LocalProtocolError, match="another call of assemble"):
                    await joined[0].assemble()
                others = asyncio.ensure_future(assemble(joined[1:], at_least=2))
                while at_least == 2 and joined[0]._answer is not None:  # its world has been decided
                    await asyncio.sleep(0)
                call.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await call
                worlds = await others
                assert worlds[0].size in (2, 3)
            assert await sums(await assemble(joined, at_least=3)) == [3, 3, 3]

    run(main())


@in_one_loop
def test_attributes_that_are_nested_as_deeply_as_possible(run: Run) -> None:
    async def main() -> None:
        attributes: dict[str, Any] = {}
        for _ in range(MAX_DEPTH - 1):
            attributes = {"a": attributes}
        async with members(1) as (job, (member,)), aiompi.join(job.address, job.key, attributes=attributes) as newcomer:
            worlds = await assemble([member, newcomer], at_least=2)
            assert all(world.members[1].attributes == attributes for world in worlds)

    run(main())


@pytest.mark.parametrize(
    "attributes", [{"x": object()}, {1: 2}, {"x": {2: 3}}, {"x": 2**70}, "abc", {"x": "x" * 2**16}]
)
def test_attributes_that_others_cannot_get(attributes: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="the attributes of a member"):
        aiompi.join("127.0.0.1:1", KEY, attributes=attributes)


@in_one_loop
def test_a_member_that_begins_twice_joins_once(run: Run) -> None:
    async def main() -> None:
        async with aiompi.serve() as job, await aiompi.join(job.address, job.key, attributes={"t": (1, 2)}) as member:
            assert await member is member
            assert [(other.id, other.attributes) for other in job.members()] == [(1, {"t": [1, 2]})]
            with pytest.raises(InvalidArgumentError, match="no negative time"):
                await member.assemble(within=math.nan)
        for limits in ({"at_least": 3, "at_most": 2}, {"at_least": 0}):
            with pytest.raises(InvalidArgumentError, match="expected 1 <= at_least <= at_most"):
                async with aiompi.serve(**limits):
                    pass

    run(main())


@in_one_loop
def test_members_are_refused(run: Run, site: Site) -> None:
    fixed, address = site.serve(1)

    async def main() -> None:
        async with members(1, at_most=1) as (job, _):
            with pytest.raises(JobAbortedError, match="the job has 1 members already"):
                await aiompi.join(job.address, job.key)
            with pytest.raises(JobAbortedError, match=r"its members come and go: be one of them by aiompi\.join"):
                await aiompi.init(job.address, job.key)
            with pytest.raises(JobAbortedError, match="cannot be joined"):
                await aiompi.join(job.address, KEY, settings=Settings(connect_timeout=1.0))
        with pytest.raises(JobAbortedError, match=r"number of its ranks is fixed: be one of them by aiompi\.init"):
            await aiompi.join(address, KEY)

    run(main())
    fixed.close()


@in_one_loop
def test_a_member_that_breaks_the_protocol_is_said_to_have_done_so_once(run: Run) -> None:
    async def main() -> None:
        async with members(2) as (_, joined):
            changes = joined[0].job.changes()
            joined[1]._agent._socket.send(b"\xff" * 64)
            change = await anext(changes)
            assert change.kind == "failed"
            assert re.fullmatch(r"broke the control protocol: control message of \d+ bytes.*", change.cause)

    run(main())


def served() -> OpenJob:
    (job,) = (each for each in gc.get_objects() if type(each) is OpenJob and each._links)
    return job


@in_one_loop
def test_a_member_that_does_not_read_costs_little_and_learns_which_are_there(run: Run) -> None:
    """Others come and go meanwhile, and say much of themselves."""

    async def main() -> None:
        async with members(2) as (job, joined):
            slow = joined[0]
            changes = slow.job.changes()
            descriptor = slow._agent._socket.fileno()
            slow._driver.remove_reader(descriptor)
            attributes = {"long": b"x" * (2**16 - 100)}
            slow._agent._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
            turns = 0
            while turns < 10:  # in which it is too far behind
                async with aiompi.join(job.address, job.key, attributes=attributes):
                    pass
                assert served()._links[slow.id].backlog < 2**20 + 2**17
                turns += slow.id in served()._behind
            async with aiompi.join(job.address, job.key) as last:
                await joined[1].leave()
                slow._driver.add_reader(descriptor, slow._agent._readable)
                async for change in changes:
                    if change.member.id == last.id:
                        break
                assert slow.job.members() == job.members()
                assert [member.id for member in slow.job.members()] == [slow.id, last.id]
                assert await sums(await assemble([slow, last], at_least=2)) == [2, 2]
            async for change in changes:
                assert (change.kind, change.member.id) == ("left", last.id)
                break

    run(main())


@in_one_loop
def test_calls_that_were_given_up_leave_no_timers(run: Run) -> None:
    async def timers(subjects: list[tuple[int, int]]) -> None:
        """Wait until the launcher has these timers and no others."""
        async with asyncio.timeout(LIMIT):
            while [timer.subject for timer in served()._performer._timers] != subjects:
                await asyncio.sleep(0.001)

    async def main() -> None:
        async with members(1) as (job, joined):
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(joined[0].assemble(at_least=2, within=1000.0), 0.001)
            await timers([(joined[0].id, 20)])
            async with aiompi.join(job.address, job.key) as other:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(other.assemble(at_least=3, within=1000.0), 0.001)
                await timers([(joined[0].id, 20), (other.id, 1)])
            await timers([(joined[0].id, 20)])

    run(main())


@in_one_loop
@pytest.mark.parametrize("debug", [0.0, 0.01])
def test_a_call_that_waits_says_for_whom(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, debug: float
) -> None:
    """As when two members that begin in one loop ask for worlds at once: the first has one before the second asks."""
    monkeypatch.setattr("aiompi.job.assembly.PATIENCE", 0.01 if not debug else 1000.0)
    caplog.set_level(logging.INFO, "aiompi.job.assembly")

    async def said(level: int, call: asyncio.Task[Any], what: str) -> None:
        shown = f"wait_for=<assemble of member [12] of 127[^ ]*: {re.escape(what)}"
        while not re.search(shown, repr(call)):
            await asyncio.sleep(0.005)
        assert any(record.levelno == level and what in record.getMessage() for record in caplog.records)

    async def main() -> None:
        async with members(2) as (_, joined):
            settings = dataclasses.replace(joined[0]._engine.settings, debug=debug)
            for member in joined:
                monkeypatch.setattr(member._engine, "settings", settings)
            calls = [asyncio.create_task(member.assemble()) for member in joined]
            await calls[0]
            absent = "these members are in a world and have not asked for the next one"
            await said(logging.WARNING, calls[1], f"{absent}: member {joined[0].id}")
            calls[0] = asyncio.create_task(joined[0].assemble(at_least=3))
            level = logging.WARNING if debug else logging.INFO
            await said(level, calls[0], "2 of at least 3 members have asked for one")
            for call in calls:
                call.cancel()

    run(main())


@in_one_loop
def test_an_exception_that_leaves_the_block_is_a_failure_of_this_member(run: Run) -> None:
    async def main() -> None:
        async with members(2) as (job, joined):
            changes = joined[0].job.changes()
            with pytest.raises(KeyError):
                async with aiompi.join(job.address, job.key) as third:
                    worlds = await assemble([*joined, third], at_least=3)
                    assert await sums(worlds) == [3, 3, 3]
                    raise KeyError("mine")
            assert (await anext(changes)).kind == "joined"
            change = await anext(changes)
            assert (change.kind, change.member.id, change.cause) == ("failed", third.id, "failed: KeyError: 'mine'")
            assert await sums(await assemble(joined)) == [2, 2]
            while len(served()._of_link) > 2:  # the connection that the agent has closed is forgotten, too
                await asyncio.sleep(0.01)

    run(main())


def test_the_end_of_the_job(run: Run) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            job = await stack.enter_async_context(aiompi.serve())
            member = await aiompi.join(job.address, job.key)
            world = await member.assemble()
            changes = member.job.changes()
            waiting = asyncio.ensure_future(member.assemble(at_least=2))
            await asyncio.sleep(0)
            await stack.aclose()
            for awaitable in (waiting, anext(changes), member.assemble()):
                with pytest.raises(JobAbortedError, match="the program that served it has closed it"):
                    await awaitable
            assert world.changed.is_set()
            await member.leave()

    run(main())


def test_a_member_belongs_to_its_loop_and_goes_on_in_the_next_one(site: Site) -> None:
    """In another loop its calls are refused by name, and those that wait for an event as well."""
    replicas = Replicas(site)

    async def times_out(awaitable: Awaitable[Any]) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await awaitable

    async def refused(*awaitables: Awaitable[Any]) -> None:
        for awaitable in awaitables:
            with pytest.raises(aiompi.LocalProtocolError, match="belongs to the event loop"):
                await awaitable

    async def begin() -> tuple[aiompi.Membership, aiompi.AssembledWorld]:
        member = await aiompi.join(replicas.address, KEY)
        return member, await member.assemble()

    async def go_on() -> None:
        async with aiompi.join(replicas.address, KEY) as other:
            assert (await anext(member.job.changes())).member.id == other.id
            assert await sums([world]) == [1]
            asking = asyncio.ensure_future(other.assemble(at_least=2))
            assert "asks for a new world" in await world.changed
            assert await sums([await member.assemble(at_least=2), await asking]) == [2, 2]
        await member.leave()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        member, world = first.run(begin())
        first.run(times_out(anext(member.job.changes())))
        first.run(times_out(world.changed))
        second.run(refused(member.assemble(), anext(member.job.changes()), world.changed, member.leave()))
        first.close()
        second.run(go_on())
    replicas.launcher.signal(signal.SIGTERM)
    replicas.launcher.finish()


def kept() -> tuple[int, int]:
    """Return how many descriptors and communicators this process has."""
    gc.collect()
    return len(open_descriptors()), sum(issubclass(type(each), aiompi.Intracomm) for each in gc.get_objects())


def test_joins_and_leaves_grow_nothing(run: Run) -> None:
    """Two members stay, and a third comes and goes; after a few rounds each round needs what the last one did."""

    async def main() -> None:
        async with members(2) as (job, joined):
            counts: list[tuple[int, int]] = []
            for turn in range(8):
                async with aiompi.join(job.address, job.key) as third:
                    worlds = await assemble([*joined, third], at_least=3)
                    assert await sums(worlds) == [3, 3, 3]
                await asyncio.gather(*(departure for member in joined for departure in member._departures))
                del worlds
                counts.append(kept())
                while turn >= 4 and any(now > then for now, then in zip(counts[-1], counts[3], strict=True)):
                    await asyncio.sleep(0.01)  # connections end a moment later
                    counts[-1] = kept()

    run(main())


# Processes.

REPLICA = (
    f"LIMIT = {LIMIT}"
    + """
import asyncio, os, sys, aiompi

async def main():
    async with aiompi.join(sys.argv[1], attributes={"pid": os.getpid()}) as member:
        while True:
            world = await member.assemble(at_least=int(sys.argv[2]), within=LIMIT)
            try:
                total = await world.allreduce(1)
                print(f"world of {total}:", *(other.attributes["pid"] for other in world.members), flush=True)
                while not world.changed.is_set():
                    async with asyncio.timeout(LIMIT):
                        await world.allreduce(1)
                    await asyncio.sleep(0.001)
            except (aiompi.ProcessFailedError, aiompi.RevokedError):
                pass

asyncio.run(main())
"""
)


ABRUPT = """
import asyncio, os, socket, sys, aiompi

def descriptors():
    return {name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")}

def cancel_soon(task, times):
    def cancel():
        task.cancel()
        if times > 1:
            cancel_soon(task, times - 1)
    asyncio.get_running_loop().call_later(0.2, cancel)

async def main(how):
    before = descriptors()
    try:
        async with aiompi.join(*sys.argv[1:3]) as member:
            world = await member.assemble(at_least=2)
            sending = world.isend(bytes(2**24), 0)
            print("sent", flush=True)
            if how == "cut":
                member._agent._socket.shutdown(socket.SHUT_RDWR)
                await world.changed
            if how == "cancelled twice":
                cancel_soon(asyncio.current_task(), 2)
            try:
                await asyncio.sleep(1000 if how != "cut" else 0)
            except asyncio.CancelledError:
                print("asked", flush=True)
                raise
    except asyncio.CancelledError:
        pass
    print(f"kept {descriptors() - before}", flush=True)

asyncio.run(main(sys.argv[3]))
"""


@in_one_loop
@pytest.mark.parametrize(
    ("how", "kind"),
    [("SIGTERM SIGTERM", "left"), ("SIGTERM SIGINT", "left"), ("cancelled twice", "left"), ("cut", "failed")],
)
def test_a_member_that_is_asked_again_to_leave_or_has_lost_its_job(run: Run, site: Site, how: str, kind: str) -> None:
    """It closes all its connections. Another SIGTERM lets it wait for the delivery of its message."""

    async def main() -> None:
        async with members(1) as (job, (member,)):
            process = site.start(sys.executable, site.program(ABRUPT), job.address, job.key, how)
            world = await member.assemble(at_least=2)
            changes = member.job.changes()
            await asyncio.to_thread(process.expect, "sent\n")
            for name in how.split() if "SIG" in how else ():
                process.signal(signal.Signals[name])
                await asyncio.to_thread(process.expect, "asked\n")  # signals that come at once have another order
            await asyncio.sleep(0.2)
            if how == "SIGTERM SIGTERM":
                assert len(await world.recv(source=1)) == 2**24
            change = await anext(changes)
            assert change.kind == kind
            result = await asyncio.to_thread(process.finish)
            if "SIG" in how:
                assert result.code == -signal.SIGTERM
            else:
                said = "sent\nasked\nkept set()\n" if how == "cancelled twice" else "sent\nkept set()\n"
                assert (result.out, result.code) == (said, 0)
            assert await sums(await assemble([member])) == [1]

    run(main())


class Replicas:
    """A served job and processes that join it."""

    def __init__(self, site: Site, *args: str, env: Mapping[str, str] | None = None, program: str = REPLICA) -> None:
        self.site = site
        self.launcher = site.launch("--serve", *args, env={"AIOMPI_KEY": KEY, **(env or {})})
        self.launcher.expect("\n")
        self.address = self.launcher.out.strip()
        self.program = site.program(program)

    def start(self, at_least: int = 2, *more: str) -> Running:
        words = (self.program, self.address, str(at_least), *more)
        return self.site.start(sys.executable, *words, env={"AIOMPI_KEY": KEY})


def test_replicas_go_on_without_one_and_take_its_replacement(site: Site) -> None:
    replicas = Replicas(site)
    processes = [replicas.start() for _ in range(2)]
    for process in processes:
        process.expect("world of 2")
    for turn, signum in enumerate((signal.SIGKILL, signal.SIGTERM)):
        processes[turn].signal(signum)
        assert processes[turn].finish().code == -signum
        processes[turn] = replicas.start()
        for process in processes:
            process.expect(f"{processes[turn].process.pid}")
    for process in processes:
        process.signal(signal.SIGTERM)
    assert [process.finish().code for process in processes] == [-signal.SIGTERM] * 2
    assert ["Traceback" in process.err for process in processes] == [False] * 2
    replicas.launcher.signal(signal.SIGTERM)
    result = replicas.launcher.finish()
    assert (result.code, result.out.count("\n")) == (128 + signal.SIGTERM, 1)
    assert result.err.count("has failed") == 1, f"the one that was killed: {result.err}"
    site.settle()


#: makes a process believe that the agent is on another machine than itself
ELSEWHERE = """
from aiompi.wire import liveness
liveness.namespace = lambda: "of another machine"
"""


def monitors() -> list[str]:
    """Return the ids of the processes that have a companion that reports if they are stopped."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = path.read_bytes().split(b"\0")[:-1]
            found += [words[-1].decode()] if any(word.endswith(b"companion.py") for word in words) else []
    return found


def test_a_member_that_is_stopped_is_expelled(site: Site) -> None:
    """One on the machine of the agent, and one elsewhere, whose companion reports it."""
    program = f"import sys\nif sys.argv[3:]:{textwrap.indent(ELSEWHERE, '    ')}{REPLICA}"
    replicas = Replicas(site, "--timeout", str(LIMIT), env={"AIOMPI_HEARTBEAT": "0.4"}, program=program)
    processes = []
    for count, more in enumerate(([], ["elsewhere"], ["elsewhere"], ["elsewhere"]), 1):
        processes.append(replicas.start(1, *more))
        processes[-1].expect(f"world of {count}")
    pids = [str(process.process.pid) for process in processes]

    def wait_for_monitors(*some: str) -> None:
        deadline = time.monotonic() + LIMIT
        while set(pids).intersection(monitors()) != set(some):  # that of a process ends after it
            assert time.monotonic() < deadline
            time.sleep(0.01)

    wait_for_monitors(*pids[1:])
    for number in range(2):
        processes[number].signal(signal.SIGSTOP)
        for process in processes[number + 1 :]:
            process.expect(f"world of {3 - number}: {' '.join(pids[number + 1 :])}")
        processes[number].signal(signal.SIGCONT)
        assert "this member was expelled because it was stopped for 0.4 s" in processes[number].finish().err
    wait_for_monitors(*pids[2:])
    processes[2].signal(signal.SIGKILL)
    processes[3].expect("world of 1")
    for process in (processes[3], replicas.launcher):
        process.signal(signal.SIGTERM)
        process.finish()
    wait_for_monitors()


def test_a_member_elsewhere_that_computes_is_not_expelled(site: Site) -> None:
    """Also not in C code that holds the GIL, so that no thread of the member could answer."""
    program = f"""{ELSEWHERE}
import asyncio, ctypes, sys, aiompi

async def main():
    async with aiompi.join(sys.argv[1]) as member:
        world = await member.assemble(at_least=2, within={LIMIT})
        if world.rank == 0:
            ctypes.PyDLL(None).usleep(2_000_000)
        print(await world.allreduce(1))

asyncio.run(main())
"""
    env = {"AIOMPI_HEARTBEAT": "0.4"}
    replicas = Replicas(site, "--timeout", str(LIMIT), env=env, program=program)
    processes = [replicas.start() for _ in range(2)]
    assert [process.finish().lines for process in processes] == [["2"], ["2"]]
    replicas.launcher.signal(signal.SIGTERM)
    assert "has failed" not in replicas.launcher.finish().err


def test_limits_of_the_number_of_members(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    result = Replicas(site, "2:3", "--start-timeout", "0.2").launcher.finish()
    assert result.code == 124
    assert "0 of at least 2 members have joined within 0.2 s" in result.err
    for words, complaint in (
        ("3:2", "2 is less than 3"),
        ("x", "'x' is not a whole number"),
        ("0:2", "less than 1"),
        ("--on-failure=abort", "takes no --on-failure=abort"),
    ):
        with pytest.raises(SystemExit):
            parse(["--serve", words], "aiompi-launch")
        assert complaint in capsys.readouterr().err
