"""Figures and their goals, and the table of them."""

from __future__ import annotations

import json

import pytest

from aiompi.bench.targets import figures as table
from aiompi.bench.targets.figures import Figure, Goal


def test_ratio_and_difference_are_of_medians() -> None:
    figure = Figure("f", "us", [9.0, 6.0, 100.0], [1.0, 3.0, 2.0])
    assert figure.ratio == 4.5
    assert figure.difference == 7.0
    assert figure.met is None


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("ratio", "at most", 2.0), True),
        (Goal("ratio", "at most", 1.9), False),
        (Goal("ratio", "at least", 2.0), True),
        (Goal("ratio", "at least", 2.1), False),
        (Goal("difference", "at most", 3.0), True),
        (Goal("difference", "at most", 2.9), False),
        (Goal("ours", "at most", 6.0), True),
        (Goal("ours", "at most", 5.9), False),
    ],
    ids=lambda value: value.text("us") if isinstance(value, Goal) else "",
)
def test_goal(goal: Goal, met: bool) -> None:
    assert Figure("f", "us", [6.0], [3.0], goal).met is met


def test_a_floor_of_nothing_gives_no_ratio() -> None:
    figure = Figure("f", "MiB", [1.0], [0.0], Goal("ratio", "at most", 1.0))
    assert figure.ratio is None
    assert figure.met is None


def test_record_keeps_every_sample() -> None:
    figure = Figure("f", "us", [3.0, 1.0, 2.0], [1.0], Goal("ours", "at most", 2.0))
    assert json.loads(json.dumps(figure.record())) == {
        "name": "f",
        "unit": "us",
        "ours": {"median": 2.0, "min": 1.0, "max": 3.0, "samples": [3.0, 1.0, 2.0]},
        "floor": {"median": 1.0, "min": 1.0, "max": 1.0, "samples": [1.0]},
        "ratio": 2.0,
        "difference": 1.0,
        "goal": {"subject": "ours", "sense": "at most", "bound": 2.0},
        "met": True,
    }


def test_table() -> None:
    figures = [
        Figure("8 B", "us", [20.0, 24.0, 22.0], [5.5], Goal("ratio", "at most", 3.5)),
        Figure("import", "ms", [150.25], [1000.0], Goal("difference", "at most", 80.0)),
        Figure("memory", "MiB", [0.03125], [0.0]),
    ]
    assert [table.head("title", "floor"), *map(table.line, figures)] == [
        "title                                       unit     ours  min..max           floor  min..max         ratio  "
        "target",
        "8 B                                         us       22.0  20.0..24.0          5.50  5.50..5.50        4.00  "
        "<= 3.5               missed",
        "import                                      ms        150  150..150            1000  1000..1000        0.15  "
        "difference <= 80 ms  ok",
        "memory                                      MiB     0.031  0.031..0.031           0  0..0",
    ]
