"""The ways in which a program of the asyncio face gets COMM_WORLD: `run`, `local_world`, and `RankScope` for `init`."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import inspect
import os
import sys
import weakref
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from aiompi.base.public import public
from aiompi.driver import aio
from aiompi.driver.threads import refuse_running_loop
from aiompi.engine import AwaitableCall, Request
from aiompi.errors import InvalidArgumentError, LocalProtocolError
from aiompi.face import uncaught
from aiompi.face.common import allocate, clear_attributes
from aiompi.face.native.communicator import Intracomm
from aiompi.face.native.processes import Ports
from aiompi.face.native.talking import Calling, WorldTalking
from aiompi.job.agent import Contact
from aiompi.job.local import local_runtimes
from aiompi.job.program import refuse_while_loading
from aiompi.job.runtime import Runtime
from aiompi.settings import Settings, rc
from aiompi.settings import load as load_settings
from aiompi.wire.hello import RANK_ANY

if TYPE_CHECKING:
    from aiompi.comm import Communicator
    from aiompi.datatype.buffer.memory import buffer
    from aiompi.objects import Codec

T = TypeVar("T")

#: imported at the first use
_TALK: Final = "aiompi.talk.talk"

#: the ranks of this process
_ranks: Final[weakref.WeakSet[Runtime]] = weakref.WeakSet()


@functools.cache
def _talk_of() -> Callable[[Communicator, Codec], Calling]:
    of_world: Callable[[Communicator, Codec], Calling] = importlib.import_module(_TALK).of_world
    return of_world


def _forked() -> None:
    with contextlib.ExitStack() as stack:
        for rank in [*_ranks]:
            stack.callback(rank.disown)  # every rank, even if the `disown` of another one raises
        _ranks.clear()


os.register_at_fork(after_in_child=_forked)


@public
class World(Intracomm, Ports, WorldTalking):
    """COMM_WORLD of a rank. The rank's part in the job begins and ends with this object."""

    __slots__ = ()

    @property
    def _talk(self) -> Calling:
        return _talk_of()(self._admitted, self._codec)

    def finalize(self, timeout: float | None = None) -> AwaitableCall[bool]:
        """End communication; the request completes when every rank of the job calls this (MPI_Finalize, section 7.5).

        Args:
            timeout: seconds after which this rank leaves without the others; None if it waits for them.

        Returns:
            A request whose result is True if all ranks have finalized, False if this rank has left without them.

        Cancelling:
            Cancelling the await, as a time limit does, ends only the wait: the other ranks know that this rank has
            ended.

        Example:
            if not await world.finalize(timeout=10):
                print("left without the others")
        """
        self._runtime.engine.driver.check_thread()
        return AwaitableCall(self._runtime.finalize(timeout), "finalize", self._core)

    def leave(self) -> AwaitableCall[None]:
        """End communication of this rank only, after its messages are delivered; for example when its service stops.

        Ranks that still wait for this one get a ProcessFailedError.

        Returns:
            A request that is complete when this rank has left.
        """
        self._runtime.engine.driver.check_thread()
        return AwaitableCall(self._runtime.leave(), "leave", self._core)

    def Alloc_mem(self, size: int) -> buffer:
        """New memory (MPI_Alloc_mem, MPI-2); it is freed when nothing refers to it any more.

        Args:
            size: bytes.

        Returns:
            The memory.

        Raises:
            TypeError: the size is not an integer.
            ValueError: the size is negative.
        """
        return allocate(size)


#: ranks that a session has started; they leave their jobs when the process ends
_of_sessions: Final[set[Runtime]] = set()


async def rank_of_loop() -> Runtime:
    """Return the rank of the running event loop; if the loop has no rank, make this process join its job as a rank.

    Raises:
        LocalProtocolError: several ranks use this loop.
        JobAbortedError: the job cannot be joined.
    """
    _of_sessions.difference_update([rank for rank in _of_sessions if rank.finalized or _is_lost(rank)])
    found = [rank for rank in _ranks if not rank.finalized and _driver(rank).runs_here]
    if len(found) > 1:
        raise LocalProtocolError(
            f"Session.Init: {len(found)} ranks use this event loop; make communicators of the groups of their own"
        )
    if not found:
        found.append(rank_for(_contact(load_settings()), None))
        _of_sessions.add(found[0])
    runtime = found[0]
    await _begun(runtime)
    return runtime


def _driver(rank: Runtime) -> aio.AsyncioDriver:
    return cast(aio.AsyncioDriver, rank.engine.driver)


def _is_lost(rank: Runtime) -> bool:
    """Return True if this rank is alone in its job, without an agent, and its event loop is closed."""
    return rank.contact is None and _driver(rank).closed


def _contact(settings: Settings) -> Contact | None:
    """Return the contact of a rank that a session has started, or else the environment's contact, or None."""
    known = (rank.contact for rank in _of_sessions if rank.contact is not None and not rank.finalized)
    return next(known, None) or Contact.from_environ(settings)


def rank_for(contact: Contact | None, settings: Settings | None) -> Runtime:
    """Return the rank that a session has started for a contact, if that rank has no World yet; otherwise a new rank."""
    for runtime in _of_sessions:
        over = runtime.finalized or runtime.sessions.world_begun or _is_lost(runtime)
        if runtime.contact == contact and not over:
            return runtime
    driver = aio.AsyncioDriver()
    runtime = Runtime(driver, contact, settings)
    driver.at_rest = runtime.at_rest
    if settings is None:
        rc.read_by(runtime)
    return runtime


async def begin(runtime: Runtime) -> None:
    """Wait until a rank has started."""
    runtime.engine.driver.check_thread()
    _ranks.add(runtime)
    uncaught.watch(runtime)
    await runtime.start()


