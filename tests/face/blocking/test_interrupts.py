"""Interrupts of blocking calls: KeyboardInterrupt comes, and leaves nothing half done. Jobs of real processes."""

from __future__ import annotations

import pytest

from support.jobs import Site

HEAD = """
import os, signal, sys, threading, time
from aiompi import MPI

comm = MPI.COMM_WORLD
rank = comm.rank

def after(seconds, signum=signal.SIGINT):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signum))
    timer.start()
    return timer
"""


@pytest.mark.parametrize("core", ["native", "pure"])
def test_an_interrupt_at_any_line_of_a_call(site: Site, core: str) -> None:
    """It raises KeyboardInterrupt once, when the call waits or returns, and each message is whole."""
    body = """
import aiompi

FILES = os.path.dirname(aiompi.__file__), "aiompi/core/"

def interrupted(line, call):
    '''Make a call that is interrupted at a line of the library; return whether it has so many lines.'''
    left = line

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(FILES):
            return None
        if event == "line" and left:
            left -= 1
            if left == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    try:
        sys.settrace(trace)
        call()
        sys.settrace(None)
    except KeyboardInterrupt:
        assert left == 0
        return True
    assert left > 0, "it was lost"
    return False

for call in [
    lambda tag: comm.send([tag], dest=1, tag=tag),
    lambda tag: comm.recv(source=1, tag=tag),
    lambda tag: comm.Sendrecv(bytes(1000), 1 - rank, tag, bytearray(1000), 1 - rank, tag),
    lambda tag: comm.allreduce(tag),
    lambda tag: comm.bcast([tag]),
    lambda tag: comm.Dup().Free(),
]:
    more, line = True, 0
    while more:
        line += 1
        if rank == 0:
            more = interrupted(line, lambda: call(line))
        elif call.__code__.co_names[1] == "send":
            assert comm.recv(source=0, tag=line) == [line]
        elif call.__code__.co_names[1] == "recv":
            comm.send([line], dest=0, tag=line)
        else:
            call(line)
        comm.gather(None)  # behind what rank 1 has sent
        while rank == 0 and comm.iprobe(source=1):
            comm.Recv(bytearray(1000), source=1)
        more = comm.bcast(more)
    if rank == 0:
        print(line > 5)
"""
    job = site.ok(2, HEAD + body, env={"AIOMPI_CORE": core})
    assert job.out.splitlines() == ["True"] * 6


SLEEP = """
if rank == 0:
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    signal.signal(signal.SIGUSR1, lambda *_: comm.send("by a handler", dest=0))
    after(0.2, signal.SIGUSR1)
    assert comm.recv() == "by a handler"
    stop.set()
    other.join()
comm.barrier()
"""


def test_a_signal_just_before_a_sleep(site: Site) -> None:
    """It ends the sleep, as one that has come to another thread does: the system has not ended a sleep for it."""
    site.ok(2, HEAD + SLEEP)


def test_signals_among_threads(site: Site) -> None:
    """The main thread gets them, whatever the others do: they wait, work for the main thread, or poll."""
    body = """
def handled():
    come.append(True)
    comm.send("well", dest=0)

def poll():
    while not come:
        comm.iprobe(tag=1)
        time.sleep(0)

def operation(a, b, datatype):
    time.sleep(0.5)
    return a + b

def receive(*words):
    received.append(comm.recv(*words))

come, received = [], []
signal.signal(signal.SIGUSR1, lambda *_: handled())
if rank == 0:
    # another thread works for the main thread
    other = threading.Thread(target=receive, args=(None, 0, 1))
    other.start()
    time.sleep(0.1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    after(0.2)
    try:
        comm.recv(tag=2)
    except KeyboardInterrupt:
        comm.send("worked", dest=0, tag=1)
    other.join()
    assert received == ["worked"]
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

    # another thread polls
    other = threading.Thread(target=poll)
    other.start()
    after(0.1, signal.SIGUSR1)
    assert comm.recv() == "well"
    other.join()

    # another thread waits, and not the thread that serves the signals gets the interrupt
    other = threading.Thread(target=receive, args=(None, 1))
    other.start()
    time.sleep(0.1)
    after(0.2)
    try:
        MPI.Op.Create(operation)(1, 2)
        time.sleep(10)
    except KeyboardInterrupt:
        comm.send("waited", dest=1)
    other.join()
    assert received == ["worked", "waited"]
else:
    comm.send(comm.recv(source=0), dest=0)
"""
    site.ok(2, HEAD + SLEEP + body, env={"AIOMPI_THREAD_LEVEL": "multiple"})


