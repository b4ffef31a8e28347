"""Ranks of one Python program that are forked from one process: they find what they would find in one of their own."""

from __future__ import annotations

import errno
import json
import os
import py_compile
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aiompi_launcher.start.forked import adopting, execute_server
from aiompi_launcher.start.forkserver import Order
from aiompi_launcher.start.python import PythonProgram
from support.jobs import ROOTS, Site
from support.limits import LIMIT
from support.measured import UNMEASURED

WHAT = '''
"""A program."""
import contextlib, json, os, pathlib, re, signal, sys, threading

def annotated(argument: int): ...

def stream(file):
    names = ("encoding", "errors", "line_buffering", "write_through", "mode", "name", "closed")
    values = {name: getattr(file, name) for name in names}
    return values | {"isatty": file.isatty(), "seekable": file.seekable(), "buffer": type(file.buffer).__name__}

def descriptors():
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            yield int(name), re.sub("[0-9]+", "", os.readlink(f"/proc/self/fd/{name}")), os.get_inheritable(int(name))

streams = [sys.stdin, sys.stdout, sys.stderr]
print(json.dumps({
    "rank": os.environ["AIOMPI_RANK"],
    "argv": [sys.argv, sys.orig_argv, sys.path, sys.flags, sys.warnoptions],
    "module": [__name__, __file__, __doc__, __package__, getattr(__spec__, "name", None), type(__loader__).__name__],
    "globals": sorted(globals()),
    "builtins": type(__builtins__).__name__,
    "cached": globals().get("__cached__"),
    "thread": threading.main_thread().native_id == os.getpid(),
    "shown": pathlib.Path("/proc/self/cmdline").read_text().rstrip(chr(0)),
    "annotations": str(annotated.__annotations__),
    "streams": list(map(stream, streams)),
    "originals": streams == [sys.__stdin__, sys.__stdout__, sys.__stderr__],
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "mask": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "descriptors": sorted(descriptors()),
    "cwd": os.getcwd(),
    "leader": os.getpgrp() == os.getpid() != os.getsid(0),
    "hook": sys.excepthook is sys.__excepthook__,
    "environ": sorted(os.environ),
    "umask": os.umask(0),
    "main": sys.modules["__main__"].__dict__ is globals(),
    "forked": "aiompi.MPI" in sys.modules,
}))
'''

#: the program above, without what the text of -c has not
WHAT_CODE = WHAT.replace("__file__, ", "")
APP = PythonProgram((sys.executable,), ("app.py",))
#: the command line of the process that forks is longer, and filled up
FORKED = "open('/proc/self/cmdline').read().endswith(chr(0) * 2)"


def facts(launch, directory: Path, *words: str, forked: list[bool], **options) -> list[object]:
    """What the ranks of a job have found, in their order, and which of them must be forked."""
    result = launch(*words, cwd=directory, input="text", **options)
    # With PYTHONDEVMODE asyncio tells of each step of the launcher that takes a tenth of a second on a busy machine.
    told = re.sub(r"(?m)^Executing <.*> took [0-9.]+ seconds\n", "", result.stderr)
    assert (result.returncode, told) == (0, "")
    lines = (result.stdout + "".join(path.read_text() for path in directory.glob("out/rank.*"))).splitlines()
    found = sorted(map(json.loads, lines), key=lambda each: int(each["rank"]))
    assert [each.pop("forked") for each in found] == forked
    return found


