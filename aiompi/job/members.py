"""Open jobs: `serve` serves a job, `join` makes a process a member, and `Membership.assemble` makes a world of members.

A `Membership` has one connection to the agent of the job. The agent reports all members, and decides which of them form
a world. Each world is an `AssembledWorld` with a `Runtime` of its own, so that nothing of one world reaches the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from types import TracebackType
from typing import Any, Final

from aiompi import settings as settings_module
from aiompi.driver import aio
from aiompi.engine import Engine, Request
from aiompi.errors import (
    InvalidArgumentError,
    JobAbortedError,
    LocalProtocolError,
    MPIError,
    RemoteProtocolError,
    RevokedError,
    failure,
)
from aiompi.face.native.job import World, begin, rank_for, world_of
from aiompi.job.agent import AgentConnection, Contact
from aiompi.job.assembly import Assembly
from aiompi.job.changes import Changes, Event, Member, MemberChange
from aiompi.job.program import refuse_while_loading
from aiompi.job.runtime import Runtime
from aiompi.settings import Settings
from aiompi.wire import control, hello, liveness

#: most seconds that a member takes to leave a world, in which it delivers what it has sent there
_LEAVE_LIMIT: Final = 5.0


class Job:
    """A job whose members come and go.

    Attributes:
        address: "HOST:PORT", by which processes join the job.
    """

    def __init__(self, address: str, driver: aio.AsyncioDriver) -> None:
        self.address = address
        self._members: dict[int, Member] = {}
        self._changes = Changes(driver.check_thread)

    def members(self) -> tuple[Member, ...]:
        """Return the members, the oldest first.

        Returns:
            The members, in the order in which they have joined.
        """
        return tuple(self._members.values())

    def changes(self) -> AsyncIterator[MemberChange]:
        """Iterate over the changes from this call on. The iteration ends when this process leaves the job.

        Returns:
            An iterator over the changes, which never ends while the job goes on.

        Raises:
            JobAbortedError: the job has ended.
        """
        return self._changes.read()

    def _enter(self, cards: list[control.MemberCard]) -> None:
        """Take the list of members. If this process reads too slowly, the agent sends a new list instead of changes."""
        before, now = self._members, {card["id"]: Member(**card) for card in cards}
        if not before:
            self._members = now
            return
        for number in before.keys() - now.keys():
            self._note(MemberChange("left", before[number], ""))
        for number in sorted(now.keys() - before.keys()):
            self._note(MemberChange("joined", now[number], ""))

    def _take(self, change: control.MembershipChange) -> None:
        self._note(MemberChange(change.kind, Member(**change.member), change.cause))

    def _note(self, change: MemberChange) -> None:
        if change.kind == "joined":
            self._members[change.member.id] = change.member
        else:
            self._members.pop(change.member.id, None)
        self._changes.note(change)

    def _end(self, error: Exception | None = None) -> None:
        self._changes.end(error)


class ServedJob(Job):
    """A job that this program serves.

    Attributes:
        key: of the job, hexadecimal.
    """

    def __init__(self, address: str, key: bytes) -> None:
        super().__init__(address, aio.AsyncioDriver())
        self.key = key.hex()


class Changed:
    """An awaitable that completes when a world should be assembled again; the result is the reason."""

    def __init__(self, check: Callable[[], object]) -> None:
        self._event = Event(check)
        self._cause = ""

    def is_set(self) -> bool:
        """Return True if the world should be assembled again."""
        return self._event.is_set

    def _set(self, cause: str) -> None:
        self._cause = self._cause or cause
        self._event.set()

    async def _wait(self) -> str:
        await self._event.wait()
        return self._cause

    def __await__(self) -> Generator[Any, None, str]:
        return self._wait().__await__()


class AssembledWorld(World):
    """A world of the members of a job that called `assemble` for it.

    Attributes:
        generation: number of the world in its job, from 1 on, the same at all ranks.
        members: the members, by rank. The oldest member is rank 0.
        changed: awaitable that completes when a member of the world is gone, or another member wants to join the world.
    """

    __slots__ = ("_left", "changed", "generation", "members")

    _left: RevokedError
    generation: int
    members: tuple[Member, ...]
    changed: Changed


class Membership:
    """This process as a member of a job: `async with` it, or `await` it and `leave` yourself.

    Attributes:
        job: the job.
        id: number of this member.
        world: the world that this member is in; None if it is in no world.
    """

    def __init__(self, address: str, key: bytes, attributes: Mapping[str, Any], settings: Settings | None) -> None:
        refuse_while_loading("joins a job")
        self._driver = aio.AsyncioDriver()
        self._driver.at_rest = self._is_at_rest
        self.job = Job(address, self._driver)
        self.id = 0
        self.world: AssembledWorld | None = None
        self._key = key
        self._enter = control.Enter(os.getpid(), liveness.namespace(), socket.gethostname(), _checked(attributes))
        self._begun = False
        self._settings = settings
        self._engine = Engine(0, 1, settings or settings_module.load(), self._driver)
        self._agent: AgentConnection
        self._entered: Request[None] = Request(self._engine)
        self._calls = 0
        self._answer: Assembly | None = None
        self._outdated: tuple[int, str] = (0, "")  # the last outdated generation, and why it is outdated
        self._departures: dict[asyncio.Task[None], Runtime] = {}  # tasks that leave worlds
        self._over: Exception | None = None
        self._leaving = self._terminated = False
        self._catches_sigterm = False

    # The connection to the job.

    def _is_at_rest(self) -> bool:
        """Return True if no call is in progress: then this member can go on in another loop when its loop is closed."""
        return self._entered.done() and self._answer is None and not self._departures

    async def _start(self) -> Membership:
        self._driver.check_thread()
        if self._begun:  # such as by `async with await join(...)`
            await self._entered
            return self
        self._begun = True
        contact = Contact(f"tcp:{self.job.address}", self._key, hello.RANK_ANY, launched=False)
        self._agent = AgentConnection(self._engine, contact, self._on_message, self._on_lost)
        try:
            await self._agent.connected
            self._agent.send(self._enter)
            await self._entered
        except BaseException:
            self._begun = False
            self._agent.send(control.Leave())
            self._agent.close()
            raise
        return self

    def __await__(self) -> Generator[Any, None, Membership]:
        return self._start().__await__()

    def _on_message(self, message: control.Message) -> None:
        match message:
            case control.Entered():
                self.id = message.member
                if message.heartbeat:
                    self._agent.watch(message.heartbeat, message.namespace)
                self.job._enter(message.members)
                self._entered.complete()
            case control.MembershipChange():
                self.job._take(message)
            case control.Assembled() if message.number == self._calls and self._answer and not self._answer.done():
                self._answer.set_result(message)
            case control.Awaiting() if message.number == self._calls and self._answer and not self._answer.done():
                self._answer.told(message)
            case control.Outdated():
                self._outdated = message.generation, message.cause
                if self.world is not None and self.world.generation == message.generation:
                    self.world.changed._set(message.cause)
            case control.Abort():
                self._on_lost(message.reason)

    def _on_lost(self, cause: str) -> None:
        self._end(JobAbortedError(f"the job at {self.job.address} has ended for this process: {cause}"))

    def _end(self, error: Exception) -> None:
        """End this membership; every later call raises the error."""
        if self._over is None:
            self._over = error
            self._entered.fail(error)
            self.job._end(error if isinstance(error, JobAbortedError) else None)
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(error)
            if self.world is not None:
                self.world.changed._set(str(error))
            if isinstance(error, JobAbortedError):
                self._close(error)

    def _close(self, error: Exception) -> None:
        """Close all connections at once; operations in worlds fail with the error."""
        self._agent.close()
        worlds = [] if self.world is None else [self.world._runtime]
        for runtime in [*worlds, *self._departures.values()]:
            runtime.give_up(error)

    # Worlds.

    async def assemble(self, at_least: int = 1, within: float | None = None) -> AssembledWorld:
        """Leave the world of this member, and return a new world of all members that ask for one.

        The world is complete as soon as enough members have called `assemble`, and all members of earlier worlds are
        among them. When the time limit of a member (`within`) is over, the world consists of the members that have
        called `assemble` so far. All these members get the same world; ranks are in the order in which the members
        joined.

        Args:
            at_least: smallest size of the world.
            within: seconds to wait; None for no limit.

        Returns:
            The world; `async with` it, or `leave` it.

        Raises:
            TimeoutError: there are fewer members after this time.
            JobAbortedError: the job has ended.
            LocalProtocolError: this member has left the job, or another call of this member waits for a world.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the request for a world; the other members go on
            waiting.

        Example:
            async with await member.assemble(at_least=2) as world:
                print(await world.allreduce(1))
        """
        self._driver.check_thread()
        if at_least < 1 or (within is not None and not within >= 0):
            raise InvalidArgumentError(
                f"assemble(at_least={at_least}, within={within}): expected at least 1 member, and no negative time"
            )
        if self._answer is not None:
            raise LocalProtocolError("another call of assemble of this member waits for a world: make one at a time")
        loop = asyncio.get_running_loop()
        deadline = math.inf if within is None else loop.time() + within
        self._depart()
        while True:
            answer = await self._ask(at_least, max(0.0, deadline - loop.time()))
            if not answer.generation:
                raise TimeoutError(f"no world within {within:g} s: {answer.cause}")
            world = await self._enter_world(answer)
            if world is not None:
                return world

    async def _ask(self, at_least: int, within: float) -> control.Assembled:
        if self._over is not None:
            raise self._over
        self._calls += 1
        inquiry, debug = control.Inquire(self._calls), self._engine.settings.debug
        self._answer = Assembly(f"member {self.id} of {self.job.address}", debug, lambda: self._agent.send(inquiry))
        try:
            self._agent.send(control.Assemble(self._calls, at_least, within))
            return await self._answer
        except asyncio.CancelledError:
            self._agent.send(control.Withdraw(self._calls))
            raise
        finally:
            self._answer = None

    async def _enter_world(self, answer: control.Assembled) -> AssembledWorld | None:
        """Return the world; None if another member was lost while the world started."""
        contact = Contact(f"tcp:{self.job.address}", self._key, answer.rank, launched=False, world=answer.generation)
        members = tuple(self.job._members.get(number) or _unknown(number) for number in answer.members)
        runtime = rank_for(contact, self._settings)
        left = f"has left world {answer.generation} of the job"
        runtime.engine.farewell = f"{left}: it sends and receives nothing more in it; assemble the next one"
        try:
            await begin(runtime)
        except JobAbortedError:
            if self._over is not None:
                raise self._over from None
            return None
        except BaseException:
            self._agent.send(control.Withdraw(self._calls))
            runtime.close()
            raise
        world = world_of(AssembledWorld, runtime)
        world.generation, world.members, world.changed = answer.generation, members, Changed(self._driver.check_thread)
        runtime.end_error = world._left = RevokedError(f"this member has left world {answer.generation} of its job")
        if self._outdated[0] == answer.generation:
            world.changed._set(self._outdated[1])
        self.world = world
        return world

    def _depart(self) -> None:
        """Begin to leave the current world."""
        world, self.world = self.world, None
        if world is not None and not (world._runtime.finalized or world._runtime.engine.error):
            world.changed._set("this member has left the world")
            world._runtime.engine.failure.refuse(world._left)
            task = asyncio.get_running_loop().create_task(_leave(world._runtime))
            self._departures[task] = world._runtime
            task.add_done_callback(self._departures.pop)

    # The end.

    async def leave(self) -> None:
        """Leave the job, after all messages of this member are delivered, or at once if the call is cancelled."""
        self._driver.check_thread()
        if self._over is not None:
            return
        self._depart()
        try:
            if self._departures:
                await asyncio.wait([*self._departures])
        finally:
            await self._say_goodbye(control.Leave())

    async def _say_goodbye(self, message: control.Message) -> None:
        if self._over is None:
            self._agent.send(message)
            finished = self._agent.finish()
            self._end(left := LocalProtocolError(f"this process has left the job at {self.job.address}"))
            try:
                await finished
            finally:
                self._close(left)

    async def __aenter__(self) -> Membership:
        self._catch_sigterm()
        try:
            return await self._start()
        except BaseException:
            self._release_sigterm()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving = True
        try:
            if error is None or not isinstance(error, Exception) or self._over is not None:
                await self.leave()
            else:
                if self.world is not None:
                    self.world._runtime.fail(error)
                await self._say_goodbye(control.Failed(self.id, failure(error)))
        finally:
            self._release_sigterm()

    def _catch_sigterm(self) -> None:
        """Let SIGTERM cancel the task of the block, so that this member leaves, unless the program handles SIGTERM."""
        main = threading.current_thread() is threading.main_thread()
        task = asyncio.current_task()
        if main and task is not None and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._catches_sigterm = True
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._on_sigterm, task)

    def _on_sigterm(self, task: asyncio.Task[Any]) -> None:
        self._terminated = True
        if not self._leaving:
            task.cancel("SIGTERM")

    def _release_sigterm(self) -> None:
        if self._catches_sigterm:
            self._catches_sigterm = False
            asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
            if self._terminated:
                signal.raise_signal(signal.SIGTERM)  # end as the program would have ended without this


async def _leave(runtime: Runtime) -> None:
    with contextlib.suppress(TimeoutError, MPIError):
        async with asyncio.timeout(_LEAVE_LIMIT):
            await runtime.leave()
    runtime.give_up(runtime.end_error or LocalProtocolError("this member has left the world"))


def _checked(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a member as others will see them.

    Raises:
        InvalidArgumentError: the attributes are too long, or no dict of values that msgpack can express.
    """
    try:
        data = control.encode(control.Enter(0, "", "", dict(attributes)))
        decoded = control.Decoder().receive_data(data) if len(data) <= control.MAX_ATTRIBUTES else []
    except (TypeError, ValueError, OverflowError, RemoteProtocolError) as error:
        raise InvalidArgumentError(
            f"the attributes of a member must be a dict of values that msgpack can express, with words as keys: {error}"
        ) from None
    if not decoded:
        raise InvalidArgumentError(
            f"the attributes of a member are {len(data)} bytes long, and all members get them; at most "
            f"{control.MAX_ATTRIBUTES} are allowed"
        )
    checked: dict[str, Any] = decoded[0].attributes
    return checked


