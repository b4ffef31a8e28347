"""Traces: what the ranks of a job did, when, and for which ranks they waited.

`aiompi-launch --trace DIR` records a job from its start to its end. `start` records a rank, such as a rank of a
service, from the call on.
"""

from __future__ import annotations

import os
from typing import Protocol, cast

from aiompi.engine import Engine
from aiompi.trace.recording import Recording as Recording


class _Core(Protocol):
    engine: Engine


class _Communicator(Protocol):
    _core: _Core


def start(comm: object, directory: str | os.PathLike[str]) -> Recording:
    """Record the operations of this rank from now on.

    Args:
        comm: any communicator of the rank, such as the world.
        directory: directory of the trace, which is made. All ranks of a job name the same directory, and each trace
            needs a new one.

    Returns:
        The recording, which `stop` ends. It is also a context manager, which calls `stop` at its end.

    Raises:
        LocalProtocolError: this rank is recorded already.
        OSError: the file of this rank cannot be made; FileExistsError: the directory has a trace of this rank.

    Example:
        from aiompi import trace

        with trace.start(world, "slow-requests"):
            await serve()
    """
    return Recording(cast("_Communicator", comm)._core.engine, directory)
