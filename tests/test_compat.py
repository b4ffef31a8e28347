"""Programs of mpi4py, run by aiompi."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import aiompi.compat
from support.jobs import LAUNCHER, Site
from support.pages import PAGES, text_of

PROGRAM = """
import pickle, subprocess, sys
from mpi4py import MPI
import mpi4py.futures
from mpi4py.util import dtlib, pkl5

def function():
    return sys.argv[1:]

comm = MPI.COMM_WORLD
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
assert dtlib.to_numpy_dtype(dtlib.from_numpy_dtype("(2,)d")).shape == (2,) and pkl5.Intracomm(comm) == comm
assert comm.bcast(function, 0)() == ["-x", "y"], "what the program defines is found under its name"
child = "import mpi4py; print(mpi4py.__author__)"  # which is no rank
print(comm.rank, comm.size, subprocess.check_output([sys.executable, "-c", child], text=True).strip())
"""


@pytest.mark.parametrize("words", [["-m", "app"], ["-c", PROGRAM]], ids=["module", "code"])
def test_forms_of_the_command_line(site: Site, words: list[str]) -> None:
    site.program(PROGRAM)
    result = site.start(sys.executable, "-m", "aiompi.compat", *words, "-x", "y").finish()
    assert (result.code, result.out, result.err) == (0, "0 1 aiompi\n", "")


@pytest.mark.parametrize("how", [["--mpi4py", "-n", "2"], ["-n", "2", "-m", "aiompi.compat"]], ids=["option", "module"])
def test_jobs(site: Site, how: list[str]) -> None:
    result = site.launch(*how, site.program(PROGRAM), "-x", "y").finish()
    assert (result.code, result.lines, result.err) == (0, ["0 2 aiompi", "1 2 aiompi"], "")


def test_nothing_to_run(site: Site, tmp_path: Path) -> None:
    for arguments in ([], ["-x"], ["-m"]):
        result = site.start(sys.executable, "-m", "aiompi.compat", *arguments).finish()
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("usage: python -m aiompi.compat")


#: runs command lines that start no program, and prints how each ends and what it prints
COMMAND_LINES = """
import contextlib, io, json, runpy, sys
ends = []
for line in json.loads(sys.argv[1]):
    module, *sys.argv[1:] = line.split()
    sys.modules.pop("mpi4py.run", None)  # of which runpy would warn
    printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed[0]), contextlib.redirect_stderr(printed[1]):
        try:
            end = runpy.run_module(module, run_name="__main__")
        except SystemExit as exit:
            end = exit.code
    ends.append((end, *(each.getvalue() for each in printed)))
