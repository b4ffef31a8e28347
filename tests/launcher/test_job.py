"""The state table, without processes."""

from __future__ import annotations

import signal

import pytest

from aiompi.wire import control, hello
from aiompi_launcher.job import failures, shutdown, table
from aiompi_launcher.job.actions import (
    Blame,
    Closed,
    Due,
    Exit,
    Fence,
    Hangup,
    Publish,
    Send,
    Signal,
    StartTimer,
    Timer,
)
from aiompi_launcher.job.admission import Refused, admit
from aiompi_launcher.job.states import JobPhase, RankState, World
from aiompi_launcher.job.table import Job
from support.cases import cases
from support.job_table import JobTable


def test_life_of_a_job():
    fixture = JobTable(2)
    keys = hello.pair_keys(fixture.job.world.key, 0, range(2))
    welcome = control.Welcome(0, 2, "/run/test", keys, job=fixture.job.id)
    assert fixture.receive(0, control.Join(100)) == [Send(0, welcome)]
    assert fixture.receive(0, control.Card({"at": 0})) == []
    fixture.receive(1, control.Join(101))
    cards = control.Cards([{"at": 0}, {"at": 1}])
    assert fixture.receive(1, control.Card({"at": 1})) == [Send(0, cards), Send(1, cards)]
    assert fixture.receive(1, control.Finalize()) == [Send(0, control.Left(1))]
    assert fixture.receive(0, control.Finalize()) == [Send(0, control.Finalized()), Send(1, control.Finalized())]
    fixture.receive(0, Closed())
    fixture.receive(1, Closed())
    assert fixture.exit(0) == []
    assert fixture.exit(1) == [Exit(0)]


def test_ranks_that_never_join_are_fine():
    fixture = JobTable(2)
    assert fixture.exit(1) == []
    assert fixture.exit(0) == [Exit(0)]


def test_a_rank_that_leaves_counts_for_the_fence_and_is_announced():
    fixture = JobTable(3).run_up()
    assert fixture.receive(1, control.Leave(), Closed()) == []
    assert fixture.exit(1) == [Send(0, control.Left(1)), Send(2, control.Left(1))]
    fixture.receive(0, control.Finalize())
    assert fixture.receive(2, control.Finalize()) == [Send(0, control.Finalized()), Send(2, control.Finalized())]


def test_the_exit_status_may_be_known_before_the_leaving():
    fixture = JobTable(2).run_up()
    assert fixture.exit(1) == [StartTimer(Timer(Due.HANGUP, (1,)), failures.SETTLE)]
    assert fixture.receive(1, control.Leave()) == [Send(0, control.Left(1))]


def test_a_rank_that_leaves_and_then_fails_is_not_announced_as_left():
    fixture = JobTable(2).run_up()
    fixture.receive(1, control.Leave(), Closed())
    fixture.exit(1, 3)
    assert fixture.verdict == "rank 1 exited with status 3"
    assert (fixture.sent(control.Left), fixture.sent(control.Abort)) == ([], [0])


def test_no_rank_that_has_left_is_told_of_others():
    fixture = JobTable(3, spawned=False).run_up()
    fixture.receive(0, control.Leave())
    fixture.receive(1, control.Leave())
    assert fixture.sent(control.Left) == [1, 2, 2]


@pytest.mark.parametrize(
    ("status", "verdict", "code"),
    [
        (3, "rank 1 exited with status 3", 3),
        (-9, "rank 1 was killed by signal 9 (SIGKILL)", 137),
        (-40, "rank 1 was killed by signal 40", 168),
    ],
)
def test_first_failure_ends_the_job(status: int, verdict: str, code: int):
    fixture = JobTable(2)
    assert fixture.exit(1, status) == [
        StartTimer(Timer(Due.VERDICT), failures.SETTLE),
        Blame(1, verdict),
        Signal(signal.SIGTERM),
        StartTimer(Timer(Due.KILL), shutdown.KILL_GRACE),
    ]
    assert fixture.exit(0, -15) == [Exit(code)]


