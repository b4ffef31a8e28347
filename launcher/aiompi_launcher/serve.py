"""Serves a job whose ranks are started elsewhere: a job of a given size, or an open job, whose members come and go."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from aiompi.settings import Settings
from aiompi.settings import load as load_settings
from aiompi.wire import hello, liveness
from aiompi.wire.variables import ENV_KEY, ENV_KEY_FILE
from aiompi_launcher.job.rendezvous import ServerInMemory
from aiompi_launcher.job.supervisor import END_SIGNALS, Supervisor
from aiompi_launcher.job.table import Job
from aiompi_launcher.net.control import ControlServer
from aiompi_launcher.net.listen import address_of, announce, host_of_all, listen_for
from aiompi_launcher.spec import EXIT_SIGNAL, EXIT_TIMEOUT, ServeSpec
from aiompi_launcher.start.directory import RunDirectory
from aiompi_launcher.start.watchdog import job_directory
from aiompi_launcher.supervise import seen

if TYPE_CHECKING:
    from aiompi_launcher.job.open_job import OpenJob
    from aiompi_launcher.top.watch import Subject

_KEY: Final = "key"


def serve(spec: ServeSpec, name: str) -> int:
    """Serve a job whose ranks are started elsewhere.

    Prints the address on standard output. The key is AIOMPI_KEY, if that is set. If AIOMPI_KEY is not set, the launcher
    writes a new key to a file, and prints the path of the file on standard error.

    Args:
        spec: the job.
        name: of the program, for messages.

    Returns:
        The exit code for the launcher: 0 if all ranks have finalized or left.

    Raises:
        OSError: the port is taken or not permitted, or the directory of the job cannot be created.
        AuthenticationError: AIOMPI_KEY is not a key.
        InvalidArgumentError: a setting is wrong.
    """
    settings = load_settings()
    text = os.environ.get(ENV_KEY)
    key = hello.new_key() if text is None else hello.parse_key(text)
    with job_directory() as (directory, _):
        if settings.tls_cert:
            from aiompi.net import tls  # most jobs have no certificate of their own

            tls.check(settings)
        listener = listen_for(spec, settings)
        if text is None:
            path = directory.join(_KEY)
            _write_secret(path, key.hex())
            sys.stderr.flush()
            os.write(2, os.fsencode(f"{name}: {ENV_KEY_FILE}={path}\n"))  # a path that need not be UTF-8
        announce(address_of(listener))
        serving = _serve if spec.size is not None else _serve_members
        return asyncio.run(serving(spec, name, key, _Place(listener, directory, settings)))


class _Place(NamedTuple):
    """Where a job is served."""

    listener: socket.socket
    directory: RunDirectory
    settings: Settings


async def _serve_members(spec: ServeSpec, name: str, key: bytes, place: _Place) -> int:
    """Serve an open job until a signal or a time limit ends it."""
    from aiompi_launcher.job.open_job import OpenJob  # for open jobs only
    from aiompi_launcher.output.outputs import Outputs
    from aiompi_launcher.top.live import Live

    listener, directory, settings = place

    outputs = Outputs(name, tag=False, verbose=spec.verbose, on_broken=lambda reason: None)
    job = OpenJob(spec, listener, key, settings=settings, say=outputs.say)
    end: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
    _watch_end(end, spec, job)

    def members() -> Subject:
        from aiompi_launcher.top.watch import OpenRanks  # for a job that is looked at only

        return OpenRanks(job)

    async with Live(members, _served(spec, listener), outputs).at(directory, top=spec.top):
        code, reason = await end
        if code == EXIT_TIMEOUT:
            outputs.say(reason)
        outputs.close()
    job.close(reason)
    await outputs.drain()
    outputs.stop()
    return code


def _watch_end(end: asyncio.Future[tuple[int, str]], spec: ServeSpec, job: OpenJob) -> None:
    """Complete the future with an exit code and a reason, at a signal or at the end of a time limit."""
    loop = end.get_loop()

    def stop(code: int, reason: str) -> None:
        if not end.done():
            end.set_result((code, reason))

    def start_timed_out(seconds: float) -> None:
        count = len(job.members.cards())
        if count < spec.at_least:
            stop(EXIT_TIMEOUT, f"{count} of at least {spec.at_least} members have joined within {seconds:g} s")

    for signum in END_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            loop.add_signal_handler(signum, stop, EXIT_SIGNAL + signum, f"the launcher got {signum.name}")
    if spec.timeout is not None:
        loop.call_later(spec.timeout, stop, EXIT_TIMEOUT, f"the job has run for {spec.timeout:g} s (--timeout)")
    if spec.start_timeout is not None:
        loop.call_later(spec.start_timeout, start_timed_out, spec.start_timeout)


async def _serve(spec: ServeSpec, name: str, key: bytes, place: _Place) -> int:
    assert spec.size is not None
    listener, directory, settings = place
    job = Job(
        spec.size,
        directory="",
        spawned=False,
        survives=(spec.on_failure or settings.on_failure) != "abort",
        heartbeat=liveness.interval(settings.heartbeat),
    )
    job.namespace = liveness.namespace()
    supervisor = Supervisor(job, name, timeout=spec.timeout, verbose=spec.verbose)
    supervisor.limit_start(spec.start_timeout)
    async with seen(job, supervisor, directory, _served(spec, listener), top=spec.top):
        if await supervisor.meet(ServerInMemory(spec.size, host_of_all(listener))):
            server = ControlServer(
                supervisor.connections,
                key,
                listener,
                hello_timeout=settings.connect_timeout,
                heartbeat=job.heartbeat,
                settings=settings,
            )
            with contextlib.closing(server):
                return await supervisor.finish()
        return await supervisor.finish()


def _served(spec: ServeSpec, listener: socket.socket) -> str:
    """Return words for a job that is served."""
    return f"--serve{'' if spec.size is None else f' {spec.size}'} at {address_of(listener)}"


def _write_secret(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