def _unknown(number: int) -> Member:
    """Return a placeholder for a member of a new world that left before this process had learned of the member."""
    return Member(number, "", 0.0, {})


@contextlib.asynccontextmanager
async def serve(
    host: str = "",
    port: int = 0,
    *,
    key: str | bytes | None = None,
    at_least: int = 1,
    at_most: int | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[ServedJob]:
    """Serve an open job in this process, as `aiompi-launch --serve` does.

    async with aiompi.serve() as job, aiompi.join(job.address, job.key) as member:
            ...

    The job lives in the event loop of the program, and ends with the block. The program is a member only if it joins.

    Args:
        host: an address of this machine to listen on, or its name; by default the address of the setting `interface`,
            or else 127.0.0.1.
        port: to listen on, 0 for one that the setting `port_range` allows.
        key: of the job, hexadecimal or bytes; a new one by default.
        at_least: smallest size of a world.
        at_most: largest number of members, None for no limit.
        settings: replace the settings of the environment and of `rc`.

    Returns:
        A context manager, whose block has the job.

    Raises:
        AuthenticationError: the key is too short.
        InvalidArgumentError: a number of members is less than 1, or `at_most` less than `at_least`.
        OSError: the port is taken or not permitted, or the address does not belong to this machine.
    """
    refuse_while_loading("serves a job")
    from aiompi_launcher.job.open_job import OpenJob  # the launcher, which only a process that serves needs
    from aiompi_launcher.net.listen import address_of, listen_for
    from aiompi_launcher.spec import ServeSpec

    if not 1 <= at_least <= (at_least if at_most is None else at_most):
        raise InvalidArgumentError(f"serve(at_least={at_least}, at_most={at_most}): expected 1 <= at_least <= at_most")
    secret = hello.new_key() if key is None else hello.parse_key(key)
    values = settings or settings_module.load()
    spec = ServeSpec(size=None, at_least=at_least, at_most=at_most, bind=host, port=port)
    listener = await asyncio.to_thread(listen_for, spec, values)
    served = ServedJob(address_of(listener), secret)
    say = logging.getLogger("aiompi.serve").info
    job = OpenJob(spec, listener, secret, settings=values, say=say, on_change=served._take)
    try:
        yield served
    finally:
        job.close("the program that served it has closed it")
        served._end()