def test_what_ignores_sigterm_is_killed():
    fixture = JobTable(2)
    fixture.exit(1, 1)
    assert fixture.expire(Due.KILL) == [Signal(signal.SIGKILL), StartTimer(Timer(Due.ABANDON), shutdown.ABANDON)]


def test_a_rank_whose_host_says_nothing_is_not_awaited_after_it_was_killed():
    fixture = JobTable(3)
    fixture.exit(1, 1)
    fixture.exit(0, -15)
    fixture.expire(Due.KILL)
    assert fixture.expire(Due.ABANDON) == [Exit(1)]


def test_failure_of_a_connected_rank_waits_for_its_last_words():
    fixture = JobTable(2).run_up()
    fixture.exit(1, 5)
    assert not fixture.all(Blame)
    fixture.receive(1, control.Abort(7, "rank 1 gave up"))
    assert (fixture.verdict, fixture.sent(control.Abort)) == ("rank 1 gave up", [0, 1])
    fixture.exit(0, 0)
    assert fixture.code == 7


def test_lost_connection_waits_for_the_exit_status():
    fixture = JobTable(2).run_up()
    fixture.receive(0, Closed())
    assert not fixture.all(Blame)
    fixture.exit(0, -11)
    assert fixture.verdict == "rank 0 was killed by signal 11 (SIGSEGV)"


def test_lost_connection_of_a_rank_that_lives_on():
    fixture = JobTable(2).run_up()
    fixture.receive(0, Closed())
    fixture.expire(Due.VERDICT)
    assert fixture.verdict == "rank 0 closed its connection to the launcher without calling Finalize"


def test_the_first_sign_of_failure_names_the_culprit():
    fixture = JobTable(3).run_up()
    fixture.receive(2, Closed())
    fixture.receive(0, control.Abort(1, "rank 0: rank 2 is gone"))
    fixture.exit(0, 1)
    fixture.exit(2, -9)
    assert fixture.verdict == "rank 2 was killed by signal 9 (SIGKILL)"


def test_exit_without_finalize():
    fixture = JobTable(2).run_up()
    fixture.exit(1)
    assert not fixture.all(Blame)
    fixture.receive(1, Closed())
    assert fixture.verdict == "rank 1 exited with status 0 without calling Finalize"
    fixture.exit(0, -15)
    assert fixture.code == 1


def test_exit_without_finalize_while_a_child_holds_the_connection():
    fixture = JobTable(2).run_up()
    fixture.exit(1)
    fixture.expire(Due.HANGUP)
    assert fixture.all(Hangup) == [Hangup(1)]
    assert fixture.verdict == "rank 1 exited with status 0 without calling Finalize"


def test_exit_after_leave_while_a_child_holds_the_connection():
    fixture = JobTable(1).run_up()
    fixture.receive(0, control.Leave())
    assert not any(isinstance(action, Exit) for action in fixture.exit(0))
    assert fixture.expire(Due.HANGUP) == [Hangup(0), Exit(0)]


@pytest.mark.parametrize("exit_first", [True, False])
def test_others_must_not_wait_in_init_for_a_rank_that_never_comes(exit_first: bool):
    fixture = JobTable(3)
    events = [lambda: fixture.exit(1), lambda: fixture.receive(0, control.Join(1))]
    for event in events if exit_first else reversed(events):
        event()
    assert "rank 1 exited with status 0 without ever joining the job, while rank 0 waits" in fixture.verdict
    assert fixture.sent(control.Abort) == [0]


def test_failure_after_finalize_still_counts():
    fixture = JobTable(2).run_up()
    for rank in (0, 1):
        fixture.receive(rank, control.Finalize())
    fixture.receive(0, Closed())
    fixture.exit(0, 2)
    fixture.exit(1, -15)
    assert (fixture.verdict, fixture.code) == ("rank 0 exited with status 2", 2)


@cases(("asked", "code"), [(5, 5), (256, 1), (0, 1), (-1, 255)])
def test_abort(asked: int, code: int):
    fixture = JobTable(2).run_up()
    fixture.receive(0, control.Abort(asked, ""))
    assert fixture.verdict == f"rank 0 called MPI_Abort({asked})"
    assert Send(1, control.Abort(code, fixture.verdict)) in fixture.done
    fixture.exit(0, asked % 256)
    fixture.exit(1, 1)
    assert fixture.code == code


