"""Tuning: times become rules, and jobs are measured with the algorithms that they name."""

from __future__ import annotations

import json

import pytest

from aiompi.bench import tune, tuning_rules
from aiompi.bench.__main__ import main
from aiompi.coll import select
from aiompi.coll.registry import COLLECTIVES

SIZES = [8, 512, 32768]
PRESENT = [{"algorithm": "pairwise", "max_ranks": 64, "power_of_two": True}, {"algorithm": "linear"}]


@pytest.fixture
def present(monkeypatch):
    """Present rules; the first holds neither for more ranks than are measured nor without shared memory."""
    before = [select.Rule("binomial", max_ranks=4, shared_memory=True), *(select.Rule(**rule) for rule in PRESENT)]
    monkeypatch.setattr(tuning_rules, "tuning", lambda: dict.fromkeys(COLLECTIVES, before))


def names(job):
    return dict(pair.split("=") for pair in job.command[1].removeprefix("AIOMPI_COLL=").split(","))


def test_rules_change_between_the_sizes_where_the_fastest_does(present):
    times = {"binomial": [1, 2, 9], "scatter_ring": [4, 3, 5]}
    assert tuning_rules.derive("bcast", SIZES, {4: times}) == [
        {"algorithm": "binomial", "max_ranks": 4, "max_bytes": 4096, "shared_memory": True},
        {"algorithm": "scatter_ring", "max_ranks": 4, "shared_memory": True},
        *PRESENT,
    ]


def test_rules_hold_up_to_the_number_of_ranks_that_was_measured_and_the_present_ones_for_more(present):
    measured = {2: {"linear": [1.0], "binomial": [2.0]}, 8: {"linear": [2.0], "binomial": [1.0]}}
    assert tuning_rules.derive("gather", [8], measured) == [
        {"algorithm": "linear", "max_ranks": 2, "shared_memory": True},
        {"algorithm": "binomial", "max_ranks": 8, "shared_memory": True},
        *PRESENT,
    ]


def test_rules_for_ranks_that_share_no_memory_stay(present, monkeypatch):
    before = [select.Rule("binomial", max_ranks=4), select.Rule("linear")]
    monkeypatch.setattr(tuning_rules, "tuning", lambda: dict.fromkeys(COLLECTIVES, before))
    assert tuning_rules.derive("gather", [8], {4: {"linear": [1.0], "binomial": [2.0]}}) == [
        {"algorithm": "linear", "max_ranks": 4, "shared_memory": True},
        {"algorithm": "binomial", "max_ranks": 4},
        {"algorithm": "linear"},
    ]
    assert tuning_rules.derive("gather", [8], {4: {"linear": [2.0], "binomial": [1.0]}}) == [
        {"algorithm": "binomial", "max_ranks": 4},
        {"algorithm": "linear"},
    ]


def test_rules_for_objects_stay(monkeypatch):
    for_objects = {"algorithm": "shm", "max_ranks": 8, "shared_memory": True, "objects": True}
    before = [select.Rule(**for_objects), select.Rule("ring")]
    monkeypatch.setattr(tuning_rules, "tuning", lambda: {"allgather": before})
    assert tuning_rules.derive("allgather", [8, 32], {8: {"ring": [2.0, 1.0], "shm": [1.0, 2.0]}}) == [
        for_objects,
        {"algorithm": "shm", "max_ranks": 8, "max_bytes": 16, "shared_memory": True},
        {"algorithm": "ring"},
    ]
    assert tuning_rules.derive("allgather", [8], {8: {"ring": [1.0], "shm": [2.0]}}) == [
        for_objects,
        {"algorithm": "ring"},
    ]
    # What is best for blocks of any length is for objects, too.
    assert tuning_rules.derive("allgather", [8], {8: {"ring": [2.0], "shm": [1.0]}}) == [
        {"algorithm": "shm", "max_ranks": 8, "shared_memory": True},
        {"algorithm": "ring"},
    ]


def test_numbers_of_ranks_with_the_same_outcome_share_rules(present):
    times = {"linear": [1.0], "binomial": [2.0]}
    assert tuning_rules.derive("gather", [8], {2: times, 4: times}) == [
        {"algorithm": "linear", "max_ranks": 4, "shared_memory": True},
        *PRESENT,
    ]


def test_the_present_algorithm_stays_unless_another_is_faster_by_the_margin(present):
    times = {"linear": [1.0], "binomial": [1.09], "pairwise": [1.5]}
    assert tuning_rules.derive("gather", [8], {4: times}) == [
        {"algorithm": "binomial", "max_ranks": 4, "shared_memory": True},
        *PRESENT,
    ]


def test_where_there_is_no_choice_there_are_no_new_rules(monkeypatch):
    monkeypatch.setattr(tuning_rules, "tuning", lambda: {"exscan": [select.Rule("recursive_doubling")]})
    assert tuning_rules.derive("exscan", [8], {4: {"recursive_doubling": [1.0]}}) == [
        {"algorithm": "recursive_doubling"}
    ]


def test_noise_makes_no_rules(present):
    times = {"linear": [1.0, 1.09, 1.0], "pairwise": [1.2, 1.0, 0.99]}
    assert tuning_rules.derive("alltoall", SIZES, {4: times}) == [
        {"algorithm": "linear", "max_ranks": 4, "shared_memory": True},
        *PRESENT,
    ]


def test_rules_are_written_in_the_form_of_the_tuning_data():
    derived = {"bcast": tuning_rules.derive("bcast", SIZES, {4: {"binomial": [1, 2, 9], "scatter_ring": [4, 3, 5]}})}
    text = tuning_rules.render({**derived, "barrier": [{"algorithm": "dissemination"}]}, {"machine": "a small one"})
    assert json.loads(text)["rules"]["bcast"] == derived["bcast"]
    assert json.loads(text)["origin"] == {"machine": "a small one"}
    first = next(
        rule for rule in select.parse(text)["bcast"] if not rule.objects
    )  # those for objects were not measured
    assert first == select.Rule("binomial", max_ranks=4, max_bytes=4096, shared_memory=True)


def test_each_algorithm_has_a_job():
    jobs = tune.contenders(list(COLLECTIVES), 3)
    for collective, entry in COLLECTIVES.items():
        assert [names(job).get(collective) for job in jobs if collective in names(job)] == list(entry.algorithms)
    assert all(job.command[job.command.index("-n") + 1] == "3" for job in jobs)


def test_jobs_are_measured(capsys, tmp_path):
    output = tmp_path / "tuning.json"
    sizes = ["--ranks", "2", "--sizes", "0,10", "--repeat", "1", "--output", str(output)]
    assert main(["tune", *sizes]) == 0
    printed = capsys.readouterr().out
    for collective, entry in COLLECTIVES.items():
        assert f"{collective}, 2 ranks" in printed
        assert all(name in printed for name in entry.algorithms)
    assert json.loads(output.read_text())["origin"]["command"].startswith("python -m aiompi.bench tune --ranks 2 ")
    parsed = select.parse(output.read_text())
    assert parsed.keys() == COLLECTIVES.keys()
    assert all(those[-1].max_ranks is those[-1].max_bytes is None for those in parsed.values())


@pytest.mark.parametrize("text", ["x", "0", "65", "1.5", "2,"])
def test_a_number_of_ranks_is_checked(text, capsys):
    with pytest.raises(SystemExit):
        main(["tune", "--ranks", text])
    assert "is no number from 1 to 64" in capsys.readouterr().err
