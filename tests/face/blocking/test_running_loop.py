"""Blocking calls inside a running event loop are refused and name what to await, or block it if a setting says so."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

import aiompi
from aiompi import MPI, BlockingCallError
from support.cases import cases
from support.jobs import Site

#: what never waits: nonblocking operations, and what has nothing to wait for
LOCAL: Final = re.compile(r"[iI]\w+|\w+_init|Get_\w+|Attach_buffer|Abort|free")
BLOCKING: Final = sorted(
    name
    for cls in MPI.Intracomm.__mro__
    if cls.__module__.startswith("aiompi.face.blocking")  # what both faces share never waits
    for name, value in vars(cls).items()
    if inspect.isfunction(value) and "/base/" not in value.__code__.co_filename  # a public class may have copies of it
    if name[0] != "_" and not LOCAL.fullmatch(name) and not hasattr(value, "is_absent")
)


def call_with_nothing(function: Any) -> None:
    """Call with None for everything that must be given."""
    parameters = inspect.signature(function).parameters.values()
    function(*[None for parameter in parameters if parameter.default is parameter.empty])


def test_blocking_calls_in_a_running_loop() -> None:
    """Each raises at once, without an initialisation, and names an awaitable of the native face."""

    async def main() -> None:
        for name in BLOCKING:
            with pytest.raises(BlockingCallError) as caught:
                call_with_nothing(getattr(MPI.COMM_WORLD, name))
            message = str(caught.value)
            assert name.lower() in message.lower()
            (awaitable,) = re.findall(r"use `await comm\.(\w+)\(.*\)`", message)
            assert callable(getattr(aiompi.Intracomm, awaitable))
            assert awaitable.lower() == name.lower()
            assert message.endswith("; with AIOMPI_RUNNING_LOOP=block the call blocks the loop")

    assert BLOCKING
    asyncio.run(main())
    assert not MPI.Is_initialized()


@pytest.mark.parametrize("name", ["Recv", "recv"])
def test_receiving_a_message_in_a_running_loop(name: str) -> None:
    async def main() -> None:
        with pytest.raises(BlockingCallError, match=rf"use `await message\.{name}\("):
            call_with_nothing(getattr(MPI.MESSAGE_NO_PROC, name))
        assert callable(getattr(aiompi.Message, name))
        with pytest.raises(BlockingCallError, match=r"use `await comm\.mprobe\("):
            MPI.Message.Probe(MPI.COMM_WORLD)

    asyncio.run(main())
    assert not MPI.Is_initialized()


@pytest.mark.parametrize("name", ["Detach_buffer", "Flush_buffer"])
def test_waiting_for_buffered_messages_in_a_running_loop(name: str) -> None:
    async def main() -> None:
        with pytest.raises(BlockingCallError, match=rf"use `await comm\.{name}\(\)`"):
            getattr(MPI, name)()

    asyncio.run(main())
    assert not MPI.Is_initialized()


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", [f"{case}ait{many}" for case in "Ww" for many in ("", "all", "any", "some")])
def test_waiting_in_a_running_loop(name: str, persistent: bool) -> None:
    """Also when other requests are complete; it is not refused when there is nothing to wait for."""

    async def main() -> None:
        comm = aiompi.local_world(1)[0]
        receive = comm.Recv_init(bytearray(1)) if persistent else comm.Irecv(bytearray(1))
        pending = (MPI.Prequest if persistent else MPI.Request)._denote(receive)
        several = functools.partial(getattr(MPI.Request, name), [MPI.REQUEST_NULL, pending])
        wait: Callable[[], Any] = getattr(pending, name) if name.lower() == "wait" else several
        if isinstance(pending, MPI.Prequest):
            wait()
            pending.Start()
        with pytest.raises(BlockingCallError, match="use `await"):
            wait()
        pending.Cancel()
        wait()

    asyncio.run(main())


@cases("call", [MPI.Init, MPI.Finalize, MPI.COMM_WORLD.Get_rank, MPI.COMM_WORLD.Isend])
def test_first_use_in_a_running_loop(call: Any) -> None:
    async def main() -> None:
        with pytest.raises(BlockingCallError, match=r"`async with aiompi\.init\(\) as world`"):
            call(*[b""] * (call.__name__ == "Isend"), *[0] * (call.__name__ == "Isend"))

    asyncio.run(main())
    assert not MPI.Is_initialized()


CALLS: Final = """
import asyncio, sys
if {early}:
    {imports}

async def main():
    {imports}
    comm = MPI.COMM_WORLD
    peer = comm.Split(0).rank ^ 1
    print(comm.bcast(comm.rank + 5, root=1), comm.sendrecv(comm.rank, peer))
    request = comm.irecv(source=peer)
    comm.isend("late", peer).wait()
    print(MPI.Request.waitall([request]), comm.allgather(comm.rank))
    MPI.Finalize()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("options", "level", "early"),
    [
        ("--mpi4py", "multiple", True),
        ("-x AIOMPI_RUNNING_LOOP=block", "funneled", False),
    ],
)
def test_blocking_the_loop_instead(site: Site, options: str, level: str, early: bool) -> None:
    """Every kind of call, the start and the end; one RuntimeWarning that names the line of the program."""
    imports = f"from {'mpi4py' if options == '--mpi4py' else 'aiompi'} import MPI"
    program = site.program(CALLS.format(imports=imports, early=early))
    levels = ("-x", f"AIOMPI_THREAD_LEVEL={level}", "-x", f"MPI4PY_RC_THREAD_LEVEL={level}")
    job = site.launch(*options.split(), "-n", "2", *levels, program).finish()
    assert (job.code, job.lines) == (0, sorted(["6 0", "6 1", "['late'] [0, 1]", "['late'] [0, 1]"])), job
    assert job.err.count("RuntimeWarning") == 2
    assert len(re.findall(rf"{re.escape(program)}:\d+: RuntimeWarning: .* use `a(wait|sync)", job.err)) == 2, job.err


@pytest.mark.parametrize("options", ["-x AIOMPI_RUNNING_LOOP=error --mpi4py", ""])
def test_the_setting_for_programs_of_mpi4py(site: Site, options: str) -> None:
    imports = f"from {'mpi4py' if options else 'aiompi'} import MPI"
    job = site.launch(*options.split(), "-n", "1", site.program(CALLS.format(imports=imports, early=True))).finish()
    assert job.code == 1
    assert "BlockingCallError" in job.err