def test_lines_of_a_process_do_not_look_like_those_of_the_launcher():
    fixture = JobTable(2).run_up()
    fixture.receive(0, control.Abort(5, "over\naiompi-launch: all is well\x1b[2J\udcff"))
    assert fixture.verdict == "over\n    aiompi-launch: all is well\\x1b[2J\\udcff"


def test_leaving_before_the_job_has_started_is_a_failure():
    fixture = JobTable(2)
    fixture.receive(0, control.Join(1), control.Leave(), Closed())
    fixture.exit(0)
    assert fixture.verdict == "rank 0 left the job before all ranks had joined"


@cases(
    "events",
    [
        [control.Card({})],
        [control.Join(1), control.Join(1)],
        [control.Join(1), control.Finalize()],
        [control.Join(1), control.Welcome(0, 1, "")],
    ],
)
def test_what_is_not_in_the_table_breaks_the_protocol(events: list[control.Message]):
    fixture = JobTable(2, spawned=False)
    fixture.receive(0, *events)
    assert "broke the control protocol" in fixture.verdict


def test_the_cause_of_the_end_of_a_connection_is_named():
    fixture = JobTable(1, spawned=False).run_up()
    fixture.receive(0, Closed("was lost: its host has not answered"))
    assert fixture.verdict == "rank 0 was lost: its host has not answered"
    assert fixture.code == 1


def test_every_message_has_a_reaction_in_every_state():
    for state in RankState:
        for message, _ in control.MESSAGES.values():
            known = table.TRANSITIONS.get((state, message))
            assert known is None or known in RankState
    assert {event for _, event in table.TRANSITIONS} == Job(1, directory="", spawned=True)._reactions.keys()
    assert {state for state, event in table.TRANSITIONS if event is Closed} == set(RankState) - {RankState.EXPECTED}
    assert {state for state, event in table.TRANSITIONS if event is control.Abort} == set(RankState) - {
        RankState.EXPECTED
    }


def test_signal_is_passed_on_once_then_kills():
    fixture = JobTable(2).run_up()
    fixture.job.signalled(signal.SIGINT)
    assert fixture.collect()[0] == Signal(signal.SIGINT)
    fixture.job.signalled(signal.SIGTERM)
    assert fixture.collect() == [Signal(signal.SIGKILL)]
    fixture.receive(0, Closed())
    fixture.exit(0, -9)
    fixture.exit(1, -9)
    assert (fixture.code, fixture.all(Blame)) == (130, [])


def test_after_a_signal_ranks_have_time_to_tidy_up():
    fixture = JobTable(3).run_up()
    fixture.job.signalled(signal.SIGINT)
    assert fixture.collect() == [Signal(signal.SIGINT), StartTimer(Timer(Due.TIDIED), shutdown.SIGNAL_GRACE)]
    fixture.receive(0, Closed())
    assert Signal(signal.SIGTERM) not in fixture.exit(0, 1)
    assert fixture.sent(control.Abort) == [1, 2]
    fixture.receive(1, Closed())
    fixture.exit(1, 1)
    assert fixture.expire(Due.TIDIED) == [Signal(signal.SIGTERM), StartTimer(Timer(Due.KILL), shutdown.KILL_GRACE)]
    assert Signal(signal.SIGKILL) in fixture.expire(Due.KILL)
    fixture.exit(2, -9)
    assert (fixture.code, fixture.all(Blame)) == (130, [])


def test_a_failure_long_after_a_signal_ends_the_job_at_once():
    fixture = JobTable(2).run_up()
    fixture.job.signalled(signal.SIGTERM)
    fixture.collect()
    assert fixture.expire(Due.TIDIED) == [], "they go on"
    fixture.receive(0, Closed())
    assert Signal(signal.SIGTERM) in fixture.exit(0, 1)


@pytest.mark.parametrize("ending", [False, True])
def test_timeout_while_ranks_tidy_up(ending):
    fixture = JobTable(2).run_up()
    fixture.job.signalled(signal.SIGINT)
    if ending:
        fixture.receive(0, Closed())
        fixture.exit(0, 1)
    fixture.collect()
    fixture.job.timed_out(1.5)
    assert fixture.collect().count(Signal(signal.SIGTERM)) == 1
    assert fixture.expire(Due.TIDIED) == []