def test_an_error_and_a_result_go_before_an_interrupt(site: Site) -> None:
    """And Finalize goes on when it is called again."""
    body = """
def operation(a, b, datatype):
    signal.raise_signal(signal.SIGINT)
    return 1 // b

def reduce(value):
    return MPI.Op.Create(operation)(1, value)

for value in (0, 1) if rank == 0 else ():
    result = None
    try:
        try:
            result = reduce(value)
        finally:
            time.sleep(10)
    except KeyboardInterrupt as error:
        print(repr(error.__context__), result)
comm.barrier()
if rank == 0:
    after(0.2)
    try:
        MPI.Finalize()
    except KeyboardInterrupt:
        comm = None
        MPI.Finalize()
        print("again:", MPI.Is_finalized())
else:
    time.sleep(0.5)
"""
    lines = site.ok(2, HEAD + body).out.splitlines()
    assert lines == ["ZeroDivisionError('integer division or modulo by zero') None", "None 1", "again: True"]


def test_signals_after_the_end_write_nowhere(site: Site) -> None:
    """Not into a file that has the number of a descriptor of the rank."""
    body = """
import tempfile
session = MPI.Session.Init()
MPI.Finalize()
thread = threading.Thread(target=session.Finalize)
thread.start()
thread.join()
files = [tempfile.TemporaryFile() for _ in range(50)]
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.raise_signal(signal.SIGUSR1)
print(sum(os.fstat(file.fileno()).st_size for file in files))
for file in files:
    file.close()
"""
    assert site.ok(1, HEAD + body, env={"AIOMPI_THREAD_LEVEL": "serialized"}).out == "0\n"


def test_an_interrupt_of_a_loop_of_calls(site: Site) -> None:
    """Also under a debugger, which goes on to trace. Each rank has another thread level."""
    head = """
import aiompi, os
aiompi.rc.thread_level = ["funneled", "serialized", "multiple"][int(os.environ["AIOMPI_RANK"])]
"""
    body = """
comm = MPI.COMM_SELF
for trace in {traces}:
    sys.settrace(trace)
    timer = after(0.1)
    try:
        assert True  # CPython 3.11 does not catch what a handler raises at the end of a loop that begins a block
        while True:
            {call}
    except KeyboardInterrupt:
        assert sys.gettrace() is trace
        sys.settrace(None)
    timer.join()
"""
    both = "(None, lambda *_: None)"
    calls = {"comm.barrier()": both, "comm.isend(1, dest=0).wait(); comm.recv()": "(None,)", "comm.iprobe()": both}
    parts = [body.format(call=call, traces=traces) for call, traces in calls.items()]
    text = "".join([head, HEAD, "assert MPI.Query_thread() == rank + 1\n", *parts])
    site.ok(3, text)


def test_an_operation_that_does_not_return(site: Site) -> None:
    """The first interrupt waits for its end, because a call is at work. A further one after a second does not."""
    body = """
def operation(a, b):
    while rank == 0:
        time.sleep(0.01)
    return a

if rank == 0:
    after(0.1), after(0.3), after(1.5)
    begun = time.monotonic()
try:
    comm.allreduce(1, op=operation)
except KeyboardInterrupt:
    print(time.monotonic() - begun > 1.4, flush=True)
    comm.Abort()
"""
    assert site.run(2, HEAD + body).out == "True\n"


def test_a_handler_of_the_program_stays(site: Site) -> None:
    body = """
import os, signal
handler = [signal.SIG_IGN, signal.SIG_DFL, print][int(os.environ["AIOMPI_RANK"])]
signal.signal(signal.SIGINT, handler)
from aiompi import MPI
MPI.COMM_WORLD.barrier()
assert signal.getsignal(signal.SIGINT) is handler
"""
    site.ok(3, body)


def test_an_event_loop_that_wakes_at_signals_keeps_its_descriptor(site: Site) -> None:
    body = """
import asyncio

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, done.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await done.wait()
    comm.barrier()
    MPI.Finalize()
    done.clear()
    os.kill(os.getpid(), signal.SIGUSR1)
    await done.wait()
    print("well")

done = asyncio.Event()
asyncio.run(main())
"""
    assert site.ok(1, HEAD + body, env={"AIOMPI_RUNNING_LOOP": "block", "PYTHONWARNINGS": "ignore"}).out == "well\n"
