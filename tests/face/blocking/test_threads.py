"""Thread levels of the blocking face, in jobs of real processes with real threads (section 12.4 of MPI-3.1)."""

from __future__ import annotations

import os
import sys

import pytest

from support.jobs import Site
from support.limits import LIMIT

HEAD = """
import os, signal, sys, threading
import aiompi
from aiompi import MPI

comm = MPI.COMM_WORLD

class Thread(threading.Thread):
    def __init__(self, function, *args, name=None, daemon=False):
        super().__init__(name=name, daemon=daemon)
        self.call, self.args, self.error, self.result = function, args, None, None
        self.start()

    def run(self):
        try:
            self.result = self.call(*self.args)
        except BaseException as error:
            self.error = error

    def finish(self):
        self.join()
        if self.error:
            raise self.error
        return self.result

def fails(kind, call, *args):
    try:
        call(*args)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")
"""
MULTIPLE = {"AIOMPI_THREAD_LEVEL": "multiple"}
SERIALIZED = {"AIOMPI_THREAD_LEVEL": "serialized"}


# Levels.


def test_levels(site: Site) -> None:
    """A program gets at least the level that it asks for, and at least that of the settings."""
    body = """
def level(required, setting="", of_program=None):
    os.environ["AIOMPI_THREAD_LEVEL"] = setting
    if of_program is not None:
        aiompi.rc.thread_level = of_program
    if required is not None:
        assert MPI.Init_thread(required) == MPI.Query_thread()
    return MPI.Query_thread() if MPI.COMM_WORLD.size == MPI.Is_thread_main() == 1 else -1

for case, provided in [
    ((0,), 1), ((1,), 1), ((2,), 2), ((3,), 3), ((1, "serialized"), 2),
    ((None, "", "multiple"), 3), ((None, "", "funneled"), 1),
]:
    child = os.fork()
    if not child:
        os._exit(10 + level(*case))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10 + provided, case
print("all")
"""
    assert site.start(sys.executable, site.program(HEAD + body)).finish().out == "all\n"


def test_any_call_may_be_the_first(site: Site) -> None:
    """A class method, a function, and a method called by its class join the job; also where calls take turns."""
    body = """
import inspect, os, sys, traceback
import aiompi
from aiompi import MPI

path = f"{sys.argv[1]}/file"
world, alone, modes = MPI.COMM_WORLD, MPI.COMM_SELF, MPI.MODE_CREATE | MPI.MODE_RDWR
class_methods = {
    "Allocate": lambda: MPI.Win.Allocate(8),
    "Allocate_shared": lambda: MPI.Win.Allocate_shared(8, comm=world),
    "Create": lambda: MPI.Win.Create(bytearray(8)),
    "Create_dynamic": lambda: MPI.Win.Create_dynamic(),
    "Create_keyval": lambda: MPI.Win.Create_keyval(),
    "Free_keyval": lambda: MPI.Win.Free_keyval(MPI.Win.Create_keyval()),
    "Delete": lambda: (open(path, "w").close(), MPI.File.Delete(path)),
    "Open": lambda: MPI.File.Open(alone, path, modes).Close(),
    "Get_parent": lambda: MPI.Comm.Get_parent(),
    "Join": lambda: refused(MPI.Exception, lambda: MPI.Comm.Join(-1)),
    "Create_from_group": lambda: MPI.Intracomm.Create_from_group(MPI.GROUP_EMPTY),
    "Create_from_groups": lambda: MPI.Intercomm.Create_from_groups(MPI.GROUP_EMPTY, 0, MPI.GROUP_EMPTY, 0),
    "Init": lambda: MPI.Session.Init().Finalize(),
    "Iprobe": lambda: MPI.Message.Iprobe(alone),
    "iprobe": lambda: MPI.Message.iprobe(alone),
    "Probe": lambda: MPI.Message.Probe(alone, MPI.PROC_NULL),
    "probe": lambda: MPI.Message.probe(alone, MPI.PROC_NULL),
    "Startall": lambda: MPI.Prequest.Startall([]),
    "Start": lambda: MPI.Grequest.Start(None, None, None).Complete(),
}
others = [
    lambda: MPI.Session.Init(MPI.Info.Create({"thread_level": "MPI_THREAD_MULTIPLE"})).Finalize(),
    lambda: MPI.Comm.Barrier(world),
    lambda: MPI.Comm.Bcast(world, bytearray(8)),
    lambda: MPI.Comm.bcast(world, 1),
    lambda: MPI.Intracomm.Dup(world).Free(),
    lambda: MPI.Intracomm(world).Barrier(),
    lambda: (MPI.Alloc_mem(8), MPI.Attach_buffer(None), MPI.Flush_buffer(), MPI.Iflush_buffer(), MPI.Detach_buffer()),
    lambda: MPI.Close_port(MPI.Open_port()),
    lambda: (setattr(aiompi.rc, "thread_level", "multiple"), MPI.Win.Allocate(8), MPI.Comm.Barrier(world)),
]

def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError

kinds = (MPI.Win, MPI.File, MPI.Intracomm, MPI.Intercomm, MPI.Session, MPI.Message, MPI.Request, MPI.Prequest,
         MPI.Grequest)
names = {name for kind in kinds for name in dir(kind)
         if isinstance(inspect.getattr_static(kind, name), classmethod | staticmethod) and not name.startswith("_")}
names -= {"Create_errhandler", "f2py", "fromhandle", "fromint"}
of_requests = {name for name in names if hasattr(MPI.Request, name)}
assert names == {*class_methods, *of_requests}, names
others += [lambda name=name: getattr(MPI.Request, name)([]) for name in of_requests]
for call in [*class_methods.values(), *others]:
    child = os.fork()
    if not child:
        try:
            call()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("all")
"""
    path = site.program(body, "first.py")
    for env in ({}, MULTIPLE):
        assert site.start(sys.executable, path, str(site.directory), env=env).finish().out == "all\n"


