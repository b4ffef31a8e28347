"""Jobs that go on after failures: the state table, then real processes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from aiompi.errors import RemoteProtocolError
from aiompi.wire import control
from aiompi.wire.agreement import Agreements
from aiompi_launcher.job import traffic
from aiompi_launcher.job.actions import Closed, Due, Hangup, Loss, Note, Send, Signal, StartTimer, Timer
from aiompi_launcher.job.failures import SETTLE
from aiompi_launcher.net.control import MAX_UNREAD
from support.job_table import JobTable
from support.jobs import KEY, NEAREST, Site, in_face


def survivors(size: int = 3, *, spawned: bool = True) -> JobTable:
    return JobTable(size, spawned=spawned, survives=True).run_up()


def told(fixture: JobTable) -> list[tuple[int, str]]:
    return [(send.number, send.message.cause) for send in fixture.all(Send) if isinstance(send.message, control.Failed)]


def test_others_are_told_once_the_cause_is_known() -> None:
    fixture = survivors()
    assert fixture.receive(1, Closed())[0] != Note
    assert told(fixture) == []
    fixture.exit(1, -9)
    assert told(fixture) == [(rank, "was killed by signal 9 (SIGKILL)") for rank in (0, 2)]
    assert fixture.all(Loss) == [Loss(1, "rank 1 was killed by signal 9 (SIGKILL)")]
    for rank in (0, 2):
        fixture.receive(rank, control.Finalize())
    assert sorted(fixture.sent(control.Finalized)) == [0, 2], "the fence does not wait for the failed rank"
    for rank in (0, 2):
        fixture.receive(rank, Closed())
        fixture.exit(rank)
    assert fixture.code == 0


def test_others_are_told_soon_and_what_is_left_is_ended() -> None:
    """As when a child of the rank has its connection, or its process has closed it and goes on."""
    closed, exited = survivors(), survivors()
    closed.receive(1, Closed())
    assert StartTimer(Timer(Due.REPORT, (1,)), SETTLE) in closed.done, "the user is told later"
    closed.expire(Due.TELL)
    assert told(closed)[0] == (0, "closed its connection to the launcher without calling Finalize")
    closed.expire(Due.REPORT)
    assert closed.all(Signal) == [Signal(signal.SIGKILL, 1)]
    exited.exit(1, 3)
    exited.expire(Due.TELL)
    assert told(exited)[0] == (0, "exited with status 3")
    exited.expire(Due.REPORT)
    assert exited.all(Hangup) == [Hangup(1)]


def test_nothing_is_killed_that_the_launcher_has_not_started() -> None:
    fixture = survivors(spawned=False)
    fixture.receive(1, Closed())
    assert fixture.all(Signal) == []
    assert [rank for rank, _ in told(fixture)] == [0, 2]


def test_a_rank_says_why_it_ends() -> None:
    fixture = survivors()
    fixture.receive(1, control.Failed(0, "failed: ValueError: x"), Closed())
    fixture.exit(1, 1)
    assert told(fixture) == [(rank, "failed: ValueError: x") for rank in (0, 2)]


@pytest.mark.parametrize(("statuses", "code"), [((3, 4), 3), ((-9, 4), 137), ((3, 0), 0)])
def test_exit_code(statuses: tuple[int, int], code: int) -> None:
    fixture = survivors(2)
    for rank, status in enumerate(statuses):
        if not status:
            fixture.receive(rank, control.Finalize())
        fixture.receive(rank, Closed())
        fixture.exit(rank, status)
    assert fixture.code == code


def test_exit_code_of_a_rank_that_has_finalized() -> None:
    fixture = survivors(2)
    for rank in (0, 1):
        fixture.receive(rank, control.Finalize())
    for rank, status in ((0, 0), (1, 5)):
        fixture.receive(rank, Closed())
        fixture.exit(rank, status)
    assert (fixture.code, fixture.all(Note)) == (5, [Note("rank 1 exited with status 5 after it had finalized", 1)])


def test_abort_ends_the_job() -> None:
    fixture = survivors()
    fixture.receive(1, control.Abort(4, "enough"))
    assert fixture.verdict == "enough"


def test_before_all_have_joined_a_failure_ends_the_job() -> None:
    fixture = JobTable(2, survives=True)
    fixture.receive(0, control.Join(100))
    fixture.receive(0, Closed())
    fixture.exit(0, 1)
    assert fixture.verdict == "rank 0 exited with status 1"


def test_revocations_and_agreements_pass_through_the_launcher() -> None:
    fixture = survivors()
    assert fixture.receive(1, control.Revoke(6, 0)) == [Send(0, control.Revoke(6, 1)), Send(2, control.Revoke(6, 1))]
    fixture.receive(0, control.Agree(0, 0, [0, 1, 2], 5, 2, []))
    fixture.receive(2, control.Finalize())
    fixture.receive(1, Closed())
    fixture.exit(1, 1)
    assert fixture.done[-1] != Agreements
    (agreed,) = [send for send in fixture.all(Send) if isinstance(send.message, control.Agreed)]
    assert agreed == Send(0, control.Agreed(0, 0, 5, 2, [2, 1], False)), "one that has finalized is not waited for"


def test_breaking_the_protocol_of_agreements_fails_the_rank() -> None:
    fixture = survivors()
    fixture.receive(1, control.Agree(0, 0, [0, 2], 5, 2, []))
    fixture.expire(Due.TELL)
    assert told(fixture)[0][1].startswith("broke the control protocol: rank 1 takes part in an agreement twice")


def test_a_rank_that_is_stuck_is_expelled_and_told() -> None:
    for spawned in (True, False):
        fixture = survivors(spawned=spawned)
        fixture.job.stuck(1, "was stopped for 2 s")
        fixture.collect()
        (told_itself,) = [send for send in fixture.all(Send) if isinstance(send.message, control.Abort)]
        assert told_itself.number == 1
        assert told_itself.message.reason == "rank 1 was expelled from the job because it was stopped for 2 s"
        assert fixture.all(Signal) == ([Signal(signal.SIGKILL, 1)] if spawned else [])
        if spawned:
            fixture.receive(1, Closed())
            fixture.exit(1, -9)
        assert told(fixture) == [(rank, "was stopped for 2 s") for rank in (0, 2)]
        unread = control.Revoke(0, 1), control.Finalize(), control.Abort(4, "no")
        assert fixture.receive(1, *unread) == [], "what a failed rank sends is not read"
        fixture.job.stuck(1, "again")
        assert fixture.collect() == []


def test_a_rank_that_is_stuck_ends_a_job_that_does_not_survive() -> None:
    fixture = JobTable(2).run_up()
    fixture.job.stuck(1, "was stopped for 2 s")
    fixture.receive(1, Closed())
    fixture.exit(1, -9)
    assert fixture.verdict == "rank 1 was stopped for 2 s"
    fixture.exit(0, -15)
    assert fixture.code == 1, "and not that of the SIGKILL of the launcher"


def judged(fixture: JobTable, suspicions: list[tuple[int, int]]) -> list[int]:
    """Let ranks report links, and have these judged; return the ranks that were expelled, in order."""
    start = len(fixture.done)
    for rank, other in suspicions:
        fixture.receive(rank, control.Suspect(other, "reset"))
    for timer in [action.timer for action in fixture.done[start:] if isinstance(action, StartTimer)]:
        fixture.job.expired(timer)
        fixture.collect()
    new = fixture.done[start:]
    return [send.number for send in new if isinstance(send, Send) and isinstance(send.message, control.Abort)]


@pytest.mark.parametrize(
    ("suspicions", "expelled"),
    [
        ([(0, 1)], 0),
        ([(1, 0)], 1),
        ([(1, 0), (0, 1)], 1),
        ([(0, 1), (2, 0)], 0),
        ([(2, 0), (2, 1)], 2),
        ([(0, 2), (0, 1), (0, 3)], 0),
    ],
)
def test_one_of_two_ranks_whose_link_broke_is_expelled(suspicions: list[tuple[int, int]], expelled: int) -> None:
    """The one that has lost the most links, or the only one that says so, or else the later one; nothing is left."""
    fixture = survivors(4)
    assert judged(fixture, suspicions) == [expelled]
    fixture.receive(expelled, Closed())
    fixture.exit(expelled, -9)
    (cause,) = {cause for _, cause in told(fixture)}
    assert cause.startswith("has lost its link to rank ")
    assert cause.endswith(": reset")
    assert sorted(rank for rank, _ in told(fixture)) == [rank for rank in range(4) if rank != expelled]


@pytest.mark.parametrize("victims_speak", [True, False])
@pytest.mark.parametrize("hostile", [0, 5])
def test_a_hostile_rank_has_at_most_one_other_expelled(hostile: int, victims_speak: bool) -> None:
    """It breaks its links one after the other and names its victims, or has them name it and says nothing."""
    fixture = survivors(6)
    expelled: list[int] = []
    for victim in (rank for rank in range(6) if rank != hostile):
        those = [(victim, hostile)] if victims_speak else []
        expelled += judged(fixture, [*those, (hostile, victim)] if victim % 2 or not those else those)
        if hostile in expelled:
            break
    assert hostile in expelled
    assert len(expelled) <= 2


def test_a_rank_that_is_not_believed_does_no_harm_to_those_that_it_has_named() -> None:
    fixture = survivors(5)
    assert judged(fixture, [(0, 2), (0, 1)]) == [0]
    assert judged(fixture, [(3, 1), (1, 3)]) == [3], "rank 1 has lost no more links than rank 3"


def test_a_link_that_one_end_has_lost_is_judged_when_the_other_had_time_to_notice() -> None:
    """With a heartbeat both ends of a link notice that it is cut within that time, and so do the links of others."""
    fixture = survivors(5)
    fixture.job.heartbeat = 10.0
    assert judged(fixture, [(1, 0)]) == []
    (timer,) = [timer for timer in fixture.all(StartTimer) if timer.timer.due is Due.JUDGE_LAST]
    assert timer.seconds == 10.0
    assert judged(fixture, [(2, 0)]) == [0], "two ranks have lost their links to it"
    fixture.job.expired(timer.timer)
    assert fixture.collect() == []


def test_what_has_failed_in_a_spawned_job_is_told_to_all_in_the_name_of_the_rank_that_says_it() -> None:
    fixture = survivors()
    said = control.Obituary(b"j" * 16, False, 3, "why", starter=2)
    named = said._replace(starter=1)
    assert fixture.receive(1, said) == [Send(0, named), Send(2, named)]
    fixture.receive(1, control.Leave())
    assert fixture.receive(1, said) == [Send(0, named), Send(2, named)]


def test_a_job_that_does_not_survive_ends_at_once_with_a_link_that_one_end_has_lost() -> None:
    """It ends whichever of the two goes; all other ranks would wait."""
    fixture = JobTable(3).run_up()
    fixture.job.heartbeat = 10.0
    assert judged(fixture, [(0, 2)]) == [0]
    fixture.receive(0, Closed())
    fixture.exit(0, -9)
    assert fixture.verdict == "rank 0 has lost its link to rank 2: reset"


@pytest.mark.parametrize("end", [control.Leave(), Closed()])
def test_the_link_of_a_rank_that_has_ended_is_no_reason(end: control.Message | Closed) -> None:
    fixture = survivors()
    fixture.receive(0, control.Suspect(1, "reset"))
    fixture.receive(1, end)
    fixture.expire(Due.JUDGE)
    assert fixture.sent(control.Abort) == []
    fixture.receive(0, control.Suspect(0, "itself"), control.Suspect(9, "nobody"))
    assert fixture.sent(control.Abort) == []


def test_the_last_words_of_a_failed_rank_do_not_change_the_cause() -> None:
    fixture = survivors()
    fixture.exit(1, -9)
    fixture.receive(1, control.Agree(0, 0, [0, 1, 2], 5, 2, []), Closed())
    assert told(fixture)[0] == (0, "was killed by signal 9 (SIGKILL)")


def test_a_rank_revokes_many_communicators_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MAX_REVOCATIONS", 5)
    fixture = survivors()
    for context in range(5):
        fixture.receive(1, control.Revoke(context, 1))
    assert fixture.sent(control.Revoke) == [0, 2] * 5
    fixture.receive(1, control.Revoke(5, 1), control.Revoke(6, 1), Closed())
    fixture.exit(1, 1)
    assert fixture.sent(control.Revoke) == [0, 2] * 5
    assert told(fixture)[0] == (0, "broke the control protocol: it has revoked more than 5 communicators")


def test_the_longest_report_of_a_failure_does_not_grow_on_its_way() -> None:
    """Those that get it refuse longer ones as well, and would take the job for lost."""
    fixture = survivors(200)
    said = control.Obituary(b"", False, 3, "x" * control.MAX_OBITUARY)
    missing = 4 + control._LONGEST[control.Obituary] - len(control.encode(said._replace(job=bytes(2**8))))
    longest = control.encode(said._replace(job=bytes(2**8 + missing)))
    (message,) = control.Decoder().receive_data(longest)
    with pytest.raises(RemoteProtocolError):
        control.Decoder().receive_data(control.encode(message._replace(starter=199)))
    for send in fixture.receive(199, message):
        assert isinstance(send, Send)
        (got,) = control.Decoder().receive_data(control.encode(send.message))
        assert (got.cause, got.starter) == (said.cause, 199)


def test_a_rank_reports_many_failures_in_spawned_jobs_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rank has not read must stay below the bound beyond which it fails itself."""
    longest = control.Obituary(b"j" * 16, False, 2**63, chr(2**16) * control.MAX_OBITUARY, 2**63)
    assert control.Decoder().receive_data(control.encode(longest)) == [longest]
    assert 100 * traffic.MAX_OBITUARIES < MAX_UNREAD
    said = control.Obituary(b"j" * 16, False, 3, "why", 1)
    monkeypatch.setattr(traffic, "MAX_OBITUARIES", 5 * len(control.encode(said)))
    fixture = survivors()
    for _ in range(9):
        fixture.receive(1, said)
    assert fixture.sent(control.Obituary) == [0, 2] * 5
    assert told(fixture) == []


