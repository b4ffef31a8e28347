"""Test executors of the blocking face in jobs of real processes."""

from __future__ import annotations

import pytest

from support.jobs import Result, Site

HEAD = """
import dataclasses, os, pickle, sys, threading
import numpy
from aiompi import MPI, futures
from aiompi.futures import MPICommExecutor, MPIPoolExecutor

def square(number):
    return number * number

def where(*_):
    return MPI.COMM_WORLD.rank

def fail(text):
    raise KeyError(text)

@dataclasses.dataclass
class Point:
    x: int

def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"no {kind}")
"""


def run(site: Site, size: int, body: str, *args: str) -> Result:
    """Run a program that uses executors, and check that it succeeds and prints no error."""
    program = site.program(HEAD + body)
    result = site.launch("-n", str(size), "-m", "aiompi.futures", program, *args).finish()
    assert (result.code, result.err) == (0, ""), result
    return result


@pytest.mark.parametrize("size", [1, 3])
def test_pool(site: Site, size: int) -> None:
    """The executor behaves like those of concurrent.futures. If there is one process, a thread of it does the tasks.

    Tasks that run at the same time communicate. The communicator of a single worker is COMM_SELF.
    """
    body = """
seen = []
def together():
    comm = futures.get_comm_workers()
    return comm.size, comm.allgather(where())

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        assert executor._pool is None
        assert executor.bootup() is executor
        assert executor._pool.size == executor._max_workers == executor.num_workers  # packages read them
        assert executor.num_workers == max(1, MPI.COMM_WORLD.size - 1)
        assert executor.submit(square, 3).result() == 9
        assert list(executor.map(square, range(100), chunksize=7)) == [n * n for n in range(100)]
        assert sorted(executor.map(square, range(20), unordered=True)) == [n * n for n in range(20)]
        tasks = [executor.submit(together) for _ in range(executor.num_workers)]
        ranks = [*range(1, MPI.COMM_WORLD.size)] or [0]
        assert [task.result() for task in tasks] == [(len(ranks), ranks)] * len(ranks), "they communicate"
        assert list(executor.starmap(pow, [(2, 3), (3, 2)], buffersize=1)) == [8, 9]
        error = raises(KeyError, "mine", executor.submit(fail, "mine").result)
        assert "Traceback" in str(error.__cause__) and "in fail" in str(error.__cause__), error.__cause__
        array = numpy.arange(100_000.0)
        assert (executor.submit(numpy.multiply, array, 2).result() == array * 2).all()
        assert type(executor.submit(Point, 5).result()) is Point
        assert executor.submit(Point.__eq__, Point(5), Point(5)).result() is True
        done = futures.as_completed([executor.submit(square, n) for n in range(5)])
        assert sorted(future.result() for future in done) == [0, 1, 4, 9, 16]
        threads = [threading.Thread(target=lambda: seen.extend(executor.map(square, range(50)))) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sorted(seen) == sorted(4 * [n * n for n in range(50)])
        raises(ValueError, "positive", executor.map, square, [1], chunksize=0)
    raises(RuntimeError, "not the thread of a worker", futures.get_comm_workers)
    raises(RuntimeError, "shut down", executor.submit, square, 1)
    raises(RuntimeError, "shut down", executor.bootup)
    assert (executor.num_workers, executor._max_workers, executor._pool) == (0, 0, None)
    executor.shutdown()
    assert MPIPoolExecutor(1)._max_workers == 1
    assert set(MPIPoolExecutor(1).map(square, [5] * 10)) == {25}, "tasks of a second executor, never shut down"
    print("ok", sys.argv[1:])
"""
    assert run(site, size, body, "-x", "y").out == "ok ['-x', 'y']\n"


