"""`Runtime`: one rank from start to end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from aiompi import settings as settings_module
from aiompi.coll import select
from aiompi.comm import Communicator
from aiompi.comm.session import Sessions
from aiompi.driver.spin import cores
from aiompi.engine import Driver, Request, Schedule
from aiompi.errors import JobAbortedError, LocalProtocolError, ProcessFailedError, RevokedError, failure
from aiompi.job import finalize, fork, start
from aiompi.job.agent import AgentConnection, Contact
from aiompi.job.published_names import PublishedNames
from aiompi.job.wiring import Wiring
from aiompi.objects import Codec
from aiompi.settings import Settings
from aiompi.wire import control
from aiompi.wire.wait_report import WaitReport

if TYPE_CHECKING:
    from aiompi.hang_report import HangReporter
    from aiompi.job.looking import Looking
    from aiompi.trace.recording import Recording


class Runtime:
    """A rank of a job; without a contact, the only rank of a job of its own.

    Args:
        driver: driver in which this rank waits.
        contact: job to join.
        settings: settings, by default those of the environment.

    Attributes:
        engine: engine of this rank.
        wiring: the connections of this rank, which are the environment of its engine.
        names: the names of ports that this rank has published.
        agent: the connection to the agent; None for a rank that is in no job.
        welcome, cards: requests for the agent's two answers when this rank joins the job: the Welcome message, and all
            business cards.
        world, self_comm: communicators COMM_WORLD and COMM_SELF, valid after the start.
        sessions: sessions of this rank, beside COMM_WORLD.
        codec: serialises objects.
        on_end: called with an exit status if the job ends early and this rank has not caused it.
        parent: communicator with the processes that have spawned this one, None if there are none.
        parting: in a rank that exists only for the ranks it has spawned, a function that returns a request for the
            shutdown of this rank; None in other ranks.
        on_finalize: called first when communication ends, while all calls are still possible.
        joined: True if the job has accepted this process as a rank. From then on its agent knows why the job ends.
        finalized: True if communication has ended.
        universe_size: number of cores of the machine, if all ranks are on it; otherwise 0.
        inherited: in a forked process, references to the parent's connections, so that garbage collection does not
            close them.
        end_error: error that operations raise after communication has ended; None for the default of `finalized_error`.
    """

    inherited: tuple[object, ...]

    def __init__(self, driver: Driver, contact: Contact | None = None, settings: Settings | None = None) -> None:
        self.settings = settings_module.load() if settings is None else settings
        select.check(self.settings.coll)
        select.tuning()  # read now: a program may lose access to the files of this package, for example by chroot
        self.wiring = Wiring(self.settings, driver, self._on_fatal)
        self.engine = self.wiring.engine
        self.codec = Codec(pickle=self.settings.pickle)
        self.joined = self.finalized = False
        self.universe_size = cores()
        self.end_error: Exception | None = None
        self.on_end: Callable[[int], object] = lambda code: None
        self.on_finalize: Callable[[], object] = lambda: None
        self.world: Communicator
        self.self_comm: Communicator
        self.sessions = Sessions(self, self.engine)
        self.names = PublishedNames(self.engine)
        self.contact = contact
        self.parent: Communicator | None = None
        self.parting: Callable[[], Request[None]] | None = None
        self.agent: AgentConnection | None = None
        self.welcome: Request[control.Welcome] = Request(self.engine)
        self.cards: Request[list[control.BusinessCard]] = Request(self.engine)
        self._started: Schedule[None] | None = None
        self._hang_reporter: HangReporter | None = None
        self._recording: Recording | None = None
        self._looking: Looking | None = None

    def start(self) -> Schedule[None]:
        """Join the job (MPI_Init, section 7.5). The result is complete when every rank has joined.

        A rank is started once: later calls return the first request.

        Raises:
            JobAbortedError: the job cannot be joined, or has ended meanwhile.
        """
        if self._started is None:
            self._started = self.engine.spawn(start.start(self))
        return self._started

    # Reports of the agent and the transports.

    def on_message(self, message: control.Message) -> None:
        """Take a message of the agent."""
        match message:
            case control.Welcome():
                self.welcome.complete(message)
            case control.Cards():
                self.cards.complete(message.cards)
            case control.Finalized():
                self.wiring.all_finalized.complete()
            case control.Left() | control.Failed() | control.Obituary():
                assert self.wiring.detector is not None
                self.wiring.detector.report(message)
            case control.Revoke():
                rank = self.engine.processes.of_job(message.process)
                if rank is not None:  # otherwise it has nothing to do with this rank
                    self.engine.failure.revoked(message.context, rank)
            case control.Agreed() if self.wiring.agent_recovery is not None:
                self.wiring.agent_recovery.agreed(message)
            case control.ReportRequest():
                self._tell(message.number, self._hang_reporter.report() if self._hang_reporter else WaitReport())
            case control.LookRequest():
                self._look(message.number)
            case control.Abort():
                self._end(message.code, message.reason)
            case _:
                self._end(1, f"the agent sent {type(message).__name__}, which is not for ranks")

    def watch_calls(self) -> None:
        """Report calls that wait for long to the agent."""
        from aiompi.hang_report import HangReporter  # seldom needed

        self._hang_reporter = HangReporter(self.engine, self.settings.debug, lambda report: self._tell(0, report))

    def record_calls(self) -> None:
        """Record what this rank does, if the settings say so."""
        directory = self.settings.trace
        if directory:
            from aiompi.trace.recording import Recording  # seldom needed

            # The ranks of a job that this rank has spawned, or that replaces the job of this rank, have the same
            # numbers.
            taken = os.path.exists(os.path.join(directory, f"rank-{self.engine.rank}.trace"))
            self._recording = Recording(self.engine, os.path.join(directory, str(os.getpid())) if taken else directory)

    def _look(self, number: int) -> None:
        """Answer a question of the agent: what this rank does now. If `number` is 0, no more questions follow."""
        if self._looking is None and number:
            from aiompi.job.looking import Looking  # seldom needed

            self._looking = Looking(self.engine, self.welcome.result().directory)
        if self._looking is None:
            return
        if not number:
            self._looking.stop()
            self._looking = None
        elif self.agent is not None and self.engine.error is None:
            self.agent.send(control.Looked(number, [*self._looking.look()]))

    def _tell(self, number: int, report: WaitReport) -> None:
        if self.agent is not None and self.engine.error is None:
            self.agent.send(control.Report(number, report.pack()))

    def on_agent_lost(self, cause: str) -> None:
        """End communication, because the connection to the agent has broken."""
        self._end(1, f"the job ended: {cause}")

    def on_host_lost(self, cause: str) -> None:
        """End the job, because the connection to the IMPI host has broken."""
        if not self.wiring.all_finalized.done():
            self.abort(1, cause)
            self.on_end(1)

    def _end(self, code: int, reason: str) -> None:
        """Handle an end of the job that this rank has not caused."""
        self.give_up(JobAbortedError(reason))
        self.on_end(code)

    def give_up(self, error: Exception) -> None:
        """End communication at once: every operation fails with the error, now and later."""
        self.wiring.give_up(error)
        self.welcome.fail(error)
        self.cards.fail(error)
        self.close()

    def _on_fatal(self, error: BaseException) -> None:
        """Handle the failure of an operation that no call waits for: it can only end the job (section 2.7)."""
        # A peer that fails does not end this rank if the job survives failures, or if the peer may be of another job.
        engine = self.engine
        if (engine.survives or engine.processes.has_met) and isinstance(error, ProcessFailedError | RevokedError):
            return
        what = "a send that was complete already, or an operation whose request was freed, has failed"
        self.abort(1, f"rank {engine.rank}: {what}: {error}")
        self.on_end(1)

    # End.

    def finalize(self, timeout: float | None = None) -> Schedule[bool]:
        """End communication (MPI_Finalize, section 7.5). The result is complete when every rank has finalized.

        Before communication ends, collectives in progress complete, and sent messages reach the receivers that receive
        them.

        Args:
            timeout: seconds after which this rank leaves without the others; None if it waits for them.

        Returns:
            A request whose result is True if all ranks have finalized, False if this rank has left without them.

        Raises:
            aiompi.MPIError: a callback for the attributes of COMM_SELF failed; communication has not ended.
        """
        return finalize.finalize(self, timeout)

    def stop_waiting(self) -> Schedule[None]:
        """Leave without the other ranks while `finalize` waits for them; the agent learns this at once."""
        return self.engine.spawn(finalize.stop_waiting(self))

    def leave(self) -> Schedule[None]:
        """End communication without waiting for the other ranks: deliver sent messages and leave."""
        return finalize.leave(self)

    def leave_now(self) -> None:
        """Tell the agent that this rank ends, because the process ends and its event loop does not run any more."""
        finalize.leave_now(self)

    def finalized_error(self) -> Exception:
        """Return the error of operations after the end of communication."""
        return self.end_error or LocalProtocolError(
            f"rank {self.engine.rank} has finalized: no communication is possible"
        )

    def at_rest(self) -> bool:
        """Return True if no operation is in progress, and no data waits to be sent."""
        return self.engine.at_rest() and self.wiring.idle()

    def fail(self, error: BaseException) -> None:
        """Handle an uncaught exception of the program: end the job, or only this rank if the job survives failures."""
        code, cause = 1, failure(error)
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            code = int(error.code)  # it may be True
            cause = f"exited with status {code}"
        elif isinstance(error, KeyboardInterrupt):
            code, cause = 128 + signal.SIGINT, "was ended by KeyboardInterrupt (SIGINT)"
        reason = f"rank {self.engine.rank} {cause}"
        if self.engine.survives and self.agent is not None and self.engine.error is None:
            self.agent.send(control.Failed(self.engine.processes.own.process, cause))
            self.finalized = True
            self.give_up(JobAbortedError(reason))
        else:
            self.abort(code, reason)

    def abort(self, code: int, reason: str) -> None:
        """End the job (MPI_Abort, section 7.5) through the agent, which ends all other ranks.

        Args:
            code: exit status of the job.
            reason: which rank aborts and why, for the user.
        """
        if self.agent is not None and self.engine.error is None:
            self.agent.abort(code, reason)
        self.finalized = True
        self.give_up(JobAbortedError(reason))

    def disown(self) -> None:
        """Reset the copy of a rank in a forked process: operations fail, and nothing of the parent is touched."""
        settings_module.rc.forgotten_by(self)
        fork.disown(self)

    def exit(self, code: int) -> NoReturn:
        """End this process at once, as MPI_Abort does, but flush its output."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)

    @property
    def label(self) -> str:
        """Name of this process in messages; it has one even before it knows its rank."""
        if self.contact is not None and not self.joined:
            return "a process that was about to become a rank"
        return f"rank {self.engine.rank}"

    @property
    def node(self) -> str:
        """Name of the machine. Processes with equal names can share memory."""
        return socket.gethostname()

    @property
    def launched(self) -> bool:
        """True if a launcher started this process."""
        return self.contact is not None and self.contact.launched

    def close(self) -> None:
        """Close all connections and remove all files."""
        settings_module.rc.forgotten_by(self)
        self.names.close()
        if self._hang_reporter is not None:
            self._hang_reporter.close()
        if self._recording is not None:
            self._recording.stop()
        if self._looking is not None:
            self._looking.stop()
        self.wiring.close()
        if self.agent is not None:
            self.agent.close()
