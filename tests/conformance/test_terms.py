"""Chapter 2, terms and conventions: what holds for every call."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import numpy as np
import pytest

import aiompi
from aiompi import MPI, SUM
from support.jobs import Site, in_face

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.mark.spec("S2.2-1", "S4.9.1-6")
def test_in_arguments_stay_as_they_are(run: Run) -> None:
    async def main() -> None:
        world = aiompi.local_world(3)
        items, buffer = [[1], [2], [3]], np.arange(6)
        kept = copy.deepcopy(items), buffer.copy()
        everyone = [comm.scatter(items) for comm in world] + [comm.alltoall(items) for comm in world]
        everyone += [comm.reduce(items) for comm in world] + [comm.allreduce(items) for comm in world]
        everyone += [comm.Allreduce(buffer, np.empty_like(buffer)) for comm in world]
        everyone += [comm.Alltoall(buffer, np.empty_like(buffer)) for comm in world]
        await asyncio.gather(*everyone, world[0].send(items, dest=1), world[1].recv())
        assert (items, buffer.tolist()) == (kept[0], kept[1].tolist())

    run(main())


@pytest.mark.spec("S2.2-2")
@pytest.mark.parametrize("call", ["Allreduce", "Allgather", "Alltoall"])
def test_out_argument_must_not_alias_another(call: str) -> None:
    async def main() -> None:
        (comm,) = aiompi.local_world(1)
        memory = np.zeros(4)
        with pytest.raises(aiompi.InvalidBufferError, match="share memory"):
            getattr(comm, call)(memory, memory)

    asyncio.run(main())


@pytest.mark.spec("S2.2-3", "S4.1-4")
def test_meaningless_arguments_may_be_anything(run: Run) -> None:
    async def main() -> None:
        world = aiompi.local_world(2)
        out = np.zeros(2)
        for junk in (None, 7, "junk", object(), world):
            roots = [world[0].Gather(np.ones(1), out), world[0].Scatter(np.ones(2), np.empty(1)), world[0].bcast("x")]
            others = [world[1].Gather(np.ones(1), junk), world[1].Scatter(junk, np.empty(1)), world[1].bcast(junk)]
            await asyncio.gather(*roots, *others)
            await asyncio.gather(world[0].scatter(["a", "b"]), world[1].scatter(junk))  # type: ignore[arg-type]

    run(main())


#: Rank 0 makes every local call while rank 1 does nothing but read from a pipe.
LOCAL_CALLS = """
import os, sys
from aiompi import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    os.mkfifo(sys.argv[1])
comm.Barrier()
if comm.rank == 1:
    with open(sys.argv[1]) as file:
        file.read()
    print("nobody has waited for this rank", flush=True)
    comm.Abort(5)
large = bytes(300_000)
requests = [
    comm.Isend(b"x", 1), comm.Isend(large, 1), comm.Issend(b"x", 1), comm.isend("x", 1), comm.issend(large, 1),
    comm.Irecv(bytearray(9), 1), comm.irecv(source=1), comm.irecv(),
]
MPI.Request.Testall(requests), MPI.Request.Testany(requests[1:]), MPI.Request.Testsome(requests[-3:])
[request.Test() for request in requests if request]
comm.Iprobe(), comm.Get_rank(), comm.Get_size(), comm.Get_group(), comm.Get_name(), MPI.Wtime()
[request.Cancel() for request in requests if request]
with open(sys.argv[1], "w"):
    pass
comm.recv(source=1)
"""


@pytest.mark.spec("S2.3-1", "S2.3-3", "S3.7-1", "S3.7.3-9", "S3.8-2", "S3.8-11")
def test_local_calls_need_nobody_else(site: Site) -> None:
    """They return although the other rank is outside the library, and only after them it is let go on."""
    result = site.run(2, LOCAL_CALLS, str(site.directory / "gate"))
    assert (result.code, result.out) == (5, "nobody has waited for this rank\n")


@pytest.mark.spec("S2.3-4", "S4.1-1", "S4.3-1")
def test_collective_needs_everybody(run: Run) -> None:
    async def main() -> None:
        world = aiompi.local_world(3)
        for call in ("barrier", "allgather", "allreduce", "alltoall"):
            arguments = [] if call == "barrier" else [[1, 2, 3]]
            early = [getattr(comm, call)(*arguments) for comm in world[1:]]
            assert not any(request.done() for request in early)
            await asyncio.gather(getattr(world[0], call)(*arguments), *early)

    run(main())


@pytest.mark.spec("S2.4.1-5")
def test_null_handles_are_refused() -> None:
    async def main() -> None:
        (comm,) = aiompi.local_world(1)
        with pytest.raises(MPI.InvalidOpError):
            comm.allreduce(1, op=MPI.OP_NULL)
        with pytest.raises(MPI.InvalidTypeError):
            comm.Isend([b"x", MPI.DATATYPE_NULL], dest=0)
        for call in (MPI.REQUEST_NULL.Cancel, MPI.REQUEST_NULL.Free):
            with pytest.raises(MPI.InvalidRequestError):
                call()

    asyncio.run(main())


@pytest.mark.spec("S2.4.1-7")
def test_communicators_and_requests_stay_in_their_process() -> None:
    """Predefined ones of the blocking face travel by name, and become the receiver's own."""

    async def main() -> None:
        (comm,) = aiompi.local_world(1)
        receive = comm.irecv()
        for thing in (comm, receive, MPI.Request._denote(receive)):
            with pytest.raises((TypeError, ValueError)):
                pickle.dumps(thing)
            with pytest.raises(MPI.InvalidTypeError, match="cannot send an object of type"):
                comm.isend([thing], dest=0)

    asyncio.run(main())
    for comm in (MPI.COMM_WORLD, MPI.COMM_SELF):
        assert pickle.loads(pickle.dumps(comm)) is comm
    assert not MPI.Is_initialized()


