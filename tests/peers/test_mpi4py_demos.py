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

#: programs that neither start nor end MPI themselves, by folder
PROGRAMS: Final = {
    ".": ["helloworld"],
    "compute-pi": ["cpi-cco"],
    "mandelbrot": ["mandelbrot"],
    "profiling": ["cpi", "ring", "threads"],
    "reductions": ["test_reductions"],
    "sequential": ["test_seq"],
    "threads": ["sendrecv"],
    "nxtval": ["nxtval-threads"],
    # of "MPI: The Complete Reference"
    "mpi-ref-v1": [
        *(f"ex-{n}" for n in ("2.01", "2.08", "2.16", "2.29", "2.32", "2.34", "2.35")),
        *(f"ex-3.{n:02}" for n in (*range(1, 10), 11, 12, 13)),
    ],
}
ONE_BY_ONE: Final = """
import os, runpy, sys
from mpi4py import MPI
for program in sys.argv[1:]:
    os.chdir(os.path.dirname(program))
    sys.path[0], sys.argv = os.getcwd(), [program]
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        assert not end.code, (program, end.code)
    MPI.COMM_WORLD.Barrier()  # some probe for messages of any process, which could be of the next program
    print("end of", program, flush=True)
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


def test_programs(site: Site, demos: Path) -> None:
    """One job runs them all; some need three ranks. Some show a picture if they find matplotlib."""
    programs = [str(demos / folder / f"{name}.py") for folder, names in PROGRAMS.items() for name in names]
    site.program("raise ImportError", "matplotlib.py")
    env = {"PYTHONPATH": f"{site.directory}{os.pathsep}{site.environ['PYTHONPATH']}"}
    job = site.launch("--mpi4py", "-n", "3", site.program(ONE_BY_ONE), *programs, env=env).finish()
    assert job.code == 0, job.err
    assert [program for program in programs if job.out.count(f"end of {program}\n") != 3] == []


def test_starts_and_ends(site: Site, demos: Path) -> None:
    """Each of these programs sets other parameters before MPI starts; those that start it are the ranks of one job."""
    programs = {i: str(demos / "init-fini" / f"test_{i}.py") for i in range(7)}
    jobs = [[programs.pop(3)], list(programs.values())]
    for names in jobs:
        sections = [word for name in names for word in (":", "--mpi4py", "-n", "1", name)]
        job = site.launch(*sections[1:]).finish()
        assert job.code == 0, job.err


def test_programs_that_spawn(site: Site, demos: Path) -> None:
    worker = Path(site.program(f"#!{sys.executable}\n" + (demos / "spawning" / "cpi-worker.py").read_text(), "worker"))
    worker.chmod(0o755)
    job = site.launch("--mpi4py", "-n", "1", str(demos / "spawning" / "cpi-master.py"), str(worker)).finish()
    assert (job.code, job.out.count("pi: 3.1416")) == (0, 1), job.err
    job = site.launch("--mpi4py", "-n", "2", str(demos / "nxtval" / "nxtval-dynproc.py")).finish()
    assert job.code == 0, job.err
    count = (str(demos / "compute-pi" / "cpi-dpm.py"), "2")
    job = site.start("sh", "-c", 'echo 100 | "$@"', "sh", *LAUNCHER, "--mpi4py", "-n", "1", *count).finish()
    assert (job.code, "computing units: 2 processes" in job.out) == (0, True), job.err


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
    "TestRunScript", "TestRunModule", "TestRunCommand.testArgv0", "TestRunCommand.testSuccess",
    "TestRunDirectory.testSuccess", "TestRunZipFile.testSuccess",
]  # fmt: skip
#: runs tests of a file that start jobs of one and of two ranks, of the latter only
TWO_RANKS: Final = """
import sys
__file__, *sys.argv[1:] = sys.argv[1:]
text = open(__file__, encoding="utf8").read()
assert text.count("in (1, 2):") == 8
exec(compile(text.replace("in (1, 2):", "in (2,):"), __file__, "exec"))
"""


def test_command_line(site: Site, demos: Path) -> None:
    """mpi4py's tests of `python -m mpi4py.run`, which start mpiexec some 15 times."""
    tests = (str(demos / "test-run" / "test_run.py"), *COMMAND_LINES)
    options = ("--mpi4py", "--as-mpiexec", sys.executable)
    job = site.launch(*options, site.program(TWO_RANKS), *tests, env={"PYTHONWARNINGS": ""}).finish(3 * LIMIT)
    assert job.code == 0, job.err
    assert "Ran 10 tests" in job.err
    assert job.err.endswith("OK\n")


def test_comm_executor(site: Site, demos: Path) -> None:
    """The picture has a hundredth of its points."""
    text = (demos / "futures" / "run_mandelbrot.py").read_text(encoding="utf8")
    program = site.program(text.replace("w = 750\nh = 500\n", "w = 75\nh = 50\n"))
    job = site.launch("--mpi4py", "-n", "3", program).finish()
    assert (job.code, "Mandelbrot Set 75x50" in job.out) == (0, True), job.err


def test_pool(site: Site, demos: Path) -> None:
    place = demos / "futures" / "run_cpi.py"
    job = site.launch("--mpi4py", "-n", "3", "-m", "mpi4py.futures", str(place)).finish()
    assert (job.code, "pi: 3.1415" in job.out) == (0, True), job.err


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
    """One worker for each executor that asks for no number. `test_init_pyargs` shows flags of Python."""
    classes = ("Init", "Bootup", "Shutdown", "Submit")
    names = ",".join(f"test_futures.ProcessPool{name}Test" for name in classes)
    tests = " ".join((names, *INNER, "test_use_pkl5_environ", "test_init_globals", "test_init_sys_flags"))
    words = ("-x", "SHARED=", "-x", "MPI4PY_FUTURES_MAX_WORKERS=1")
    job = passes(site, demos / "futures", "test_futures", tests, *words, ranks=1)
    assert int(job.out) > 20


def test_utilities(site: Site, demos: Path) -> None:
    """Pools of processes are tested in one rank only, and those of threads do not see the others."""
    tests = demos.parent / "test"
    assert passes(site, tests, "test_util_pool", "test_util_pool", ranks=1).out == "40\n"
    job = site.launch("--mpi4py", "-n", "3", site.program(SUITE), str(tests), "test_util_sync").finish()
    assert (job.code, job.out) == (0, "78\n" * 3), job.err
