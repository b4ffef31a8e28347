"""Shared memory between real processes: no torn data, no lost wake-ups, and nothing left when they are killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import Final

import pytest

from support.jobs import FACES, Site, in_face

#: Both ranks send and receive at once, at a pace that changes: each comes to wait for frames and for room, and leaves
#: off waiting, at every moment of the other. Each message carries its number and a checksum.
STRESS = """
    import random, struct, time, zlib
    CHECK = struct.Struct("<QI")
    other, chance = 1 - comm.rank, random.Random(comm.rank)
    source = memoryview(chance.randbytes(2**20))

    def message(number):
        nbytes = chance.choice((0, 8, 8, 8, 100, 3000, 20_000, 65_000, 70_000, 300_000))
        at = chance.randrange(2**20 - nbytes)
        body = source[at : at + nbytes]
        return CHECK.pack(number, zlib.crc32(body)) + bytes(body)

    def pause():
        until = time.perf_counter() + chance.choice((0, 0, 0, 2e-6, 1e-5, 3e-5, 1e-4))
        while time.perf_counter() < until:
            pass

    memory = [bytearray(400_000) for _ in range(4)]
    requests, sends = [], []
    for number in range(COUNT):
        requests.append(comm.Irecv(memory[number % 4], source=other))
        sends.append(comm.Isend(message(number), dest=other))
        pause()
        if len(requests) == 4:
            length = (await ENVELOPE(requests.pop(0))).Get_count(aiompi.MPI.BYTE)
            await END(sends.pop(0))
            pause()
            body = memoryview(memory[(number - 3) % 4])[CHECK.size : length]
            assert CHECK.unpack_from(memory[(number - 3) % 4]) == (number - 3, zlib.crc32(body)), number
    for request in requests + sends:
        await END(request)
"""

#: Every rank broadcasts in turn, the others read at a pace of their own, so that blocks are given back late and out of
#: turn, and messages come before they are asked for.
MULTICAST = """
    import random, time, zlib
    import numpy as np
    chance, common = random.Random(comm.rank), random.Random(7)
    source = np.frombuffer(random.Random(0).randbytes(2**22), "B")
    for number in range(COUNT):
        root, nbytes = common.randrange(comm.size), common.choice((100, 20_000, 70_000, 400_000, 1_500_000))
        at = common.randrange(2**22 - nbytes)
        expected = source[at : at + nbytes]
        if chance.random() < 0.1:
            time.sleep(chance.choice((1e-4, 2e-3)))
        if common.random() < 0.5:
            got = await comm.bcast(expected if comm.rank == root else None, root=root)
        else:
            got = expected.copy() if comm.rank == root else np.zeros(nbytes, "B")
            await comm.Bcast(got, root=root)
        assert zlib.crc32(got) == zlib.crc32(expected), number
"""

#: Messages in memory of Alloc_mem, which is used for the next one as soon as a send is complete.
ALLOCATED = """
    import random
    import numpy as np
    other, alike = 1 - comm.rank, random.Random(0)
    sources = [np.frombuffer(random.Random(rank).randbytes(2**21), "B") for rank in range(2)]
    memory = [np.frombuffer(ALLOCATE(2**20), "B") for _ in range(2)]
    into = np.zeros(2**20, "B")
    sends = []
    for number in range(COUNT):
        if len(sends) == 2:
            await END(sends.pop(0))
        nbytes, at = alike.choice((10, 70_000, 300_000, 2**20)), alike.randrange(2**20)
        out = memory[number % 2][:nbytes]
        out[:] = sources[comm.rank][at : at + nbytes]
        sends.append(comm.Isend(out, dest=other))
        await END(comm.Irecv(into, source=other))
        assert (into[:nbytes] == sources[other][at : at + nbytes]).all(), number
    for send in sends:
        await END(send)
