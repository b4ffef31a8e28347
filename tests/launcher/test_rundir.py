"""Directories of jobs."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from pathlib import Path

import pytest

from aiompi.net import interfaces
from aiompi_launcher.start.directory import RunDirectory, remove_tree


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(home)}


def test_only_its_owner_may_enter(environ: dict[str, str], home: Path):
    directory = RunDirectory(environ)
    assert stat.S_IMODE(os.stat(directory.path).st_mode) == 0o700
    assert Path(directory.path).parent == home
    assert directory.join("control").startswith(directory.path)
    directory.remove()
    directory.remove()
    assert not list(home.iterdir())


def test_its_lock_is_not_inherited(environ: dict[str, str]):
    directory = RunDirectory(environ)
    assert not os.get_inheritable(directory._lock)
    directory.remove()


def test_an_error_of_its_lock_names_it(environ: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fcntl, "flock", full)
    with pytest.raises(
        OSError, match=rf"^files in {home} cannot be locked \(flock: No space left on device\): set XDG"
    ):
        RunDirectory(environ)
    assert not list(home.iterdir())


def test_an_error_of_a_socket_names_it(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{tmp_path}/none/control'"):
        interfaces.listen_unix(str(tmp_path / "none" / "control"))


def test_directories_of_dead_jobs_are_swept(environ: dict[str, str], home: Path):
    alive = RunDirectory(environ)
    dead = RunDirectory(environ)
    Path(dead.join("control")).touch()
    Path(dead.join("sub")).mkdir()
    Path(dead.join("sub/file")).touch()
    os.close(dead._lock)  # as when its launcher was killed
    new = RunDirectory(environ)
    assert {path.name for path in home.iterdir()} == {Path(alive.path).name, Path(new.path).name}
    for directory in (alive, new):
        directory.remove()


def test_a_directory_that_cannot_be_locked_is_removed(environ: dict[str, str], home: Path, monkeypatch):
    """As on a file system without inodes."""

    def full(*args: object, **kwargs: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("open", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="No space left"):
                RunDirectory(environ)
        assert not list(home.iterdir())


def test_directories_without_a_name_are_swept_when_they_are_old(environ: dict[str, str], home: Path):
    """Their launcher was killed before it had locked them. A new one may be about to do so."""
    old, new, other = (f".aiompi-{name}" for name in ("0" * 16, "f" * 16, "settings-of-user"))
    for name, age in ((old, 100), (new, 0), (other, 100)):
        (home / name).mkdir()
        (home / name / "lock").touch()
        os.utime(home / name, (time.time() - age, time.time() - age))
    RunDirectory(environ).remove()
    assert {path.name for path in home.iterdir()} == {new, other}


def test_what_is_no_directory_of_a_job_is_left_alone(environ: dict[str, str], home: Path):
    (home / "aiompi-0000000000000000").touch()
    (home / "aiompi-0000000000000001").mkdir()
    for name in ("elsewhere", "aiompi-sources", "aiompi-a-name-of-16-let"):
        (home / name).mkdir()
        (home / name / "lock").touch()
    (home / "aiompi-0000000000000002").symlink_to(home / "elsewhere")
    before = sorted(home.iterdir())
    RunDirectory(environ).remove()
    assert sorted(home.iterdir()) == before


def test_directories_of_others_are_left_alone(environ: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch):
    (home / "aiompi-0000000000000001").mkdir()
    (home / "aiompi-0000000000000001" / "lock").touch()
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    RunDirectory(environ).remove()
    assert (home / "aiompi-0000000000000001").exists()


def test_a_directory_never_has_its_name_without_its_lock(
    environ: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
):
    names: list[list[str]] = []
    monkeypatch.setattr(fcntl, "flock", lambda *_: names.append([path.name for path in home.iterdir()]))
    directory = RunDirectory(environ)
    assert [name for name in names[0] if name.startswith("aiompi")] == []
    directory.remove()


def test_a_long_path_is_avoided(home: Path):
    long = home / ("x" * 80)
    long.mkdir()
    directory = RunDirectory({"XDG_RUNTIME_DIR": str(long), "TMPDIR": str(home)})
    assert Path(directory.path).parent == home
    directory.remove()


def test_a_directory_that_is_not_there_is_avoided(home: Path):
    directory = RunDirectory({"XDG_RUNTIME_DIR": str(home / "no"), "TMPDIR": str(home)})
    assert Path(directory.path).parent == home
    directory.remove()


def test_no_place_at_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OSError, match=r"none of /nowhere, /tmp, /var/tmp .* set XDG_RUNTIME_DIR"):
        RunDirectory({"XDG_RUNTIME_DIR": "/nowhere"})


def test_removing_what_is_gone(home: Path):
    remove_tree(str(home / "gone"))
