"""`python -m aiompi.bench targets` as a user runs it: every family runs, and leaves nothing behind (fixture `site`)."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from aiompi import core
from aiompi.bench import targets
from aiompi.bench.__main__ import main
from aiompi.bench.osu.benchmarks import BENCHMARKS
from aiompi.bench.osu.run import Row
from aiompi.bench.targets.figures import Family, Figure
from aiompi.coll.registry import COLLECTIVES
from support.jobs import Site
from support.limits import LIMIT

BENCH = (sys.executable, "-m", "aiompi.bench", "targets")
FIGURES = {
    "sockets": 12,
    "startup": 13,
    "responsive": 9 if core.form == "native" else 4,  # the pure form has no shared memory
    "streams": 12 if core.form == "native" else 11,
    "rma": 23,
    "files": 3,
    "workers": 7 if core.form == "native" else 3,
    "mpich": 84 if core.form == "native" else 51,  # most of both forms if both are installed
}
WITHOUT_REDIS = "redis-server is not installed: apt install redis-server"


def check(record: dict[str, Any]) -> None:
    for side in (record["ours"], record["floor"]):
        assert len(side["samples"]) == 1
        assert side["min"] == side["median"] == side["max"] == side["samples"][0]
        assert side["median"] >= 0 if record["unit"] in ("MiB", "s/s") else side["median"] > 0
        assert math.isfinite(side["median"])
    if record["floor"]["median"]:
        assert record["ratio"] == pytest.approx(record["ours"]["median"] / record["floor"]["median"])
    else:
        assert record["ratio"] is None
    assert (record["met"] is None) == (record["goal"] is None)


@pytest.mark.parametrize("family", targets.FAMILIES + targets.COMPARISONS)
def test_family(family: str, site: Site) -> None:
    path = site.directory / "bench.json"
    command = (*BENCH, family, family, "--quick", "--repeat", "1", "--json", str(path))
    result = site.start(*command).finish(4 * LIMIT)
    if family == "workers" and shutil.which("redis-server") is None:
        assert (result.code, result.err) == (1, f"aiompi.bench: {WITHOUT_REDIS}\n")
        return
    assert (result.code, result.err) == (0, "")
    assert family != "sockets" or result.out.count("floor") == 1, "a family that is named twice runs once"
    results = json.loads(path.read_text(encoding="utf8"))
    assert results["machine"]["python"] == sys.version.split()[0]
    assert results["options"] == {"repeat": 1, "quick": True, "awake": False}
    assert results["complete"]
    assert list(results["figures"]) == [family]
    records = results["figures"][family]
    assert len(records) == FIGURES[family]
    for record in records:
        check(record)
        assert record["name"] in result.out
        assert "1 waiting ranks" not in record["name"]


def test_workers_without_redis(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["workers", "--quick"]) == 1
    assert capsys.readouterr().err == f"aiompi.bench: {WITHOUT_REDIS}\n"


def test_a_family_by_its_own_name(site: Site) -> None:
    result = site.start(*BENCH[:-1], "streams", "--help").finish()
    assert (result.code, result.err) == (0, "")
    assert "--repeat" in result.out


def test_all_families_are_tested() -> None:
    assert set(FIGURES) == {*targets.FAMILIES, *targets.COMPARISONS}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda signum: signum.name)
def test_interrupted_while_it_measures(signum: signal.Signals, site: Site) -> None:
    running = site.start(*BENCH, "sockets", "--quick", "--repeat", "20")
    running.expect("blocking, 8 B")
    running.signal(signum)
    result = running.finish()
    assert result.code == (-signum if signum == signal.SIGKILL else 128 + signum)


COMMANDS = {
    "osu": ["barrier", "-n", "1", "--quick", "--repeat", "1"],
    "targets": ["targets", "sockets", "--quick", "--repeat", "1"],
    "simulate": ["simulate", "bcast", "--ranks", "2", "--sizes", "8"],
    "tune": ["tune", "exscan", "--ranks", "2", "--sizes", "8", "--repeat", "1"],
}


# `main` tells of both for every command: each of them meets one.


@pytest.mark.parametrize("command", ["targets", "simulate"])
def test_output_to_a_closed_pipe(command: str, site: Site) -> None:
    """It ends like a process that SIGPIPE ends, whether its first or a later line fails."""
    running = site.start(*BENCH[:-1], *COMMANDS[command])
    assert running.process.stdout is not None
    running.process.stdout.close()
    del running._open["out"]
    result = running.finish()
    assert (result.code, result.err) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("command", ["osu", "tune"])
def test_output_that_is_full(command: str, site: Site) -> None:
    words = " ".join((*BENCH[:-1], *COMMANDS[command]))
    result = site.start("sh", "-c", f"exec {words} > /dev/full").finish()
    assert (result.code, result.err) == (1, "aiompi.bench: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("command", "option"),
    [("osu", "--json"), ("osu", "--plot"), ("targets", "--json"), ("tune", "--output")],
    ids=str,
)
def test_files_that_are_full(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Row(BENCHMARKS["barrier"], 1, None, {"aiompi": [1.0]}, {"aiompi": 1})
    times = {name: [1.0] for name in COLLECTIVES["exscan"].algorithms}
    monkeypatch.setattr("aiompi.bench.osu.command.measure", lambda *_: iter([row]))
    monkeypatch.setattr("aiompi.bench.tune.measure", lambda *_: [("exscan", times)])
    monkeypatch.setattr(targets, "family", lambda name: Family(name, lambda _: iter([Figure("one", "us", [1], [1])])))
    path = "/dev/full"
    if option == "--plot":
        path = str(tmp_path / "full.png")
        os.symlink("/dev/full", path)
    assert main([*COMMANDS[command], option, path]) == 1
    assert capsys.readouterr().err == f"aiompi.bench: {path}: No space left on device\n"


def test_unknown_family(site: Site) -> None:
    result = site.start(*BENCH, "speed").finish()
    assert result.code == 2
    assert "'speed' is none of sockets, startup" in result.err


def test_no_turns(site: Site) -> None:
    result = site.start(*BENCH, "--repeat", "0").finish()
    assert result.code == 2
    assert "'0' is no number from 1 to 1000" in result.err


@pytest.mark.parametrize("family", ["sockets", "startup", "mpich"])
def test_families_are_commands(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The name is short for `targets` if no micro-benchmark has it."""
    with pytest.raises(SystemExit, match="0"):
        main([family, "--help"])
    assert "python -m aiompi.bench targets" in capsys.readouterr().out


def test_a_command_behind_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "targets", "sockets"]) == 2
    assert capsys.readouterr().err == "aiompi.bench: targets is a command, and comes before its options\n"