def sections(*lines: str) -> list[str]:
    """A command line of programs that get the same arguments."""
    words = [[":", *line.replace("CODE", "\0").split(" "), "a", "b"] for line in lines]
    return [WHAT_CODE if word == "\0" else word for line in words for word in line][1:]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with programs, not the working directory of the test."""
    (tmp_path / "sub").mkdir()
    for name in ("what.py", "sub/what.py", "sub/__main__.py"):
        (tmp_path / name).write_text(WHAT)
    (tmp_path / "link.py").symlink_to("sub/what.py")
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.writestr("__main__.py", WHAT)
    for name in ("what.pyc", "compiled"):
        py_compile.compile(str(tmp_path / "what.py"), str(tmp_path / name), doraise=True)
    return tmp_path


#: how a program is named for which the launcher's own fork server suffices
WAYS = [
    *("what.py", "sub/../link.py", "-m what", "-m sub.what", "-m sub", "python -c CODE"),
    *("python ./sub/../sub", "python archive", "python what.pyc", "python compiled"),
]
OPTIONS = f"-n 2 {sys.executable} -uBO -W ignore -Xdev -bb what.py"


@pytest.mark.parametrize(
    ("lines", "env"),
    [
        ([*WAYS, OPTIONS], {}),
        (
            ["--mpi4py what.py"],
            {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "latin-1", "PYTHONPATH": os.pathsep.join(["sub", *ROOTS])},
        ),
        (["--output-dir out --wdir sub what.py"], {"PYTHONDEVMODE": "1", "PYTHONIOENCODING": ":replace"}),
    ],
    ids=["named in many ways", "unbuffered", "with files for output"],
)
def test_a_program_finds_what_it_finds_in_a_python_of_its_own(launch, directory: Path, lines: list[str], env):
    words, size = sections(*lines), len(lines) + (OPTIONS in lines)
    found = facts(launch, directory, *words, forked=[True] * size, env=env)
    assert found == facts(launch, directory, "--no-prefork", *words, forked=[False] * size, env=env)
    places = {each["cwd"] for each in found}
    assert places == {str(directory / "sub" if "--wdir" in words else directory)}


AGENTS = ("--starter", "local", "--hosts", "a,b")


def test_a_rank_of_an_agent_finds_what_it_finds_in_a_python_of_its_own(launch, directory: Path):
    """An agent forks itself before it knows the program. Then ps shows the program nevertheless."""
    # The second host has the last two.
    words = sections(
        "what.py", "python -m sub.what", "--env LC_ALL=POSIX what.py", "python archive", "python -bb what.py"
    )
    agents, env = ("--starter", "local", "--hosts", "a:3,b:2"), {"PYTHONUNBUFFERED": "1", "LC_ALL": "C"}
    found = facts(launch, directory, *agents, *words, forked=[True, True, False, True, False], env=env)
    assert found == facts(launch, directory, *agents, "--no-prefork", *words, forked=[False] * 5, env=env)


def test_an_agent_that_cannot_fork_any_of_its_ranks(launch, directory: Path):
    """It ends its fork server."""
    facts(launch, directory, *AGENTS, "python", "-bb", "what.py", forked=[False] * 2)


def test_ranks_are_children_of_the_launcher_and_their_server_is_gone(launch, tmp_path: Path, wait_until):
    program = tmp_path / "app.py"
    program.write_text("import os, time\nprint(os.getpid(), os.getpgrp(), flush=True)\ntime.sleep(100)\n")
    running = launch.start("-n", "3", str(program))
    ranks, groups = zip(*(map(int, running.line().split()) for _ in range(3)), strict=True)
    assert groups == ranks
    watchdog = 1
    wait_until(lambda: len(children(running.process.pid)) == 3 + watchdog, "the server has ended")
    assert children(running.process.pid) > set(ranks)
    running.signal(signal.SIGTERM)
    assert running.end().returncode == 143


def children(pid: int) -> set[int]:
    """Processes whose parent this is."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return {child for child, parent in parents.items() if parent == pid}


def test_ranks_of_several_programs(launch, tmp_path: Path):
    """Code lies at the same addresses, numbers are random, objects are torn down, and one rank reads the input."""
    (tmp_path / "app.py").write_text(
        "import random, numpy\n"
        "code = next(line for line in open('/proc/self/maps') if ' r-xp ' in line and 'python' in line)\n"
        "print(code.split('-')[0], random.random(), numpy.random.random(), flush=True)\n"
    )
    # A file that is left open is complete. Modules that a rank has imported before are not torn down.
    (tmp_path / "last.py").write_text(
        "import json, os, sys\n"
        "class Last:\n"
        "    def __del__(self): print('gone', json.dumps is not None)\n"
        "last, file = Last(), open(os.environ['AIOMPI_RANK'], 'w')\n"
        "file.write('text')\n"
    )
    (tmp_path / "reads.py").write_text(f"import sys\nprint([sys.stdin.read(), {FORKED}])")
    words = ["-n", "2", "reads.py", ":", "true", ":", "last.py", ":", "-n", "3", "app.py"]
    result = launch("--stdin", "1", "--tag-output", *words, input="hello\n", cwd=tmp_path)
    first, second, last, *lines = sorted(result.stdout.splitlines())
    assert (first, second) == ("[0] ['', True]", r"[1] ['hello\n', True]")
    assert (last, (tmp_path / "3").read_text()) == ("[3] gone True", "text")
    columns = zip(*map(str.split, lines), strict=True)
    assert [len(set(column)) for column in columns] == [3, 1, 3, 3]
    assert (result.returncode, result.stderr) == (0, "")


