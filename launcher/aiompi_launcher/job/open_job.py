"""A job that is open, around the table of its members: connections and timers, for a launcher or inside a program.

`OpenJob` listens, and performs the actions of `aiompi_launcher.job.members`. Each world of the job is a `_World` around
the state table of `aiompi_launcher.job.table`.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from aiompi.errors import RemoteProtocolError
from aiompi.settings import Settings
from aiompi.wire import control, liveness
from aiompi_launcher.job import states
from aiompi_launcher.job.heartbeat import Heartbeat
from aiompi_launcher.job.members import Form, Lose, Members
from aiompi_launcher.job.table import Job
from aiompi_launcher.net.control import Connection, ControlServer
from aiompi_launcher.net.listen import StrangerReports, host_of_all
from aiompi_launcher.spec import EXIT_FAILURE

if TYPE_CHECKING:
    import socket

#: states of a rank that is not in its world any more
_GONE: Final = frozenset({states.RankState.LEFT, states.RankState.FINALIZED, states.RankState.FAILED})

#: bytes that a member has not read, from which on it is not told of changes, and of all members later
_BEHIND: Final = 2**20


class _World:
    """One world: its ranks are members of the job, by their connections for this world.

    Args:
        generation: of the world.
        members: their numbers, by rank.
        on_gone: called with a member that is not in the world any more, the generation, and why it has left or failed.
        on_end: called when no member is left.
        chat: reports progress.
        heartbeat, address: as in `control.Welcome`.
    """

    def __init__(
        self,
        generation: int,
        members: tuple[int, ...],
        on_gone: Callable[[int, int, str], object],
        on_end: Callable[[int], object],
        chat: Callable[[str], object],
        heartbeat: float,
        address: str,
    ) -> None:
        self.generation = generation
        self._members = dict(enumerate(members))
        self._on_gone, self._on_end, self._chat = on_gone, on_end, chat
        self._left = f"is not in world {generation} any more"
        self._links: dict[int, Connection] = {}
        self._started = False
        self._job = Job(len(members), directory="", spawned=False, survives=True, heartbeat=heartbeat)
        self._job.enrol(states.World(size=len(members), address=address))

    def join(self, link: Connection, wanted: int, join: control.Join) -> None:
        """Let a connection be a rank.

        Raises:
            Refused: there is no such rank, or it is taken.
        """
        link.rank = self._job.place(wanted, join.pid)
        self._links[link.rank] = link
        self.inform(self._job.received, link.rank, join)

    def received(self, link: Connection, event: control.Message | states.Closed) -> None:
        """A message of a rank, or the end of its connection."""
        if self._links.get(link.rank) is link:
            if isinstance(event, states.Closed):
                del self._links[link.rank]
            self.inform(self._job.received, link.rank, event)

    def lose(self, member: int, cause: str) -> None:
        """End the world if it has not started; otherwise let it go on without a member that has failed."""
        if not self._started:
            self.inform(self._job.failed, f"the world is given up: {cause or 'a member does not join it'}")
            return
        ranks = [rank for rank, other in self._members.items() if other == member]
        for rank in ranks if cause else ():
            self.inform(self._job.stuck, rank, cause)

    def close(self, reason: str) -> None:
        """End the world."""
        self.inform(self._job.failed, reason)
        for link in self._links.values():
            link.close()

    def inform(self, event: Callable[..., None], *args: Any) -> None:
        """Tell the state table of an event, and perform its actions."""
        event(*args)
        for action in self._job.actions():
            self._act(action)
        for rank, member in [*self._members.items()]:
            state = self._job.ranks[rank].state
            if state in _GONE:
                del self._members[rank]
                finalized = state is states.RankState.FINALIZED
                self._on_gone(member, self.generation, "" if finalized else self._left)

    def _act(self, action: states.Action) -> None:
        match action:
            case states.Send(rank, message) if rank in self._links:
                self._links[rank].send(control.encode(message))
            case states.Hangup(rank) if rank in self._links:
                self._links.pop(rank).close()
            case states.StartTimer(key, seconds):
                asyncio.get_running_loop().call_later(seconds, self.inform, self._job.expired, key)
            case states.Publish(cards):
                self._started = True
                self.inform(self._job.introduce, cards)
            case states.Fence():
                self.inform(self._job.fenced)
            case states.Report(_, text) | states.Loss(_, text) | states.Note(text):
                self._chat(f"world {self.generation}: {text}")
            case states.End():
                self._started = True
                self._on_end(self.generation)
                for member in self._members.values():
                    self._on_gone(member, self.generation, self._left)
                self._members.clear()


class OpenJob:
    """A job whose members come and go, in the event loop that is running.

    Args:
        listener: a listening socket; `close` closes it.
        key: of the job.
        at_least, at_most: see `Members`.
        settings: say how long a connection has to prove the key, and how it is encrypted.
        heartbeat: seconds after which a member that is stuck is expelled, 0 for never.
        say: prints a message for the user.
        chat: reports progress.
        on_change: called with each change of the members.
    """

    def __init__(
        self,
        listener: socket.socket,
        key: bytes,
        *,
        at_least: int = 1,
        at_most: int | None = None,
        settings: Settings,
        heartbeat: float,
        say: Callable[[str], object],
        chat: Callable[[str], object] = lambda text: None,
        on_change: Callable[[control.MemberChange], object] = lambda change: None,
    ) -> None:
        self.members = Members(at_least, at_most, heartbeat, liveness.namespace())
        self._heartbeat = heartbeat
        self._say, self._chat, self._on_change = say, chat, on_change
        self._links: dict[int, Connection] = {}
        self._behind: set[int] = set()  # members that read too slowly to be told of each change
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._worlds: dict[int, _World] = {}
        self._of_link: dict[Connection, _World] = {}  # for the connections of ranks
        self._strangers = StrangerReports(say)
        timeout = settings.connect_timeout
        self._address = host_of_all(listener)
        self._server = ControlServer(self, key, listener, hello_timeout=timeout, heartbeat=heartbeat, settings=settings)
        self._watch: Heartbeat | None = None
        if heartbeat:
            on_stuck = functools.partial(self._inform, self.members.stuck)
            self._watch = Heartbeat(heartbeat, self.members.processes, self._links, on_stuck)

    def close(self, reason: str) -> None:
        """End the job: members get the reason."""
        self._server.close()
        self._strangers.close()
        if self._watch is not None:
            self._watch.close()
        for world in [*self._worlds.values()]:
            world.close(reason)
        for link in self._links.values():
            link.send(control.encode(control.Abort(EXIT_FAILURE, reason)))
            link.close()
        self._links.clear()

    # Events of connections (control.ConnectionObserver).

    def on_join(self, link: Connection, wanted: int, join: control.Join | control.Enter) -> None:
        try:
            if isinstance(join, control.Enter):
                link.rank = self.members.enter(join, time.time())
                self._links[link.rank] = link
                self._chat(f"member {link.rank} ({states.quoted(join.host)}) has joined, process {join.pid}")
                self._perform()
            elif join.world in self._worlds:
                world = self._of_link[link] = self._worlds[join.world]
                world.join(link, wanted, join)
            elif join.world:
                raise states.Refused(f"world {join.world} has ended")
            else:
                raise states.Refused("its members come and go: be one of them by aiompi.join(address, key)")
        except states.Refused as refusal:
            self._of_link.pop(link, None)
            link.send(control.encode(control.Abort(EXIT_FAILURE, str(refusal))))
            link.close()
            self._chat(f"a connection was refused: {refusal}")

    def on_message(self, link: Connection, message: control.Message) -> None:
        world = self._of_link.get(link)
        if world is not None:
            world.received(link, message)
        elif self._links.get(link.rank) is link:
            try:
                self._inform(self.members.received, link.rank, message)
            except RemoteProtocolError as error:
                self._inform(self.members.lost, link.rank, f"broke the control protocol: {error}")

    def on_closed(self, link: Connection, error: str) -> None:
        world = self._of_link.pop(link, None)
        if world is not None:
            world.received(link, states.Closed(error))
        elif self._links.get(link.rank) is link:
            del self._links[link.rank]
            self._inform(self.members.lost, link.rank, error)

    def on_stranger(self, address: str, error: str) -> None:
        self._strangers.report(f"dropped a connection from {address}: {error}")

    def on_shortage(self) -> None:
        self._strangers.report("no descriptors are left for the connections of members: raise their limit (ulimit -n)")

    # Actions of the members' table.

    def _inform(self, event: Callable[..., None], *args: Any) -> None:
        event(*args)
        self._perform()

    def _perform(self) -> None:
        for action in self.members.actions():
            match action:
                case states.Send(number, message) if number in self._links:
                    self._send(number, message)
                case states.Hangup(number):
                    self._hang_up(number)
                case states.StartTimer(key, seconds):
                    self._start_timer(key, seconds)
                case states.Note(text):
                    self._say(text)
                case Form(generation, members):
                    self._chat(f"world {generation} has {len(members)} members")
                    self._worlds[generation] = _World(
                        generation, members, self._on_gone, self._on_world_ended, self._chat, self._heartbeat,
                        self._address,
                    )  # fmt: skip
                case Lose(generation, member, cause) if generation in self._worlds:
                    self._worlds[generation].lose(member, cause)
                case control.MemberChange():
                    self._on_change(action)

    def _send(self, number: int, message: control.Message) -> None:
        """Send a message to a member. What it has not read stays bounded, however many members come and go."""
        link = self._links[number]
        if isinstance(message, control.MemberChange) and (number in self._behind or link.backlog > _BEHIND):
            self._behind.add(number)
            link.when_sent(functools.partial(self._catch_up, number))
        else:
            link.send(control.encode(message))

    def _hang_up(self, number: int) -> None:
        """Close the connection of a member that is gone, and keep nothing of it."""
        self._behind.discard(number)
        if (timer := self._timers.pop(f"assemble {number}", None)) is not None:
            timer.cancel()
        if number in self._links:
            self._links.pop(number).close()

    def _catch_up(self, number: int) -> None:
        self._behind.discard(number)
        asyncio.get_running_loop().call_soon(self._inform, self.members.introduce, number)

    def _start_timer(self, key: str, seconds: float) -> None:
        """Start a timer of the table; it replaces that of an earlier call of the member."""
        subject, _, _ = key.rpartition(" ")
        if subject in self._timers:
            self._timers[subject].cancel()
        self._timers[subject] = asyncio.get_running_loop().call_later(seconds, self._expire, subject, key)

    def _expire(self, subject: str, key: str) -> None:
        del self._timers[subject]
        self._inform(self.members.expired, key)

    def _on_world_ended(self, generation: int) -> None:
        world = self._worlds.pop(generation)
        if (timer := self._timers.pop(f"start {generation}", None)) is not None:
            timer.cancel()
        self._of_link = {link: other for link, other in self._of_link.items() if other is not world}

    def _on_gone(self, member: int, generation: int, cause: str) -> None:
        self._inform(self.members.left_world, member, generation, cause)