def test_by_default_one_thread_calls(site: Site) -> None:
    """Other threads are refused before they do any harm, and the error says what to do; they may ask for their rank."""
    body = """
pending = comm.irecv(source=1 - comm.rank)
started = comm.Send_init(bytearray(1), 0)
generalized = MPI.Grequest.Start()
calls = [
    lambda: comm.send(1, dest=0), lambda: comm.Irecv(bytearray(1)), comm.Barrier, comm.Ibarrier, comm.Dup, comm.Probe,
    comm.Iprobe, comm.Free, pending.wait, pending.test, pending.Cancel, pending.Free, started.Start,
    lambda: MPI.Request.Waitall([pending]), lambda: MPI.Request.testany([pending]), lambda: MPI.Attach_buffer(None),
    MPI.Detach_buffer, lambda: comm.Create_group(comm.group), lambda: comm.Attach_buffer(None),
    lambda: MPI.Request.Waitsome([pending]), generalized.complete,
]
for call in calls:
    text = fails(MPI.LocalProtocolError, Thread(call, name="worker").finish)
    assert text.startswith("thread 'worker' makes an MPI call, and the thread level is THREAD_FUNNELED: only thread "
                           "'MainThread', which has initialised MPI, may."), text
    assert "AIOMPI_THREAD_LEVEL=multiple" in text
assert "call it in the thread that has initialised" in fails(MPI.LocalProtocolError, Thread(MPI.Finalize).finish)
assert Thread(lambda: (comm.rank, comm.Get_size(), comm.name, MPI.Is_thread_main(), MPI.Query_thread())).finish() == (
    comm.rank, 2, "MPI_COMM_WORLD", False, MPI.THREAD_FUNNELED)
comm.send("all is well", dest=1 - comm.rank)
print(pending.wait())
generalized.complete()
generalized.Wait()
"""
    assert site.ok(2, HEAD + body).lines == ["all is well"] * 2


def test_the_thread_that_initialises_is_the_one_that_calls(site: Site) -> None:
    """The first thread need not be the main thread, and after its end another one may make calls."""
    body = """
assert Thread(lambda: comm.allreduce(1)).finish() == 1
print(comm.allreduce(2))
"""
    assert site.ok(1, HEAD + body).lines == ["2"]