def test_ranks_that_end_well_on_a_signal():
    fixture = JobTable(1)
    fixture.job.signalled(signal.SIGTERM)
    fixture.exit(0, 0)
    assert fixture.code == 143


def test_signal_before_anything_was_started():
    job = Job(2, directory="", spawned=True)
    job.signalled(signal.SIGINT)
    assert Exit(130) in job.actions()


def test_timeout():
    fixture = JobTable(1)
    fixture.job.timed_out(1.5)
    fixture.exit(0, -15)
    assert (fixture.code, "longer than 1.5 s" in fixture.verdict) == (124, True)


def test_failure_of_the_start_leaves_only_the_started_to_wait_for():
    job = Job(3, directory="", spawned=True)
    job.started(0, 100)
    job.failed("rank 1 cannot be started", 127)
    assert Blame(None, "rank 1 cannot be started") in job.actions()
    job.exited(0, -15)
    assert job.actions() == [Exit(127)]


def test_only_the_first_failure_counts():
    fixture = JobTable(1)
    fixture.job.failed("the first", 3)
    fixture.job.failed("the second", 4)
    fixture.job.timed_out(1)
    fixture.exit(0, 5)
    assert (fixture.verdict, fixture.code) == ("the first", 3)


class TestPlace:
    def test_claimed_rank(self):
        assert admit(JobTable(2).job, 1, 1) == 1

    @pytest.mark.parametrize("wanted", [2, -1, hello.RANK_ANY, 2**31 - 1])
    def test_no_such_rank_in_a_launched_job(self, wanted: int):
        with pytest.raises(Refused):
            admit(JobTable(2).job, wanted, 1)

    def test_taken(self):
        fixture = JobTable(2).run_up()
        with pytest.raises(Refused, match=r"rank 1 has joined already.*aiompi-launch --serve"):
            admit(fixture.job, 1, 1)

    @pytest.mark.parametrize("started", [101, 1])
    def test_taken_by_the_same_process(self, started: int):
        """Which the one that was started may have started."""
        fixture = JobTable(2)
        fixture.job.started(1, started)
        fixture.run_up()
        with pytest.raises(Refused, match=r"this process is rank 1 already: .* again only after it has finalized"):
            admit(fixture.job, 1, 101)

    def test_again_after_it_has_left(self):
        """The ranks are a new world when all have joined again; those of the old one finalize without it."""
        fixture = JobTable(2).run_up()
        fixture.receive(1, control.Leave())
        with pytest.raises(Refused, match="rank 1 has joined already"):
            admit(fixture.job, 1, 1)
        fixture.receive(1, Closed())
        assert admit(fixture.job, 1, 1) == 1
        fixture.receive(1, control.Join(7), control.Card({}))
        fixture.receive(0, control.Finalize())
        assert fixture.sent(control.Finalized) == [0]
        fixture.receive(0, Closed())
        assert admit(fixture.job, 0, 1) == 0
        fixture.receive(0, control.Join(6))
        assert fixture.sent(control.Cards) == [0, 1]
        fixture.receive(0, control.Card({}))
        assert fixture.sent(control.Cards) == [0, 1, 0, 1]
        fixture.receive(0, control.Finalize())
        fixture.receive(1, control.Finalize())
        assert fixture.sent(control.Finalized) == [0, 0, 1]

    def test_taken_by_a_process_of_another_machine(self):
        fixture = JobTable(2, spawned=False).run_up()
        with pytest.raises(Refused, match="rank 1 has joined already"):
            admit(fixture.job, 1, 101)

    def test_order_of_arrival(self):
        fixture = JobTable(3, spawned=False)
        fixture.receive(1, control.Join(1))
        assert admit(fixture.job, hello.RANK_ANY, 1) == 0
        fixture.receive(0, control.Join(1))
        assert admit(fixture.job, hello.RANK_ANY, 1) == 2
        fixture.receive(2, control.Join(1))
        with pytest.raises(Refused, match="complete"):
            admit(fixture.job, hello.RANK_ANY, 1)

    def test_not_while_the_job_ends(self):
        fixture = JobTable(2)
        fixture.exit(1, 1)
        assert fixture.job.phase is JobPhase.ENDING
        with pytest.raises(Refused, match="ending"):
            admit(fixture.job, 0, 1)


