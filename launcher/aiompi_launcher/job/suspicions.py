"""`Suspicions`: decides which rank is expelled when the link between two living ranks has broken.

The data in the link is lost, so the two ranks cannot continue together. A report of one end is not proof: the reporting
rank may have broken the link itself, or the link may not be broken. So the rank with more broken links is expelled. If
both ranks have equally many broken links, the reporting rank is expelled; if both have reported the link, the higher
rank is expelled. The reports of such a decision are kept, and count the next time. So a hostile rank costs the job at
most one other rank.
"""

from __future__ import annotations


class Suspicions:
    """The broken links of a job."""

    def __init__(self) -> None:
        self._causes: dict[frozenset[int], dict[int, str]] = {}  # pair of ranks -> rank -> its report

    def add(self, rank: int, other: int, cause: str) -> bool:
        """Record that a rank has lost its link to another one. Return True if this is the first report of the link."""
        pair = frozenset((rank, other))
        known = pair in self._causes
        self._causes.setdefault(pair, {}).setdefault(rank, cause)
        return not known

    def knows(self, pair: frozenset[int]) -> bool:
        """Return True if this link is known to be broken."""
        return pair in self._causes

    def links(self, rank: int) -> int:
        """Return the number of broken links of a rank."""
        return sum(rank in pair for pair in self._causes)

    def is_open(self, pair: frozenset[int]) -> bool:
        """Return True if only one end has reported this link, and there is no other evidence about either rank."""
        one, other = pair
        return len(self._causes[pair]) == 1 and self.links(one) == self.links(other)

    def judge(self, pair: frozenset[int]) -> tuple[int, str]:
        """Return the expelled rank, and the cause."""
        causes = self._causes[pair]
        one, other = pair
        if self.links(one) != self.links(other):
            guilty = max(pair, key=self.links)
            self.drop(guilty)  # its links are no evidence against the others
        else:
            guilty = max(causes)  # the only rank that has reported it, or the higher one
        (innocent,) = pair - {guilty}
        return guilty, f"has lost its link to rank {innocent}: {next(iter(causes.values()))}"

    def drop(self, rank: int) -> None:
        """Forget the links of a rank that has ended."""
        self._causes = {pair: causes for pair, causes in self._causes.items() if rank not in pair}
