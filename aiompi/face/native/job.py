"""The ways in which a program of the native face gets COMM_WORLD: `run`, `init`, `join`, `local_world`."""

from __future__ import annotations

import contextlib
import inspect
import os
import pathlib
import sys
import weakref
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiompi.driver import aio
from aiompi.driver.threads import refuse_running_loop
from aiompi.engine import Request
from aiompi.errors import AuthenticationError, InvalidArgumentError, JobAbortedError
from aiompi.face.common import clear_attributes
from aiompi.face.native.communicator import Intracomm
from aiompi.runtime import Runtime, local_runtimes
from aiompi.settings import Settings, rc
from aiompi.settings import load as load_settings
from aiompi.transport.agent import Contact
from aiompi.wire.control import ENV_KEY, ENV_KEY_FILE
from aiompi.wire.hello import MIN_KEY_BYTES, RANK_ANY, parse_key

if TYPE_CHECKING:
    from aiompi.datatype.buffer.memory import buffer

T = TypeVar("T")

#: the ranks of this process
_ranks: Final[weakref.WeakSet[Runtime]] = weakref.WeakSet()


def _forked() -> None:
    with contextlib.ExitStack() as stack:
        for rank in [*_ranks]:
            stack.callback(rank.disown)  # each, whatever another one raises
        _ranks.clear()


os.register_at_fork(after_in_child=_forked)


class World(Intracomm):
    """COMM_WORLD of a rank, with which its part in the job begins and ends."""

    __slots__ = ()

    def finalize(self, timeout: float | None = None) -> Request[bool]:
        """End communication: complete when every rank of the job has called it (MPI_Finalize, section 7.5).

        Args:
            timeout: seconds after which this rank leaves without the others; None if it waits for them.

        Returns:
            A request whose result is True if all ranks have finalized, False if this rank has left without them.
        """
        self._runtime.engine.driver.check_thread()
        return self._runtime.finalize(timeout)

    def leave(self) -> Request[None]:
        """End communication of this rank alone, as when its service stops: complete once what it sent is delivered.

        Ranks that still wait for this one get a ProcessFailedError.
        """
        self._runtime.engine.driver.check_thread()
        return self._runtime.leave()

    def Alloc_mem(self, size: int) -> buffer:
        """New memory (MPI_Alloc_mem, MPI-2); it is freed when nothing refers to it any more.

        Args:
            size: bytes.

        Raises:
            TypeError: the size is not an integer.
            ValueError: it is negative.
        """
        return self._runtime.allocate(size)


class Session:
    """A rank from its start to its end: `async with` it, or `await` it and finalize the world yourself.

    Leaving the block by an exception ends the job, since the other ranks would wait in vain; leaving it otherwise
    finalizes.
    """

    def __init__(self, contact: Contact | None, settings: Settings | None) -> None:
        driver = aio.AsyncioDriver()
        self._runtime = Runtime(driver, contact, settings)
        driver.at_rest = self._runtime.at_rest
        if settings is None:
            rc.read_by(self._runtime)
        self._cause: BaseException | None = None

    def cancelled_by(self, error: BaseException) -> None:
        """Note the exception that ends the loop of `run` and so cancels the block, such as that of `sys.exit`."""
        self._cause = error

    @property
    def joined(self) -> bool:
        """True if the job has accepted this process as a rank."""
        return self._runtime.joined

    async def _start(self) -> World:
        self._runtime.engine.driver.check_thread()
        _ranks.add(self._runtime)
        try:
            await self._runtime.start()
        except BaseException:
            self._runtime.abort(1, f"{self._runtime.label} gave up while the job was starting")
            raise
        return _world(World, self._runtime)

    def __await__(self) -> Generator[Any, None, World]:
        return self._start().__await__()

    async def __aenter__(self) -> World:
        return await self._start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        runtime = self._runtime
        if runtime.finalized or runtime.engine.error is not None:
            return
        runtime.engine.driver.check_thread()
        if error is not None and self._cause is not None:
            error = self._cause
        if isinstance(error, SystemExit) and not error.code:
            await runtime.leave()
        elif error is not None:
            self._fail(error)
        else:
            try:
                await runtime.finalize()
            except BaseException as failure:
                if runtime.engine.error is None:  # not because another rank has ended the job
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