"""

#: Messages that are copied from process to process, from both ends, also in several pieces; memory is used for the next
#: one at once. Each rank has copied bytes from the other process or to it.
EXPOSED = """
    import gc, random
    import numpy as np
    other, alike = 1 - comm.rank, random.Random(0)
    sources = [np.frombuffer(random.Random(rank).randbytes(2**24), "B") for rank in range(2)]
    memory, into = np.zeros(12 * 2**20, "B"), np.zeros(12 * 2**20, "B")
    for number in range(COUNT):
        nbytes, at = alike.randrange(3 * 2**20, 12 * 2**20), alike.randrange(2**22)
        memory[:nbytes] = sources[comm.rank][at : at + nbytes]
        into[:] = 0
        received = comm.Irecv(into, source=other)
        await comm.Send(memory[:nbytes], dest=other)
        memory[:] = 0
        await END(received)
        assert (into[:nbytes] == sources[other][at : at + nbytes]).all(), number
        assert not into[nbytes:].any(), number
        memory[:nbytes] = sources[comm.rank][at : at + nbytes]
        cut = alike.randrange(nbytes)
        sent = comm.isend([memory[:cut], number, memory[cut:nbytes]], dest=other)
        got = await comm.recv(source=other)
        await END(sent)
        memory[:] = 0
        assert got[1] == number
        assert (np.concatenate(got[::2]) == sources[other][at : at + nbytes]).all(), number
    links = [each for each in gc.get_objects() if type(each).__name__ == "RingLink" and each._ring is not None]
    assert any(link._ring.process.copied for link in links)
"""

#: Long messages to a receive that is posted already, which both ends copy; the memory of each is used at once again.
HALVES = """
    import random, time
    import numpy as np
    other, alike, chance = 1 - comm.rank, random.Random(0), random.Random(comm.rank)
    sources = [np.frombuffer(random.Random(rank).randbytes(2**22), "B") for rank in range(2)]
    memory, into = np.zeros(2**21, "B"), np.zeros(2**21, "B")

    def pause():
        until = time.perf_counter() + chance.choice((0, 0, 2e-5, 5e-5, 2e-4))
        while time.perf_counter() < until:
            pass

    for number in range(COUNT):
        nbytes, at = alike.choice((500_000, 600_000, 2**20, 2**21)), alike.randrange(2**21)
        for sender in range(2):
            if comm.rank == sender:
                memory[:nbytes] = sources[comm.rank][at : at + nbytes]
                pause()
                await comm.Send(memory[:nbytes], dest=other)
                memory[:] = 0
            else:
                into[:] = 0
                received = comm.Irecv(into, source=other)
                pause()
                await END(received)
                assert (into[:nbytes] == sources[other][at : at + nbytes]).all(), number
                assert not into[nbytes:].any(), number
"""

#: Arrays that are kept for a while, changed by their receiver, and left to messages that come later.
KEEP = """
    import random, zlib
    import numpy as np
    rank, size = comm.rank, comm.size
    chance, source = random.Random(rank), np.frombuffer(random.Random(rank).randbytes(2**21), np.uint8)
    kept, seen = [], 0
    for turn in range(COUNT):
        nbytes = chance.choice([1000, 100_000, 131_072, 400_000, 1_000_000])
        array = source[chance.randrange(2**20) :][:nbytes]
        pending = comm.isend((zlib.crc32(array), array), dest=(rank + 1) % size)
        check, array = await comm.recv(source=(rank - 1) % size)
        await END(pending)
        assert zlib.crc32(array) == check, turn
        if chance.random() < 0.3:
            array[::4096] = turn % 256
            kept.append((zlib.crc32(array), array))
        while len(kept) > chance.randrange(1, 60):
            check, array = kept.pop(chance.randrange(len(kept)))
            assert zlib.crc32(array) == check, turn
            seen += 1
    assert all(zlib.crc32(array) == check for check, array in kept)
    assert seen > 20
