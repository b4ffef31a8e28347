"""Implementation of `aiompi.spawn`: starts ranks for a program without a launcher, such as a notebook."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from aiompi import create
from aiompi.constants import ROOT
from aiompi.engine import Request
from aiompi.engine.processes import Program
from aiompi.engine.schedule import settled
from aiompi.errors import InvalidArgumentError, ProcessFailedError
from aiompi.face.native.communicator import Intercomm, Intracomm
from aiompi.face.native.job import RankScope
from aiompi.face.native.output import Forward, Output, OutputLines
from aiompi.face.processes import Command
from aiompi.job.runtime import Runtime
from aiompi.job.spawn import Launch
from aiompi.settings import Settings

Function: TypeAlias = Callable[..., Any]


class _Starter:
    """Starts the launcher of the ranks; `create.spawn` calls it when the port to which the ranks connect is open.

    Attributes:
        launch: the launcher, None before it is started.
        forward: passes on what the ranks print.
    """

    forward: Forward

    def __init__(self, runtime: Runtime, output: Output | OutputLines | None, options: Sequence[str]) -> None:
        self.launch: Launch | None = None
        self._runtime = runtime
        self._output = output
        self._options = options

    def __call__(self, programs: Sequence[Program], port: str, options: Sequence[str]) -> Request[None]:
        self.forward = forward = Forward(self._runtime, self._output)
        try:
            engine = self._runtime.engine
            self.launch = launch = Launch(
                engine, programs, port, [*options, *self._options, *forward.options], forward.write_end
            )
        except BaseException:
            forward.close()
            raise
        finally:
            os.close(forward.write_end)
        return launch.ended


def _pickled(function: Function, args: Sequence[Any]) -> bytes:
    """Return a function and its arguments as bytes.

    Raises:
        InvalidArgumentError: the function or an argument cannot be pickled, or another process cannot import the
            function.
    """
    dumps: Callable[[Any], bytes] = pickle.dumps
    if getattr(function, "__module__", "") == "__main__":
        try:
            dumps = importlib.import_module("cloudpickle").dumps
        except ImportError:
            raise InvalidArgumentError(
                f"spawn: {function!r} is defined in the main program, which other processes cannot import: put it into "
                "a module, or install cloudpickle"
            ) from None
    try:
        return dumps((function, args))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidArgumentError(f"spawn: {function!r} or its arguments cannot be pickled: {error}") from None


class SpawnedJob:
    """The job of the spawned ranks. When they have ended, this object shuts down the rank that `aiompi.spawn` made.

    Attributes:
        error: why the job has failed; None if it has not.
    """

    def __init__(self, runtime: Runtime, starter: _Starter) -> None:
        assert starter.launch is not None
        self._runtime = runtime
        self._forward = starter.forward
        self._launch = starter.launch
        self.error: BaseException | None = None
        self._over: Request[None] = Request(runtime.engine)
        self._launch.ended.when_done(self._ended)

    def signal(self, signum: int) -> None:
        """Send SIGUSR1 or SIGUSR2 to all ranks."""
        self._launch.signal(signum)

    def end(self) -> None:
        """End the ranks, whatever they are doing."""
        self._launch.end()

    def __call__(self) -> Request[None]:
        """Return a request that completes when this rank has shut down. Spawned ranks no longer block when printing."""
        self._forward.unlimit()
        return self._over

    def _ended(self, ended: Request[None]) -> None:
        runtime, error = self._runtime, ended.exception()
        self.error = error
        if error is not None:
            runtime.engine.failure.abort(ProcessFailedError(f"the job of the spawned ranks is gone: {error}"))
            runtime.close()
        runtime.engine.driver.call_soon(runtime.engine.spawn, self._end(parts=error is None))

    async def _end(self, *, parts: bool) -> None:
        await self._forward.ended
        try:
            if parts:
                await self._runtime.leave()
        finally:
            self._over.complete()


async def start(
    count: int,
    call: tuple[Command | Function, Sequence[Any]],
    *,
    merge: bool,
    output: Output | OutputLines | None,
    settings: Settings | None,
    options: Sequence[str],
) -> Any:
    """Start ranks for `aiompi.spawn`, and return the communicator with them.

    Args:
        count, merge, output, settings, options: as in `aiompi.spawn`.
        call: program or function, and its arguments.
    """
    program, args = call
    world = await RankScope(None, settings)
    runtime = world._runtime
    packed = _pickled(program, args) if callable(program) else b""
    words: Sequence[str] = ("-m", "aiompi.job.spawned") if packed else (os.fspath(program), *map(str, args))  # type: ignore[arg-type]
    starter = _Starter(runtime, output, options)
    try:
        core = await create.spawn(runtime.self_comm, [Program(tuple(words), count)], 0, start=starter)
        runtime.parting = SpawnedJob(runtime, starter)
        children: Intercomm = Intercomm(runtime, core)
        if packed:
            await children.bcast((packed, merge, sys.path), root=ROOT)
        if not merge:
            return children
        merged: Intracomm = await children.Merge()
        await children.Free()
    except BaseException:  # also when this call is cancelled
        if starter.launch is not None:
            starter.launch.end()
            await settled([starter.launch.ended])
        runtime.close()
        raise
    return merged


def spawned_job(children: Intercomm) -> SpawnedJob:
    """Return the job of the ranks that `aiompi.spawn` has started."""
    job = children._runtime.parting
    assert isinstance(job, SpawnedJob)
    return job
