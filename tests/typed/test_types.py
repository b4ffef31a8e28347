"""What type checkers say of programs: `mypy --strict`, and pyright in its basic mode."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent
_ROOT = _FOLDER.parent.parent
_PROGRAMS = [_FOLDER / f"{name}_program.py" for name in ("native", "blocking", "wrong")]


def mypy(config: Path) -> list[tuple[str, int, str]]:
    """The errors of mypy in the programs, as (name of the file, line, message).

    Those in the package itself, which mypy follows, depend on the version of NumPy, whose types change.
    """
    command = [sys.executable, "-m", "mypy", "--strict", "--output", "json", *map(str, _PROGRAMS)]
    lines = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    names = {program.name for program in _PROGRAMS}
    return [
        (Path(error["file"]).name, error["line"], error["message"])
        for error in found
        if error["severity"] == "error" and Path(error["file"]).name in names
    ]


def pyright(config: Path) -> list[tuple[str, int, str]]:
    """The errors of pyright, as (name of the file, line, message)."""
    pytest.importorskip("basedpyright")
    config.write_text(
        json.dumps({"typeCheckingMode": "basic", "include": list(map(str, _PROGRAMS)), "extraPaths": [str(_ROOT)]})
    )
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(config), "--pythonpath", sys.executable]
    output = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False).stdout
    found = json.loads(output)["generalDiagnostics"]
    return [
        (Path(error["file"]).name, error["range"]["start"]["line"] + 1, error["message"])
        for error in found
        if error["severity"] == "error"
    ]


@pytest.mark.parametrize("check", [mypy, pyright])
def test_right_programs_pass_and_wrong_lines_fail(
    check: Callable[[Path], list[tuple[str, int, str]]], tmp_path: Path
) -> None:
    errors = check(tmp_path / "pyrightconfig.json")
    assert [error for error in errors if error[0] != "wrong_program.py"] == []
    lines = (_FOLDER / "wrong_program.py").read_text(encoding="utf8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    refused = {number for _, number, _ in errors}
    assert wrong - refused == set(), "accepted"
    assert refused - wrong == set(), "refused"
