"""Signal handlers that make MPI calls in the midst of a call that sleeps, in jobs of real processes."""

from __future__ import annotations

import pytest

from support.jobs import Site

HEAD = """
import signal, time
from aiompi import MPI

comm = MPI.COMM_WORLD
rank = comm.rank

def handle(action, after):
    signal.signal(signal.SIGALRM, lambda *_: action())
    signal.setitimer(signal.ITIMER_REAL, after)
"""


def environment(level: str, spin: str) -> dict[str, str]:
    return {"AIOMPI_THREAD_LEVEL": level, "AIOMPI_SPIN": spin}


@pytest.mark.parametrize(
    ("level", "spin"),
    [("funneled", "0"), ("funneled", "200e-6"), ("serialized", "0"), ("multiple", "200e-6"), ("multiple", "0")],
)
def test_a_handler_completes_what_is_waited_for(site: Site, level: str, spin: str) -> None:
    """And the wait goes on after its call, whatever that one has been told of, and has left for later."""
    body = """
if rank == 0:
    request = comm.irecv(source=0, tag=1)
    handle(lambda: comm.isend("by a handler", dest=0, tag=1), 0.1)
    print(request.wait())
    requests = [comm.irecv(source=1, tag=tag) for tag in range(3)]
    handle(lambda: comm.send("begin", dest=1), 0.1)
    print(MPI.Request.waitall(requests))
    request = comm.irecv(source=1)
    handle(request.Cancel, 0.1)
    status = MPI.Status()
    request.Wait(status)
    print(status.Is_cancelled())
    comm.send("end", dest=1)
else:
    comm.recv(source=0)
    for tag in range(3):
        comm.send(tag, dest=0, tag=tag)
    comm.recv(source=0)

for call in (
    lambda: comm.recv(source=1, tag=1), lambda: comm.iprobe(source=1, tag=1), lambda: comm.send(1, dest=1, tag=3),
):
    comm = comm.Dup()
    if rank == 0:
        handle(call, 0.05)
        print(comm.recv(source=1, tag=2))
    else:
        for tag in (1, 2):
            time.sleep(0.1)
            comm.send(tag, dest=0, tag=tag)
    comm.barrier()  # rank 1 must not be gone when the handler of a slow rank 0 sends
"""
    job = site.ok(2, HEAD + body, env=environment(level, spin))
    assert job.out.splitlines() == ["by a handler", "[0, 1, 2]", "True", "2", "2", "2"]


def test_a_handler_waits_in_a_thread_for_which_another_one_works(site: Site) -> None:
    """When that one ends, it is the wait of the handler that goes on."""
    body = """
import threading

def receive(tag):
    print(comm.recv(source=1, tag=tag), flush=True)
    comm.send("printed", dest=1)

def begin():
    comm.send("begun", dest=1)
    receive(2)

if rank == 0:
    other = threading.Thread(target=receive, args=(1,))
    other.start()
    time.sleep(0.1)
    handle(begin, 0.1)
    receive(3)
    other.join()
else:
    for tag in (1, 2, 3):
        comm.recv(source=0)
        time.sleep(0.1)
        comm.send(tag, dest=0, tag=tag)
    comm.recv(source=0)
"""
    job = site.ok(2, HEAD + body, env=environment("multiple", "0"))
    assert job.out.splitlines() == ["1", "2", "3"]


def test_a_message_that_was_probed_is_there_again_when_a_handler_raises(site: Site) -> None:
    body = """
import os
import numpy as np

class Late(Exception): pass

def late():
    raise Late

def interrupted(receive):
    try:
        handle(late, 0.1)
        receive()
    except Late:
        return True

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
buffer = bytearray(10**6)
for send, receive in (
    (comm.isend, lambda message: message.recv()),
    (comm.Isend, lambda message: message.Recv(buffer)),
):
    if rank == 0:
        other = comm.recv(source=1)
        message = comm.mprobe(source=1)
        print(interrupted(lambda: receive(message)), bool(message))
        os.kill(other, signal.SIGUSR1)
        received = receive(message)
        print(np.frombuffer(buffer if received is None else received, np.uint8).sum(), bool(message))
    else:
        comm.send(os.getpid(), dest=0)
        request = send(np.ones(10**6, np.uint8), dest=0)
        signal.sigwait([signal.SIGUSR1])  # what cannot be copied without this rank does not come before
        request.wait()
"""
    job = site.ok(2, HEAD + body, env={"AIOMPI_SINGLE_COPY": "0", "AIOMPI_SHM_EAGER_LIMIT": "0"})
    assert job.out.splitlines() == ["True True", "1000000 False"] * 2


def test_an_interrupt_of_a_collective_reaches_the_call_that_waits(site: Site) -> None:
    """For a message; and once more the one that waits for the collective."""
    body = """
import numpy as np

def interrupt():
    raise kind("interrupted")

def add(a, b, datatype):
    if rank == 0:
        handle(interrupt, 0.01)
        time.sleep(10)
    np.frombuffer(b, "d")[:] += np.frombuffer(a, "d")

for kind in (KeyboardInterrupt, SystemExit):
    comm = comm.Dup()
    ones, total = np.ones(4), np.zeros(4)
    comm.Barrier()
    if rank:
        comm.recv(source=0)
    request = comm.Iallreduce(ones, total, MPI.Op.Create(add))
    if rank == 0:
        for wait in (lambda: comm.sendrecv("begun", 1, source=1), request.Wait, lambda: comm.iprobe(source=1)):
            try:
                wait()
            except kind as error:
                print(error)
        comm.send("go on", dest=1)
        comm.recv(source=1)
    else:
        comm.recv(source=0)
        comm.send("late", dest=0)
"""
    job = site.ok(2, HEAD + body, env=environment("funneled", "0"))
    assert job.out.splitlines() == ["interrupted"] * 4
