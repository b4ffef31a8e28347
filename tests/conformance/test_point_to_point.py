"""Chapter 3, point-to-point communication: rules that concern several calls, or several ranks, at a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import numpy as np
import pytest

import aiompi
from aiompi import MPI, PROC_NULL, Intracomm
from aiompi.driver.threads import NO_THREAD
from support.jobs import Site, in_face
from support.limits import LIMIT

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
Check: TypeAlias = Callable[[Intracomm, Intracomm], Coroutine[Any, Any, None]]

LARGE = bytes(300_000)  # more than is sent without asking the receiver


def between_two(check: Check) -> Callable[[Run], None]:
    """Make a test out of a coroutine that gets the two ranks of a local world."""

    def test(run: Run) -> None:
        async def main() -> None:
            first, second = aiompi.local_world(2)
            async with asyncio.timeout(LIMIT):
                await check(first, second)

        run(main())

    test.__doc__ = check.__doc__
    test.pytestmark = getattr(check, "pytestmark", [])  # type: ignore[attr-defined]
    return test


@between_two
@pytest.mark.spec("S3.2.3-5")
async def test_destinations(first: Intracomm, second: Intracomm) -> None:
    """All ranks of the group, oneself too, and nobody."""
    for comm in (first, second):
        for dest in (0, 1, PROC_NULL):
            comm.isend(comm.rank, dest)
    for comm in (first, second):
        assert sorted([await comm.recv(), await comm.recv()]) == [0, 1]
        assert comm.iprobe() is None


@between_two
@pytest.mark.spec("S3.3.1-2", "S3.3.1-6", "S3.3.2-1", "S3.3.2-2")
async def test_types(first: Intracomm, second: Intracomm) -> None:
    """The same type at both ends brings the values; another one of the same length brings the bits, unconverted."""
    values = {"i2": [-2, 300], "u8": [2**63, 1], "f4": [0.1, -0.0], "c16": [1 + 2j, 0j], "?": [True, False]}
    for dtype, items in values.items():
        sent, received = np.array(items, dtype), np.zeros(3, dtype)
        await asyncio.gather(first.Send(sent, dest=1), second.Recv(received))
        assert received.tobytes() == sent.tobytes() + bytes(sent.itemsize)
    text = bytearray(b"hello, world")
    await asyncio.gather(first.Send([b"HELLO", MPI.CHAR], dest=1), second.Recv([memoryview(text)[7:], MPI.CHAR]))
    assert text == b"hello, HELLO"
    bits = np.zeros(1, "f4")
    await asyncio.gather(first.Send(np.array([1], "i4"), dest=1), second.Recv(bits))
    assert bits.view("i4").tolist() == [1]


@between_two
@pytest.mark.spec("S3.4-1", "S3.4-2", "S3.7-2", "S3.7-3")
async def test_modes(first: Intracomm, second: Intracomm) -> None:
    """The one receive matches each of them, nonblocking or not; the send may start before it or after it."""
    first.Attach_buffer(None)
    modes = [first.send, first.bsend, first.ssend, first.isend, first.ibsend, first.issend]
    for send, receive, early in itertools.product(modes, (second.recv, second.irecv), (True, False)):
        if early:
            sent, received = send("x", dest=1), receive()
        else:
            received = receive()
            sent = send("x", dest=1)
        assert list(await asyncio.gather(sent, received)) == [None, "x"]


@between_two
@pytest.mark.spec("S3.4-7", "S3.4-10", "S3.4-11")
async def test_rendezvous(first: Intracomm, second: Intracomm) -> None:
    """A synchronous send and a receive end after both have been called; the receive perhaps sooner than the send."""
    for obj in ("small", LARGE):
        send = first.issend(obj, dest=1)
        await asyncio.sleep(0)
        assert not send.done()
        receive = second.irecv()
        await send
        assert await receive == obj
        receive = second.irecv()
        await asyncio.sleep(0)
        assert not receive.done()
        await asyncio.gather(first.ssend(obj, dest=1), receive)


@between_two
@pytest.mark.spec("S3.5-13")
async def test_exchange_without_deadlock(first: Intracomm, second: Intracomm) -> None:
    """Example 3.7, in synchronous mode and with messages that are not buffered."""

    async def lead() -> Any:
        await first.ssend(LARGE, dest=1)
        return await first.recv(source=1)

    async def follow() -> Any:
        received = await second.recv(source=0)
        await second.ssend("back", dest=0)
        return received

    assert list(await asyncio.gather(lead(), follow())) == ["back", LARGE]


@between_two
@pytest.mark.spec("S3.5-14")
async def test_exchange_with_deadlock(first: Intracomm, second: Intracomm) -> None:
    """Example 3.8 deadlocks, whatever the mode; after the timeout nothing of it is left."""

    async def exchange(comm: Intracomm) -> None:
        await comm.recv(source=1 - comm.rank)
        await comm.send("never", dest=1 - comm.rank)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.gather(exchange(first), exchange(second))
    assert list(await asyncio.gather(first.send("next", dest=1), second.recv())) == [None, "next"]


@between_two
@pytest.mark.spec("S3.7.1-1", "S3.7.2-1")
async def test_every_start_gives_a_request_of_its_own(first: Intracomm, second: Intracomm) -> None:
    """Also for equal operations, which it keeps apart."""
    receives = [second.irecv(source=0, tag=1) for _ in range(3)]
    assert len(set(map(id, receives))) == len(set(receives)) == 3
    for number in range(3):
        await first.send(number, dest=1, tag=1)
    assert await asyncio.gather(*receives) == [0, 1, 2]


@pytest.mark.spec("S3.7.4-5")
@pytest.mark.parametrize("face", ["native", "blocking"])
def test_receiver_that_waits_for_something_else(site: Site, face: str) -> None:
    """Example 3.14: a synchronous send to a posted receive ends although its receiver is blocked in another one."""
    body = """
    if comm.rank == 0:
        await comm.ssend("a" * int(sys.argv[1]), dest=1, tag=0)
        await comm.send("b", dest=1, tag=1)
    else:
        posted = comm.irecv(source=0, tag=0)
        second = await comm.recv(source=0, tag=1)
        first = await POSTED
        print(len(first), second)
    """
    text = in_face(face, body.replace("POSTED", "posted" if face == "native" else "posted.wait()"))
    assert site.ok(2, text, "300000").out == "300000 b\n"


# All ways of completing agree.


class States:
    """Requests of the blocking face by state: Null, Inactive, Done, Failed, Pending; small letters: persistent."""

    def __init__(self) -> None:
        self._comm = aiompi.local_world(1)[0]
        self._tag = 0

    def make(self, state: str) -> MPI.Request[Any]:
        self._tag += 1
        if state == "N":
            return MPI.Request()
        memory = bytearray(1 if state in "Ff" else 2)
        receive = self._receive(memory, state in "Idfp")
        if isinstance(receive, MPI.Prequest) and state != "I":
            receive.Start()
        if state in "DFdf":
            self._comm.Isend(b"xx", dest=0, tag=self._tag)
        assert is_active(receive) == (state != "I")
        return receive

    def _receive(self, memory: bytearray, persistent: bool) -> MPI.Request[Any]:
        if persistent:
            return MPI.Prequest._denote(self._comm.Recv_init(memory, source=0, tag=self._tag))
        return MPI.Request._denote(self._comm.Irecv(memory, source=0, tag=self._tag))


def is_active(request: MPI.Request[Any]) -> bool:
    """Return True if a completion call has something to complete (section 3.7.3)."""
    return request._active is not None


def outcome(call: Callable[..., Any], requests: list[MPI.Request[Any]], several: bool) -> Any:
    """What a call gives, and what it does to requests and statuses."""
    statuses: list[MPI.Status] = []
    status = MPI.Status.of(7, 8, 9)
    try:
        result = call(requests, statuses if several else status)
    except aiompi.MPIError as error:
        result = type(error)
    left = [is_active(request) for request in requests]
    return result, left, [(s.source, s.nbytes, s.error) for s in (statuses if several else [status])]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> NoDriver:
    """That of the process, which is not initialised."""
    driver = NoDriver()
    monkeypatch.setattr("aiompi.face.blocking.requests.process.driver", driver)
    return driver


LISTS = [states for length in range(3) for states in itertools.product("NIDFdf", repeat=length)]
LISTS += itertools.product("NDF", repeat=3)


@pytest.mark.usefixtures("driver")
@pytest.mark.spec("S3.7.3-1", "S3.7.5-3", "S3.7.5-12", "S3.7.5-17", "S3.7.5-20", "S3.7.5-23", "S3.9-6", "S3.9-7")
def test_tests_are_waits_that_do_not_block() -> None:
    """When none is pending, each Test gives what its Wait gives, and true; and one request is as several."""
    for states in LISTS:
        check_tests_and_waits(states)


def check_tests_and_waits(states: tuple[str, ...]) -> None:
    make = States().make

    def both(name: str, several: bool) -> tuple[Any, Any]:
        wait, test = (getattr(MPI.Request, way + name) for way in ("Wait", "Test"))
        return outcome(wait, [make(s) for s in states], several), outcome(test, [make(s) for s in states], several)

    waited, tested = both("all", several=True)
    assert tested == waited
    result, left, statuses = waited
    verify_all(result, left, statuses, states)
    waited, tested = both("some", several=True)
    assert tested == waited
    (index, *waited), (tested_index, *tested) = both("any", several=False)
    assert tested == waited
    assert tested_index == (index if isinstance(index, type) else (index, True))
    if len(states) == 1:
        for way in ("Wait", "Test"):
            result, *alone = outcome(lambda requests, status: getattr(requests[0], way)(status), [make(*states)], False)
            assert result is (aiompi.TruncationError if states[0] in "Ff" else True)
            assert alone == waited


def verify_all(result: Any, left: list[bool], statuses: list[tuple[int, int, int]], states: tuple[str, ...]) -> None:
    """What Waitall says about requests in these states."""
    assert result is (MPI.InStatusError if {"F", "f"} & {*states} else True)
    assert not any(left)
    assert [error for _, _, error in statuses] == [ERRORS[state] for state in states]
    assert [source for source, _, _ in statuses] == [aiompi.ANY_SOURCE if state in "NI" else 0 for state in states]


#: state -> what is in the status, when some request has failed
ERRORS = dict.fromkeys("NIDd", MPI.SUCCESS) | dict.fromkeys("Ff", MPI.ERR_TRUNCATE)
ERRORS |= dict.fromkeys("Pp", MPI.ERR_PENDING)


@pytest.mark.usefixtures("driver")
@pytest.mark.spec("S3.9-6", "S2.4.1-4")
@pytest.mark.parametrize("states", [("D",), ("F",), ("d",), ("f",), ("I",)], ids="".join)
@pytest.mark.parametrize("name", ["Wait", "Test", "Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome"])
def test_completion_frees_what_is_not_persistent(states: tuple[str], name: str) -> None:
    """A persistent request stays, and can be started; nothing else changes a handle."""
    request = States().make(*states)
    persistent = isinstance(request, MPI.Prequest)
    for _ in range(2):
        assert request.Get_status()
        assert request
    with contextlib.suppress(aiompi.TruncationError, MPI.InStatusError):
        getattr(request, name)() if name in ("Wait", "Test") else getattr(MPI.Request, name)([request])
    assert bool(request) == (request != MPI.REQUEST_NULL) == persistent
    assert request.Get_status(status := MPI.Status.of(7, 8, 9))
    assert status == MPI.Status()
    if isinstance(request, MPI.Prequest):
        request.Start()
        request.Cancel()
        assert request.Test(status)
        assert status.Is_cancelled()


PENDING = [s for s in itertools.product("NDP", repeat=3) if "P" in s]
PENDING += [s for s in itertools.product("Idp", repeat=2) if "p" in s]


@pytest.mark.spec("S3.7.3-9", "S3.7.5-6", "S3.7.5-13", "S3.7.5-16", "S3.7.5-20", "S3.9-7")
def test_tests_of_what_is_pending(driver: NoDriver) -> None:
    """They are true when their Wait would return, and otherwise change nothing."""
    for states in PENDING:
        driver.polls = 0
        check_pending(states)
        assert driver.polls > 0


def check_pending(states: tuple[str, ...]) -> None:
    make = States().make
    requests = [make(state) for state in states]
    assert outcome(MPI.Request.Testall, requests, True)[:2] == (False, [state not in "NI" for state in states])
    done = [index for index, state in enumerate(states) if state in "Dd"]
    for index in done:
        assert outcome(MPI.Request.Testany, requests, False)[0] == (index, True)
    assert outcome(MPI.Request.Testany, requests, False)[0] == (MPI.UNDEFINED, False)
    requests = [make(state) for state in states]
    assert outcome(MPI.Request.Testsome, requests, True)[0] == done
    assert outcome(MPI.Request.Testsome, requests, True)[0] == []
    assert [is_active(request) for request in requests] == [state in "Pp" for state in states]
    assert [request.Test() for request in requests] == [state not in "Pp" for state in states]


FAILING = [s for s in itertools.product("NDdFfPp", repeat=3) if {"F", "f"} & {*s} and {"P", "p"} & {*s}]


@pytest.mark.usefixtures("driver")
@pytest.mark.spec("S3.7.5-12", "S3.7.5-17", "S3.7.5-20")
def test_failure_is_told_while_others_are_pending() -> None:
    """By waits and tests alike; those that are pending stay as they are."""
    for states in FAILING:
        check_failing(states)


def check_failing(states: tuple[str, ...]) -> None:
    make = States().make
    for name in ("Waitall", "Testall"):
        result, left, statuses = outcome(getattr(MPI.Request, name), [make(state) for state in states], True)
        assert result is MPI.InStatusError
        assert left == [state in "Pp" for state in states]
        assert [error for _, _, error in statuses] == [ERRORS[state] for state in states]
    for name in ("Waitsome", "Testsome"):
        result, left, statuses = outcome(getattr(MPI.Request, name), [make(state) for state in states], True)
        assert result is MPI.InStatusError
        assert left == [state in "Pp" for state in states]
        assert [error for _, _, error in statuses] == [ERRORS[state] for state in states if state in "DdFf"]


@pytest.mark.usefixtures("driver")
@pytest.mark.spec("S3.7.5-21")
@pytest.mark.parametrize("state", "DFPdfp")
@pytest.mark.parametrize("name", ["Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome"])
def test_active_request_must_not_be_listed_twice(state: str, name: str) -> None:
    request = States().make(state)
    with pytest.raises(MPI.InvalidRequestError, match="listed twice"):
        getattr(MPI.Request, name)([request, MPI.REQUEST_NULL, request])
    assert is_active(request)


class NoDriver:
    """Stands in for the driver of a process that has not been initialised: nothing new ever arrives.

    Attributes:
        polls: how often it was asked.
    """

    owner = NO_THREAD

    def __init__(self) -> None:
        self.polls = 0

    def poll(self) -> None:
        self.polls += 1

    def finish(self, request: Any) -> None:
        assert request.done()
