"""Predicted times are those of the formulas, and the command prints them."""

from __future__ import annotations

import math

import pytest

from aiompi.bench.__main__ import main
from aiompi.bench.algorithms import table
from aiompi.bench.simulate.calls import ARGUMENTS, predict
from aiompi.bench.simulate.command import predictions
from aiompi.bench.simulate.network import Event, Model, Network
from aiompi.coll.algorithms.bcast import SEGMENT
from aiompi.coll.registry import COLLECTIVES
from aiompi.errors import InternalError

ALPHA, BETA, GAMMA = 1e-5, 1e-9, 3e-10
MODEL = Model(ALPHA, BETA, GAMMA)
M = 4 * SEGMENT


def log2(n):
    return (n - 1).bit_length()


# Time of a call with M bytes, n being a power of two: the formulas of the docstrings.
FORMULAS = {
    ("barrier", "dissemination"): lambda n: log2(n) * ALPHA,
    ("bcast", "binomial"): lambda n: log2(n) * (ALPHA + M * BETA),
    ("bcast", "scatter_ring"): lambda n: (log2(n) + n - 1) * ALPHA + 2 * (n - 1) / n * M * BETA,
    ("bcast", "scatter_recursive_doubling"): lambda n: 2 * log2(n) * ALPHA + 2 * (n - 1) / n * M * BETA,
    ("bcast", "pipelined_chain"): lambda n: (n - 2 + 4) * (ALPHA + M / 4 * BETA),
    ("gather", "binomial"): lambda n: log2(n) * ALPHA + (n - 1) * M * BETA,
    ("gather", "linear"): lambda n: (n - 1) * (ALPHA + M * BETA),
    ("scatter", "binomial"): lambda n: log2(n) * ALPHA + (n - 1) * M * BETA,
    ("scatter", "linear"): lambda n: (n - 1) * (ALPHA + M * BETA),
    ("allgather", "bruck"): lambda n: log2(n) * ALPHA + (n - 1) * M * BETA,
    ("allgather", "recursive_doubling"): lambda n: log2(n) * ALPHA + (n - 1) * M * BETA,
    ("allgather", "ring"): lambda n: (n - 1) * (ALPHA + M * BETA),
    ("alltoall", "bruck"): lambda n: log2(n) * (ALPHA + n / 2 * M * BETA),
    ("alltoall", "pairwise"): lambda n: (n - 1) * (ALPHA + M * BETA),
    ("alltoall", "linear"): lambda n: (n - 1) * (ALPHA + M * BETA),
    ("reduce", "binomial"): lambda n: log2(n) * (ALPHA + M * (BETA + GAMMA)),
    ("reduce", "linear"): lambda n: (n - 1) * (ALPHA + M * (BETA + GAMMA)),
    ("reduce", "rabenseifner"): lambda n: 2 * log2(n) * ALPHA + (n - 1) / n * M * (2 * BETA + GAMMA),
    ("allreduce", "recursive_doubling"): lambda n: log2(n) * (ALPHA + M * (BETA + GAMMA)),
    ("allreduce", "rabenseifner"): lambda n: 2 * log2(n) * ALPHA + (n - 1) / n * M * (2 * BETA + GAMMA),
    ("allreduce", "ring"): lambda n: 2 * (n - 1) * ALPHA + (n - 1) / n * M * (2 * BETA + GAMMA),
    ("reduce_scatter", "recursive_halving"): lambda n: log2(n) * ALPHA + (n - 1) / n * M * (BETA + GAMMA),
    ("scan", "linear"): lambda n: (n - 1) * (ALPHA + M * (BETA + GAMMA)),
}


@pytest.mark.parametrize(("collective", "algorithm"), FORMULAS)
def test_the_time_is_that_of_the_formula(collective, algorithm):
    for ranks in (2, 8, 16):
        expected = FORMULAS[collective, algorithm](ranks)
        assert predict(collective, algorithm, ranks, M, MODEL) == pytest.approx(expected, rel=1e-6), ranks


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_algorithm_can_be_predicted_for_any_number_of_ranks(collective):
    assert ARGUMENTS.keys() == COLLECTIVES.keys()
    for algorithm in COLLECTIVES[collective].algorithms:
        times = [predict(collective, algorithm, ranks, 100, MODEL) for ranks in (1, 2, 3, 5, 7, 33)]
        assert times[0] == 0
        assert all(ALPHA <= time < math.inf for time in times[1:])


def test_a_thousand_ranks():
    expected = 2 * 10 * ALPHA + 1023 / 1024 * M * (2 * BETA + GAMMA)
    assert predict("allreduce", "rabenseifner", 1024, M, MODEL) == pytest.approx(expected)


def test_an_algorithm_that_never_ends_is_reported():
    async def forget(node):
        if node.rank:
            await Event(node)

    with pytest.raises(InternalError, match=r"never ends on ranks \[1, 2\]"):
        Network(3, MODEL).run(forget)


def test_the_table_marks_the_fastest_and_the_chosen():
    sizes = [8, 4 * 2**20]
    heading, *rows = table("bcast", 64, sizes, predictions("bcast", 64, sizes, MODEL), shared_memory=False)
    assert heading.split() == ["bcast,", "64", "ranks", "8", "B", "4", "MiB"]
    lines = {row.split()[0]: row for row in rows}
    assert lines.keys() == COLLECTIVES["bcast"].algorithms.keys()
    assert lines["binomial"].count("us*<") == 1
    assert lines["scatter_recursive_doubling"].rstrip().endswith("us*<")


def test_the_command(capsys):
    assert main(["simulate", "reduce", "barrier", "reduce", "--ranks", "4,5", "--sizes", "8,64k", "--alpha", "1"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(lines) == 2 * (1 + 5) + 2 * (1 + 3)
    assert "reduce, 5 ranks" in lines[6]


@pytest.mark.parametrize(
    "arguments",
    [["magic"], ["--ranks", "0"], ["--ranks", "1025"], ["--sizes", "4x"], ["--alpha", "0"], ["--alpha", "inf"]],
)
def test_what_cannot_be_simulated_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        main(["simulate", *arguments])
    assert arguments[-1] in capsys.readouterr().err
