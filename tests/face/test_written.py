"""The files that `aiompi/face/generate` writes from the asyncio face."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from support.generator import generate


@pytest.mark.parametrize("written", generate.WRITTEN, ids=lambda written: written.path)
def test_files_are_up_to_date(written: Any) -> None:
    """Otherwise run `python -m aiompi.face.generate`."""
    assert (generate.files.FACE / written.path).read_text("utf-8") == written.text()


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("native/collective/nonblocking.py", "every rank has called it", "all have called it"),
        ("native/access.py", "in elementary types of the view", "in items of the view"),
        ("blocking/access.py", "in elementary types of the view", "in items of the view"),
    ],
)
def test_a_change_of_the_source_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, old: str, new: str
) -> None:
    (written,) = (written for written in generate.WRITTEN if written.path == path)
    for file in (path, *written.inputs):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((generate.files.FACE / file).read_text("utf-8"), "utf-8")
    monkeypatch.setattr(generate.files, "FACE", tmp_path)
    monkeypatch.setattr(generate, "WRITTEN", [written])
    assert generate.main(["--check"]) == 0
    source = tmp_path / written.inputs[0]
    source.write_text(source.read_text("utf-8").replace(old, new), "utf-8")
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert new in (tmp_path / path).read_text("utf-8")
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("written", generate.WRITTEN, ids=lambda written: written.path)
def test_examples_are_python(written: Any) -> None:
    for node in ast.walk(ast.parse((generate.files.FACE / written.path).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and (docstring := ast.get_docstring(node)):
            example = generate.Doc.parse(docstring).sections.get("Example")
            if example is None:
                continue
            names = {node.attr for node in ast.walk(ast.parse(example)) if isinstance(node, ast.Attribute)}
            assert node.name in names
            assert ("world." in example) is (written.face == "native")
