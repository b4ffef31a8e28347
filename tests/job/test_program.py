"""Main programs that are loaded under another name."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from aiompi.job.program import MainProgram

SOURCE = """
import sys
def function(): return __name__
if __name__ == "__main__": print("as main")
"""

SHOW = """
import pickle, sys
from aiompi.job.program import MainProgram
program = MainProgram(**{arguments})
sys.path.insert(0, {directory!r})
module = program.load({name!r})
assert sys.modules["__main__"] is module, sys.modules["__main__"]
function = pickle.loads(pickle.dumps(module.function))
print(function is module.function, function())
print(MainProgram.current() == program)
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


@pytest.mark.parametrize(("kind", "value"), [("path", "{}/single.py"), ("module", "single"), ("module", "package")])
def test_programs_that_are_run(directory: Path, kind: str, value: str) -> None:
    """They are what Python makes of them: the name of a module gives way to its file, and no mark is left."""
    code = """
import sys
from aiompi.job.program import MainProgram
sys.path.insert(0, {directory!r})
sys.argv = ["name", "-x"]
MainProgram(**{arguments}).run()
main = sys.modules["__main__"]
print(sys.argv[0] == (main.__file__ if main.__spec__ else "name"), sys.argv[1:], main.function(), MainProgram.current())
"""
    code = code.format(directory=str(directory), arguments={kind: value.replace("{}", str(directory))})
    command = [sys.executable, "-W", "error", "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == ["as main", "True ['-x'] __main__ None"]


@pytest.mark.parametrize("kind", ["path", "code"])
def test_annotations_are_what_the_program_says(tmp_path: Path, kind: str) -> None:
    text = "def function(argument: int): ...\n"
    (tmp_path / "app.py").write_text(text)
    program = MainProgram(path=str(tmp_path / "app.py")) if kind == "path" else MainProgram(code=text)
    code, _ = program._find()
    values: dict[str, Any] = {}
    exec(code, values)
    assert values["function"].__annotations__ == {"argument": int}


def test_programs_that_are_not_there(tmp_path: Path) -> None:
    for program in (
        MainProgram(module="no_such_module"),
        MainProgram(module="no_such.module"),
        MainProgram(path=str(tmp_path)),
    ):
        with pytest.raises(ImportError, match="that can be run"):
            program.load("__worker__")


def test_what_a_package_misses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking").mkdir()
    (tmp_path / "lacking" / "__init__.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        MainProgram(module="lacking.module").load("__worker__")


def test_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, program, argv, first in (
        (["-m", "module", "-x"], MainProgram(module="module"), ["module", "-x"], str(tmp_path)),
        (["-c", "pass", "1"], MainProgram(code="pass"), ["-c", "1"], ""),
        (
            ["dir/app.py", "-m"],
            MainProgram(path=str(tmp_path / "dir/app.py")),
            ["dir/app.py", "-m"],
            str(tmp_path / "dir"),
        ),
        ([".", "-m"], MainProgram(path=os.path.join(tmp_path, ".")), [".", "-m"], os.path.join(tmp_path, ".")),
    ):
        monkeypatch.setattr(sys, "argv", ["__main__"])
        monkeypatch.setattr(sys, "path", ["before", "kept"])
        assert MainProgram.take_over(arguments, "usage: it") == program
        assert (sys.argv, sys.path) == (argv, [first, "kept"])
    (tmp_path / "link.py").symlink_to("dir/app.py")
    MainProgram.take_over(["link.py"], "usage: it")
    assert sys.path[0] == os.path.realpath(tmp_path / "dir")
    for arguments in ([], ["-x"], ["-m"]):
        with pytest.raises(SystemExit, match="usage: it"):
            MainProgram.take_over(arguments, "usage: it")
