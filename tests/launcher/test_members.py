"""The table of the members of a job that is open: which members are a world, and when."""

from __future__ import annotations

import math

import pytest

from aiompi.errors import RemoteProtocolError
from aiompi.settings import Settings
from aiompi.wire import control
from aiompi_launcher.job import members
from aiompi_launcher.job.actions import Due, Hangup, Note, Send, StartTimer, Timer
from aiompi_launcher.job.admission import Refused
from aiompi_launcher.job.members import Form, Lose, MemberAction, Members
from aiompi_launcher.job.open_job import OpenJob
from aiompi_launcher.net.listen import listen_tcp
from aiompi_launcher.spec import ServeSpec


class Table:
    """A table that remembers what it wanted done."""

    def __init__(self, count: int = 0, at_least: int = 1, at_most: int | None = None) -> None:
        self.members = Members(at_least, at_most)
        self.calls: dict[int, int] = {}
        self.done: list[MemberAction] = []
        for _ in range(count):
            self.enter()

    def collect(self) -> list[MemberAction]:
        new = self.members.actions()
        self.done += new
        return new

    def enter(self) -> int:
        number = self.members.enter(control.Enter(7, "", "host", {"a": 1}), 12.5)
        self.collect()
        return number

    def send(self, number: int, message: control.Message) -> list[MemberAction]:
        self.members.received(number, message)
        return self.collect()

    def assemble(self, number: int, at_least: int = 1, within: float = math.inf) -> list[MemberAction]:
        self.calls[number] = self.calls.get(number, 0) + 1
        return self.send(number, control.Assemble(self.calls[number], at_least, within))

    def expire(self, timer: Timer) -> list[MemberAction]:
        self.members.expired(timer)
        return self.collect()

    def worlds(self) -> list[tuple[int, ...]]:
        return [action.members for action in self.done if isinstance(action, Form)]

    def told(self, kind: type) -> list[tuple[int, object]]:
        return [(a.number, a.message) for a in self.done if isinstance(a, Send) and isinstance(a.message, kind)]


def test_members_are_told_of_each_other() -> None:
    table = Table(2)
    card = [control.MemberCard(id=n, host="host", since=12.5, attributes={"a": 1}) for n in (1, 2)]
    assert table.told(control.Entered) == [(1, control.Entered(1, card[:1])), (2, control.Entered(2, card))]
    assert table.told(control.MembershipChange) == [(1, control.MembershipChange("joined", card[1], ""))]
    table.send(2, control.Leave())
    assert table.told(control.MembershipChange)[1:] == [(1, control.MembershipChange("left", card[1], ""))]
    assert Hangup(2) in table.done
    assert table.enter() == 3, "no number is given twice"
    table.members.lost(3, "")
    table.collect()
    ((_, change),) = table.told(control.MembershipChange)[3:]
    assert isinstance(change, control.MembershipChange)
    assert (change.kind, change.cause) == ("failed", "closed its connection to the job without leaving it")


def test_a_stuck_member_is_expelled_and_the_others_learn_why() -> None:
    table = Table(2)
    table.members.stuck(2, "was stopped for 2 s")
    table.collect()
    ((number, abort),) = table.told(control.Abort)
    assert isinstance(abort, control.Abort)
    assert (number, abort.reason) == (2, "this member was expelled because it was stopped for 2 s")
    ((number, change),) = table.told(control.MembershipChange)[1:]
    assert isinstance(change, control.MembershipChange)
    assert (number, change.kind, change.cause) == (1, "failed", "was stopped for 2 s")
    assert Note("member 2 (host) has failed: it was stopped for 2 s") in table.done


def test_the_name_of_a_host_in_messages_is_short() -> None:
    """Each short message of a member may make another one that has it, and it takes time to escape what is in it."""
    table = Table(1)
    table.members.enter(control.Enter(7, "", "\0" * control.MAX_TEXT, {}), 12.5)
    table.assemble(1)
    table.assemble(2)
    ((_, outdated),) = table.told(control.Outdated)
    assert isinstance(outdated, control.Outdated)
    assert outdated.cause == "member 2 (" + 64 * "\\x00" + ") asks for a new world"