"""

#: One of the arrays that are kept goes to the copy of a fork, which changes it.
FORK = """
    import multiprocessing
    import numpy as np

    def change(array, result):
        same = (array == 1).all()
        array[:] = 9
        result.put(bool(same and (array == 9).all()))

    kept = []
    for i in range(COUNT):
        if comm.rank == 0:
            await comm.send({"array": np.full(400_000, i, np.uint8)}, dest=1)
            continue
        array = (await comm.recv(source=0))["array"]
        assert (array == i).all()
        if i == 1:
            context = multiprocessing.get_context("fork")
            result = context.Queue()
            child = context.Process(target=change, args=(array, result))
            child.start()
            assert result.get()
            child.join()
            assert (array == 1).all()
        if i % 3 == 1:
            kept.append(array)
        if i % 17 == 16:
            kept.clear()
        assert all((one == one[0]).all() for one in kept)
"""

#: Messages that come late.
WAIT_LONG = """
    import time
    warm = [await comm.Sendrecv(bytes(8), 1 - comm.rank, recvbuf=bytearray(8), source=1 - comm.rank) for _ in range(99)]
    taken = []
    for turn in range(COUNT):
        if comm.rank == 0:
            time.sleep(0.3)
            await comm.Send(bytes(8), dest=1)
        else:
            before = time.process_time()
            await comm.Recv(bytearray(8), source=0)
            taken.append(time.process_time() - before)
    assert comm.rank == 0 or min(taken) < 0.01, taken  # a virtual machine counts its own pauses as well
"""

#: In each step each rank could miss the rank that comes last.
MEET = """
    import numpy
    total = numpy.zeros(1, "i8")
    for step in range(COUNT):
        await comm.Barrier()
        await comm.Allreduce(numpy.array([step + comm.rank]), total)
        assert total[0] == comm.size * step + comm.size * (comm.size - 1) // 2, (step, total)
"""

#: Vectors that all ranks read from each other's memory, at a pace of their own, so that blocks are used again while
#: others still read, and messages and short collectives come in between.
COMBINE = """
    import random, time
    import numpy
    chance, common = random.Random(comm.rank), random.Random(7)
    into = numpy.zeros(300_000, "i8")
    for number in range(COUNT):
        count = common.choice((1, 3000, 40_000, 300_000))
        vector = numpy.arange(number + comm.rank, number + comm.rank + count)
        if chance.random() < 0.1:
            time.sleep(chance.choice((1e-4, 2e-3)))
        await comm.Allreduce(vector, into[:count])
        expected = comm.size * numpy.arange(number, number + count) + comm.size * (comm.size - 1) // 2
        assert (into[:count] == expected).all(), number
        if common.random() < 0.3:
            await comm.Barrier()
        if common.random() < 0.3:
            whole = numpy.zeros((comm.size, 3000), "i8")
            await comm.Allgather(numpy.full(3000, number + comm.rank), whole)
            assert (whole == number + numpy.arange(comm.size)[:, None]).all(), number
        if common.random() < 0.3:
            assert await comm.bcast(number, root=number % comm.size) == number
"""


#: how a face waits for a request, and how for one whose status it wants
WAIT = {
    "native": {"ALLOCATE": "comm.Alloc_mem", "ENVELOPE": "", "END": ""},
    "blocking": {
        "ALLOCATE": "MPI.Alloc_mem",
        "ENVELOPE": "(lambda request, status=MPI.Status(): request.Wait(status) and status)",
        "END": "MPI.Request.Wait",
    },
}


def hold(site: Site, size: int, face: str, parts: list[tuple[str, int]], env: dict[str, str]) -> None:
    """Run parts of a program one after the other, each with its count; each fails if it finds what is not right."""
    text = "".join(
        f"{part.replace('COUNT', str(count))}    print('held', {nth}, flush=True)\n"
        for nth, (part, count) in enumerate(parts)
    )
    for name, code in WAIT[face].items():
        text = text.replace(f"{name}(", f"{code}(")
    # ten thousands of wake-ups, each of which a busy machine delays
    result = site.ok(size, in_face(face, text), env={"AIOMPI_TRANSPORTS": "shared_memory", **env})
    assert result.lines == [f"held {nth}" for nth in range(len(parts)) for _ in range(size)]


# How a rank waits depends on its face and on the spin, and so not on the sizes.
@pytest.mark.parametrize(
    ("face", "ring_size", "spin", "shm_eager_limit"),
    [
        ("native", "4K", "0", "0"),
        ("native", "1M", "1e-3", "2M"),
        ("blocking", "1M", "0", "0"),
        ("blocking", "4K", "20e-6", "0"),
    ],
)
def test_messages_of_both_directions_are_whole(
    site: Site, face: str, ring_size: str, spin: str, shm_eager_limit: str
) -> None:
    env = {"AIOMPI_RING_SIZE": ring_size, "AIOMPI_SPIN": spin, "AIOMPI_SHM_EAGER_LIMIT": shm_eager_limit}
    hold(site, 2, face, [(STRESS, 300)], env)


@pytest.mark.parametrize(("face", "spin"), [("native", "200e-6"), ("blocking", "0")])
def test_two_ranks(site: Site, face: str, spin: str) -> None:
    """Messages are whole, whether one process copies them, or both, and an array is only its receiver's."""
    parts = [(EXPOSED, 4), (HALVES, 40), (ALLOCATED, 30), (FORK, 20)]
    hold(site, 2, face, parts, {"AIOMPI_SPIN": spin})


