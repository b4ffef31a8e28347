"""Words for messages to the user."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

#: most ranks and ranges that a text names
_MOST: Final = 8


def ranks_text(ranks: Iterable[int]) -> str:
    """Return words for ranks, such as "rank 2" or "ranks 0-2, 5". Eight ranks or ranges are named, and no more."""
    ordered = sorted({*ranks})
    runs = [
        [rank for _, rank in run] for _, run in itertools.groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])
    ]
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs[:_MOST]]
    texts += ["..."] if len(runs) > _MOST else []
    return f"rank{'s' * (len(ordered) > 1)} {', '.join(texts)}"


def ranks_do(ranks: Iterable[int], verb: str) -> str:
    """Return words for ranks and what they do, such as "rank 2 waits" or "ranks 0-2, 5 wait"."""
    them = {*ranks}
    return f"{ranks_text(them)} {verb}{'s' * (len(them) == 1)}"