def test_the_job_is_full() -> None:
    table = Table(2, at_most=2)
    with pytest.raises(Refused, match="has 2 members already"):
        table.enter()
    table.send(1, control.Leave())
    assert table.enter() == 3


def test_a_world_is_formed_once_all_expected_members_ask() -> None:
    table = Table(3)
    table.assemble(1, at_least=2)
    table.assemble(2, at_least=1)
    assert table.worlds() == [(1, 2)], "the third has never asked"
    table.assemble(3)
    assert [number for number, _ in table.told(control.Outdated)] == [1, 2]
    table.assemble(2)
    assert len(table.worlds()) == 1
    table.assemble(1)
    assert table.worlds() == [(1, 2), (1, 2, 3)]
    assert table.told(control.Assembled)[-1] == (3, control.Assembled(1, 2, 2, [1, 2, 3], ""))


@pytest.mark.parametrize("end", [control.Leave(), control.Failed(2, "failed"), None])
def test_a_member_that_goes_outdates_its_world_and_is_not_waited_for(end: control.Message | None) -> None:
    table = Table(3)
    for number in (1, 2, 3):
        table.assemble(number, 3)
    table.assemble(1)
    assert [number for number, _ in table.told(control.Outdated)] == [2, 3]
    if end is None:
        table.members.lost(2, "")
        table.collect()
    else:
        table.send(2, end)
    assert [number for number, _ in table.told(control.Outdated)] == [2, 3], "they are told once"
    table.assemble(3)
    assert table.worlds() == [(1, 2, 3), (1, 3)]


def test_the_least_size_is_that_of_the_job_and_of_each_call() -> None:
    table = Table(3, at_least=2)
    table.assemble(1)
    assert table.worlds() == []
    table.assemble(2, at_least=3)
    assert table.worlds() == []
    table.assemble(3)
    assert table.worlds() == [(1, 2, 3)]


def test_when_its_time_is_over_a_member_gets_those_that_are_there_or_an_error() -> None:
    table = Table(3)
    for number in (1, 2, 3):
        table.assemble(number, 3)
    assert StartTimer(Timer(Due.ASSEMBLE, (1, 2)), 5.0) in table.assemble(1, 2, 5.0)
    (failure,) = table.expire(Timer(Due.ASSEMBLE, (1, 2)))
    assert isinstance(failure, Send)
    assert isinstance(failure.message, control.Assembled)
    assert failure.message.cause == "1 of at least 2 members have asked for one"
    table.assemble(1, 2, 5.0)
    table.assemble(2, 1, 6.0)
    table.expire(Timer(Due.ASSEMBLE, (1, 2)))
    assert len(table.worlds()) == 1, "the timer of an earlier call"
    table.expire(Timer(Due.ASSEMBLE, (2, 2)))
    assert table.worlds()[1:] == [(1, 2)], "without the third, which does not ask"
    table.assemble(1)
    table.assemble(2)
    assert table.worlds()[2:] == [(1, 2)], "the third is not expected any more"


def test_a_member_that_wants_too_many_is_left_out_when_the_time_is_over() -> None:
    table = Table(4)
    for number in (1, 2, 3, 4):
        table.assemble(number, 4)
    table.assemble(1, 2**62)
    table.assemble(2, 4)
    table.assemble(3, 2)
    table.assemble(4, 1, 5.0)
    table.expire(Timer(Due.ASSEMBLE, (4, 2)))
    assert table.worlds()[1:] == [(3, 4)]
    table.assemble(3, 3, 5.0)
    table.assemble(4, 1)
    table.expire(Timer(Due.ASSEMBLE, (3, 3)))
    assert len(table.worlds()) == 2, "its own wish counts as well"
    few = Table(2, at_least=3)
    few.assemble(1, -1)
    few.assemble(2, -1, 5.0)
    few.expire(Timer(Due.ASSEMBLE, (2, 1)))
    assert few.worlds() == [], "and that of the job"


