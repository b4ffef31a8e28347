"""Windows between real processes: a target that computes, a rank that is killed, one that breaks the protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiompi import core
from support.jobs import Site

BUSY = """
import os
import time
import numpy as np
from aiompi import MPI

comm = MPI.COMM_WORLD
win = MPI.Win.Allocate(8, 8, comm=comm)
comm.Barrier()
if comm.rank == 0:
    while not (os.path.exists("done 1") and os.path.exists("done 2")):
        time.sleep(0.01)  # it computes, and calls nothing
else:
    before = np.zeros(1, dtype="i8")
    for _ in range(20):
        win.Lock(0)
        win.Fetch_and_op(np.ones(1, dtype="i8"), before, 0)
        win.Unlock(0)
    open(f"done {comm.rank}", "w").close()
comm.Barrier()
if comm.rank == 0:
    print(np.frombuffer(win.tomemory(), "i8")[0])
win.Free()
"""
#: an exposure that rank 0 tests, without any other call
EXPOSED = """
import numpy as np
from aiompi import MPI

comm = MPI.COMM_WORLD
win = MPI.Win.Allocate(8, 8, comm=comm)
if comm.rank == 0:
    win.Post(comm.Get_group().Incl([1]))
    while not win.Test():
        pass
    print(np.frombuffer(win.tomemory())[0])
elif comm.rank == 1:
    win.Start(comm.Get_group().Incl([0]))
    win.Put(np.full(1, 7.0), 0)
    win.Complete()
win.Free()
"""


def test_a_target_that_computes_delays_nobody_and_a_test_of_an_exposure_makes_progress(site: Site) -> None:
    busy = core.form == "native"  # the pure form asks the target
    assert site.ok(3, EXPOSED + BUSY * busy).lines == ["40"] * busy + ["7.0"]


#: for a test: the ranks are as if each were on a host of its own
ASKED = "from aiompi.window import making\nmaking._find = lambda comm, card: None\n"

IMPORTS = """
import os
import signal
import time
import numpy as np
from aiompi import MPI
"""

REVOKED = """
comm = MPI.COMM_WORLD.Dup()
win = MPI.Win.Allocate(8, 8, comm=comm)
if comm.rank == 0:
    win.Lock(0)
MPI.COMM_WORLD.Barrier()
told = 0
if comm.rank == 0:
    time.sleep(0.2)
    comm.Revoke()
else:
    try:
        win.Lock(0) if comm.rank == 1 else win.Start(comm.Get_group().Incl([0]))
    except MPI.RevokedError:
        told += 1
calls = lambda: win.Put(np.ones(1), 0), lambda: win.Flush(0), lambda: win.Lock(1), win.Fence, win.Free
for call in calls:
    try:
        call()
    except MPI.RevokedError:
        told += 1
print(told, bool(win), flush=True)
"""


DEATH = """
comm = MPI.COMM_WORLD
win = MPI.Win.Allocate(8, 8, comm=comm)
shared = MPI.Win.Allocate(8, 8, comm=comm)
if comm.rank == 0:
    win.Lock(2)
if comm.rank == 1:
    win.Lock(0)
    shared.Lock(0, MPI.LOCK_SHARED)
    win.Put(np.ones(1), 0)
comm.Barrier()
if comm.rank == 1:
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
told = []


def fails(call, *texts):
    try:
        call()
    except MPI.ProcessFailedError as error:
        told.append(all(text in str(error) for text in ("SIGKILL", *texts)) and "Ack_failed" not in str(error))


held = "rank 1 held the lock of rank 0 and has failed: "
if comm.rank == 2:
    win.Lock(2)  # its holder lives, and gives it back
    win.Unlock(2)
fails(lambda: win.Lock(0), held)
if comm.rank == 0:
    time.sleep(0.1)
    win.Unlock(2)
