"""Error handlers of communicators in the native face: when they are asked, and what it costs while there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeAlias

import pytest

import aiompi
from aiompi import Intracomm, errors, hooks
from aiompi.comm.errhandler import ERRHANDLER_NULL, ERRORS_ARE_FATAL, ERRORS_RETURN, Errhandler
from aiompi.face.errhandlers import consult

#: handlers know nothing of event loops
pytestmark = pytest.mark.parametrize("run", ["asyncio"], indirect=True)
Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


class Calls(list[tuple[Any, int]]):
    """What an error handler has been called with."""

    def on(self, comm: Intracomm) -> Calls:
        """Be the error handler of a communicator."""
        comm.Set_errhandler(Intracomm.Create_errhandler(lambda comm, code: self.append((comm, code))))
        return self


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    """Calls are as cheap after each test as before it."""
    assert not hooks.active()
    yield
    if consult in hooks.active():
        hooks.remove(consult)


async def truncated(sender: Intracomm, receiver: Intracomm, start: Callable[[bytearray], Awaitable[Any]]) -> None:
    """Receive a message that is too long."""
    request = start(bytearray(2))
    await sender.Send(b"too long", receiver.rank)
    with pytest.raises(errors.TruncationError):
        await request


@pytest.mark.spec("S7.2-1", "S7.2-3", "S7.2-11")
def test_errors_are_raised_and_nothing_else_by_default(run: Run) -> None:
    """Which costs nothing: the classes are as they were defined. The job goes on."""

    async def main() -> None:
        a, b = aiompi.local_world(2)
        before = dict(vars(Intracomm))
        assert a.Get_errhandler() == ERRORS_RETURN
        a.Set_errhandler(ERRORS_RETURN)
        with pytest.raises(errors.InvalidRankError):
            a.isend("x", 2)
        await truncated(a, b, lambda buf: b.Recv(buf, 0))
        assert list(await asyncio.gather(a.allreduce(1), b.allreduce(2))) == [3, 3]
        assert dict(vars(Intracomm)) == before
        assert hooks.active() == ()

    run(main())


@pytest.mark.spec("S7.2-7")
def test_handler_gets_the_communicator_and_the_code(run: Run) -> None:
    """Once for each failing call, before it raises; also when the call itself is made of others."""

    async def main() -> None:
        comm = aiompi.local_world(2)[0]
        calls = Calls().on(comm)
        for call in (lambda: comm.isend("x", 2), lambda: comm.send("x", 2), lambda: comm.Isend(b"x", 2)):
            with pytest.raises(errors.InvalidRankError):
                call()
        with pytest.raises(errors.InvalidTagError):
            comm.recv(1, tag=-5)
        with pytest.raises(errors.InvalidRootError):
            comm.bcast("x", root=7)
        assert calls == [(comm, errors.ERR_RANK)] * 3 + [(comm, errors.ERR_TAG), (comm, errors.ERR_ROOT)]

    run(main())


@pytest.mark.spec("S2.7-4", "S7.2-7")
@pytest.mark.parametrize("form", ["Recv", "Irecv"])
def test_handler_is_asked_when_an_operation_fails_later(run: Run, form: str) -> None:
    async def main() -> None:
        a, b = aiompi.local_world(2)
        calls = Calls().on(b)
        await truncated(a, b, lambda buf: getattr(b, form)(buf, 0))
        assert calls == [(b, errors.ERR_TRUNCATE)]
        await a.Send(b"also too long", 1)
        request = getattr(b, form)(bytearray(2), 0)
        assert calls == [(b, errors.ERR_TRUNCATE)] * 2, "it has failed already"
        with pytest.raises(errors.TruncationError):
            await request
        received = getattr(b, form)(bytearray(2), 0)
        await a.Send(b"ok", 1)
        await received
        assert len(calls) == 2

    run(main())


def test_handler_is_asked_about_either_half_of_an_exchange(run: Run) -> None:
    async def main() -> None:
        a, b = aiompi.local_world(2)
        calls = Calls().on(b)
        await truncated(a, b, lambda buf: b.Sendrecv(b"x", 0, recvbuf=buf, source=0))
        assert calls == [(b, errors.ERR_TRUNCATE)]
        await a.recv()

    run(main())


def test_messages_can_still_be_put_back(run: Run) -> None:
    """A receive that is cancelled after it was matched loses no message, even if a callback has looked at it."""

    async def main() -> None:
        a, b = aiompi.local_world(2)
        calls = Calls().on(b)
        task = asyncio.ensure_future(b.recv(0))
        await asyncio.sleep(0)
        await a.send("message", 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await b.recv(0) == "message"
        assert calls == []

    run(main())


def test_cancelling_is_no_error(run: Run) -> None:
    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        calls = Calls().on(comm)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await comm.recv()
        request = comm.irecv()
        request.cancel()
        await request
        assert calls == []

    run(main())


@pytest.mark.spec("S7.2-4")
def test_handlers_belong_to_one_process_and_communicator(run: Run) -> None:
    async def main() -> None:
        a, b = aiompi.local_world(2)
        own = Intracomm(a._runtime, a._runtime.self_comm)
        calls, others = Calls().on(a), Calls().on(own)
        with pytest.raises(errors.InvalidRankError):
            b.isend("x", 2)
        with pytest.raises(errors.InvalidRankError):
            own.isend("x", 1)
        assert b.Get_errhandler() == ERRORS_RETURN
        assert (calls, others) == ([], [(own, errors.ERR_RANK)])

    run(main())


@pytest.mark.spec("S5.4.2-12", "S7.2-5")
def test_new_communicators_inherit_the_handler(run: Run) -> None:
    """As it is when they are made; later changes on either side do not matter to the other."""

    async def main() -> None:
        world = aiompi.local_world(2)
        calls = [Calls().on(comm) for comm in world]
        handler = world[0].Get_errhandler()
        constructors: list[Callable[[Any], Awaitable[Any]]] = [
            lambda comm: comm.Dup(),
            lambda comm: comm.Split(0, 0),
            lambda comm: comm.Create(comm.group),
            lambda comm: comm.Create_cart([2]),
        ]
        made = [list(await asyncio.gather(*(make(comm) for comm in world))) for make in constructors]
        for comm in world:
            comm.Set_errhandler(ERRORS_RETURN)
        for comms in made:
            assert comms[0].Get_errhandler() == handler
            with pytest.raises(errors.InvalidRankError):
                comms[0].isend("x", 2)
        assert calls == [[(comms[0], errors.ERR_RANK) for comms in made], []]

    run(main())


@pytest.mark.spec("S7.2-8")
def test_save_replace_restore(run: Run) -> None:
    """Example 7.1."""

    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        calls, library = Calls().on(comm), Calls()
        saved = comm.Get_errhandler()
        library.on(comm)
        with pytest.raises(errors.InvalidRankError):
            comm.isend("x", 1)
        comm.Set_errhandler(saved)
        assert comm.Get_errhandler() == saved
        with pytest.raises(errors.InvalidTagError):
            comm.isend("x", 0, tag=-1)
        assert (library, calls) == ([(comm, errors.ERR_RANK)], [(comm, errors.ERR_TAG)])

    run(main())


@pytest.mark.spec("S7.2-9")
def test_communicators_keep_handlers_that_were_freed(run: Run) -> None:
    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        calls = Calls()
        errhandler = Intracomm.Create_errhandler(lambda comm, code: calls.append((comm, code)))
        comm.Set_errhandler(errhandler)
        errhandler.Free()
        assert errhandler == ERRHANDLER_NULL
        with pytest.raises(errors.InvalidRankError):
            comm.isend("x", 1)
        assert calls == [(comm, errors.ERR_RANK)]
        for null in (errhandler, ERRHANDLER_NULL, Errhandler()):
            with pytest.raises(errors.InvalidErrhandlerError, match="null, or was freed"):
                comm.Set_errhandler(null)

    run(main())


def test_what_a_handler_raises_is_raised_instead(run: Run) -> None:
    async def main() -> None:
        a, b = aiompi.local_world(2)

        def translate(comm: Any, code: int) -> None:
            raise LookupError(f"translated {code}")

        b.Set_errhandler(Intracomm.Create_errhandler(translate))
        with pytest.raises(LookupError, match=f"translated {errors.ERR_RANK}"):
            b.isend("x", 2)
        request = b.Irecv(bytearray(1), 0)
        await a.Send(b"too long", 1)
        with pytest.raises(LookupError, match=f"translated {errors.ERR_TRUNCATE}"):
            await request

    run(main())


def test_handlers_are_not_asked_about_their_own_calls(run: Run) -> None:
    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        codes: list[int] = []

        def clumsy(comm: Any, code: int) -> None:
            codes.append(code)
            with pytest.raises(errors.InvalidTagError):
                comm.isend("x", 0, tag=-1)

        comm.Set_errhandler(Intracomm.Create_errhandler(clumsy))
        with pytest.raises(errors.InvalidRankError):
            comm.isend("x", 1)
        assert codes == [errors.ERR_RANK]

    run(main())


def test_handlers_are_asked_about_the_calls_of_hooks(run: Run) -> None:
    """Shifted names do the same as the others (section 8.1), which includes what happens when they fail."""

    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        calls = Calls().on(comm)
        with pytest.raises(errors.InvalidRankError):
            hooks.shifted(comm.isend)("x", 1)
        with hooks.added(lambda call: call()), pytest.raises(errors.InvalidTagError):
            comm.isend("x", 0, tag=-1)
        assert calls == [(comm, errors.ERR_RANK), (comm, errors.ERR_TAG)]

    run(main())


def test_calling_the_handler(run: Run) -> None:
    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        comm.Call_errhandler(errors.ERR_OTHER)
        calls = Calls().on(comm)
        code = errors.Add_error_code(errors.ERR_OTHER)
        comm.Call_errhandler(code)
        assert calls == [(comm, code)]

    run(main())


@pytest.mark.spec("S7.2-2")
def test_fatal_errors_abort(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """What failed is shown; in a process that no launcher started, the job ends with an exception."""

    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        comm.Set_errhandler(ERRORS_ARE_FATAL)
        with pytest.raises(errors.JobAbortedError, match=rf"rank 0 called MPI_Abort\({errors.ERR_RANK}\)"):
            comm.isend("x", 1)
        assert "InvalidRankError: MPI_COMM_WORLD, rank 0: destination 1" in capsys.readouterr().err
        with pytest.raises(errors.JobAbortedError):
            await comm.recv()

    run(main())
