"""The driver of event loops, and the choice of the loop of a program."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from aiompi.driver import aio
from aiompi.driver.aio import AsyncioDriver
from support.worlds import LocalWorld, irecv, isend


def test_loop_is_the_one_that_runs_at_first_use(run: Any) -> None:
    driver = AsyncioDriver()

    async def main() -> None:
        assert driver.loop is asyncio.get_running_loop()

    run(main())


def test_use_outside_a_loop_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncioDriver().call_soon(print)


def test_callbacks_timers_and_descriptors(run: Any) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        calls: list[Any] = []
        a, b = socket.socketpair()
        with a, b:
            a.setblocking(False)
            driver.call_soon(calls.append, "soon")
            driver.call_later(0.0, lambda: calls.append("later"))
            driver.call_later(0.0, lambda: calls.append("cancelled")).cancel()
            driver.add_reader(a.fileno(), lambda: calls.append(a.recv(5)))
            driver.add_writer(b.fileno(), lambda: (driver.remove_writer(b.fileno()), b.send(b"x")))
            assert calls == []
            while b"x" not in calls or "later" not in calls:
                await asyncio.sleep(0.001)
            assert sorted(map(str, calls)) == ["b'x'", "later", "soon"]
            driver.remove_reader(a.fileno())
            driver.remove_reader(a.fileno())
            driver.remove_writer(a.fileno())

    run(main())


def test_descriptors_can_be_let_go_after_the_loop_has_closed(run: Any) -> None:
    driver = AsyncioDriver()

    async def main() -> None:
        driver.call_soon(int)

    run(main())
    a, b = socket.socketpair()
    with a, b:
        driver.remove_reader(a.fileno())
        driver.remove_writer(a.fileno())


def test_await_from_another_task_than_the_one_that_started(run: Any) -> None:
    async def main() -> None:
        w = LocalWorld(2, AsyncioDriver)
        receive = irecv(w.comms[1])

        async def wait() -> Any:
            return await receive

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        isend(w.comms[0], b"x", 1)
        assert not task.done()
        assert await task == b"x"

    run(main())


async def _loop_name() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_run_takes_uvloop_when_it_is_there() -> None:
    assert aio.run(_loop_name()).startswith("uvloop")


def test_run_does_without_uvloop() -> None:
    program = (
        "import asyncio, sys; sys.modules['uvloop'] = None; from aiompi.driver import aio\n"
        "async def main(): print(type(asyncio.get_running_loop()).__module__)\n"
        "aio.run(main())"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).startswith("asyncio")


def test_run_gives_the_result_and_the_error() -> None:
    async def fail() -> None:
        raise ValueError("of main")

    with pytest.raises(ValueError, match="of main"):
        aio.run(fail())
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_next_loop_calls_what_a_closed_one_has_dropped(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Calls, timers, a doorbell whose task runs first, and pollers that cannot rest."""
    driver = AsyncioDriver()
    driver.at_rest = lambda: True
    calls: list[str] = []
    bell = os.eventfd(1)

    class Restless:
        """A poller that always has work."""

        def poll(self, looks: range) -> bool:
            calls.append("poll")
            return True

        def rest(self) -> bool:
            return False

        def stale(self) -> bool:
            return False

    async def begin() -> None:
        driver.check_thread()
        driver.spin(1.0)
        assert driver.start_polling(Restless())
        driver.add_doorbell(bell, lambda: True, lambda: calls.append("bell"))

    async def go_on() -> None:
        driver.check_thread()
        while {*calls} != {"poll", "bell", "soon", "timer"}:
            await asyncio.sleep(0.001)
        driver.remove_reader(bell)

    loop = new_loop()
    loop.run_until_complete(begin())
    loop.run_until_complete(asyncio.sleep(0.01))
    calls.clear()
    os.eventfd_write(bell, 0)
    driver.call_soon(calls.append, "soon")
    driver.call_later(0.0, lambda: calls.append("timer"))
    driver.call_later(0.0, lambda: calls.append("cancelled")).cancel()
    driver._rung()
    loop.close()
    assert calls == []
    loop = new_loop()
    loop.run_until_complete(asyncio.wait_for(go_on(), 30))
    assert calls.count("soon") == calls.count("timer") == 1
    loop.close()
    os.close(bell)
