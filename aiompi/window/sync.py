"""The epochs of a window: fences, Post and Start, locks (MPI-4.1, section 12.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from aiompi.base.unsupported_errors import ERR_ASSERT, ERR_LOCKTYPE, ERR_RMA_SYNC
from aiompi.base.words import ranks_text
from aiompi.constants import UNDEFINED
from aiompi.core.pure.recorder import LOCK, NOTICE, NOTIFY, UNLOCK
from aiompi.engine import Request
from aiompi.errors import (
    InvalidGroupError,
    InvalidRankError,
    WindowError,
)
from aiompi.window.constants import (
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MODE_NOCHECK,
    MODE_NOPRECEDE,
    MODE_NOPUT,
    MODE_NOSTORE,
    MODE_NOSUCCEED,
)
from aiompi.window.messages import Kind

if TYPE_CHECKING:
    from aiompi.comm import Group
    from aiompi.window.window import Window

# What this rank may do with the memory of another one, as `aiompi/core/native/window.pxi` has it.
_OPEN: Final = 1
_LOCKED: Final = 2
_ALONE: Final = 4

_ASSERTIONS: Final = MODE_NOCHECK | MODE_NOSTORE | MODE_NOPUT | MODE_NOPRECEDE | MODE_NOSUCCEED


class Tokens:
    """Notices of other ranks, each of which is taken once.

    Args:
        window: whose failures end the waits.
        kind: the message that brings a notice.
    """

    __slots__ = ("_counts", "_kind", "_waiters", "_window")

    def __init__(self, window: Window, kind: Kind) -> None:
        self._window, self._kind = window, kind
        self._counts: dict[int, int] = {}
        self._waiters: dict[int, list[Request[None]]] = {}  # by rank

    def add(self, rank: int) -> None:
        """Note that a rank has sent a notice."""
        self._counts[rank] = self._counts.get(rank, 0) + 1
        for waiter in self._waiters.pop(rank, ()):
            waiter.complete()

    def present(self, ranks: Iterable[int]) -> bool:
        """Return True if each of these ranks has sent a notice that is not taken."""
        return all(self._counts.get(rank) for rank in ranks)

    async def take(self, ranks: list[int]) -> None:
        """Wait for a notice of each rank, and take it."""
        handles = [self._window.record(NOTICE, rank, self._kind) for rank in ranks]
        for rank, handle in zip(ranks, handles, strict=True):
            while not self._counts.get(rank):
                self._window.check_alive(rank for rank in ranks if not self._counts.get(rank))
                waiter: Request[None] = Request(self._window.comm.engine)
                waiter.traced = handle
                self._waiters.setdefault(rank, []).append(waiter)
                await waiter
            self._window.recorded(handle)
        for rank in ranks:
            self._counts[rank] -= 1

    def fail(self, error: BaseException) -> None:
        """End the waits: a rank has failed."""
        waiters, self._waiters = self._waiters, {}
        for of_rank in waiters.values():
            for waiter in of_rank:
                waiter.fail(error)


class Epochs:
    """Which accesses this rank may make now, and what it waits for.

    Args:
        window: the window.

    Attributes:
        posted: notices of ranks that let this one access their memory (Post).
        completed: notices of ranks that have ended their accesses to the memory of this one (Complete).
    """

    __slots__ = (
        "_exposed", "_fenced", "_held", "_locked_all", "_started", "_waits", "_window", "completed", "posted",
    )  # fmt: skip

    def __init__(self, window: Window) -> None:
        self._window = window
        self._fenced = False
        self._started: list[int] | None = None
        self._exposed: list[int] | None = None
        self._held: dict[int, bool] = {}  # by target, whether this rank holds the lock alone
        self._locked_all = False
        self._waits: dict[int, Request[None]] = {}  # by target, for the release of its lock
        self.posted = Tokens(window, Kind.POST)
        self.completed = Tokens(window, Kind.COMPLETE)

    def permits(self, rank: int) -> bool:
        """Return True if an epoch is open in which this rank may access the memory of `rank`."""
        return self._fenced or self._locked_all or rank in self._held or rank in (self._started or ())

    def in_words(self) -> str:
        """Return which epochs are open, and the calls that end them, for error messages."""
        found = ["Fence, until Fence(MODE_NOSUCCEED)"] if self._fenced else []
        if self._locked_all:
            found.append("Lock_all, until Unlock_all")
        groups = (
            ("Lock of", self._held, "Unlock"),
            ("Start for", self._started, "Complete"),
            ("Post for", self._exposed, "Wait"),
        )
        found += [f"{begin} {ranks_text(ranks)}, until {end}" for begin, ranks, end in groups if ranks]
        return f"open: {'; '.join(found)}" if found else "no epoch is open"

    def _changed(self, ranks: Iterable[int]) -> None:
        """Tell the core the present rights of this rank to the memory of some ranks."""
        for rank in ranks:
            locked = self._locked_all or rank in self._held
            rights = _OPEN * self.permits(rank) | _LOCKED * locked | _ALONE * self._held.get(rank, False)
            self._window.permit(rank, rights)

    def _fence_epoch(self, *, is_open: bool) -> None:
        if is_open != self._fenced:
            self._fenced = is_open
            self._changed(self._window.everybody())

    def check_flushable(self, operation: str, rank: int | None = None) -> None:
        """Check that a flush is called where locks are held.

        Raises:
            WindowError: it is not.
        """
        if not (self._locked_all or (self._held if rank is None else rank in self._held)):
            held = "no lock is held" if rank is None else f"the lock of rank {rank} is not held"
            raise WindowError(
                f"{self._window.where(operation)}: {held}; call Lock or Lock_all before ({self.in_words()})",
                ERR_RMA_SYNC,
            )

    def check_free(self) -> None:
        """Check that the window may be freed.

        Raises:
            WindowError: an epoch is open.
        """
        if self._started is not None or self._exposed is not None or self._held or self._locked_all:
            raise self._not_ended("Free")

    def _not_ended(self, operation: str) -> WindowError:
        return WindowError(f"{self._window.where(operation)}: end this epoch before ({self.in_words()})", ERR_RMA_SYNC)

    # Fences.

    def fence(self, assertion: int) -> Request[None] | None:
        """Begin a fence (MPI_Win_fence, section 12.5.1); a barrier of all ranks follows.

        Returns:
            A request that is complete when the accesses of this rank are done; None if they are done already.

        Raises:
            WindowError: an epoch of another kind is open.
        """
        window = self._window
        self._checked(assertion, "Fence")
        if self._held or self._locked_all or self._started is not None or self._exposed is not None:
            raise self._not_ended("Fence")
        self._fence_epoch(is_open=not assertion & MODE_NOSUCCEED)
        return None if window.at_rest else window.run(window.complete(window.everybody()))

    def _checked(self, assertion: int, operation: str) -> None:
        if assertion & ~_ASSERTIONS:
            raise WindowError(
                f"{self._window.where(operation)}: {assertion} is no combination of assertions", ERR_ASSERT
            )

    # Post, Start, Complete, Wait.

    def post(self, group: Group, assertion: int) -> None:
        """Let a group access the memory of this rank (MPI_Win_post, section 12.5.2)."""
        self._checked(assertion, "Post")
        if self._exposed is not None:
            raise WindowError(
                f"{self._window.where('Post')}: the epoch of the last Post is open; call Wait before", ERR_RMA_SYNC
            )
        self._fence_epoch(is_open=False)
        self._exposed = self._ranks(group, "Post")
        if not assertion & MODE_NOCHECK:
            for rank in self._exposed:
                self._notify(rank, Kind.POST)

    async def start(self, group: Group, assertion: int) -> None:
        """Begin to access the memory of the members of a group, once each member has called Post (MPI_Win_start)."""
        self._checked(assertion, "Start")
        if self._started is not None or self._held or self._locked_all:
            raise self._not_ended("Start")
        self._fence_epoch(is_open=False)
        ranks = self._ranks(group, "Start")
        if not assertion & MODE_NOCHECK:
            await self.posted.take(ranks)
        self._started = ranks
        self._changed(ranks)

    async def complete(self) -> None:
        """End the accesses that Start began (MPI_Win_complete)."""
        if self._started is None:
            raise WindowError(f"{self._window.where('Complete')}: call Start before ({self.in_words()})", ERR_RMA_SYNC)
        ranks, self._started = self._started, None
        self._changed(ranks)
        await self._window.complete(ranks)
        for rank in ranks:
            self._notify(rank, Kind.COMPLETE)

    async def wait(self) -> None:
        """Wait until the group of Post has completed its accesses (MPI_Win_wait)."""
        await self.completed.take(self._exposure("Wait"))
        self._exposed = None

    def test(self) -> bool:
        """Do what `wait` does if that needs no waiting; return False otherwise (MPI_Win_test)."""
        ranks = self._exposure("Test")
        if not self.completed.present(ranks):
            return False
        self._window.run(self.wait())
        return True

    def _exposure(self, operation: str) -> list[int]:
        if self._exposed is None:
            raise WindowError(f"{self._window.where(operation)}: call Post before ({self.in_words()})", ERR_RMA_SYNC)
        return self._exposed

    def _ranks(self, group: Group, operation: str) -> list[int]:
        ranks = list(group.Translate_ranks(None, self._window.parent.group))
        if UNDEFINED in ranks:
            raise InvalidGroupError(
                f"{self._window.where(operation)}: the group has processes that are not in the window"
            )
        return ranks

    def _notify(self, rank: int, kind: Kind) -> None:
        self._window.recorded(self._window.record(NOTIFY, rank, kind))
        if rank != self._window.comm.rank:
            self._window.tell(rank, kind)
        elif kind is Kind.POST:
            self.posted.add(rank)
        else:
            self.completed.add(rank)

    # Locks.

    async def lock(self, rank: int, lock_type: int, assertion: int) -> None:
        """Take the lock of a rank (MPI_Win_lock, section 12.5.3)."""
        window = self._window
        self._checked(assertion, "Lock")
        if lock_type not in (LOCK_SHARED, LOCK_EXCLUSIVE):
            raise WindowError(
                f"{window.where('Lock')}: {lock_type} is neither LOCK_SHARED nor LOCK_EXCLUSIVE", ERR_LOCKTYPE
            )
        if not 0 <= rank < window.comm.size:
            raise InvalidRankError(f"{window.where('Lock')}: rank {rank} is not in 0..{window.comm.size - 1}")
        if rank in self._held or self._locked_all or self._started is not None:
            raise self._not_ended(f"Lock of rank {rank}")
        self._fence_epoch(is_open=False)
        await self._acquire(rank, exclusive=lock_type == LOCK_EXCLUSIVE)
        self._held[rank] = lock_type == LOCK_EXCLUSIVE
        self._changed((rank,))

    async def unlock(self, rank: int) -> None:
        """Complete the accesses to a rank, and give its lock back (MPI_Win_unlock)."""
        if rank not in self._held:
            raise WindowError(
                f"{self._window.where('Unlock')}: the lock of rank {rank} is not held ({self.in_words()})", ERR_RMA_SYNC
            )
        exclusive = self._held.pop(rank)
        self._changed((rank,))
        try:
            await self._window.complete((rank,))
        finally:
            await self._give_back(rank, exclusive=exclusive)

    async def lock_all(self, assertion: int) -> None:
        """Take the locks of all ranks, shared (MPI_Win_lock_all)."""
        self._checked(assertion, "Lock_all")
        if self._held or self._locked_all or self._started is not None:
            raise self._not_ended("Lock_all")
        self._fence_epoch(is_open=False)
        for rank in self._window.everybody():
            await self._acquire(rank, exclusive=False)
        self._locked_all = True
        self._changed(self._window.everybody())

    async def unlock_all(self) -> None:
        """Complete all accesses, and give the locks back (MPI_Win_unlock_all)."""
        if not self._locked_all:
            raise WindowError(
                f"{self._window.where('Unlock_all')}: call Lock_all before ({self.in_words()})", ERR_RMA_SYNC
            )
        self._locked_all = False
        self._changed(self._window.everybody())
        try:
            await self._window.complete(self._window.everybody())
        finally:
            for rank in self._window.everybody():
                if self._window.error_of(rank) is None:
                    await self._give_back(rank, exclusive=False)

    async def _acquire(self, rank: int, *, exclusive: bool) -> None:
        window = self._window
        lock = window.targets[rank].lock
        while True:
            wait = self._waits[rank] = Request(window.comm.engine)
            handle = window.record(LOCK, rank)
            if lock is not None:
                granted = lock.acquire(window.comm.rank, exclusive=exclusive)
            else:
                answer = bytearray(1)
                await window.ask(rank, memoryview(answer), Kind.LOCK, exclusive)
                granted = bool(answer[0])
            if granted:
                self._waits.pop(rank, None)
                window.recorded(handle)
                return
            if wait.done():  # the lock was given back meanwhile
                window.recorded(handle)
            wait.traced = handle
            window.check("Lock")  # it may have been revoked after the wait before
            window.check_alive(window.everybody())
            await wait

    async def _give_back(self, rank: int, *, exclusive: bool) -> None:
        handle = self._window.record(UNLOCK, rank)
        if self._window.targets[rank].lock is not None:
            self.release(rank, exclusive=exclusive)
        else:
            await self._window.ask(rank, memoryview(bytearray()), Kind.UNLOCK)
        self._window.recorded(handle)

    def release(self, rank: int, *, exclusive: bool) -> None:
        """Release the lock of a rank whose words are mapped here, and wake the ranks that wait for it."""
        lock = self._window.targets[rank].lock
        assert lock is not None
        for waiting in lock.release(exclusive=exclusive):
            if waiting == self._window.comm.rank:
                self.wake(rank)
            else:
                self._window.tell(waiting, Kind.WAKE, rank)

    def wake(self, rank: int) -> None:
        """Try again to take the lock of a rank."""
        wait = self._waits.pop(rank, None)
        if wait is not None:
            wait.complete()

    # Failures.

    def member_failed(self, error: BaseException) -> None:
        """End all waits for other ranks: one of them has failed, and may have held a lock or owed a notice.

        Args:
            error: its failure, or that the window is revoked.
        """
        self._window.withdraw()
        waits, self._waits = self._waits, {}
        for wait in waits.values():
            wait.fail(error)
        self.posted.fail(error)
        self.completed.fail(error)
