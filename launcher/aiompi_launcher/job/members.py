"""The members of an open job, as a state table: events in, actions out, no I/O, no clock.

A member is in a world, or waits for a world (it has sent Assemble), or neither. A member in a world is expected to ask
for the next world. A world is formed in two cases:

- No member is in a world any more, and enough members wait: the world has all waiting members.
- The time limit of a waiting member is over: the world has the waiting members that do not want a larger world. If
  these waiting members are too few, the call of the member whose time is over fails. So a member delays the others at
  most for their time limits.

A world is outdated when one of its members has ended, or when another member asks for a world. Each member of the world
is told once. Each world has its own table, `aiompi_launcher.job.table`, with the states of its ranks.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Final, TypeAlias

from aiompi.errors import RemoteProtocolError
from aiompi.wire import control
from aiompi_launcher.job.actions import Due, Hangup, Note, Send, StartTimer, StopTimer, Timer
from aiompi_launcher.job.admission import Refused
from aiompi_launcher.job.states import Rank, quoted
from aiompi_launcher.spec import EXIT_FAILURE

#: most seconds until all members of a new world have connected to each other's addresses
START_LIMIT: Final = 10.0
#: most bytes of the attributes of all members together; a new member gets all of them in one message
MAX_CARDS: Final = control.MAX_MESSAGE // 2
#: most awaited members that an answer names
_NAMED: Final = 8
#: most characters of a host name in messages, the maximum of Linux
_HOST: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """Action: make a world of these members, in the order of their ranks."""

    generation: int
    members: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Lose:
    """Action: a world loses a member. If the world has not started, its members give it up and ask for another one.

    Attributes:
        generation: of the world.
        member: its number, 0 if only the start takes too long.
        cause: a predicate such as "closed its connection to the job"; "" if the member itself tells the world that it
            leaves.
    """

    generation: int
    member: int
    cause: str


MemberAction: TypeAlias = Send | Hangup | Note | StartTimer | StopTimer | Form | Lose | control.MembershipChange


class _Member:
    """A member.

    Attributes:
        card: card of the member, for the other members.
        nbytes: length of the card.
        label: names the member in messages.
        process: process of the member, for the heartbeat.
        world: generation of the world that the member is in; 0 if it is in no world.
        outdated: True if the member has been told that its world is outdated.
        wants: the world for which the member waits; None if it does not wait.
        asked: number of the member's last call of `assemble`.
        timer: timer that ends the wait of the last call of `assemble`; None if this wait has no time limit.
    """

    def __init__(self, card: control.MemberCard, enter: control.Enter) -> None:
        self.card = card
        self.label = f"member {card['id']} ({quoted(card['host'][:_HOST])})"
        self.nbytes = len(control.encode(control.MembershipChange("joined", card, "")))
        self.process = Rank(card["id"])
        self.process.joiner, self.process.namespace = enter.pid, enter.namespace
        self.world = self.asked = 0
        self.outdated = False
        self.wants: control.Assemble | None = None
        self.timer: Timer | None = None


class Members:
    """The members of a job.

    Args:
        at_least: smallest size of a world.
        at_most: largest number of members, None for no limit.
        heartbeat: seconds after which a stuck member is expelled; 0 for never.
        namespace: see `control.Welcome`.

    Events are method calls; after each, perform the actions that `actions()` returns.
    """

    def __init__(
        self, at_least: int = 1, at_most: int | None = None, heartbeat: float = 0.0, namespace: str = ""
    ) -> None:
        self._at_least, self._at_most, self._heartbeat, self._namespace = at_least, at_most, heartbeat, namespace
        self._members: dict[int, _Member] = {}
        self._joined = self._generation = 0
        self._actions: list[MemberAction] = []

    def actions(self) -> list[MemberAction]:
        """Return the actions to perform now, in this order."""
        actions, self._actions = self._actions, []
        return actions

    def cards(self) -> list[control.MemberCard]:
        """Return the members, the oldest first."""
        return [member.card for member in self._members.values()]

    def processes(self) -> list[Rank]:
        """Return the processes of the members."""
        return [member.process for member in self._members.values()]

    # Events.

    def enter(self, enter: control.Enter, now: float) -> int:
        """A process wants to become a member. Return its number.

        Raises:
            Refused: the job has no place for another member.
        """
        if self._at_most is not None and len(self._members) >= self._at_most:
            raise Refused(f"the job has {self._at_most} members already, and takes no more")
        card = control.MemberCard(id=self._joined + 1, host=enter.host, since=now, attributes=enter.attributes)
        member = _Member(card, enter)
        if sum(other.nbytes for other in self._members.values()) + member.nbytes > MAX_CARDS:
            raise Refused(f"the members of the job say more than {MAX_CARDS} bytes of themselves")
        self._joined += 1
        self._tell_change("joined", member)
        self._members[self._joined] = member
        self.introduce(self._joined)
        return self._joined

    def introduce(self, number: int) -> None:
        """Send a member the list of all members, when it enters or has missed changes because it read too slowly."""
        if number in self._members:
            entered = control.Entered(number, self.cards(), self._heartbeat, self._namespace)
            self._actions.append(Send(number, entered))

    def received(self, number: int, message: control.Message) -> None:
        """A message of a member.

        Raises:
            RemoteProtocolError: a member must not send this message, or not now.
        """
        member = self._members[number]
        match message:
            case control.Assemble() if member.wants is None and message.number > member.asked:
                self._assemble(member, message)
            case control.Inquire():
                self._explain(member, message.number)
            case control.Withdraw():
                self._withdraw(member, message.number)
            case control.Leave():
                self._remove(member, "left", "")
            case control.Failed():
                self._remove(member, "failed", quoted(message.cause))
            case _:
                raise RemoteProtocolError(f"a member has sent {type(message).__name__}, which it may not send now")

    def lost(self, number: int, cause: str) -> None:
        """The connection of a member has ended."""
        member = self._members.get(number)
        if member is not None:
            self._remove(member, "failed", cause or "closed its connection to the job without leaving it")

    def stuck(self, number: int, cause: str) -> None:
        """Expel a member whose process is stopped, or whose machine is cut off."""
        self._actions.append(Send(number, control.Abort(EXIT_FAILURE, f"this member was expelled because it {cause}")))
        self.lost(number, cause)

    def left_world(self, number: int, generation: int, cause: str) -> None:
        """A member has left its world without asking for another one, or the world has lost it."""
        member = self._members.get(number)
        if member is not None and member.world == generation:
            member.world = 0
            if cause:
                self._outdate(generation, f"{member.label} {cause}")
            self._form_if_complete()

    def world_ended(self, generation: int) -> None:
        """No member is left in a world, or it was given up."""
        self._actions.append(StopTimer(Timer(Due.START, (generation,))))

    def expired(self, timer: Timer) -> None:
        """A timer has run out."""
        match timer.due, timer.subject:
            case Due.START, (generation,):
                self._actions.append(Lose(generation, 0, f"it has not started within {START_LIMIT:g} s"))
            case Due.ASSEMBLE, (number, call):
                self._give_up(number, call)

    def _give_up(self, number: int, call: int) -> None:
        """End a member's wait: form a world from `_content` if the member is in it, otherwise send it an error."""
        member = self._members.get(number)
        if member is None or member.wants is None or member.wants.number != call:
            return
        content = self._content()
        if member in content:
            self._form(content)
            return
        cause = self._shortage()
        member.wants = None
        self._actions.append(Send(number, control.Assembled(call, 0, 0, [], cause)))
        self._form_if_complete()

    # Reactions.

    def _assemble(self, member: _Member, message: control.Assemble) -> None:
        number = member.card["id"]
        if member.world:  # a world that has not started will never start
            self._actions.append(Lose(member.world, number, ""))
        self._stop_timer(member)
        member.world, member.wants, member.asked = 0, message, message.number
        if math.isfinite(message.within):
            member.timer = Timer(Due.ASSEMBLE, (number, message.number))
            self._actions.append(StartTimer(member.timer, max(0.0, message.within)))
        self._outdate(None, f"{member.label} asks for a new world")
        self._form_if_complete()

    def _stop_timer(self, member: _Member) -> None:
        if member.timer is not None:
            self._actions.append(StopTimer(member.timer))
            member.timer = None

    def _explain(self, member: _Member, number: int) -> None:
        """Tell a member for which other members it waits, unless it has just got a world."""
        if member.wants is not None and member.wants.number == number:
            others = [other for other in self._members.values() if other.world]
            named = [other.label for other in others[:_NAMED]]
            named += [f"{len(others) - _NAMED} more"] if len(others) > _NAMED else []
            absent = f"these members are in a world and have not asked for the next one: {', '.join(named)}"
            cause = absent if others else self._shortage()
            self._actions.append(Send(member.card["id"], control.Awaiting(number, cause, bool(others))))

    def _shortage(self) -> str:
        waiting = self._waiting()
        return f"{len(waiting)} of at least {self._needed(waiting)} members have asked for one"

    def _withdraw(self, member: _Member, number: int) -> None:
        """Handle the end of a wait. The member may have just got a world; then the world loses it."""
        if number != member.asked:
            return
        generation, member.world, member.wants = member.world, 0, None
        if generation:
            self._actions.append(Lose(generation, member.card["id"], ""))
        self._form_if_complete()

    def _remove(self, member: _Member, kind: str, cause: str) -> None:
        number = member.card["id"]
        del self._members[number]
        self._stop_timer(member)
        self._actions.append(Hangup(number))
        if kind == "failed":
            self._actions.append(Note(f"{member.label} has failed: it {cause}"))
        self._tell_change(kind, member, cause)
        if member.world:
            self._outdate(member.world, f"{member.label} has {kind}")
            self._actions.append(Lose(member.world, number, cause))
        self._form_if_complete()

    def _tell_change(self, kind: str, member: _Member, cause: str = "") -> None:
        change = control.MembershipChange(kind, member.card, cause)
        self._actions += [change, *(Send(number, change) for number in self._members)]

    def _outdate(self, generation: int | None, cause: str) -> None:
        """Tell the members of a world, or of all worlds, that their world is outdated."""
        for number, member in self._members.items():
            if member.world and not member.outdated and generation in (None, member.world):
                member.outdated = True
                self._actions.append(Send(number, control.Outdated(member.world, cause)))

    def _waiting(self) -> list[_Member]:
        return [member for member in self._members.values() if member.wants is not None]

    def _content(self) -> list[_Member]:
        """Return the largest set of waiting members whose size is enough for each of them."""
        content = self._waiting()
        while content and (size := len(content)) < self._needed(content):
            satisfied = [member for member in content if member.wants is not None and member.wants.at_least <= size]
            content = satisfied if size >= self._at_least else []
        return content

    def _needed(self, waiting: list[_Member]) -> int:
        return max(self._at_least, *(member.wants.at_least for member in waiting if member.wants is not None), 1)

    def _form_if_complete(self) -> None:
        waiting = self._waiting()
        expected = any(member.world for member in self._members.values())
        if waiting and not expected and len(waiting) >= self._needed(waiting):
            self._form(waiting)

    def _form(self, members: list[_Member]) -> None:
        self._generation += 1
        for member in self._members.values():
            member.world = 0  # from now on no member is expected to leave an earlier world
        numbers = [member.card["id"] for member in members]
        self._actions += [
            Form(self._generation, tuple(numbers)),
            StartTimer(Timer(Due.START, (self._generation,)), START_LIMIT),
        ]
        for rank, member in enumerate(members):
            member.world, member.outdated, member.wants = self._generation, False, None
            answer = control.Assembled(member.asked, self._generation, rank, numbers, "")
            self._actions.append(Send(numbers[rank], answer))