async def _begun(runtime: Runtime) -> None:
    """Wait until a rank has started. If the start fails, end the job."""
    try:
        await begin(runtime)
    except BaseException:
        runtime.abort(1, f"{runtime.label} gave up while the job was starting")
        raise


@atexit.register
def _leave() -> None:
    """For each rank that a session has started, tell its agent that the rank ends."""
    for runtime in _of_sessions:
        runtime.leave_now()


class RankScope:
    """A rank from its start to its end, see `aiompi.init`."""

    def __init__(self, contact: Contact | None, settings: Settings | None) -> None:
        refuse_while_loading("begins a rank")
        self._runtime = rank_for(contact, settings)
        self._cause: BaseException | None = None

    def cancelled_by(self, error: BaseException) -> None:
        """Record the exception, such as SystemExit, that ends the loop of `run` and so cancels the `async with`."""
        self._cause = error

    async def _start(self) -> World:
        self._runtime.sessions.world_begun = True
        await _begun(self._runtime)
        return world_of(World, self._runtime)

    def __await__(self) -> Generator[Any, None, World]:
        return self._start().__await__()

    async def __aenter__(self) -> World:
        return await self._start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        runtime = self._runtime
        if runtime.finalized or runtime.sessions.world_ended or runtime.engine.error is not None:
            return
        runtime.engine.driver.check_thread()
        if error is not None and self._cause is not None:
            error = self._cause
        if isinstance(error, SystemExit) and not error.code:
            await runtime.leave()
        elif error is not None:
            self._fail(error)
        else:
            await self._finalize()

    async def _finalize(self) -> None:
        runtime = self._runtime
        finalizing: Request[bool] | None = None
        try:
            finalizing = runtime.finalize()
            await finalizing
        except BaseException as failure:
            if finalizing is not None and not finalizing.done():  # only the wait has ended, as by a time limit
                if not runtime.sessions.open:
                    await runtime.stop_waiting()
            elif runtime.engine.error is None:  # not because another rank has ended the job
                self._fail(failure)
            raise

    def _fail(self, error: BaseException) -> None:
        runtime = self._runtime
        if aio.is_interrupt(error):
            error = KeyboardInterrupt()
        if runtime.launched and isinstance(error, Exception):
            _show_now(error)
        runtime.fail(error)


def _show_now(error: Exception) -> None:
    """Print an exception now, before the launcher ends this process, and not again at exit."""
    show = sys.excepthook
    show(type(error), error, error.__traceback__)

    def excepthook(kind: type[BaseException], other: BaseException, traceback: TracebackType | None) -> None:
        if other is not error:
            show(kind, other, traceback)

    sys.excepthook = excepthook


def scope_for(address: str | None, key: bytes, rank: int | None, settings: Settings | None) -> RankScope:
    """Return the rank that `aiompi.init` begins."""
    if address is None:
        return RankScope(_contact(settings or load_settings()), settings)
    wanted = RANK_ANY if rank is None else rank
    return RankScope(Contact(f"tcp:{address}", key, wanted, launched=False), settings)


def run(main: Callable[..., Coroutine[Any, Any, T]], *args: Any, settings: Settings | None = None) -> T:
    """Run `await main(world, *args)` as one rank in a new event loop, which is uvloop's if uvloop is installed.

    The process is the rank for which the launcher has started it; without a launcher it is the only rank of a job. When
    `main` returns, `run` waits for the other ranks (`World.finalize`). An exception of `main` ends the job.

        async def main(world, name):
            print(name, await world.allreduce(1))

        aiompi.run(main, "ranks:")

    Args:
        main: an async function of the `World` and the arguments.
        args: further arguments of `main`.
        settings: replace the settings of the environment and of `rc`.

    Returns:
        What `main` returned.

    Raises:
        BlockingCallError: an event loop is running in this thread.
        TypeError: `main` is no async function.
        BaseException: what `main` raised, after the job has been ended because of it.
    """
    refuse_running_loop("aiompi.run", "async with aiompi.init() as world")
    scope = RankScope(_contact(settings or load_settings()), settings)

    async def body() -> T:
        async with scope as world:
            awaitable = main(world, *args)
            if not inspect.isawaitable(awaitable):
                raise TypeError(f"aiompi.run: {main!r} is no `async def` function: it returned {awaitable!r}")
            return await awaitable

    return aio.run(body(), scope.cancelled_by)


def local_world(size: int, *, settings: Settings | None = None) -> list[World]:
    """Make several ranks in this process and event loop, for tests and notebooks.

        sender, receiver = aiompi.local_world(2)
        await sender.send("text", dest=1)
        assert await receiver.recv(source=0) == "text"

    Args:
        size: number of ranks.
        settings: replace the settings of the environment and of `rc`.

    Returns:
        The `World` of each rank, in rank order, for tests of code that takes a `World`. No `World` needs to be
        finalized.

    Raises:
        InvalidArgumentError: the size is not positive.
    """
    if size < 1:
        raise InvalidArgumentError(f"a world of {size} ranks: there must be at least one")
    driver = aio.AsyncioDriver()
    runtimes = local_runtimes(size, driver, settings)
    driver.at_rest = lambda: all(runtime.at_rest() for runtime in runtimes)
    return [world_of(World, runtime) for runtime in runtimes]


C = TypeVar("C", bound=Intracomm)


def world_of(kind: type[C], runtime: Runtime) -> C:
    """COMM_WORLD of a rank that has started."""
    world = kind(runtime, runtime.world)
    runtime.on_finalize = lambda: clear_attributes(world.COMM_SELF)
    return world
