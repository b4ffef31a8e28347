"""Calls whose await was forgotten: each warns at its line, in words that say which call it is."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import aiompi
from aiompi.engine import Owned

#: call -> the words for it; all of them need no other rank to end
FORGOTTEN: dict[str, tuple[str, Callable[[aiompi.Intracomm], Any]]] = {
    "send": ("send to 0, tag 3, on {}", lambda comm: comm.send("x", 0, 3)),
    "Send": ("send to 0, tag 0, on {}", lambda comm: comm.Send(b"x", 0)),
    "recv": ("recv from 0, tag 4, on {}", lambda comm: comm.recv(0, 4)),
    "Recv": ("recv from any source, any tag, on {}", lambda comm: comm.Recv(bytearray(4))),
    "probe": ("probe of 0, tag 5, on {}", lambda comm: comm.probe(0, 5)),
    "barrier": ("Barrier on {}", lambda comm: comm.barrier()),
    "Barrier": ("Barrier on {}", lambda comm: comm.Barrier()),
    "bcast": ("bcast on {}", lambda comm: comm.bcast("x")),
    "Split": ("Split on {}", lambda comm: comm.Split(0)),
    "Dup": ("Dup on {}", lambda comm: comm.Dup()),
    "Create_cart": ("Create_cart on {}", lambda comm: comm.Create_cart([1])),
    "Create_from_group": ("Create_from_group", lambda comm: aiompi.Intracomm.Create_from_group(comm.group)),
    "Accept": ("Accept on {}", lambda comm: comm.Accept("no port")),
    "Agree": ("Agree on {}", lambda comm: comm.Agree(1)),
    "Allreduce": ("Allreduce on {}", lambda comm: comm.Allreduce(bytearray(4), bytearray(4), op=aiompi.MPI.BOR)),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_forgotten_await_warns_at_the_line_of_the_call(name: str) -> None:
    words, call = FORGOTTEN[name]

    def forget(comm: aiompi.Intracomm) -> None:
        call(comm)

    async def main() -> None:
        (comm,) = aiompi.local_world(1)
        with pytest.warns(RuntimeWarning) as told:
            forget(comm)
        (one,) = told
        assert str(one.message).startswith(words.format(comm.Get_name()) + " was never awaited")
        assert (one.filename, one.lineno) == (__file__, forget.__code__.co_firstlineno + 1)
        operation = call(comm)
        assert isinstance(operation, Owned)
        assert repr(operation).startswith(f"<{words.format(comm.Get_name())}: ")
        with pytest.warns(RuntimeWarning):
            del operation

    asyncio.run(main())


def test_a_forgotten_await_that_is_kept_for_a_while_shows_its_call_in_debug_mode() -> None:
    async def main() -> None:
        (comm,) = aiompi.local_world(1)
        here = inspect.currentframe()
        assert here is not None
        line, call = here.f_lineno, comm.barrier()
        with pytest.warns(RuntimeWarning, match=r"Barrier on .* was never awaited.*\nThe call was made at\n.*") as told:
            del call
        assert (told[0].filename, told[0].lineno) == (__file__, line)

    asyncio.run(main(), debug=True)


def test_what_is_made_to_be_kept_does_not_warn() -> None:
    async def main() -> None:
        (comm,) = aiompi.local_world(1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            comm.isend("x", 0)
            comm.irecv(0)
            comm.Ibarrier()
            comm.ibcast("x")
            comm.Idup()
            comm.Iagree(1)
            task = asyncio.create_task(comm.barrier())
            await task
            done = comm.allreduce(1)
            assert done.result() == 1  # its outcome has been taken
            del done
            gc.collect()

    asyncio.run(main())


def test_an_await_of_a_collective_that_is_cancelled_leaves_it_running() -> None:
    async def main() -> None:
        first, second = aiompi.local_world(2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first.barrier(), 0.01)
        await asyncio.gather(second.barrier())  # the first rank has come to it
        both = [comm.allreduce(1) for comm in (first, second)]
        assert [str(one).partition(" on ")[0] for one in both] == ["<allreduce", "<allreduce"]
        assert await asyncio.gather(*both) == [2, 2]
        with pytest.raises(RuntimeError, match=r"allreduce on .* has been awaited already"):
            await both[0]

    asyncio.run(main())


def test_calls_of_files_warn_unless_they_are_made_to_be_kept() -> None:
    calls = [(name, value) for name, value in inspect.getmembers(aiompi.File, inspect.isroutine) if name[0].isupper()]
    results = {name: str(inspect.signature(value).return_annotation) for name, value in calls}
    kept = {name for name, result in results.items() if result.startswith("Request[")}
    owned = {name for name, result in results.items() if result.startswith("Owned[")}
    assert kept == {name for name in results if name.startswith("I")}
    assert {"Open", "Close", "Read_at", "Write_all", "Read_ordered_end", "Sync", "Seek"} <= owned
