"""Functions that enter a job from inside a running event loop: `init`, `join` for an open job, and `spawn`.

This module imports little. If a rank needs modules that are not imported yet, a thread imports them when the block or
the call begins, so that the event loop goes on meanwhile.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from aiompi.errors import AuthenticationError, InvalidArgumentError
from aiompi.settings import Settings
from aiompi.wire.hello import parse_key
from aiompi.wire.variables import ENV_KEY, ENV_KEY_FILE

if TYPE_CHECKING:
    from aiompi.face.native.job import World
    from aiompi.face.native.output import Output, OutputLines
    from aiompi.face.processes import Command
    from aiompi.job.members import Membership

T_co = TypeVar("T_co", covariant=True)

_JOB: Final = "aiompi.face.native.job"
_SPAWN: Final = "aiompi.face.native.spawn"
_MEMBERSHIP: Final = "aiompi.job.members"


class Scope(Protocol[T_co]):
    """A rank or a member from its start to its end."""

    def __await__(self) -> Generator[Any, None, T_co]: ...

    async def __aenter__(self) -> T_co: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class Joining(Generic[T_co]):
    """The lifetime of a rank or member: use it with `async with`, or `await` it and finalize or leave yourself.

    With `init`, an exception that leaves the block ends the job, since the other ranks would wait in vain. `SystemExit`
    with status 0 does not: this rank then leaves without waiting. If no exception leaves the block, this rank
    finalizes, and so waits for the other ranks. If this wait is cancelled, this rank leaves alone.

    Args:
        module: module to import first.
        make: creates the rank or member, which then starts.
    """

    def __init__(self, module: str, make: Callable[[], Scope[T_co]]) -> None:
        self._module, self._make = module, make
        self._scope: Scope[T_co] | None = None if _loop_is_running() and not _is_imported(module) else make()

    async def _made(self) -> Scope[T_co]:
        if self._scope is None:
            await import_in_thread(self._module)
            self._scope = self._make()
        return self._scope

    async def _start(self) -> T_co:
        return await (await self._made())

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._start().__await__()

    async def __aenter__(self) -> T_co:
        return await (await self._made()).__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await (await self._made()).__aexit__(kind, error, traceback)


def _loop_is_running() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _is_imported(module: str) -> bool:
    found = sys.modules.get(module)
    return found is not None and not getattr(found.__spec__, "_initializing", False)


async def import_in_thread(module: str) -> None:
    """Import a module in a thread that ends after the import, so that the event loop goes on meanwhile."""
    import asyncio  # the blocking face starts without these two modules
    from concurrent.futures import ThreadPoolExecutor

    thread = ThreadPoolExecutor(1)
    try:
        await asyncio.get_running_loop().run_in_executor(thread, importlib.import_module, module)
    finally:
        thread.shutdown(wait=False)


def init(
    address: str | None = None,
    key: str | bytes | None = None,
    *,
    rank: int | None = None,
    settings: Settings | None = None,
) -> Joining[World]:
    """Be a rank of a job with a fixed number of ranks, from inside a running event loop.

    async with aiompi.init() as world:
            ...

    Without an address, a process that a launcher has started becomes a rank of the launcher's job. Without a launcher,
    the process is the only rank of a job.

    Args:
        address: "HOST:PORT" of a job that waits for its ranks (`aiompi-launch --serve N`), as the launcher printed it;
            HOST may be a name. The loop goes on while the name is resolved. Each address of the name is tried.
            Resolving and connecting together take at most `connect_timeout` seconds.
        key: of the job at the address, hexadecimal or bytes; by default from AIOMPI_KEY, or the file that
            AIOMPI_KEY_FILE names.
        rank: rank that this process wants in the job at the address; by default ranks are given in the order of
            arrival.
        settings: replace the settings of the environment and of `rc`.

    Returns:
        An object that starts the rank: use it with `async with`, or `await` it and `finalize` the `World` yourself.

    Raises:
        AuthenticationError: there is no key, or it is too short.
        JobAbortedError: the job cannot be joined.

    Cancelling:
        Cancelling the start, as a time limit does, gives up joining; if the launcher has started this rank, the job
        ends as well. At the end of the block this rank waits for the others; if the wait is cancelled, this rank leaves
        at once.

    Example:
        async with aiompi.init() as world:
            print(await world.allreduce(world.rank))
    """
    if address is not None and rank is not None and rank < 0:
        raise InvalidArgumentError(f"rank {rank} cannot be joined as: ranks count from 0")
    secret = b"" if address is None else key_of(key)

    def make() -> Scope[World]:
        scope: Scope[World] = importlib.import_module(_JOB).scope_for(address, secret, rank, settings)
        return scope

    return Joining(_JOB, make)


def join(
    address: str,
    key: str | bytes | None = None,
    *,
    attributes: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Joining[Membership]:
    """Be a member of a job that is open (`aiompi-launch --serve`, `aiompi.serve`), from inside a running event loop.

    async with aiompi.join("host:port") as member:
            world = await member.assemble(at_least=2)

    The end of the block leaves the job, which disturbs no other member. An exception that leaves the block is a failure
    of this member alone. If the program does not handle SIGTERM, the signal cancels the block, and the process ends
    once the member has left.

    Args:
        address: "HOST:PORT", as the launcher printed it; HOST may be a name. The loop goes on while the name is
            resolved. Each address of the name is tried. Resolving and connecting together take at most
            `connect_timeout` seconds.
        key: of the job, hexadecimal or bytes; by default from AIOMPI_KEY, or the file that AIOMPI_KEY_FILE names.
        attributes: data about this member that other members can read: a dict of values that msgpack can express, at
            most 64 KiB.
        settings: replace the settings of the environment and of `rc`.

    Returns:
        An object that starts the membership: use it with `async with`, or `await` it and call `leave` yourself.

    Raises:
        AuthenticationError: there is no key, or it is too short.
        InvalidArgumentError: the attributes cannot be sent.
        JobAbortedError: the job cannot be joined.

    Cancelling:
        Cancelling the start, as a time limit does, gives up joining; no other member notices.

    Example:
        async with aiompi.join("host:port", key) as member:
            world = await member.assemble(at_least=2)
    """
    secret = key_of(key)

    def make() -> Membership:
        member: Membership = importlib.import_module(_MEMBERSHIP).Membership(
            address, secret, attributes or {}, settings
        )
        return member

    return Joining(_MEMBERSHIP, make)


async def spawn(
    count: int,
    program: Command | Callable[..., Any],
    *args: Any,
    merge: bool = False,
    output: Output | OutputLines | None = None,
    settings: Settings | None = None,
    options: Sequence[str] = (),
) -> Any:
    """Start ranks from a program or notebook that no launcher has started, and connect to them.

    children = await aiompi.spawn(4, "worker.py")

    Args:
        count: number of ranks, which are a job of their own.
        program: a Python program or a command, whose ranks call `world.Get_parent()`; or a function. Each rank calls
            the function with its communicator and `args`, and awaits the result if the function is `async`. The
            function is pickled by name, so it must be in an importable module; with cloudpickle installed, it may be
            any function.
        args: arguments of the program, or of the function.
        merge: True for one communicator of all, in which this process has rank 0. Ranks of a program call
            `parent.Merge(high=True)`.
        output: gets what ranks print: `OutputLines` to iterate over it, or any object with a method `write`; by
            default `sys.stdout`.
        settings: replace the settings of the environment and of `rc`.
        options: more options of `aiompi-launch`, such as `["--hosts", "a:2,b:2"]`.

    Returns:
        The intercommunicator with the ranks, or the merged communicator. `await children.Disconnect()` parts.

    Raises:
        SpawnError: the ranks cannot be started, or have ended before they joined; the message says why.

    Cancelling:
        Cancelling the await, as a time limit does, ends the ranks that have been started.

    Example:
        children = await aiompi.spawn(4, "worker.py")
        results = await children.gather(None, root=aiompi.ROOT)
        await children.Disconnect()
    """
    await import_in_thread(_SPAWN)
    start = importlib.import_module(_SPAWN).start
    return await start(count, (program, args), merge=merge, output=output, settings=settings, options=options)


def key_of(key: str | bytes | None) -> bytes:
    """Return the key of a job: `key` if it is not None, otherwise the key that the environment contains.

    Raises:
        AuthenticationError: there is no key, or it is too short.
    """
    if key is None:
        key = os.environ.get(ENV_KEY)
    if key is None and ENV_KEY_FILE in os.environ:
        path = os.environ[ENV_KEY_FILE]
        try:
            with open(path, encoding="ascii") as file:
                key = file.read()
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise AuthenticationError(f"{ENV_KEY_FILE}={path} has no key that can be read: {reason}") from None
    if key is None:
        raise AuthenticationError(f"no key: pass it, or set {ENV_KEY} or {ENV_KEY_FILE}")
    return parse_key(key)
