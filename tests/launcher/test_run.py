"""Jobs that run, as a user starts them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import Site
from support.limits import LIMIT
from support.measured import UNMEASURED
from support.terminal import InTerminal

RANK = str(Path(__file__).parent / "programs" / "rank.py")
FULL = ["join", "card", "cards", "finalize", "finalized"]


def test_what_a_rank_finds_in_its_environment(launch, home: Path):
    script = "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('AIOMPI')}))"
    result = launch("-n", "2", sys.executable, "-c", script)
    first, second = sorted(map(json.loads, result.stdout.splitlines()), key=lambda found: found["AIOMPI_RANK"])
    assert set(first) - {"AIOMPI_CORE"} == {
        "AIOMPI_APPNUM",
        "AIOMPI_CONTROL",
        "AIOMPI_KEY",
        "AIOMPI_RANK",
        "AIOMPI_SIZE",
    }
    assert first["AIOMPI_CONTROL"] == second["AIOMPI_CONTROL"]
    assert first["AIOMPI_CONTROL"].startswith(f"unix:{home}/aiompi-")
    assert [len(bytes.fromhex(found["AIOMPI_KEY"])) for found in (first, second)] == [32, 32]
    assert first["AIOMPI_KEY"] != second["AIOMPI_KEY"]
    assert (first["AIOMPI_SIZE"], second["AIOMPI_RANK"]) == ("2", "1")


SLOW_START = """\
import os, sys, time
from aiompi_launcher.cli import main
from aiompi_launcher.start import ranks

started = 0
start = ranks._start

def slowly(*args):
    global started
    started += 1
    time.sleep(0.5)
    while started == 5 and not os.path.exists("go on"):
        time.sleep(0.01)
    return start(*args)

ranks._start = slowly
sys.argv = ["aiompi-launch", "-n", "5", "true"]
sys.exit(main())
"""


def test_a_long_start_has_a_bar_in_a_terminal(site: Site) -> None:
    """It shows how many ranks have started, and goes when all have."""
    command = [sys.executable, site.program(SLOW_START, "slow_start.py")]
    with InTerminal(command, site.environ, site.directory) as terminal:
        terminal.until(lambda text: re.match(r"\n?aiompi-launch: [34] of 5 ranks have started +━", text))
        (site.directory / "go on").touch()
        assert terminal.finish() == 0
        assert terminal.screen.text.strip() == ""


def test_a_rank_is_described_as_by_mpich_and_by_no_other_launcher(launch, tmp_path: Path, monkeypatch):
    """Executed and forked ranks, of several programs, also when another launcher has started this one."""
    (tmp_path / "list_environment.py").write_text("import os\nfor item in os.environ.items(): print(*item, sep='=')\n")
    others = "PMI_FD PMI_PORT PMI_ID PMIX_RANK PMIX_SERVER_URI41 OMPI_COMM_WORLD_RANK HYDI_CONTROL_FD PALS_RANKID"
    for name in ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", *others.split()):
        monkeypatch.setenv(name, "7")
    forked = ("-n", "2", "--wdir", str(tmp_path), "-m", "list_environment")
    result = launch("--output-dir", str(tmp_path / "out"), *forked, ":", "-n", "2", "sh", "-c", "env")
    assert result.returncode == 0, result.stderr
    for rank in range(4):
        lines = (tmp_path / "out" / f"rank.{rank}.out").read_text().splitlines()
        found = dict(
            line.split("=", 1) for line in lines if line.startswith(("PMI", "MPI_LOCAL", "OMPI", "MV2", "HYDI"))
        )
        local = {"MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "4"}
        assert found == {"PMI_RANK": str(rank), "PMI_SIZE": "4", **local}


def test_what_only_the_ranks_find(launch):
    """The directory of the job is private; its key is on no command line and in no log."""
    script = (
        """echo $AIOMPI_KEY; stat -c %a "$XDG_RUNTIME_DIR"/aiompi-*; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '"""
    )
    result = launch("-v", "sh", "-c", script)
    key, mode, others = result.stdout.split("\n", 2)
    assert (len(key), mode) == (64, "700")
    assert "aiompi_launcher" in others
    assert key not in others + result.stderr


