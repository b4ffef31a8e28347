"""What a rank does when a peer finalizes, dies or cannot be reached, and when the job is aborted.

The end of a rank is noticed by a transport, whose connection breaks, or by the launcher. The runtime judges which of
the two ends it is, and calls `Endpoint.mark_finalized`, `mark_closed` or `mark_failed`. The endpoint then calls the
`FailureHandler` of the engine, which fails every operation that needs that rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from aiompi.constants import ANY_SOURCE
from aiompi.engine.send import Send

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.engine import Engine
    from aiompi.engine.matching import Matcher
    from aiompi.engine.message import Landing
    from aiompi.engine.seams import Failable


class FailureHandler:
    """Fails the operations of one rank that cannot complete any more.

    Args:
        engine: the engine of the rank.
    """

    __slots__ = ("_dead", "_engine")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._dead: list[Endpoint] = []  # peers that died without having finalized

    def error_of(self, rank: int, matcher: Matcher | None = None) -> Exception | None:
        """Return the error of an operation that would now wait for a rank of the world; None if it can complete.

        Args:
            rank: a rank of the world, or ANY_SOURCE.
            matcher: the queues in which the operation would wait.
        """
        engine = self._engine
        if engine.error is not None:
            return engine.error
        if rank == ANY_SOURCE:
            return None if matcher is None else self._error_of_any_source(matcher)
        peer = engine.known_peer(rank)
        return None if peer is None else peer.error or peer.finalize_error

    def _error_of_any_source(self, matcher: Matcher) -> Exception | None:
        """A receive from any source might wait forever if the message that it wants is one of a dead peer."""
        dead = (peer for peer in self._dead if peer.finalize_error is None and peer.rank in matcher.sources)
        return next((peer.error for peer in dead), None)

    def all_gone(self) -> bool:
        """Return True if all other ranks have finalized or died, and nothing that they had begun is still to come."""
        engine = self._engine
        begun: list[Landing | Send] = [*engine.arriving.values(), *engine.sends.values()]
        if any(operation.peer.rank != engine.rank for operation in begun):
            return False
        others = [engine.known_peer(rank) for rank in range(engine.size) if rank != engine.rank]
        return all(peer is not None and peer.is_silent for peer in others)

    def peer_finalized(self, peer: Endpoint, error: Exception) -> None:
        """Fail what waits for a peer that starts no operation any more."""
        self._degrade()
        self._fail_all_with(peer, [send for send in self._sends_to(peer) if not send.recalling], error)

    def peer_failed(self, peer: Endpoint, error: Exception) -> None:
        """Fail what waits for a peer that will not answer any more."""
        self._degrade()
        if peer.finalize_error is None:
            self._dead.append(peer)
        held = [send for send in self._engine.held_sends if send.peer is peer]
        unfinished = [*held, *peer.drop_unfinished()]
        for matcher in self._engine.contexts.values():
            for message in matcher.unexpected():
                if message.peer is peer and message.data is None:
                    matcher.remove_unexpected(message)
        self._fail_all_with(peer, [*unfinished, *self._sends_to(peer)], error)

    def _degrade(self) -> None:
        self._engine.degraded = True
        if not self._engine.closing:
            self._engine.driver.set_deadlock_check(self.all_gone)

    def _sends_to(self, peer: Endpoint) -> list[Send]:
        return [request for request in self._engine.sends.values() if request.peer is peer]

    def _fail_all_with(self, peer: Endpoint, operations: list[Failable], error: Exception) -> None:
        """Fail some operations with a peer, and all receives, probes and slot exchanges that wait for it.

        Receives and probes of any source fail as well unless the peer has finalized: they may want its message.
        """
        engine = self._engine
        died = peer.error is not None and peer.finalize_error is None
        engine.slot_exchanges.poll()
        for exchange in engine.slot_exchanges:
            if peer.rank in exchange.absent():
                engine.slot_exchanges.remove(exchange)
                operations = [*operations, exchange]
        for matcher in engine.contexts.values():
            operations = [*operations, *matcher.withdraw_all(peer.rank, any_source=died)]
        for request in operations:
            if isinstance(request, Send):
                engine.sends.pop(request.srqid, None)
        _fail(operations, error)

    def abort(self, error: Exception) -> None:
        """End all communication: every request fails with the error, now and later."""
        engine = self._engine
        if engine.error is not None:
            return
        engine.error = error
        engine.degraded = True
        operations: list[Failable] = [*engine.held_sends, *engine.sends.values(), *engine.slot_exchanges]
        engine.slot_exchanges.clear()
        for peer in engine.peers():
            operations += peer.drop_unfinished()
        for matcher in engine.contexts.values():
            operations += matcher.withdraw_all()
        engine.sends.clear()
        engine.arriving.clear()
        _fail(operations, error)

    def abort_fork(self, error: Exception) -> None:
        """Abort in the copy of a fork, and leave alone what the parent is copying meanwhile."""
        for peer in self._engine.peers():
            for landing in peer.landings:
                landing.offer = None
        self.abort(error)


def _fail(operations: Iterable[Failable], error: Exception) -> None:
    """Fail operations that no table refers to any more, since a schedule that waits for one may start new ones."""
    for operation in operations:
        operation.fail(error)
