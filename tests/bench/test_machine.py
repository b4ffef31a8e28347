"""The description of the measured machine, and the sleep states of its cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiompi.bench import machine, targets
from aiompi.bench.__main__ import main
from aiompi.bench.contender import BenchError
from aiompi.bench.machine import idle_cores
from aiompi.bench.targets.figures import Family

DEVICE = Path("/dev/cpu_dma_latency")


def held(path: Path) -> bool:
    return any(fd.exists() and fd.readlink() == path for fd in Path("/proc/self/fd").iterdir())


def test_idle_cores_are_kept_awake_for_a_block(tmp_path: Path) -> None:
    device = tmp_path / "latency"
    device.touch()
    with idle_cores(True, device):
        assert device.read_bytes() == bytes(4)  # no microseconds at all
        assert held(device)
    assert not held(device)


def test_idle_cores_are_left_alone(tmp_path: Path) -> None:
    with idle_cores(False, tmp_path / "none"):
        pass


def test_idle_cores_that_may_not_be_kept_awake(tmp_path: Path) -> None:
    with (
        pytest.raises(BenchError, match=r"--awake: .*none, which only root may: No such file"),
        idle_cores(True, tmp_path / "none"),
    ):
        pytest.fail("it may not")


@pytest.mark.parametrize("command", ["targets", "latency"])
def test_commands_keep_cores_awake_where_they_may(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    awake: list[bool] = []

    def measure(*_: object) -> Iterator[Any]:
        awake.append(held(DEVICE))
        return iter(())

    monkeypatch.setattr("aiompi.bench.osu.command.measure", measure)
    monkeypatch.setattr(targets, "family", lambda name: Family(name, measure))
    code = main([command, "--awake"])
    told = capsys.readouterr()
    if os.access(DEVICE, os.W_OK):
        assert (code, told.err) == (0, "")
        assert awake
        assert all(awake)
        assert "idle cores kept awake" in told.out.splitlines()[0]
    else:
        assert (code, awake) == (1, [])
        assert f"aiompi.bench: --awake: idle cores are kept awake by {DEVICE}, which only root may" in told.err


def test_the_processor_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "_PROCESSORS", told)
    assert machine.machine()["processor"] == ""
    told.write_text("processor\t: 0\nmodel\t\t: 7\nmodel name\t: A Core: 3\n\nmodel name\t: Another\n")
    assert machine.machine()["processor"] == "A Core: 3"