def test_a_member_that_does_not_want_its_world_any_more() -> None:
    table = Table(2)
    table.assemble(1, 2)
    table.send(1, control.Withdraw(1))
    table.assemble(2, 2)
    assert table.worlds() == []
    table.assemble(1, 2)
    assert table.worlds() == [(1, 2)]
    assert Lose(1, 1, "") in table.send(1, control.Withdraw(2))
    table.assemble(2)
    assert table.worlds() == [(1, 2), (2,)]
    assert table.send(2, control.Withdraw(1)) == [], "of an earlier call"


def test_a_member_that_only_leaves_its_world() -> None:
    table = Table(2)
    table.assemble(1, 2)
    table.assemble(2, 2)
    table.members.left_world(1, 1, "has left it")
    table.collect()
    assert [number for number, _ in table.told(control.Outdated)] == [2]
    table.assemble(2)
    assert table.worlds() == [(1, 2), (2,)]
    table.members.left_world(1, 1, "late")


def test_a_member_asks_which_others_it_waits_for() -> None:
    table = Table(11)
    for number in range(1, 11):
        table.assemble(number, 10)
    assert table.send(11, control.Inquire(1)) == [], "it has not asked for a world"
    table.assemble(11)
    table.assemble(3)
    assert table.send(11, control.Inquire(0)) == [], "it has given up that call"
    (told,) = table.send(11, control.Inquire(1))
    named = ", ".join(f"member {number} (host)" for number in (1, 2, 4, 5, 6, 7, 8, 9))
    absent = "these members are in a world and have not asked for the next one"
    assert told == Send(11, control.Awaiting(1, f"{absent}: {named}, 1 more", others=True))
    few = Table(1, at_least=2)
    few.assemble(1)
    (told,) = few.send(1, control.Inquire(1))
    assert told == Send(1, control.Awaiting(1, "1 of at least 2 members have asked for one", others=False))


def test_a_world_that_does_not_start_is_given_up() -> None:
    table = Table(1)
    assert any(action == StartTimer(Timer(Due.START, (1,)), 10.0) for action in table.assemble(1))
    assert table.expire(Timer(Due.START, (1,))) == [Lose(1, 0, "it has not started within 10 s")]


@pytest.mark.parametrize("message", [control.Finalize(), control.Assemble(1, 1, 0.0)])
def test_messages_that_members_may_not_send(message: control.Message) -> None:
    table = Table(2)
    table.assemble(1, 2)
    with pytest.raises(RemoteProtocolError):
        table.members.received(1, message)


def test_what_all_members_say_of_themselves_fits_into_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MAX_CARDS", 1000)
    table = Table()
    with pytest.raises(Refused, match="say more than 1000 bytes of themselves"):
        while True:
            table.enter()
    count = len(table.members.cards())
    assert 5 < count < 20
    table.send(1, control.Leave())
    assert table.enter() == count + 1
    most = control.Entered(1, table.members.cards(), 0.0, "")
    assert len(control.encode(most)) < 1100


def test_a_member_that_asks_again_gives_up_the_world_that_has_not_started() -> None:
    table = Table(2)
    table.assemble(1, at_least=2)
    table.assemble(2)
    assert table.worlds() == [(1, 2)]
    assert Lose(1, 2, "") in table.assemble(2)


@pytest.mark.asyncio
async def test_a_member_that_asks_again_and_again_leaves_nothing_behind() -> None:
    job = OpenJob(
        ServeSpec(size=None), listen_tcp("127.0.0.1"), bytes(32), settings=Settings(tls="off", heartbeat=0.0), say=print
    )
    member = job.members.enter(control.Enter(1, "", "host", {}), 0.0)
    for number in range(1, 100):
        job._inform(job.members.received, member, control.Assemble(number, 1, math.inf))
    assert len(job._worlds) == len(job._performer._timers) == 1
    job.close("the test is over")
