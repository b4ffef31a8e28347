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
from aiompi.engine import AwaitableCall
from support.cases import cases

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


@cases("name", FORGOTTEN)
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
        assert isinstance(operation, AwaitableCall)
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


def _results(kind: type) -> dict[str, str]:
    calls = [(name, value) for name, value in inspect.getmembers(kind, inspect.isroutine) if name[0].isupper()]
    return {name: str(inspect.signature(value).return_annotation).partition("[")[0] for name, value in calls}


def test_calls_of_files_warn_unless_they_are_made_to_be_kept() -> None:
    results = _results(aiompi.File)
    assert {name for name, result in results.items() if result == "Request"} == {
        name for name in results if name.startswith("I")
    }
    owned = {name for name, result in results.items() if result == "AwaitableCall"}
    assert {"Open", "Close", "Read_at", "Write_all", "Read_ordered_end", "Sync", "Seek"} <= owned


def test_calls_of_windows_warn_unless_the_end_of_the_epoch_completes_them() -> None:
    results = _results(aiompi.Win)
    assert {name for name, result in results.items() if result == "Request"} == {
        "Put", "Get", "Accumulate", "Get_accumulate", "Fetch_and_op", "Compare_and_swap",
    }  # fmt: skip
    assert {name for name, result in results.items() if result == "AwaitableCall"} == {
        "Allocate", "Allocate_shared", "Complete", "Create", "Create_dynamic", "Fence", "Flush", "Flush_all",
        "Flush_local", "Flush_local_all", "Free", "Lock", "Lock_all", "Start", "Unlock", "Unlock_all", "Wait",
    }  # fmt: skip


def test_a_forgotten_lock_names_the_window_and_is_taken_all_the_same() -> None:
    async def main() -> None:
        (comm,) = aiompi.local_world(1)
        win = await aiompi.Win.Allocate(8, comm=comm)
        with pytest.warns(RuntimeWarning, match=rf"^Lock on a window of {comm.Get_name()} was never awaited") as told:
            win.Lock(0)
        assert told[0].filename == __file__
        with pytest.warns(RuntimeWarning, match=r"^Flush on .* was never awaited"):
            win.Flush(0)
        await win.Unlock(0)
        with pytest.warns(RuntimeWarning, match=r"^Win\.Create_dynamic on .* was never awaited"):
            aiompi.Win.Create_dynamic(comm=comm)
        await win.Free()

    asyncio.run(main())