def test_serialized_calls(site: Site) -> None:
    """Any thread may call; one that calls while another waits in a call is refused, and both are named."""
    body = """
assert Thread(lambda: comm.allreduce(1)).finish() == 2
if comm.rank == 0:
    waiting = threading.Event()
    receiver = Thread(lambda: (waiting.set(), comm.recv(source=1))[1], name="receiver")
    waiting.wait()
    text = ""
    while not text:
        try:
            comm.Iprobe(source=1, tag=9)
        except MPI.LocalProtocolError as error:
            text = str(error)
    assert text.startswith("thread 'MainThread' calls Iprobe while thread 'receiver' is in recv, and the thread level "
                           "is THREAD_SERIALIZED"), text
    os.write(int(os.environ["GO"]), b"x")
    print(receiver.finish())
else:
    os.read(int(os.environ["WAIT"]), 1)
    comm.send("late", dest=0)
assert Thread(lambda: comm.allreduce(1)).finish() == 2
"""
    # A pipe in the program of rank 0 would not reach rank 1: a FIFO does.
    fifo = site.directory / "fifo"
    body = body.replace('int(os.environ["GO"])', f"os.open({str(fifo)!r}, os.O_WRONLY)")
    body = body.replace('int(os.environ["WAIT"])', f"os.open({str(fifo)!r}, os.O_RDONLY)")
    os.mkfifo(fifo)
    assert site.ok(2, HEAD + body, env=SERIALIZED).out == "late\n"


# Many threads at once.


@pytest.mark.spec("S2.6-3", "S4.12-5")
def test_many_threads_send_and_receive_at_once(site: Site) -> None:
    """From the first call to the last one, which a thread that waits does not keep from the end of the process."""
    body = """
import numpy as np

def in_threads(work, numbers):
    threads = [Thread(work, number) for number in numbers]
    return [thread.finish() for thread in threads]

# The first use of a communicator, by several threads: one joins the job, the others wait for it.
start = threading.Barrier(6)
def begin(number):
    start.wait()
    comm.send(number, dest=1 - comm.rank, tag=number)
    return comm.recv(source=1 - comm.rank, tag=number)
assert in_threads(begin, range(6)) == [*range(6)]

# Eight threads of each rank, in both directions, with collectives of their own and one communicator in common.
other, total = 1 - comm.rank, 8
comms = [comm.Dup() for _ in range(total)]
def work(number):
    own = comms[number]
    big, got = np.arange(40000), np.empty(40000, int)
    for turn in range(10):
        request = own.Isend(np.full(10, turn * 100 + number), other, tag=turn)
        buffer = np.empty(10, int)
        own.Recv(buffer, other, tag=turn)
        request.Wait()
        assert (buffer == turn * 100 + number).all()
        assert own.allreduce(number + turn) == 2 * (number + turn)
        comm.send((number, turn), other, tag=number)
        assert comm.recv(source=other, tag=number) == (number, turn)
        own.Sendrecv(big + turn, other, 3, got, other, 3)
        assert (got == big + turn).all()
        requests = [comm.irecv(source=other, tag=100 + number), comm.issend(turn, other, tag=100 + number)]
        assert MPI.Request.waitall(requests)[0] == turn
        own.Barrier()
    return number
assert in_threads(work, range(total)) == [*range(total)]

# Each message goes to exactly one receive from any source, in whichever thread.
if comm.rank == 0:
    received = in_threads(lambda _: [comm.recv(source=MPI.ANY_SOURCE, tag=1) for _ in range(25)], range(6))
    assert sorted(sum(received, [])) == [*range(150)]
else:
    in_threads(lambda start: [comm.send(number, dest=0, tag=1) for number in range(start, start + 50)], (0, 50, 100))

# Threads wait for several requests each.
def any_of(tags):
    requests = [comm.irecv(source=other, tag=tag) for tag in tags]
    values = [MPI.Request.waitany(requests)[1] for _ in tags]
    return sorted(values)

def some_of(tags):
    requests, values = [comm.irecv(source=other, tag=tag) for tag in tags], []
    while (found := MPI.Request.waitsome(requests))[0] is not None:
        values += found[1]
    return sorted(values)

def tested(tags):
    requests = [comm.irecv(source=other, tag=tag) for tag in tags]
    while not (found := MPI.Request.testall(requests))[0]:
        pass
    return found[1]

waiting = [Thread(call, range(start, start + 5)) for call, start in ((any_of, 0), (some_of, 10), (tested, 20))]
for tag in (22, 4, 13, 20, 2, 11, 24, 0, 10, 21, 1, 14, 23, 3, 12):
    comm.send(tag, dest=other, tag=tag)
for thread, start in zip(waiting, (0, 10, 20)):
    assert thread.finish() == list(range(start, start + 5))

Thread(comm.recv, None, comm.rank, 9, daemon=True)
if comm.rank == 0:
    comm.isend("last words", dest=1)
else:
    print(comm.recv(source=0))
"""
    assert site.ok(2, HEAD + body, env=MULTIPLE).out == "last words\n"


