"""`FailureDetector`: judges how a peer has ended, by its links and by the reports of the agent.

The agent reports each process of the job that leaves or fails. No agent reports the processes of another job. A process
of another job has left if it finalized before its link ended; otherwise it has failed. When such a process fails, it
sends the cause as its last message if it still can. The launcher of a spawned job reports the failures in that job
(`aiompi.engine.obituaries`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from aiompi.engine import Endpoint, Engine, Timer
from aiompi.errors import failure
from aiompi.transport.template import Transport
from aiompi.wire import control

#: seconds between checks for data of a rank that has left, in connections that are not accepted yet
_RECHECK: Final = 0.02
#: most checks for data that a rank sent before it failed. The limit is not a time, because a computing process checks
#: late
_LOOKS: Final = 12
#: most checks for data that a rank sent before it left, which may still be in flight
MANY_LOOKS: Final = 1500
#: seconds after the end of a link before this rank asks the agent why the link ended, which is seldom necessary
_SUSPECT: Final = 0.25
#: most seconds to wait for the launcher of a spawned job to report why a process ended. A busy machine may delay the
#: report by some seconds; it never comes if the launcher has ended too, or the network is cut
_VERDICT: Final = 10.0
#: context of the message by which a process tells processes of other jobs why it ends; no communicator has it
_LAST_WORDS: Final = 2**64 - 16


class FailureDetector:
    """Judges the ends of the peers of one rank.

    Args:
        engine: of the rank.
        transports: transports of the rank.
        tell: sends a message to the agent; None without one.
        ending: returns True if all ranks have finalized, so that the end of a link is no failure.
        knows_all: True if the agent knows all ranks of the world and decides which have failed.
    """

    def __init__(
        self,
        engine: Engine,
        transports: Sequence[Transport],
        tell: Callable[[control.Message], object] | None,
        ending: Callable[[], bool],
        knows_all: bool = False,
    ) -> None:
        self._engine = engine
        self._transports = transports
        self._tell = tell
        self._ask = tell if knows_all else None
        self._ending = ending
        self._left: set[int] = set()
        self._failed: dict[int, str] = {}  # number of a process -> why it has failed
        self._leaving: list[Endpoint] = []  # forgotten processes to which data is still to be sent
        self.verdicts: dict[int, Timer] = {}  # judge peers whose links are lost, unless the agent reports them earlier
        self._unexplained: dict[int, Endpoint] = {}  # processes of spawned jobs that have failed

    def report(self, message: control.Left | control.Failed | control.Obituary) -> None:
        """Take a report of the agent."""
        if isinstance(message, control.Obituary):
            self._engine.processes.obituaries.add(message)
            return
        rank = self._engine.processes.of_job(message.process)
        if rank is None or self._engine.processes.gone(rank):
            return  # no communicator refers to it
        peer = self._engine.peer(rank)
        if isinstance(message, control.Left):
            self._left.add(rank)
            self._conclude(peer)
        else:
            self._failed[rank] = message.cause
            self._bury(peer, message.cause)

    def gone(self, rank: int) -> None:
        """Mark a rank as failed or left, because the other ranks have agreed that it is gone."""
        if rank in self._failed:
            self._bury(self._engine.peer(rank), self._failed[rank], looks=0)
        elif rank in self._left:
            self._engine.peer(rank).mark_closed()

    def lost(self, peer: Endpoint, cause: str) -> None:
        """Handle a broken link.

        If the peer's process has ended, the agent reports the cause. Otherwise this rank asks the agent, which decides
        whether the peer has failed.
        """
        if self._engine.known_peer(peer.rank) is not peer:
            return  # it was forgotten
        stranger = self._engine.processes.is_stranger(peer.rank)
        if peer.rank in self._left or (stranger and peer.finalize_error is not None):
            self._conclude(peer)
        elif peer.rank in self._failed:
            self._bury(peer, self._failed[peer.rank])
        elif stranger:
            self._lose_stranger(peer, cause)
        elif not self._ending() and peer.rank not in self.verdicts:
            delay = _SUSPECT if self._ask is not None else self._engine.settings.connect_timeout
            self.verdicts[peer.rank] = self._engine.driver.call_later(delay, lambda: self._suspect(peer, cause))

    def unfit(self, error: Exception) -> None:
        """Tell the agent why this rank cannot go on. Other ranks see only that their links break."""
        if self._tell is not None and not self._ending():
            self._tell(control.Failed(self._engine.processes.own.process, failure(error)))

    def relay(self, obituary: control.Obituary) -> None:
        """Tell the other ranks of the job why a process of a spawned job has failed."""
        if self._tell is not None:
            self._tell(obituary)

    def _lose_stranger(self, peer: Endpoint, cause: str) -> None:
        """Handle the broken link of a process of another job. The reason may be known already, or be reported soon."""
        processes = self._engine.processes
        name = processes.name(peer.rank)
        known = processes.obituaries.cause(name) or self._last_words(peer)
        if known is not None or name.job not in processes.obituaries.starters:
            self._bury(peer, known or cause)
        elif peer.rank not in self._unexplained:
            self._unexplained[peer.rank] = peer
            self.verdicts[peer.rank] = self._engine.driver.call_later(_VERDICT, lambda: self._explain(peer.rank, cause))

    def say(self, reason: str) -> None:
        """Tell processes of other jobs why this process ends, unless its communication has already ended."""
        words = reason.encode(errors="replace")[: control.MAX_OBITUARY]
        for peer in self._engine.peers() if self._engine.error is None else ():
            met = self._engine.processes.is_stranger(peer.rank) and peer.link is not None
            if met and not self._engine.ends_for(peer.rank):
                with contextlib.suppress(Exception):  # this process ends all the same
                    peer.send((words,), len(words), _LAST_WORDS, 0, 0)

    def _last_words(self, peer: Endpoint) -> str | None:
        """Take the last message of a process of another job."""
        words, matcher = None, self._engine.contexts.get(_LAST_WORDS)
        if matcher is not None:
            for message in [message for message in matcher.unexpected() if message.peer is peer]:
                message.extract()
                if message.data is not None:
                    words = bytes(message.data[: control.MAX_OBITUARY]).decode(errors="replace")
                message.discard()
            if not matcher.arrivals:
                del self._engine.contexts[_LAST_WORDS]
        return words

    def obituaries_changed(self) -> None:
        """Judge lost processes of spawned jobs again, because there is a new obituary."""
        processes = self._engine.processes
        for rank in [*self._unexplained]:
            known = processes.obituaries.cause(processes.name(rank)) if processes.knows(rank) else ""
            if known is not None and rank in self._unexplained:  # the obituary before may have ended communication
                self._explain(rank, known)

    def _explain(self, rank: int, cause: str) -> None:
        self.verdicts.pop(rank).cancel()
        self._bury(self._unexplained.pop(rank), cause)

    def _suspect(self, peer: Endpoint, cause: str) -> None:
        """Let the agent judge a peer whose link has broken. No agent knows the ranks of other IMPI clients."""
        if self._engine.known_peer(peer.rank) is not peer:
            return  # it was forgotten
        if self._ask is None:
            peer.mark_failed(cause)
        elif peer.error is None and peer.rank not in self._left and peer.rank not in self._failed:
            self._ask(control.Suspect(self._engine.processes.name(peer.rank).process, cause))

    def _conclude(self, peer: Endpoint, looks: int = 0) -> None:
        """Handle a rank that has left: close its links when all its data has arrived, or after MANY_LOOKS checks.

        Args:
            looks: number of checks so far. The number of checks is limited, because a connection that is not accepted
                yet may falsely claim to come from the peer.
        """
        if any(transport.linked(peer) for transport in self._transports):
            return  # the end of its last link does this
        if looks < MANY_LOOKS and any(transport.pending(peer) for transport in self._transports):
            self._engine.driver.call_later(_RECHECK, lambda: self._conclude(peer, looks + 1))
        else:
            peer.mark_closed()

    def _bury(self, peer: Endpoint, cause: str, looks: int = _LOOKS) -> None:
        """Handle a rank that has failed: close its links when all its data has arrived, or after `looks` checks for it.

        The last data of a process of another job may say that the process has left.
        """
        if self._engine.known_peer(peer.rank) is not peer:
            return  # it was forgotten
        if peer.rank not in self._failed and peer.finalize_error is not None:
            self._conclude(peer)
            return
        coming = any(transport.linked(peer) or transport.pending(peer) for transport in self._transports)
        if coming and peer.error is None and looks:
            self._engine.driver.call_later(_RECHECK, lambda: self._bury(peer, cause, looks - 1))
            return
        peer.mark_failed(cause)
        for transport in self._transports:
            transport.abandon(peer, cause)

    # Processes that no communicator refers to any more.

    def forgotten(self, peer: Endpoint) -> None:
        """Close the links to a process that no communicator refers to any more, once all data for it has been sent."""
        self._left.discard(peer.rank)
        self._failed.pop(peer.rank, None)
        self._last_words(peer)
        peer.fini()
        self._leaving.append(peer)
        self.drained()

    def drained(self) -> None:
        """Close the links to forgotten processes for which no unsent data is left."""
        if self._leaving:
            self._leaving = [peer for peer in self._leaving if not all(t.dismiss(peer) for t in self._transports)]

    def close(self) -> None:
        """Cancel all timers, because they keep the whole rank alive."""
        for timer in self.verdicts.values():
            timer.cancel()
        self.verdicts.clear()
        self._unexplained.clear()
