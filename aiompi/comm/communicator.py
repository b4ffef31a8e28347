"""Communicators: a group and a context of its own (sections 5.2 and 5.4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from aiompi.comm.channel import EXTENSION_TAG, Channel, Route, root_of, run_after
from aiompi.comm.contexts import AGREEMENTS, PARTITIONS, ContextIds
from aiompi.comm.group import Group
from aiompi.comm.point_to_point import PointToPoint
from aiompi.constants import TAG_UB
from aiompi.core import Recorder
from aiompi.core.pure.recorder import COLLECTIVE, FAILED
from aiompi.engine import Engine, Receive, Request, Schedule
from aiompi.engine.failure import another

T = TypeVar("T")


class Communicator(PointToPoint):
    """The communicator behind the public classes. It starts point-to-point operations and collectives until released.

    `CommunicatorState` has its arguments and attributes.
    """

    __slots__ = ()

    def __init__(
        self,
        engine: Engine,
        group: Group,
        context_id: int,
        name: str,
        remote: Group | None = None,
        ids: ContextIds | None = None,
    ) -> None:
        super().__init__(engine, group, context_id, name, remote, ids)
        self.route = Route(self)
        if self.native:
            engine.failure.watch(self)

    # Collectives.

    def channel(self, operation: str, note: int = 0) -> Channel:
        """Return the channel of the next collective.

        Args:
            operation: name of the collective, for error messages.
            note: number that its messages carry beside their content.

        Raises:
            InvalidCommError: the communicator has been freed.
            ProcessFailedError, RevokedError: a member has failed, or the communicator is revoked.
        """
        if self._refusal is not None:
            raise another(self._refusal)
        if not self.native:
            return Channel(self, EXTENSION_TAG, operation, note)
        number = self.collectives
        self.collectives = (number + 1) % TAG_UB
        channel = Channel(self, number, operation, note)
        channel.ordered = self.shares_memory
        return channel

    def bound_channel(self, operation: str, note: int = 0) -> Channel:
        """Return the channel for all runs of a persistent collective; see `channel`."""
        channel = self.channel(operation, note)
        channel.ordered = False
        if self.native:
            return channel
        self.collectives += 1
        return channel.bound(self.collectives - 1)

    def start(self, algorithm: Callable[[Channel], Coroutine[Any, None, T]], operation: str) -> Schedule[T]:
        """Start the next collective of this communicator, on a channel of its own.

        Args:
            algorithm: function that makes the coroutine, which communicates through the channel only.
            operation: name of the collective, for error messages.
        """
        return self.start_on(self.channel(operation), algorithm)

    def start_on(self, channel: Channel, algorithm: Callable[[Channel], Coroutine[Any, None, T]]) -> Schedule[T]:
        """Start a collective on the channel that was just made for it.

        On a communicator that spans clients, a collective begins when the previous one has ended at this rank, because
        the tags of chapter 4 of IMPI 0.0 do not distinguish one call from the next.
        """
        if self.native:
            recorder = self.engine.recorder
            if recorder is not None:
                return self._recorded(
                    recorder, channel, lambda: Schedule(self.engine, algorithm(channel), self, channel.operation)
                )
            return Schedule(self.engine, algorithm(channel), self, channel.operation)
        before = self._latest
        if before is None or before.done():
            schedule = self.run(algorithm(channel), channel.operation)
        else:
            schedule = self.run(run_after(before, Request(self.engine), channel, algorithm), channel.operation)
        self._latest = None if schedule.done() else schedule
        return schedule

    def start_bound(self, channel: Channel, algorithm: Callable[[Channel], Coroutine[Any, None, T]]) -> Schedule[T]:
        """Start another run of a persistent collective on its channel, see `bound_channel`.

        Raises:
            InvalidCommError, JobAbortedError: see `run`.
        """
        recorder = self.engine.recorder
        if recorder is None or not self.native:
            return self.run(algorithm(channel))
        return self._recorded(recorder, channel, lambda: self.run(algorithm(channel)))

    def _recorded(self, recorder: Recorder, channel: Channel, begin: Callable[[], Schedule[T]]) -> Schedule[T]:
        root = root_of(channel.note)
        process = -1 if root is None else self.process_of(root)
        handle = recorder.start(COLLECTIVE, self.context_id, process, channel.tag, 0)
        try:
            schedule = begin()
        except BaseException:
            recorder.end(handle, FAILED)
            raise
        schedule.traced = handle
        if schedule.done():
            recorder.ended(schedule)
        else:
            schedule.when_done(recorder.ended)
        return schedule

    def run(self, coroutine: Coroutine[Any, None, T], call: str = "") -> Schedule[T]:
        """Start a coroutine that communicates through channels of this communicator, and keep the communicator alive.

        Raises:
            InvalidCommError: the communicator has been freed.
            JobAbortedError: the job has ended.
        """
        error = self._refusal if self.freed else self.engine.error
        if error is not None:
            coroutine.close()
            raise another(error)
        return Schedule(self.engine, coroutine, self, call)

    # Failures (aiompi.engine.seams.Community).

    def has(self, rank: int) -> bool:
        return rank in self.group.index or (self.remote is not None and rank in self.remote.index)

    def member_failed(self, error: Exception) -> None:
        if self._refusal is None:
            self.slots, self._refusal = None, error
            self.engine.failure.end_context(self.context_id + 1, error)

    def ended(self, error: Exception) -> None:
        self.slots, self._refusal = None, error

    def revoked(self, error: Exception, source: int) -> None:
        if not self.is_revoked and not self.freed:
            self.is_revoked, self._reach, self.slots, self._refusal = True, 0, None, error
            if self.agreeing is not None:  # before a failing operation frees the communicator and forgets its members
                self.engine.failure.spread_revocation(self.context_id, self._met, source)
            for context in self._contexts():
                self.engine.failure.end_context(context, error)
            for heir in list(self.heirs):
                heir.revoked(error, source)

    # The end.

    def release(self, refusal: Exception | None = None) -> None:
        """Refuse new operations; drop the contexts after the last pending operation (MPI_Comm_free).

        Args:
            refusal: error of new operations; by default the error of a freed communicator.
        """
        self.freed, self._reach, self.slots, self._refusal = True, 0, None, refusal or self._gone()
        self.engine.failure.forget(self)
        self._retire()

    def _retire(self, _: object = None) -> None:
        pending = next(self.pending(), None)
        if pending is not None:
            pending.when_done(self._retire)
            return
        for context_id in (*self._contexts(), AGREEMENTS | self.context_id):
            matcher = self.engine.contexts.get(context_id)
            if matcher is not None and not matcher.arrivals and not matcher.early:
                del self.engine.contexts[context_id]
        self.engine.processes.release(self._met)

    def _contexts(self) -> list[int]:
        """Return the contexts of the communicator's messages, including the context of partitions if it is in use."""
        partitions = PARTITIONS | self.context_id
        more = [partitions] if partitions in self.engine.contexts else []
        return [self.context_id, self.context_id + 1, *more]

    def pending(self) -> Iterator[Request[Any]]:
        """Yield the pending operations on this communicator: schedules, receives, probes and sends."""
        engine, contexts = self.engine, self._contexts()
        matchers = [self.matcher, self.route.matcher, *map(engine.contexts.__getitem__, contexts[2:])]
        yield from (schedule for schedule in engine.schedules if schedule.owner is self)
        for matcher in matchers:
            yield from matcher.posted()
            yield from matcher.probes
        for send in itertools.chain(engine.sends.values(), engine.held_sends):
            if send.context in contexts and not send.done():
                yield send
        for peer in filter(None, map(engine.known_peer, self._met)):
            targets = (landing.target for landing in peer.landings)
            yield from (target for target in targets if isinstance(target, Receive) and target.matcher in matchers)