# Real processes.

LOSES = """
import os, signal, sys, time
from aiompi import MPI
world = MPI.COMM_WORLD
memory = bytearray({nbytes})
caught = 0
if world.rank in {losers}:
    world.Barrier()
    {end}
try:
    world.Barrier()
    while True:
        world.allreduce(bytes(memory), MPI.MAX)
except MPI.Exception as error:
    caught = error.Get_error_class()
world.Revoke()
smaller = world.Shrink()
total = smaller.allreduce(world.rank)
print(caught in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED), smaller.size, total, tuple(sorted(world.Get_failed().members)))
"""


@pytest.mark.parametrize(
    ("transport", "nbytes", "words", "env"),
    [
        (NEAREST, 8, ["--on-failure=continue"], {}),
        ("tcp", 300_000, [], {"AIOMPI_ON_FAILURE": "continue"}),
    ],
    ids=["short", "long"],
)
def test_a_rank_is_killed_in_collectives(
    site: Site, transport: str, nbytes: int, words: list[str], env: dict[str, str]
) -> None:
    """The job goes on if an option says so, or else the environment."""
    end = "time.sleep(0.05); os.kill(os.getpid(), signal.SIGKILL)"
    program = site.program(LOSES.format(nbytes=nbytes, losers=(2,), end=end))
    result = site.launch("-n", "4", *words, program, env={"AIOMPI_TRANSPORTS": transport} | env).finish()
    assert result.lines == ["True 3 4 (2,)"] * 3
    assert (result.code, result.err) == (
        0,
        "aiompi-launch: rank 2 was killed by signal 9 (SIGKILL); the job goes on without it\n",
    )


MANY = """
everyone = [*range(comm.size)]
async def call(nth, comm):
    assert await comm.allreduce([comm.rank], lambda a, b: a + b) == [*range(comm.size)]
    assert await comm.bcast(nth if comm.rank == nth % comm.size else None, nth % comm.size) == nth
    assert await comm.alltoall([[comm.rank, nth]] * comm.size) == [[rank, nth] for rank in range(comm.size)]
try:
    for nth in range(60):
        if nth == 40 and comm.rank == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        await call(nth, comm)
except (aiompi.ProcessFailedError, aiompi.RevokedError):
    assert nth in (39, 40)  # the others may still be in the call that rank 5 has left
comm.Revoke()
comm = await comm.Shrink()
for nth in range(60):
    await call(nth, comm)
sys.stdout.write(f"{comm.size}" + chr(10))
"""


def test_one_of_many_ranks_is_killed_in_collectives_of_short_objects(site: Site) -> None:
    result = site.launch("-n", "12", "--on-failure=continue", site.program(in_face("native", MANY))).finish()
    assert (result.code, result.lines) == (0, ["11"] * 11), result.err


@pytest.mark.parametrize(
    ("end", "option", "causes"),
    [
        (
            "os._exit(0) if world.rank == 2 else exec('raise ValueError(1)')",
            "-disable-auto-cleanup",
            ["exited with status 0 without calling Finalize", "failed: ValueError: 1"],
        ),
        ("sys.exit(7)", "--on-failure=continue", ["exited with status 7"]),
    ],
    ids=["no Finalize and exception", "status"],
)
def test_how_ranks_end(site: Site, end: str, option: str, causes: list[str]) -> None:
    """Their job goes on although the environment says otherwise than the option."""
    losers = tuple(range(2, 2 + len(causes)))
    program = site.program(LOSES.format(nbytes=8, losers=losers, end=end))
    env = {"AIOMPI_ON_FAILURE": "abort"}
    result = site.launch("-n", str(2 + len(causes)), option, program, env=env).finish()
    assert (result.code, result.lines) == (0, [f"True 2 1 {losers}"] * 2)
    for rank, cause in enumerate(causes, 2):
        assert f"aiompi-launch: rank {rank} {cause}; the job goes on without it" in result.err


def test_jobs_that_do_not_survive(site: Site) -> None:
    program = site.program(LOSES.format(nbytes=8, losers=(1,), end="os._exit(3)"))
    words = ("-n", "2", "--on-failure=abort", program)
    assert site.launch(*words, env={"AIOMPI_ON_FAILURE": "continue"}).finish().code == 3
    result = site.launch(program, env={"AIOMPI_ON_FAILURE": "maybe"}).finish()
    assert (result.code, "on_failure cannot be 'maybe': it is abort or continue" in result.err) == (1, True)
    result = site.launch("--client", "0", "localhost:1", "--on-failure=continue", program).finish()
    assert (result.code, "a job with other IMPI clients cannot survive failures" in result.err) == (1, True)


def test_end_of_a_user_who_stops_the_job(site: Site) -> None:
    program = "from aiompi import MPI\nMPI.COMM_WORLD.Barrier(); print('in', flush=True); MPI.COMM_WORLD.recv()"
    job = site.launch("-n", "2", "--on-failure=continue", site.program(program))
    job.expect("in", 2)
    job.signal(signal.SIGINT)
    assert job.finish().code == 128 + signal.SIGINT


def test_members_of_a_served_job_survive_by_default(site: Site, tmp_path: Path) -> None:
    job, address = site.serve(2)
    program = """
import asyncio, os, sys, aiompi

async def main():
    async with aiompi.init(sys.argv[1]) as world:
        if world.rank == 1:
            await world.recv(0)
            os._exit(1)
        await world.send("x", 1)
        try:
            await world.recv(1)
        except aiompi.ProcessFailedError as error:
            print(error)
        print((await world.Shrink()).size)

asyncio.run(main())
"""
    ranks = [site.start(sys.executable, site.program(program), address, env={"AIOMPI_KEY": KEY}) for _ in range(2)]
    ends = sorted((rank.finish() for rank in ranks), key=lambda result: result.code)
    cause = "closed its connection to the launcher without calling Finalize"
    assert ends[0].lines == ["1", f"rank 1 is gone: {cause}"]
    result = job.finish()
    assert (result.code, result.err) == (0, f"aiompi-launch: rank 1 {cause}; the job goes on without it\n")


