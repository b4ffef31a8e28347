"""`aiompi-launch --as-mpiexec`: programs and tests that start `mpiexec` with MPICH's options."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiompi_launcher.cli.mpiexec import UsageError, translate
from support.cases import cases
from support.limits import LIMIT

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PROGRAM = (
    "import os; from mpi4py import MPI; w = MPI.COMM_WORLD; print(w.rank, w.size, os.environ.get('NAME'), flush=True)"
)


@pytest.fixture
def command(tmp_path: Path) -> Run:
    """Runs a command of a shell below `--as-mpiexec`."""

    def run(line: str, *options: str) -> subprocess.CompletedProcess[str]:
        words = (sys.executable, "-m", "aiompi_launcher", *options, "--as-mpiexec", "sh", "-c", line)
        return subprocess.run(
            words, check=False, capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=LIMIT
        )  # fmt: skip

    return run


def test_the_command_line_of_packages_for_tests(command: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    line = f"mpiexec -n 1 -genv NAME value {sys.executable} app.py : -np 2 {sys.executable} app.py"
    result = command(line, "--mpi4py")
    assert (result.returncode, sorted(result.stdout.splitlines())) == (0, [f"{rank} 3 value" for rank in range(3)])


def test_the_code_of_a_command_and_of_ranks(command: Run) -> None:
    assert command("exit 5").returncode == 5
    assert command("mpiexec -n 2 sh -c 'exit 7'").returncode == 7


def test_a_package_that_tests_for_mpich(command: Run) -> None:
    """As libEnsemble and mpi-pytest do."""
    result = command("mpirun -npernode")
    assert result.returncode == 2
    assert "unrecognized argument npernode" in result.stderr
    assert "MPICH" in command("mpiexec --version").stdout
    version = "from mpi4py.MPI import Get_library_version as v; print('mpich' in v().casefold())"
    assert command(f'{sys.executable} -c "{version}"', "--mpi4py").stdout == "True\n"


def test_translation() -> None:
    host = socket.gethostname()
    line = f"-n 2 -env A 1 -genvall -host localhost,{host}:2 prog -n : -np 1 -wdir / --genv B= x=y -l prog : prog"
    words = translate(line.replace("B= x=y", "B x=y").split())
    environ = ["--env", "B=x=y"]
    first = [*environ, "-n", "2", "--env", "A=1", "--", "prog", "-n"]
    second = [*environ, "-n", "1", "--wdir", "/", "--", "prog"]
    assert words == ["--tag-output", *first, ":", *second, ":", *environ, "--", "prog"]


def test_options_that_only_say_where_ranks_run(tmp_path: Path) -> None:
    """As libEnsemble gives them."""
    file = tmp_path / "hosts"
    file.write_text(f"# all\nlocalhost:2 user=me\n\n{socket.gethostname()}  # here\n")
    words = ["-machinefile", str(file), "-np", "2", "--ppn", "1", "-perhost", "2", "-envlist", "A,B", "prog"]
    assert translate(words) == ["-n", "2", "--", "prog"]


def test_other_hosts(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("localhost\nelsewhere.invalid:2\n")
    words = ["-l", "-usize", "8", "-ppn", "1", "-hosts", "localhost,node2:4", "-n", "2", "prog"]
    placed = ["--hosts", "localhost,node2:4", "--ppn", "1", "--universe-size", "8"]
    assert translate(words) == ["--tag-output", *placed, "-n", "2", "--", "prog"]
    assert translate(["-usize", "SYSTEM", "prog"]) == ["--", "prog"]
    assert translate(["-f", str(file), "prog"]) == ["--hostfile", str(file), "--", "prog"]


@cases(
    ("line", "message"),
    [
        ("-n 2 -bind-to core prog", "unrecognized argument bind-to"),
        ("-f /nowhere/hosts prog", "-f /nowhere/hosts: No such file or directory"),
        ("-genv NAME", "-genv needs a value"),
        ("-host a prog : -host b prog", "-host: all sections run on the same hosts"),
        ("prog : -rmk x prog", "unrecognized argument rmk"),
    ],
)
def test_what_cannot_be_translated(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate(line.split())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--as-mpiexec"], 2, "--as-mpiexec needs the command"),
        (["-n", "2", "--as-mpiexec", "prog"], 2, "--as-mpiexec comes first"),
        (["--as-mpiexec", "/nonexistent"], 127, "/nonexistent: No such file"),
    ],
)
def test_wrong_use(words: list[str], code: int, message: str) -> None:
    words = [sys.executable, "-m", "aiompi_launcher", *words]
    environ = {**os.environ, "COLUMNS": "200"}
    result = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT, env=environ)
    assert (result.returncode, message in result.stderr) == (code, True), result.stderr