def test_programs_with_environments_and_working_directories_of_their_own(launch, tmp_path: Path):
    line = ["-x", "A=1", "--wdir", str(tmp_path), "sh", "-c", "echo $AIOMPI_RANK $A $B $PWD", ":"]
    result = launch(*line, "-n", "2", "--env", "B=2", "sh", "-c", "echo $AIOMPI_RANK $A $B $PWD", env={"B": "b"})
    assert sorted(result.stdout.splitlines()) == [f"0 1 b {tmp_path}", f"1 2 {os.getcwd()}", f"2 2 {os.getcwd()}"]


def test_python_files_and_modules_are_run_by_this_python(launch, tmp_path: Path):
    (tmp_path / "prog.py").write_text("import sys; print(sys.executable, *sys.argv[1:])")
    result = launch("--wdir", str(tmp_path), "prog.py", "-x", ":", "--wdir", str(tmp_path), "-m", "prog", "-y")
    assert sorted(result.stdout.splitlines()) == [f"{sys.executable} -x", f"{sys.executable} -y"]


@pytest.mark.parametrize("content", ["", "x" * 300_000], ids=len)
def test_standard_input_goes_to_rank_0_only(launch, content: str):
    result = launch("-n", "3", "sh", "-c", "wc -c", input=content)
    assert sorted(map(int, result.stdout.split())) == [0, 0, len(content)]


def test_standard_input_for_another_rank(launch):
    result = launch("-n", "2", "--stdin", "1", "--tag-output", "cat", input="hello\n")
    assert result.stdout == "[1] hello\n"
    assert launch("-n", "2", "--stdin", "none", "cat", input="hello\n").stdout == ""


def test_a_terminal_is_read_for_rank_0(launch):
    keyboard, terminal = os.openpty()
    running = launch.start("-n", "2", "head", "-1", stdin=terminal)
    os.close(terminal)
    os.write(keyboard, b"typed\n")
    assert running.line() == "typed"
    assert running.end().returncode == 0
    os.close(keyboard)


def test_tagged_output_is_whole_lines(launch, rank):
    script = "for i in 1 2 3; do printf 'a%s'; printf 'b\\n'; echo e >&2; done"
    result = launch("-n", "3", "--tag-output", "sh", "-c", script % "")
    assert sorted(result.stdout.splitlines()) == sorted(["[0] ab", "[1] ab", "[2] ab"] * 3)
    assert sorted(result.stderr.splitlines()) == sorted(["[0:err] e", "[1:err] e", "[2:err] e"] * 3)


def test_output_directory(launch, tmp_path: Path):
    directory = tmp_path / "new" / "out"
    result = launch("-n", "2", "--output-dir", str(directory), "sh", "-c", "echo out $AIOMPI_RANK; echo err >&2")
    assert (result.stdout, result.stderr) == ("", "")
    names = {path.name: path.read_text() for path in directory.iterdir()}
    assert names == {"rank.0.out": "out 0\n", "rank.0.err": "err\n", "rank.1.out": "out 1\n", "rank.1.err": "err\n"}


def test_nobody_reads_the_output(launch):
    command = launch.start("-n", "2", "yes")
    assert command.line() == "y"
    assert command.process.stdout is not None
    command.process.stdout.close()
    command.process.stdout = None
    result = command.end()
    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.parametrize("words", ["yes", "echo"])
def test_nowhere_to_write_the_output(launch, words: str):
    """Whether the ranks have ended by then or not."""
    with open("/dev/full", "w") as full:
        result = launch("-n", "2", words, stdout=full)
    assert (result.returncode, result.stderr) == (1, "aiompi-launch: standard output: No space left on device\n")


def test_output_to_a_file_and_both_streams_in_one(launch, tmp_path: Path):
    path = tmp_path / "log"
    with path.open("w") as file:
        script = "for i in $(seq 100); do echo out; echo err >&2; done"
        assert launch("-n", "2", "sh", "-c", script, stdout=file, stderr=subprocess.STDOUT).returncode == 0
    lines = path.read_text().splitlines()
    assert (lines.count("out"), lines.count("err"), len(lines)) == (200, 200, 400)