@pytest.mark.parametrize("face", FACES)
def test_waiting_costs_no_more_than_the_spin(site: Site, face: str) -> None:
    hold(site, 2, face, [(WAIT_LONG, 3)], {"AIOMPI_SPIN": "200e-6"})


#: algorithms that are not the usual ones everywhere
ALGORITHMS = "allreduce=shm,allgather=shm,bcast=linear"


@pytest.mark.parametrize(
    ("face", "spin", "coll"),
    [("native", "0", ALGORITHMS), ("native", "", ""), ("blocking", "0", ""), ("blocking", "1e-3", ALGORITHMS)],
)
def test_four_ranks(site: Site, face: str, spin: str, coll: str) -> None:
    """No rank sleeps while all others wait for it, and what several ranks read is whole."""
    env = {name: value for name, value in (("AIOMPI_SPIN", spin), ("AIOMPI_COLL", coll)) if value}
    hold(site, 4, face, [(MEET, 300), (COMBINE, 30), (MULTICAST, 40) if coll else (KEEP, 150)], env)


TALK = """
    for other in range(comm.size):
        if other != comm.rank:
            comm.Isend(bytes(200_000), dest=other)
    for other in range(comm.size):
        if other != comm.rank:
            await comm.Recv(bytearray(200_000), source=other)
    print("pid", os.getpid(), flush=True)
"""
#: and then each rank reads what all have, for ever
TALK_FOR_EVER = f"""{TALK}
    import numpy
    vector, result = numpy.ones(100_000), numpy.zeros(100_000)
    for number in range(10**9):
        await comm.Allreduce(vector, result)
        assert (result == comm.size).all()
        if number == 20:
            print("reads", flush=True)
"""


