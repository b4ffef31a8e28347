"""Connections of the ranks of a job, for its supervisor."""

from __future__ import annotations

from aiompi.wire import control
from aiompi_launcher.job.actions import Closed
from aiompi_launcher.job.admission import NOT_OPEN, Refused, admit
from aiompi_launcher.job.perform import Performer
from aiompi_launcher.job.processes import RankProcesses
from aiompi_launcher.job.table import Job
from aiompi_launcher.net.control import Connection, MessageObserver
from aiompi_launcher.net.listen import StrangerReports
from aiompi_launcher.output.outputs import Outputs
from aiompi_launcher.spec import EXIT_FAILURE


class RankConnections(MessageObserver):
    """Passes messages of ranks to the table of their job (protocol `aiompi_launcher.net.control.ConnectionObserver`).

    Args:
        job: the table.
        performer: performs the actions of the table; it has the connections.
        outputs: messages for the user.
        processes: the started processes, if the launcher starts the ranks.
    """

    def __init__(self, job: Job, performer: Performer, outputs: Outputs, processes: RankProcesses) -> None:
        self._job = job
        self._inform, self._links = performer.inform, performer.links
        self._outputs = outputs
        self._processes = processes
        self._strangers = StrangerReports(outputs.say)
        self._short = False  # True once the lack of descriptors has been reported

    def on_join(self, link: Connection, wanted: int, join: control.Join | control.Enter) -> None:
        try:
            if isinstance(join, control.Enter):
                raise Refused(NOT_OPEN)
            rank = admit(self._job, wanted, join.pid)
        except Refused as refusal:
            link.send(control.encode(control.Abort(EXIT_FAILURE, str(refusal))))
            link.close()
            self._outputs.chat(f"a connection was refused: {refusal}")
            return
        link.rank = rank
        self._links[rank] = link
        self._outputs.chat(f"rank {rank} has joined, process {join.pid}")
        self._inform(self._job.received, rank, join)

    def on_message(self, link: Connection, message: control.Message) -> None:
        if self._links.get(link.rank) is link:
            self._inform(self._job.received, link.rank, message)

    def on_closed(self, link: Connection, error: str) -> None:
        if self._links.get(link.rank) is link:
            del self._links[link.rank]
            self._inform(self._job.received, link.rank, Closed(error))

    def on_stranger(self, address: str, error: str) -> None:
        # On a socket that only this user can reach, such a connection is a rank that died early; another event reports
        # the death.
        text = f"dropped a connection from {address}: {error}"
        if self._processes:
            self._outputs.chat(text)
        else:
            self._strangers.report(text)

    def on_shortage(self) -> None:
        text = "no descriptors are left for the connections of ranks: raise their limit (ulimit -n)"
        if self._processes:  # all of them wait for each other in init
            self._inform(self._job.failed, text)
        elif not self._short:
            self._short = True
            self._outputs.say(text)

    def lose(self, rank: int) -> None:
        """The host of a rank is lost: treat the connection of the rank as closed, if there is one."""
        if (link := self._links.get(rank)) is not None:
            self.on_closed(link, "")

    def close(self) -> None:
        """Close all connections once everything is sent."""
        self._strangers.close()
        for link in self._links.values():
            link.close()
