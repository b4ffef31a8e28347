"""`AwaitableCall`: sends that are cancelled, waits for memory that another process writes into, and random programs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import AwaitableCall
from aiompi.engine.message import Landing
from aiompi.engine.receive import Receive
from aiompi.engine.sendrecv import sendrecv
from aiompi.wire import frame
from aiompi.wire.frame import HEADER_BYTES
from support.worlds import LIMIT, LocalWorld, WireWorld, irecv, irecv_into, isend, pattern

Run = Callable[[Coroutine[Any, Any, Any]], Any]

SIZES = {"empty": 0, "eager": LIMIT, "rendezvous": 3000}


def new_world() -> WireWorld:
    return WireWorld(2, driver=AsyncioDriver, eager_limit=LIMIT)


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


# Sends.


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_cancelled_send_is_recalled(run: Run, size: int) -> None:
    async def main() -> None:
        w = new_world()
        memory = bytearray(pattern(size))
        task = asyncio.create_task(_await(AwaitableCall(isend(w.comms[0], memory, 1, 1, sync=True))))
        await asyncio.sleep(0)
        w.run()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        w.run()
        assert w.comms[1].iprobe(ANY_SOURCE, ANY_TAG) is None
        assert not w.engines[0].sends

    run(main())


def test_cancelled_send_that_is_matched_arrives_whole(run: Run) -> None:
    async def main() -> None:
        w = new_world()
        receive = irecv(w.comms[1])
        task = asyncio.create_task(_await(AwaitableCall(isend(w.comms[0], pattern(3000), 1))))
        await asyncio.sleep(0)
        w.run_wire(0, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        w.run()
        assert await receive == pattern(3000)

    run(main())


@pytest.mark.parametrize("moved", [0, 10, HEADER_BYTES, HEADER_BYTES + 50, 2**20])
def test_memory_of_a_cancelled_send_is_the_users_again(run: Run, moved: int) -> None:
    async def cancel(size: int, sync: bool) -> None:
        w = new_world()
        memory = bytearray(pattern(size))
        receive = irecv(w.comms[1])
        task = asyncio.create_task(AwaitableCall(isend(w.comms[0], memory, 1, 0, sync)))
        await asyncio.sleep(0)
        w.run_wire(0, 1, moved)
        task.cancel()
        await asyncio.wait([task])
        memory[:] = bytes(size)
        w.run()
        assert not receive.done() or await receive == pattern(size)

    async def main() -> None:
        for size, sync in itertools.product((100, LIMIT, 3000), (False, True)):
            await cancel(size, sync)

    run(main())


def test_send_that_is_not_awaited_is_sent() -> None:
    w = WireWorld(2)
    with pytest.warns(RuntimeWarning, match="was never awaited: it goes on, and its errors"):
        AwaitableCall(isend(w.comms[0], b"x", 1, 0, sync=True))
    w.run()
    assert frame.CANCEL not in w.wires[0, 1].kinds
    assert irecv(w.comms[1]).result() == b"x"


def test_the_warning_names_the_line_that_forgets_to_await() -> None:
    w = LocalWorld(2)
    with pytest.warns(RuntimeWarning) as told:
        AwaitableCall(isend(w.comms[0], b"x", 1))
    with pytest.warns(RuntimeWarning) as told_too:
        AwaitableCall(irecv(w.comms[1], 0, 9))
    here = test_the_warning_names_the_line_that_forgets_to_await.__code__.co_firstlineno
    assert [(one.filename, one.lineno - here) for one in (*told, *told_too)] == [(__file__, 3), (__file__, 5)]


def test_a_send_that_fails_without_being_awaited_causes_a_warning() -> None:
    w = WireWorld(2)
    send = AwaitableCall(isend(w.comms[0], b"x", 1, 0, sync=True))
    w.engines[0].peer(1).mark_failed("test")
    with pytest.warns(RuntimeWarning, match=r"never awaited.*It has failed: rank 1"):
        del send


# Everything at once.

STEPS = st.lists(st.tuples(st.sampled_from(["move", "cancel", "turn", "send"]), st.integers(1, 700)), max_size=60)


class _ImpatientReader:
    """Receives messages of rank 0 in a task that is cancelled and started again."""

    def __init__(self, world: WireWorld, into_memory: bool) -> None:
        self.world = world
        self.received: list[bytes] = []
        self._memory = bytearray(700) if into_memory else None
        self.task = asyncio.create_task(self._receive())

    async def _receive(self) -> None:
        if self._memory is None:
            self.received.append(await AwaitableCall(irecv(self.world.comms[1])))
        else:
            status = await AwaitableCall(irecv_into(self.world.comms[1], self._memory))
            self.received.append(bytes(self._memory[: status.nbytes]))

    async def restart(self) -> None:
        await asyncio.gather(self.task, return_exceptions=True)
        if self._memory is not None:
            self._memory[:] = bytes(700)
        self.task = asyncio.create_task(self._receive())

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.booleans())
def test_receives_that_are_often_cancelled_get_everything_in_order(
    steps: list[tuple[str, int]], into_memory: bool
) -> None:
    async def main() -> None:
        w = new_world()
        sent: list[bytes] = []
        reader = _ImpatientReader(w, into_memory)
        for step, number in [*steps, ("send", 650), ("send", 5)]:
            if step == "send":
                sent.append(pattern(number, len(sent)))
                isend(w.comms[0], sent[-1], 1, 0, sync=number % 3 == 0)
            elif step == "move":
                wire = list(w.wires.values())[number % max(1, len(w.wires)) :]
                if wire:
                    wire[0].move(number)
            elif step == "cancel":
                reader.task.cancel()
            await asyncio.sleep(0)
            if reader.task.done() or step == "cancel":
                await reader.restart()
        for _ in range(4 * len(sent)):
            w.run()
            await asyncio.sleep(0)
            if reader.task.done():
                await reader.restart()
        await reader.end()
        w.run()
        assert reader.received == sent
        assert w.credit_balance(0, 1) == w.settings.eager_window

    with asyncio.Runner() as runner:
        runner.run(main())


def test_withdrawal_of_a_matched_receive_is_the_receives_own(run: Run) -> None:
    """Only an owner withdraws: the await of an i-form does not withdraw a matched receive."""

    async def main() -> None:
        w = new_world()
        receive: Receive = irecv(w.comms[1])
        task = asyncio.create_task(_await(receive))
        await asyncio.sleep(0)
        isend(w.comms[0], b"x", 1)
        w.run()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not receive.cancelled()
        assert receive.result() == b"x"

    run(main())


def test_errors_reach_the_owner(run: Run) -> None:
    async def main() -> None:
        w = new_world()
        asyncio.get_running_loop().call_soon(w.engines[1].peer(0).mark_failed, "test")
        with pytest.raises(errors.ProcessFailedError):
            await AwaitableCall(irecv(w.comms[1], 0, ANY_TAG))

    run(main())


# Memory that another process is writing into.


class Writer:
    """The offer of a message, which its sender writes into the memory of the receive for some looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def close(self, wait: bool = True) -> bool:
        self.looks -= not wait
        return wait or self.looks < 0