def named(pid: int) -> set[str]:
    """Return the names of files that a process has mapped or open."""
    lines = Path("/proc", str(pid), "maps").read_text().splitlines()
    mapped = {line.split(maxsplit=5)[5] for line in lines if line.count(" ") > 5}
    for path in Path("/proc", str(pid), "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            mapped.add(os.readlink(path))
    return mapped


@pytest.mark.parametrize(("victim", "face"), [("rank", "blocking"), ("all", "native")])
def test_processes_that_are_killed_while_they_read_memory_of_others_leave_none(
    site: Site, face: str, victim: str
) -> None:
    """Their shared memory has no name and ends with them; /dev/shm is empty even while they run."""
    program = site.program(in_face(face, TALK_FOR_EVER))
    job = site.launch("-n", "3", program, env={"AIOMPI_COLL": "allreduce=shm"})
    job.expect("reads", 3)
    pids = [int(line.split()[1]) for line in job.out.splitlines() if line.startswith("pid")]
    for pid in pids:
        assert "/memfd:aiompi (deleted)" in named(pid), "it shares memory, without a name"
        assert not any(name.startswith("/dev/shm/") for name in named(pid))
    victims = pids[1:2] if victim == "rank" else [job.process.pid, *pids]
    for signum in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees the end of another
        for pid in victims:
            os.kill(pid, signum)
    result = job.finish()
    assert result.code != 0
    assert victim == "all" or "SIGKILL" in result.err
    site.settle()


def test_more_ranks_than_cores(site: Site) -> None:
    """All 28 pairs exchange messages, and all ranks make many short steps together."""
    body = TALK + "    for _ in range(30):\n        comm.Barrier()\n"
    result = site.launch("-n", "8", site.program(in_face("blocking", body))).finish()
    assert (result.code, len(result.lines)) == (0, 8), result


def test_arrays_outlive_their_sender(site: Site) -> None:
    """Also where the places were that their receiver had not used any more by then."""
    program = """
        import os, time
        import numpy as np
        if comm.rank == 0:
            for i in range(5):
                comm.send(np.full(400_000, i, np.uint8), dest=1)
            comm.send(os.getpid(), dest=1)
        else:
            arrays = [comm.recv(source=0) for _ in range(5)]
            sender = comm.recv(source=0)
            MPI.Finalize()
            del arrays[2]
            while os.path.exists(f"/proc/{sender}/fd/0"):
                time.sleep(0.001)
            arrays[0][:] = 7
            if not os.fork():
                arrays[1][:] = 3
                os._exit(0)
            os.wait()
            print([array[0] == array[-1] and int(array[0]) for array in arrays])
    """
    assert site.ok(2, in_face("blocking", program)).lines == ["[7, 1, 3, 4]"]


# Too few descriptors: no rank waits for ever.

LACKING: Final = "rank 2 cannot be reached: this process has no resources left for its connection: Too many open files"
#: of three ranks, one of which has too few descriptors to connect with another
LACKING_RANK: Final = """
import resource
if comm.rank == 0:
    await comm.recv(source=1)
    free = os.dup(0)  # new descriptors are the lowest that are free
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, free + 1))
    await comm.send("now", dest=1)
    await comm.recv()
elif comm.rank == 1:
    await comm.send("hello", dest=0)
    await comm.recv(source=0)
    await comm.send("now", dest=2)
    await comm.recv()
else:
    await comm.recv(source=1)
    request = comm.isend("never arrives", dest=0)
    await comm.recv()
"""


def test_a_receive_from_any_source_fails_if_one_rank_cannot_send(site: Site) -> None:
    result = site.run(3, in_face("blocking", LACKING_RANK), env={"AIOMPI_TRANSPORTS": "loopback,shared_memory"})
    assert (result.code, result.out) == (1, "")
    assert f"aiompi-launch: rank 0 failed: OtherError: {LACKING}" in result.err


@pytest.mark.parametrize(("face", "words"), [("native", ()), ("blocking", ("--on-failure", "continue"))])
def test_the_rank_that_lacks_descriptors_is_to_blame_whatever_it_waits_for(
    site: Site, face: str, words: tuple[str, ...]
) -> None:
    """It waits for another rank, and many see only that their links to it have ended. Its own error has the cause."""
    program = """
    import resource
    if comm.rank == 0:
        await comm.recv(source=1)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, free + 1))
        await comm.send("now", dest=1)
        try:
            await comm.recv(source=1)
        except aiompi.MPI.OtherError as error:
            print(error, flush=True)
            raise
    elif comm.rank == 1:
        await comm.send("hello", dest=0)
        await comm.recv(source=0)
        for rank in range(2, comm.size):
            await comm.send("now", dest=rank)
    else:
        await comm.recv(source=1)
        await comm.send("never arrives", dest=0)
    await comm.recv(source=0)
    """
    result = site.launch(
        *words, "-n", "4", site.program(in_face(face, program)), env={"AIOMPI_TRANSPORTS": "loopback,shared_memory"}
    ).finish()
    assert result.code == 1
    (line,) = result.lines
    lacking = LACKING.replace("2", r"\d")
    assert re.match(lacking, line)
    (blamed,) = re.findall(r"^aiompi-launch: (rank 0 .*)", result.err, re.MULTILINE)
    assert re.match(f"rank 0 failed: OtherError: {lacking}", blamed)
    assert "has lost its link" not in result.err
