"""What the ranks of a job wait for: all are asked when one tells that it has been waiting for long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from aiompi.wire.wait_report import WaitReport, compare

#: seconds that a rank has for its answer; one that computes does not answer
PATIENCE: Final = 1.0


class Inquiry:
    """The reports that are being collected, if any are.

    Attributes:
        number: of the inquiry, so that late answers to others are known as such.
    """

    def __init__(self) -> None:
        self.number = 0
        self._reports: dict[int, WaitReport] = {}
        self._awaited: set[int] = set()

    def told(self, rank: int, number: int, packed: dict[str, Any], others: Iterable[int]) -> list[int]:
        """Take an report.

        Args:
            number: of the inquiry that it answers, 0 if the rank was not asked.
            others: ranks that could be asked.

        Returns:
            Ranks to be asked.
        """
        if number not in (0, self.number):
            return []
        begins = not self._reports
        if begins and number:
            return []
        self._reports[rank] = WaitReport.unpack(packed)
        if begins:
            self.number += 1
            self._awaited = set(others)
            return sorted(self._awaited)
        self._awaited.discard(rank)
        return []

    @property
    def open(self) -> bool:
        """Whether reports are being collected."""
        return bool(self._reports)

    @property
    def complete(self) -> bool:
        """Whether every rank has answered."""
        return bool(self._reports) and not self._awaited

    def conclude(self) -> str:
        """What the ranks do, as far as they have answered, for the user. The inquiry is over."""
        text = compare(self._reports, sorted(self._awaited))
        self._reports = {}
        return text
