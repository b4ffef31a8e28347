"""The examples that run from start to end compute the right results."""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support.jobs import Result, Site

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(site: Site, size: int, name: str, *arguments: object) -> Result:
    """Run an example that must succeed, in silence on standard error."""
    result = site.launch("-n", str(size), str(EXAMPLES / name), *map(str, arguments)).finish()
    assert (result.code, result.err) == (0, ""), result
    return result


def test_every_example_is_tested() -> None:
    files = [path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].glob("*/test_*.py")]
    tests = "".join(text for text in files if "\nEXAMPLES = " in text)
    assert [
        path.name for path in EXAMPLES.glob("*.py") if path.name not in tests and f"{path.stem}:app" not in tests
    ] == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_commands_name_options_that_there_are(path: Path) -> None:
    """Check the commands at the beginning of an example, and the programs in them."""
    commands = path.read_text(encoding="utf-8").split('"""')[1]
    programs = re.findall(r"examples/(\w+\.py)((?: (?!examples/)\S+)*)", commands)
    assert path.name in dict(programs)
    for name, arguments in programs:
        for option in re.findall(r"--\w+", arguments):
            assert f'"{option}"' in (EXAMPLES / name).read_text(encoding="utf-8"), f"{name} has no {option}"


def test_hello(site: Site) -> None:
    lines = run(site, 2, "hello.py").lines
    host = lines[0].split()[-1]
    assert lines == [*(f"Hello from rank {rank} of 2 on {host}" for rank in range(2)), f"{host}: 2 ranks"]


def test_ring(site: Site) -> None:
    assert re.fullmatch(r"25 laps around 3 ranks, \d+ us per hop\n", run(site, 3, "ring.py", "--laps", 25).out)


def test_ring_with_a_late_token(site: Site) -> None:
    out = run(site, 2, "ring.py", "--laps", 1, "--work", 0.5, "--patience", 0.1).out
    *complaints, last = out.splitlines()
    assert set(complaints) == {"lap 0: no token for 0.1 s, still waiting"}
    assert last.startswith("1 laps around 2 ranks")


@pytest.mark.parametrize("size", [0, 3], ids=["spawned workers", "ranks"])
def test_julia(site: Site, tmp_path: Path, size: int) -> None:
    """The set is symmetric about its middle, and the picture equals that of a direct evaluation."""
    picture = tmp_path / "julia.png"
    command = [str(EXAMPLES / "julia.py"), "--size", "40", "--chunk", "3", "--picture", str(picture)]
    if size:
        job = site.launch("-n", str(size), "-m", "aiompi.futures", *command).finish()
    else:
        job = site.start(sys.executable, *command, "--workers", "2").finish()
    assert (job.code, job.err) == (0, "")
    steps = np.asarray(Image.open(picture))
    assert job.out == f"{np.count_nonzero(steps == 255)} of 1600 points stay, said 2 workers\n"
    for row, column in [(0, 0), (20, 20), (13, 27)]:
        z, expected = complex(-1.5 + 3 * column / 39, 1.5 - 3 * row / 39), 0
        while expected < 255 and abs(z := z * z + complex(-0.8, 0.156)) <= 2:
            expected += 1
        assert steps[row, column] == expected
    assert np.mean(steps != steps[::-1, ::-1]) < 0.02


@pytest.mark.parametrize("intervals", [1, 200_000])
def test_pi(site: Site, intervals: int) -> None:
    out = run(site, 3, "pi.py", "--intervals", intervals).out
    match = re.match(r"pi is about ([\d.]+), computed by 3 ranks in .* s\nerror (.+), within the bound", out)
    assert match is not None, out
    expected = math.fsum(4 / (1 + ((i + 0.5) / intervals) ** 2) for i in range(intervals)) / intervals
    assert float(match[1]) == pytest.approx(expected, abs=1e-12)
    assert float(match[2]) == pytest.approx(abs(expected - math.pi), rel=0.1, abs=1e-12)


@pytest.mark.parametrize(("size", "files", "top"), [(2, 7, None), (3, 2, 2)])
def test_wordcount(site: Site, tmp_path: Path, size: int, files: int, top: int | None) -> None:
    random.seed(size)
    texts = [random.choices(["Heat", "don't", "the", "THE", "été", "x1y"], k=50) for _ in range(files)]
    for number, words in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(" ".join(words) + ".\n-- 42", encoding="utf-8")
    # "x1y" is two words: digits separate.
    counted = [Counter(" ".join(words).casefold().replace("1", " ").split()) for words in texts]
    total = sum(counted, Counter[str]())
    expected = [
        f"{total[word]:8} times in {sum(word in text for text in counted):4} files: {word}"
        for word in sorted(total, key=lambda word: (-total[word], word))
    ]
    paths = sorted(tmp_path.glob("*.txt"))
    head, *lines = run(site, size, "wordcount.py", *(["--top", top] if top else []), *paths).out.splitlines()
    assert head == f"{len(total)} different words in {files} files"
    assert lines == expected[:top]