STOPS = """
import os, signal, time
from aiompi import MPI
world = MPI.COMM_WORLD
world.allgather(world.rank)
if world.rank == 1:
    {end}
try:
    world.Barrier()
    print("in time")
except MPI.ProcessFailedError as error:
    print(error, world.Shrink().size)
"""


def test_a_stopped_rank_is_expelled(site: Site) -> None:
    program = site.program(STOPS.format(end="os.kill(os.getpid(), signal.SIGSTOP)"))
    cause = "was stopped for 0.5 s (AIOMPI_HEARTBEAT)"
    env = {"AIOMPI_HEARTBEAT": "0.5", "AIOMPI_TRANSPORTS": "tcp"}
    result = site.launch("-n", "3", "--on-failure=continue", program, env=env).finish()
    assert (result.code, result.lines) == (0, [f"rank 1 is gone: {cause} 2"] * 2)
    assert result.err == f"aiompi-launch: rank 1 {cause}; the job goes on without it\n"


@pytest.mark.parametrize("transport", [NEAREST, "tcp"])
def test_a_rank_that_computes_is_not_stuck(site: Site, transport: str) -> None:
    """Also in C code that holds the GIL."""
    env = {"AIOMPI_HEARTBEAT": "0.2", "AIOMPI_TRANSPORTS": transport}
    assert site.run(2, STOPS.format(end="sum(range(2 * 10**7))"), env=env).lines == ["in time"] * 2


