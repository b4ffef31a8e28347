"""The build of the native core: what it needs, and what it says where that is missing."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_missing_headers_are_named(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(hook.CannotBuildError, match=r"Python\.h is missing: install the headers of Python"):
        hook.check()


def test_a_missing_compiler_is_asked_of_pip(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert hook.compiler() is None
    monkeypatch.setattr(hook, "check", lambda: None)
    with pytest.raises(hook.CannotBuildError, match="there is no C compiler"):
        hook.build(ROOT, tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert hook.compiler()[1:] == ["-m", "ziglang", "cc"]


def test_a_wrong_wish_is_refused(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOMPI_COMPILE", "yes")
    with pytest.raises(hook.CannotBuildError, match="AIOMPI_COMPILE is 'yes': it must be 1 to insist"):
        hook.wish()


def test_a_target_needs_zig_and_names_the_module(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOMPI_TARGET", "aarch64-linux-musl")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert hook.compiler() is None, "a compiler of this machine must not build for another one"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert hook.compiler()[1:] == ["-m", "ziglang", "cc", "-target", "aarch64-linux-musl"]
    assert hook.suffix() == f".cpython-3{sys.version_info.minor}-aarch64-linux-musl.so"
    monkeypatch.delenv("AIOMPI_TARGET")
    assert hook.suffix() == sysconfig.get_config_var("EXT_SUFFIX")


def test_an_unknown_target_is_refused(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOMPI_TARGET", "riscv64")
    with pytest.raises(hook.CannotBuildError, match="AIOMPI_TARGET is 'riscv64': it must be one of x86_64-linux-gnu,"):
        hook.target()


def test_an_error_of_the_compiler_is_one_line(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("int main( {\n")
    monkeypatch.setattr(hook, "check", lambda: None)
    monkeypatch.setattr(hook, "generated", lambda root, place: source)
    if hook.compiler() is None:
        pytest.skip("this machine has no C compiler")
    with pytest.raises(hook.CannotBuildError, match=r"the C compiler \S+ has failed: .*wrong\.c:1:.*error"):
        hook.build(ROOT, tmp_path / "out")


def test_what_is_built_is_not_built_again(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unless the flags or the sources are others, or the last build has failed."""
    calls, compiler = tmp_path / "calls", tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\necho >>{calls}\nfor word; do [ "$last" = -o ] && touch $word; last=$word; done\n')
    compiler.chmod(0o755)
    monkeypatch.setattr(hook, "check", lambda: None)
    monkeypatch.setattr(hook, "compiler", lambda: [str(compiler)])
    monkeypatch.setattr(hook, "generated", lambda root, place: place / "core.c")
    shutil.copytree(ROOT / "aiompi/core", tmp_path / "aiompi/core", ignore=shutil.ignore_patterns("*.so"))

    def builds() -> int:
        before = len(calls.read_text()) if calls.exists() else 0
        module = hook.build(tmp_path, tmp_path / "out")
        assert module.exists()
        return len(calls.read_text()) - before

    assert (builds(), builds()) == (1, 0)
    monkeypatch.setenv("CFLAGS", "-DOTHER")
    assert (builds(), builds()) == (1, 0)
    with (tmp_path / "aiompi/core/native/copy.h").open("a") as header:
        header.write("/* changed */")
    assert (builds(), builds()) == (1, 0)
    next((tmp_path / "out").glob("*.so")).unlink()
    assert builds() == 1
    monkeypatch.setenv("CFLAGS", "")
    works = compiler.read_text()
    compiler.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(hook.CannotBuildError, match="has failed"):
        builds()
    compiler.write_text(works)
    monkeypatch.setenv("CFLAGS", "-DOTHER")
    assert builds() == 1
