"""What tools that look at tasks see of operations: names, states, stacks."""

from __future__ import annotations

import asyncio
import inspect
import io
import linecache
from collections.abc import Callable
from typing import Any

import pytest

import aiompi

MEMORY = bytearray(8)

#: method -> words for what a call of it does, and the call; it does not complete, unless a send may leave at once
CALLS: dict[str, tuple[str, Callable[[aiompi.Intracomm], Any]]] = {
    "recv": ("recv from 0, tag 1, on {}", lambda comm: comm.recv(0, 1)),
    "Recv": ("recv from any source, any tag, on {}", lambda comm: comm.Recv(MEMORY)),
    "ssend": ("ssend to 0, tag 2, on {}", lambda comm: comm.ssend("x", 0, 2)),
    "Ssend": ("ssend to 0, tag 2, on {}", lambda comm: comm.Ssend(bytes(8), 0, 2)),
    "send": ("send to 0, tag 2, on {}", lambda comm: comm.send("x", 0, 2)),
    "bsend": ("bsend to 0, tag 2, on {}", lambda comm: comm.bsend("x", 0, 2)),
    "Send": ("send to 0, tag 2, on {}", lambda comm: comm.Send(bytes(8), 0, 2)),
    "Bsend": ("bsend to 0, tag 2, on {}", lambda comm: comm.Bsend(bytes(8), 0, 2)),
    "sendrecv": ("sendrecv (recv from 0, tag 1, on {})", lambda comm: comm.sendrecv("x", 0, 2, 0, 1)),
    "Sendrecv": ("sendrecv (recv from 0, tag 1, on {})", lambda comm: comm.Sendrecv(bytes(8), 0, 2, MEMORY, 0, 1)),
    "Sendrecv_replace": (
        "sendrecv (recv from 0, tag 1, on {})",
        lambda comm: comm.Sendrecv_replace(MEMORY, 0, 2, 0, 1),
    ),
    "probe": ("probe of 0, tag 1, on {}", lambda comm: comm.probe(0, 1)),
    "mprobe": ("mprobe of 0, any tag, on {}", lambda comm: comm.mprobe(0)),
}


@pytest.mark.parametrize("method", CALLS)
def test_tasks_show_the_words_and_the_stack_of_an_operation(method: str) -> None:
    async def main() -> None:
        worlds = aiompi.local_world(2)
        worlds[1].Attach_buffer(bytearray(10_000))
        words, call = CALLS[method]
        operation, name = call(worlds[1]), words.format(worlds[1].Get_name())
        leaves = method.lower() in {"send", "bsend"}
        assert operation.__name__ == name
        assert repr(operation) == f"<{name}: {'done' if leaves else 'pending'}>"
        assert inspect.getcoroutinestate(operation) == inspect.CORO_CREATED
        (file, line, function), *_ = operation.cr_origin
        assert (file, function) == (__file__, "<lambda>")
        assert "lambda comm: " in linecache.getline(file, line)
        task = asyncio.create_task(operation)
        assert f"coro=<{name}() running at" in repr(task)
        if leaves:
            await task
            assert f"coro=<{name}() done, defined at" in repr(task)
            assert inspect.getcoroutinestate(operation) == inspect.CORO_CLOSED
            return
        await asyncio.sleep(0)
        assert f"coro=<{name}() running at" in repr(task)
        assert inspect.getcoroutinestate(operation) == inspect.CORO_SUSPENDED
        assert [frame.f_code.co_name for frame in task.get_stack()] == ["waiting"]
        text = io.StringIO()
        task.print_stack(file=text)
        assert "in waiting" in text.getvalue()
        assert name in text.getvalue()
        assert operation.cr_await is not None
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert repr(operation) == f"<{name}: cancelled>"
        assert inspect.getcoroutinestate(operation) == inspect.CORO_CLOSED
        assert task.get_stack() == []
        with pytest.raises(AttributeError, match="has no attribute 'cr_nothing'"):
            operation.cr_nothing  # noqa: B018

    asyncio.run(main(), debug=True)


def test_an_await_shows_the_operation() -> None:
    """Tools that follow `cr_await` from a coroutine come to the operation."""

    async def receive(comm: aiompi.Intracomm) -> None:
        await comm.recv(0, 7)

    async def main() -> None:
        _, other = aiompi.local_world(2)
        coroutine = receive(other)
        task = asyncio.create_task(coroutine)
        await asyncio.sleep(0)
        assert repr(coroutine.cr_await) == f"<recv from 0, tag 7, on {other.Get_name()}: pending>"
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())


@pytest.mark.parametrize("end", ["close", "throw", "drop"])
def test_an_operation_that_was_looked_at_is_withdrawn_as_any(end: str) -> None:
    async def main() -> None:
        comm, other = aiompi.local_world(2)
        receive = other.recv(0)
        assert receive.cr_frame is not None
        if end == "close":
            receive.close()
        elif end == "throw":
            with pytest.raises(KeyError):
                receive.throw(KeyError("mine"))
        else:
            task = asyncio.create_task(receive)
            repr(task)
            task.cancel()
            await asyncio.wait([task])
        await asyncio.gather(comm.send("x", 1), other.recv())

    asyncio.run(main())


def test_requests_have_names() -> None:
    async def main() -> None:
        _, other = aiompi.local_world(2)
        requests = [
            other.irecv(0, 1), other.isend("x", 0), other.Ibarrier(), other.ibcast("x"), other.Idup(),
            other.Recv_init(MEMORY, 0), other.Barrier_init(), other.iallreduce(1),
        ]  # fmt: skip
        for request in requests:
            assert isinstance(request.__name__, str)
            assert request.__name__
            with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
                request.nothing  # noqa: B018

    asyncio.run(main())
