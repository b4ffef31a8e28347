"""Test what a rank believes of failures in spawned jobs."""

from __future__ import annotations

from aiompi.engine.environment import Environment
from aiompi.engine.obituaries import _KEPT, Obituaries
from aiompi.engine.processes import Name
from aiompi.wire.control import MAX_OBITUARY, Obituary

JOB = b"j" * 16
STARTER = 2


def met() -> Obituaries:
    obituaries = Obituaries(Environment())
    obituaries.starters[JOB] = STARTER
    return obituaries


def test_the_cause_of_a_process_or_else_of_its_job() -> None:
    obituaries = met()
    obituaries.add(Obituary(JOB, False, 1, "its own", STARTER))
    assert [obituaries.cause(Name(JOB, process)) for process in (0, 1)] == [None, "its own"]
    obituaries.add(Obituary(JOB, True, 0, "that of all", STARTER))
    obituaries.add(Obituary(JOB, True, 0, "a later one", STARTER))
    assert [obituaries.cause(Name(JOB, process)) for process in (0, 1)] == ["that of all", "its own"]


def test_only_the_process_that_has_started_a_job_is_believed() -> None:
    obituaries = met()
    obituaries.add(Obituary(JOB, True, 0, "slander", STARTER + 1))
    assert obituaries.cause(Name(JOB, 0)) is None
    obituaries.add(Obituary(JOB, True, 0, "why", STARTER))
    assert obituaries.cause(Name(JOB, 0)) == "why"


def test_a_cause_may_come_before_the_job_has_been_met() -> None:
    obituaries = Obituaries(Environment())
    obituaries.add(Obituary(JOB, True, 0, "why", STARTER))
    assert obituaries.cause(Name(JOB, 0)) is None
    obituaries.starters[JOB] = STARTER
    assert obituaries.cause(Name(JOB, 0)) == "why"


def test_what_is_kept_is_bounded() -> None:
    obituaries = met()
    for process in range(2 * _KEPT):
        obituaries.add(Obituary(JOB, False, process, "x" * (2 * MAX_OBITUARY), STARTER))
    known = [obituaries.cause(Name(JOB, process)) for process in range(2 * _KEPT)]
    assert known == [None] * _KEPT + ["x" * MAX_OBITUARY] * _KEPT


def test_what_a_launcher_says_is_passed_on() -> None:
    obituaries, passed = met(), list[Obituary]()
    obituaries._environment.relay = passed.append  # type: ignore[method-assign]
    said = Obituary(JOB, True, 0, "why", STARTER)
    obituaries.announce(said)
    assert (passed, obituaries.cause(Name(JOB, 0))) == ([said], "why")