HOOK = """
import sys

def hook(kind, error, traceback):
    lengths = (count(each) for each in (traceback, error.__traceback__, sys.last_traceback))
    print("hook", *lengths, sys.excepthook is hook, file=sys.stderr)

def count(traceback): return 0 if traceback is None else 1 + count(traceback.tb_next)

sys.excepthook = hook
raise ValueError
"""


#: program -> its status, and what is told of its end
BAD_ENDS = [
    ("def function():\n    raise ValueError('told')\n\nfunction()", 1, "ValueError: told"),
    ("try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError('told') from error", 1, "ValueError: told"),
    ("raise ExceptionGroup('all', [KeyError('one'), KeyError('two')])", 1, "KeyError: 'two'"),
    ("import broken", 1, "SyntaxError: '(' was never closed"),
    ("print(", 1, "SyntaxError: '(' was never closed"),
    ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
    (HOOK, 1, "hook 1 1 1"),
    ("import sys; sys.exit(3)", 3, ""),
    ("import sys; sys.exit('told')", 1, "told"),
    ("import os; os._exit(4)", 4, ""),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
]


def test_bad_ends_are_those_of_a_python_of_its_own(tmp_path: Path, wait_until):
    (tmp_path / "broken.py").write_text("print(")
    paths = [tmp_path / f"app{number}.py" for number in range(len(BAD_ENDS))]
    server = execute_server(APP, directory=None, environ={"PYTHONPATH": os.pathsep.join(ROOTS)})
    with adopting(), open(os.devnull, "r+b") as null:
        ranks = []
        for path, (text, _, _) in zip(paths, BAD_ENDS, strict=True):
            path.write_text(text)
            with path.with_suffix(".err").open("wb") as file:
                command = PythonProgram((sys.executable,), (str(path),))
                ranks.append(server.start(order(command), [null.fileno(), null.fileno(), file.fileno()], {}))
        server.close()
    for path, rank, (text, status, ending) in zip(paths, ranks, BAD_ENDS, strict=True):
        wait_until(lambda rank=rank: rank.poll() is not None, f"the end of {text}")
        own = subprocess.run([sys.executable, path], check=False, stderr=subprocess.PIPE, timeout=LIMIT)
        assert (rank.poll(), path.with_suffix(".err").read_bytes()) == (own.returncode, own.stderr), text
        assert own.returncode == status
        assert ending in own.stderr.decode()
        rank.release()


@pytest.mark.parametrize("hosts", [(), AGENTS], ids=["launcher", "agents"])
def test_bad_ends_are_told_as_those_of_a_python_of_its_own(launch, tmp_path: Path, hosts):
    """So are the errors that the launcher repeats because they are in a file."""
    (tmp_path / "app.py").write_text(BAD_ENDS[0][0])
    words = [*hosts, "-n", "2", "--output-dir", "out", "app.py"]
    forked, executed = (launch(*prefork, *words, cwd=tmp_path) for prefork in ([], ["--no-prefork"]))
    assert forked.returncode == executed.returncode == 1
    messages = [re.sub("rank [01]( on [ab])?", "rank N", result.stderr) for result in (forked, executed)]
    assert messages[0] == messages[1]
    assert "ValueError: told" in messages[0]


@pytest.mark.parametrize(
    ("env", "lines"),
    [
        (
            {},
            {
                "--env A=1 app.py": True,
                "-n 2 --env TZ=XYZ0 --env AIOMPI_CORE=pure --wdir . app.py": True,
                "python -u app.py": False,
                "-n 2 python -I app.py": False,
                "env python app.py": False,
                "-n 2 --env PYTHONHASHSEED=0 app.py": False,
            },
        ),
        ({"PYTHONHASHSEED": "0"}, {"-n 2 -m app": True, "-n 2 -x PYTHONHASHSEED app.py": False}),
        ({"PYTHONSAFEPATH": "1"}, {"-n 2 app.py": False}),
    ],
    ids=["no variables", "hash seed", "safe path"],
)
def test_which_ranks_are_forked(launch, tmp_path: Path, env, lines: dict[str, bool]):
    """A fork server of its own has the variables that are read at the start."""
    (tmp_path / "app.py").write_text(f"""
import os, sys, time
core = "TZ" in os.environ and __import__("aiompi.core").core.form
print(sys.argv[1:], {FORKED}, sys.flags.hash_randomization, core, time.tzname[0] == "XYZ")""")
    words = [word for line in lines for word in (":", *line.split(), line)]
    result = launch(*words[1:], env=env, cwd=tmp_path)
    expected = []
    for line, forked in lines.items():
        randomized, own = int("HASHSEED" not in f"{line} {env}"), "TZ" in line
        expected += [f"{[line]} {forked} {randomized} {'pure' if own else False} {own}"] * (1 + ("-n 2" in line))
    assert (sorted(result.stdout.splitlines()), result.stderr) == (sorted(expected), "")


