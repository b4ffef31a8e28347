"""Jobs inside clusters of other frameworks: `aiompi.integrations.dask` and `aiompi.integrations.ray`.

Each module has `ranks`, an asynchronous context manager that allocates places for ranks in the cluster, and `run`, a
blocking call that allocates places and runs one job. `ranks` yields an `Allocation`. Each call of `Allocation.run` is
one job, in which every rank calls the same function with its communicator.

This module is shared by both. The process of rank 0 starts the agent of the job by `start_agent`, which returns an
`Invitation`. The framework passes the `Invitation` to all ranks, and each rank runs `be_rank`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import os
import pickle
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final, TypeVar, cast

import cloudpickle

from aiompi.errors import InvalidArgumentError, ProcessFailedError, RevokedError
from aiompi.job.bootstrap import meeting
from aiompi.job.joining import init
from aiompi.settings import Settings
from aiompi.settings import load as load_settings
from aiompi.wire import version
from aiompi.wire.hello import new_key
from aiompi.wire.variables import ENV_CONTROL, ENV_KEY, ENV_RANK

T = TypeVar("T")
Main = Callable[..., Coroutine[Any, Any, T]] | Callable[..., T]

#: seconds to wait for the cause, once a rank has reported the end of the job
_GRACE: Final = 5.0


class RankLostError(ProcessFailedError):
    """The process of a rank has ended."""


@dataclasses.dataclass(frozen=True, slots=True)
class Invitation:
    """The information by which a process joins a job as a rank.

    Attributes:
        address: "HOST:PORT" of the agent.
        key: of the job.
    """

    address: str
    key: bytes = dataclasses.field(repr=False)


def refuse_other_version(protocol: int, release: str) -> None:
    """Refuse a program that has another version of aiompi. This runs in the process of a place.

    The program calls this function first, with arguments that any version understands.

    Raises:
        OtherVersionError: the program's version has another protocol.
    """
    version.own.refuse(version.Release(protocol, release))


def start_agent(size: int, settings: Settings, host: str) -> Invitation:
    """Start the agent of a job on this machine; it ends with the job.

    Args:
        size: number of ranks.
        settings: of the job.
        host: address of this machine to listen on, unless the settings choose others.

    Raises:
        InvalidArgumentError: the agent cannot listen there.
    """
    if not settings.bind and not settings.interface:
        settings = dataclasses.replace(settings, bind=host)
    listener, key = meeting.listen(settings, settings.ports), new_key()
    address, port = meeting.published(listener)[0], listener.getsockname()[1]
    meeting.start_agent(listener, key, size, settings)
    return Invitation(f"[{address}]:{port}" if ":" in address else f"{address}:{port}", key)


async def be_rank(
    invitation: Invitation,
    rank: int,
    settings: Settings | None,
    main: Main[Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Join a job, and return the result of `main` at this rank. An exception of `main` is a failure of the rank."""
    try:
        if not inspect.iscoroutinefunction(main):
            return await call_in_process(invitation, rank, settings, main, args, kwargs)
        async with init(invitation.address, invitation.key, rank=rank, settings=settings) as world:
            return await main(world, *args, **kwargs)
    except SystemExit as end:  # SystemExit would end the actor or worker
        if end.code:
            raise RankLostError(f"rank {rank} exited with status {end.code}") from None
        return None


async def call_in_process(
    invitation: Invitation,
    rank: int,
    settings: Settings | None,
    main: Main[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call `main(COMM_WORLD, *args, **kwargs)` in a new process, which is a rank of a job; return the result.

    Raises:
        RankLostError: the process ended before it had a result.
    """
    child, connection = _start_process(invitation, rank)
    with connection:
        try:
            message = cloudpickle.dumps((settings, cloudpickle.dumps((main, args, kwargs))))
            answer = await asyncio.to_thread(_exchange, connection, message)
            code = await asyncio.to_thread(child.wait)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    if answer is None:
        end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        raise RankLostError(f"rank {rank}: its process ended by {end}")
    result, error = pickle.loads(answer)
    if error is not None:
        raise error
    return result


def _start_process(invitation: Invitation, rank: int) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """Start a process that will be a rank; return the process, and this process's end of the pipe to it."""
    own: Connection[Any, Any]
    other: Connection[Any, Any]
    own, other = Pipe()
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        ENV_CONTROL: f"tcp:{invitation.address}",
        ENV_KEY: invitation.key.hex(),
        ENV_RANK: str(rank),
    }
    with other:
        command = [sys.executable, "-m", "aiompi.integrations.process", str(other.fileno())]
        child = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, pass_fds=[other.fileno()])
    return child, own


