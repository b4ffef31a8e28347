"""The drivers of programs with several threads: progress, sleep, and what ends them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiompi.driver.epoll import WaitingThread
from aiompi.driver.thread import SerialDriver, ThreadDriver
from aiompi.engine import Driver, Engine, Request
from aiompi.errors import LocalProtocolError
from aiompi.settings import Settings
from support.interrupts import Late, interrupted
from support.limits import LIMIT
from support.pollers import Asked, calls


@pytest.fixture
def driver() -> Iterator[ThreadDriver]:
    driver = ThreadDriver()
    driver.start()
    yield driver
    driver.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def request_of(driver: Driver) -> Request[Any]:
    return Request(Engine(0, 1, Settings(), driver))


def test_it_is_a_driver(driver: ThreadDriver) -> None:
    assert isinstance(driver, ThreadDriver)
    seam: Driver = driver
    assert seam.background


def test_callbacks_run_while_no_thread_waits(driver: ThreadDriver) -> None:
    """The background thread runs them, whichever thread has scheduled them."""
    reported: list[tuple[str, str]] = []
    both, (reading, writing) = threading.Barrier(2), os.pipe()

    def note(what: str) -> None:
        reported.append((what, threading.current_thread().name))
        if len(reported) == 3:
            both.wait()

    def readable() -> None:
        driver.remove_reader(reading)
        note("reader")

    with driver.exclusive("test"):
        driver.add_reader(reading, readable)
        driver.call_soon(note, "soon")
        driver.call_later(0.01, lambda: note("later"))
        os.write(writing, b"x")
    both.wait()
    assert sorted(reported) == [(what, "aiompi-progress") for what in ("later", "reader", "soon")]
    os.close(reading)
    os.close(writing)


def test_waiting_threads_wake_when_their_requests_are_complete(driver: ThreadDriver) -> None:
    """The requests are completed by progress, by another thread, or before the wait."""
    requests = [request_of(driver) for _ in range(4)]
    requests[0].complete("before")
    results: list[Any] = []

    def wait_for_both() -> None:
        driver.wait_until(lambda: requests[1].done() and requests[2].done(), requests[1:3])
        results.append([request.result() for request in requests[1:3]])

    threads = [threading.Thread(target=wait_for_both)]
    threads += [threading.Thread(target=lambda: results.append(driver.wait(requests[3]))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert driver.wait(requests[0]) == "before"
    with driver.exclusive("test"):
        driver.call_soon(requests[1].complete, 1)
        requests[3].complete(3)
    assert driver.wait(requests[1]) == 1
    with driver.exclusive("test"):
        requests[2].complete(2)
    for thread in threads:
        thread.join()
    assert sorted(results, key=str) == [3, 3, 3, [1, 2]]


def test_threads_that_wait_make_progress_one_after_the_other(pipe: tuple[int, int]) -> None:
    """The leader serves all threads. When its request is complete another leads, without an additional thread."""
    driver = ThreadDriver()
    requests = {number: request_of(driver) for number in range(1, 7)}
    served: dict[int, int] = {}
    reading, writing = pipe

    def readable() -> None:
        for number in os.read(reading, 1):
            served[number] = threading.get_ident()
            requests[number].complete(number)

    driver.add_reader(reading, readable)
    threads = {number: threading.Thread(target=driver.wait, args=(requests[number],)) for number in requests}
    for thread in threads.values():
        thread.start()
    for number in (4, 1, 6, 2, 3, 5):
        os.write(writing, bytes((number,)))
        threads[number].join()
    assert set(served.values()) <= {thread.ident for thread in threads.values()}
    assert served[5] == threads[5].ident
    driver.close()


def test_a_thread_that_leads_is_woken_by_others(driver: ThreadDriver) -> None:
    """Its own request, timers and scheduled callbacks end the sleep."""
    request, waiting = request_of(driver), threading.Event()
    names: list[str] = []

    def wait() -> None:
        with driver.exclusive("test"):
            driver.call_soon(waiting.set)
            driver.wait(request)

    thread = threading.Thread(target=wait, name="leader")
    thread.start()
    waiting.wait()
    done = [threading.Event() for _ in range(2)]

    def note(event: threading.Event) -> None:
        names.append(threading.current_thread().name)
        event.set()

    driver.call_soon(note, done[0])
    done[0].wait()
    driver.call_later(0.001, lambda: note(done[1]))
    done[1].wait()
    assert names == ["leader", "leader"]
    with driver.exclusive("test"):
        request.complete()
    thread.join()


def test_progress_goes_on_when_the_thread_that_leads_fails(pipe: tuple[int, int]) -> None:
    """This holds whatever ends its wait, here an exception of a callback."""
    driver = ThreadDriver()
    first, second, leading = request_of(driver), request_of(driver), threading.Event()
    errors: list[BaseException] = []
    reading, writing = pipe

    def readable() -> None:
        os.read(reading, 1)
        driver.call_soon(second.complete, 2)
        raise ArithmeticError

    def fail() -> None:
        try:
            with driver.exclusive("test"):
                driver.call_soon(leading.set)
                driver.wait(first)
        except ArithmeticError as error:
            errors.append(error)

    driver.add_reader(reading, readable)
    thread = threading.Thread(target=fail)
    thread.start()
    leading.wait()
    with driver.exclusive("test"):
        driver.call_soon(os.write, writing, b"x")
        assert driver.wait(second) == 2
    thread.join()
    assert len(errors) == 1
    driver.close()


def test_it_sleeps_while_nothing_happens(driver: ThreadDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both the thread that waits and the one in the background do."""
    request = request_of(driver)
    sleeps, naps = (
        calls(monkeypatch, driver._descriptors.epoll, "poll"),
        calls(monkeypatch, driver._background, "_next"),
    )
    driver.call_later(0.3, request.complete)
    driver.wait(request)
    assert len(sleeps) < 10
    assert len(naps) < 10


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads the process has, beside those of pytest: the one of the test, and that of the driver."""
    threads = [2]
    monkeypatch.setattr("threading.active_count", lambda: threads[0])
    return threads


def test_the_only_thread_of_a_program_polls_before_it_sleeps(
    driver: ThreadDriver, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a message of a rank on the same machine takes no time to wake up."""
    driver.spin(LIMIT)
    request = request_of(driver)
    poller = Asked(*99 * [False], True, then=lambda count: request.complete() if count == 100 else None)
    sleeps = calls(monkeypatch, driver._descriptors.epoll, "_sleep")
    with driver.exclusive("test"):
        assert driver.start_polling(poller)
        driver.wait(request)
    assert poller.asked >= 100
    assert not sleeps