#: file in the directory of a program, its text, whether the program's rank is forked
USUAL_NAMES = [
    ("pickle.py", "NAME = 'pickle'", False),
    ("json/__init__.py", "NAME = 'json'", False),
    ("cmd.py", "NAME = 'cmd'", True),
    ("data.py", "NAME = 'data'", True),
    ("email/notes.txt", "", True),
]


@UNMEASURED
def test_modules_of_a_program_with_usual_names(launch, tmp_path: Path):
    """They are found in place of modules that a rank would have imported before."""
    words, expected = [], []
    for path, text, forked in USUAL_NAMES:
        name = path.partition("/")[0].partition(".")[0]
        place = tmp_path / f"with_{name}"
        (place / path).parent.mkdir(parents=True)
        (place / path).write_text(text)
        found = f"import {name}\nassert {name}.NAME == {name!r}" if text else ""
        text = f"import os, sys\n{found}\nprint(os.getcwd(), sys.orig_argv[1:], 'aiompi.MPI' in sys.modules)"
        for each in ("app.py", "__main__.py"):
            (place / each).write_text(text)
        with zipfile.ZipFile(place / "archive", "w") as archive:
            archive.write(place / path, path)
            archive.writestr("__main__.py", text)
        ways = (["app.py"], ["-m", "app"], ["-c", "import app"], ["."], ["archive"])
        for way in ways if name in ("pickle", "cmd") else ways[:1]:
            words += [":", "--wdir", str(place), "python", *way]
            expected.append(f"{place} {way} {forked}")
    # Modules beside a program that is a directory are not found.
    app = tmp_path / "app"
    app.mkdir()
    (app / "__main__.py").write_text(
        "import sys, importlib.util as util\nprint(util.find_spec('beside'), 'aiompi.MPI' in sys.modules)"
    )
    for name in ("beside.py", "json.py"):
        (tmp_path / name).touch()
    result = launch(*words[1:], ":", "python", "app", cwd=tmp_path)
    assert (sorted(result.stdout.splitlines()), result.stderr) == (sorted([*expected, "None True"]), "")


@pytest.mark.parametrize("hosts", [(), AGENTS], ids=["launcher", "agents"])
def test_descriptors_that_the_launcher_lacks_are_open_in_its_ranks(tmp_path: Path, hosts):
    (tmp_path / "app.py").write_text(
        "import os, sys\n"
        "for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):\n"
        "    assert stream.fileno() == number and (not number or stream.write('word'))\n"
        f"open(os.environ['AIOMPI_RANK'], 'w').write(str({FORKED}))\n"
    )
    words = [sys.executable, "-m", "aiompi_launcher", *hosts, "-n", "2", "app.py"]
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS)}
    subprocess.run(command, cwd=tmp_path, env=env, timeout=LIMIT, capture_output=True, check=True)
    assert [(tmp_path / name).read_text() for name in "01"] == ["True"] * 2


