"""How scripts come to processes under test and how tests end (IMPI 0.0, section 5.3)."""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from typing import Any, NamedTuple

import pytest

from aiompi_launcher.conformance.delivery import (
    ANSWER_TAG,
    DONE_TAG,
    HEADER_TAG,
    LEVEL_TAG,
    Delivery,
    DeliveryError,
    Line,
    check_pattern,
    follow,
    pattern,
)
from aiompi_launcher.conformance.script import Level
from aiompi_launcher.conformance.script.machine import Memory
from support.limits import LIMIT


class Status(NamedTuple):
    source: int


class Mail:
    """Messages between processes in one loop, with a hand in them for tests."""

    def __init__(self) -> None:
        self.boxes: dict[tuple[int, int], asyncio.Queue[tuple[int, bytes]]] = defaultdict(asyncio.Queue)
        self.falsified: dict[int, bytes] = {}

    def process(self, rank: int) -> Process:
        return Process(self, rank)


class Process:
    def __init__(self, mail: Mail, rank: int) -> None:
        self._mail = mail
        self.rank = rank
        self.simulated: frozenset[int] = frozenset()
        self.lines: list[str] = []

    def constant(self, name: str) -> Any:
        return -1 if name == "MPI_ANY_SOURCE" else name

    def set_simulated(self, simulated: frozenset[int]) -> None:
        self.simulated = simulated

    async def comm_rank(self, comm: Any) -> int:
        return self.rank

    async def send(self, memory: Memory, count: int, datatype: Any, dest: int, tag: int, comm: Any) -> None:
        data = self._mail.falsified.get(tag, bytes(memory.view))
        self._mail.boxes[dest, tag].put_nowait((self.rank, data))

    async def recv(self, memory: Memory, count: int, datatype: Any, source: int, tag: int, comm: Any) -> Status:
        sender, data = await self._mail.boxes[self.rank, tag].get()
        memory.view[: len(data)] = data
        return Status(sender)

    def print(self, text: str) -> None:
        self.lines.append(text.rstrip("\n"))

    report = print


async def played(*texts: tuple[int, bytes], falsified: dict[int, bytes] | None = None) -> tuple[Process, list[Level]]:
    """A process that follows, and the levels that its master, rank 3, gets for these texts."""
    mail = Mail()
    mail.falsified = falsified or {}
    follower = mail.process(0)
    line = Line(mail.process(3))
    task = asyncio.create_task(follow(follower, follower))
    levels = []
    try:
        for number, text in texts:
            await line.deliver(Delivery(number, 3, 3, 2, text), 0)
            done = asyncio.ensure_future(line.collect([0], lambda _: None))
            await asyncio.wait({done, task}, return_when=asyncio.FIRST_COMPLETED, timeout=LIMIT)
            if task.done() and not done.done():
                done.cancel()
                await task
            levels.append((await done)[0])
    finally:
        task.cancel()
        await asyncio.wait({task})
    return follower, levels


EXIT = (9, b"exit\n{ exit_interpreter(); }")


@pytest.mark.spec("I5.3-1", "I5.3-3", "I5.3-15", "I5.3-16")
@pytest.mark.asyncio
async def test_a_process_follows_to_the_exit_script():
    follower, levels = await played((0, pattern(200)), (1, b'a\n{ report("Result: Pass"); }'), EXIT)
    assert levels == [Level.NOTHING] * 3
    assert follower.simulated == {3, 4}
    assert follower.lines == [
        "Result: Pass",
        "END EXECUTING rank 0",
        "delivery rank 0 done",
        "Result: Pass",
        "END EXECUTING rank 0",
        "a rank 0 done",
        "END EXECUTING rank 0",
        "exit rank 0 done",
    ]


@pytest.mark.spec("I5.3-14", "I5.3-16")
@pytest.mark.parametrize(
    ("text", "level"),
    [
        (b'a\n{ report("Result: Fail: x"); }', Level.FAIL),
        (b'a\n{ report("Test skipped."); }', Level.SKIPPED),
        (b"a\n{ x = 1; }", Level.INDETERMINATE),
        (b"a\n{\nint a[2];\na[2] = 1; }", Level.INDETERMINATE),
        (b"a\nno script at all \xff", Level.INDETERMINATE),
    ],
)
@pytest.mark.asyncio
async def test_the_most_severe_thing_comes_with_the_answer(text: bytes, level: Level):
    _, levels = await played((1, text), (2, b"b\n{ }"), EXIT)
    assert levels == [level, Level.NOTHING, Level.NOTHING]


@pytest.mark.spec("I5.3-3")
@pytest.mark.asyncio
async def test_the_first_test_notices_a_wrong_character():
    damaged = bytearray(pattern(200))
    damaged[100] ^= 1
    follower, levels = await played((0, bytes(damaged)), EXIT)
    assert levels[0] is Level.FAIL
    assert "character 100 of 209" in follower.lines[0]
    assert check_pattern(pattern(5)[:-1] + b"\0")
    assert check_pattern(pattern(95 * 40)) == ""


@pytest.mark.spec("I5.3-16")
@pytest.mark.parametrize(
    ("tag", "data", "problem"),
    [
        (HEADER_TAG, struct.pack("4i", -5, 1, 0, 1), "the header of a script says -5 characters"),
        (
            HEADER_TAG,
            struct.pack("4i", 0x20010000, 1, 0, 1),
            "(288 with its bytes swapped: MPI_INT is sent big-endian)",
        ),
        (DONE_TAG, b"DONT", "DONE was due"),
        (ANSWER_TAG, b"dome", "answers b'dome' to DONE"),
    ],
)
@pytest.mark.asyncio
async def test_wrong_words_are_noticed(tag: int, data: bytes, problem: str):
    with pytest.raises(DeliveryError, match=problem):
        await played((1, b"a\n{ }"), falsified={tag: data})


@pytest.mark.asyncio
async def test_levels_of_others_are_bounded():
    _, levels = await played((1, b"a\n{ }"), EXIT, falsified={LEVEL_TAG: struct.pack("i", 2**31 - 1)})
    assert levels[0] is Level.FAIL