def test_a_program_with_other_threads_does_not_poll(driver: ThreadDriver, threads: list[int]) -> None:
    """The lock that a spin holds would delay their calls. What is polled already rests once there are others."""
    driver.spin(LIMIT)
    request = request_of(driver)
    poller, late = Asked(), Asked()
    with driver.exclusive("test"):
        assert driver.start_polling(poller)
        threads[0] += 1
        assert not driver.start_polling(late)
        driver.call_soon(request.complete)
        driver.wait(request)
    assert poller.resting
    assert late.asked == 0


def test_it_does_not_sleep_while_one_that_is_polled_does_not_rest(
    driver: ThreadDriver, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not ring."""
    driver.spin(LIMIT)
    request = request_of(driver)
    poller = Asked()
    poller.restless, poller.at_rest = 1, request.complete
    with driver.exclusive("test"):
        assert driver.start_polling(poller)
        sleeps = calls(monkeypatch, driver._descriptors.epoll, "_sleep")
        threads[0] += 1
        driver.wait(request)
    assert len(sleeps) <= 1  # that which finds the request complete


def test_what_is_polled_rests_while_no_thread_waits(driver: ThreadDriver, threads: list[int]) -> None:
    """Then it rings for the background thread."""
    driver.spin(LIMIT)
    resting = threading.Event()
    poller = Asked()
    poller.at_rest = resting.set
    with driver.exclusive("test"):
        assert driver.start_polling(poller)
        driver.poll()
    assert resting.wait(LIMIT)


def test_waiting_in_a_callback(driver: ThreadDriver) -> None:
    """A user function that progress has called makes a call, inside which progress continues."""
    inner, outer = request_of(driver), request_of(driver)

    def callback() -> None:
        driver.call_soon(inner.complete, "inner")
        outer.complete(driver.wait(inner))

    with driver.exclusive("test"):
        driver.call_soon(callback)
    assert driver.wait(outer) == "inner"


def test_failed_progress_is_reported() -> None:
    """An exception in a callback must be reported, because it ends all progress."""
    reported: list[BaseException] = []
    done = threading.Event()

    def failed(error: BaseException) -> None:
        reported.append(error)
        done.set()

    def broken() -> None:
        raise ArithmeticError

    driver = ThreadDriver(failed)
    driver.start()
    with driver.exclusive("test"):
        driver.call_soon(broken)
    done.wait()
    assert [type(error) for error in reported] == [ArithmeticError]
    driver.close()


def test_stopping_ends_the_thread_and_waiting_goes_on_without(driver: ThreadDriver) -> None:
    driver.stop()
    assert "aiompi-progress" not in {thread.name for thread in threading.enumerate()}
    request = request_of(driver)
    driver.call_later(0.001, lambda: request.complete("later"))
    assert driver.wait(request) == "later"


@pytest.mark.parametrize("kind", [SerialDriver, ThreadDriver])
def test_only_calls_are_admitted(kind: Callable[[], SerialDriver | ThreadDriver]) -> None:
    driver = kind()
    with pytest.raises(LocalProtocolError, match="look it up again"):
        driver.check_thread()
    with driver.exclusive("a"), driver.exclusive("b"):
        driver.check_thread()
    with pytest.raises(LocalProtocolError, match="look it up again"):
        driver.check_thread()
    driver.close()


def test_an_abort_does_not_wait_for_ever(driver: ThreadDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may hold the lock in a user function that does not end."""
    monkeypatch.setattr("aiompi.driver.thread._ABORT_TIMEOUT", 0.001)
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with driver.exclusive("long"):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    with driver.exclusive_to_abort():
        leave.set()
    thread.join()
    with driver.exclusive_to_abort():
        driver.check_thread()


def test_what_a_signal_handler_completes_just_before_a_thread_sleeps(
    driver: ThreadDriver, pipe: tuple[int, int]
) -> None:
    """A thread waits while another thread works for it."""
    theirs, ours = request_of(driver), request_of(driver)
    driver.add_reader(pipe[0], lambda: None)
    leader = threading.Thread(target=driver.wait, args=(theirs,))
    leader.start()
    while driver._leader != leader.ident:
        time.sleep(0.001)

    def interrupted() -> bool:
        if threading.current_thread() is threading.main_thread():
            ours.complete(1)
        return False

    driver.set_deadlock_check(interrupted)
    assert driver.wait(ours) == 1
    with driver.exclusive("test"):
        theirs.complete()
    leader.join()


def test_a_signal_handler_that_raises_as_a_thread_begins_to_sleep(driver: ThreadDriver) -> None:
    waiter, lock = WaitingThread(driver, lambda: False), threading.RLock()
    with lock, lock:
        with pytest.raises(Late), interrupted(lambda: not lock._is_owned()):  # type: ignore[attr-defined]
            waiter.sleep(lock)
        assert lock._is_owned()  # type: ignore[attr-defined]
        assert not waiter.asleep
    assert not lock._is_owned()  # type: ignore[attr-defined]
