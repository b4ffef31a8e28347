"""Teams: members come and go, and those that stay lose nothing and get nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

import aiompi
from support.jobs import KEY
from support.limits import LIMIT

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("no_job")]


@contextlib.asynccontextmanager
async def teams(count: int) -> AsyncIterator[tuple[aiompi.ServedJob, list[aiompi.Team]]]:
    """Serve a job in this process, with teams of so many members in it."""
    async with asyncio.timeout(LIMIT), contextlib.AsyncExitStack() as stack:
        job = await stack.enter_async_context(aiompi.serve())
        made = [aiompi.Team(job.address, job.key) for _ in range(count)]
        for team in made:
            await stack.enter_async_context(team)
        await complete(made)
        yield job, made


async def complete(made: list[aiompi.Team]) -> None:
    while any(team.size < len(made) for team in made):
        await asyncio.sleep(0.01)


async def test_members_that_stay_get_everything_once_while_others_come_and_go() -> None:
    async with teams(2) as (job, stay):
        subscriptions = [team.subscribe("n") for team in stay]
        done = asyncio.Event()
        published = [0, 0]

        async def publish(own: int) -> None:
            while not done.is_set():
                published[own] += 1
                await stay[own].publish("n", (own, published[own]), confirm=published[own] % 50 == 0)
                await asyncio.sleep(0)

        found: list[list[Any]] = [[], []]

        async def read(own: int) -> None:
            async for item in subscriptions[own]:
                found[own].append(item)

        tasks = [asyncio.create_task(work(own)) for own in range(2) for work in (publish, read)]
        for _ in range(4):
            async with aiompi.Team(job.address, job.key) as guest:
                await guest.publish("n", (2, 0))
                await asyncio.sleep(0.02)
        done.set()
        await asyncio.gather(tasks[0], tasks[2])
        for own in range(2):
            await stay[own].publish("n", (own, published[own] + 1), confirm=True)
        while any((own, published[own] + 1) not in each for each in found for own in range(2)):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # something that came twice would come now
        for each in found:
            for own in range(2):
                assert [n for source, n in each if source == own] == [*range(1, published[own] + 2)]
        assert stay[0].world.generation > 5


async def test_a_call_goes_on_in_the_next_world_and_is_made_once() -> None:
    async with teams(2) as (job, (one, other)):
        begun, go_on, cancelled = [], asyncio.Event(), asyncio.Event()

        @other.handler
        async def work(n: int) -> int:
            begun.append(n)
            await go_on.wait()
            return 2 * n

        @other.handler
        async def endless() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        call, long = (asyncio.create_task(one.call(1, name, *args)) for name, args in (("work", [21]), ("endless", [])))
        while not begun:
            await asyncio.sleep(0.01)
        async with aiompi.Team(job.address, job.key) as third:
            await complete([one, other, third])
            go_on.set()
            assert await call == 42
            assert begun == [21]
            assert [member.id for member in third.members] == [member.id for member in job.members()]
            assert third.rank == 2
            long.cancel()
            await cancelled.wait()
        with pytest.raises(aiompi.MPIError, match=r"failed, or has left the job|no rank 2 in a world of 2"):
            await one.call(2, "nothing")


async def test_what_was_said_before_the_end_is_delivered() -> None:
    async with teams(1) as (job, (stays,)):
        subscription = stays.subscribe("last words")
        async with aiompi.Team(job.address, job.key) as goes:
            await complete([stays, goes])
            for n in range(100):
                await goes.publish("last words", n)
        assert [await anext(subscription) for _ in range(100)] == [*range(100)]


async def test_members_that_come_and_go_are_told_when_their_writes_are_over() -> None:
    async with teams(1) as (job, (stays,)):
        changes, users = stays.changes(), stays.shared_dict("users")
        guest = aiompi.Team(job.address, job.key)
        told = guest.changes()
        async with guest:
            mine = guest.members[guest.rank]
            await guest.shared_dict("users").set("ann", mine.id)
            seen = [await anext(told) for _ in range(2)]
            assert [(change.kind, change.member.id) for change in seen] == [("joined", 1), ("joined", mine.id)]
            joined = await anext(changes)
            assert (joined.kind, joined.member) == ("joined", mine)
            assert joined.member in stays.members
        left = await anext(changes)
        assert (left.kind, left.member, stays.size) == ("left", mine, 1)
        assert dict(users) == {"ann": mine.id}
        with pytest.raises(StopAsyncIteration):
            await anext(told)


async def test_a_team_can_be_entered_again() -> None:
    async with teams(0) as (job, _):
        team = aiompi.Team(job.address, job.key)
        team.handler(abs)
        for say in (lambda: team.size, lambda: team.world):
            with pytest.raises(aiompi.LocalProtocolError, match="not in the team yet"):
                say()
        for saying in (team.call(0, "abs", -1), team.publish("n", 1)):
            with pytest.raises(aiompi.LocalProtocolError, match="not in the team yet"):
                await saying
        assert repr(team) == "<Team: not joined>"
        for _ in range(2):
            async with team.lifespan(None) as state:
                assert state == {"team": team}
                assert await team.call(0, "abs", -1) == 1
                assert repr(team) == "<Team: rank 0 of 1>"
            with pytest.raises(aiompi.RevokedError, match="has left its team"):
                await team.call(0, "abs", -1)


async def test_the_team_goes_on_when_the_job_is_served_again() -> None:
    async with asyncio.timeout(LIMIT):
        async with aiompi.serve(key=KEY) as job:
            port = int(job.address.rpartition(":")[2])
            one, other = (aiompi.Team(job.address, job.key) for _ in range(2))
            await one.__aenter__()
            await other.__aenter__()
            await complete([one, other])
            subscription = other.subscribe("n")
            await one.publish("n", 0)
        publishing = asyncio.create_task(one.publish("n", 1, confirm=True))
        await asyncio.sleep(0.05)
        async with aiompi.serve(port=port, key=KEY):
            await publishing
            assert [await anext(subscription) for _ in range(2)] == [0, 1]
            await one.__aexit__(None, None, None)
            await other.__aexit__(None, None, None)
