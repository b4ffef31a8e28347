"""The description of the measured machine, and the sleep states of its cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from aiompi.bench import machine
from aiompi.bench.contender import BenchError
from aiompi.bench.machine import idle_cores
from support.jobs import Site
from support.limits import LIMIT

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


@pytest.mark.parametrize("command", [["targets", "sockets"], ["latency", "--sizes", "8"]], ids=lambda words: words[0])
def test_commands_keep_cores_awake_where_they_may(command: list[str], site: Site) -> None:
    result = site.start(sys.executable, "-m", "aiompi.bench", *command, "--quick", "--repeat", "1", "--awake").finish(
        LIMIT
    )
    if os.access(DEVICE, os.W_OK):
        assert (result.code, result.err) == (0, "")
        assert "idle cores kept awake" in result.out.splitlines()[0]
    else:
        assert result.code == 1
        assert f"aiompi.bench: --awake: idle cores are kept awake by {DEVICE}, which only root may" in result.err


def test_the_processor_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "_PROCESSORS", told)
    assert machine.machine()["processor"] == ""
    told.write_text("processor\t: 0\nmodel\t\t: 7\nmodel name\t: A Core: 3\n\nmodel name\t: Another\n")
    assert machine.machine()["processor"] == "A Core: 3"
