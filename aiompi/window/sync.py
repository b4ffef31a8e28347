"""The epochs of a window: fences, Post and Start, locks (MPI-4.1, section 12.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from aiompi.base.unsupported_errors import ERR_ASSERT, ERR_RMA_SYNC
from aiompi.base.words import ranks_text
from aiompi.constants import UNDEFINED
from aiompi.core.pure.recorder import NOTIFY
from aiompi.engine import Request
from aiompi.errors import (
    InvalidGroupError,
    WindowError,
)
from aiompi.window.constants import (
    MODE_NOCHECK,
    MODE_NOPRECEDE,
    MODE_NOPUT,
    MODE_NOSTORE,
    MODE_NOSUCCEED,
)
from aiompi.window.messages import Kind
from aiompi.window.passive import Locks
from aiompi.window.waits import EpochCall, Tokens

if TYPE_CHECKING:
    from aiompi.comm import Group
    from aiompi.window.window import Window

# The rights of this rank on the memory of another rank, as in `aiompi/core/native/window.pxi`.
_OPEN: Final = 1
_LOCKED: Final = 2
_ALONE: Final = 4

#: the assertions that each call takes (section 12.5.5)
_ASSERTIONS: Final = {
    "Fence": MODE_NOSTORE | MODE_NOPUT | MODE_NOPRECEDE | MODE_NOSUCCEED,
    "Post": MODE_NOCHECK | MODE_NOSTORE | MODE_NOPUT,
    "Start": MODE_NOCHECK,
    "Lock": MODE_NOCHECK,
    "Lock_all": MODE_NOCHECK,
}
_NAMES: Final = {
    MODE_NOCHECK: "MODE_NOCHECK",
    MODE_NOSTORE: "MODE_NOSTORE",
    MODE_NOPUT: "MODE_NOPUT",
    MODE_NOPRECEDE: "MODE_NOPRECEDE",
    MODE_NOSUCCEED: "MODE_NOSUCCEED",
}


class Epochs:
    """The open epochs of a rank: which accesses it may make now, and for which ranks it waits.

    Args:
        window: the window.

    Attributes:
        locks: the locks that this rank holds, takes or gives back.
        posted: notices of ranks that let this rank access their memory (Post).
        completed: notices of ranks that have ended their accesses to the memory of this rank (Complete).
    """

    __slots__ = (
        "_exposed", "_fenced", "_started", "_window", "completed", "locks", "posted",
    )  # fmt: skip

    def __init__(self, window: Window) -> None:
        self._window = window
        self._fenced = False
        self._started: list[int] | None = None
        self._exposed: list[int] | None = None
        self.locks = Locks(window, self)
        self.posted = Tokens(window, Kind.POST)
        self.completed = Tokens(window, Kind.COMPLETE)

    def permits(self, rank: int) -> bool:
        """Return True if an epoch is open in which this rank may access the memory of `rank`."""
        return self._fenced or self.locks.holds(rank) or rank in (self._started or ())

    def in_words(self) -> str:
        """Return, for error messages, the open epochs with the calls that end them."""
        found = ["Fence, until Fence(MODE_NOSUCCEED)"] if self._fenced else []
        found += self.locks.in_words()
        groups = (
            ("Start for", self._started, "Complete"),
            ("Post for", self._exposed, "Wait"),
        )
        found += [f"{begin} {ranks_text(ranks)}, until {end}" for begin, ranks, end in groups if ranks]
        return f"open: {'; '.join(found)}" if found else "no epoch is open"

    def changed(self, ranks: Iterable[int]) -> None:
        """Tell the core which accesses this rank may now make to the memory of each of some ranks."""
        for rank in ranks:
            alone = self.locks.held.get(rank, False)
            rights = _OPEN * self.permits(rank) | _LOCKED * self.locks.holds(rank) | _ALONE * alone
            self._window.permit(rank, rights)

    def _fence_epoch(self, *, is_open: bool) -> None:
        if is_open != self._fenced:
            self._fenced = is_open
            self.changed(self._window.everybody())

    def check_flushable(self, operation: str, rank: int | None = None) -> None:
        """Check that the locks that a flush needs are held.

        Raises:
            WindowError: a lock is not held.
        """
        locks = self.locks
        if not (locks.all_held or (locks.held if rank is None else rank in locks.held)):
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
        if self._started is not None or self._exposed is not None or self.locks.in_use:
            raise self.not_ended("Free")

    def not_ended(self, operation: str) -> WindowError:
        """Return the error of a call that is made before an epoch has ended."""
        return WindowError(f"{self._window.where(operation)}: end this epoch before ({self.in_words()})", ERR_RMA_SYNC)

    # Fences.

    def fence(self, assertion: int) -> bool:
        """Begin a fence (MPI_Win_fence, section 12.5.1). The caller then ends the accesses, and waits in a barrier.

        Returns:
            True if this rank has made accesses in the epoch of the last fence.

        Raises:
            WindowError: an epoch of another kind is open.
        """
        self.check_assertion(assertion, "Fence")
        if self.locks.in_use or self._started is not None or self._exposed is not None:
            raise self.not_ended("Fence")
        window, preceded = self._window, self._fenced and self._window.accessed
        window.accessed = False
        self._fence_epoch(is_open=not assertion & MODE_NOSUCCEED)
        return preceded

    def end_fences(self) -> None:
        """End the epoch of the last fence, because an epoch of another kind begins."""
        self._fence_epoch(is_open=False)

    def check_assertion(self, assertion: int, operation: str) -> None:
        """Check that an assertion is allowed in a call.

        Raises:
            WindowError: it is not allowed.
        """
        taken = _ASSERTIONS[operation]
        if assertion & ~taken:
            names = ", ".join(name for bit, name in _NAMES.items() if bit & taken)
            raise self.wrong_assertion(operation, f"the assertion {assertion} has more than {names}")

    def wrong_assertion(self, operation: str, text: str) -> WindowError:
        """Return the error of an assertion."""
        return WindowError(f"{self._window.where(operation)}: {text}", ERR_ASSERT)

    # Post, Start, Complete, Wait.

    def post(self, group: Group, assertion: int) -> None:
        """Let a group access the memory of this rank (MPI_Win_post, section 12.5.2)."""
        self.check_assertion(assertion, "Post")
        if self._exposed is not None:
            raise WindowError(
                f"{self._window.where('Post')}: the epoch of the last Post is open; call Wait before", ERR_RMA_SYNC
            )
        self._fence_epoch(is_open=False)
        self._exposed = self._ranks(group, "Post")
        if not assertion & MODE_NOCHECK:
            for rank in self._exposed:
                self._notify(rank, Kind.POST)

    def start(self, group: Group, assertion: int) -> Request[None]:
        """Begin to access the memory of the members of a group, once each has called Post (MPI_Win_start)."""

        async def steps(call: EpochCall) -> None:
            self.check_assertion(assertion, "Start")
            if self.locks.in_use:
                raise self.not_ended("Start")
            self.check_not_started("Start")
            self._fence_epoch(is_open=False)
            ranks = self._ranks(group, "Start")
            taken = not assertion & MODE_NOCHECK
            noticed = [] if taken else self.posted.of(ranks)
            if noticed:
                text = f"MODE_NOCHECK, but {ranks_text(noticed)} called Post without it"
                raise self.wrong_assertion("Start", text)
            if taken and not await self.posted.take(call, ranks):
                return

            def undo() -> None:
                self._started = None
                self.changed(ranks)
                self.posted.put_back(ranks if taken else [])

            self._started, call.undo = ranks, undo
            self.changed(ranks)

        return EpochCall(self._window, "Start", steps)

    def check_not_started(self, operation: str) -> None:
        """Check that no epoch of Start is open.

        Raises:
            WindowError: such an epoch is open, or a call of Start waits.
        """
        if self._started is not None:
            raise self.not_ended(operation)
        self._check_alone(self.posted, operation, "Start")

    def _check_alone(self, tokens: Tokens, operation: str, other: str) -> None:
        if tokens.taker is not None and not tokens.taker.yields:
            raise WindowError(
                f"{self._window.where(operation)}: another task or thread of this rank waits in {other}", ERR_RMA_SYNC
            )

    async def complete(self) -> None:
        """End the accesses that Start began (MPI_Win_complete)."""
        if self._started is None:
            raise WindowError(f"{self._window.where('Complete')}: call Start before ({self.in_words()})", ERR_RMA_SYNC)
        ranks, self._started = self._started, None
        self.changed(ranks)
        try:
            await self._window.complete(ranks)
        finally:
            for rank in ranks:
                if self._window.error_of(rank) is None:
                    self._notify(rank, Kind.COMPLETE)

    def wait(self) -> Request[None]:
        """Wait until the group of Post has completed its accesses (MPI_Win_wait)."""

        async def steps(call: EpochCall) -> None:
            ranks = self._exposure("Wait")
            self._check_alone(self.completed, "Wait", "Wait")
            if not await self.completed.take(call, ranks):
                return

            def undo() -> None:
                self._exposed = ranks
                self.completed.put_back(ranks)

            self._exposed, call.undo = None, undo

        return EpochCall(self._window, "Wait", steps)

    def test(self) -> bool:
        """Do what `wait` does if that needs no waiting; return False otherwise (MPI_Win_test)."""
        ranks = self._exposure("Test")
        if self.completed.of(ranks) != ranks:
            return False
        self.wait().result()
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

    # Failures.

    def member_failed(self) -> None:
        """Let each waiting call look whether the rank for which it waits has failed."""
        self._window.withdraw()
        for call in self._waiting():
            call.wake()

    def ended(self, error: BaseException) -> None:
        """Fail all calls that wait: the window is revoked, or the job has ended."""
        self._window.withdraw()
        for call in self._waiting():
            call.stop(error)

    def _waiting(self) -> list[EpochCall]:
        takers = self.posted.taker, self.completed.taker
        return [*self.locks.waiting(), *(call for call in takers if call is not None)]
