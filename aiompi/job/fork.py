"""The copy of a rank in a forked process, which is no rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiompi.errors import LocalProtocolError

if TYPE_CHECKING:
    from aiompi.job.runtime import Runtime


def disown(runtime: Runtime) -> None:
    """Reset the copy of a rank; see `Runtime.disown`."""
    # Connections stay open, because closing them could shut down the connections of the parent.
    engine, wiring = runtime.engine, runtime.wiring
    inherited = runtime.inherited = (*wiring.transports,), runtime.agent, wiring.host
    wiring.transports.clear()
    runtime.agent = wiring.host = None
    try:
        for transport in inherited[0]:
            transport.disown()
        engine.driver.reset_after_fork()
    finally:
        engine.failure.abort_fork(
            LocalProtocolError(
                f"this process was forked from rank {engine.rank} and is no rank itself: only its parent can "
                "communicate"
            )
        )
