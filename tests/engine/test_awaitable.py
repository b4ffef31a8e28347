"""`AwaitableCall`: no message is lost or overtaken, whatever ends the await of a receive, and at whatever moment."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import sys
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from aiompi.core.progress import Finalizers
from aiompi.core.pure.progress import AWAITS_PER_TURN
from aiompi.datatype import BYTE
from aiompi.datatype.buffer.bufspec import resolve_recv
from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import AwaitableCall
from aiompi.engine.sendrecv import sendrecv
from aiompi.status import Status
from aiompi.wire.frame import HEADER_BYTES
from support.worlds import LIMIT, LocalWorld, WireWorld, irecv, irecv_into, isend, pattern

Run = Callable[[Coroutine[Any, Any, Any]], Any]

SIZES = {"empty": 0, "eager": LIMIT, "rendezvous": 3000}
SECOND = b"the second message"
GAPS = BYTE.Create_vector(10, 1, 2).Commit()


def new_world() -> WireWorld:
    return WireWorld(2, driver=AsyncioDriver, eager_limit=LIMIT)


class Case:
    """A world in which rank 0 sends a message to rank 1, and then another."""

    def __init__(self, size: int, into_memory: bool) -> None:
        self.world = new_world()
        self.message = pattern(size)
        self.memory = bytearray(size + 10) if into_memory else None
        self.received: list[bytes] = []

    def receive(self) -> AwaitableCall[Any]:
        comm = self.world.comms[1]
        return AwaitableCall(irecv(comm) if self.memory is None else irecv_into(comm, self.memory))

    def take(self, result: Any) -> None:
        if self.memory is not None:
            result = bytes(self.memory[: result.nbytes])
        self.received.append(result)

    def send(self) -> None:
        for data in (self.message, SECOND):
            isend(self.world.comms[0], data, 1)

    async def verify(self) -> None:
        """Check that both messages come once, in order, and that nothing is written into memory that was given back."""
        if self.memory is not None:
            self.memory[:] = b"\xee" * len(self.memory)
        while len(self.received) < 2:
            receive = irecv(self.world.comms[1])
            self.world.run()
            self.received.append(await receive)
        assert self.received == [self.message, SECOND]
        assert self.memory is None or self.memory == b"\xee" * len(self.memory)
        assert self.world.comms[1].iprobe(ANY_SOURCE, ANY_TAG) is None
        assert not list(self.world.comms[1].matcher.posted())
        assert self.world.credit_balance(0, 1) == self.world.settings.eager_window


# Moments: how much of the first message has arrived when the await ends.


def nothing(case: Case) -> None:
    """Send nothing."""


def under_way(case: Case) -> None:
    case.send()


def in_part(case: Case) -> None:
    """Let a part of an eager payload arrive, or the announcement of a long message."""
    case.send()
    case.world.run_wire(0, 1, HEADER_BYTES + (100 if 0 < len(case.message) <= LIMIT else 0))


def asked_for(case: Case) -> None:
    """Let a long message be matched; its answer has not arrived."""
    in_part(case)
    case.world.run_wire(1, 0)


def half(case: Case) -> None:
    """Let half of a long message arrive."""
    asked_for(case)
    case.world.run_wire(0, 1, 2 * HEADER_BYTES + len(SECOND) + 1000)


def arrived(case: Case) -> None:
    """Let everything arrive; the awaiting task has not run yet."""
    case.send()
    case.world.run()


def beforehand(case: Case) -> None:
    """Do nothing: everything has arrived before the receive began, and its await must first give the loop a turn."""


MOMENTS = [nothing, under_way, in_part, asked_for, half, arrived]


# Ends of the await.


async def by_cancel(case: Case, moment: Callable[[Case], None]) -> None:
    task = asyncio.create_task(_await(case.receive()))
    await asyncio.sleep(0)
    moment(case)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_cancel_before_the_first_step(case: Case, moment: Callable[[Case], None]) -> None:
    kept.append(task := asyncio.create_task(case.receive()))
    moment(case)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def by_gather_before_the_first_step(case: Case, moment: Callable[[Case], None]) -> None:
    gathered = asyncio.gather(case.receive(), asyncio.sleep(10))
    moment(case)
    kept.append(gathered)
    gathered.cancel()
    await asyncio.gather(gathered, return_exceptions=True)


#: what a program may still hold of tasks that have ended
kept: list[Any] = []


async def by_timeout(case: Case, moment: Callable[[Case], None]) -> None:
    asyncio.get_running_loop().call_soon(moment, case)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            case.take(await case.receive())


async def by_wait_for_nothing(case: Case, moment: Callable[[Case], None]) -> None:
    kept.append(receive := case.receive())
    moment(case)
    try:
        case.take(await asyncio.wait_for(receive, 0))
    except TimeoutError as error:
        kept.append(error)


async def by_wait_for(case: Case, moment: Callable[[Case], None]) -> None:
    asyncio.get_running_loop().call_soon(moment, case)
    with contextlib.suppress(TimeoutError):
        case.take(await asyncio.wait_for(case.receive(), 0.001))


async def by_task_group(case: Case, moment: Callable[[Case], None]) -> None:
    async def fail() -> None:
        moment(case)
        raise ValueError

    async def receive() -> None:
        case.take(await case.receive())

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(receive())
            group.create_task(fail())


async def by_dropping(case: Case, moment: Callable[[Case], None]) -> None:
    receive = case.receive()
    moment(case)
    with pytest.warns(RuntimeWarning, match="never awaited, and is withdrawn"):
        del receive


async def by_closing_the_coroutine(case: Case, moment: Callable[[Case], None]) -> None:
    coroutine = _await(case.receive())
    coroutine.send(None)
    moment(case)
    coroutine.close()


async def by_closing_before_the_first_step(case: Case, moment: Callable[[Case], None]) -> None:
    kept.append(receive := case.receive())
    moment(case)
    receive.close()


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


WAYS = [
    by_cancel,
    by_cancel_before_the_first_step,
    by_gather_before_the_first_step,
    by_timeout,
    by_wait_for_nothing,
    by_wait_for,
    by_task_group,
    by_dropping,
    by_closing_the_coroutine,
    by_closing_before_the_first_step,
]


@pytest.mark.spec("S3.5-1", "S2.7-1")
@pytest.mark.parametrize("moment", [*MOMENTS, beforehand])
@pytest.mark.parametrize("way", WAYS)
def test_no_message_is_lost(run: Run, way: Callable[..., Any], moment: Callable[[Case], None]) -> None:
    async def main() -> None:
        for size, into_memory in itertools.product(SIZES.values(), (False, True)):
            case = Case(size, into_memory)
            if moment is beforehand:
                arrived(case)
                case.world.engines[1].awaits = AWAITS_PER_TURN
            await way(case, moment)
            if moment is nothing:
                case.send()
            await case.verify()

    run(main())


@pytest.mark.parametrize("moment", MOMENTS)
def test_withdrawn_message_goes_to_the_receive_behind(run: Run, moment: Callable[[Case], None]) -> None:
    async def withdraw_one_of_two(case: Case) -> None:
        behind: list[Any] = []

        def post_another_first(case: Case) -> None:
            behind.append(irecv(case.world.comms[1]))
            moment(case)

        await by_cancel(case, post_another_first)
        if moment is nothing:
            case.send()
        case.world.run()
        behind.append(irecv(case.world.comms[1]))
        case.world.run()
        # When both messages had been matched already, the receive behind had the second, and keeps it.
        expected = [SECOND, case.message] if moment in (half, arrived) else [case.message, SECOND]
        assert [receive.result() for receive in behind] == expected

    async def main() -> None:
        for size, into_memory in itertools.product(SIZES.values(), (False, True)):
            await withdraw_one_of_two(Case(size, into_memory))

    run(main())


@pytest.mark.parametrize("size", [5, 3000])
def test_cancelled_receive_hands_its_message_to_the_next_in_order(run: Run, size: int) -> None:
    async def main() -> None:
        w = new_world()
        tasks = [asyncio.create_task(_await(AwaitableCall(irecv(w.comms[1])))) for _ in range(4)]
        await asyncio.sleep(0)
        isend(w.comms[0], pattern(size, 1), 1)
        w.run()
        tasks[0].cancel()
        tasks[1].cancel()
        await asyncio.sleep(0)
        w.run()
        assert await tasks[2] == pattern(size, 1)
        assert not tasks[3].done()
        isend(w.comms[0], b"next", 1)
        w.run()
        assert await tasks[3] == b"next"

    run(main())


def test_withdrawn_message_completes_a_probe(run: Run) -> None:
    async def main() -> None:
        w = new_world()
        task = asyncio.create_task(_await(AwaitableCall(irecv(w.comms[1]))))
        await asyncio.sleep(0)
        probe = w.comms[1].probe(0, 4)
        isend(w.comms[0], b"x", 1, 4)
        w.run()
        assert not probe.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert probe.result().nbytes == 1

    run(main())


def test_withdrawing_again_does_nothing(run: Run) -> None:
    async def main() -> None:
        w = new_world()
        isend(w.comms[0], b"x", 1)
        w.run()
        receive = irecv(w.comms[1])
        for _ in range(3):
            receive.withdraw()
            assert receive.cancelled()
        assert irecv(w.comms[1]).result() == b"x"
        assert not irecv(w.comms[1]).done()

    run(main())


@pytest.mark.parametrize("size", [LIMIT, 3000])
@pytest.mark.parametrize("room", [0, 10])
@pytest.mark.parametrize("arrived_bytes", range(0, LIMIT + 1, 50))
def test_withdrawing_from_a_message_that_does_not_fit(size: int, room: int, arrived_bytes: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    memory = bytearray(room)
    receive = irecv_into(w.comms[1], memory)
    isend(w.comms[0], pattern(size), 1)
    isend(w.comms[0], SECOND, 1)
    w.run_wire(0, 1, HEADER_BYTES + arrived_bytes)
    failed = receive.done()
    receive.withdraw()
    memory[:] = b"\xee" * room
    w.run()
    assert memory == b"\xee" * room, "memory was written to after it had been given back"
    rest = [irecv(w.comms[1]), irecv(w.comms[1])]
    w.run()
    got = [each.result() for each in rest if each.done()]
    # Only a message that was matched by too small a receive may be lost; the receive then has an error.
    assert got in ([SECOND], [pattern(size), SECOND])
    assert not failed or got == [SECOND]
    loss = receive.lost_message_error()
    assert isinstance(loss, errors.TruncationError) is (got == [SECOND])
    assert receive.cancelled() is (loss is None)
    assert receive.lost_message_error() is None, "it is reported once"
    assert w.credit_balance(0, 1) == w.settings.eager_window


@pytest.mark.parametrize("size", [LIMIT, 3000])
@pytest.mark.parametrize("come", [0, 50, 2**30])
@pytest.mark.parametrize("exchanged", [False, True])
def test_a_message_that_is_lost_when_an_await_is_cancelled_causes_a_warning(
    run: Run, size: int, come: int, exchanged: bool
) -> None:
    """The message did not fit, and is lost: before the cancellation, or by it."""

    async def main() -> None:
        for place in (memoryview(bytearray(10)), resolve_recv([bytearray(19), 1, GAPS])):
            w = new_world()
            receive = w.comms[1].irecv(place, 0, 1)
            send = functools.partial(isend, w.comms[1], pattern(3000), 0)
            task = asyncio.create_task(AwaitableCall(sendrecv(receive, send)) if exchanged else AwaitableCall(receive))
            await asyncio.sleep(0)
            isend(w.comms[0], pattern(size), 1, 1)
            w.run_wire(0, 1, HEADER_BYTES)
            w.run_wire(1, 0)
            w.run_wire(0, 1, (HEADER_BYTES if size > LIMIT else 0) + come)
            task.cancel()
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                (error,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(error, asyncio.CancelledError)
            again = irecv(w.comms[1])
            w.run()
            assert [one.category for one in told] == [] if again.done() else [RuntimeWarning]
            assert not told or "has lost its message: message of" in str(told[0].message)
            assert size == LIMIT or not again.done(), "what was not asked for does not come"
            assert not again.done() or again.result() == pattern(size)

    run(main())


def test_a_cancelled_task_ends_although_it_catches_the_errors_of_messages(run: Run) -> None:
    async def serve(receive: AwaitableCall[Any]) -> None:
        while True:
            with contextlib.suppress(errors.MPIError):
                await receive

    async def main() -> None:
        w = new_world()
        for end in (asyncio.Task.cancel, None):
            serving = serve(AwaitableCall(irecv_into(w.comms[1], bytearray(1), 0)))
            if end is None:
                serving.send(None)
            else:
                task = asyncio.create_task(serving)
                await asyncio.sleep(0)
            isend(w.comms[0], b"too long", 1)
            w.run()
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                if end is None:
                    serving.close()
                else:
                    end(task)
                    await asyncio.wait([task])
            assert end is None or task.cancelled()
            (one,) = told
            assert "lost its message: message of 8 bytes" in str(one.message)

    run(main())


def test_a_lost_message_fails_no_other_call_where_warnings_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    w = LocalWorld(2)
    isend(w.comms[0], b"too long", 1)
    lost = AwaitableCall(irecv_into(w.comms[1], bytearray(1)))
    finalizers = w.engines[1].finalizers
    monkeypatch.setattr(Finalizers, "defer", lambda self, undo, _: finalizers.pending.append(undo))
    del lost
    isend(w.comms[0], b"x", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert irecv(w.comms[1]).result() == b"x"
    assert [one.exc_type for one in told] == [RuntimeWarning] * 2


def test_receive_from_proc_null_can_be_dropped() -> None:
    w = LocalWorld(1)
    for request in (irecv(w.comms[0], PROC_NULL), irecv_into(w.comms[0], bytearray(3), PROC_NULL)):
        with pytest.warns(RuntimeWarning, match="never awaited"):
            AwaitableCall(request)
    assert w.comms[0].iprobe(ANY_SOURCE, ANY_TAG) is None


def test_failed_receive_can_be_dropped() -> None:
    """There is a warning if a message is lost, since nothing else reports it."""
    w = LocalWorld(2)
    isend(w.comms[0], b"too long", 1)
    with (
        pytest.warns(RuntimeWarning, match="withdrawn has lost its message: message of 8 bytes from rank 0"),
        pytest.warns(RuntimeWarning, match="never awaited"),
    ):
        AwaitableCall(irecv_into(w.comms[1], bytearray(1)))
    w.engines[1].peer(0).mark_failed("test")
    with pytest.warns(RuntimeWarning, match="never awaited"):
        AwaitableCall(irecv(w.comms[1], 0))
    assert list(w.comms[1].matcher.unexpected()) == []


def test_owned_operation_is_awaited_once(run: Run) -> None:
    async def main() -> None:
        w = new_world()
        isend(w.comms[0], b"x", 1)
        w.run()
        receive = AwaitableCall(irecv(w.comms[1]))
        assert await receive == b"x"
        with pytest.raises(RuntimeError, match="awaited already"):
            await receive

    run(main())


def test_error_in_decoding_is_raised_by_the_await(run: Run) -> None:
    async def main() -> None:
        w = new_world()
        isend(w.comms[0], b"x", 1)
        w.run()

        def decode(data: memoryview) -> Any:
            raise ValueError("bad object")

        with pytest.raises(ValueError, match="bad object"):
            await AwaitableCall(w.comms[1].irecv(None, 0, 0, decode))
        for look in (False, True):  # as a hook does
            isend(w.comms[0], b"yz", 1)
            w.run()
            receive = w.comms[1].irecv(None, 0, 0, decode, status := Status())
            if look:
                assert isinstance(receive.exception(), ValueError)
            with pytest.raises(ValueError, match="bad object"):
                await AwaitableCall(receive)
            assert (status.Get_source(), status.Get_count(BYTE)) == (0, 2)

    run(main())


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_error_of_a_receive_that_was_timed_out_does_not_keep_its_memory(run: Run, size: int) -> None:
    case = Case(size, into_memory=True)
    assert case.memory is not None
    memory = case.memory

    async def main() -> None:
        alone, exchanged = irecv_into(case.world.comms[1], memory), irecv_into(case.world.comms[1], memory)
        both = sendrecv(exchanged, lambda: isend(case.world.comms[1], b"x", 0))
        for operation in (AwaitableCall(alone), AwaitableCall(both)):
            (error,) = await asyncio.gather(asyncio.wait_for(operation, 0.001), return_exceptions=True)
            assert isinstance(error, TimeoutError)
        memory.append(1)
        assert alone.cancelled()

    run(main())
