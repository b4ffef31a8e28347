"""Large objects beside the other callbacks of an event loop: turns, order, cancellation, errors and ends."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any

import pytest

import aiompi
from aiompi import errors
from aiompi.engine import slices
from aiompi.face.native import Intracomm
from aiompi.objects import steps

pytestmark = pytest.mark.asyncio

ROWS = [{"step": number, "shape": [32, 128]} for number in range(steps.LARGE_ITEMS)]
#: steps in which they are encoded, at least
STEPS = len(ROWS) * 4 // (steps.STEP_ITEMS + steps._CHUNK)


@pytest.fixture(autouse=True)
def step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE", 0.0)


@pytest.fixture
def pair() -> tuple[Intracomm, Intracomm]:
    one, other = aiompi.local_world(2)
    return one, other


class Turns:
    """Counts the turns of the loop."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.count += 1
        self._loop.call_soon(self._turn)


async def test_sender_and_receiver_give_turns(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    turns = Turns()
    receive = other.irecv(0)
    send = one.issend(ROWS, 1)
    await send
    encoded = turns.count
    assert encoded >= STEPS
    assert not receive.done()
    assert await receive == ROWS
    assert turns.count - encoded >= 3
    assert not one._core.engine.held_sends


WAYS: dict[str, Callable[[Intracomm], Any]] = {
    "send": lambda comm: comm.send(ROWS, 1),
    "ssend": lambda comm: comm.ssend(ROWS, 1),
    "rsend": lambda comm: comm.rsend(ROWS, 1),
    "isend": lambda comm: comm.isend(ROWS, 1),
    "bsend": lambda comm: comm.bsend(ROWS, 1),
    "sendrecv": lambda comm: comm.sendrecv(ROWS, 1, source=aiompi.PROC_NULL),
}


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_gives_turns(pair: tuple[Intracomm, Intracomm], way: str) -> None:
    one, other = pair
    one.Attach_buffer(bytearray(2**20))
    turns = Turns()
    receive = other.irecv()
    await WAYS[way](one)
    assert turns.count >= STEPS
    assert await receive == ROWS


async def test_a_matched_probe_gives_turns(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    await one.isend(ROWS, 1)
    receive = (await other.mprobe()).irecv()
    assert not receive.done()
    assert await receive == ROWS


async def test_several_objects_take_turns(pair: tuple[Intracomm, Intracomm]) -> None:
    """One step of one of them is done in each turn."""
    one, other = pair
    turns = Turns()
    sends = [one.isend(ROWS, 1, tag) for tag in range(3)]
    receives = [other.irecv(0, tag) for tag in range(3)]
    for send in sends:
        await send
    assert turns.count >= 3 * STEPS
    for receive in receives:
        assert await receive == ROWS


async def test_a_buffered_send_is_complete_in_the_buffer(pair: tuple[Intracomm, Intracomm]) -> None:
    """Without a receive; the object may then change. Detaching waits for it from the start."""
    one, other = pair
    memory = bytearray(2**20)
    one.Attach_buffer(memory)
    rows = [*ROWS]
    send = one.ibsend(rows, 1)
    assert not send.done()
    detached = one.Detach_buffer()
    assert not detached.done()
    await send
    rows.clear()
    assert await other.recv() == ROWS
    assert await detached is memory
    one.Attach_buffer(memory)
    await one.bsend(ROWS, aiompi.PROC_NULL)


async def test_a_buffer_without_room_for_a_large_object(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    with pytest.raises(errors.InvalidBufferError, match="needs an attached buffer"):
        one.ibsend(ROWS, 1)
    one.Attach_buffer(bytearray(1000))
    send = one.ibsend(ROWS, 1)
    with pytest.raises(errors.InvalidBufferError, match="has no such room"):
        await send
    await one.bsend("next", 1)
    assert await other.recv() == "next"
    await one.Detach_buffer()


COLLECTIVES: dict[str, Callable[[Intracomm], Any]] = {
    "bcast": lambda comm: comm.bcast(ROWS if comm.rank == 1 else None, 1),
    "scatter": lambda comm: comm.scatter([ROWS, ROWS] if comm.rank == 0 else None, 0),
    "gather": lambda comm: comm.gather(ROWS, 1),
    "allgather": lambda comm: comm.allgather(ROWS),
    "alltoall": lambda comm: comm.alltoall([ROWS, ROWS]),
}


@pytest.mark.parametrize("name", COLLECTIVES)
async def test_collectives_give_turns(pair: tuple[Intracomm, Intracomm], name: str) -> None:
    """They are encoded and decoded in slices. Other collectives go on, in the order of the calls."""
    turns = Turns()
    small = [await asyncio.gather(*(comm.allgather(comm.rank) for comm in pair)) for _ in range(10)][-1]
    assert small == [[0, 1]] * 2
    turns.count = 0
    large = [COLLECTIVES[name](comm) for comm in pair]
    beside = [comm.allgather(comm.rank) for comm in pair]
    expected = {"gather": [None, [ROWS, ROWS]], "allgather": [[ROWS] * 2] * 2, "alltoall": [[ROWS] * 2] * 2}.get(
        name, [ROWS, ROWS]
    )
    assert [await request for request in large] == expected
    assert turns.count >= STEPS + 3
    assert [await request for request in beside] == [[0, 1]] * 2


REDUCTIONS: dict[str, Callable[[int, int], int]] = {  # how many lists make the result of a rank
    "allreduce": lambda rank, size: size,
    "reduce": lambda rank, size: size if rank == 0 else 0,
    "scan": lambda rank, size: rank + 1,
    "exscan": lambda rank, size: rank,
}


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("op", [operator.add, operator.iadd, aiompi.SUM])
@pytest.mark.parametrize("pickled", [False, True])
async def test_reductions_give_turns(size: int, op: Any, pickled: bool) -> None:
    """Results are in the order of ranks, and what the ranks contribute stays as it is. Other collectives go on."""
    comms = aiompi.local_world(size)
    first = Fraction(1, 3) if pickled else 0.5
    each = [[first, *range(rank, rank + 2 * steps.LARGE_ITEMS)] for rank in range(size)]
    before = [[*rows] for rows in each]
    for name, lists in REDUCTIONS.items():
        turns = Turns()
        large = [getattr(comm, name)(rows, op) for comm, rows in zip(comms, each, strict=True)]
        beside = [comm.allreduce(comm.rank) for comm in comms]
        results = [await request for request in large]
        assert turns.count >= (2 if pickled else STEPS) or size == 1
        assert [await request for request in beside] == [sum(range(size))] * size
        for rank, result in enumerate(results):
            expected = [number for rows in before[: lists(rank, size)] for number in rows]
            assert result == (expected or None)
            if result:
                result.clear()
        assert each == before


async def test_reductions_of_large_and_small_objects(pair: tuple[Intracomm, Intracomm]) -> None:
    for _ in range(3):
        large, small = pair[0].allreduce(ROWS, operator.add), pair[1].allreduce([1], operator.add)
        assert await large == await small == [*ROWS, 1]


async def test_reductions_between_groups() -> None:
    comms = aiompi.local_world(4)
    halves = await asyncio.gather(*(comm.Split(comm.rank // 2) for comm in comms))
    between = await asyncio.gather(
        *(half.Create_intercomm(0, comm, 2 - comm.rank // 2 * 2) for comm, half in zip(comms, halves, strict=True))
    )
    found = await asyncio.gather(*(comm.allreduce([rank, *ROWS], operator.add) for rank, comm in enumerate(between)))
    assert found == [[*rows, *ROWS] for rows in ([2, *ROWS, 3], [2, *ROWS, 3], [0, *ROWS, 1], [0, *ROWS, 1])]


async def test_errors_of_large_reductions(pair: tuple[Intracomm, Intracomm]) -> None:
    def refuse(one: Any, other: Any) -> Any:
        raise ZeroDivisionError

    for request in [comm.allreduce(ROWS, refuse) for comm in pair]:
        with pytest.raises(ZeroDivisionError):
            await request
    with pytest.raises(errors.InvalidTypeError, match="cannot be pickled"):
        await pair[0].allreduce([*ROWS, lambda: None], operator.add)
    with pytest.raises(errors.InvalidTypeError, match="cannot be pickled"):
        await pair[1].reduce([*ROWS, lambda: None], operator.add)


async def test_an_object_that_no_collective_can_send(pair: tuple[Intracomm, Intracomm]) -> None:
    with pytest.raises(errors.InvalidTypeError, match="cannot be pickled"):
        await pair[0].bcast([*ROWS, lambda: None], 0)


SENDS: dict[str, Callable[[Intracomm], Any]] = {
    "object": lambda comm: comm.isend("later", 1),
    "synchronous": lambda comm: comm.issend("later", 1),
    "buffered": lambda comm: comm.ibsend("later", 1),
    "large": lambda comm: comm.isend(["later"] * len(ROWS), 1),
    "buffer": lambda comm: comm.Isend(b"\xa5later", 1),
}


@pytest.mark.spec("3.5")
@pytest.mark.parametrize("kind", SENDS)
async def test_a_later_message_does_not_overtake(pair: tuple[Intracomm, Intracomm], kind: str) -> None:
    one, other = pair
    one.Attach_buffer(bytearray(10_000))
    first = one.isend(ROWS, 1)
    second = SENDS[kind](one)
    assert await other.recv() == ROWS
    received = await other.recv()
    assert received[-1] == "later" or received == "later"
    await first
    await second
    third = one.isend("last", 1)
    assert third.done()
    assert await other.recv() == "last"


async def test_other_ranks_and_communicators_do_not_wait(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    copies = await asyncio.gather(one.Dup(), other.Dup())
    first = one.isend(ROWS, 1)
    await copies[0].send("beside", 1)
    await one.send("own", 0)
    assert await copies[1].recv() == "beside"
    assert await one.recv() == "own"
    assert not first.done()
    assert await other.recv() == ROWS


@pytest.mark.spec("3.8")
async def test_cancel_while_it_is_encoded(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    first, second = one.isend(ROWS, 1), one.isend("second", 1)
    await asyncio.sleep(0)
    assert first.cancel()
    await first
    assert first.cancelled()
    await second
    assert await other.recv() == "second"


@pytest.mark.spec("3.8")
async def test_cancel_behind_another(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    first, second, third = (one.isend(obj, 1) for obj in (ROWS, "second", "third"))
    assert second.cancel()
    assert second.cancelled()
    assert not first.done()
    assert not third.done()
    assert await other.recv() == ROWS
    assert await other.recv() == "third"


async def test_an_await_that_times_out_sends_nothing(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    task = asyncio.ensure_future(one.send(ROWS, 1))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await one.send("next", 1)
    assert await other.recv() == "next"


async def test_an_await_of_a_receive_that_times_out_gives_the_message_back(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    task = asyncio.ensure_future(other.recv())
    await asyncio.sleep(0)
    await one.ssend(ROWS, 1)
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await other.recv() == ROWS


async def test_a_decoded_object_that_nothing_takes_goes_to_the_next_receive(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    receive = other.irecv(0)
    await one.isend(ROWS, 1)
    while not receive.done():
        await asyncio.sleep(0)
    receive.withdraw()
    assert await other.recv() == ROWS


async def test_an_error_is_that_of_the_request(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    first, second = one.isend([*ROWS, lambda: None], 1), one.isend("second", 1)
    with pytest.raises(errors.InvalidTypeError, match="cannot be pickled"):
        await first
    await second
    assert await other.recv() == "second"


@pytest.mark.parametrize("tag", [-5, "x"])
async def test_invalid_arguments(pair: tuple[Intracomm, Intracomm], tag: Any) -> None:
    one, other = pair
    for dest in (1, 7, None):
        with pytest.raises((errors.MPIError, TypeError)):
            one.isend(ROWS, dest, tag)  # type: ignore[arg-type]
    await one.send(ROWS, aiompi.PROC_NULL)
    assert one.isend("at once", 1).done()
    assert await other.recv() == "at once"


async def test_a_malformed_message_fails_its_receive(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    receive = other.irecv(0)
    await one.Send(b"\xdd\xff\xff\xff\xff" + bytes(steps.LARGE_BYTES), 1)
    with pytest.raises(errors.RemoteProtocolError, match="malformed"):
        await receive


async def test_an_interrupt_ends_the_encoding(
    pair: tuple[Intracomm, Intracomm], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupt(BaseException):
        """Stands for KeyboardInterrupt, which ends the loop."""

    def interrupted() -> Generator[None, None, Any]:
        yield
        raise Interrupt

    one, other = pair
    send = one._core.isend_encoded(interrupted(), 1, 0)
    with pytest.raises(Interrupt):
        one._core.engine.copy_queue._parts[0]()
        one._core.engine.copy_queue._parts[0]()
    with pytest.raises(Interrupt):
        await send
    await one.send("next", 1)
    assert await other.recv() == "next"


async def test_finalize_sends_what_is_being_encoded(pair: tuple[Intracomm, Intracomm]) -> None:
    one, other = pair
    one.isend(ROWS, 1).free()
    receive = other.irecv(0)
    await asyncio.gather(one._runtime.leave(), receive)
    assert receive.result() == ROWS


async def test_abort_fails_what_is_being_encoded(pair: tuple[Intracomm, Intracomm]) -> None:
    one, _ = pair
    sends = one.isend(ROWS, 1), one.isend("second", 1)
    one._core.engine.failure.abort(errors.OtherError("the end"))
    for send in sends:
        with pytest.raises(errors.OtherError, match="the end"):
            await send
    assert not one._core.engine.copy_queue._parts
