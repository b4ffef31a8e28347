"""The demonstration programs of mpi4py that need no files or windows, as they are."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from peers.distribution import unpacked
from support.jobs import LAUNCHER, Result, Site
from support.limits import LIMIT

#: folder, programs, ranks
PROGRAMS: Final = {
    "helloworld": (".", ["helloworld.py"], 3),
    "pi": ("compute-pi", ["cpi-cco.py"], 3),
    "Mandelbrot": ("mandelbrot", ["mandelbrot.py"], 2),
    "profiling": ("profiling", ["cpi.py", "ring.py", "threads.py"], 3),
    "start and end": ("init-fini", [f"test_{i}.py" for i in range(7)], 2),
    "reductions": ("reductions", ["test_reductions.py"], 3),
    "sequential": ("sequential", ["test_seq.py"], 2),
    "threads": ("threads", ["sendrecv.py"], 2),
    "next value": ("nxtval", ["nxtval-threads.py"], 3),
}
CASES: Final = [(folder, program, ranks) for folder, programs, ranks in PROGRAMS.values() for program in programs]

#: of "MPI: The Complete Reference"
REFERENCE: Final = [
    *(f"ex-{n}.py" for n in ("2.01", "2.08", "2.16", "2.29", "2.32", "2.34", "2.35")),
    *(f"ex-3.{n:02}.py" for n in (*range(1, 10), 11, 12, 13)),
]
ONE_BY_ONE: Final = """
import runpy, sys
from mpi4py import MPI
for program in sys.argv[1:]:
    runpy.run_path(program, run_name="__main__")
    MPI.COMM_WORLD.Barrier()  # some probe for messages of any process, which could be of the next program
    print("end of", program)
"""


#: runs benchmarks with few rounds and short messages, which are its parameters
FEW_ROUNDS: Final = """
import importlib, inspect, os, sys
from mpi4py import MPI
sys.path.insert(0, os.getcwd())
for name in sys.argv[1:]:
    measure = getattr(importlib.import_module(name), name)
    rounds = {key: 2 for key in inspect.signature(measure).parameters if key.startswith(("skip", "loop"))}
    measure(**rounds, MAX_MSG_SIZE=1 << 16)
    if MPI.COMM_WORLD.rank == 0:
        print("end of", name, flush=True)
"""
OSU: Final = [
    "allgather",
    "alltoall",
    "alltoallv",
    "barrier",
    "bcast",
    "bibw",
    "bw",
    "gather",
    "latency",
    "multi_lat",
    "scatter",
]


#: runs a file of mpi4py's tests, in which the parts of mpi4py that it names have our counterparts, without some tests
SUITE: Final = """
import importlib, os, sys, types, unittest
from mpi4py import MPI, futures

directory, name, *left_out = sys.argv[1:]
sys.path[:0] = [directory, os.path.join(directory, "..", "..", "test")]
shared = os.environ.get("SHARED", "1") or None
futures._core = types.SimpleNamespace(SharedPool=shared, MAIN_RUN_NAME="__main__", RemoteTraceback=Exception)
MPI.Win.Allocate = lambda *_: types.SimpleNamespace(Free=lambda: None)  # it is there for counters and locks
if __name__ == "__main__":
    def flat(tests):
        return [test for each in tests for test in flat(each)] if isinstance(tests, unittest.TestSuite) else [tests]

    tests = flat(unittest.defaultTestLoader.loadTestsFromNames(name.split(",")))
    suite = unittest.TestSuite(test for test in tests if test.id().split(".")[-1] not in left_out)
    print(suite.countTestCases())
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())
else:
    importlib.import_module(name.split(".")[0])
