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
LEVELS = pytest.mark.parametrize("level", ["funneled", "serialized", "multiple"])


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


@LEVELS
def test_a_signal_just_before_a_sleep(site: Site, level: str) -> None:
    """It ends the sleep, as one that has come to another thread does: the system has not ended a sleep for it."""
    body = """
if rank == 0:
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    signal.signal(signal.SIGUSR1, lambda *_: comm.send("by a handler", dest=0))
    after(0.2, signal.SIGUSR1)
    print(comm.recv())
    stop.set()
comm.barrier()
"""
    assert site.ok(2, HEAD + body, env={"AIOMPI_THREAD_LEVEL": level}).out == "by a handler\n"


def test_a_signal_while_another_thread_works_for_the_main_thread(site: Site) -> None:
    body = """
if rank == 0:
    other = threading.Thread(target=lambda: print(comm.recv(tag=1)))
    other.start()
    time.sleep(0.1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    after(0.2)
    try:
        comm.recv(tag=2)
    except KeyboardInterrupt:
        comm.send("well", dest=0, tag=1)
    other.join()
comm.barrier()
"""
    assert site.ok(2, HEAD + body, env={"AIOMPI_THREAD_LEVEL": "multiple"}).out == "well\n"


def test_an_interrupt_while_another_thread_waits(site: Site) -> None:
    """The main thread gets it, and not the thread that serves the signals."""
    body = """
def operation(a, b, datatype):
    time.sleep(0.5)
    return a + b

def wait():
    print(comm.recv(source=1))

if rank == 0:
    other = threading.Thread(target=wait)
    other.start()
    time.sleep(0.1)
    timer = after(0.2)
    try:
        MPI.Op.Create(operation)(1, 2)
        time.sleep(10)
    except KeyboardInterrupt:
        comm.send("well", dest=1)
    other.join()
else:
    comm.send(comm.recv(source=0), dest=0)
"""
    assert site.ok(2, HEAD + body, env={"AIOMPI_THREAD_LEVEL": "multiple"}).out == "well\n"


def test_a_thread_that_polls_takes_no_signal_of_the_main_thread(site: Site) -> None:
    body = """
def poll():
    while not come:
        comm.iprobe(tag=1)
        time.sleep(0)

come = []
signal.signal(signal.SIGUSR1, lambda *_: (come.append(True), comm.send("well", dest=0)))
if rank == 0:
    other = threading.Thread(target=poll)
    other.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    after(0.1, signal.SIGUSR1)
    print(comm.recv())
    other.join()
comm.barrier()
"""
    assert site.ok(2, HEAD + body, env={"AIOMPI_THREAD_LEVEL": "multiple"}).out == "well\n"


def test_an_error_and_a_result_go_before_an_interrupt(site: Site) -> None:
    body = """
def operation(a, b, datatype):
    signal.raise_signal(signal.SIGINT)
    return 1 // b

def reduce(value):
    return MPI.Op.Create(operation)(1, value)

for value in 0, 1:
    result = None
    try:
        try:
            result = reduce(value)
        finally:
            time.sleep(10)
    except KeyboardInterrupt as error:
        print(repr(error.__context__), result)
"""
    lines = site.ok(1, HEAD + body).out.splitlines()
    assert lines == ["ZeroDivisionError('integer division or modulo by zero') None", "None 1"]


def test_an_interrupted_finalize_goes_on(site: Site) -> None:
    body = """
if rank == 0:
    after(0.2)
    try:
        MPI.Finalize()
    except KeyboardInterrupt:
        comm = None
        MPI.Finalize()
    print(MPI.Is_finalized())
else:
    time.sleep(0.5)
"""
    assert site.ok(2, HEAD + body).out == "True\n"


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


@LEVELS
@pytest.mark.parametrize("call", ["comm.barrier()", "comm.isend(1, dest=0).wait(); comm.recv()", "comm.iprobe()"])
def test_an_interrupt_of_a_loop_of_calls(site: Site, level: str, call: str) -> None:
    """Also under a debugger, which goes on to trace."""
    body = f"""
for trace in None, lambda *_: None:
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
    site.ok(1, HEAD + body, env={"AIOMPI_THREAD_LEVEL": level})


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


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "signal.SIG_DFL", "print"])
def test_a_handler_of_the_program_stays(site: Site, handler: str) -> None:
    body = f"""
import signal
signal.signal(signal.SIGINT, {handler})
from aiompi import MPI
MPI.COMM_WORLD.barrier()
print(signal.getsignal(signal.SIGINT) is {handler})
"""
    assert site.ok(1, body).out == "True\n"


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