def busy(world: WireWorld, looks: int, decode: Callable[[Any], Any] = bytes) -> tuple[Receive, Writer]:
    """Return a receive of a message of which a part has arrived, and the writer of the rest."""
    receive, writer = world.comms[1].irecv(None, 0, ANY_TAG, decode), Writer(looks)
    isend(world.comms[0], pattern(LIMIT), 1)
    world.run_wire(0, 1, HEADER_BYTES + 1)
    assert receive.landing is not None
    receive.landing.offer = writer  # type: ignore[assignment]
    return receive, writer


def test_a_task_and_not_its_loop_waits_until_no_process_writes_into_its_memory(run: Run) -> None:
    async def cancel() -> None:
        receive, writer = busy(new_world(), 3)
        task = asyncio.create_task(AwaitableCall(receive))
        await asyncio.sleep(0)
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
            assert not task.done()
            assert not receive.cancelled()
        task.cancel()  # a second time, without effect
        with pytest.raises(asyncio.CancelledError):
            await task
        assert receive.cancelled()
        assert writer.looks == -1

    run(cancel())


def test_a_task_that_is_cancelled_before_its_first_step_waits_likewise(run: Run) -> None:
    async def cancel() -> None:
        receive, _ = busy(new_world(), 3)
        task = asyncio.create_task(AwaitableCall(receive))
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
            assert not task.done()
            assert not receive.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert receive.cancelled()

    run(cancel())


def test_what_interrupts_the_wait_is_raised_after_it(run: Run) -> None:
    async def interrupt() -> None:
        receive, _ = busy(new_world(), 3)
        steps = AwaitableCall(receive).__await__()
        next(steps)
        steps.throw(asyncio.CancelledError())
        pause = steps.throw(KeyboardInterrupt("by a handler"))
        while not pause.done():
            await asyncio.sleep(0)
        pause = next(steps)
        assert not receive.cancelled()
        while not pause.done():
            await asyncio.sleep(0)
        with pytest.raises(KeyboardInterrupt, match="by a handler"):
            next(steps)
        assert receive.cancelled()

    run(interrupt())


def test_an_exchange_is_quiescent_when_its_receive_is() -> None:
    world = new_world()
    receive, _ = busy(world, 2)
    both = sendrecv(receive, lambda: isend(world.comms[1], b"x", 0))
    assert [both.quiescent() for _ in range(3)] == [False, False, True]


def test_a_receive_that_is_cancelled_before_its_first_step_is_in_no_cycle(run: Run) -> None:
    async def cancel() -> None:
        def decode(data: object) -> object:
            return data

        receive, _ = busy(new_world(), 2, decode)
        kept = weakref.ref(decode)  # which only the receive refers to; nothing refers to that one weakly
        del decode
        task = asyncio.create_task(AwaitableCall(receive))
        del receive
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        del task
        assert kept() is None, "its memory would be kept until a collection"

    gc.collect()
    gc.disable()
    try:
        run(cancel())
    finally:
        gc.enable()


def test_a_receive_is_quiescent_unless_its_sender_writes_into_its_memory() -> None:
    world = LocalWorld(2)
    receive = irecv_into(world.comms[1], bytearray(10))
    assert receive.quiescent()
    landing = Landing(world.engines[1].peer(0), receive, memoryview(bytearray(10)), 10, 0)
    assert receive.quiescent()
    asked: list[bool] = []
    offer: Any = SimpleNamespace(close=lambda wait: asked.append(wait) or len(asked) > 2)
    landing.offer = offer
    assert [receive.quiescent() for _ in range(3)] == [False, False, True]
    assert not any(asked), "it must not wait"


def test_an_await_that_is_closed_meanwhile_waits_no_longer(run: Run) -> None:
    async def close() -> None:
        receive, _ = busy(new_world(), 3)
        steps = AwaitableCall(receive).__await__()
        next(steps)
        steps.throw(asyncio.CancelledError())
        assert not receive.cancelled()
        steps.close()
        assert receive.cancelled()

    run(close())
