"""Collects wait reports: once one rank reports a long wait, all ranks are asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from aiompi.wire.wait_report import WaitReport, compare

#: seconds that a rank has for its answer, and least seconds between inquiries; a computing rank does not answer
PATIENCE: Final = 1.0


class Inquiry:
    """The reports that are being collected.

    Attributes:
        number: number of the inquiry, by which late answers to earlier inquiries are recognised.
        recent: True until PATIENCE has passed since the begin of the inquiry. Until then no other inquiry begins.
    """

    def __init__(self) -> None:
        self.number = 0
        self.recent = False
        self._reports: dict[int, WaitReport] = {}
        self._awaited: set[int] = set()

    def add(self, rank: int, number: int, packed: dict[str, Any], others: Iterable[int]) -> list[int]:
        """Add a report.

        Args:
            rank: rank that sent it.
            number: number of the inquiry that the report answers; 0 if the rank was not asked.
            packed: the report.
            others: ranks that could be asked.

        Returns:
            Ranks to ask.
        """
        if number not in (0, self.number):
            return []
        begins = not self._reports
        if begins and (number or self.recent):
            return []
        self._reports[rank] = WaitReport.unpack(packed)
        if begins:
            self.number += 1
            self.recent = True
            self._awaited = set(others)
            return sorted(self._awaited)
        self._awaited.discard(rank)
        return []

    @property
    def open(self) -> bool:
        """True while reports are being collected."""
        return bool(self._reports)

    @property
    def complete(self) -> bool:
        """True if every rank has answered."""
        return bool(self._reports) and not self._awaited

    def conclude(self) -> str:
        """End the inquiry; return a comparison of the answers for the user."""
        text = compare(self._reports, sorted(self._awaited))
        self._reports = {}
        return text
