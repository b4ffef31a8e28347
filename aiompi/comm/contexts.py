"""Context identifiers, which separate the messages of communicators (IMPI 0.0, section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiompi.engine import Request

#: upper bound that no identifier reaches (IMPI_MAX_CID)
MAX_CID: Final = 2**64 - 16
#: first identifier of communicators within one client; identifiers shared with other clients stay far below it
INNER_CID: Final = 2**63

#: added to the identifier of a communicator for its agreements (aiompi.comm.consensus)
AGREEMENTS: Final = 2**62
#: added to the identifier of a communicator for its partitions (aiompi.comm.partitioned)
PARTITIONS: Final = 2**61


class ContextIds:
    """The identifiers that this process has used.

    A communicator has two identifiers: an even one for point-to-point communication, and the next one for collectives.
    A process never uses an identifier twice. While agreements on new identifiers are in progress, the process remembers
    all identifiers proposed since the first of these agreements began. So the process can still take other identifiers
    below the highest.

    Attributes:
        highest: the largest identifier in use (IMPI_max_cid); 1 is used by collectives on COMM_WORLD.
        agreements: number of agreements that have begun, including those that have ended.
        latest: request that completes with the latest agreement among IMPI clients.
        temporary: context id of a temporary communicator -> the request that completes when this process has released
            it (`aiompi.create.from_group`).
    """

    __slots__ = ("_floor", "_inner", "_proposed", "_under_way", "agreements", "highest", "latest", "temporary")

    def __init__(self, highest: int = 1) -> None:
        self.highest = highest
        self.latest: Request[None] | None = None
        self.temporary: dict[int, Request[None]] = {}
        self._inner: ContextIds | None = None
        self.agreements = 0
        self._under_way = 0
        self._floor = 0
        self._proposed: set[int] = set()

    @property
    def inner(self) -> ContextIds:
        """The identifiers of communicators within one IMPI client, if the job has several. They begin at INNER_CID."""
        if self._inner is None:
            self._inner = ContextIds(INNER_CID - 1)
        return self._inner

    def begin(self) -> None:
        """Record that an agreement begins."""
        if not self._under_way:
            self._floor = self.highest
        self._under_way += 1
        self.agreements += 1

    def end(self) -> None:
        """Record that an agreement has ended."""
        self._under_way -= 1
        if not self._under_way:
            self._proposed.clear()

    def propose(self, leap: int = 0) -> int:
        """Reserve a pair above all others.

        Args:
            leap: distance from the highest; 0 for the next pair.

        Returns:
            The even identifier. If no identifier is left, the result is MAX_CID, and nothing is reserved.
        """
        pair = self.highest + 1 + leap
        pair = min(pair + pair % 2, MAX_CID)
        self.take(pair)
        return pair

    def take(self, pair: int) -> bool:
        """Reserve the pair that another process has proposed; return False if this process has used it."""
        if pair <= self._floor or pair in self._proposed:
            return False
        if pair < MAX_CID:
            self._proposed.add(pair)
            self.highest = max(self.highest, pair + 1)
        return True