@pytest.mark.spec("S3.7.4-4")
def test_what_threads_do_for_each_other(site: Site) -> None:
    """They complete requests, run callbacks and make progress, until one of them ends communication."""
    done = site.directory / "done"
    body = f"""
import time, warnings
import numpy as np
warnings.simplefilter("ignore", DeprecationWarning)  # forking is what it warns of

# What was taken from its class before the job was joined would not take the lock.
send, rank = MPI.Intracomm.send, int(os.environ["AIOMPI_RANK"])
MPI.Init_thread()
assert "look it up again" in fails(MPI.LocalProtocolError, send, comm, 1, rank)
MPI.Intracomm.send(comm, "late", rank)
assert comm.recv(source=rank) == "late"

# Another thread completes generalized requests while the one that started them waits.
rounds = [MPI.Grequest.Start() for _ in range(20)]
def complete():
    for number, request in enumerate(rounds):
        comm.recv(source=rank, tag=number)
        request.complete(number)
worker = Thread(complete)
for number, request in enumerate(rounds):
    sent = comm.isend(None, rank, tag=number)
    assert request.wait() == number
    sent.wait()
worker.finish()

# Errors are raised where the call is made; error handlers run in the calling thread. Those of functions of the user
# that run during progress, too.
asked = []
own = comm.Dup()
own.Set_errhandler(MPI.Comm.Create_errhandler(lambda _, code: asked.append((threading.current_thread().name, code))))

def combine(a, b):
    raise ArithmeticError("not today")

def work(number):
    assert "99" in fails(MPI.InvalidRankError, own.send, 1, 99)
    request = own.Irecv(bytearray(1), source=rank, tag=number)
    own.Send(b"long", rank, tag=number)
    fails(MPI.TruncationError, request.Wait)

threads = [Thread(work, number, name=f"t{{number}}") for number in range(4)]
[thread.finish() for thread in threads]
assert sorted(asked) == sorted((f"t{{n}}", code) for n in range(4) for code in (MPI.ERR_RANK, MPI.ERR_TRUNCATE)), asked
assert fails(ArithmeticError, Thread(comm.Dup().allreduce, 1, combine).finish) == "not today"

# Callbacks of attributes run by one thread at a time, whichever makes the copies.
running = []

def copy(comm, keyval, value):
    running.append(value)
    assert len(running) == 1
    sum(range(10000))
    return running.pop() + 1

def copied(parent, value):
    parent.Set_attr(keyval, value)
    return parent.Dup().Get_attr(keyval)

keyval = MPI.Comm.Create_keyval(copy_fn=copy)
threads = [Thread(copied, MPI.COMM_SELF.Dup(), value) for value in range(4)]
assert [thread.finish() for thread in threads] == [1, 2, 3, 4]

# KeyboardInterrupt reaches the main thread out of a wait, and the receive is withdrawn: no message is lost.
comm.Barrier()
def interrupt():
    while True:
        frame = sys._current_frames()[threading.main_thread().ident]
        while frame is not None and frame.f_code.co_name != "_sleep":
            frame = frame.f_back
        if frame is not None:
            return os.kill(os.getpid(), signal.SIGINT)

for wait in (
    comm.recv, comm.irecv(source=rank, tag=7).wait, lambda: MPI.Request.Waitany([comm.Irecv(bytearray(1), rank, 8)]),
):
    thread = Thread(interrupt)
    fails(KeyboardInterrupt, wait)
    thread.finish()
comm.send("kept", dest=rank)
assert comm.iprobe(source=rank)
assert comm.recv() == "kept"
comm.Barrier()

# A rank that makes no call serves the rendezvous of its posted receives, and its collectives.
if rank == 0:
    inbox = np.zeros(500_000)
    receives = [comm.Irecv(inbox, source=1), comm.irecv(source=1, tag=5)]
    barrier = comm.Ibarrier()
    deadline = time.monotonic() + {LIMIT}
    while not os.path.exists({str(done)!r}) and time.monotonic() < deadline:
        sum(range(1000))
    assert os.path.exists({str(done)!r}), "nothing happened while it computed"
    MPI.Request.Waitall([*receives, barrier])
    assert inbox.sum() == 500_000
else:
    comm.Ssend(np.ones(500_000), dest=0)
    comm.ssend("small", dest=0, tag=5)
    comm.Ibarrier().Wait()
    open({str(done)!r}, "w").close()

# A forked child is no rank.
waiting = Thread(comm.recv, None, rank, 5)
child = os.fork()
if not child:
    for call in (comm.recv, comm.probe, MPI.Finalize, lambda: comm.send(1, dest=0)):
        assert f"this process was forked from rank {{rank}}" in fails(MPI.LocalProtocolError, call)
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
comm.send("parent", dest=rank, tag=5)
assert waiting.finish() == "parent"

# Threads that wait at Finalize get an error instead of waiting for ever.
waiting = [Thread(comm.recv, None, source) for source in (0, 1, MPI.ANY_SOURCE)]
waiting.append(Thread(lambda: comm.Irecv(bytearray(1), source=0, tag=3).Wait()))
comm.Barrier()
assert "in the thread that has initialised" in fails(MPI.LocalProtocolError, Thread(MPI.Finalize).finish)
MPI.Finalize()
for thread in waiting:
    fails(MPI.Exception, thread.finish)
assert threading.active_count() == 1
print(fails(MPI.LocalProtocolError, comm.Barrier))
"""
    texts = [f"rank {rank} has finalized: no communication is possible" for rank in range(2)]
    assert site.ok(2, HEAD + body).lines == texts


