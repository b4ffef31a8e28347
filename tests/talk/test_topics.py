"""Publications to all members, and what a subscription does when it is full."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import aiompi
from aiompi.face.native.talking import Subscription
from support.limits import LIMIT

pytestmark = pytest.mark.asyncio


async def taken(subscription: Subscription, count: int) -> list[Any]:
    async with asyncio.timeout(LIMIT):
        return [await anext(subscription) for _ in range(count)]


async def test_all_subscriptions_get_everything_in_order() -> None:
    worlds = aiompi.local_world(3)
    subscriptions = [world.subscribe("news") for world in worlds]
    twice = worlds[0].subscribe("news")
    other = worlds[1].subscribe("other")

    async def publish(world: aiompi.World) -> None:
        for n in range(700):
            await world.publish("news", (world.rank, n))

    publishing = asyncio.gather(*map(publish, worlds))
    for found in await asyncio.gather(*(taken(each, 2100) for each in [*subscriptions, twice])):
        for rank in range(3):
            assert [n for source, n in found if source == rank] == [*range(700)]
    await publishing
    await worlds[2].publish("other", "one", confirm=True)
    assert await taken(other, 1) == ["one"]


async def test_long_and_short_publications_keep_their_order() -> None:
    one, other = aiompi.local_world(2)
    subscription = other.subscribe("news")
    sizes = [*range(50), 9_000, *range(50), 5_000_000, 8_100, *range(200), 3_000_000]
    publishing = asyncio.gather(*(one.publish("news", bytes(size)) for size in sizes))
    assert [len(news) for news in await taken(subscription, len(sizes))] == sizes
    await publishing


async def test_a_confirmed_publication_is_with_all_subscriptions() -> None:
    worlds = aiompi.local_world(3)
    waiting = asyncio.create_task(worlds[0].publish("news", 1, confirm=True))
    await asyncio.sleep(0.01)
    assert not waiting.done(), "no other member has looked"
    subscriptions = [world.subscribe("news", when_full="fail", bound=1) for world in worlds[1:]]
    await waiting
    assert await asyncio.gather(*(taken(each, 1) for each in subscriptions)) == [[1], [1]]


async def test_a_full_subscription_makes_publishers_wait() -> None:
    one, other = aiompi.local_world(2)
    slow = other.subscribe("news", bound=2)
    for n in range(2):
        await one.publish("news", n, confirm=True)
    third = asyncio.create_task(one.publish("news", 2, confirm=True))
    await asyncio.sleep(0.01)
    assert not third.done()
    assert await taken(slow, 1) == [0]
    await third

    async def publish() -> None:
        for n in range(3, 1000):
            await one.publish("news", n)

    publishing = asyncio.create_task(publish())
    await asyncio.sleep(0.05)
    assert not publishing.done(), "the bound holds"
    slow.close()
    async with asyncio.timeout(LIMIT):
        await publishing
    with pytest.raises(StopAsyncIteration):
        await anext(slow)


async def test_publications_have_the_order_of_their_calls() -> None:
    """Also when one is called at the moment at which another one, which has waited, goes on."""
    one, other = aiompi.local_world(2)
    slow = other.subscribe("news", bound=1)
    called: list[int] = []

    async def publish() -> None:
        called.append(n := len(called))
        await one.publish("news", n)

    async def callers() -> None:
        while len(called) < 600:
            await asyncio.gather(publish(), publish())

    async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(callers())
        found = []
        for _ in range(600):
            found += await taken(slow, 1)
            await asyncio.sleep(0)
        slow.close()
    assert found == [*range(600)]


async def test_tasks_share_a_subscription() -> None:
    (world,) = aiompi.local_world(1)
    subscription = world.subscribe("work")
    tasks = [asyncio.create_task(taken(subscription, 1)) for _ in range(3)]
    await asyncio.sleep(0.01)
    tasks.pop().cancel()
    for n in range(3):
        await world.publish("work", n)
    async with asyncio.timeout(LIMIT):
        assert sorted(await asyncio.gather(*tasks)) == [[0], [1]]
    assert await taken(subscription, 1) == [2]


async def test_a_full_subscription_drops_or_fails() -> None:
    (world,) = aiompi.local_world(1)
    latest = world.subscribe("news", bound=3, when_full="drop oldest")
    strict = world.subscribe("news", bound=3, when_full="fail")
    for n in range(10):
        await world.publish("news", n, confirm=True)
    assert await taken(latest, 3) == [7, 8, 9]
    assert latest.dropped == 7
    assert await taken(strict, 3) == [0, 1, 2]
    with pytest.raises(asyncio.QueueFull, match="3 objects of the topic 'news' wait"):
        await anext(strict)


@pytest.mark.parametrize("options", [{"bound": 0}, {"when_full": "explode"}])
async def test_wrong_options(options: dict[str, Any]) -> None:
    (world,) = aiompi.local_world(1)
    with pytest.raises(aiompi.InvalidArgumentError, match="expected a positive bound, and one of"):
        world.subscribe("news", **options)


@pytest.mark.parametrize("topic", [3, "x" * 65_536])
async def test_wrong_topics(topic: Any) -> None:
    (world,) = aiompi.local_world(1)
    with pytest.raises(aiompi.InvalidArgumentError, match="expected a str of at most 65,535 bytes"):
        world.subscribe(topic)
    with pytest.raises(aiompi.InvalidArgumentError, match="expected a str of at most 65,535 bytes"):
        await world.publish(topic, 1)


async def test_a_forgotten_subscription_holds_nobody_up() -> None:
    (world,) = aiompi.local_world(1)
    subscription = world.subscribe("news", bound=1)
    await world.publish("news", 0)
    waiting = asyncio.create_task(world.publish("news", 1, confirm=True))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    del subscription
    gc.collect()
    await waiting


async def test_cancelling_a_step_loses_nothing_and_changes_reach_nobody() -> None:
    one, other = aiompi.local_world(2)
    subscription = other.subscribe("news")
    step = asyncio.ensure_future(anext(subscription))
    await asyncio.sleep(0.01)
    changing = [1]
    await one.publish("news", changing)
    changing.append(2)
    step.cancel()
    assert await taken(subscription, 1) == [[1]]


async def test_subscriptions_end_when_their_member_leaves() -> None:
    (world,) = aiompi.local_world(1)
    subscription = world.subscribe("news")
    await world.publish("news", 1, confirm=True)
    await world.leave()
    assert [news async for news in subscription] == [1]
    with pytest.raises(aiompi.MPIError):
        await world.publish("news", 2)
