"""`Suspicions`: which rank goes when the link between two living ranks has broken.

What was in the link is lost, so that the two cannot go on together. A rank that speaks of it is not believed beyond its
own part: it may have broken the link itself, or it may not be broken at all. So the number of broken links decides, and
a rank that nobody else has named goes rather than the rank that it alone names. What has been decided by less than the
number of links is remembered, and counts the next time: a hostile rank costs the job at most one other rank.
"""

from __future__ import annotations


class Suspicions:
    """The broken links of a job."""

    def __init__(self) -> None:
        self._causes: dict[frozenset[int], dict[int, str]] = {}  # by pair of ranks, what each of them has reported

    def add(self, rank: int, other: int, cause: str) -> bool:
        """Note that a rank has lost its link to another one. Return True if nothing was known of that link."""
        pair = frozenset((rank, other))
        known = pair in self._causes
        self._causes.setdefault(pair, {}).setdefault(rank, cause)
        return not known

    def knows(self, pair: frozenset[int]) -> bool:
        """Return True if this link is known to be broken."""
        return pair in self._causes

    def links(self, rank: int) -> int:
        """Return the number of links of a rank that are known to be broken."""
        return sum(rank in pair for pair in self._causes)

    def is_open(self, pair: frozenset[int]) -> bool:
        """Return True if only one end has reported this link, and nothing else speaks for or against either rank."""
        one, other = pair
        return len(self._causes[pair]) == 1 and self.links(one) == self.links(other)

    def judge(self, pair: frozenset[int]) -> tuple[int, str]:
        """Return the rank that goes, and the cause."""
        causes = self._causes[pair]
        one, other = pair
        if self.links(one) != self.links(other):
            guilty = max(pair, key=self.links)
            self.drop(guilty)  # its links say nothing of the others
        else:
            guilty = max(causes)  # the only one that has reported it, or the later one
        (innocent,) = pair - {guilty}
        return guilty, f"has lost its link to rank {innocent}: {next(iter(causes.values()))}"

    def drop(self, rank: int) -> None:
        """Forget the links of a rank that has ended."""
        self._causes = {pair: causes for pair, causes in self._causes.items() if rank not in pair}
