"""Shared dicts: every member reads its own copy, and an awaited write is in all of them."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import aiompi
from support.jobs import KEY
from support.limits import LIMIT

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("no_job")]


async def test_writes_are_in_all_copies() -> None:
    dicts = [world.shared_dict("sessions") for world in aiompi.local_world(3)]
    for rank, each in enumerate(dicts):
        await each.set(f"user {rank}", {"rank": rank, "tags": (1, 2.0, b"3")})
    for each in dicts:
        assert dict(each) == {f"user {rank}": {"rank": rank, "tags": (1, 2.0, b"3")} for rank in range(3)}
        assert [*each] == ["user 0", "user 1", "user 2"]
        assert (len(each), "user 1" in each, "user 9" in each, each.get("user 9")) == (3, True, False, None)
        assert repr(each) == "<shared dict 'sessions': 3 keys>"
    with pytest.raises(KeyError, match="user 9"):
        dicts[0]["user 9"]
    assert await dicts[1].delete("user 0") is True
    assert await dicts[2].delete("user 0") is False
    for each in dicts:
        assert "user 0" not in each
        for key in each:
            await each.delete(key)  # while it is iterated over
        assert not each


async def test_assignments_say_which_call_is_awaited() -> None:
    (world,) = aiompi.local_world(1)
    visits: Any = world.shared_dict("visits")
    with pytest.raises(TypeError, match=r"^a write to <shared dict 'visits': 0 keys> is awaited: `await d\.set\('a', "):
        visits["a"] = 1
    with pytest.raises(TypeError, match=r"`await d\.delete\('a'\)`, not `del d\['a'\]`$"):
        del visits["a"]


async def test_results_are_kept_only_while_their_writers_may_ask_again() -> None:
    worlds = aiompi.local_world(2)
    one, other = (world.shared_dict("d") for world in worlds)
    await asyncio.gather(*(each.add("n") for each in (one, other) for _ in range(100)))
    for each in (one, other):
        await each.add("n")
    for world in worlds:
        talk: Any = world._talk
        assert [len(results) for results in talk.dicts._results.values()] == [1, 1]


async def test_dicts_have_names() -> None:
    (a, b), theirs = ([world.shared_dict(name) for name in "ab"] for world in aiompi.local_world(2))
    await a.set("k", "of a")
    await b.set("k", "of b")
    assert [each["k"] for each in theirs] == ["of a", "of b"]


async def test_changing_an_object_changes_no_copy() -> None:
    one, other = (world.shared_dict("d") for world in aiompi.local_world(2))
    value = [1]
    await one.set("k", value)
    value.append(2)
    one["k"].append(3)
    assert one["k"] == other["k"] == [1]


async def test_additions_and_comparisons_are_atomic() -> None:
    dicts = [world.shared_dict("d") for world in aiompi.local_world(3)]
    totals = await asyncio.gather(*(each.add("n") for each in dicts for _ in range(50)))
    assert sorted(totals) == [*range(1, 151)]
    assert await dicts[1].add("n", 2**80) == 2**80 + 150
    assert await dicts[2].add("n", -(2**80)) == 150
    won = await asyncio.gather(*(each.compare_and_set("leader", None, rank) for rank, each in enumerate(dicts)))
    assert sum(won) == 1
    assert dicts[0]["leader"] == won.index(True)
    assert await dicts[1].compare_and_set("leader", won.index(True), {3, 4}) is True
    assert await dicts[2].compare_and_set("leader", {4, 3}, "last") is True
    assert await dicts[2].compare_and_set("leader", "first", "never") is False
    assert [each["leader"] for each in dicts] == ["last"] * 3


class Incomparable:
    """An object that equals nothing."""

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError("compare me not")

    __hash__ = None  # type: ignore[assignment]


async def test_writes_that_cannot_be_made_change_nothing() -> None:
    one, other = (world.shared_dict("d") for world in aiompi.local_world(2))
    await other.set("k", "text")
    with pytest.raises(aiompi.InvalidArgumentError, match="add in 'd': 'k' is no int: 'text'"):
        await other.add("k")
    with pytest.raises(aiompi.InvalidArgumentError, match="compare and set in 'd': compare me not"):
        await other.compare_and_set("k", Incomparable(), 1)
    with pytest.raises(aiompi.InvalidArgumentError, match="shared dict 'd': expected a key that is a str, not 1"):
        await other.set(1, 2)  # type: ignore[arg-type]
    with pytest.raises(aiompi.InvalidArgumentError, match=r"add 1\.5 to 'n': expected an int"):
        await other.add("n", 1.5)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="pickle"):
        await other.set("k", lambda: None)
    assert dict(one) == dict(other) == {"k": "text"}


async def test_the_name_of_a_dict_is_a_text() -> None:
    (world,) = aiompi.local_world(1)
    for name in (3, None, b"visits"):
        with pytest.raises(aiompi.InvalidArgumentError, match=r"shared_dict\(.*\): expected the name of the dict"):
            world.shared_dict(name)  # type: ignore[arg-type]


async def test_a_cancelled_write_holds_nobody_up() -> None:
    one, other = aiompi.local_world(2)
    mine = one.shared_dict("d")
    writing = asyncio.create_task(mine.set("k", 1))
    await asyncio.sleep(0.01)
    assert not writing.done(), "the other rank has not looked"
    writing.cancel()
    theirs = other.shared_dict("d")
    assert await theirs.add("n") == 1
    assert theirs["k"] == 1


async def test_a_world_goes_on_without_a_rank_and_reads_without_rank_0() -> None:
    async with aiompi.serve() as job:
        members = [await aiompi.join(job.address, job.key) for _ in range(3)]
        worlds = await asyncio.gather(*(member.assemble(at_least=3) for member in members))
        dicts = [world.shared_dict("d") for world in worlds]
        await dicts[1].set("k", 1)
        async with asyncio.timeout(LIMIT):
            await members[2].leave()
            await dicts[1].set("k", 2)
            assert dicts[0]["k"] == 2
            await members[0].leave()
            with pytest.raises((aiompi.ProcessFailedError, aiompi.RevokedError)):
                await dicts[1].set("k", 3)
        assert dicts[1]["k"] == 2
        await members[1].leave()


async def test_members_of_a_team_come_and_go() -> None:
    async with asyncio.timeout(LIMIT), aiompi.serve() as job:
        oldest, team = (aiompi.Team(job.address, job.key) for _ in range(2))
        with pytest.raises(aiompi.LocalProtocolError, match="not in the team yet"):
            await team.shared_dict("d").set("k", 1)
        await oldest.__aenter__()
        await oldest.shared_dict("d").set("k", "from the first")
        counter = team.shared_dict("d")
        async with team:
            assert counter["k"] == "from the first"
            totals: list[int] = []
            done = asyncio.Event()

            async def count() -> None:
                while not done.is_set():
                    totals.append(await counter.add("n"))

            counting = asyncio.create_task(count())
            for last in (False, False, True):
                async with aiompi.Team(job.address, job.key) as guest:
                    before = totals[-1] if totals else 0
                    seen = guest.shared_dict("d")
                    assert seen["k"] == "from the first"
                    assert seen.get("n", 0) >= before
                    await seen.add("guests")
                    if last:
                        await oldest.__aexit__(None, None, None)
                        assert await seen.add("guests") == 4
            done.set()
            await counting
            assert totals == [*range(1, len(totals) + 1)]
            assert (team.size, counter["n"], counter["guests"]) == (1, len(totals), 4)
        with pytest.raises(aiompi.RevokedError, match="has left its team"):
            await counter.set("k", 1)
        assert counter["k"] == "from the first"
        async with team:
            assert not counter, "all had left"


async def test_a_member_comes_back_and_so_does_the_job() -> None:
    async with asyncio.timeout(LIMIT):
        async with aiompi.serve(key=KEY) as job:
            port = int(job.address.rpartition(":")[2])
            one, other = teams = [aiompi.Team(job.address, KEY) for _ in range(2)]
            mine, theirs = (team.shared_dict("d") for team in teams)
            for team in teams:
                await team.__aenter__()
            await complete(one, other)
            await mine.set("k", "kept")
            writing = asyncio.create_task(mine.add("mine"))
            one._member._on_lost("the job has expelled it")
            assert [await theirs.add("n") for _ in range(5)] == [1, 2, 3, 4, 5]
            with pytest.raises(aiompi.ProcessFailedError, match="this member was cut off"):
                await writing
            await complete(one, other)
            assert dict(mine) == dict(theirs) == {"k": "kept", "n": 5}
        writing = asyncio.create_task(mine.add("n"))
        await asyncio.sleep(0.05)
        assert not writing.done(), "there is no job"
        async with aiompi.serve(port=port, key=KEY):
            assert await writing == 6
            await complete(one, other)
            assert dict(mine) == dict(theirs) == {"k": "kept", "n": 6}
            for team in teams:
                await team.__aexit__(None, None, None)


async def complete(*teams: aiompi.Team) -> None:
    while any(team.size < len(teams) or team.world.changed.is_set() for team in teams):
        await asyncio.sleep(0.01)


PROGRAM = """
import asyncio, sys, aiompi

