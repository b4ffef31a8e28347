"""The rank of a process of the blocking face: its start at first use, its end, and its forks."""

from __future__ import annotations

import sys

import pytest

from support.jobs import Site


@pytest.mark.spec("S7.5-2", "S7.5-3")
def test_import_does_nothing_and_first_use_initialises(site: Site) -> None:
    """The import opens no socket or file, starts no thread, sets no signal handler, and reads no variables."""
    program = """
import atexit, ctypes, os, signal, sys, threading  # libffi 3.5 keeps its own library open

before = sorted(os.listdir("/proc/self/fd"))
hook, events = sys.excepthook, []
sys.addaudithook(lambda event, args: events.append(event))
from aiompi import MPI

did = {event.partition(".")[0] for event in events}
assert not did & {"socket", "subprocess", "signal", "fcntl"}, did
assert not {"os.fork", "os.mkdir", "os.remove", "tempfile.mkstemp"} & set(events), events
assert sorted(os.listdir("/proc/self/fd")) == before
assert threading.active_count() == 1
assert sys.excepthook is hook
assert not any(callable(signal.getsignal(n)) for n in range(1, 65) if n not in (2,))
assert (MPI.Is_initialized(), MPI.Is_finalized()) == (False, False)
assert "not initialised yet" in repr(MPI.COMM_WORLD)
assert not MPI.Is_initialized()
"""
    junk = {"AIOMPI_CONTROL": "unix:/nonexistent", "AIOMPI_KEY": "none", "AIOMPI_TRANSPORTS": "none"}
    use = "assert MPI.COMM_WORLD.Get_size() == 1\nassert MPI.Is_initialized()\n"
    path = site.program(program)
    python = (sys.executable, "-B")  # makes no directories for compiled modules
    result = site.start(*python, path, env=junk).finish()
    assert (result.code, result.err) == (0, "")
    path = site.program(program + use)
    result = site.start(*python, path).finish()
    assert (result.code, result.err) == (0, "")
    result = site.start(*python, path, env=junk).finish()
    assert result.code == 1
    assert "transports lists names of transports and cannot have none" in result.err
    result = site.start(*python, path, env=junk | {"AIOMPI_TRANSPORTS": ""}).finish()
    assert result.code == 1
    assert "the key of the job must be hexadecimal" in result.err


def test_unawaited_sends_are_delivered_at_the_end(site: Site) -> None:
    """The sender ends without Finalize before the receiver has posted a receive."""
    program = """
import select, os
from aiompi import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.send(os.getpid(), dest=1)
    for number in range(20):
        comm.isend([number] * 1000, dest=1)
else:
    sender = os.pidfd_open(comm.recv(source=0))
    select.select([sender], [], [])
    print([comm.recv(source=0)[0] for number in range(20)] == list(range(20)))
"""
    assert site.ok(2, program).out == "True\n"


def test_deadlock_is_told(site: Site) -> None:
    """The error comes when no rank is left that could send, also for ANY_SOURCE."""
    program = """
from aiompi import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    calls = [
        comm.recv, comm.Probe, lambda: comm.Recv(bytearray(1)), lambda: comm.ssend(1, 0), lambda: comm.irecv().wait(),
    ]
    for wait in calls:
        try:
            wait()
        except MPI.LocalProtocolError as error:
            print(error)
"""
    result = site.ok(2, program)
    assert result.lines == ["deadlock: this operation waits for a message that no other process can send"] * 5


def test_abort_without_launcher(site: Site) -> None:
    program = "from aiompi import MPI\nprint('before')\nMPI.COMM_WORLD.Abort(6)\n"
    result = site.start(sys.executable, site.program(program)).finish()
    assert (result.code, result.out, result.err) == (6, "before\n", "")


@pytest.mark.spec("S4.9.4-5")
def test_a_function_of_a_reduction_must_not_wait_but_may_abort(site: Site) -> None:
    program = """
from aiompi import MPI
comm = MPI.COMM_WORLD
request = comm.irecv(source=1, tag=5)
for call in (comm.Barrier, lambda: comm.recv(source=1), lambda: comm.Recv(bytearray(1)), request.wait):
    try:
        comm.reduce(1, op=lambda a, b: call())
    except MPI.Exception as error:
        print(f"{comm.rank}: {error}", flush=True)
comm.reduce(1, op=lambda a, b: comm.Abort(7))
"""
    result = site.run(2, program)
    assert result.code == 7
    assert len(result.lines) == 4
    assert all("0: rank 0: a function" in line and "must not communicate" in line for line in result.lines)


