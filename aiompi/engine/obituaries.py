"""`Obituaries`: why processes of spawned jobs have failed.

The launcher of a spawned job tells the process that has started it. That process tells all others of its own job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.wire.control import MAX_OBITUARY, Obituary

if TYPE_CHECKING:
    from aiompi.engine.processes import Name

#: obituaries that are kept; they may come before the process that they are about has been met, or lost
_KEPT: Final = 512


class Obituaries:
    """What a rank has been told of failures in jobs that ranks of its job have started.

    Attributes:
        starters: by id of a spawned job that this rank has met, the process of the own job that has started it. Only
            what this process says of that job counts.
        on_told: called when there is more to know.
        relay: tells the other ranks of the job; set by the runtime if there are any.
    """

    def __init__(self) -> None:
        self.starters: dict[bytes, int] = {}
        self.on_told: Callable[[], object] = lambda: None
        self.relay: Callable[[Obituary], object] = lambda obituary: None
        self._told: dict[tuple[int, bytes, int | None], str] = {}

    def add(self, obituary: Obituary) -> None:
        """Take an obituary. The first one of a process counts."""
        process = None if obituary.everybody else obituary.process
        self._told.setdefault((obituary.starter, obituary.job, process), obituary.cause[:MAX_OBITUARY])
        if len(self._told) > _KEPT:
            del self._told[next(iter(self._told))]
        self.on_told()

    def announce(self, obituary: Obituary) -> None:
        """Take an obituary from the launcher of a job that this rank has started, and pass it on."""
        self.add(obituary)
        self.relay(obituary)

    def cause(self, name: Name) -> str | None:
        """Return why a process has failed; None if this is not known."""
        starter = self.starters.get(name.job)
        if starter is None:
            return None
        return self._told.get((starter, name.job, name.process)) or self._told.get((starter, name.job, None))