class TestServed:
    """Jobs whose processes belong to others."""

    def test_ends_when_all_have_left(self):
        fixture = JobTable(2, spawned=False).run_up()
        for rank in (0, 1):
            fixture.receive(rank, control.Leave())
        fixture.receive(1, Closed())
        assert fixture.receive(0, Closed()) == [Exit(0)]

    def test_a_death_needs_no_exit_status(self):
        fixture = JobTable(2, spawned=False).run_up()
        fixture.receive(1, Closed())
        assert "rank 1 closed its connection" in fixture.verdict
        assert fixture.sent(control.Abort) == [0]
        assert not fixture.all(Exit)
        assert fixture.receive(0, Closed()) == [Exit(1)]

    def test_what_does_not_go_is_hung_up_on(self):
        fixture = JobTable(2, spawned=False).run_up()
        fixture.receive(1, Closed())
        abandon = StartTimer(Timer(Due.ABANDON), shutdown.ABANDON)
        assert fixture.expire(Due.KILL) == [Signal(signal.SIGKILL), abandon, Hangup(0), Exit(1)]

    def test_signal_ends_it(self):
        fixture = JobTable(1, spawned=False).run_up()
        fixture.job.signalled(signal.SIGTERM)
        fixture.collect()
        assert fixture.sent(control.Abort) == [0]
        fixture.receive(0, Closed())
        assert fixture.code == 143


# Jobs that are a part of a larger world.


@pytest.fixture
def part() -> JobTable:
    """The ranks 3 and 4 of 6."""
    hosts = ("unix:/run/a", "unix:/run/b")
    world = World(first=3, size=6, key=b"k", address="192.0.2.1", universe={"native": False}, hosts=hosts)
    return JobTable(2, world=world)


def test_ranks_have_their_numbers_in_the_world(part: JobTable):
    universe = {"native": False}
    keys = hello.pair_keys(b"k", 4, range(6))
    welcome = control.Welcome(4, 6, "/run/test", keys, "192.0.2.1", "unix:/run/b", universe, job=part.job.id, process=4)
    assert part.receive(4, control.Join(104)) == [Send(4, welcome)]
    assert admit(part.job, 3, 1) == 3
    for absent in (0, 2, 5, 6):
        with pytest.raises(Refused, match=f"no rank {absent} in this job, only 3 to 4"):
            admit(part.job, absent, 1)
    part.exit(3, 7)
    part.receive(3, Closed())
    assert part.verdict == "rank 3 exited with status 7 before it had joined the job"


def test_cards_and_the_fence_are_those_of_the_world(part: JobTable):
    mine = [{"at": 3}, {"at": 4}]
    part.receive(3, control.Join(103), control.Card(mine[0]))
    part.receive(4, control.Join(104))
    assert part.receive(4, control.Card(mine[1])) == [Publish(mine)]
    everybody = [{}, {}, {}, *mine, {}]
    part.job.introduce(everybody)
    assert part.collect() == [Send(3, control.Cards(everybody)), Send(4, control.Cards(everybody))]
    part.receive(3, control.Finalize())
    assert part.receive(4, control.Finalize()) == [Fence()]
    assert part.receive(4, control.Leave()) == [], "one fence is enough"
    part.job.fenced()
    assert part.collect() == [Send(3, control.Finalized())]
    part.receive(3, Closed())
    part.receive(4, Closed())
    part.exit(3)
    part.exit(4)
    assert part.code == 0


def test_the_world_comes_too_late_for_a_rank_that_was_lost(part: JobTable):
    part.receive(3, control.Join(103), control.Card({}))
    part.receive(4, control.Join(104), control.Card({}), Closed())
    part.job.introduce([{}] * 6)
    assert part.sent(control.Cards) == []
    assert part.job.ranks[0].state is RankState.CARDED
