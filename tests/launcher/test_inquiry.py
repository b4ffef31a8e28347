"""Which ranks are asked when one reports that it waits, and when the answers are compared."""

from __future__ import annotations

import pytest

from aiompi.wire import control
from aiompi.wire.wait_report import Wait, WaitReport
from aiompi_launcher.job.actions import Due, Note, Send, StartTimer, Timer
from aiompi_launcher.job.inquiry import PATIENCE, Inquiry
from aiompi_launcher.job.table import Job

WAITS = WaitReport((Wait("Recv", "app.py:1", 1.0),)).pack()
NOTHING = WaitReport().pack()


def running_job(size: int) -> Job:
    job = Job(size, directory="", spawned=False)
    for rank in range(size):
        job.received(rank, control.Join(100 + rank))
        job.received(rank, control.Card({}))
    job.introduce([{}] * size)
    job.actions()
    return job


def test_the_others_are_asked_once() -> None:
    inquiry = Inquiry()
    assert inquiry.add(1, 0, WAITS, [0, 2]) == [0, 2]
    assert not inquiry.complete
    assert inquiry.add(0, 0, WAITS, [1, 2]) == []
    assert inquiry.add(2, 1, NOTHING, [0, 1]) == []
    assert inquiry.complete
    assert "rank 2: in no MPI call" in inquiry.conclude()
    assert not inquiry.open


def test_answers_that_come_too_late_do_not_begin_anything() -> None:
    inquiry = Inquiry()
    inquiry.add(0, 0, WAITS, [1])
    assert "rank 1: no answer" in inquiry.conclude()
    inquiry.recent = False
    assert inquiry.add(1, 1, NOTHING, [0]) == []
    assert not inquiry.open
    assert inquiry.add(0, 0, WAITS, [1]) == [1]
    assert inquiry.add(1, 1, NOTHING, [0]) == []
    assert not inquiry.complete


def test_a_job_asks_and_tells() -> None:
    job = running_job(3)
    job.received(1, control.Report(0, WAITS))
    asked = [
        Send(0, control.ReportRequest(1)),
        Send(2, control.ReportRequest(1)),
        StartTimer(Timer(Due.CONCLUDE), PATIENCE),
    ]
    assert job.actions() == asked
    job.received(0, control.Report(1, NOTHING))
    assert job.actions() == []
    job.received(2, control.Report(1, NOTHING))
    (note,) = job.actions()
    assert isinstance(note, Note)
    assert "rank 1: Recv at app.py:1 for 1.0 s" in note.text
    job.expired(Timer(Due.CONCLUDE))
    assert job.actions() == []


def test_a_rank_that_does_not_answer_is_not_waited_for() -> None:
    """Nor is one asked that has left; one that is in Finalize is."""
    job = running_job(4)
    job.received(2, control.Leave())
    job.received(3, control.Finalize())
    job.actions()
    job.received(0, control.Report(0, WAITS))
    assert [action.number for action in job.actions() if isinstance(action, Send)] == [1, 3]
    job.received(3, control.Report(1, NOTHING))
    job.expired(Timer(Due.CONCLUDE))
    (note,) = job.actions()
    assert isinstance(note, Note)
    assert "rank 1: no answer" in note.text
    assert "rank 2" not in note.text


def test_a_rank_that_is_alone_is_told_at_once() -> None:
    job = running_job(1)
    job.received(0, control.Report(0, WAITS))
    timer, note = job.actions()
    assert (type(timer), type(note)) == (StartTimer, Note)


@pytest.mark.parametrize("size", [1, 2])
def test_a_rank_that_reports_without_end_is_heard_from_time_to_time(size: int) -> None:
    """The answers to an inquiry come at once, so that another one could begin."""
    job, notes = running_job(size), list[Note]()
    for expired in range(3):
        for _ in range(5):
            job.received(0, control.Report(0, WAITS))
            job.received(size - 1, control.Report(expired + 1, NOTHING))
        notes += [action for action in job.actions() if isinstance(action, Note)]
        assert len(notes) == expired + 1
        job.expired(Timer(Due.CONCLUDE))
