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
}))
'''

#: the program above, without what the text of -c has not
WHAT_CODE = WHAT.replace("__file__, ", "")
APP = PythonProgram((sys.executable,), ("app.py",))
#: the command line of the process that forks is longer, and filled up
FORKED = "open('/proc/self/cmdline').read().endswith(chr(0) * 2)"


def facts(result) -> list[object]:
    """What the ranks have found, in their order."""
    # With PYTHONDEVMODE asyncio tells of each step of the launcher that takes a tenth of a second on a busy machine.
    told = re.sub(r"(?m)^Executing <.*> took [0-9.]+ seconds\n", "", result.stderr)
    assert (result.returncode, told) == (0, "")
    return sorted(map(json.loads, result.stdout.splitlines()), key=lambda found: found["rank"])


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


@pytest.mark.parametrize(
    ("program", "words", "env"),
    [
        ("what.py", [], {}),
        ("sub/../link.py", [], {}),
        ("what.py", [], {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "latin-1"}),
        ("what.py", [], {"PYTHONDEVMODE": "1", "PYTHONIOENCODING": ":replace"}),
        ("what.py", ["--mpi4py"], {"PYTHONPATH": "sub"}),
        ("what.py", ["python"], {}),
        ("./sub/../sub", ["python"], {}),
        ("archive", ["python"], {}),
        ("what.pyc", ["python"], {}),
        ("compiled", ["python"], {}),
        ("what.py", [sys.executable, "-uB", "-W", "ignore", "-Xdev", "-bb"], {}),
        ("what", ["python", "-O", "-m"], {}),
        (WHAT_CODE, ["python", "-X", "utf8=0", "-c"], {}),
    ],
)
def test_a_program_finds_what_it_finds_in_a_python_of_its_own(
    launch, directory: Path, program: str, words: list[str], env
):
    options = {"env": env, "cwd": directory, "input": "text"}
    found = facts(launch("-n", "2", *words, program, "a", "b", **options))
    assert found == facts(launch("--no-prefork", "-n", "2", *words, program, "a", "b", **options))
    assert len(found) == 2


AGENTS = ("--starter", "local", "--hosts", "a,b")


@pytest.mark.parametrize(
    ("forked", "words", "env"),
    [
        (True, ["what.py"], {}),
        (True, ["python", "-m", "sub.what"], {"PYTHONUNBUFFERED": "1", "LC_ALL": "C"}),
        (True, ["python", "archive"], {}),
        (False, ["python", "-bb", "what.py"], {}),
        (False, ["--env", "LC_ALL=C", "what.py"], {}),
        (False, ["--no-prefork", "what.py"], {}),
    ],
)
def test_a_rank_of_an_agent_finds_what_it_finds_in_a_python_of_its_own(
    launch, directory: Path, forked: bool, words: list[str], env
):
    """An agent forks itself before it knows the program. Then ps shows the program nevertheless."""
    (directory / "asks.py").write_text("import sys\nprint('aiompi.MPI' in sys.modules)")
    options = {"env": env, "cwd": directory, "input": "text"}
    if forked:
        found = facts(launch(*AGENTS, *words, "a", "b", **options))
        assert found == facts(launch(*AGENTS, "--no-prefork", *words, "a", "b", **options))
    if "what.py" in words:
        asked = launch(*AGENTS, *(word.replace("what", "asks") for word in words), **options)
        assert asked.stdout == f"{forked}\n" * 2


def test_a_program_finds_its_working_directory_and_files_for_its_output(launch, directory: Path):
    found = []
    for prefork in ([], ["--no-prefork"]):
        words = [*prefork, "--output-dir", str(directory / "out"), "--wdir", str(directory), "what.py", "a"]
        assert launch("-n", "2", *words).stderr == ""
        found.append([(directory / f"out/rank.{rank}.{name}").read_text() for rank in "01" for name in ("out", "err")])
    assert found[0] == found[1]
    assert json.loads(found[0][0])["cwd"] == str(directory)


@pytest.mark.parametrize("module", ["what", "sub.what", "sub"])
def test_a_module_finds_what_it_finds_in_a_python_of_its_own(launch, directory: Path, module: str):
    forked, executed = (facts(launch("-n", size, "-m", module, "a", cwd=directory)) for size in "21")
    assert [forked[0]] == executed


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


def test_code_lies_at_the_same_addresses_and_numbers_are_random(launch, tmp_path: Path):
    program = tmp_path / "app.py"
    program.write_text(
        "import random, numpy\n"
        "code = next(line for line in open('/proc/self/maps') if ' r-xp ' in line and 'python' in line)\n"
        "print(code.split('-')[0], random.random(), numpy.random.random(), flush=True)\n"
    )
    found = [line.split() for line in launch("-n", "3", str(program)).stdout.splitlines()]
    assert [len(set(column)) for column in zip(*found, strict=True)] == [1, 3, 3]


HOOK = """
import sys

def hook(kind, error, traceback):
    lengths = (count(each) for each in (traceback, error.__traceback__, sys.last_traceback))
    print("hook", *lengths, sys.excepthook is hook, file=sys.stderr)

def count(traceback): return 0 if traceback is None else 1 + count(traceback.tb_next)

sys.excepthook = hook
raise ValueError
"""


#: program -> what is told of its end; an agent passes on what any program writes, so that some do
BAD_ENDS = [
    ("def function():\n    raise ValueError('told')\n\nfunction()", "ValueError: told"),
    ("try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError('told') from error", "ValueError: told"),
    ("raise ExceptionGroup('all', [KeyError('one'), KeyError('two')])", "KeyError: 'two'"),
    ("import broken", "SyntaxError: '(' was never closed"),
    ("print(", "SyntaxError: '(' was never closed"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    (HOOK, "hook 1 1 1"),
    ("import sys; sys.exit(3)", "exited with status 3"),
    ("import sys; sys.exit('told')", "told"),
    ("import os; os._exit(4)", "exited with status 4"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by signal 9 (SIGKILL)"),
]


@pytest.mark.parametrize(
    ("hosts", "text", "ending"),
    [*(((), *end) for end in BAD_ENDS), *((AGENTS, *end) for end in BAD_ENDS[::9])],
)
def test_bad_ends_are_told_as_those_of_a_python_of_its_own(launch, tmp_path: Path, text: str, ending: str, hosts):
    (tmp_path / "app.py").write_text(text)
    (tmp_path / "broken.py").write_text("print(")
    options = [
        *hosts,
        "-n",
        "2",
        "--output-dir",
        str(tmp_path / "out"),
    ]  # so that the launcher repeats stderr, of one rank
    forked, executed = (launch(*options, *words, "app.py", cwd=tmp_path) for words in ([], ["--no-prefork"]))
    assert forked.returncode == executed.returncode
    messages = [re.sub("rank [01]( on [ab])?", "rank N", result.stderr) for result in (forked, executed)]
    assert messages[0] == messages[1]
    assert ending in messages[0]


def test_modules_that_cannot_be_run(launch, directory: Path):
    assert "ImportError: no module named 'sub.none' that" in launch("-n", "2", "-m", "sub.none", cwd=directory).stderr
    (directory / "sub" / "__init__.py").write_text("import missing")
    assert "No module named 'missing'" in launch("-n", "2", "-m", "sub.what", cwd=directory).stderr


@pytest.mark.parametrize(
    ("forked", "words", "env"),
    [
        (True, ["-n", "2", "app.py"], {}),
        (True, ["-n", "2", "-m", "app"], {"PYTHONHASHSEED": "0"}),
        (True, ["-n", "2", "--env", "A=1", "app.py"], {}),
        (True, ["-n", "2", "--env", "LC_ALL=C", "--wdir", ".", "app.py"], {}),
        (True, ["-n", "2", "--mpi4py", "-m", "app"], {}),
        (True, ["-n", "2", sys.executable, "app.py"], {}),
        (True, ["-n", "2", "python", "-W", "ignore", "-m", "app"], {}),
        (False, ["--no-prefork", "-n", "2", "app.py"], {}),
        (False, ["-n", "2", "python", "-I", "app.py"], {}),
        (False, ["-n", "2", "env", "python", "app.py"], {}),
        (True, ["app.py", ":", "app.py"], {}),
        (False, ["python", "-u", "app.py", ":", "python", "-B", "app.py"], {}),
        (False, ["-n", "2", "--env", "PYTHONHASHSEED=0", "app.py"], {}),
        (False, ["-n", "2", "-x", "PYTHONHASHSEED", "app.py"], {"PYTHONHASHSEED": "0"}),
        (False, ["-n", "2", "--mpi4py", "-x", "PYTHONPATH=", "-m", "app"], {}),
        (False, ["-n", "2", "app.py"], {"PYTHONSAFEPATH": "1"}),
    ],
)
def test_which_ranks_are_forked(launch, tmp_path: Path, forked: bool, words: list[str], env):
    (tmp_path / "app.py").write_text(f"import sys\nprint({FORKED}, sys.flags.hash_randomization)")
    result = launch(*words, env=env, cwd=tmp_path)
    randomized = int("PYTHONHASHSEED" not in " ".join([*words, *env]))
    assert (result.stdout, result.stderr) == (f"{forked} {randomized}\n" * 2, "")


@pytest.mark.parametrize(
    ("path", "text", "forked"),
    [
        ("pickle.py", "NAME = 'pickle'", False),
        ("json/__init__.py", "NAME = 'json'", False),
        ("cmd.py", "NAME = 'cmd'", True),
        ("data.py", "NAME = 'data'", True),
        ("email/notes.txt", "", True),
    ],
)
@UNMEASURED
def test_modules_of_a_program_with_usual_names(launch, tmp_path: Path, path: str, text: str, forked: bool):
    """They are found in place of modules that a rank would have imported before."""
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(text)
    name = path.partition("/")[0].partition(".")[0]
    found = f"import {name}; print({name}.NAME == {name!r})" if text else "print(True)"
    text = f"import sys\nprint('aiompi.MPI' in sys.modules)\n{found}"
    for each in ("app.py", "__main__.py"):
        (tmp_path / each).write_text(text)
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.write(tmp_path / path, path)
        archive.writestr("__main__.py", text)
    ways = (["app.py"], ["-m", "app"], ["python", "-c", "import app"], ["python", "."], ["python", "archive"])
    for words in ways if path in ("pickle.py", "cmd.py") else ways[:1]:
        result = launch("-n", "2", *words, cwd=tmp_path)
        assert (sorted(result.stdout.split()), result.stderr) == (sorted([str(forked), "True"] * 2), "")


def test_variables_that_are_read_at_the_start(launch, tmp_path: Path):
    (tmp_path / "app.py").write_text("import time, aiompi.core\nprint(aiompi.core.form, time.tzname[0])")
    result = launch("-n", "2", "--env", "AIOMPI_CORE=pure", "--env", "TZ=XYZ0", "app.py", cwd=tmp_path)
    assert (result.stdout, result.stderr) == ("pure XYZ\n" * 2, "")


def test_objects_of_a_program_are_torn_down(launch, tmp_path: Path):
    """So a file that is left open is complete. Modules that a rank has imported before are not torn down."""
    (tmp_path / "app.py").write_text(
        "import json, os, sys\n"
        "class Last:\n"
        "    def __del__(self): print('gone', json.dumps is not None)\n"
        "last, file = Last(), open(os.environ['AIOMPI_RANK'], 'w')\n"
        "file.write('text')\n"
    )
    result = launch("-n", "2", "app.py", cwd=tmp_path)
    assert (result.stdout, result.stderr) == ("gone True\n" * 2, "")
    assert [(tmp_path / name).read_text() for name in "01"] == ["text"] * 2


def test_modules_beside_a_program_that_is_a_directory_are_not_found(launch, tmp_path: Path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text(
        f"import importlib.util\nprint(importlib.util.find_spec('beside'), {FORKED})"
    )
    (tmp_path / "beside.py").touch()
    (tmp_path / "json.py").touch()
    result = launch("-n", "2", "python", "app", cwd=tmp_path)
    assert (result.stdout, result.stderr) == ("None True\n" * 2, "")


@pytest.mark.parametrize("hosts", [(), AGENTS])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_descriptors_that_the_launcher_lacks_are_open_in_its_ranks(launch, tmp_path: Path, hosts, closed: str):
    (tmp_path / "app.py").write_text(
        "import os, sys\n"
        "for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):\n"
        "    assert stream.fileno() == number and (not number or stream.write('word'))\n"
        f"open(os.environ['AIOMPI_RANK'], 'w').write(str({FORKED}))\n"
    )
    words = [sys.executable, "-m", "aiompi_launcher", *hosts, "-n", "2", "app.py"]
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *words]
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


@pytest.mark.parametrize(("name", "texts"), [("0", ["hello\n", ""]), ("1", ["", "hello\n"]), ("none", ["", ""])])
def test_standard_input_is_for_one_rank(launch, tmp_path: Path, name: str, texts: list[str]):
    (tmp_path / "app.py").write_text(f"import sys\nprint([sys.stdin.read(), {FORKED}])")
    result = launch("-n", "2", "--stdin", name, "--tag-output", "app.py", input="hello\n", cwd=tmp_path)
    assert sorted(result.stdout.splitlines()) == [f"[{rank}] {[text, True]}" for rank, text in enumerate(texts)]


def test_several_programs(launch, tmp_path: Path):
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(f"import os\nprint(__file__[-4:], os.environ['AIOMPI_RANK'], {FORKED})")
    result = launch("-n", "2", "a.py", ":", "true", ":", "-n", "2", "b.py", cwd=tmp_path)
    assert sorted(result.stdout.splitlines()) == ["a.py 0 True", "a.py 1 True", "b.py 3 True", "b.py 4 True"]


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
    if len(count) > 2:
        raise BlockingIOError(errno.EAGAIN, "not this text")
    return original()
""")
    (tmp_path / "app.py").write_text("import time\ntime.sleep(100)")
    result = launch("-n", "4", "app.py", env=env, cwd=tmp_path)
    message = f"rank 2 cannot be started: {os.strerror(errno.EAGAIN)}"
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


@pytest.mark.parametrize("words", [["app.py"], ["-m", "app"]])
@UNMEASURED
def test_processes_and_objects_of_a_forked_rank(launch, tmp_path: Path, words: list[str]):
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
    result = launch("-n", "2", *words, cwd=tmp_path)
    assert result.stderr == ""
    assert sorted(result.stdout.splitlines()) == ["[True, None, 0, 0] True 2", "[True, None, 2, 2] True 0"]
