"""Runs one job: processes, connections, signals and timers around the state table of `aiompi_launcher.job.table`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, Protocol

from aiompi_launcher.job.actions import Blame, Exit, Fence, Loss, Note, Publish, Signal
from aiompi_launcher.job.clients import Clients
from aiompi_launcher.job.connections import RankConnections
from aiompi_launcher.job.heartbeat import Heartbeat
from aiompi_launcher.job.perform import Performer
from aiompi_launcher.job.processes import RankProcesses
from aiompi_launcher.job.rendezvous import Rendezvous, RendezvousError
from aiompi_launcher.job.spawner import Spawner
from aiompi_launcher.job.states import Location
from aiompi_launcher.job.table import Job
from aiompi_launcher.output.outputs import Outputs
from aiompi_launcher.output.overlay import Progress
from aiompi_launcher.output.streams import TerminalInput
from aiompi_launcher.spec import EXIT_FAILURE, EXIT_SIGNAL, EXIT_TIMEOUT
from aiompi_launcher.start.ranks import RankProcess, StartError

EXIT_BROKEN_PIPE: Final = EXIT_SIGNAL + signal.SIGPIPE
_HASTE: Final = 1.0  # seconds for the last output if the user ends the job
END_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: are for the ranks, and mean nothing to the launcher
USER_SIGNALS: Final = (signal.SIGUSR1, signal.SIGUSR2)


class OtherHosts(Protocol):
    """The hosts of a job on several hosts."""

    async def end(self) -> None:
        """End all processes on all hosts."""

    def pause(self) -> None:
        """Tell agents that this process is about to be stopped."""


class Supervisor:
    """Runs a job to its end.

    Args:
        job: its state table.
        name: name of the launcher, with which each of its messages begins.
        tag_output: True to prefix each line of output with its rank.
        timeout: seconds that the job may take, None for no limit.
        verbose: True to report progress.
        expel_stopped: True if the heartbeat of the job covers stopped processes.

    Attributes:
        outputs: output of the ranks, and messages for the user.
        connections: connections of the ranks.
        send: performs the action of sending a message to a rank.
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
        self._loop = asyncio.get_running_loop()
        self._performer = Performer(job, self._handlers())
        self._inform, links = self._performer.inform, self._performer.links
        self.send = self._performer.send
        self._clients = Clients(job, self._inform, self.fail)
        self._processes = RankProcesses()
        self._remote: OtherHosts | None = None
        self._input: TerminalInput | None = None
        self._spawner: Spawner | None = None
        self._exit_code: asyncio.Future[int] = self._loop.create_future()
        self._impatience = asyncio.Event()
        self._hurried = 0  # exit code if the user does not wait for other clients
        self._user_signals: set[int] = set()  # to be passed on
        self._output_code = 0  # exit code if the output could not be written
        self.outputs = Outputs(name, tag=tag_output, verbose=verbose, on_broken=self._on_broken_output)
        self.connections = RankConnections(job, self._performer, self.outputs, self._processes)
        self._loop.set_exception_handler(self._on_exception)
        self._watch_signals()
        self._heartbeat: Heartbeat | None = None
        if job.heartbeat:
            self._heartbeat = Heartbeat(job.heartbeat, job.watched, links, self.on_stuck, expel_stopped)
        if timeout is not None:
            self._loop.call_later(timeout, self._on_timeout, timeout)

    def answer_to(self, lifeline: socket.socket, *, only: bool) -> None:
        """Tell the process that has spawned this job why the job fails, and end the job when that process ends.

        Args:
            only: True to tell only this process.
        """
        self._spawner = Spawner(lifeline, self._spawner_gone, only=only)

    def _spawner_gone(self) -> None:
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
        going_on = await self._clients.meet(rendezvous, self._exit_code)
        if going_on:
            self.outputs.chat(f"all IMPI clients are here: {self._job.world.size} ranks")
        return going_on

    def limit_start(self, seconds: float | None) -> None:
        """Set a time limit for the start: end the job if a rank has not joined by then; None for no limit."""
        if seconds is not None:
            self._loop.call_later(seconds, self._inform, self._job.start_timed_out, seconds)

    async def start(self, ranks: Generator[RankProcess]) -> None:
        """Start the ranks, and serve connections in between. Once the job is ending, no further rank is started.

        Args:
            ranks: starts the next rank at each step; closed at the end.
        """
        progress = Progress(self.outputs, "ranks", len(self._job.ranks))
        with contextlib.closing(progress), contextlib.closing(ranks):
            try:
                rank = self._job.world.first
                while not self._job.ending and (process := next(ranks, None)):
                    self._adopt(rank, process)
                    progress.step()
                    rank += 1
                    await asyncio.sleep(0)
            except StartError as error:
                self.fail(str(error), error.code)
        self._processes.watch()
        self.reap()
        self.start_ended()

    def _adopt(self, rank: int, process: RankProcess) -> None:
        self.outputs.add(rank, process)
        self._supervise(rank, process)
        self._inform(self._job.started, rank, process.process.pid)

    def _supervise(self, rank: int, process: RankProcess) -> None:
        self._processes.add(rank, process)
        if process.terminal_input >= 0:
            self._input = TerminalInput(0, process.terminal_input)
        self.outputs.chat(f"rank {rank} runs as process {process.process.pid}")

    # Start on other hosts.

    def start_on(self, hosts: OtherHosts) -> None:
        """Supervise ranks on other hosts, which `adopt` reports."""
        self._remote = hosts
        self._loop.add_signal_handler(signal.SIGTSTP, self._on_stop)

    def adopt(self, rank: int, process: RankProcess, location: Location) -> None:
        """A rank runs on another host."""
        self._supervise(rank, process)
        self._processes.watch(rank)
        self._inform(self._job.started, rank, process.process.pid, location)

    def host_lost(self, ranks: Iterable[int], cause: str) -> None:
        """A host cannot be reached any more: treat its ranks as killed."""
        for number in ranks:
            rank = self._job.ranks[number]
            if rank.status is None:
                rank.error = f"is lost with its host: {cause}"
            self.connections.lose(number)
            if self._processes.lose(number):
                self._inform(self._job.exited, number, -signal.SIGKILL)

    def start_ended(self) -> None:
        """All ranks run, or no further one will be started."""
        self._inform(self._job.start_ended)

    # End.

    async def finish(self) -> int:
        """Wait for the end of the job and clean up; return the exit code for the launcher."""
        code = await self._exit_code
        self.connections.close()
        if self._heartbeat is not None:
            self._heartbeat.close()
        if self._input is not None:
            self._input.close()
        if self._remote is not None:
            await self._remote.end()
        await self._processes.end_groups()
        self.outputs.close()
        code = await self._leave_clients(code)
        await self._drain()
        return code or self._output_code

    async def _leave_clients(self, code: int) -> int:
        """Close the connection to the IMPI server, with FINI if `code` is 0; return the exit code for the launcher."""
        try:
            left = await self._clients.leave(well=code == 0, hurry=self._impatience)
        except RendezvousError as error:
            self.outputs.say(str(error))
            return EXIT_FAILURE
        return code if left else self._hurried

    async def _drain(self) -> None:
        impatient = self._impatience.is_set()
        drained = asyncio.ensure_future(self.outputs.drain())
        stopped = asyncio.ensure_future(asyncio.sleep(_HASTE) if impatient else self._impatience.wait())
        _, late = await asyncio.wait({drained, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in late:
            task.cancel()
        self.outputs.stop()

    # Messages for the user.

    def say(self, text: str) -> None:
        """Print a message for the user."""
        self.outputs.say(text)

    def fail(self, reason: str, code: int = EXIT_FAILURE) -> None:
        """End the job for a reason other than a failed rank."""
        self._inform(self._job.failed, reason, code)

    def on_stuck(self, rank: int, cause: str) -> None:
        """For a heartbeat interval of the job, the process of a rank has not run, or its machine has not answered."""
        self._inform(self._job.stuck, rank, cause)

    # Events of the system.

    def _watch_signals(self) -> None:
        self._loop.add_signal_handler(signal.SIGCHLD, self.reap)
        self._loop.add_signal_handler(signal.SIGCONT, self._on_continue)
        for signum in END_SIGNALS:
            if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup and background jobs of a shell
                self._loop.add_signal_handler(signum, self._on_signal, signum)
        for signum in USER_SIGNALS:
            self._loop.add_signal_handler(signum, self._on_user_signal, signum)

    def _on_user_signal(self, signum: int) -> None:
        if not self._user_signals:
            self._loop.call_soon(self._pass_on)
        self._user_signals.add(signum)

    def _pass_on(self) -> None:
        """Send all pending signals to the ranks, lowest first like the kernel; the loop reports them in any order."""
        for signum in sorted(self._user_signals):
            self._processes.signal(signum, None)
        self._user_signals.clear()

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
        """End the job because a callback or a task has raised: otherwise ranks would wait forever."""
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
        for rank, status in self._processes.reap():
            self.outputs.chat(f"rank {rank} has ended with status {status}")
            self._inform(self._job.exited, rank, status, self.outputs.last_line(rank) if status else "")

    def _on_broken_output(self, reason: str) -> None:
        self._output_code = EXIT_FAILURE if reason else EXIT_BROKEN_PIPE
        if reason:
            self.outputs.say(f"standard output: {reason}")  # printed here, because the job may have ended already
        self._inform(self._job.failed, reason or "the reader of the job's output has gone", self._output_code)

    # Actions of the job.

    def _handlers(self) -> dict[type[Any], Callable[[Any], object]]:
        return {
            Signal: lambda action: self._processes.signal(action.signum, action.rank),
            Publish: lambda action: self._clients.exchange(action.cards),
            Fence: lambda _: self._clients.fence(),
            Blame: self._blame,
            Loss: self._report_loss,
            Note: lambda note: self.outputs.report(note.rank, note.text),
            Exit: self._exit,
        }

    def _blame(self, action: Blame) -> None:
        """Print why the job fails, unless the user has been told."""
        if not self._output_code:
            if self._spawner is None or not self._spawner.only:
                self.outputs.report(action.rank, action.text)
            self._tell_spawner(action.text)

    def _report_loss(self, action: Loss) -> None:
        self.outputs.report(action.rank, f"{action.text}; the job goes on without it")
        self._tell_spawner(action.text, action.rank)

    def _exit(self, action: Exit) -> None:
        self._exit_code.set_result(action.code)
        if action.code:
            self._tell_spawner(f"the launcher of the job exited with status {action.code}")
        if self._spawner is not None:
            self._spawner.detach()

    def _tell_spawner(self, cause: str, rank: int | None = None) -> None:
        if self._spawner is not None:
            self._spawner.tell(self._job.id, cause, rank)