fails(win.Lock_all, held)
fails(lambda: shared.Lock(0), held)
fails(lambda: win.Lock(1))
shared.Lock_all()  # without rank 1
comm.sendrecv(None, 2 - comm.rank, source=2 - comm.rank)
print(told)
"""


@pytest.mark.parametrize("before", ["", ASKED], ids=["mapped", "asked"])
def test_a_window_is_revoked_and_only_who_waits_for_the_lock_of_a_killed_rank_is_told(site: Site, before: str) -> None:
    program = site.program(before + IMPORTS + REVOKED + DEATH)
    result = site.launch("-n", "3", "--on-failure=continue", program).finish()
    assert result.lines[:3] == ["5 False", "6 False", "6 False"], f"of a communicator that is revoked: {result}"
    assert result.lines[3:] == [str([True] * 4)] * 2, f"of a rank that is killed: {result}"


TARGET = """
import os
import signal
import numpy as np
from aiompi import MPI

comm, own = MPI.COMM_WORLD, np.zeros(4)
win = MADE
win.Lock_all()
comm.Barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
told, value = 0, np.ones(1)
try:
    while True:
        win.Put(value, 1)
        win.Flush(1)
except MPI.ProcessFailedError:
    told += 1
calls = lambda: win.Get(value, 1), lambda: win.Fetch_and_op(value, value, 1), lambda: win.Flush(1), win.Unlock_all
for call in calls:
    try:
        call()
    except MPI.ProcessFailedError:
        told += 1
win.Lock(2, MPI.LOCK_SHARED)  # the other ranks are reached all the same
win.Put(value, 2, comm.rank)
win.Unlock(2)
comm.sendrecv(None, 2 - comm.rank, source=2 - comm.rank)
try:
    win.Free()
except MPI.ProcessFailedError:
    told += 1
print(told, bool(win))
"""


@pytest.mark.parametrize(
    "program",
    [
        TARGET.replace("MADE", "MPI.Win.Allocate(32, 8, comm=comm)"),
        TARGET.replace("MADE", "MPI.Win.Create(own, 8, comm=comm)"),
        ASKED + TARGET.replace("MADE", "MPI.Win.Create(own, 8, comm=comm)"),
    ],
    ids=["mapped", "copied", "asked"],
)
def test_an_access_to_a_killed_rank_fails(site: Site, program: str) -> None:
    result = site.launch("-n", "3", "--on-failure=continue", site.program(program)).finish()
    assert result.lines == ["6 False", "6 False"], result.err


COPIED = """
import numpy as np
from aiompi import MPI

comm, count = MPI.COMM_WORLD, 50_000
own = np.zeros(2 * count)
win = MPI.Win.Create(own, 8, comm=comm)
other = 1 - comm.rank
comm.sendrecv(None, other, source=other)  # so that they are connected
win.Lock_all()
sent = np.arange(float(count)) + comm.rank
if core.form == "native":
    assert win._core.put_at_once(sent, other, count) is SEEN
win.Put(sent, other, count)
win.Flush(other)
comm.Barrier()
assert (own[count:] == np.arange(count) + other).all() and not own[:count].any()
found = np.zeros(count)
win.Get(found, other, count)
win.Flush(other)
assert (found == sent).all()
assert not win._core.put_at_once(sent, other, count + 1) and not win._core.get_at_once(found, other, -1)
win.Unlock_all()
win.Free()
print("well")
"""


@pytest.mark.parametrize("seen", [True, False])
def test_the_kernel_copies_to_and_from_memory_of_the_program(site: Site, seen: bool) -> None:
    """Where the kernel does not allow it, the target is asked."""
    program = site.program("from aiompi import core\n" + COPIED.replace("SEEN", str(seen)))
    chosen = {} if seen else {"AIOMPI_SINGLE_COPY": "0"}
    result = site.launch("-n", "2", program, env=chosen).finish()
    assert (result.lines, result.err) == (["well", "well"], "")


#: requests to rank 0 of two that break the protocol
REQUESTS = (
    "window.tell(0, Kind.PUT, 0, 2**40, b'')",
    "window.tell(0, Kind.GET, -8, 8, b'')",
    "window.tell(0, Kind.PUT, 0, 8, b'x')",
    "window.tell(0, Kind.GET, 0, 24, np.array([[0] * 3, [8] * 3], '<i8').tobytes())",
    "window.tell(0, Kind.UNLOCK)",
    "window.tell(0, Kind.COMBINE, 0, 8, b'', 99, 'MPI_DOUBLE', False, False)",
    "window.tell(0, Kind.COMBINE, 2**63, 0, b'', 3, 'MPI_DOUBLE', True, False)",
    "window.comm.isend((b'abc',), 3, 0, 0)",
)
HOSTILE = f"""
import numpy as np
from aiompi import MPI
from aiompi.window.messages import Kind

