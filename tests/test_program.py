"""Main programs that are loaded under another name."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aiompi.program import Program

SOURCE = """
import sys
def function(): return __name__
if __name__ == "__main__": print("as main")
"""

SHOW = """
import pickle, sys
from aiompi.program import Program
program = Program(**{arguments})
sys.path.insert(0, {directory!r})
module = program.load({name!r})
assert sys.modules["__main__"] is module, sys.modules["__main__"]
function = pickle.loads(pickle.dumps(module.function))
print(function is module.function, function())
print(Program.current() == program)
"""


def loaded(directory: Path, name: str, **arguments: str) -> list[str]:
    """What a process prints that loads a program."""
    code = SHOW.format(arguments=arguments, directory=str(directory), name=name)
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "single.py").write_text(SOURCE)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SOURCE)
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", SOURCE)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("path", "{}/single.py"),
        ("path", "{}/package"),
        ("path", "{}/archive.pyz"),
        ("module", "single"),
        ("module", "package"),
        ("code", SOURCE),
    ],
    ids=["file", "directory", "archive", "module", "package", "text"],
)
def test_programs(directory: Path, kind: str, value: str) -> None:
    """Guarded code runs under one name only; functions are found by pickle; the program knows where it came from."""
    value = value.replace("{}", str(directory))
    assert loaded(directory, "__worker__", **{kind: value}) == ["True __worker__", "True"]
    assert loaded(directory, "__main__", **{kind: value}) == ["as main", "True __main__", "True"]


def test_programs_that_are_not_there(tmp_path: Path) -> None:
    for program in (Program(module="no_such_module"), Program(module="no_such.module"), Program(path=str(tmp_path))):
        with pytest.raises(ImportError, match="that can be run"):
            program.load("__worker__")


def test_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, program, argv, first in (
        (["-m", "module", "-x"], Program(module="module"), ["module", "-x"], str(tmp_path)),
        (["-c", "pass", "1"], Program(code="pass"), ["-c", "1"], ""),
        (["dir/app.py", "-m"], Program(path=str(tmp_path / "dir/app.py")), ["dir/app.py", "-m"], str(tmp_path / "dir")),
    ):
        monkeypatch.setattr(sys, "argv", ["__main__"])
        monkeypatch.setattr(sys, "path", ["before", "kept"])
        assert Program.take_over(arguments, "usage: it") == program
        assert (sys.argv, sys.path) == (argv, [first, "kept"])
    for arguments in ([], ["-x"], ["-m"]):
        with pytest.raises(SystemExit, match="usage: it"):
            Program.take_over(arguments, "usage: it")
