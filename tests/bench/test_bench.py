"""`python -m aiompi.bench targets` as a user runs it: every family runs, and leaves nothing behind (`Site`)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiompi import core
from aiompi.bench import targets
from aiompi.bench.__main__ import main
from aiompi.bench.contender import Answer, Contender
from aiompi.bench.measure.turns import Work
from aiompi.bench.osu.benchmarks import BENCHMARKS
from aiompi.bench.osu.run import Row
from aiompi.bench.targets import mpich, workers
from aiompi.bench.targets.figures import Family, Figure, Options
from aiompi.coll.registry import COLLECTIVES
from support.jobs import Result, Site
from support.limits import LIMIT

BENCH = (sys.executable, "-m", "aiompi.bench", "targets")
#: of one form of the core
FIGURES = {
    "sockets": 12,
    "startup": 13,
    "responsive": 9 if core.form == "native" else 4,  # the pure form has no shared memory
    "streams": 12 if core.form == "native" else 11,
    "rma": 23,
    "files": 3,
    "workers": 4 if core.form == "native" else 3,
    "mpich": 51,
}
WITHOUT_REDIS = "redis-server is not installed: apt install redis-server"

#: `main` for each of the families that are named. What they start with the same command is started once.
SHARING = """
import contextlib, importlib, sys
from aiompi import core
from aiompi.bench.__main__ import main
from aiompi.bench.contender import Conversation, bind, cores

started = {}

@contextlib.contextmanager
def conversations(*contenders, processes=2):
    for command in {contender.command for contender in contenders} - started.keys():
        started[command] = ends.enter_context(Conversation(next(c for c in contenders if c.command == command)))
    everyone = tuple(started[contender.command] for contender in contenders)
    bind(everyone, cores()[:processes])
    yield everyone

with contextlib.ExitStack() as ends:
    for family in sys.argv[1:]:
        module = importlib.import_module(f"aiompi.bench.targets.{family}")
        module.conversations = conversations
        module.forms = lambda: {core.form: ()}
        main([family, "--quick", "--repeat", "1", "--json", f"{family}.json"])
"""


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Result]]:
    """The directory with the figures of all families but the first, and how it went."""
    with tempfile.TemporaryDirectory(prefix="jobs-") as base:
        site = Site(tmp_path_factory.mktemp("families"), Path(base))
        try:
            result = site.start(sys.executable, site.program(SHARING), *list(FIGURES)[1:]).finish(4 * LIMIT)
            site.settle()
            yield site.directory, result
        finally:
            site.close()


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


def figures(family: str, path: Path, output: str) -> dict[str, Any]:
    """Check the figures of a family. Return all that its file says."""
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    assert results["complete"]
    assert list(results["figures"]) == [family]
    records = results["figures"][family]
    assert len(records) == FIGURES[family]
    for record in records:
        check(record)
        assert record["name"] in output
        assert "1 waiting ranks" not in record["name"]
    return results


def test_a_family_by_the_command(site: Site) -> None:
    path = site.directory / "bench.json"
    command = (*BENCH, "sockets", "sockets", "--quick", "--repeat", "1", "--json", str(path))
    result = site.start(*command).finish(4 * LIMIT)
    assert (result.code, result.err) == (0, "")
    assert result.out.count("floor") == 1, "a family that is named twice runs once"
    results = figures("sockets", path, result.out)
    assert results["machine"]["python"] == sys.version.split()[0]
    assert results["options"] == {"repeat": 1, "quick": True, "awake": False}


@pytest.mark.parametrize("family", list(FIGURES)[1:])
def test_family(family: str, families: tuple[Path, Result]) -> None:
    directory, result = families
    path = directory / f"{family}.json"
    if family != "workers" or shutil.which("redis-server") is not None:
        assert path.exists(), result.err
        figures(family, path, result.out)


def test_families_complain_of_nothing(families: tuple[Path, Result]) -> None:
    _, result = families
    redis = shutil.which("redis-server") is not None
    assert (result.code, result.err) == (0, "" if redis else f"aiompi.bench: {WITHOUT_REDIS}\n")


class Alike(contextlib.nullcontext[Any]):
    """A conversation in which everything takes 2 s in the pure form, 4 s in the native one, and 1 s elsewhere."""

    def __init__(self, contender: Contender) -> None:
        super().__init__(self)
        forms = {"AIOMPI_CORE=pure": 2.0, "AIOMPI_CORE=native": 4.0}
        (self._seconds,) = {forms[word] for word in contender.command if word in forms} or {1.0}

    def ask(self, work: Work) -> Answer:
        return [self._seconds if work["work"] == "idle" else [self._seconds]] * 2

    begin = ask

    def finish(self) -> None:
        """Do nothing: no work is in progress."""


@pytest.mark.parametrize(("family", "count"), [(mpich, 84), (workers, 7)], ids=["mpich", "workers"])
def test_each_installed_form_has_figures(family: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    talks = lambda *contenders, **_: contextlib.nullcontext([*map(Alike, contenders)])  # noqa: E731
    monkeypatch.setattr(family, "conversations", talks)
    monkeypatch.setattr(family, "forms", lambda: {form: (f"AIOMPI_CORE={form}",) for form in ("pure", "native")})
    monkeypatch.setattr(family, "redis_pair", lambda: Contender("redis", ()), raising=False)
    found = {figure.name: figure for figure in family.figures(Options(1, quick=True))}
    assert len(found) == count
    for name, figure in found.items():
        if name.endswith(", pure"):
            native = found[name.removesuffix("pure") + "native"]
            rate = figure.unit in ("MB/s", "1/s")
            assert native.ours[0] / figure.ours[0] == pytest.approx(0.5 if rate else 2)
            assert native.floor == figure.floor


def test_workers_without_redis(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["workers", "--quick"]) == 1
    assert capsys.readouterr().err == f"aiompi.bench: {WITHOUT_REDIS}\n"


def test_all_families_are_tested() -> None:
    assert set(FIGURES) == {*targets.FAMILIES, *targets.COMPARISONS}


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


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["speed"], "'speed' is none of sockets, startup"), (["--repeat", "0"], "'0' is no number from 1 to 1000")],
    ids=["family", "turns"],
)
def test_wrong_arguments(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["targets", *arguments])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("family", ["startup", "mpich"])
def test_families_are_commands(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The name is short for `targets` if no micro-benchmark has it."""
    with pytest.raises(SystemExit, match="0"):
        main([family, "--help"])
    assert "python -m aiompi.bench targets" in capsys.readouterr().out


def test_a_command_behind_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "targets", "sockets"]) == 2
    assert capsys.readouterr().err == "aiompi.bench: targets is a command, and comes before its options\n"
