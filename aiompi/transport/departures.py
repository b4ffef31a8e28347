"""`Departures`: judges how a peer has ended, by its links and by the reports of the agent.

The agent reports each process of the job that leaves or fails. Of a process of another job only its links tell: it has
left if it finalized before its link ended, and has failed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from aiompi.engine import Endpoint, Engine, Timer
from aiompi.transport.template import Transport
from aiompi.wire import control

#: seconds between checks whether a rank that left has sent data in a connection that is not accepted yet
_RECHECK: Final = 0.02
#: most seconds between the report that a rank has failed and the end of what it has sent before
_LINGER: Final = 0.25
#: seconds between the end of a link and the question to the agent why it ended, which is seldom necessary
_SUSPECT: Final = 0.25


class Departures:
    """The ends of the peers of one rank.

    Args:
        engine: of the rank.
        transports: its transports.
        ask: sends a question to the agent; None if no agent knows all ranks of the world.
        ending: returns True if all ranks have finalized, so that links end for a good reason.
    """

    def __init__(
        self,
        engine: Engine,
        transports: Sequence[Transport],
        ask: Callable[[control.Message], object] | None,
        ending: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._transports = transports
        self._ask = ask
        self._ending = ending
        self._left: set[int] = set()
        self._failed: dict[int, str] = {}  # by number of the process, why it has failed
        self._leaving: list[Endpoint] = []  # forgotten processes to which data is still to be sent
        self.verdicts: dict[int, Timer] = {}  # judge peers whose links are lost, unless the agent says why before
        engine.peer_lost = self._lost
        engine.processes.on_forgotten = self._forgotten

    def report(self, message: control.Left | control.Failed) -> None:
        """Take a report of the agent."""
        rank = self._engine.processes.of_job(message.process)
        if rank is None or self._engine.processes.gone(rank):
            return  # no communicator refers to it
        peer = self._engine.peer(rank)
        if isinstance(message, control.Left):
            self._left.add(rank)
            self._conclude(peer)
        else:
            self._failed[rank] = message.cause
            self._bury(peer, message.cause, self._engine.driver.now() + _LINGER)

    def gone(self, rank: int) -> None:
        """Note that a rank has failed or left by the agreement of other ranks, which need not wait any longer."""
        if rank in self._failed:
            self._bury(self._engine.peer(rank), self._failed[rank], 0.0)
        elif rank in self._left:
            self._engine.peer(rank).mark_closed()

    def _lost(self, peer: Endpoint, cause: str) -> None:
        """Handle a broken link. If the peer has ended, the agent reports the reason; if not, the agent decides."""
        if self._engine.known_peer(peer.rank) is not peer:
            return  # it was forgotten
        stranger = self._engine.processes.is_stranger(peer.rank)
        if peer.rank in self._left or (stranger and peer.finalize_error is not None):
            self._conclude(peer)
        elif stranger:
            peer.mark_failed(cause)
        elif peer.rank in self._failed:
            self._bury(peer, self._failed[peer.rank], self._engine.driver.now() + _LINGER)
        elif not self._ending() and peer.rank not in self.verdicts:
            delay = _SUSPECT if self._ask is not None else self._engine.settings.connect_timeout
            self.verdicts[peer.rank] = self._engine.driver.call_later(delay, lambda: self._suspect(peer, cause))

    def _suspect(self, peer: Endpoint, cause: str) -> None:
        """Let the agent judge a peer to which a link has broken; no agent knows the ranks of other IMPI clients."""
        if self._engine.known_peer(peer.rank) is not peer:
            return  # it was forgotten
        if self._ask is None:
            peer.mark_failed(cause)
        elif peer.error is None and peer.rank not in self._left and peer.rank not in self._failed:
            self._ask(control.Suspect(self._engine.processes.name(peer.rank).process, cause))

    def _conclude(self, peer: Endpoint) -> None:
        """Handle a rank that has left: give it up after all that it sent has arrived."""
        if any(transport.linked(peer) for transport in self._transports):
            return  # the end of its last link does this
        if any(transport.pending() for transport in self._transports):
            self._engine.driver.call_later(_RECHECK, lambda: self._conclude(peer))
        else:
            peer.mark_closed()

    def _bury(self, peer: Endpoint, cause: str, deadline: float) -> None:
        """Handle a rank that has failed: give it up after all that it sent has arrived, or at the deadline."""
        driver = self._engine.driver
        coming = any(transport.linked(peer) or transport.pending() for transport in self._transports)
        if coming and peer.error is None and driver.now() < deadline:
            driver.call_later(_RECHECK, lambda: self._bury(peer, cause, deadline))
            return
        peer.mark_failed(cause)
        for transport in self._transports:
            transport.abandon(peer, cause)

    # Processes that no communicator refers to any more.

    def _forgotten(self, peer: Endpoint) -> None:
        """Close the links of a process that the rank has forgotten, once all that was sent has left."""
        self._left.discard(peer.rank)
        self._failed.pop(peer.rank, None)
        peer.fini()
        self._leaving.append(peer)
        self.drained()

    def drained(self) -> None:
        """Close links of forgotten processes whose data has left by now."""
        if self._leaving:
            self._leaving = [peer for peer in self._leaving if not all(t.dismiss(peer) for t in self._transports)]

    def close(self) -> None:
        """Cancel all timers, which keep references to everything of the rank."""
        for timer in self.verdicts.values():
            timer.cancel()
        self.verdicts.clear()