def test_wordcount_without_the_file(site: Site, tmp_path: Path) -> None:
    """The rank that cannot read ends the job, and says why; the others do not wait for it."""
    result = site.launch("-n", "2", str(EXAMPLES / "wordcount.py"), str(tmp_path / "missing.txt")).finish()
    assert result.code == 1
    assert "FileNotFoundError" in result.err
    assert "missing.txt" in result.err


def serial_plate(cells: int, steps: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The same physics on one array: each cell moves to the mean of its neighbours."""
    plate = np.zeros((cells + 2, cells + 2))
    plate[0] = 1.0
    for _ in range(steps):
        plate[1:-1, 1:-1] = (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
    return plate[1:-1, 1:-1]


def test_heat(site: Site, tmp_path: Path) -> None:
    size, cells = 4, 5
    array, picture = tmp_path / "heat.npy", tmp_path / "heat.png"
    out = run(site, size, "heat.py", "--cells", cells, "--steps", 150, "--array", array, "--picture", picture).out
    plate, expected = np.load(array), serial_plate(cells, 150)
    np.testing.assert_allclose(plate, expected, rtol=1e-12)
    assert f"{cells} x {cells} cells, 150 steps, {size} ranks, mean {expected.mean():.6f}" in out
    with Image.open(picture) as image:
        assert (image.size, image.mode) == ((cells, cells), "RGB")
        reddish = np.asarray(image)[:, :, 0]
    np.testing.assert_allclose(reddish / 255, np.minimum(3 * expected, 1), atol=1 / 255)


def serial_life(rows: int, columns: int, generations: int) -> str:
    cells = np.random.default_rng(1).integers(0, 2, (rows, columns), np.uint8)
    for _ in range(generations):
        around = sum(np.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1))
        cells = ((around == 3) | ((around == 4) & (cells == 1))).astype(np.uint8)
    return "\n".join("".join(".#"[cell] for cell in row) for row in cells)


@pytest.mark.parametrize("size", [1, 4])
def test_life(site: Site, size: int) -> None:
    out = run(site, size, "life.py", "--rows", 11, "--columns", 23, "--generations", 30).out
    assert out.strip() == serial_life(11, 23, 30)


def test_life_needs_a_cell_for_each_rank(site: Site) -> None:
    result = site.launch("-n", "4", str(EXAMPLES / "life.py"), "--rows", "1").finish()
    assert result.code == 2
    assert "4 ranks need at least 2 rows and 2 columns" in result.err


def test_timecalls(site: Site) -> None:
    site.program("times = 3", "beside.py")
    program = site.program("""
from beside import times
from aiompi import MPI
comm = MPI.COMM_WORLD
for _ in range(times):
    comm.bcast(comm.rank)
comm.Barrier()
""")
    result = site.launch("-n", "2", str(EXAMPLES / "timecalls.py"), program).finish()
    assert result.code == 0
    rows = [line.split() for line in result.err.splitlines()]
    assert rows[0] == ["call", "times", "seconds"]
    assert {(name, int(times)) for name, times, _ in rows[1:]} == {("bcast", 6), ("Barrier", 2)}
    assert all(float(seconds) > 0 for _, _, seconds in rows[1:])


def test_timecalls_keeps_the_exit_status(site: Site) -> None:
    result = site.launch("-n", "1", str(EXAMPLES / "timecalls.py"), site.program("raise SystemExit(3)")).finish()
    assert result.code == 3


def test_heat_stops_when_nothing_changes(site: Site, tmp_path: Path) -> None:
    array = tmp_path / "heat.npy"
    out = run(site, 2, "heat.py", "--cells", 6, "--steps", 5000, "--tolerance", 1e-4, "--array", array).out
    assert "100 steps" in out
    np.testing.assert_allclose(np.load(array), serial_plate(6, 100), rtol=1e-12)


def test_survivor(site: Site) -> None:
    """The result is that of a run without failures, whichever rank fails."""
    means = set()
    for kill in (-1, 0, 2):
        program = str(EXAMPLES / "survivor.py")
        words = ["--cells", "50", "--steps", "300", "--kill", str(kill)]
        result = site.launch("-n", "3", "--on-failure=continue", program, *words).finish()
        assert result.code == 0
        means.add(result.out.partition(" after")[0])
        assert f"after 300 steps, {3 if kill < 0 else 2} ranks left" in result.out
    assert len(means) == 1


def test_spawn_ranks(site: Site) -> None:
    result = site.start(sys.executable, str(EXAMPLES / "spawn_ranks.py"), "2000").finish()
    assert result.code == 0, result.err
    assert re.fullmatch(r"4 processes: pi is about 3\.\d\d\n", result.out)


def test_snapshot(site: Site) -> None:
    out = run(site, 3, "snapshot.py", "--rows", 50, "--columns", 31, "--file", "table").out
    assert re.fullmatch(r"50 x 31 numbers in table, written in \d+ ms\n", out)
    assert np.fromfile(site.directory / "table").tolist() == [*range(50 * 31)]
