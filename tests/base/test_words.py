"""Words for messages."""

from __future__ import annotations

from aiompi.base.words import ranks_do, ranks_text
from support.cases import cases


@cases(
    ("ranks", "words"),
    [
        ([2], "rank 2"),
        ([0, 1, 2, 5], "ranks 0-2, 5"),
        ([3, 1, 3], "ranks 1, 3"),
        (range(0, 18, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14, ..."),
    ],
)
def test_ranks(ranks: list[int], words: str) -> None:
    assert ranks_text(ranks) == words
    assert ranks_do(ranks, "wait") == f"{words} wait{'s' * words.startswith('rank ')}"