def init(*, settings: Settings | None = None) -> Session:
    """Be the rank that the launcher started this process for; without a launcher, the only rank of a job.

        async with aiompi.init() as world:
            ...

    Args:
        settings: instead of those of the environment and `rc`.

    Raises:
        JobAbortedError: the job cannot be joined.
    """
    return Session(Contact.from_environ(settings or load_settings()), settings)


def join(
    address: str, key: str | bytes | None = None, *, rank: int | None = None, settings: Settings | None = None
) -> Session:
    """Become a rank of a job that waits for it (`aiompi-launch --serve N`), from inside a running event loop.

        world = await aiompi.join("host:port", key=...)

    Args:
        address: "HOST:PORT", as the launcher printed it, or with a name. The loop goes on while the name is resolved;
            each of its addresses is tried, and all of that takes at most `connect_timeout`.
        key: of the job, hexadecimal or bytes; by default from AIOMPI_KEY, or the file that AIOMPI_KEY_FILE names.
        rank: wanted; by default ranks are given in the order of arrival.
        settings: instead of those of the environment and `rc`.

    Raises:
        AuthenticationError: there is no key, or it is too short.
        JobAbortedError: the job cannot be joined.
    """
    if rank is not None and rank < 0:
        raise InvalidArgumentError(f"rank {rank} cannot be joined as: ranks count from 0")
    wanted = RANK_ANY if rank is None else rank
    return Session(Contact(f"tcp:{address}", _key(key), wanted, launched=False), settings)


def _key(key: str | bytes | None) -> bytes:
    if isinstance(key, bytes):
        if len(key) < MIN_KEY_BYTES:
            raise AuthenticationError(f"the key of the job must be at least {MIN_KEY_BYTES} bytes long")
        return key
    if key is None:
        key = os.environ.get(ENV_KEY)
    if key is None and ENV_KEY_FILE in os.environ:
        path = os.environ[ENV_KEY_FILE]
        try:
            key = pathlib.Path(path).read_text(encoding="ascii")
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise AuthenticationError(f"{ENV_KEY_FILE}={path} has no key that can be read: {reason}") from None
    if key is None:
        raise AuthenticationError(f"no key: pass it to join(), or set {ENV_KEY} or {ENV_KEY_FILE}")
    return parse_key(key)


def run(main: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    """Run `await main(world)` as one rank in an event loop of its own, uvloop's when it is installed.

    Returns:
        What `main` returned.

    Raises:
        BlockingCallError: an event loop is running in this thread.
        TypeError: `main` is no async function.
        BaseException: what `main` raised, after the job has been ended because of it.
    """
    refuse_running_loop("aiompi.run", "async with aiompi.init() as world")
    contact = Contact.from_environ(load_settings())
    session = Session(contact, None)

    async def body() -> T:
        async with session as world:
            awaitable = main(world)
            if not inspect.isawaitable(awaitable):
                raise TypeError(f"aiompi.run: {main!r} is no async function: it returned {awaitable!r}")
            return await awaitable

    try:
        return aio.run(body(), session.cancelled_by)
    except JobAbortedError as error:
        if contact is None or not contact.launched:
            raise
        # The launcher reports the cause once for all ranks.
        sys.exit(1 if session.joined else f"aiompi.run: {error}")


def local_world(size: int, *, settings: Settings | None = None) -> list[Intracomm]:
    """Several ranks in this process and event loop, for tests and notebooks.

    Args:
        size: number of ranks.
        settings: instead of those of the environment and `rc`.

    Returns:
        The COMM_WORLD of each rank, in rank order. Nothing needs to be closed.
    """
    if size < 1:
        raise InvalidArgumentError(f"a world of {size} ranks: there must be at least one")
    driver = aio.AsyncioDriver()
    runtimes = local_runtimes(size, driver, settings)
    driver.at_rest = lambda: all(runtime.at_rest() for runtime in runtimes)
    return [_world(Intracomm, runtime) for runtime in runtimes]


C = TypeVar("C", bound=Intracomm)


def _world(kind: type[C], runtime: Runtime) -> C:
    """COMM_WORLD of a rank that has started."""
    world = kind(runtime, runtime.world)
    runtime.on_finalize = lambda: clear_attributes(world.COMM_SELF)
    return world