def test_workers_are_initialized_and_go_on_after_objects_that_cannot_be_pickled(site: Site) -> None:
    """A worker has the environment, the main program and its variables, and calls the initializer once."""
    body = """
if __name__ == "__main__":
    def guarded(): pass

def initialize(*args):
    assert os.environ["MINE"] == "1" and os.getcwd() == "/" and value == 5
    global initialized
    initialized = args

def look(_):
    return __name__, "guarded" in globals(), initialized

class Unpicklable:
    def __reduce__(self):
        raise ZeroDivisionError("mine")

def refuse():
    raise ZeroDivisionError("there")

class Unreadable:
    def __reduce__(self):
        return refuse, ()

if __name__ == "__main__":
    options = dict(env={"MINE": "1"}, wdir="/", globals={"value": 5})
    with MPIPoolExecutor(initializer=initialize, initargs=(1, 2), **options) as executor:
        assert set(executor.map(look, range(20))) == {("__worker__", False, (1, 2))}
    # A task fails with the exception that pickling or unpickling its arguments or its result raises.
    with MPIPoolExecutor() as executor:
        error = raises(ZeroDivisionError, "mine", executor.submit(len, [Unpicklable()]).result)
        assert error.__cause__ is None and "__reduce__" in error.__notes__[0]
        error = raises(ZeroDivisionError, "mine", executor.submit(Unpicklable).result)
        assert "__reduce__" in str(error.__cause__)
        error = raises(ZeroDivisionError, "there", executor.submit(len, [Unreadable()]).result)
        assert "in refuse" in str(error.__cause__)
        raises(ZeroDivisionError, "there", executor.submit(Unreadable).result)
        raises((AttributeError, pickle.PicklingError), "lambda", executor.submit(lambda: None).result)
        assert executor.submit(square, 3).result() == 9
    # Options for spawned processes have no effect here.
    with MPICommExecutor(MPI.COMM_WORLD, python_args=["-u"], mpi_info={"host": "none"}) as executor:
        print(list(executor.map(square, range(4))))
    raises(TypeError, "nothing_known", MPIPoolExecutor, nothing_known=1)
    with MPIPoolExecutor(initializer=fail, initargs=("mine",)) as executor:
        error = raises(futures.BrokenExecutor, "KeyError('mine')", executor.submit(square, 1).result)
        raises(futures.BrokenExecutor, "could not be initialized", executor.submit, square, 1)
        assert executor.bootup() is executor and executor.num_workers == 0
    with MPIPoolExecutor(initializer=fail, initargs=("mine",)) as executor:
        assert executor.bootup() is executor and executor.num_workers == 0
    with MPIPoolExecutor(max_workers=1) as executor:
        assert len(set(executor.map(where, range(30)))) <= 2 and executor.num_workers == 1
    raises(ValueError, "positive", MPIPoolExecutor, 0)
    raises(TypeError, "called", MPIPoolExecutor, initializer=5)
"""
    assert run(site, 3, body).out == "[0, 1, 4, 9]\n"


@pytest.mark.parametrize("size", [1, 3])
def test_executor_of_a_communicator(site: Site, size: int) -> None:
    """All ranks run the program, and those that are not the root serve it in the block. Their messages still arrive."""
    body = """
MPI.Init_thread(MPI.THREAD_MULTIPLE)
comm = MPI.COMM_WORLD
receive = comm.irecv(source=(comm.rank - 1) % comm.size)
for root in range(comm.size):
    block = MPICommExecutor(comm, root)
    with block as executor:
        if comm.rank == root:
            assert list(executor.map(square, range(30))) == [n * n for n in range(30)]
            assert root not in set(executor.map(where, range(20))) or comm.size == 1
            raises(RuntimeError, "entered already", block.__enter__)
        else:
            assert executor is None
    with block as executor:
        assert (executor is None) is (comm.rank != root)
        assert executor is None or executor.submit(square, 2).result() == 4
comm.send("after", dest=(comm.rank + 1) % comm.size)
assert receive.wait() == "after"
raises(ValueError, "no rank", MPICommExecutor, comm, comm.size)
print("ok")
"""
    assert site.ok(size, HEAD + body).lines == ["ok"] * size


def test_no_executor_without_progress(site: Site) -> None:
    """Without THREAD_MULTIPLE an executor raises, and names the setting, instead of waiting for ever."""
    body = """
from aiompi import MPI
from aiompi.futures import MPICommExecutor
MPI.COMM_WORLD.Barrier()
try:
    MPICommExecutor(MPI.COMM_WORLD).__enter__()
except RuntimeError as error:
    print(error, flush=True)
    MPI.COMM_WORLD.Abort(3)
"""
    result = site.run(2, body)
    assert result.code == 3
    assert "THREAD_MULTIPLE: set AIOMPI_THREAD_LEVEL=multiple" in result.out


def test_death_of_a_worker(site: Site) -> None:
    """The job ends and names the rank that died, with the cause."""
    body = """
def die():
    os._exit(7)

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        executor.submit(die).result()
"""
    program = site.program(HEAD + body)
    result = site.launch("-n", "2", "-m", "aiompi.futures", program).finish()
    assert result.code != 0
    assert "rank 1 exited with status 7" in result.err, result.err


@pytest.mark.parametrize(
    ("end", "code", "text"),
    [
        ("sys.exit(5)", 5, "rank 0 exited with status 5"),
        ("raise LookupError('mine')", 1, "LookupError: mine"),
    ],
)
def test_end_of_the_program(site: Site, end: str, code: int, text: str) -> None:
    """Workers end with the program, however it ends."""
    result = site.launch("-n", "2", "-m", "aiompi.futures", site.program(HEAD + end)).finish()
    assert result.code == code
    assert text in result.err
