"""Processes that a rank meets later: their numbers, their names, how they are addressed, and how they are forgotten."""

from __future__ import annotations

import pytest

from aiompi.comm import Communicator, Group
from aiompi.engine import Engine
from aiompi.engine.processes import FIRST_MET, Name
from aiompi.errors import InvalidGroupError, ProcessFailedError
from aiompi.settings import Settings
from aiompi.wire.control import BusinessCard
from aiompi.wire.hello import Namespace
from support.worlds import NoDriver

JOB, OTHER = b"j" * 16, b"o" * 16
CARD = BusinessCard(window=500)


def an_engine(rank: int = 1, size: int = 3, first: int = 10) -> Engine:
    """Return a rank of a world whose rank 0 is process `first` of its job."""
    engine = Engine(rank, size, Settings(), NoDriver())  # type: ignore[arg-type]
    engine.processes.enrol(JOB, b"k" * 32, first)
    return engine


def a_meeting(own: int = 0) -> Namespace:
    return Namespace(b"m" * 16, b"s" * 32, own)


def test_ranks_of_the_world_keep_their_numbers() -> None:
    processes = an_engine().processes
    assert processes.own == Name(JOB, 11)
    assert [processes.name(rank).process for rank in range(3)] == [10, 11, 12]
    assert [processes.of_job(process) for process in (9, 10, 12, 13)] == [None, 0, 2, None]
    assert processes.number(Name(OTHER, 11)) is None
    assert processes.meet(Name(JOB, 12), CARD, a_meeting(), 0) == 2
    assert processes.label(2) == "rank 2"


def test_process_of_the_job_is_addressed_by_its_number_there() -> None:
    processes = an_engine().processes
    number = processes.meet(Name(JOB, 20), CARD, a_meeting(), 7)
    namespace, index = processes.namespace_of(number)
    assert (namespace.id, namespace.own, index) == (JOB, 11, 20)
    assert processes.caller(JOB, 20) == number
    assert [processes.caller(JOB, index) for index in (11, 21)] == [None, None], "this rank itself, and a stranger"
    assert processes.label(number) == "process 20"
    assert not processes.is_stranger(0)
    assert not processes.is_stranger(number)


def test_process_of_another_job_is_addressed_in_the_namespace_of_the_meeting() -> None:
    processes = an_engine().processes
    meeting = a_meeting(own=3)
    number = processes.meet(Name(OTHER, 0), CARD, meeting, 8)
    assert number >= FIRST_MET
    assert processes.namespace_of(number) == (meeting, 8)
    assert processes.caller(meeting.id, 8) == number
    assert processes.caller(meeting.id, 9) is None
    assert processes.caller(b"?" * 16, 8) is None
    assert not processes.is_stranger(0)
    assert processes.is_stranger(number)
    assert processes.label(number) == f"process 0 of job {OTHER.hex()[:8]}"


def test_process_that_is_met_again_keeps_its_number_and_has_two_addresses() -> None:
    processes = an_engine().processes
    first, second = a_meeting(), Namespace(b"n" * 16, b"t" * 32, 0)
    number = processes.meet(Name(OTHER, 0), CARD, first, 8)
    assert processes.meet(Name(OTHER, 0), CARD, second, 1) == number
    assert processes.namespace_of(number) == (second, 1)
    assert processes.caller(first.id, 8) == processes.caller(second.id, 1) == number


def test_credit_and_shared_memory_follow_from_the_card() -> None:
    engine = an_engine()
    engine.environment.home = lambda card: card.get("host")
    engine.shm_domains[:] = ["here"] * 3
    near = engine.processes.meet(Name(JOB, 20), BusinessCard(window=500, host="here"), a_meeting(), 0)
    far = engine.processes.meet(Name(JOB, 21), BusinessCard(window=500, host="there"), a_meeting(), 0)
    assert engine.peer(near).credit == 500  # type: ignore[attr-defined]
    assert engine.share_memory([0, near])
    assert not engine.share_memory([0, near, far])


def state(engine: Engine) -> list[int]:
    """Return the lengths of everything in which a process that was met could be left."""
    processes = engine.processes
    tables = [getattr(processes, name, None) for name in dir(processes) if name not in ("home", "on_forgotten")]
    sizes = [len(table) for table in tables if isinstance(table, dict | set | list)]
    return [*sizes, len(engine.peers()), len(engine.failure.failed), len(engine.contexts)]