print(json.dumps(ends))
"""
ANSWERS = {
    "mpi4py.run --version": "mpi4py 4.1",
    "mpi4py.run -prefix": "mpi4py",
    "mpi4py.run --mpi-library": "aiompi",
    "mpi4py.run --mpi-std-version": "MPI 4.1",
    "mpi4py.run --mpi-lib-version": "aiompi ",
    "mpi4py.run --help": "usage: python",
    "mpi4py --help": "usage: python",
}
WRONG = {
    "mpi4py.run": "No path specified",
    "mpi4py.run -rc": "Argument expected for option: -rc",
    "mpi4py.run -rc threads -c x": "Cannot parse rc option: threads",
    "mpi4py.run --nothing": "Unknown option: --nothing",
    "mpi4py.run -m": "Argument expected for option: -m",
}


def test_command_lines_of_mpi4py_that_start_nothing(site: Site) -> None:
    lines = [*ANSWERS, *WRONG]
    result = site.launch("--mpi4py", "-n", "1", site.program(COMMAND_LINES), json.dumps(lines)).finish()
    assert (result.code, result.err) == (0, "")
    ends = dict(zip(lines, json.loads(result.out), strict=True))
    for line, answer in ANSWERS.items():
        code, out, err = ends[line]
        assert (code, err, answer in out) == (0, "", True), (line, ends[line])
    for line, message in WRONG.items():
        code, out, err = ends[line]
        assert (code, out, err.startswith(message)) == (1, "", True), (line, ends[line])


@pytest.mark.parametrize(
    ("words", "out"),
    [
        ("mpi4py -rc threads=False,errors=abort -c program", "False abort\n"),
        ("mpi4py.run --rc=thread_level=serialized -c program", "True exception\n"),
        ("mpi4py.run - x", "stdin ['-', 'x']\n"),
    ],
)
def test_command_lines_of_mpi4py(site: Site, words: str, out: str) -> None:
    program = "from mpi4py import rc, MPI; print(rc.threads, rc.errors)"
    arguments = [program if word == "program" else word for word in words.split()]
    (site.directory / "stdin").write_text("import sys; print('stdin', sys.argv)")
    shell = 'exec "$@" <stdin'
    result = site.start("sh", "-c", shell, "sh", *LAUNCHER, "--mpi4py", "-n", "1", "-m", *arguments).finish()
    assert (result.code, result.out, result.err) == (0, out, "")


def test_a_status_that_is_true_is_1(site: Site) -> None:
    """As `unittest.main` ends a program whose tests fail."""
    program = "import sys; from mpi4py import MPI; sys.exit(True)"
    result = site.launch("--mpi4py", "-n", "1", "-m", "mpi4py", "-c", program).finish()
    assert result.code == 1
    assert "rank 0 called MPI_Abort(1)" in result.err


def test_check_of_an_installation_of_mpi4py(site: Site) -> None:
    lines = site.launch("--mpi4py", "-n", "2", "-m", "mpi4py.bench", "helloworld").finish().lines
    assert [line.split(" on ")[0] for line in lines] == [f"Hello, World! I am process {n} of 2" for n in range(2)]
    result = site.launch("--mpi4py", "-n", "1", "-m", "mpi4py.bench", "pingpong").finish()
    assert (result.code, "python -m aiompi.bench" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "level"),
    [("--no-threads", "SINGLE"), ("--thread-level=serialized", "SERIALIZED"), ("", "MULTIPLE")],
)
def test_thread_level_of_that_check(site: Site, options: str, level: str) -> None:
    """It is at least the one that is asked for, and lower levels are not raised to the default."""
    program = f"""
import sys
from mpi4py import bench
bench.main([*{options.split()!r}, "helloworld", "--quiet"])
from aiompi import MPI
assert MPI.THREAD_{level} <= MPI.Query_thread() <= max(MPI.THREAD_FUNNELED, MPI.THREAD_{level})
"""
    result = site.launch("--mpi4py", "-n", "1", site.program(program)).finish()
    assert (result.code, result.out, result.err) == (0, "", "")


def test_names_of_mpi4py(site: Site) -> None:
    program = """
import sys
from mpi4py import MPI, run
from mpi4py.futures.util import collect, compose
from mpi4py.util import pkl5
assert pkl5.Pickle is MPI.Pickle
if len(sys.argv) > 1:
    run.set_abort_status(SystemExit(int(sys.argv[1])))
else:
    run.run_command_line(["-c", "import sys; print(sys.argv)", "word"])
"""
    path = site.program(program)
    assert site.launch("--mpi4py", "-n", "1", path).finish().out == "['-c', 'word']\n"
    assert site.launch("--mpi4py", "-n", "1", path, "7").finish().code == 7


def test_integral_floats(site: Site) -> None:
    """As ranks, tags and counts. Other floats are refused, and floats that are data stay floats."""
    program = """
from mpi4py import MPI
import fractions
import numpy