def test_deadlock_of_all_threads_is_told(site: Site) -> None:
    """When every thread waits for a message that only another thread of this rank could send."""
    body = """
MPI.Init_thread()
first = Thread(comm.recv, None, 0, 1)
assert "deadlock" in fails(MPI.LocalProtocolError, comm.recv, None, 0, 2)
comm.send("now", dest=0, tag=1)
print(first.finish())
last = Thread(comm.recv, None, 0, 1)
last.join()  # while the main thread waits for it, it is not all of them: something else may still happen
"""
    result = site.run(1, HEAD + body.replace("last.join()", "sys.exit()"))
    assert (result.code, result.out) == (0, "now\n"), result


# End.


@pytest.mark.parametrize("level", ["funneled", "serialized", "multiple"])
def test_abort_from_any_thread(site: Site, level: str) -> None:
    """Whatever the others do, and whatever the level is."""
    body = """
if comm.rank == 1:
    comm.send("ready", dest=0)
    Thread(comm.Abort, 7)
    comm.recv(source=0)
else:
    comm.recv(source=1)
    comm.recv(source=1)
"""
    result = site.run(2, HEAD + body, env={"AIOMPI_THREAD_LEVEL": level})
    assert result.code == 7
    assert "rank 1 called MPI_Abort(7)" in result.err


def test_end_of_a_program_in_the_middle_of_a_call(site: Site) -> None:
    """Without THREAD_MULTIPLE a daemon thread that waits cannot be helped: the job ends, and says why."""
    body = """
def wait():
    comm.Barrier()
    entered.set()
    comm.recv(source=1)

if os.environ["AIOMPI_RANK"] == "0":
    entered = threading.Event()
    Thread(wait, name="reader", daemon=True)
    entered.wait()
else:
    comm.Barrier()
    comm.recv(source=0)
"""
    result = site.run(2, HEAD + body)
    assert result.code == 1
    assert "rank 0 has ended in the middle of a call: thread 'MainThread' makes an MPI call" in result.err
    assert "only thread 'reader', which has initialised MPI, may" in result.err


@pytest.mark.spec("S2.7-2")
def test_error_that_nobody_catches_ends_the_job(site: Site) -> None:
    body = """
MPI.Init_thread()
Thread(comm.recv, daemon=True)
comm.Barrier()
if comm.rank == 1:
    comm.Recv(bytearray(1), source=99)
comm.recv(source=1)
"""
    result = site.run(2, HEAD + body)
    assert result.code == 1
    assert "aiompi-launch: rank 1 failed: InvalidRankError: " in result.err


def test_mpi_error_that_nobody_catches_in_a_thread_ends_the_job(site: Site) -> None:
    """The others would wait in vain. Other exceptions end only the thread, as in any program."""
    body = """
def work():
    raise ValueError("only this thread")

def misuse():
    comm.send(1, dest=99)

comm.Barrier()
for target in (work, misuse):
    if comm.rank == 1:
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
comm.recv(source=1 - comm.rank)
"""
    result = site.run(2, HEAD + body)
    assert result.code == 1
    assert "aiompi-launch: rank 1 failed: LocalProtocolError: thread " in result.err
    assert "ValueError: only this thread" in result.err