pair, number = divmod(MPI.COMM_WORLD.rank, 2)
request = {REQUESTS}[pair]
comm = MPI.COMM_WORLD.Split(pair)
win = MPI.Win.Create(np.zeros(2), 8, comm=comm)
comm.Barrier()
if number == 1:
    window = win._core
    exec(request)
    comm.recv(source=0)
else:
    try:
        comm.recv(source=1)
    except MPI.ProcessFailedError:
        print(request)
"""


def test_a_request_that_breaks_the_protocol_ends_its_sender(site: Site) -> None:
    """Pairs of ranks each lose one of them: the other one is told."""
    program = site.program(HOSTILE)
    result = site.launch("-n", str(2 * len(REQUESTS)), "--on-failure=continue", program).finish()
    assert result.lines == sorted(REQUESTS), result


STRESS = str(Path(__file__).with_name("stress.py"))


@pytest.mark.parametrize("more", [(), ("--apart",)], ids=["near", "apart"])
def test_random_operations_are_as_in_a_model(site: Site, more: tuple[str, ...]) -> None:
    """`stress.py` has a command for many more."""
    result = site.launch("-n", "3", STRESS, "--operations", "250", *more).finish()
    assert (result.code, result.err) == (0, ""), result
    assert "are as in the model" in result.out


def test_counters_are_right_when_a_rank_is_killed(site: Site) -> None:
    result = site.launch("-n", "3", "--on-failure=continue", STRESS, "--kill", "--seed", "1").finish()
    assert result.lines == ["told", "told"], result.err


SCRIBBLED = """
import os
import random
import signal
import numpy as np
from aiompi import MPI

comm = MPI.COMM_WORLD
allocated = MPI.Win.Allocate(4096, 8, comm=comm)
created = MPI.Win.Create(np.zeros(512), 8, comm=comm)
if comm.rank == 0:
    allocated.Lock_all()
    created.Lock_all()
pids = comm.allgather(os.getpid())
if comm.rank == 1:
    # The peer does nothing but write into all memory that it shares, at random, until it is killed.
    maps = [line.split() for line in open("/proc/self/maps") if "memfd:aiompi" in line]
    places = [[int(end, 16) for end in each[0].split("-")] for each in maps if "w" in each[1]]
    memory = os.open("/proc/self/mem", os.O_RDWR)
    while True:
        start, end = random.choice(places)
        word = random.choice([os.urandom(8), b"\\xff" * 8, bytes(8), bytes(7) + b"\\x80"])
        os.pwrite(memory, word, start + 8 * random.randrange(random.choice((64, (end - start) // 8))))
one, got, many = np.ones(1), np.ones(1), np.ones(512)
try:
    for _ in range(5000):
        for win in (allocated, created):
            win.Put(one, 1, random.randrange(512))
            win.Get(got, 1, random.randrange(512))
        allocated.Accumulate(many, 1, 0)
        allocated.Fetch_and_op(one, got, 1, random.randrange(512))
        allocated.Compare_and_swap(one.view("q"), one.view("q"), got.view("q"), 1, random.randrange(512))
        allocated.Flush(1)
except MPI.ProcessFailedError:
    pass  # the peer has broken its connection
os.kill(pids[1], signal.SIGKILL)
print("lives", flush=True)
os._exit(0)  # the connection may be broken
"""


@pytest.mark.skipif(core.form != "native", reason="only the native form shares memory")
def test_a_peer_that_scribbles_over_shared_memory_harms_nobody(site: Site) -> None:
    result = site.launch("-n", "2", "--on-failure=continue", site.program(SCRIBBLED)).finish()
    assert result.lines == ["lives"], result.err
