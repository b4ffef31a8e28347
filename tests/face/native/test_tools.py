"""What tools that look at tasks see of operations: names, states, stacks."""

from __future__ import annotations

import asyncio
import inspect
import io
from collections.abc import Callable
from typing import Any

import pytest

import aiompi

MEMORY = bytearray(8)

#: name -> a call that starts an operation which does not complete, and whose result is a coroutine for asyncio
CALLS: dict[str, Callable[[aiompi.Intracomm], Any]] = {
    "Comm.recv": lambda comm: comm.recv(0, 1),
    "Comm.Recv": lambda comm: comm.Recv(MEMORY, 0, 1),
    "Comm.ssend": lambda comm: comm.ssend("x", 0, 2),
    "Comm.Ssend": lambda comm: comm.Ssend(bytes(8), 0, 2),
    "Comm.send": lambda comm: comm.send("x", 0, 2),
    "Comm.bsend": lambda comm: comm.bsend("x", 0, 2),
    "Comm.Send": lambda comm: comm.Send(bytes(8), 0, 2),
    "Comm.Bsend": lambda comm: comm.Bsend(bytes(8), 0, 2),
    "Comm.sendrecv": lambda comm: comm.sendrecv("x", 0, 2, 0, 1),
    "Comm.Sendrecv": lambda comm: comm.Sendrecv(bytes(8), 0, 2, MEMORY, 0, 1),
    "Comm.Sendrecv_replace": lambda comm: comm.Sendrecv_replace(MEMORY, 0, 2, 0, 1),
    "Comm.probe": lambda comm: comm.probe(0, 1),
    "Comm.mprobe": lambda comm: comm.mprobe(0, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_tasks_show_the_name_and_the_stack_of_an_operation(name: str) -> None:
    async def main() -> None:
        worlds = aiompi.local_world(2)
        worlds[1].Attach_buffer(bytearray(10_000))
        operation = CALLS[name](worlds[1])
        assert operation.__name__ == name
        assert inspect.getcoroutinestate(operation) == inspect.CORO_CREATED
        task = asyncio.create_task(operation)
        assert f"coro=<{name}() running at" in repr(task)
        if name.rpartition(".")[2] in {"send", "Send", "bsend", "Bsend"}:
            await task
            assert f"coro=<{name}() done, defined at" in repr(task)
            return
        await asyncio.sleep(0)
        assert f"coro=<{name}() running at" in repr(task)
        assert inspect.getcoroutinestate(operation) == inspect.CORO_SUSPENDED
        assert [frame.f_code.co_name for frame in task.get_stack()] == ["_wait"]
        text = io.StringIO()
        task.print_stack(file=text)
        assert "in _wait" in text.getvalue()
        assert operation.cr_await is not None
        assert operation.cr_origin is None
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert inspect.getcoroutinestate(operation) == inspect.CORO_CLOSED
        assert task.get_stack() == []
        with pytest.raises(AttributeError, match="has no attribute 'cr_nothing'"):
            operation.cr_nothing  # noqa: B018

    asyncio.run(main(), debug=True)


@pytest.mark.parametrize("end", ["close", "throw", "drop"])
def test_an_operation_that_was_looked_at_is_withdrawn_as_any(end: str) -> None:
    async def main() -> None:
        comm, other = aiompi.local_world(2)
        receive = other.recv(0)
        assert receive.cr_frame is not None  # type: ignore[attr-defined]
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
            other.irecv(0, 1), other.isend("x", 0), other.Barrier(), other.bcast("x"), other.Dup(), other.Split(0),
            other.Recv_init(MEMORY, 0), other.Barrier_init(), other.allreduce(1),
        ]  # fmt: skip
        for request in requests:
            assert isinstance(request.__name__, str)
            assert request.__name__
            with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
                request.nothing  # noqa: B018

    asyncio.run(main())