"""
#: in its files, what is before a time, and the time
TIMES: Final = re.compile(
    r"((?:time\.sleep|sleep_and_raise), |time\.sleep\(|timeout=|TIMEOUT\d = |\[0, 0, |\[)"
    r"(\d+\.\d+|1(?=\], timeout|\] \+|\)))"
)
#: tests of parts of mpi4py's executors that are not public, and of an error where we have none
INNER: Final = [
    "test_bootup_shutdown_nowait", "test_context_manager_shutdown", "test_del_shutdown", "test_init_bootup_shutdown",
    "test_map_buffersize", "test_mpi_serialized_support", "test_run_name", "test_shutdown", "test_shutdown_cancel",
]  # fmt: skip


@pytest.fixture(scope="session")
def demos() -> Path:
    return unpacked("mpi4py", "4.1.2") / "demo"


@pytest.mark.parametrize(("folder", "program", "ranks"), CASES)
def test_program(site: Site, demos: Path, folder: str, program: str, ranks: int) -> None:
    """Some show a picture if they find matplotlib."""
    place = demos / folder
    site.program("raise ImportError", "matplotlib.py")
    env = {"PYTHONPATH": f"{site.directory}{os.pathsep}{site.environ['PYTHONPATH']}"}
    options = ("--mpi4py", "-n", str(ranks), "--wdir", str(place))
    job = site.launch(*options, str(place / program), env=env).finish()
    assert job.code == 0, job.err


@pytest.mark.parametrize("ranks", [1, 2])
def test_programs_that_spawn(site: Site, demos: Path, ranks: int) -> None:
    worker = Path(site.program(f"#!{sys.executable}\n" + (demos / "spawning" / "cpi-worker.py").read_text(), "worker"))
    worker.chmod(0o755)
    launch = ("--mpi4py", "-n", str(ranks))
    job = site.launch(*launch, str(demos / "spawning" / "cpi-master.py"), str(worker)).finish()
    assert (job.code, job.out.count("pi: 3.1416")) == (0, ranks), job.err
    job = site.launch(*launch, "--wdir", str(demos / "nxtval"), "nxtval-dynproc.py").finish()
    assert job.code == 0, job.err
    count = (str(demos / "compute-pi" / "cpi-dpm.py"), str(ranks))
    job = site.start("sh", "-c", 'echo 100 | "$@"', "sh", *LAUNCHER, "--mpi4py", "-n", "1", *count).finish()
    assert (job.code, f"computing units: {ranks} processes" in job.out) == (0, True), job.err


def test_reference(site: Site, demos: Path) -> None:
    """None of these short programs starts or ends MPI itself, so that one job runs them all; some need three ranks."""
    place = demos / "mpi-ref-v1"
    job = site.launch("--mpi4py", "-n", "3", "--wdir", str(place), site.program(ONE_BY_ONE), *REFERENCE).finish()
    assert job.code == 0, job.err
    for program in REFERENCE:
        assert job.out.count(f"end of {program}\n") == 3


def test_osu_benchmarks(site: Site, demos: Path) -> None:
    options = ("--mpi4py", "-n", "2", "--wdir", str(demos))
    job = site.launch(*options, site.program(FEW_ROUNDS), *(f"osu_{name}" for name in OSU)).finish()
    assert (job.code, job.err) == (0, "")
    rest = job.out
    for name in OSU:
        printed, end, rest = rest.partition(f"end of osu_{name}\n")
        assert end
        assert printed.count("\n") >= (3 if name == "barrier" else 17), name


#: of mpi4py's tests of `python -m mpi4py.run`: how a program ends, for a file; that it does so, for the other forms
COMMAND_LINES: Final = [
    "TestRunScript", "TestRunModule", "TestRunCommand",
    *(f"TestRun{form}.test{end}" for form in ("Directory", "ZipFile") for end in ("Success", "Exception")),
]  # fmt: skip


def test_command_line(site: Site, demos: Path) -> None:
    """mpi4py's tests of `python -m mpi4py.run`, which start mpiexec some 30 times."""
    options = ("--mpi4py", "--as-mpiexec", sys.executable, str(demos / "test-run" / "test_run.py"))
    job = site.launch(*options, *COMMAND_LINES, env={"PYTHONWARNINGS": ""}).finish(3 * LIMIT)
    assert job.code == 0, job.err
    assert "Ran 13 tests" in job.err
    assert job.err.endswith("OK\n")


def test_comm_executor(site: Site, demos: Path) -> None:
    """The picture has a hundredth of its points."""
    text = (demos / "futures" / "run_mandelbrot.py").read_text(encoding="utf8")
    program = site.program(text.replace("w = 750\nh = 500\n", "w = 75\nh = 50\n"))
    job = site.launch("--mpi4py", "-n", "3", program).finish()
    assert (job.code, "Mandelbrot Set 75x50" in job.out) == (0, True), job.err


@pytest.mark.parametrize("program", ["run_hello.py", "run_cpi.py", "run_primes.py"])
def test_pool(site: Site, demos: Path, program: str) -> None:
    place = demos / "futures" / program
    job = site.launch("--mpi4py", "-n", "3", "-m", "mpi4py.futures", str(place)).finish()
    assert job.code == 0, job.err


def passes(site: Site, folder: Path, name: str, tests: str, *words: str, ranks: int) -> Result:
    """Run a file of mpi4py's tests as a job that must succeed.

    They expect that what is submitted ends within a fraction of a second, which a busy machine does not keep. So all
    times of the file are five times as long.
    """
    copy = site.directory / "longer" / "demo" / "futures"
    copy.mkdir(parents=True)
    (copy.parent.parent / "test").symlink_to(folder.parent.parent / "test" if folder.name == "futures" else folder)
    text, count = TIMES.subn(r"\g<1>5 * \g<2>", (folder / f"{name}.py").read_text(encoding="utf8"))
    assert count
    (copy / f"{name}.py").write_text(text, encoding="utf8")
    options = ("--mpi4py", "-n", str(ranks), *words)
    result = site.launch(*options, site.program(SUITE), str(copy), *tests.split()).finish(3 * LIMIT)
    assert result.code == 0, result.err
    return result


def test_futures(site: Site, demos: Path) -> None:
    words = ("-m", "mpi4py.futures")
    tests = " ".join(("test_futures", *INNER))
    job = passes(site, demos / "futures", "test_futures", tests, *words, ranks=3)
    assert int(job.out) > 100


def test_futures_whose_workers_are_started(site: Site, demos: Path) -> None:
    classes = ("Init", "Bootup", "Shutdown", "Submit", "Pickle")
    names = ",".join(f"test_futures.ProcessPool{name}Test" for name in classes)
    tests = " ".join((names, *INNER, "test_use_pkl5_environ", "test_init_globals"))
    job = passes(site, demos / "futures", "test_futures", tests, "-x", "SHARED=", ranks=1)
    assert int(job.out) > 20


@pytest.mark.parametrize("ranks", [1, 3])
def test_utilities(site: Site, demos: Path, ranks: int) -> None:
    tests = demos.parent / "test"
    job = passes(site, tests, "test_util_pool", "test_util_pool", ranks=ranks)
    assert job.out == "40\n" * ranks
    job = site.launch("--mpi4py", "-n", str(ranks), site.program(SUITE), str(tests), "test_util_sync").finish()
    assert (job.code, job.out) == (0, "78\n" * ranks), job.err