@UNMEASURED
def test_what_is_imported_before_the_fork_has_no_state():
    script = (
        "import os, sys, threading\n"
        "from aiompi_launcher.start import forkserver\n"
        "before = os.listdir('/proc/self/fd')\n"
        "forkserver.import_what_ranks_need()\n"
        "assert os.listdir('/proc/self/fd') == before\n"
        "assert threading.active_count() == len(os.listdir('/proc/self/task')) == 1\n"
        "assert not {'numpy', 'random', 'secrets', 'uuid', 'tempfile', 'logging.handlers'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=LIMIT)


def test_what_is_missing_is_told_once(launch, tmp_path: Path):
    (tmp_path / "app.py").touch()
    for words in (["./none.py"], ["--wdir", str(tmp_path / "none"), str(tmp_path / "app.py")]):
        result = launch("-n", "2", *words, env={"PYTHONWARNINGS": "error"})
        assert (result.returncode, len(result.stderr.splitlines())) == (127, 1)
        assert result.stderr.startswith("aiompi-launch: rank 0 cannot be started: ")
        assert result.stderr.endswith("none: No such file or directory\n") or "none.py: No such" in result.stderr


@pytest.fixture
def forks(tmp_path: Path):
    """The environment for a launcher whose fork servers fork by `fork()` of this text, which has the `original`."""

    def forks(text: str) -> dict[str, str]:
        head = "import errno, os, signal, sys\noriginal = os.fork\n"
        (tmp_path / "sitecustomize.py").write_text(
            f"{head}{text}\nos.fork = lambda: (fork if 'aiompi.MPI' in sys.modules else original)()"
        )
        return {"PYTHONPATH": os.pathsep.join([str(tmp_path), *ROOTS])}

    return forks


def test_a_rank_that_cannot_be_forked(launch, tmp_path: Path, forks):
    env = forks("""
def fork(count=[]):
    count.append(1)
    if len(count) > 1:
        raise BlockingIOError(errno.EAGAIN, "not this text")
    return original()
""")
    (tmp_path / "app.py").write_text("import time\ntime.sleep(100)")
    result = launch("-n", "3", "app.py", env=env, cwd=tmp_path)
    message = f"rank 1 cannot be started: {os.strerror(errno.EAGAIN)}"
    assert (result.returncode, result.stderr) == (126, f"aiompi-launch: {message}\n")


def test_a_launcher_that_is_killed_when_a_rank_has_been_forked(site: Site, forks):
    env = forks("""
def fork():
    pid = original()
    if pid:
        os.kill(os.getppid(), signal.SIGKILL)
    return pid
""")
    job = site.launch("-n", "2", site.program("import time\ntime.sleep(10000)"), env=env)
    assert job.process.wait(LIMIT) == -signal.SIGKILL
    site.settle()


def order(program: PythonProgram) -> Order:
    return Order(sys.executable, *program, directory=os.getcwd(), environ={}, mpi4py=False)


def test_the_process_that_forks_may_end_too_early(tmp_path: Path):
    (tmp_path / "aiompi").mkdir()
    (tmp_path / "aiompi" / "__init__.py").write_text("raise SystemExit(9)")
    before = os.listdir("/proc/self/fd")
    with open(os.devnull, "r+b") as null:
        server = execute_server(APP, directory=None, environ={"PYTHONPATH": str(tmp_path)})
        for _ in range(2):
            with pytest.raises(OSError, match="has ended with status 9"):
                server.start(order(APP), [null.fileno()] * 3, {})
        server.close()
    assert os.listdir("/proc/self/fd") == before


def test_ranks_are_told_of_whenever_they_end(tmp_path: Path, is_gone, wait_until):
    program = tmp_path / "app.py"
    program.write_text("import os\nos.read(0, 1)\nos._exit(int(os.environ['CODE']))")
    before, others = os.listdir("/proc/self/fd"), children(os.getpid())
    command = PythonProgram((sys.executable,), (str(program),))
    server = execute_server(command, directory=None, environ={"PYTHONPATH": os.pathsep.join(ROOTS)})
    read_end, write_end = os.pipe()
    with adopting(), open(read_end, "rb") as pipe, open(os.devnull, "r+b") as null:
        ended, waiting = (
            server.start(order(command), [file.fileno(), null.fileno(), null.fileno()], {"CODE": code})
            for file, code in ((null, "7"), (pipe, "8"))
        )
        wait_until(lambda: is_gone(ended.pid), "the first rank has ended")
        server.close()
    assert children(os.getpid()) - others == {ended.pid, waiting.pid}
    assert (ended.poll(), waiting.poll()) == (7, None)
    os.close(write_end)
    wait_until(lambda: waiting.poll() is not None, "the second rank has ended")
    assert (waiting.poll(), waiting.release(), ended.release()) == (8, False, False)
    assert (os.listdir("/proc/self/fd"), children(os.getpid())) == (before, others)


@UNMEASURED
def test_processes_and_objects_of_a_forked_rank(launch, tmp_path: Path):
    (tmp_path / "app.py").write_text(f"""
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

class Own(int): ...

def double(own): return Own(2 * own)

if __name__ == "__main__":
    from aiompi import MPI
    from aiompi.job.program import MainProgram
    comm = MPI.COMM_WORLD
    found = [{FORKED}, MainProgram.current()]
    for method in ("spawn", "fork"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            found.append(pool.submit(double, Own(comm.rank)).result())
    other = comm.sendrecv(found[-1], dest=1 - comm.rank, source=1 - comm.rank)
    print(found, type(other) is Own, other)
""")
    result = launch("app.py", ":", "-m", "app", cwd=tmp_path)
    assert result.stderr == ""
    assert sorted(result.stdout.splitlines()) == ["[True, None, 0, 0] True 2", "[True, None, 2, 2] True 0"]