@pytest.mark.spec("S2.5-1")
def test_indices_count_from_zero_and_flags_are_truth_values() -> None:
    (comm,) = aiompi.local_world(1)
    done = [comm.isend(number, dest=0) for number in range(2)]
    assert MPI.Request.Waitany([MPI.Request._denote(request) for request in done]) == 0
    assert MPI.Request.Waitsome([MPI.REQUEST_NULL, MPI.Request._denote(done[1])]) == [1]
    assert MPI.Request.Testall([MPI.Request._denote(done[0])]) is True


@pytest.mark.spec("S2.6-1", "S2.6-2", "S2.8.1-1")
def test_different_programs_in_one_job(site: Site) -> None:
    """Some do their own input and output, some print nothing; the ranks count through all of them."""
    talk = "print(await comm.gather(('FACE', comm.rank, comm.size)), flush=True)\n"
    programs = [
        site.program(in_face("native", talk.replace("FACE", "native")), "native.py"),
        site.program(in_face("blocking", talk.replace("FACE", "blocking")), "blocking.py"),
        site.program(in_face("native", "open(__file__).close()\nawait comm.gather('silent')\n"), "silent.py"),
    ]
    native, blocking, silent = programs
    job = site.launch("-n", "2", native, ":", "-n", "1", blocking, ":", "-n", "1", silent)
    result = job.finish()
    everybody = "[('native', 0, 4), ('native', 1, 4), ('blocking', 2, 4), 'silent']"
    assert (result.code, result.err, result.lines) == (0, "", ["None", "None", everybody])


@pytest.mark.spec("S2.6-3")
def test_only_the_awaiting_task_waits(run: Run) -> None:
    async def main() -> None:
        world = aiompi.local_world(2)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while not waiting.done():
                turns += 1
                if turns == 100:
                    world[1].isend("enough", dest=0)
                await asyncio.sleep(0)

        waiting = asyncio.ensure_future(_receive(world[0]))
        await others()
        assert await waiting == "enough"
        assert turns >= 100

    run(main())


async def _receive(comm: aiompi.Intracomm) -> Any:
    return await comm.recv()


@pytest.mark.spec("S2.7-1", "S3.2.2-4", "S3.3.1-4", "S3.3.2-4")
def test_bytes_arrive_as_they_are(run: Run) -> None:
    """Whatever the variables are, and however long the message is."""

    async def main() -> None:
        world = aiompi.local_world(2)
        for nbytes in (0, 1, 255, 65_535, 65_536, 65_537, 10**6):
            data = np.resize(np.arange(256, dtype="u1"), nbytes)
            numbers = np.zeros(nbytes, "i1")
            await asyncio.gather(world[0].Send([data, MPI.BYTE], dest=1), world[1].Recv([numbers, MPI.BYTE], source=0))
            _, obj = await asyncio.gather(world[0].send(data.tobytes(), dest=1), world[1].recv(source=0))
            assert numbers.tobytes() == data.tobytes() == obj

    run(main())


@pytest.mark.spec("S2.8.2-1", "S3.2.4-1")
def test_signals_do_not_disturb(site: Site) -> None:
    """A receive goes on after a signal handler has returned; one whose handler raises has taken no message."""
    program = """
import os, pathlib, signal
from aiompi import MPI

comm = MPI.COMM_WORLD
caught = []

def asleep(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "S"

def kill(pid, signum):
    while not asleep(pid):
        pass
    os.kill(pid, signum)

class Alarm(Exception):
    pass

def alarm(signum, frame):
    raise Alarm

if comm.rank == 0:
    signal.signal(signal.SIGUSR1, lambda signum, frame: caught.append(signum))
    signal.signal(signal.SIGALRM, alarm)
    comm.send(os.getpid(), dest=1)
    print(comm.recv(source=1), caught == [signal.SIGUSR1])
    try:
        comm.send(None, dest=1)
        comm.recv(source=1)
    except Alarm:
        comm.send(None, dest=1)
        print(comm.recv(source=1))
else:
    pid = comm.recv(source=0)
    kill(pid, signal.SIGUSR1)
    comm.send("after the signal", dest=0)
    comm.recv(source=0)
    kill(pid, signal.SIGALRM)
    comm.recv(source=0)
    comm.send("not lost", dest=0)
"""
    assert site.ok(2, program).out == "after the signal True\nnot lost\n"


@pytest.mark.spec("S2.7-3", "S7.2-11")
def test_errors_can_be_caught_and_survived(run: Run) -> None:
    """They are exceptions with the class of the standard, and what was not touched by them still works."""

    async def main() -> None:
        world = aiompi.local_world(2)
        with pytest.raises(aiompi.MPIError) as caught:
            world[0].isend("x", dest=9)
        assert caught.value.error_class == MPI.ERR_RANK
        assert re.search(r"destination 9 .* 0\.\.1", caught.value.error_string)
        with pytest.raises(aiompi.TruncationError):
            await asyncio.gather(world[0].Send(b"xx", dest=1), world[1].Recv(bytearray(1)))
        assert await asyncio.gather(*(comm.allreduce(1, SUM) for comm in world)) == [2, 2]

    run(main())