def _exchange(connection: Connection[Any, Any], message: bytes) -> bytes | None:
    """Send a message to the child; return the child's answer, or None if the child has ended."""
    with contextlib.suppress(OSError, EOFError):
        connection.send_bytes(message)
        return connection.recv_bytes()
    return None


class Allocation(ABC):
    """Places for ranks, in which jobs can run one after the other or concurrently.

    Args:
        hosts: as the attribute.
        settings: of all ranks; None if each rank takes the settings of its environment.
        jobs: most concurrent jobs; further jobs wait.

    Attributes:
        hosts: name or address of the machine of each rank.
    """

    def __init__(self, hosts: Sequence[str], settings: Settings | None, jobs: int) -> None:
        self.hosts = tuple(hosts)
        self._settings = settings
        self._room = asyncio.Semaphore(jobs)
        self._losses: list[str] = []

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.hosts)

    async def run(self, main: Main[T], *args: Any, **kwargs: Any) -> list[T]:
        """Run a function as a job with one rank in each place.

        A coroutine function runs in the actor or worker that is the place: `await main(world, *args, **kwargs)`, where
        `world` is the World of the rank. Any other function is called in a new process: `main(comm, *args, **kwargs)`,
        where `comm` is COMM_WORLD of the blocking face. `from mpi4py import MPI` is `aiompi.MPI` there.

        If a rank fails, by an exception or by the loss of its process, the job ends, and this call raises the cause. If
        the job survives failures (`Settings(on_failure="continue")`), the other ranks go on, and the result of a rank
        that has failed is its exception. Cancelling this call ends the job.

        Returns:
            The results, in rank order.

        Raises:
            ProcessFailedError: the process of a rank is gone, or the job cannot start.
        """
        async with self._room:
            if self._losses:
                raise RankLostError(f"{self._losses[0]}; make a new allocation")
            return await self._run(main, args, kwargs)

    async def _run(self, main: Main[T], args: Sequence[Any], kwargs: dict[str, Any]) -> list[T]:
        settings = self._settings or load_settings()
        survives = settings.on_failure == "continue"
        calls = [asyncio.ensure_future(call) for call in self._start(settings, main, args, kwargs)]
        ended: dict[asyncio.Future[Any], None] = {}
        try:
            await _wait_for_end(calls, survives, ended)
        finally:
            for call in calls:
                call.cancel()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        by_call: dict[asyncio.Future[Any], Any] = dict(zip(calls, outcomes, strict=True))
        in_order = [by_call[call] for call in ended | by_call]
        failures = [outcome for outcome in in_order if isinstance(outcome, BaseException)]
        if failures and not (survives and len(failures) < len(outcomes)):
            raise min(failures, key=_remoteness)
        return cast(list[T], outcomes)

    def _lost(self, rank: int, cause: str) -> RankLostError:
        """Record that the actor or worker of a rank is lost, so that later jobs fail; return the error for this job."""
        self._losses.append(f"rank {rank}: {cause}")
        return RankLostError(self._losses[-1])

    @abstractmethod
    def _start(
        self, settings: Settings, main: Main[T], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> list[Awaitable[T]]:
        """Start a job. Cancelling an awaitable ends its rank."""


async def _wait_for_end(
    calls: Sequence[asyncio.Future[Any]], survives: bool, ended: dict[asyncio.Future[Any], None]
) -> None:
    """Wait until a job has ended, or until the cause of its end is known if the job does not survive failures.

    After the first failure, wait for the cause at most `_GRACE` seconds.

    `ended` gets the calls in the order in which they end.
    """
    running, limit = set(calls), None
    while running:
        done, running = await asyncio.wait(running, timeout=limit, return_when=asyncio.FIRST_EXCEPTION)
        ended |= dict.fromkeys(done)
        failures = [error for call in done if (error := call.exception()) is not None]
        if not survives and (not done or not all(map(_remoteness, failures))):
            break
        limit = _GRACE if failures and not survives else limit


def _remoteness(error: BaseException) -> int:
    """Return 0 if an exception may be the cause of a job's end; a greater number if it is only a consequence."""
    if isinstance(error, asyncio.CancelledError):
        return 2
    return int(isinstance(error, ProcessFailedError | RevokedError) and not isinstance(error, RankLostError))


def check_size(size: int) -> None:
    """Raise InvalidArgumentError if `size` is not positive."""
    if size < 1:
        raise InvalidArgumentError(f"{size} ranks: there must be at least one")


def run_in(allocating: AbstractAsyncContextManager[Allocation], main: Main[T], args: Sequence[Any]) -> list[T]:
    """Run one job in a new allocation, and block until it has ended."""

    async def body() -> list[T]:
        async with allocating as allocation:
            return await allocation.run(main, *args)

    return asyncio.run(body())
