"""The locks of other ranks that a rank takes (MPI-4.1, section 12.5.3)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from aiompi.base.unsupported_errors import ERR_LOCKTYPE, ERR_RMA_SYNC
from aiompi.base.words import ranks_text
from aiompi.core.pure.recorder import LOCK, UNLOCK
from aiompi.engine import Request
from aiompi.engine.schedule import settled
from aiompi.errors import InvalidRankError, MPIError, ProcessFailedError, WindowError
from aiompi.window.constants import LOCK_EXCLUSIVE, LOCK_SHARED
from aiompi.window.locks import Lock
from aiompi.window.messages import GRANTED, LOCK_ANSWER, Kind
from aiompi.window.waits import EpochCall

if TYPE_CHECKING:
    from aiompi.window.sync import Epochs
    from aiompi.window.window import Window


class Locks:
    """The locks of ranks that this rank holds, takes or releases.

    Args:
        window: the window.
        epochs: the epochs of the window.

    Attributes:
        held: target whose lock this rank holds -> True if this rank holds it exclusively.
        all_held: True between Lock_all and Unlock_all.
    """

    __slots__ = ("_busy", "_epochs", "_window", "all_held", "held")

    def __init__(self, window: Window, epochs: Epochs) -> None:
        self._window, self._epochs = window, epochs
        self.held: dict[int, bool] = {}
        self.all_held = False
        self._busy: dict[int, EpochCall] = {}  # by target, the call that takes its lock or gives it back

    @property
    def in_use(self) -> bool:
        """True if a lock is held, or a call waits for one."""
        return bool(self.all_held or self.held or self._awaited())

    def holds(self, rank: int) -> bool:
        """Return True if this rank holds the lock of `rank`."""
        return self.all_held or rank in self.held

    def in_words(self) -> list[str]:
        """Describe, for error messages, the held and the awaited locks, and the calls that end these epochs."""
        found = ["Lock_all, until Unlock_all"] if self.all_held else []
        if self.held:
            found.append(f"Lock of {ranks_text(self.held)}, until Unlock")
        awaited = self._awaited()
        return [*found, f"a call that waits for the lock of {ranks_text(awaited)}"] if awaited else found

    def _awaited(self) -> list[int]:
        return [rank for rank, call in self._busy.items() if not call.yields]

    # The calls.

    def lock(self, rank: int, lock_type: int, assertion: int) -> Request[None]:
        """Take the lock of a rank (MPI_Win_lock)."""

        async def steps(call: EpochCall) -> None:
            window = self._window
            self._epochs.check_assertion(assertion, "Lock")
            if lock_type not in (LOCK_SHARED, LOCK_EXCLUSIVE):
                raise WindowError(
                    f"{window.where('Lock')}: {lock_type} is neither LOCK_SHARED nor LOCK_EXCLUSIVE", ERR_LOCKTYPE
                )
            if not 0 <= rank < window.comm.size:
                raise InvalidRankError(f"{window.where('Lock')}: rank {rank} is not in 0..{window.comm.size - 1}")
            exclusive = lock_type == LOCK_EXCLUSIVE
            if await self._take(call, f"Lock of rank {rank}", (rank,), exclusive=exclusive, every=True):
                self.held[rank] = exclusive
                self._epochs.changed((rank,))
                call.undo = lambda: self.unlock(rank)

        return EpochCall(self._window, "Lock", steps)

    def unlock(self, rank: int) -> Request[None]:
        """Complete the accesses to a rank, and give its lock back (MPI_Win_unlock)."""

        async def steps(call: EpochCall) -> None:
            if rank not in self.held:
                raise WindowError(
                    f"{self._window.where('Unlock')}: the lock of rank {rank} is not held ({self._epochs.in_words()})",
                    ERR_RMA_SYNC,
                )
            await self._end(call, (rank,), exclusive=self.held.pop(rank))

        return EpochCall(self._window, "Unlock", steps, ends=True)

    def lock_all(self, assertion: int) -> Request[None]:
        """Take the locks of all ranks that have not failed, shared (MPI_Win_lock_all)."""

        async def steps(call: EpochCall) -> None:
            self._epochs.check_assertion(assertion, "Lock_all")
            if await self._take(call, "Lock_all", self._window.everybody(), exclusive=False, every=False):
                self.all_held = True
                self._epochs.changed(self._window.everybody())
                call.undo = self.unlock_all

        return EpochCall(self._window, "Lock_all", steps)

    def unlock_all(self) -> Request[None]:
        """Complete all accesses, and give the locks back (MPI_Win_unlock_all)."""

        async def steps(call: EpochCall) -> None:
            if not self.all_held:
                raise WindowError(
                    f"{self._window.where('Unlock_all')}: call Lock_all before ({self._epochs.in_words()})",
                    ERR_RMA_SYNC,
                )
            self.all_held = False
            await self._end(call, self._window.everybody(), exclusive=False)

        return EpochCall(self._window, "Unlock_all", steps, ends=True)

    async def settled(self) -> None:
        """Wait until all calls that take or release locks have ended, even calls that the program has given up."""
        while self._busy:
            await settled([*self._busy.values()])

    # Taking and giving back.

    async def _take(
        self, call: EpochCall, operation: str, ranks: Sequence[int], *, exclusive: bool, every: bool
    ) -> bool:
        """Take the locks of all given ranks, or no lock.

        Args:
            call: the waiting call; it stops waiting when it is given up.
            operation: the call in words.
            ranks: ranks whose locks to take.
            exclusive: True for exclusive locks, False for shared locks.
            every: False if ranks that have failed are left out.

        Returns:
            False if the call was given up before.
        """
        while True:
            self._check(operation, ranks)
            before = next((self._busy[rank] for rank in ranks if rank in self._busy), None)
            if before is None:
                break
            await settled([before])
            if call.given_up:
                return False
        self._epochs.end_fences()
        self._busy.update(dict.fromkeys(ranks, call))
        taken: list[int] = []
        try:
            for rank in ranks:
                if await self._acquire(call, rank, exclusive=exclusive, required=every):
                    taken.append(rank)  # noqa: PERF401 - known if the next one fails
            if not call.given_up:
                return True
            await self._give_back(taken, exclusive=exclusive)
        except Exception:
            with contextlib.suppress(MPIError):
                await self._give_back(taken, exclusive=exclusive)
            raise
        finally:
            for rank in ranks:
                del self._busy[rank]
        return False

    def _check(self, operation: str, ranks: Sequence[int]) -> None:
        """Check that no epoch of this rank, and no call that waits, forbids this rank to take the locks of `ranks`.

        Raises:
            WindowError: an epoch or a call forbids this.
        """
        awaited = [rank for rank in self._awaited() if rank in ranks]
        if awaited:
            raise WindowError(
                f"{self._window.where(operation)}: another call of this rank waits for the lock of "
                f"{ranks_text(awaited)} already; tasks of one rank take turns by an asyncio.Lock, threads by a "
                "threading.Lock",
                ERR_RMA_SYNC,
            )
        if self.all_held or any(rank in self.held for rank in ranks):
            raise self._epochs.not_ended(operation)
        self._epochs.check_not_started(operation)

    async def _end(self, call: EpochCall, ranks: Sequence[int], *, exclusive: bool) -> None:
        """End an epoch: complete the accesses, and give the locks back."""
        window = self._window
        self._busy.update(dict.fromkeys(ranks, call))
        self._epochs.changed(ranks)
        try:
            try:
                await window.complete(ranks)
            finally:
                await self._give_back(ranks, exclusive=exclusive)
        finally:
            for rank in ranks:
                del self._busy[rank]

    async def _acquire(self, call: EpochCall, rank: int, *, exclusive: bool, required: bool) -> bool:
        """Take the lock of a rank; return False if the call is given up, or if `rank` has failed and is not required.

        Args:
            call: the waiting call; it stops waiting when it is given up.
            rank: rank.
            exclusive: True for an exclusive lock, False for a shared lock.
            required: False if a rank that has failed is left out.

        Raises:
            ProcessFailedError: the rank has failed, or a holder of its lock.
        """
        window = self._window
        lock = window.targets[rank].lock
        while not call.given_up:
            failed = window.error_of(rank)
            if failed is not None:
                if required:
                    raise failed
                return False
            handle = window.record(LOCK, rank)
            wait = call.pause(handle)
            if lock is not None:
                answer = self.granted(lock, window.comm.rank, exclusive=exclusive)
            else:
                message = bytearray(LOCK_ANSWER.size)
                try:
                    await window.ask(rank, memoryview(message), Kind.LOCK, exclusive)
                except ProcessFailedError:
                    if required or window.error_of(rank) is None:
                        raise
                    return False
                (answer,) = LOCK_ANSWER.unpack(message)
            if answer == GRANTED:
                window.recorded(handle)
                return True
            if 0 <= answer < window.comm.size:
                raise self._held_by_failed(rank, answer)
            if wait.done():  # the lock was given back meanwhile
                window.recorded(handle)
            window.check("Lock")  # it may have been revoked after the wait before
            await wait
        if lock is not None:
            lock.leave(window.comm.rank)
        return False

    def granted(self, lock: Lock, rank: int, *, exclusive: bool) -> int:
        """Take a lock that is mapped here, for a rank.

        Returns:
            `GRANTED` if the lock was taken; otherwise the rank of a failed holder, or a number below `GRANTED` if no
            holder has failed. If no holder has failed, the release of the lock wakes the rank.
        """
        if lock.acquire(rank, exclusive=exclusive):
            return GRANTED
        failed = self.failed_holder(lock)
        return GRANTED - 1 if failed is None else failed

    def failed_holder(self, lock: Lock) -> int | None:
        """Return a rank that has failed while it held a lock that is mapped here; None if there is none."""
        return next((rank for rank in lock.holders() if self._window.error_of(rank) is not None), None)

    def _held_by_failed(self, rank: int, holder: int) -> ProcessFailedError:
        error = self._window.error_of(holder) or f"rank {holder} is gone"
        return ProcessFailedError(
            f"{self._window.where('Lock')}: rank {holder} held the lock of rank {rank} and has failed: {error}"
        )

    async def _give_back(self, ranks: Iterable[int], *, exclusive: bool) -> None:
        window = self._window
        for rank in ranks:
            if window.error_of(rank) is not None:
                continue  # a rank that wants the lock of a failed rank gets an error
            lock = window.targets[rank].lock
            handle = window.record(UNLOCK, rank)
            if lock is not None:
                self.release(rank, lock, window.comm.rank, exclusive=exclusive)
            else:
                await window.ask(rank, memoryview(bytearray()), Kind.UNLOCK)
            window.recorded(handle)

    def release(self, rank: int, lock: Lock, holder: int, *, exclusive: bool) -> None:
        """Release a lock that is mapped here, and wake the ranks that wait for it.

        Args:
            rank: the rank whose memory the lock guards.
            lock: the lock.
            holder: the rank that has held it.
            exclusive: True if it has held the lock alone.
        """
        if lock.release(holder, exclusive=exclusive):
            self.wake_waiting(rank, lock)

    def wake_waiting(self, rank: int, lock: Lock) -> None:
        """Wake the ranks that wait for the lock of a rank."""
        window = self._window
        for waiting in lock.take_waiting():
            if waiting == window.comm.rank:
                self.wake(rank)
            elif window.error_of(waiting) is None:
                window.tell(waiting, Kind.WAKE, rank)

    def wake(self, rank: int) -> None:
        """Try again to take the lock of a rank."""
        call = self._busy.get(rank)
        if call is not None:
            call.wake()

    # Failures.

    def waiting(self) -> set[EpochCall]:
        """Return the calls that take locks or give them back."""
        return set(self._busy.values())
