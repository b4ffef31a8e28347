"""`Team`: keeps this process a member of a job, from world to world, and always able to talk to the other members."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple

from aiompi import settings as settings_module
from aiompi.base.public import public
from aiompi.errors import JobAbortedError, LocalProtocolError, ProcessFailedError, RevokedError
from aiompi.face.native import Intracomm
from aiompi.face.native.talking import Talking
from aiompi.job.changes import Changes, Member, MemberChange
from aiompi.job.joining import join
from aiompi.job.members import AssembledWorld, Membership
from aiompi.objects import Codec
from aiompi.settings import Settings
from aiompi.talk import siblings
from aiompi.talk.exchange import ExchangeOfTeam, Name
from aiompi.talk.shared_dict import Version, newest
from aiompi.talk.talk import Talk, own_communicator

#: most seconds at the end until all other members have received this member's messages
_FAREWELL: Final = 5.0
#: most seconds that the other members of an ended job have to come to the next job
_REUNION: Final = 2.0
#: seconds between attempts to join
_PAUSE: Final = 0.2
#: attempts to join siblings, whose job may end at the same time
_ATTEMPTS: Final = 5
#: error of a process that has not joined
_NOT_YET: Final = "this process is not in the team yet: enter `async with team`, and use the team within it"
#: bits for the worlds of one job
_GENERATIONS: Final = 32
#: most jobs that a team can be in, one after the other
_ERAS: Final = 2**31

_log: Final = logging.getLogger("aiompi.team")


class _Introduction(NamedTuple):
    """The message of a member to the others when a world begins.

    Attributes:
        name: name of the member, unique among the members of all jobs.
        births: name of each member to which the sender has a line -> number of the world in which that line began.
        era: number of jobs in which the team has been so far.
        version: version of the member's shared dicts.
    """

    name: str
    births: dict[Name, int]
    era: int
    version: Version

    @property
    def is_sound(self) -> bool:
        """False if a member that breaks the protocol has sent it."""
        fields: tuple[object, ...] = self
        match fields:
            case (str(), dict(births), int(era), (int(), int(), int() | str())):
                return 0 <= era < _ERAS and all(type(birth) is int for birth in births.values())
        return False


def introductions(told: Sequence[Any]) -> list[_Introduction]:
    """Return the introductions of the members, by rank, the oldest first.

    A member counts as a stranger if its introduction is malformed, or has the name of an older member.
    """
    found: dict[str, _Introduction] = {}
    for rank, each in enumerate(told):
        said = isinstance(each, tuple) and len(each) == len(_Introduction._fields) and _Introduction(*each)
        if not said or not said.is_sound or said.name in found:
            said = _Introduction(f"stranger {rank}", {}, 0, (0, 0, ""))
        found[said.name] = said
    return [*found.values()]


@public
class Team(Talking):
    """The present members of a job, from world to world. Enter it with `async with`.

    When members come and go, the team assembles the next world by itself. Calls in progress and publications go on, and
    publications keep their order. Nothing is lost between two members that stay, and nothing comes twice. If the job
    itself ends, the team joins again as soon as there is a new job.

    Without an address, the team is all processes with the same parent, user, command line and working directory, such
    as the workers of one `uvicorn --workers 4`. Every member of the job must use a `Team`.

    Args:
        address: "HOST:PORT" of an open job; see `join`.
        key: of the job at the address; see `join`.
        attributes: data about this member that other members can read; see `join`.
        settings: replace the settings of the environment and of `rc`.

    """

    def __init__(
        self,
        address: str | None = None,
        key: str | bytes | None = None,
        *,
        attributes: Mapping[str, Any] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._address, self._key, self._attributes, self._settings = address, key, attributes, settings
        self._exchange = ExchangeOfTeam()
        self._exchange.error = LocalProtocolError(_NOT_YET)
        self._world: AssembledWorld | None = None
        self._own_talk = Talk(self._exchange, Codec(pickle=(settings or settings_module.load()).pickle))
        self._name, self._era = "", 0
        self._changes = Changes(lambda: None)
        self._here: tuple[Member, ...] = ()
        self._member: Membership
        self._keeper: asyncio.Task[None] | None = None

    @property
    def _talk(self) -> Talk:
        return self._own_talk

    def __repr__(self) -> str:
        return "<Team: not joined>" if self._keeper is None else f"<Team: rank {self.rank} of {self.size}>"

    @property
    def world(self) -> AssembledWorld:
        """The current world, or the last one while the next is assembled.

        Raises:
            LocalProtocolError: this process has not been in the team.
        """
        if self._world is None:
            raise LocalProtocolError(_NOT_YET)
        return self._world

    @property
    def rank(self) -> int:
        """Rank of this member in the current world."""
        return self.world.rank

    @property
    def members(self) -> tuple[Member, ...]:
        """The members of the current world, by rank. The oldest one is rank 0."""
        return self.world.members

    @property
    def size(self) -> int:
        """Number of the members."""
        return self.world.size

    def changes(self) -> AsyncIterator[MemberChange]:
        """Iterate over the members that come and go from this call on. A call before the start gets all that are there.

        A change is reported when `members` shows it. Once a change reports that a member has left, no write by that
        member takes effect any more. So another member can then delete the keys of the departed member. If the job ends
        and the team continues in another job, the changes report that all members leave and join again.

        Returns:
            An iterator over changes, of the kinds "joined" and "left". It ends when this process leaves the team.

        Example:
            async for change in team.changes():
                for user, member in [*users.items()]:
                    if change.kind == "left" and member == change.member.id:
                        await users.delete(user)
        """
        return self._changes.read()

    @contextlib.asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[dict[str, Team]]:
        """Be in the team while an ASGI application runs.

        Args:
            app: the application.

        Returns:
            A context manager for the `lifespan` of FastAPI, Starlette and others; requests have the team as
            `request.state.team`.

        Example:
            team = aiompi.Team()
            app = FastAPI(lifespan=team.lifespan)
        """
        async with self:
            yield {"team": self}

    async def __aenter__(self) -> Team:
        if self._keeper is not None:
            raise LocalProtocolError("this process is in the team already")
        self._name, self._era = secrets.token_hex(8), 0
        await self._join()
        self._exchange.begin()
        self._own_talk.dicts.begin()
        try:
            await self._assemble()
        except BaseException:
            await self._member.leave()
            raise
        self._keeper = asyncio.get_running_loop().create_task(self._keep())
        self._keeper.add_done_callback(self._on_keeper_end)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._keeper is not None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await self._own_talk.calls.finish()
                    self._own_talk.dicts.leave()
                    await self._exchange.flush()
        finally:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
            self._exchange.end(RevokedError("this process has left its team"))
            self._changes.end()
            self._changes, self._here = Changes(lambda: None), ()
            await self._member.leave()

    async def _join(self) -> None:
        """Become a member of the job."""
        if self._address is not None:
            await self._join_at(self._address, self._key)
            return
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(JobAbortedError):
                await self._join_at(*await asyncio.to_thread(siblings.meet))
                return
            await asyncio.sleep(_PAUSE)
        await self._join_at(*await asyncio.to_thread(siblings.meet))

    async def _join_at(self, address: str, key: str | bytes | None) -> None:
        self._member = await join(address, key, attributes=self._attributes, settings=self._settings)

    async def _keep(self) -> None:
        """Assemble the next world whenever the current one is outdated."""
        while True:
            await self.world.changed
            self._exchange.detach()
            try:
                await self._assemble()
            except JobAbortedError as error:
                _log.warning("%s; joining again", error)
                await self._reunite(self.size)

    def _on_keeper_end(self, keeper: asyncio.Task[None]) -> None:
        error = None if keeper.cancelled() else keeper.exception()
        if isinstance(error, Exception):
            self._exchange.end(error)
            self._changes.end(error)

    async def _reunite(self, size: int) -> None:
        """Join again after the end of the job, and wait a little for the others."""
        known = self._known()
        while True:
            try:
                await self._join()
                if known.isdisjoint(self._known()):  # a common member means: the same job, which had expelled this one
                    self._era += 1
                known = self._known()
                try:
                    await self._assemble(at_least=size, within=_REUNION)
                except TimeoutError:
                    await self._assemble()
            except (JobAbortedError, LocalProtocolError) as error:
                _log.info("cannot join: %s", error)
                await asyncio.sleep(_PAUSE)
            else:
                return

    def _known(self) -> set[tuple[int, float]]:
        """Return the id and the join time of each member; no member of another job has the same pair."""
        return {(member.id, member.since) for member in self._member.job.members()}

    async def _assemble(self, at_least: int = 1, within: float | None = None) -> None:
        """Be in the next world in which all members have introduced themselves."""
        dicts = self._own_talk.dicts
        while True:
            world = await self._member.assemble(at_least, within)
            try:
                core = own_communicator(world._core)
                comm = Intracomm(world._runtime, core)
                own = _Introduction(self._name, self._exchange.births(), self._era, dicts.version)
                told: list[Any] = await comm.allgather(tuple(own))
                others = introductions(told)
                source, state = newest([other.version for other in others]), None
                if source is not None:
                    state = await comm.bcast(dicts.state() if world.rank == source else None, source)
            except (ProcessFailedError, RevokedError):
                continue
            self._era = max(other.era for other in others)
            number = (self._era << _GENERATIONS) + world.generation  # greater than that of any world before
            names = [other.name for other in others]
            self._world = world
            world._core.attached.put(self._own_talk)
            dicts.adopt(number, names, world.rank, state)
            self._exchange.attach(core, names, [other.births.get(self._name) for other in others], number)
            dicts.resume()
            self._tell(world.members)
            return

    def _tell(self, members: tuple[Member, ...]) -> None:
        """Tell the readers of `changes` which members are new, and which are gone."""
        before, self._here = self._here, members
        for kind, some, others in ("left", before, members), ("joined", members, before):
            for member in some:
                if member not in others:
                    self._changes.note(MemberChange(kind, member, ""))
