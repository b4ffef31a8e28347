"""A member that breaks the protocol of talk ends its own line, with RemoteProtocolError, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import aiompi
from aiompi.objects import Codec
from aiompi.talk import calls, shared_dict, team, topics
from aiompi.talk.line import BUNDLE, HEADER
from support.limits import LIMIT

pytestmark = pytest.mark.asyncio


def first(kind: int, content: bytes = b"", received: int = 0) -> bytes:
    """Return the first message of a line."""
    return HEADER.pack(kind, 0, 1, received) + content


def fields(*values: object) -> bytes:
    """Return the content of a message of a shared dict."""
    return calls.encoded(Codec(), values)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1" * (HEADER.size - 1),
        HEADER.pack(calls.CALL, 0, 2, 0) + b"\0" * 8,  # after a gap
        HEADER.pack(calls.CALL, 0, 2**64 - 1, 0) + b"\0" * 8,
        HEADER.pack(calls.CALL, 0, 0, 0) + b"\0" * 8,  # without a number
        HEADER.pack(0, 0, 1, 0),  # an acknowledgement with a number
        HEADER.pack(0, 1, 0, 9),  # of messages that nobody has sent
        first(77),
        b"\xff\1\0",  # a bundle with half of a length
        b"\xff\xff\xff\xff\xffshort",
        b"\xff\0\0\0\0",  # a message without a header
        b"\xff\x17\0\0\0\xff\0\0\0\0" + b"\0" * 18,  # a bundle in a bundle
        first(254, b"\0" * 100),
        *(first(kind, b"\0" * length) for kind in range(1, 9) for length in (0, 5)),
        first(calls.CALL, b"\0" * 8 + b"\xff\xff" + b"short"),  # a context
        first(topics.PUBLISH, b"\0" * 9 + b"\xff\xff\0\0" + b"short"),
        first(topics.PUBLISH, b"\0" * 9 + b"\2\0\5\0" + b"news"),  # a context
        first(topics.PUBLISH, b"\0" * 9 + b"\2\0\0\0" + b"\xff\xfe"),  # a topic that is no text
        first(topics.TAKEN, b"\1" + b"\0" * 11),  # publications that nobody has made
        first(topics.TAKEN, b"\0" * 13),
        first(shared_dict.WRITE, fields(0, 1, 1, "set", "d", "k", b"")),  # without the last field
        first(shared_dict.WRITE, fields(0, 1, 1, "set", "d", 5, b"", b"")),  # a key that is no text
        first(shared_dict.CHANGE, fields(0, 2, 0, 1, 1, "d", "k", b"", True, None, None)),  # after a gap
        first(shared_dict.CHANGE, fields(1, 1, 0, 1, 1, "d", "k", b"", True, None, None)),  # of a world to come
        first(shared_dict.CHANGE, fields(0, 1, "?", 1, 1, "d", "k", b"", True, None, None)),  # by an unknown writer
        first(shared_dict.RESULT, fields("1", None, None)),
    ],
    ids=lambda message: message.hex()[:60] or "empty",
)
async def test_a_malformed_message_ends_the_line(message: bytes) -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    worlds = hostile, victim, third = aiompi.local_world(3)
    for world in worlds:
        world.handler(abs)
    broken = victim._talk.exchange.lines[0]
    assert await victim.call(0, "abs", -1) == 1
    hostile._talk.exchange.lines[1].transmit(
        message if len(message) < HEADER.size or message[0] == BUNDLE else renumbered(message)
    )
    async with asyncio.timeout(LIMIT):
        while broken.error is None:
            await asyncio.sleep(0)
        assert isinstance(broken.error, aiompi.RemoteProtocolError)
        with pytest.raises(aiompi.RemoteProtocolError):
            await victim.call(0, "abs", -1)
        assert await victim.call(2, "abs", -2) == 2
        assert await third.call(1, "abs", -3) == 3
        assert await third.call(0, "abs", -4) == 4
        await victim.publish("news", 1, confirm=True)
    assert not unhandled


def renumbered(message: bytes) -> bytes:
    """Return the message for a line on which one has come: the reply of a call."""
    kind, asks, number, received = HEADER.unpack_from(message)
    following = number + 1 if 0 < number < 2**64 - 1 else number
    return HEADER.pack(kind, asks, following, received) + message[HEADER.size :]


async def test_a_call_that_comes_twice_ends_the_line() -> None:
    hostile, victim = aiompi.local_world(2)
    begun = []

    @victim.handler
    async def endless() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    line = hostile._talk.exchange.lines[1]
    for _ in range(2):
        line.post(calls.CALL, (7).to_bytes(10, "little") + calls.encoded(Codec(), ("endless", ())))
    async with asyncio.timeout(LIMIT):
        while not isinstance(victim._talk.exchange.lines[0].error, aiompi.RemoteProtocolError):
            await asyncio.sleep(0)
    assert len(begun) <= 1


async def test_calls_that_run_are_bounded() -> None:
    hostile, victim, third = aiompi.local_world(3)
    begun, ended = [], []

    @victim.handler
    async def endless() -> None:
        begun.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    line, broken = hostile._talk.exchange.lines[1], victim._talk.exchange.lines[0]
    for number in range(1, 1500):
        head = number.to_bytes(8, "little") + b"\0\0"
        line.post(calls.CALL, head + calls.encoded(Codec(), ("endless", ())))
        line.post(calls.CANCEL, b"\0" * 8)
    async with asyncio.timeout(LIMIT):
        while broken.error is None or len(ended) < len(begun):
            await asyncio.sleep(0)
    assert "more than 1,000 calls came that have not ended" in str(broken.error)
    assert len(begun) <= 1000
    victim.handler(abs)
    assert await third.call(1, "abs", -1, timeout=LIMIT) == 1


@pytest.mark.parametrize("reply", [7, (), (1, 2, 3), (None, ValueError("x"), 5)])
async def test_a_malformed_reply_fails_its_call(reply: object) -> None:
    hostile, victim = aiompi.local_world(2)
    talk: Any = hostile._talk
    talk.exchange.handlers[calls.CALL] = lambda line, data: line.post(
        calls.REPLY, bytes(data[:8]) + calls.encoded(Codec(), reply)
    )
    async with asyncio.timeout(LIMIT):
        with pytest.raises(aiompi.RemoteProtocolError, match="reply of rank 0 to a call of 'f' is malformed"):
            await victim.call(0, "f")


@pytest.mark.parametrize(
    "write",
    [
        (0, 1, 2, "set", "d", "k", b"", b""),  # older than the oldest
        (0, 1, 1, "divide", "d", "k", b"", b""),
        (0, 1, 1, "set", "d", "k", 5, b""),
        (0, 1, 1, "add", "d", "k", b"", b""),
    ],
)
async def test_a_malformed_write_ends_the_line(write: tuple[object, ...]) -> None:
    victim, hostile, third = aiompi.local_world(3)
    mine, theirs = victim.shared_dict("d"), third.shared_dict("d")
    hostile._talk.exchange.lines[0].post(shared_dict.WRITE, fields(*write))
    async with asyncio.timeout(LIMIT):
        while not isinstance(victim._talk.exchange.lines[1].error, aiompi.RemoteProtocolError):
            await asyncio.sleep(0)
        await theirs.set("k", 1)
    assert dict(mine) == {"k": 1}


async def test_a_false_introduction_is_that_of_a_stranger() -> None:
    honest = ("one", {"two": 3}, 1, (7, 1, "one"))
    told = [
        honest,
        None,
        (*honest[:3], (7, "1", "one")),
        ("two", {"one": "3"}, 1, honest[3]),
        ("two", {}, 2**40, honest[3]),
        honest[:3],
        honest,  # of a member that joined later
        ("two", {}, 0, (0, 0, "")),
    ]
    found = team.introductions(told)
    assert [each.name for each in found] == ["one", *(f"stranger {rank}" for rank in range(1, 7)), "two"]
    assert found[0] == honest
    assert {each[1:] == ({}, 0, (0, 0, "")) for each in found[1:]} == {True}


@pytest.mark.parametrize(
    "state",
    [
        None,
        ({}, {}),
        ({"d": {"k": 1}}, {}, {}),
        ({"d": {1: b""}}, {}, {}),
        ({"d": []}, {}, {}),
        ({}, {"one": {1: (None, 5)}}, {}),
        ({}, {"one": {1: 5}}, {}),
        ({}, {}, {"one": "1"}),
        ({}, {}, []),
    ],
)
async def test_malformed_copies_are_refused(state: Any) -> None:
    (world,) = aiompi.local_world(1)
    dicts = world._talk.dicts
    dicts.adopt(1, ["one"], 0, ({"d": {"k": b"v"}}, {"one": {1: (None, None)}}, {"one": 1}))
    with pytest.raises(aiompi.RemoteProtocolError, match="copies of shared dicts that another member has sent"):
        dicts.adopt(2, ["one"], 0, state or ())
    assert dicts.copies == {"d": {"k": b"v"}}


async def test_a_change_that_rank_0_has_not_sent_ends_the_line() -> None:
    owner, hostile, victim = aiompi.local_world(3)
    mine, theirs = owner.shared_dict("d"), victim.shared_dict("d")
    change = (0, 1, 1, 1, 1, "d", "k", b"", True, None, None)
    hostile._talk.exchange.lines[2].post(shared_dict.CHANGE, fields(*change))
    async with asyncio.timeout(LIMIT):
        while not isinstance(victim._talk.exchange.lines[1].error, aiompi.RemoteProtocolError):
            await asyncio.sleep(0)
        await mine.set("k", 1)
    assert dict(theirs) == {"k": 1}


async def test_wrong_arguments_fail_their_call_alone() -> None:
    hostile, victim = aiompi.local_world(2)
    victim.handler(abs)
    talk: Any = hostile._talk
    for number, request in enumerate((7, ([], ()), ("abs", 5)), 9):
        talk.exchange.line(1).post(calls.CALL, number.to_bytes(10, "little") + calls.encoded(Codec(), request))
        await asyncio.sleep(0.01)
    assert await hostile.call(1, "abs", -2, timeout=LIMIT) == 2


async def test_a_reply_counts_from_the_member_that_was_called() -> None:
    hostile, victim, third = aiompi.local_world(3)
    go = asyncio.Event()

    @third.handler
    async def right() -> str:
        await go.wait()
        return "right"

    call = asyncio.ensure_future(victim.call(2, "right"))
    await asyncio.sleep(0)
    forged = b"\1" + b"\0" * 7 + calls.encoded(Codec(), ("forged", None, ""))
    hostile._talk.exchange.lines[1].transmit(first(calls.REPLY, forged))
    await asyncio.sleep(0.01)
    go.set()
    assert await call == "right"


async def test_publications_that_nobody_takes_are_bounded() -> None:
    hostile, victim = aiompi.local_world(2)
    subscription = victim.subscribe("news", bound=1)
    broken = victim._talk.exchange.lines[0]
    for number in range(1, 400):
        message = (
            HEADER.pack(topics.PUBLISH, 0, number, 0) + b"\1" + b"\0" * 8 + b"\4\0\0\0news" + calls.encoded(Codec(), 1)
        )
        if broken.error is None:
            hostile._talk.exchange.lines[1].transmit(message)
    async with asyncio.timeout(LIMIT):
        while broken.error is None:
            await asyncio.sleep(0)
    assert "more than 256 publications came" in str(broken.error)
    assert len(subscription._beyond) == 256
