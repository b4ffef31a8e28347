"""What a rank does when a peer finalizes, dies or cannot be reached, and when the job is aborted.

A transport notices the end of a rank when a connection breaks, or the launcher reports it. `FailureDetector` (in
`aiompi.job.failure_detector`) judges whether the rank has left or failed, and calls `Endpoint.mark_closed` or
`mark_failed`. The endpoint then calls the `FailureHandler` of the engine, which fails every operation with that rank.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from aiompi.constants import ANY_SOURCE
from aiompi.engine.send import Send
from aiompi.errors import JobAbortedError, OtherError, RevokedError

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.engine import Engine
    from aiompi.engine.matching import Matcher
    from aiompi.engine.message import Landing
    from aiompi.engine.receive import Receive
    from aiompi.engine.seams import Community, Failable

#: most communicators that a peer may have revoked before this rank has made them
_MAX_REVOCATIONS: Final = 4096


class FailureHandler:
    """Fails the operations of one rank that cannot complete any more.

    Args:
        engine: the engine of the rank.
    """

    __slots__ = ("_communities", "_dead", "_engine", "_revocations")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._dead: list[Endpoint] = []  # peers that died without having finalized
        self._communities: dict[int, Community] = {}
        self._revocations: dict[int, set[int]] = {}  # by process, the contexts that it has revoked too early

    @property
    def failed(self) -> list[int]:
        """Processes that died without having finalized, in the order in which their deaths were noticed."""
        return [peer.rank for peer in self._dead]

    def error_of(self, rank: int, matcher: Matcher | None = None) -> Exception | None:
        """Return the error of an operation that begins to wait for a rank of the world now; None if it may wait.

        Args:
            rank: a rank of the world, or ANY_SOURCE.
            matcher: the queues in which the operation would wait.
        """
        error = self._error_of(rank, matcher)
        return None if error is None else another(error)

    def _error_of(self, rank: int, matcher: Matcher | None) -> Exception | None:
        engine = self._engine
        if engine.error is not None:
            return engine.error
        if matcher is not None and matcher.error is not None:
            return matcher.error
        if rank == ANY_SOURCE:
            return None if matcher is None else self._error_of_any_source(matcher)
        peer = engine.known_peer(rank)
        return None if peer is None else peer.error or peer.finalize_error

    def error_among(self, ranks: Iterable[int]) -> Exception | None:
        """Return the error of an operation that begins to wait for these ranks now; None if it may wait."""
        return next(filter(None, map(self.error_of, ranks)), None)

    def _error_of_any_source(self, matcher: Matcher) -> Exception | None:
        """Return the error of a dead peer whose message a receive from any source may await, or None."""
        dead = (peer for peer in self._dead if peer.finalize_error is None and self._may_send(peer, matcher))
        return next((peer.error for peer in dead), None)

    @staticmethod
    def _may_send(peer: Endpoint, matcher: Matcher) -> bool:
        """Return True if a receive from any source could have matched messages of a dead peer."""
        return peer.rank in matcher.sources and peer.rank not in matcher.acknowledged

    def all_gone(self) -> bool:
        """Return True if all other ranks have finalized or died, and none of their messages is still to come."""
        engine, recovery = self._engine, self._engine.environment.recovery
        if engine.outside or engine.processes.expecting or (recovery is not None and recovery.pending):
            return False
        begun: list[Landing | Send] = [*engine.arriving.values(), *engine.sends.values()]
        if any(operation.peer.rank != engine.rank for operation in begun):
            return False
        met = [peer.rank for peer in engine.peers() if peer.rank >= engine.size]
        others = [engine.known_peer(rank) for rank in (*range(engine.size), *met) if rank != engine.rank]
        return all(peer is not None and peer.is_silent for peer in others)

    def peer_finalized(self, peer: Endpoint, error: Exception) -> None:
        """Fail the operations that wait for a finalized peer, because the peer starts no operation any more."""
        self._degrade()
        peer.check_sends()
        self._fail_all_with(peer, [send for send in self._sends_to(peer) if not send.recalling], error)

    def peer_failed(self, peer: Endpoint, error: Exception) -> None:
        """Fail the operations that wait for a peer which will not answer any more."""
        survives = self._survives(peer)  # asked now: the peer is forgotten if the last communicator with it is freed
        self._degrade()
        peer.check_sends()
        if peer.finalize_error is None and self._engine.known_peer(peer.rank) is peer:
            self._dead.append(peer)
        held = [send for send in self._engine.held_sends if send.peer is peer]
        unfinished = [*held, *peer.drop_unfinished()]
        for matcher in self._engine.contexts.values():
            for message in matcher.unexpected():
                if message.peer is peer and message.data is None:
                    matcher.remove(message)
        self._fail_all_with(peer, [*unfinished, *self._sends_to(peer)], error)
        if survives and peer.finalize_error is None:
            for community in list(self._communities.values()):
                if community.has(peer.rank):
                    community.member_failed(error)
        self._engine.processes.gone(peer.rank)

    def watch(self, community: Community) -> None:
        """Report failures of members and a revocation to a new communicator, even if they happened before this call."""
        self._communities[community.context_id] = community
        if self._engine.error is not None:
            community.ended(self._engine.error)
        for peer in self._dead:
            if peer.error is not None and community.has(peer.rank) and self._survives(peer):
                community.member_failed(peer.error)  # the first error is the one that counts
        for rank, contexts in self._revocations.items():
            if community.context_id in contexts:
                contexts.remove(community.context_id)
                self.revoked(community.context_id, rank)

    def _survives(self, peer: Endpoint) -> bool:
        """Return True if the job of this rank goes on without a peer that has failed."""
        return self._engine.survives or self._engine.processes.is_stranger(peer.rank)

    def drop(self, peer: Endpoint) -> None:
        """Forget a process to which no communicator refers."""
        self._revocations.pop(peer.rank, None)
        if peer in self._dead:
            self._dead.remove(peer)

    def forget(self, community: Community) -> None:
        """Undo `watch`: the communicator has been freed."""
        self._communities.pop(community.context_id, None)

    def revoked(self, context: int, rank: int) -> None:
        """Record that another rank has revoked a communicator. This rank may not have made the communicator yet."""
        community = self._communities.get(context)
        if community is not None:
            if community.has(rank):
                label = self._engine.processes.label(rank)
                community.revoked(RevokedError(f"{label} has revoked the communicator"), rank)
        elif self._engine.processes.knows(rank):
            contexts = self._revocations.setdefault(rank, set())
            if len(contexts) < _MAX_REVOCATIONS:
                contexts.add(context)

    def spread_revocation(self, context: int, met: Iterable[int], source: int) -> None:
        """Tell members in other jobs of a revocation, and members in this job if the revocation comes from another job.

        Every member does this, so that all members learn of the revocation even if the member that revoked the
        communicator fails.

        Args:
            met: the members outside the world of this rank.
            source: the process that has told this rank.
        """
        engine = self._engine
        for number in filter(engine.processes.is_stranger, met):
            with contextlib.suppress(OtherError):  # it cannot be reached
                engine.peer(number).spread_revocation(context)
        recovery = engine.environment.recovery
        if recovery is not None and engine.processes.is_stranger(source):
            recovery.revoke(context)

    def end_context(self, context: int, error: Exception) -> None:
        """Fail all operations in a context. Nothing can be received in it any more."""
        engine = self._engine
        self._degrade()
        matcher = engine.matcher(context)
        matcher.error = error
        held = [send for send in engine.held_sends if send.context == context]
        operations: list[Failable] = [*matcher.withdraw_all(), *held]
        for message in matcher.unexpected():
            message.extract()
            message.discard()
        for send in engine.sends.values():
            if send.context == context and not send.done():
                send.detach()  # the receiver may still ask for it
                operations.append(send)
        # Slot exchanges have the id of the communicator, and `context` is that id + 1.
        operations += [exchange for exchange in engine.slot_exchanges if exchange.context == context - 1]
        _fail(operations, error)

    def acknowledge(self, matcher: Matcher, ranks: Iterable[int]) -> None:
        """Let receives from any source go on although these ranks have failed."""
        matcher.acknowledged.update(ranks)
        if self._error_of_any_source(matcher) is None:
            for receive in matcher.posted():
                receive.resume()

    def _degrade(self) -> None:
        self._engine.degraded = True
        if not self._engine.closing:
            self._engine.driver.set_deadlock_check(self.all_gone)

    def _sends_to(self, peer: Endpoint) -> list[Send]:
        return [request for request in self._engine.sends.values() if request.peer is peer]

    def _fail_all_with(self, peer: Endpoint, operations: list[Failable], error: Exception) -> None:
        """Fail `operations`, and all receives, probes and slot exchanges that wait for the peer.

        If the peer has died without finalizing, receives and probes of any source fail as well, because they may wait
        for its message.
        """
        engine = self._engine
        died = peer.error is not None and peer.finalize_error is None
        interrupted: list[Receive] = []
        for exchange in [*engine.slot_exchanges]:
            exchange.poll()
        waiting = [exchange for exchange in engine.slot_exchanges if peer.rank in exchange.absent()]
        operations = [*operations, *waiting]
        for matcher in engine.contexts.values():
            operations = [*operations, *matcher.withdraw_all(peer.rank, any_source=died)]
            if died and engine.survives and self._may_send(peer, matcher):
                interrupted += [receive for receive in matcher.posted() if receive.peer_rank == ANY_SOURCE]
        for request in operations:
            if isinstance(request, Send):
                engine.sends.pop(request.srqid, None)
        _fail(operations, error)
        for receive in interrupted:
            receive.interrupt(error)

    def abort(self, error: Exception) -> None:
        """End all communication: every request fails with the error, now and later."""
        engine = self._engine
        if engine.error is not None:
            return
        engine.error = error
        engine.degraded = True
        operations: list[Failable] = [*engine.held_sends, *engine.sends.values(), *engine.slot_exchanges]
        for peer in engine.peers():
            peer.check_sends()
            operations += peer.drop_unfinished()
        for matcher in engine.contexts.values():
            operations += matcher.withdraw_all()
        engine.sends.clear()
        engine.arriving.clear()
        self.refuse(error)
        _fail(operations, error)

    def refuse(self, error: Exception) -> None:
        """Let all communicators refuse new collectives; collectives in progress go on."""
        for community in self._communities.values():
            community.ended(error)

    def abort_fork(self, error: Exception) -> None:
        """Abort in the child of a fork, without touching memory into which the parent may be copying."""
        for peer in self._engine.peers():
            for landing in peer.landings:
                landing.offer = None
        self.abort(error)


def _fail(operations: Iterable[Failable], error: Exception) -> None:
    """Fail the operations of a list.

    The list must not be a table of the engine: a failure can make a schedule start new operations, which changes
    these tables.
    """
    for operation in operations:
        operation.fail(another(error))


def another(error: Exception) -> Exception:
    """Return a copy of a stored error. A raised error keeps the stack frames that it passes, and so their memory."""
    if isinstance(error, JobAbortedError):
        return error  # the job has ended, so nobody needs the memory
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied
