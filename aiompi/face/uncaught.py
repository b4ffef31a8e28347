"""Output about an uncaught error that ends a job: one line for each cause, instead of one traceback for each rank."""

from __future__ import annotations

import sys
import weakref
from types import TracebackType

from aiompi.errors import JobAbortedError, MPIError
from aiompi.job.runtime import Runtime

#: launched ranks of this process
_ranks: weakref.WeakSet[Runtime] = weakref.WeakSet()
_installed = False


def watch(rank: Runtime) -> None:
    """Suppress the traceback of a launched rank if the program does not catch the error that ends its job.

    The launcher reports the cause once for all ranks. A process that does not become a rank prints why in a line.
    """
    global _installed
    if rank.launched:
        _ranks.add(rank)
        if not _installed:
            _installed = True
            _install()


def _install() -> None:
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        ended = [rank for rank in _ranks if _is_end(rank, error)]
        if not ended:
            show(kind, error, traceback)
        elif not ended[0].joined:
            print(f"aiompi: {error}", file=sys.stderr)

    sys.excepthook = excepthook


def _is_end(rank: Runtime, error: BaseException) -> bool:
    """Return True if the error has ended the job of a rank, or has kept the process from becoming a rank."""
    started = rank.start()
    failure = started.exception() if started.done() else None
    kind = JobAbortedError if rank.joined else MPIError
    return isinstance(error, kind) and any(error is end for end in (rank.engine.error, failure))