async def main():
    async with aiompi.Team(sys.argv[1], sys.argv[2]) as team:
        counter = team.shared_dict("d")
        while "stop" not in counter:
            print(await counter.add("n"), flush=True)

asyncio.run(main())
"""


async def test_a_killed_rank_0_loses_and_doubles_nothing() -> None:
    async def start() -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, job.address, job.key, stdout=asyncio.subprocess.PIPE
        )

    async def read(process: asyncio.subprocess.Process, totals: list[int]) -> None:
        while line := await process.stdout.readline():  # type: ignore[union-attr]
            totals.append(int(line))

    async with asyncio.timeout(LIMIT), aiompi.serve() as job:
        first = await start()
        found: list[list[int]] = [[], []]
        reading = [asyncio.create_task(read(first, found[0]))]
        while not found[0]:
            await asyncio.sleep(0.01)
        async with aiompi.Team(job.address, job.key) as team:
            second = await start()
            reading.append(asyncio.create_task(read(second, found[1])))
            while not found[1]:
                await asyncio.sleep(0.01)
            counter: Any = team.shared_dict("d")
            mine = [await counter.add("n") for _ in range(20)]
            first.kill()
            mine += [await counter.add("n") for _ in range(50)]
            assert (team.rank, team.size) == (0, 2)
            await counter.set("stop", True)
            await asyncio.gather(*reading)
            assert await second.wait() == 0
            acknowledged = sorted(mine + found[0] + found[1])
            assert len(acknowledged) == len(set(acknowledged)), "none was made twice"
            assert len(acknowledged) <= counter["n"] <= len(acknowledged) + 1, "none is lost"