@pytest.mark.parametrize("job", [JOB, OTHER])
def test_a_thousand_meetings_leave_nothing(job: bytes) -> None:
    engine = an_engine()
    before, seen = state(engine), set()
    for process in range(1000):
        number = engine.processes.meet(Name(job, 100 + process), CARD, Namespace.new(0), 1)
        comm = Communicator(engine, Group.of((1, number), 1), 100, "")
        peer = engine.peer(number)
        peer.mark_failed("a test")
        assert not engine.processes.gone(number), "a communicator refers to it"
        comm.release()
        assert engine.known_peer(number) is None
        seen.add(number)
    assert len(seen) == 1000, "no number is used twice"
    assert state(engine) == before


@pytest.mark.parametrize("job", [JOB, OTHER])
def test_a_failed_operation_may_free_the_last_communicator_with_its_peer(job: bytes) -> None:
    engine = an_engine()
    before = state(engine)
    number = engine.processes.meet(Name(job, 20), CARD, a_meeting(), 0)
    comm = Communicator(engine, Group.of((1, number), 1), 100, "")
    request = comm.irecv(memoryview(bytearray(8)), 1, 0)
    request.when_done(comm.release)
    engine.peer(number).mark_failed("a test")
    assert isinstance(request.exception(), ProcessFailedError)
    assert engine.known_peer(number) is None
    assert state(engine) == before


def test_process_of_the_job_is_forgotten_only_when_it_has_ended() -> None:
    engine = an_engine()
    number = engine.processes.meet(Name(JOB, 20), CARD, a_meeting(), 0)
    Communicator(engine, Group.of((1, number), 1), 100, "").release()
    assert engine.processes.of_job(20) == number, "it may still send something"
    assert engine.processes.gone(number)
    assert engine.processes.of_job(20) is None
    assert not engine.processes.gone(0), "a rank of the world is never forgotten"


def test_process_that_was_forgotten_is_one_that_has_failed() -> None:
    """What still names it finds no way to it, and leaves nothing of it behind."""
    engine = an_engine()
    before = state(engine)
    number = engine.processes.meet(Name(OTHER, 0), CARD, a_meeting(), 0)
    Communicator(engine, Group.of((1, number), 1), 100, "").release()
    forgotten = engine.peer(number)
    assert isinstance(forgotten.error, ProcessFailedError)
    with pytest.raises(ProcessFailedError, match="a process that was forgotten"):
        forgotten.send((), 0, 100, 0, 0).result()
    engine.failure.spread_revocation(100, [number], 1)
    engine.failure.revoked(100, number)
    assert not engine.failure._revocations
    with pytest.raises(InvalidGroupError, match="a group has a process that was forgotten"):
        engine.processes.name(number)
    assert state(engine) == before


def test_process_that_has_ended_and_is_met_again_is_another_one() -> None:
    engine = an_engine()
    number = engine.processes.meet(Name(OTHER, 0), CARD, a_meeting(), 0)
    comm = Communicator(engine, Group.of((1, number), 1), 100, "")
    engine.peer(number).mark_finalized()
    again = engine.processes.meet(Name(OTHER, 0), CARD, Namespace.new(0), 0)
    assert again != number
    comm.release()
    assert engine.processes.number(Name(OTHER, 0)) == again
    assert engine.processes.label(number) == "a process that was forgotten"


def test_group_of_processes_that_were_met() -> None:
    engine = an_engine()
    number = engine.processes.meet(Name(OTHER, 0), CARD, a_meeting(), 0)
    group = Group.of((2, number), 1)
    assert group.Translate_ranks() == [2, -32766]
    assert group.Translate_ranks([0, 1], Group.of((number, 1), 1)) == [-32766, 0]


def test_failure_names_the_process() -> None:
    engine = an_engine()
    number = engine.processes.meet(Name(OTHER, 4), CARD, a_meeting(), 0)
    Communicator(engine, Group.of((1, number), 1), 100, "")
    engine.peer(number).mark_failed("it broke")
    with pytest.raises(ProcessFailedError, match="process 4 of job 6f6f6f6f is gone: it broke"):
        raise engine.peer(number).error  # type: ignore[misc]