def test_without_standard_descriptors(launch, tmp_path: Path):
    script = "import os, sys; os.closerange(0, 3); from aiompi_launcher.cli import main; sys.exit(main())"
    words = ("-n", "2", "sh", "-c", f"echo $AIOMPI_RANK >{tmp_path}/$AIOMPI_RANK")
    assert launch(*words, program=f"-c {script}").returncode == 0
    assert [(tmp_path / name).read_text() for name in "01"] == ["0\n", "1\n"]


def test_verbose(launch, rank):
    result = launch("-v", "-n", "2", rank, *FULL, "1:print=done")
    assert (result.returncode, result.stdout) == (0, "done\n")
    lines = result.stderr.splitlines()
    assert sum("runs as process" in line for line in lines) == 2
    assert sum("has joined" in line for line in lines) == 2
    assert all(line.startswith("aiompi-launch: ") for line in lines)


def test_many_ranks(launch):
    result = launch("-n", "64", "sh", "-c", "echo $AIOMPI_RANK")
    assert (result.returncode, result.stderr) == (0, "")
    assert sorted(map(int, result.stdout.split())) == list(range(64))


#: a launcher that waits a moment before it starts a rank, until something has happened
HESITATES = """
import time
from aiompi_launcher.cli import main
from aiompi_launcher.{module} import {kind}
from aiompi_launcher.start import ranks
happened, start, event = [], ranks._start, {kind}.{name}

def note(*args):
    happened.append(args)
    return event(*args)

def hesitate(*args):
    if not happened:
        time.sleep(0.1)
    return start(*args)

{kind}.{name}, ranks._start = note, hesitate
raise SystemExit(main())
"""


def hesitates(module: str, kind: str, name: str) -> str:
    return f"-c {HESITATES.format(module=module, kind=kind, name=name)}"


def test_ranks_are_accepted_while_others_are_started(launch, rank):
    until_joined = hesitates("job.connections", "RankConnections", "on_join")
    words = ("-v", "-n", "1", rank, "join", "pause", ":", "-n", "200", "true")
    lines = launch(*words, program=until_joined).stderr.splitlines()
    joined = next(number for number, line in enumerate(lines) if "rank 0 has joined" in line)
    assert any("rank 200 runs as process" in line for line in lines[joined:])


def test_no_rank_is_started_in_a_job_that_ends(launch, rank):
    until_ending = hesitates("job.shutdown", "Shutdown", "end")
    words = ("-v", "-n", "1", rank, "join", "exit=3", ":", "-n", "600", "sleep", "1000")
    result = launch(*words, program=until_ending)
    assert result.returncode == 3
    assert "rank 0 exited with status 3" in result.stderr
    assert "rank 600 runs" not in result.stderr


def test_a_signal_while_ranks_are_started(launch):
    until_signalled = hesitates("job.table", "Job", "signalled")
    running = launch.start("-v", "-n", "600", "sleep", "1000", program=until_signalled)
    while "rank 3 runs" not in running.error_line():
        pass
    running.signal(2)
    result = running.end()
    assert result.returncode == 130
    assert "rank 599 runs" not in result.stderr


def test_two_jobs_at_once(launch, home: Path):
    """Each job, and each of its ranks, has a key of its own."""
    first, second = (launch.start("-n", "2", "sh", "-c", "echo $AIOMPI_KEY; exec sleep 100") for _ in range(2))
    assert len({running.line() for running in (first, first, second, second)} - {""}) == 4
    assert len(list(home.iterdir())) == 2
    first.signal(15)
    assert first.end().returncode == 143
    assert second.process.poll() is None
    assert len(list(home.iterdir())) == 1
    second.signal(15)
    assert second.end().returncode == 143


