"""Published names of ports, in one process and its directory of names."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi.job import published_names as published
from aiompi.settings import Settings
from support.jobs import Running, Site
from support.meetings import jobs


@pytest.mark.asyncio
async def test_published_names(tmp_path: Path) -> None:
    names = tmp_path / "names"
    async with jobs(2, names=str(names)) as (one, other):
        with pytest.raises(aiompi.MPI.NotPublishedError, match="AIOMPI_NAMES"):
            await other.Lookup_name("a service")
        port = await one.Open_port()
        await one.Publish_name("a service", port)
        assert await other.Lookup_name("a service") == port
        assert [path.stat().st_mode & 0o777 for path in (names, *names.iterdir())] == [0o700, 0o600]
        with pytest.raises(aiompi.MPI.InvalidServiceError, match="is taken"):
            await other.Publish_name("a service", port)
        await one.Unpublish_name("a service", port)
        with pytest.raises(aiompi.MPI.InvalidServiceError, match="has not published"):
            await one.Unpublish_name("a service", port)
        with pytest.raises(aiompi.MPI.InvalidServiceError, match="1 to 100 bytes"):
            await one.Publish_name("x" * 101, port)
        await one.Publish_name("forgotten", port)
    assert list(names.iterdir()) == [], "a rank that ends withdraws its names"


@pytest.mark.asyncio
async def test_name_of_a_process_that_was_killed_is_not_found(tmp_path: Path) -> None:
    async with jobs(1, names=str(tmp_path / "names")) as (one,):
        await one.Publish_name("a", "port")
        (file,) = (tmp_path / "names").iterdir()
        file.write_text(file.read_text().replace(f'"pid": {os.getpid()}', '"pid": 999999999'))
        with pytest.raises(aiompi.MPI.NotPublishedError):
            await one.Lookup_name("a")
        await one.Publish_name("a", "another")
        assert await one.Lookup_name("a") == "another"


@pytest.mark.asyncio
async def test_names_in_a_directory_that_others_may_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    async with jobs(1, names=str(tmp_path)) as (one,):
        with pytest.raises(aiompi.MPI.InvalidServiceError, match="not private"):
            await one.Publish_name("a", "port")


# Names appear as a whole or not at all.


@pytest.mark.asyncio
async def test_a_port_whose_await_was_forgotten(tmp_path: Path) -> None:
    """The arguments are checked before anything is done; the message says what is missing."""
    async with jobs(1, names=str(tmp_path / "names")) as (one,):
        port = one.Open_port()
        calls: list[Callable[[Any], object]] = [
            lambda port: one.Publish_name("a", port),
            lambda port: one.Publish_name(port, "a"),
            one.Lookup_name,
            lambda port: one.Unpublish_name(port, "a"),
            one.Close_port,
            one.Accept,
            one.Connect,
        ]
        for call in calls:
            with pytest.raises(TypeError, match=r"_name is .*: expected a string; await it, and give its result"):
                call(port)
        assert not list(tmp_path.glob("names/*"))
        await one.Close_port(await port)


def publishing(site: Site, names: Path, preparation: str) -> Running:
    """Start a program that publishes a name after some preparation, as both faces do."""
    text = f"""
import json, os, resource, signal
from aiompi.settings import Settings
from aiompi.job import published_names
{preparation}
published_names.publish(Settings(names={str(names)!r}), "service", "port" * 1000)
"""
    return site.start(sys.executable, site.program(text))


@pytest.mark.asyncio
async def test_a_process_that_is_killed_while_it_publishes(site: Site, tmp_path: Path) -> None:
    """Nobody finds the name. The next process that publishes one clears what is left, once it must be left over."""
    names = tmp_path / "names"
    killed = publishing(site, names, "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)").finish()
    assert killed.code == -signal.SIGKILL
    (half,) = names.iterdir()
    async with jobs(1, names=str(names)) as (one,):
        with pytest.raises(aiompi.MPI.NotPublishedError):
            await one.Lookup_name("service")
        await one.Publish_name("other", "port")
        assert half.exists(), "its process may still be writing it"
        os.utime(half, (0, 0))
        await one.Publish_name("service", "port")
        assert len(list(names.iterdir())) == 2
        assert not half.exists()


@pytest.mark.asyncio
async def test_a_name_that_is_gone_does_not_disturb_the_end(tmp_path: Path) -> None:
    """As when the directory for temporary files is cleared."""
    names = tmp_path / "names"
    async with jobs(1, names=str(names)) as (one,):
        await one.Publish_name("service", "port")
        (file,) = names.iterdir()
        file.unlink()
        with pytest.raises(aiompi.MPI.InvalidServiceError, match="has not published"):
            await one.Unpublish_name("service", "port")


def test_other_files_in_the_directory_of_names_are_left_alone(tmp_path: Path) -> None:
    """The user may have named any directory, such as the home directory."""
    tmp_path.chmod(0o700)
    kept = [tmp_path / name for name in (".bashrc", "data.csv", "ab.1234", "aiompi-1", "ab.aiompi-1.txt")]
    for path in kept:
        path.touch()
        os.utime(path, (0, 0))
    published.publish(Settings(names=str(tmp_path)), "service", "port")
    assert all(path.exists() for path in kept)


def test_a_link_in_place_of_the_usual_directory_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have made it, where all may write."""
    private = tmp_path / "private"
    private.mkdir(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"aiompi-names-{os.getuid()}").symlink_to(private)
    with pytest.raises(
        aiompi.MPI.InvalidServiceError, match="is not private to this user; set AIOMPI_NAMES to one that is"
    ):
        published.publish(Settings(), "service", "port")
    assert not list(private.iterdir())


def test_a_file_that_cannot_be_written_as_a_whole(site: Site, tmp_path: Path) -> None:
    """As on a full disk: the kernel refuses the bytes beyond a limit."""
    names = tmp_path / "names"
    limit = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (999, 999))"
    result = publishing(site, names, limit).finish()
    assert result.code == 1
    assert f"InvalidServiceError: {names} cannot be used for published names: File too large; set AIOMPI" in result.err
    assert not list(names.iterdir())


def test_a_directory_of_names_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(names=str(tmp_path / "file" / "names"))
    with pytest.raises(aiompi.MPI.InvalidServiceError, match="cannot be used for published names: Not a directory"):
        published.publish(settings, "service", "port")