def test_first_message_to_a_rank_that_has_ended(site: Site) -> None:
    """Even the connection comes too late. The error names the rank instead of the state of its sockets."""
    program = """
import select, os, sys
from aiompi import MPI
comm = MPI.COMM_WORLD
pids = comm.allgather(os.getpid())
if comm.rank == 0:
    select.select([os.pidfd_open(pids[2])], [], [])
    try:
        comm.ssend("too late", dest=2)
    except MPI.ProcessFailedError as error:
        print(error)
elif comm.rank == 1:
    select.select([os.pidfd_open(pids[0])], [], [])
"""
    assert site.ok(4, program).out == "rank 2 has finalized: it sends and receives nothing more\n"


# Fork.


def test_forked_child_is_no_rank(site: Site) -> None:
    """Each of its calls raises a clear error, and its parent is not affected. It needs no free descriptor."""
    program = """
import os, resource
from aiompi import MPI
comm = MPI.COMM_WORLD
pending = comm.irecv(source=1 - comm.rank, tag=5)
comm.send("first", dest=1 - comm.rank, tag=1)
assert comm.recv(source=1 - comm.rank, tag=1) == "first"

def misbehave():
    calls = [
        lambda: comm.send("from the child", dest=1, tag=5), comm.recv, comm.Barrier, pending.wait, comm.irecv().Test,
        lambda: comm.issend("from the child", dest=1, tag=5).Wait(), comm.Probe, MPI.Finalize,
        lambda: MPI.COMM_SELF.send("from the child", dest=0),
    ]
    for call in calls:
        try:
            call()
        except MPI.LocalProtocolError as error:
            assert str(error).startswith("this process was forked from rank 0 and is no rank itself"), error
        else:
            os._exit(9)

if comm.rank == 0:
    for end in (lambda: None, lambda: comm.Abort(3), lambda: 1 / 0):
        child = os.fork()
        if not child:
            misbehave()
            end()
            raise SystemExit(4)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        pass
    child = os.fork()
    for descriptor in taken:
        os.close(descriptor)
    if not child:
        misbehave()
        os._exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
comm.Barrier()
comm.send("second", dest=1 - comm.rank, tag=5)
print(pending.wait(), comm.allreduce(1))
"""
    result = site.run(2, program)
    assert result.code == 0
    assert result.lines == ["1", "3", "3", "4", "second 2", "second 2"]
    assert result.err.endswith("ZeroDivisionError: division by zero\n")


def test_fork_before_init(site: Site) -> None:
    """The import alone does not make a process a rank, as Init does."""
    program = """
import os
from aiompi import MPI
child = os.fork()
if child:
    os.waitpid(child, 0)
    MPI.Init()
    print(MPI.Is_initialized(), MPI.COMM_WORLD.size, MPI.COMM_WORLD.allreduce(1))
    MPI.Finalize()
else:
    os._exit(0)
"""
    assert site.ok(2, program).lines == ["True 2 2", "True 2 2"]


def test_a_matched_probe_that_has_slept_takes_no_descriptor(site: Site) -> None:
    """The call fills the status while it sleeps, which must not count as a call of a signal handler."""
    program = """
import os, time
from aiompi import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank:
    comm.send("early", 0, 6)
    time.sleep(0.2)
    comm.send("late", 0, 7)
    comm.recv(source=0)  # the end of this rank would close its link
else:
    comm.recv(source=1, tag=6)
    before, status = sorted(os.listdir("/proc/self/fd")), MPI.Status()
    message = comm.Mprobe(1, 7, status)
    assert sorted(os.listdir("/proc/self/fd")) == before
    comm.send(None, 1)
    print(status.source, status.tag, message.recv())
"""
    assert site.ok(2, program, env={"AIOMPI_SPIN": "0"}).lines == ["1 7 late"]
