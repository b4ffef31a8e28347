"""What an interrupt leaves of the waits of `aiompi.util.sync`. mpi4py's own tests of its classes are in tests/peers."""

from __future__ import annotations

from support.jobs import Site

HEAD = """
import os, signal, threading, time
from aiompi import MPI
from aiompi.util.sync import Condition, Counter, Mutex, Semaphore

comm = MPI.COMM_WORLD
rank = comm.rank

def interrupted(call):
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        return timer.join()
    raise AssertionError("it was not interrupted")
"""


def test_an_interrupt_gives_up_a_lock(site: Site) -> None:
    """Its grant, which comes later, is given back."""
    body = """
for make, free in (
    (lambda: Mutex(comm=comm), Mutex.free), (lambda: Semaphore(1, comm=comm), Semaphore.free),
):
    lock = make()
    if rank == 1:
        lock.acquire()
    comm.barrier()
    if rank == 0:
        interrupted(lock.acquire)
        print(lock.acquire(blocking=False))
    comm.barrier()
    if rank == 1:
        lock.release()
    for turn in range(2):
        with lock:
            pass
    free(lock)
"""
    assert site.ok(2, HEAD + body).out == "False\nFalse\n"


def test_an_interrupted_wait_for_a_condition_holds_the_lock(site: Site) -> None:
    body = """
condition = Condition(comm=comm)
if rank == 0:
    with condition:
        interrupted(condition.wait)
        print(condition.locked())
comm.barrier()
with condition:
    condition.notify_all()
comm.barrier()
with condition:
    pass
condition.free()
"""
    assert site.ok(2, HEAD + body).out == "True\n"


def test_a_counter_gives_no_answer_of_an_interrupted_call(site: Site) -> None:
    body = """
def ask():
    while True:
        numbers.append(counter.next())

counter, numbers = Counter(comm=comm), []
for _ in range(20):
    interrupted(ask) if rank else time.sleep(0.001)
after = counter.next()
print(numbers == sorted(set(numbers)) and after not in numbers)
counter.free()
"""
    assert site.ok(2, HEAD + body).lines == ["True", "True"]
