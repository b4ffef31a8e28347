"""Runs one job: processes, connections, signals and timers around the state table of `job`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Final, Protocol

from aiompi.wire import control
from aiompi_launcher.job import states
from aiompi_launcher.job.heartbeat import Heartbeat
from aiompi_launcher.job.rendezvous import Rendezvous, RendezvousError
from aiompi_launcher.job.table import Job
from aiompi_launcher.net.control import Connection
from aiompi_launcher.net.listen import StrangerReports, rethrow
from aiompi_launcher.output.outputs import Outputs
from aiompi_launcher.output.streams import TerminalInput
from aiompi_launcher.spec import EXIT_FAILURE, EXIT_SIGNAL, EXIT_TIMEOUT
from aiompi_launcher.start.ranks import RankProcess, StartError
from aiompi_launcher.start.watchdog import KILL_GRACE, living, signal_group

EXIT_BROKEN_PIPE: Final = EXIT_SIGNAL + signal.SIGPIPE
_POLL: Final = 0.02  # seconds
_HASTE: Final = 1.0  # seconds for the last output if the user ends the job
END_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RemoteHosts(Protocol):
    """The hosts of a job on several hosts."""

    async def end(self) -> None:
        """End everything on all hosts."""

    def pause(self) -> None:
        """Tell agents that this process is about to be stopped."""


class Supervisor:
    """Runs a job to its end.

    Args:
        job: its state states.
        name: of the launcher, which begins each of its messages.
        tag_output: True to prefix each line of output with its rank.
        timeout: seconds that the job may take, None for no limit.
        verbose: True to report progress.
        expel_stopped: True if the heartbeat of the job covers processes that are stopped.
    """

    def __init__(
        self,
        job: Job,
        name: str,
        *,
        tag_output: bool = False,
        timeout: float | None = None,
        verbose: bool = False,
        expel_stopped: bool = True,
    ) -> None:
        self._job = job
        self._verbose = verbose
        self._loop = asyncio.get_running_loop()
        self._rendezvous: Rendezvous
        self._errands: set[asyncio.Task[None]] = set()
        self._links: dict[int, Connection] = {}
        self._sent: tuple[object, bytes] = (None, b"")  # the last message and its bytes: cards of many go to many
        self._processes: dict[int, RankProcess] = {}
        self._running: set[int] = set()
        self._remote: RemoteHosts | None = None
        self._input: TerminalInput | None = None
        self._lifeline: socket.socket | None = None
        self._reports = True
        self._exit_code: asyncio.Future[int] = self._loop.create_future()
        self._impatience = asyncio.Event()
        self._hurried = 0  # exit code if the user does not wait for other clients
        self._output_code = 0  # exit code if the output could not be written
        self._short = False  # True once the lack of descriptors has been reported
        self.outputs = Outputs(name, tag=tag_output, on_broken=self._on_broken_output)
        self._strangers = StrangerReports(self.outputs.say)
        self._loop.set_exception_handler(self._on_exception)
        self._watch_signals()
        self._heartbeat: Heartbeat | None = None
        if job.heartbeat:
            self._heartbeat = Heartbeat(job.heartbeat, job.watched, self._links, self.on_stuck, expel_stopped)
        if timeout is not None:
            self._loop.call_later(timeout, self._on_timeout, timeout)

    def answer_to(self, lifeline: socket.socket, *, only: bool) -> None:
        """Tell the process that has spawned this job why it fails, and end the job when that process ends.

        Args:
            only: True to tell nobody else.
        """
        self._lifeline, self._reports = lifeline, not only
        lifeline.setblocking(False)
        self._loop.add_reader(lifeline, self._spawner_gone)

    def _spawner_gone(self) -> None:
        assert self._lifeline is not None
        self._loop.remove_reader(self._lifeline)
        if not self._exit_code.done():
            self._inform(self._job.signalled, signal.SIGTERM)

    # Start.

    async def meet(self, rendezvous: Rendezvous) -> bool:
        """Run the IMPI start-up protocol.

        Args:
            rendezvous: the IMPI server.

        Returns:
            True if the job goes on.
        """
        self._rendezvous = rendezvous
        meeting = asyncio.create_task(rendezvous.meet())
        either: set[asyncio.Future[Any]] = {meeting, self._exit_code}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not meeting.done():
            meeting.cancel()
            await asyncio.wait({meeting})
            return False
        try:
            world = meeting.result()
        except RendezvousError as error:
            self.fail(str(error))
            return False
        self.chat(f"all IMPI clients are here: {world.size} ranks")
        self._job.enrol(world)
        rendezvous.watch(self.fail)
        return True

    def limit_start(self, seconds: float | None) -> None:
        """End the job if a rank has not joined after this time; None for no limit."""
        if seconds is not None:
            self._loop.call_later(seconds, self._inform, self._job.start_timed_out, seconds)

    async def start(self, ranks: Generator[RankProcess]) -> None:
        """Start the ranks, and serve connections in between; no further rank is started once the job is to end.

        Args:
            ranks: starts the next rank at each step; closed at the end.
        """
        with contextlib.closing(ranks):
            try:
                rank = self._job.world.first
                while not self._job.ending and (process := next(ranks, None)):
                    self._adopt(rank, process)
                    rank += 1
                    await asyncio.sleep(0)
            except StartError as error:
                self.fail(str(error), error.code)
        self._running.update(self._processes)  # only now forked ranks are children of this process
        self.reap()
        self.start_ended()

    def _adopt(self, rank: int, process: RankProcess) -> None:
        self.outputs.add(rank, process)
        self._supervise(rank, process)
        self._inform(self._job.started, rank, process.process.pid)

    def _supervise(self, rank: int, process: RankProcess) -> None:
        self._processes[rank] = process
        if process.terminal_input >= 0:
            self._input = TerminalInput(0, process.terminal_input)
        self.chat(f"rank {rank} runs as process {process.process.pid}")

    # Start on other hosts.

    def start_on(self, hosts: RemoteHosts) -> None:
        """Supervise ranks on other hosts, which are reported by `adopt`."""
        self._remote = hosts
        self._loop.add_signal_handler(signal.SIGTSTP, self._on_stop)

    def adopt(self, rank: int, process: RankProcess, place: states.Place) -> None:
        """A rank runs on another host."""
        self._supervise(rank, process)
        self._running.add(rank)
        self._inform(self._job.started, rank, process.process.pid, place)

    def host_lost(self, ranks: Iterable[int], cause: str) -> None:
        """A host cannot be reached any more: its ranks are as if they had been killed."""
        for number in ranks:
            rank = self._job.ranks[number]
            link = self._links.get(number)
            if rank.status is None:
                rank.error = f"is lost with its host: {cause}"
            if link is not None:
                self.on_closed(link, "")
            if number in self._running:
                self._running.discard(number)
                self._inform(self._job.exited, number, -signal.SIGKILL)

    def start_ended(self) -> None:
        """All ranks run, or no further one will be started."""
        self._inform(self._job.start_ended)

    # End.

    async def finish(self) -> int:
        """Wait for the end of the job and clean up; return the exit code for the launcher."""
        code = await self._exit_code
        self._strangers.close()
        if self._heartbeat is not None:
            self._heartbeat.close()
        if self._input is not None:
            self._input.close()
        for link in self._links.values():
            link.close()
        if self._remote is not None:
            await self._remote.end()
        await self._end_groups()
        self.outputs.close()
        code = await self._take_leave(code)
        await self._drain()
        if self._lifeline is not None:
            self._lifeline.close()
        return code or self._output_code

    async def _take_leave(self, code: int) -> int:
        """Send FINI to the IMPI server if the job has succeeded; a connection that just ends means failure."""
        for errand in self._errands:
            errand.cancel()
        if code == 0:
            leaving = asyncio.ensure_future(self._rendezvous.finish())
            hurried = asyncio.ensure_future(self._impatience.wait())
            await asyncio.wait({leaving, hurried}, return_when=asyncio.FIRST_COMPLETED)
            hurried.cancel()
            code = self._farewell(leaving)
        await self._rendezvous.close()
        return code

    def _farewell(self, leaving: asyncio.Future[None]) -> int:
        if not leaving.done():
            leaving.cancel()
            return self._hurried
        error = leaving.exception()
        if error is None:
            return 0
        if not isinstance(error, RendezvousError):
            raise error
        self.outputs.say(str(error))
        return EXIT_FAILURE

    async def _end_groups(self) -> None:
        """End processes that the ranks have left in their process groups."""
        groups = {process.process.pid for process in self._processes.values() if process.process.release()}
        for pgid in groups:
            signal_group(pgid, signal.SIGTERM)
        deadline = self._loop.time() + KILL_GRACE
        while (groups := living(groups)) and self._loop.time() < deadline:
            await asyncio.sleep(_POLL)
        for pgid in groups:
            signal_group(pgid, signal.SIGKILL)

    async def _drain(self) -> None:
        impatient = self._impatience.is_set()
        drained = asyncio.ensure_future(self.outputs.drain())
        stopped = asyncio.ensure_future(asyncio.sleep(_HASTE) if impatient else self._impatience.wait())
        _, late = await asyncio.wait({drained, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in late:
            task.cancel()
        self.outputs.stop()

    # Messages for the user.

    def chat(self, text: str) -> None:
        """Report progress if `verbose`."""
        if self._verbose:
            self.outputs.say(text)

    def say(self, text: str) -> None:
        """Print a message for the user."""
        self.outputs.say(text)

    def fail(self, reason: str, code: int = EXIT_FAILURE) -> None:
        """End the job for a reason other than a failed rank."""
        self._inform(self._job.failed, reason, code)

    # Events of connections (control.ConnectionObserver).

    def on_join(self, link: Connection, wanted: int, join: control.Join | control.Enter) -> None:
        try:
            if isinstance(join, control.Enter):
                raise states.Refused(states.NOT_OPEN)
            rank = self._job.place(wanted, join.pid)
        except states.Refused as refusal:
            link.send(control.encode(control.Abort(EXIT_FAILURE, str(refusal))))
            link.close()
            self.chat(f"a connection was refused: {refusal}")
            return
        link.rank = rank
        self._links[rank] = link
        self.chat(f"rank {rank} has joined, process {join.pid}")
        self._inform(self._job.received, rank, join)

    def on_message(self, link: Connection, message: control.Message) -> None:
        if self._links.get(link.rank) is link:
            self._inform(self._job.received, link.rank, message)

    def on_closed(self, link: Connection, error: str) -> None:
        if self._links.get(link.rank) is link:
            del self._links[link.rank]
            self._inform(self._job.received, link.rank, states.Closed(error))

    def on_stuck(self, rank: int, cause: str) -> None:
        """The process of a rank has not run, or its machine has not answered, for the heartbeat of the job."""
        self._inform(self._job.stuck, rank, cause)

    def on_stranger(self, address: str, error: str) -> None:
        # On a socket that only this user can reach it is a rank that died early, which is reported anyway.
        text = f"dropped a connection from {address}: {error}"
        if self._processes:
            self.chat(text)
        else:
            self._strangers.report(text)

    def on_shortage(self) -> None:
        text = "no descriptors are left for the connections of ranks: raise their limit (ulimit -n)"
        if self._processes:  # all of them wait for each other in init
            self.fail(text)
        elif not self._short:
            self._short = True
            self.outputs.say(text)

    # Events of the system.

    def _watch_signals(self) -> None:
        self._loop.add_signal_handler(signal.SIGCHLD, self.reap)
        self._loop.add_signal_handler(signal.SIGCONT, self._on_continue)
        for signum in END_SIGNALS:
            if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup and background jobs of a shell
                self._loop.add_signal_handler(signum, self._on_signal, signum)

    def _on_signal(self, signum: int) -> None:
        self._hurry(EXIT_SIGNAL + signum)
        if not self._exit_code.done():
            self._inform(self._job.signalled, signum)
            if self._remote is not None:
                self.start_ended()

    def _on_stop(self) -> None:
        if self._remote is not None:
            self._remote.pause()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the job because a callback or a task has raised: without it ranks would wait forever."""
        loop.default_exception_handler(context)
        self.fail(f"internal error of the launcher: {context.get('exception') or context['message']!r}")

    def _on_timeout(self, seconds: float) -> None:
        if self._exit_code.done():
            self._hurry(EXIT_TIMEOUT)
        self._inform(self._job.timed_out, seconds)

    def _hurry(self, code: int) -> None:
        self._hurried = code
        self._impatience.set()

    def _on_continue(self) -> None:
        if self._input is not None:
            self._input.resume()

    def reap(self) -> None:
        """Report ranks whose processes have ended."""
        ended = []
        for rank in self._running:
            status = self._processes[rank].process.poll()
            if status is not None:
                ended.append((status, rank))
        # Killed ranks (negative) first: they did not end as a consequence of another rank's exit.
        for status, rank in sorted(ended):
            self._running.discard(rank)
            self.chat(f"rank {rank} has ended with status {status}")
            self._inform(self._job.exited, rank, status, self.outputs.last_line(rank) if status else "")

    def _on_broken_output(self, reason: str) -> None:
        self._output_code = EXIT_FAILURE if reason else EXIT_BROKEN_PIPE
        if reason:
            self.outputs.say(f"standard output: {reason}")  # here: the job may have ended already
        self._inform(self._job.failed, reason or "the reader of the job's output has gone", self._output_code)

    # Actions of the job.

    def _inform(self, event: Callable[..., None], *args: Any) -> None:
        event(*args)
        for action in self._job.actions():
            self._act(action)

    def _act(self, action: states.Action) -> None:
        match action:
            case states.Send(rank, message) if rank in self._links:
                if message is not self._sent[0]:
                    self._sent = message, control.encode(message)
                self._links[rank].send(self._sent[1])
            case states.Hangup(rank) if rank in self._links:
                self._links.pop(rank).close()
            case states.Signal(signum, number):
                self._signal(signum, self._processes if number is None else [number])
            case states.StartTimer(key, seconds):
                self._loop.call_later(seconds, self._inform, self._job.expired, key)
            case states.Publish(cards):
                self._go(self._exchange(cards))
            case states.Fence():
                self._go(self._fence())
            case states.Report(rank, text) if not self._output_code:  # otherwise the cause is known
                self._report(rank, text)
            case states.Loss(rank, text):
                self.outputs.report(rank, f"{text}; the job goes on without it")
                self._tell_spawner(text, rank)
            case states.Note(text, rank):
                self.outputs.report(rank, text)
            case states.End(code):
                self._end(code)

    def _report(self, rank: int | None, text: str) -> None:
        """Say why the job fails."""
        if self._reports:
            self.outputs.report(rank, text)
        self._tell_spawner(text)

    def _tell_spawner(self, cause: str, rank: int | None = None) -> None:
        """Tell the process that has spawned this job why a rank has failed, or the job with all of them."""
        if self._lifeline is not None:
            obituary = control.Obituary(self._job.id, rank is None, rank or 0, cause[: control.MAX_OBITUARY])
            with contextlib.suppress(OSError):  # it is gone, or stopped
                self._lifeline.send(control.encode(obituary))

    def _end(self, code: int) -> None:
        self._exit_code.set_result(code)
        if code:
            self._tell_spawner(f"the launcher of the job exited with status {code}")
        if self._lifeline is not None:
            self._loop.remove_reader(self._lifeline)
            self._lifeline.detach()  # the end of this process closes it

    def _signal(self, signum: int, ranks: Iterable[int]) -> None:
        for rank in ranks:
            self._processes[rank].process.signal(signum)

    def _go(self, errand: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        task.add_done_callback(rethrow)

    async def _exchange(self, cards: list[control.BusinessCard]) -> None:
        try:
            everybody = await self._rendezvous.exchange(cards)
        except RendezvousError as error:
            self.fail(str(error))
        else:
            self._inform(self._job.introduce, everybody)

    async def _fence(self) -> None:
        try:
            await self._rendezvous.fence()
        except RendezvousError as error:
            self.fail(str(error))
        else:
            self._inform(self._job.fenced)
