"""`Processes`: what the processes of ranks that do not react are doing."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterable, Mapping
from typing import Final

from aiompi.base.usage import standing
from aiompi.base.words import ranks_do, ranks_text

#: an expression whose value is the place of a rank: the name of its machine, and its process number
PLACE: Final = "(__import__('os').uname().nodename, __import__('os').getpid())"
#: seconds of CPU within which a rank that runs Python code reacts to an interrupt
_REACTION: Final = 0.1


class Processes:
    """The processes of those ranks that are on this machine.

    Args:
        answers: the pickled values of `PLACE`, by rank.
    """

    def __init__(self, answers: Mapping[int, bytes]) -> None:
        places = {rank: pickle.loads(answer) for rank, answer in answers.items()}
        here = os.uname().nodename
        self._numbers: dict[int, int] = {rank: number for rank, (host, number) in places.items() if host == here}

    def used(self, ranks: Iterable[int]) -> dict[int, float]:
        """Return the seconds of CPU that ranks have used; leave out ranks whose seconds are unknown."""
        used = {}
        for rank in ranks:
            with contextlib.suppress(KeyError, OSError):
                used[rank] = standing(self._numbers[rank])[1]
        return used

    def why(self, ranks: Iterable[int], used: Mapping[int, float], verb: str, rest: str) -> str:
        """Say why ranks have not reacted.

        Args:
            ranks: at least one.
            used: CPU seconds that the ranks had used at an earlier time.
            verb: verb for the ranks that have got CPU time, such as "run".
            rest: rest of the sentence after `verb`.
        """
        starved = {rank for rank in ranks if rank in used and self._is_starved(rank, used[rank])}
        reasons = []
        if starved:
            reasons.append(f"{ranks_text(starved)} got no CPU meanwhile: stopped, or on a busy machine")
        if others := {*ranks} - starved:
            reasons.append(f"{ranks_do(others, verb)} {rest}")
        return ", and ".join(reasons)

    def _is_starved(self, rank: int, used: float) -> bool:
        """Return True if a rank is stopped, or is ready to run but has got hardly any CPU."""
        try:
            state, now = standing(self._numbers[rank])
        except OSError:
            return False
        return state in "Tt" or (state == "R" and now - used < _REACTION)