world = MPI.COMM_WORLD
half, other = world.size / 2, (world.rank + world.size / 2) % 2
assert world.sendrecv(2.0, other, 1.0, None, other, 1.0) == 2.0
sent, received = numpy.arange(4.0), numpy.zeros(4)
world.Sendrecv([sent, 2.0, MPI.DOUBLE], dest=other, recvbuf=[received, (2.0, 1.0), MPI.DOUBLE], source=other)
assert received.tolist() == [0, 0, 1, 0]
requests = [world.Irecv(received, other, 2.0), world.isend(1.0, other, tag=3.0)]
world.Send(sent, other, 2.0)
requests[0].Wait()
assert type(world.recv(source=other, tag=3.0)) is float and (received == sent).all()
requests[1].wait()
assert type(world.bcast(1.0, root=half)) is float
world.Bcast([sent, 4.0, MPI.DOUBLE], 0.0)
assert world.Split(0.0, 1.0).size == 2
for number in (numpy.float32(0), numpy.float64(0), fractions.Fraction(0)):
    assert world.bcast(1.0, root=number) == 1.0
assert MPI.DOUBLE.Create_contiguous(4 / 2).size == 16 and MPI.INT.Create_vector(2.0, 1.0, 2.0).extent == 12
assert MPI.INT.Create_resized(0.0, 8.0).extent == 8 and len(MPI.Alloc_mem(8.0)) == 8
line = world.Create_cart(MPI.Compute_dims(world.size / 1, 1), [True])
assert line.Get_coords(1.0) == [1] and line.Shift(0.0, 1.0) == (1 - line.rank, 1 - line.rank)
try:
    world.send()
except TypeError as error:
    assert "send() missing 2 required" in str(error), error
try:
    world.send(1.0, 0.5)
except TypeError as error:
    print(str(error).partition(": ")[2])
"""
    result = site.launch("--mpi4py", "-n", "2", site.program(program)).finish()
    assert (result.code, result.lines, result.err) == (0, 2 * ["dest is 0.5: expected an integer"], "")


LATE = """
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    try:
        comm.recv(source=1)
    except MPI.Exception:
        assert comm.send("nobody receives this", 1) is comm.Send(bytes(1000), 1) is None
    for send, message in ((comm.ssend, None), (comm.send, bytes(10**6))):
        try:
            send(message, 1)
        except MPI.Exception as error:
            print(error)
"""


def test_messages_to_ranks_that_have_ended(site: Site) -> None:
    """Small ones are lost, as where they stay until all have ended; others cannot be."""
    result = site.launch("--mpi4py", "-n", "2", site.program(LATE)).finish()
    assert (result.code, result.err) == (0, "")
    assert result.lines == ["rank 1 has finalized: it sends and receives nothing more"] * 2


LEAVING = """
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    ended = False
    while not ended:
        try:
            comm.iprobe(source=1)
        except MPI.Exception:
            ended = True
        comm.send(None, 1)
    print("all sent")
"""


def test_messages_to_a_rank_that_is_ending(site: Site) -> None:
    """Also those that find its connection closed before this rank is told why."""
    result = site.launch("--mpi4py", "-n", "2", site.program(LEAVING)).finish()
    assert (result.code, result.err, result.out) == (0, "", "all sent\n")


def test_the_page_names_the_modules_that_are_there() -> None:
    """And says of none of them that it is not there."""
    (page,) = (page for page in PAGES if page.name == "mpi4py.md")
    lines = text_of(page).splitlines()
    head = " ".join(" ".join(lines[: lines.index("## Differences")]).split())
    missing = [
        line.split("|")[1] for line in lines if line.startswith("|") and line.split("|")[3].startswith(" not there")
    ]
    place = Path(aiompi.compat.__file__ or "").parent / "stand_in/mpi4py"
    for package in ("futures", "util"):
        said = head.partition(f"`mpi4py.{package}` with ")[2].partition("`mpi4py.")[0]
        for module in place.joinpath(package).glob("[a-z]*.py"):
            assert f"`{module.stem}`" in said, f"mpi4py.{package}.{module.stem}"
            assert not any(f"`mpi4py.{package}.{module.stem}`" in words for words in missing)
    assert missing
