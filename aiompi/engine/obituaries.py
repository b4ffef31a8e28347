"""`Obituaries`: why processes of spawned jobs have failed.

The launcher of a spawned job reports a failure to the process that spawned the job. This process tells its whole job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiompi.wire.control import MAX_OBITUARY, Obituary

if TYPE_CHECKING:
    from aiompi.engine.environment import Environment
    from aiompi.engine.processes import Name

#: most obituaries that are kept. An obituary may arrive before this rank meets the process or notices the end of the
#: process.
_KEPT: Final = 512


class Obituaries:
    """The reports of failures in jobs that ranks of this job have spawned.

    Args:
        environment: environment of the engine, which passes on each new report.

    Attributes:
        starters: by the id of a spawned job, the process that spawned it, for the jobs that this rank has met. Only
            reports of that process about that job count.
    """

    def __init__(self, environment: Environment) -> None:
        self.starters: dict[bytes, int] = {}
        self._environment = environment
        self._told: dict[tuple[int, bytes, int | None], str] = {}

    def add(self, obituary: Obituary) -> None:
        """Take an obituary. The first one of a process counts."""
        process = None if obituary.everybody else obituary.process
        self._told.setdefault((obituary.starter, obituary.job, process), obituary.cause[:MAX_OBITUARY])
        if len(self._told) > _KEPT:
            del self._told[next(iter(self._told))]
        self._environment.obituaries_changed()

    def announce(self, obituary: Obituary) -> None:
        """Take an obituary from the launcher of a job that this rank has started, and pass it on."""
        self.add(obituary)
        self._environment.relay(obituary)

    def cause(self, name: Name) -> str | None:
        """Return why a process has failed; None if this is not known."""
        starter = self.starters.get(name.job)
        if starter is None:
            return None
        return self._told.get((starter, name.job, name.process)) or self._told.get((starter, name.job, None))