def test_a_short_stop_is_survived(site: Site) -> None:
    end = "os.system(f'(sleep 0.5; kill -CONT {os.getpid()}) &'); os.kill(os.getpid(), signal.SIGSTOP)"
    assert site.run(2, STOPS.format(end=end), env={"AIOMPI_HEARTBEAT": "60"}).lines == ["in time"] * 2


@pytest.mark.parametrize(
    "namespace", ["", "from aiompi.wire import liveness; liveness.namespace = lambda: 'elsewhere'"]
)
def test_a_member_that_was_stopped_is_told_when_it_comes_back(site: Site, namespace: str) -> None:
    """The launcher has not started it, so it does not kill it; it cannot speak any more."""
    job = site.launch("--serve", "2", env={"AIOMPI_KEY": KEY, "AIOMPI_HEARTBEAT": "0.5"})
    job.expect("\n")
    program = f"""
import asyncio, os, signal, sys, aiompi
{namespace}

async def main():
    try:
        async with aiompi.init(sys.argv[1]) as world:
            pids = await world.allgather(os.getpid())
            if world.rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
                await world.send("I am here", 0)
                await world.recv(0)
            try:
                await world.recv(1)
            except aiompi.ProcessFailedError as error:
                print(error)
            smaller = await world.Shrink()
            os.kill(pids[1], signal.SIGCONT)
            await smaller.barrier()
    except aiompi.JobAbortedError as error:
        print("told:", error)

asyncio.run(main())
"""
    argv = (sys.executable, site.program(program), job.out.strip())
    members = [site.start(*argv, env={"AIOMPI_KEY": KEY}) for _ in range(2)]
    cause = "was stopped for 0.5 s (AIOMPI_HEARTBEAT)"
    ends = sorted(line for member in members for line in member.finish().lines)
    told_itself = f"told: rank 1 was expelled from the job because it {cause}"
    assert ends == [f"rank 1 is gone: {cause}", told_itself]
    assert job.finish().code == 0
