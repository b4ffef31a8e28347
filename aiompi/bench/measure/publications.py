"""Measurements for `aiompi.bench targets workers`: rank 0 publishes, and rank 1 receives by a subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiompi.bench.measure.turns import timed_async

if TYPE_CHECKING:
    from aiompi.face.native.job import World

#: a text as in a chat
TEXT: Final = "a line that somebody has written to all others, as long as such lines are" + "." * 27
#: topics of both directions
TOPICS: Final = ("said", "answered")


async def publications(world: World, iterations: int, blocks: int) -> list[float]:
    """Seconds per publication, with one await each."""
    texts = world.subscribe(TOPICS[0]) if world.rank else None

    async def loop(n: int) -> None:
        if texts is None:
            for _ in range(n):
                await world.publish(TOPICS[0], TEXT)
        else:
            for _ in range(n):
                await anext(texts)

    await world.Barrier()
    return await timed_async(loop, iterations, blocks, world.Barrier)


async def answered_publications(world: World, iterations: int, blocks: int) -> list[float]:
    """Seconds per publication and the publication that answers it."""
    to, back = TOPICS if world.rank == 0 else TOPICS[::-1]
    texts = world.subscribe(back)

    async def lead(n: int) -> None:
        for _ in range(n):
            await world.publish(to, TEXT)
            await anext(texts)

    async def follow(n: int) -> None:
        for _ in range(n):
            await anext(texts)
            await world.publish(to, TEXT)

    await world.Barrier()
    return await timed_async(follow if world.rank else lead, iterations, blocks, world.Barrier)
