"""An open job: connections and timers around the table of its members, for a launcher or inside a program.

`OpenJob` listens, and performs the actions of `aiompi_launcher.job.members`. Each world of the job is a `_World` around
the state table of `aiompi_launcher.job.table`.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from aiompi.errors import RemoteProtocolError
from aiompi.settings import Settings
from aiompi.wire import control, liveness
from aiompi_launcher.job.actions import Blame, Closed, Exit, Fence, Hangup, Loss, Note, Publish, Send, Signal
from aiompi_launcher.job.admission import Refused, admit
from aiompi_launcher.job.heartbeat import Heartbeat
from aiompi_launcher.job.members import Form, Lose, Members
from aiompi_launcher.job.perform import Performer
from aiompi_launcher.job.states import RankState, World, quoted
from aiompi_launcher.job.table import Job
from aiompi_launcher.net.control import Connection, ControlServer, MessageObserver
from aiompi_launcher.net.listen import StrangerReports, host_of_all
from aiompi_launcher.spec import EXIT_FAILURE, ServeSpec

if TYPE_CHECKING:
    import socket

#: states of a rank that has left its world
_GONE: Final = frozenset({RankState.LEFT, RankState.FINALIZED, RankState.FAILED})

#: unread bytes of a member above which it gets no changes, but later the list of all members
_BEHIND: Final = 2**20


class _World:
    """One world. The ranks of a world are members of the job; each member has a separate connection for this world.

    Args:
        form: generation and members of the world.
        on_gone: called with a member that has left the world, the generation, and the reason why the member has left or
            failed.
        on_end: called with the generation when no member is left.
        chat: reports progress.
        heartbeat, address: as in `control.Welcome`.
    """

    def __init__(
        self,
        form: Form,
        on_gone: Callable[[int, int, str], object],
        on_end: Callable[[int], object],
        chat: Callable[[str], object],
        heartbeat: float,
        address: str,
    ) -> None:
        self._generation, size = form.generation, len(form.members)
        self._members = dict(enumerate(form.members))
        self._on_gone, self._on_end, self._chat = on_gone, on_end, chat
        self._left = f"is not in world {form.generation} any more"
        self._started = False
        self._job = Job(size, directory="", spawned=False, survives=True, heartbeat=heartbeat)
        self._job.enrol(World(size=size, address=address))
        self._performer = Performer(
            self._job,
            {
                Publish: self._start,
                Fence: lambda _: self._inform(self._job.fenced),
                Blame: self._tell,
                Loss: self._tell,
                Note: self._tell,
                Exit: self._end,
                Signal: lambda _: None,  # no process of a member is a child of this one
            },
            self._report_gone,
        )
        self._inform = self._performer.inform

    def join(self, link: Connection, wanted: int, join: control.Join) -> None:
        """Let a connection be a rank.

        Raises:
            Refused: there is no such rank, or it is taken.
        """
        link.rank = admit(self._job, wanted, join.pid)
        self._performer.links[link.rank] = link
        self._inform(self._job.received, link.rank, join)

    def received(self, link: Connection, event: control.Message | Closed) -> None:
        """A message of a rank, or the end of its connection."""
        links = self._performer.links
        if links.get(link.rank) is link:
            if isinstance(event, Closed):
                del links[link.rank]
            self._inform(self._job.received, link.rank, event)

    def lose(self, member: int, cause: str) -> None:
        """End the world if it has not started; otherwise let it go on without the failed member."""
        if not self._started:
            self._inform(self._job.failed, f"the world is given up: {cause or 'a member does not join it'}")
            return
        ranks = [rank for rank, other in self._members.items() if other == member]
        for rank in ranks if cause else ():
            self._inform(self._job.stuck, rank, cause)

    def view(self) -> tuple[Job, Mapping[int, int], Callable[[Send], object]]:
        """Return the table, the members by rank, and the function that sends a message to a rank."""
        return self._job, self._members, self._performer.send

    def close(self, reason: str) -> None:
        """End the world."""
        self._inform(self._job.failed, reason)
        for link in self._performer.links.values():
            link.close()

    def _report_gone(self) -> None:
        """Report members that are not in the world any more."""
        for rank, member in [*self._members.items()]:
            state = self._job.ranks[rank].state
            if state in _GONE:
                del self._members[rank]
                finalized = state is RankState.FINALIZED
                self._on_gone(member, self._generation, "" if finalized else self._left)

    # Actions of the state table.

    def _start(self, action: Publish) -> None:
        self._started = True
        self._inform(self._job.introduce, action.cards)

    def _tell(self, action: Blame | Loss | Note) -> None:
        self._chat(f"world {self._generation}: {action.text}")

    def _end(self, action: Exit) -> None:
        self._started = True
        self._on_end(self._generation)
        for member in self._members.values():
            self._on_gone(member, self._generation, self._left)
        self._members.clear()


class OpenJob(MessageObserver):
    """A job whose members come and go, in the event loop that is running.

    Args:
        spec: limits of the number of members.
        listener: a listening socket; `close` closes it.
        key: of the job.
        settings: have the time limit for proving the key, the encryption of connections, and the heartbeat: the time
            without progress after which a member counts as stuck.
        say: prints a message for the user.
        on_change: called with each change of the members.
    """

    def __init__(
        self,
        spec: ServeSpec,
        listener: socket.socket,
        key: bytes,
        *,
        settings: Settings,
        say: Callable[[str], object],
        on_change: Callable[[control.MembershipChange], object] = lambda change: None,
    ) -> None:
        self._heartbeat = heartbeat = liveness.interval(settings.heartbeat)
        self.members = Members(spec.at_least, spec.at_most, heartbeat, liveness.namespace())
        self._say, self._chat = say, say if spec.verbose else lambda text: None
        self._performer = Performer(
            self.members,
            {
                Send: self._send,
                Hangup: self._hang_up,
                Note: lambda note: self._say(note.text),
                Form: self._form,
                Lose: self._lose,
                control.MembershipChange: on_change,
            },
        )
        self._inform, self._links = self._performer.inform, self._performer.links
        self._behind: set[int] = set()  # members that read too slowly to get each change
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

    def worlds(self) -> dict[int, tuple[Job, Mapping[int, int], Callable[[Send], object]]]:
        """Return generation -> (table of the world, its members by rank, function that sends a message to a rank)."""
        return {generation: world.view() for generation, world in self._worlds.items()}

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
                self._inform(self._enter, link, join)
            elif join.world in self._worlds:
                world = self._of_link[link] = self._worlds[join.world]
                world.join(link, wanted, join)
            elif join.world:
                raise Refused(f"world {join.world} has ended")
            else:
                raise Refused("its members come and go: be one of them by aiompi.join(address, key)")
        except Refused as refusal:
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
            world.received(link, Closed(error))
        elif self._links.get(link.rank) is link:
            del self._links[link.rank]
            self._inform(self.members.lost, link.rank, error)

    def on_stranger(self, address: str, error: str) -> None:
        self._strangers.report(f"dropped a connection from {address}: {error}")

    def on_shortage(self) -> None:
        self._strangers.report("no descriptors are left for the connections of members: raise their limit (ulimit -n)")

    def _enter(self, link: Connection, enter: control.Enter) -> None:
        link.rank = self.members.enter(enter, time.time())
        self._links[link.rank] = link
        self._chat(f"member {link.rank} ({quoted(enter.host)}) has joined, process {enter.pid}")

    # Actions of the members' table.

    def _form(self, action: Form) -> None:
        self._chat(f"world {action.generation} has {len(action.members)} members")
        self._worlds[action.generation] = _World(
            action, self._on_gone, self._on_world_ended, self._chat, self._heartbeat, self._address
        )

    def _lose(self, action: Lose) -> None:
        if action.generation in self._worlds:
            self._worlds[action.generation].lose(action.member, action.cause)

    def _send(self, action: Send) -> None:
        """Send a message to a member. Its unread bytes stay bounded, however many members come and go."""
        number = action.number
        link = self._links.get(number)
        if link is None or not isinstance(action.message, control.MembershipChange):
            self._performer.send(action)
        elif number in self._behind or link.backlog > _BEHIND:
            self._behind.add(number)
            link.when_sent(functools.partial(self._catch_up, number))
        else:
            self._performer.send(action)

    def _hang_up(self, action: Hangup) -> None:
        """Close the connection of a member that has left, and forget the member."""
        self._behind.discard(action.number)
        self._performer.hang_up(action)

    def _catch_up(self, number: int) -> None:
        self._behind.discard(number)
        asyncio.get_running_loop().call_soon(self._inform, self.members.introduce, number)

    def _on_world_ended(self, generation: int) -> None:
        world = self._worlds.pop(generation)
        self._inform(self.members.world_ended, generation)
        self._of_link = {link: other for link, other in self._of_link.items() if other is not world}

    def _on_gone(self, member: int, generation: int, cause: str) -> None:
        self._inform(self.members.left_world, member, generation, cause)