def test_a_stale_directory_is_removed(launch, home: Path):
    stale = home / "aiompi-0123456789abcdef"
    stale.mkdir(mode=0o700)
    (stale / "lock").touch()
    (stale / "control").touch()
    assert launch("true").returncode == 0
    assert not stale.exists()


def test_background_processes_do_not_outlive_the_job(launch, is_gone, wait_until):
    result = launch("sh", "-c", "sleep 1000 & echo $!")
    assert result.returncode == 0
    wait_until(lambda: is_gone(int(result.stdout)), "the process in the background has ended")


@pytest.mark.parametrize(
    ("words", "variable", "complaint"),
    [
        (("-n", "2", "echo", "started"), "AIOMPI_RING_SIZE", "AIOMPI_R"),
        (("--serve", "2"), "AIOMPI_TRANSPORTS", "transports lists names of transports and cannot have x"),
        (("--server", "1"), "AIOMPI_RING_SIZE", "AIOMPI_R"),
    ],
)
def test_wrong_settings_are_told_once_and_start_nothing(launch, words: tuple[str, ...], variable: str, complaint: str):
    result = launch(*words, env={variable: "x", "IMPI_AUTH_NONE": "1"})
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
    assert result.stderr.startswith(f"aiompi-launch: {complaint}")


@pytest.mark.parametrize(
    ("module", "others"),
    [
        ("cli", {"asyncio", "dataclasses", "msgpack", "ssl", "logging"}),
        ("launch", {"aiompi_launcher.supervise", "aiompi_launcher.job"}),
    ],
)
@UNMEASURED
def test_start_up_of_the_launcher_is_light(module: str, others: set[str]):
    """Until it forks the process from which ranks are forked, it imports only modules that ranks need, too."""
    script = f"import sys, aiompi_launcher.{module}; print(*sys.modules)"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, env=environ).stdout.split()
    assert (others | {"numpy", "tempfile", "aiompi.engine"}).isdisjoint(loaded)


@pytest.mark.parametrize(
    ("limit", "words", "message"),
    [
        (
            8,
            ["30", "sleep", "60"],
            "only 8 files may be open, and the launcher needs at least 32: raise this limit (ulimit -n)",
        ),
        (40, ["30", "sleep", "60"], "Too many open files: raise the limit of open files (ulimit -n)"),
        (
            32,
            ["8", RANK, "join", "aborted"],
            "",  # for connections or for the last ranks, whichever come first
        ),
    ],
)
def test_few_descriptors(limit: int, words: list[str], message: str):
    words = [sys.executable, "-m", "aiompi_launcher", "-n", *words]
    shell = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"]
    result = subprocess.run([*shell, *words], check=False, capture_output=True, text=True, timeout=LIMIT)
    assert result.returncode in (1, 126)
    assert message in result.stderr
    assert re.search(r"raise (this|the|their) limit( of open files)? \(ulimit -n\)\n", result.stderr)
    assert "Traceback" not in result.stderr


def test_a_deleted_working_directory(tmp_path: Path):
    for words in (["-n", "2", "true"], ["app.py"], ["--serve", "1"]):
        gone = tmp_path / "gone"
        gone.mkdir()
        shell = ["sh", "-c", f'cd {gone} && rmdir {gone} && exec "$@"', "sh", sys.executable, "-P", "-m"]
        command = [*shell, "aiompi_launcher", *words]
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT)
        assert result.returncode == 1
        assert "the working directory has been deleted" in result.stderr


@pytest.mark.parametrize("tags", [("", ""), ("[0] ", "[1] ")])
def test_long_lines_of_several_ranks_stay_whole(launch, tags: tuple[str, str]):
    script = "for n in 1 2; do head -c 1500000 /dev/zero | tr '\\0' $AIOMPI_RANK; echo; done"
    result = launch(*["--tag-output"][: len(tags[0])], "-n", "2", "sh", "-c", script)
    assert (result.returncode, result.stderr) == (0, "")
    lines = sorted(result.stdout.split("\n"))
    assert lines == ["", *(tag + digit * 1_500_000 for tag, digit in zip(tags, "01", strict=True) for _ in range(2))]
