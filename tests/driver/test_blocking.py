"""The blocking driver: callbacks, timers, descriptors, and waits that can never end."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import socket
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest

from aiompi import errors
from aiompi.driver.aio import AsyncioDriver
from aiompi.driver.blocking import BlockingDriver
from aiompi.driver.threads import refuse_running_loop
from aiompi.engine import Driver, Engine, Request
from aiompi.settings import Settings
from support.pollers import calls
from support.worlds import LocalWorld, irecv, isend


@pytest.fixture
def driver() -> Iterator[BlockingDriver]:
    driver = BlockingDriver()
    yield driver
    driver.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        a.setblocking(False)
        yield a, b


def new_request(driver: BlockingDriver) -> Request[Any]:
    return Request(Engine(0, 1, Settings(), driver))


def test_drivers_have_all_of_the_seam() -> None:
    for name, member in inspect.getmembers(Driver, inspect.isfunction):
        if name.startswith("_"):
            continue
        for cls in (BlockingDriver, AsyncioDriver):
            ours = inspect.signature(getattr(cls, name)).parameters
            assert list(ours) == list(inspect.signature(member).parameters), (cls, name)


@pytest.mark.parametrize("cls", [BlockingDriver, AsyncioDriver])
def test_clock_knows_microseconds(run: Any, cls: type[Any]) -> None:
    async def main() -> None:
        driver = cls()
        for _ in range(20):
            before = driver.now()
            end = time.perf_counter() + 50e-6
            while time.perf_counter() < end:
                pass
            assert driver.now() - before > 45e-6
        if cls is BlockingDriver:
            driver.close()

    run(main())


# Waiting.


def test_wait_returns_the_result(driver: BlockingDriver, pair: tuple[socket.socket, socket.socket]) -> None:
    a, b = pair
    request = new_request(driver)
    driver.add_reader(a.fileno(), lambda: request.complete(a.recv(10)))
    b.send(b"hello")
    assert driver.wait(request) == b"hello"
    assert driver.wait(request) == b"hello"


def test_wait_raises_the_error(driver: BlockingDriver) -> None:
    request = new_request(driver)
    driver.call_soon(request.fail, errors.ProcessFailedError("gone"))
    with pytest.raises(errors.ProcessFailedError, match="gone"):
        driver.wait(request)
    driver.finish(request)


def test_wait_for_what_is_complete_makes_no_turn(driver: BlockingDriver) -> None:
    request = new_request(driver)
    request.complete(1)
    driver.call_soon(pytest.fail, "a turn")
    assert driver.wait(request) == 1


def test_wait_until(driver: BlockingDriver) -> None:
    requests = [new_request(driver) for _ in range(3)]
    for request in requests:
        driver.call_later(0.001, request.complete)
    driver.wait_until(lambda: sum(request.done() for request in requests) >= 2, requests)
    driver.wait_until(lambda: all(request.done() for request in requests), requests)


@pytest.mark.parametrize("with_reader", [False, True])
@pytest.mark.parametrize("how", ["soon", "later", "reader"])
def test_wait_ends_whatever_completes_the_request(
    driver: BlockingDriver, pair: tuple[socket.socket, socket.socket], how: str, with_reader: bool
) -> None:
    a, b = pair
    request = new_request(driver)
    if with_reader:
        driver.add_reader(b.fileno(), lambda: None)
    if how == "soon":
        driver.call_soon(request.complete)
    elif how == "later":
        driver.call_later(0.001, request.complete)
    else:
        driver.add_reader(a.fileno(), request.complete)
        b.send(b"x")
    driver.finish(request)
    assert request.done()


def test_wait_sleeps(driver: BlockingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    request = new_request(driver)
    sleeps = calls(monkeypatch, driver._descriptors.epoll, "poll")
    driver.call_later(0.2, request.complete)
    driver.finish(request)
    assert len(sleeps) < 10


def test_what_a_signal_handler_completes_just_before_a_sleep(
    driver: BlockingDriver, pair: tuple[socket.socket, socket.socket]
) -> None:
    request = new_request(driver)

    class Interrupted:
        def poll(self, looks: range) -> bool:
            return False

        def stale(self) -> bool:
            return True

        def rest(self) -> bool:
            driver.check_thread()
            request.complete(1)
            return True

    driver.add_reader(pair[0].fileno(), lambda: None)
    driver.spin(1e-6)
    assert driver.start_polling(Interrupted())
    assert driver.wait(request) == 1


def test_wait_survives_a_signal(driver: BlockingDriver) -> None:
    request = new_request(driver)
    driver.call_later(0.05, request.complete)
    seen: list[int] = []
    previous = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    try:
        driver.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
        driver.finish(request)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert seen == [signal.SIGUSR1]


# What can never be complete.


def test_deadlock_is_an_error(driver: BlockingDriver) -> None:
    with pytest.raises(errors.LocalProtocolError, match="deadlock"):
        driver.wait(new_request(driver))


def test_synchronous_send_to_oneself_without_a_receive_is_a_deadlock_that_is_noticed(driver: BlockingDriver) -> None:
    w = LocalWorld(1, lambda: driver)
    with pytest.raises(errors.LocalProtocolError, match="deadlock"):
        driver.wait(isend(w.comms[0], b"x", 0, sync=True))
    with pytest.raises(errors.LocalProtocolError, match="deadlock"):
        driver.wait(irecv(w.comms[0], 0, 7))


def test_waiting_without_peers_is_a_deadlock(driver: BlockingDriver, pair: tuple[socket.socket, socket.socket]) -> None:
    driver.add_reader(pair[0].fileno(), lambda: None)
    driver.set_deadlock_check(lambda: True)
    request = new_request(driver)
    with pytest.raises(errors.LocalProtocolError, match="deadlock"):
        driver.wait(request)
    driver.poll()
    driver.set_deadlock_check(None)
    driver.call_later(0.001, request.complete)
    driver.finish(request)


def test_what_is_due_runs_before_the_verdict(driver: BlockingDriver) -> None:
    driver.set_deadlock_check(lambda: True)
    request = new_request(driver)
    driver.call_soon(request.complete)
    driver.finish(request)


# Callbacks and timers.


def test_callbacks_run_in_order_and_in_a_later_turn(driver: BlockingDriver) -> None:
    calls: list[str] = []

    def first() -> None:
        calls.append("first")
        driver.call_soon(calls.append, "third")

    driver.call_soon(first)
    driver.call_soon(calls.append, "second")
    assert calls == []
    driver.poll()
    assert calls == ["first", "second"]
    driver.poll()
    assert calls == ["first", "second", "third"]


def test_timers_run_in_order_of_time(driver: BlockingDriver) -> None:
    calls: list[str] = []
    start = time.monotonic()
    driver.call_later(0.003, lambda: calls.append("late"))
    driver.call_later(0.001, lambda: calls.append("early"))
    driver.call_later(0.0, lambda: calls.append("now"))
    driver.call_later(0.0, lambda: calls.append("then"))
    driver.call_later(60.0, lambda: calls.append("never"))
    driver.wait_until(lambda: len(calls) == 4, ())
    assert time.monotonic() - start >= 0.003
    assert calls == ["now", "then", "early", "late"]


def test_cancelled_timer_does_not_run(driver: BlockingDriver) -> None:
    calls: list[int] = []
    timers = [driver.call_later(0.0, lambda: calls.append(1)), driver.call_later(0.002, lambda: calls.append(2))]
    driver.call_later(0.003, lambda: calls.append(3))
    for timer in timers:
        timer.cancel()
        timer.cancel()
    driver.wait_until(lambda: bool(calls), ())
    assert calls == [3]


def test_cancelled_timers_do_not_prolong_waits(driver: BlockingDriver) -> None:
    for delay in (60.0, 70.0):
        driver.call_later(delay, lambda: None).cancel()
    with pytest.raises(errors.LocalProtocolError, match="deadlock"):
        driver.wait(new_request(driver))


def test_timer_wakes_a_wait_for_descriptors(driver: BlockingDriver, pair: tuple[socket.socket, socket.socket]) -> None:
    request = new_request(driver)
    driver.add_reader(pair[0].fileno(), lambda: pytest.fail("nothing was sent"))
    driver.call_later(0.002, request.complete)
    driver.finish(request)


def test_poll_does_not_wait(driver: BlockingDriver) -> None:
    driver.call_later(3600.0, lambda: pytest.fail("it waited"))
    driver.poll()


def test_what_a_callback_raises_comes_out_of_the_wait_and_the_rest_goes_on(driver: BlockingDriver) -> None:
    request = new_request(driver)

    def fail() -> None:
        raise ValueError("of the callback")

    driver.call_soon(fail)
    driver.call_soon(request.complete)
    with pytest.raises(ValueError, match="of the callback"):
        driver.finish(request)
    driver.finish(request)


# Descriptors.


def test_readers_and_writers_of_one_descriptor(
    driver: BlockingDriver, pair: tuple[socket.socket, socket.socket]
) -> None:
    a, b = pair
    calls: list[str] = []
    driver.add_reader(a.fileno(), lambda: calls.append("read " + a.recv(10).decode()))
    driver.add_writer(a.fileno(), lambda: calls.append("write"))
    driver.poll()
    assert calls == ["write"]
    b.send(b"x")
    driver.remove_writer(a.fileno())
    driver.poll()
    assert calls == ["write", "read x"]
    driver.add_writer(a.fileno(), lambda: calls.append("again"))
    driver.remove_reader(a.fileno())
    b.send(b"y")
    driver.poll()
    assert calls == ["write", "read x", "again"]
    driver.remove_writer(a.fileno())
    driver.poll()
    assert len(calls) == 3


def test_callback_is_replaced(driver: BlockingDriver, pair: tuple[socket.socket, socket.socket]) -> None:
    a, b = pair
    calls: list[str] = []
    driver.add_reader(a.fileno(), lambda: calls.append("old"))
    driver.add_reader(a.fileno(), lambda: calls.append("new"))
    b.send(b"x")
    driver.poll()
    assert calls == ["new"]


def test_removing_what_is_not_there(driver: BlockingDriver, pair: tuple[socket.socket, socket.socket]) -> None:
    driver.remove_reader(pair[0].fileno())
    driver.remove_writer(pair[0].fileno())


def test_callback_that_removes_another_of_the_same_turn(driver: BlockingDriver) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    calls: list[int] = []

    def remove_all(number: int) -> None:
        calls.append(number)
        for mine, _ in pairs:
            driver.remove_reader(mine.fileno())
            driver.remove_writer(mine.fileno())

    for number, (mine, other) in enumerate(pairs):
        driver.add_reader(mine.fileno(), lambda number=number: remove_all(number))
        driver.add_writer(mine.fileno(), lambda number=number: remove_all(number))
        other.send(b"x")
    driver.poll()
    driver.poll()
    assert len(calls) == 1
    for both in pairs:
        for sock in both:
            sock.close()


def test_end_of_file_wakes_readers_and_writers(
    driver: BlockingDriver, pair: tuple[socket.socket, socket.socket]
) -> None:
    a, b = pair
    calls: list[str] = []
    driver.add_reader(a.fileno(), lambda: calls.append("read"))
    driver.add_writer(a.fileno(), lambda: calls.append("write"))
    b.close()
    driver.poll()
    assert calls == ["read", "write"]


def test_descriptors_that_the_kernel_refuses_leave_nothing(driver: BlockingDriver, pair: Any, tmp_path: Any) -> None:
    """For example a file, which epoll refuses, and a closed end of a pipe."""
    (tmp_path / "file").write_bytes(b"")
    with open(tmp_path / "file", "rb") as file:
        with pytest.raises(PermissionError):
            driver.add_doorbell(file.fileno(), lambda: True, lambda: None)
        with pytest.raises(PermissionError):
            driver.add_reader(file.fileno(), lambda: None)
        with pytest.raises(PermissionError):
            driver.add_writer(file.fileno(), lambda: None)
        driver._descriptors.report_doorbells_again()
        driver.remove_reader(file.fileno())
        driver.remove_writer(file.fileno())


def test_a_callback_that_waits_while_others_are_due(driver: BlockingDriver) -> None:
    """Callbacks that are due run inside the wait, once."""
    calls: list[str] = []
    awaited = new_request(driver)
    driver.call_soon(driver.finish, awaited)
    driver.call_soon(lambda: (calls.append("due"), awaited.complete()))
    driver.poll()
    assert awaited.done()
    driver.poll()
    assert calls == ["due"]


# In an event loop.


def test_nothing_can_be_awaited(driver: BlockingDriver) -> None:
    async def wait() -> None:
        await new_request(driver)

    coroutine = wait()
    with pytest.raises(errors.BlockingCallError, match="Wait"):
        coroutine.send(None)


def test_blocking_calls_are_refused_inside_a_running_loop(run: Any) -> None:
    async def main() -> None:
        with pytest.raises(errors.BlockingCallError, match=r"Comm.Recv blocks.*`await comm.Recv\(\)`"):
            refuse_running_loop("Comm.Recv", "await comm.Recv()")
        await asyncio.to_thread(refuse_running_loop, "Comm.Recv", "await comm.Recv()")

    refuse_running_loop("Comm.Recv", "await comm.Recv()")
    run(main())
    refuse_running_loop("Comm.Recv", "await comm.Recv()")


def test_no_loop_runs_while_another_thread_imports_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncio.events", types.ModuleType("asyncio.events"))
    refuse_running_loop("comm.recv", "await comm.recv()")
