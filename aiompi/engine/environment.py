"""`Environment`: everything that an engine asks of the world around it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from aiompi.errors import LocalProtocolError

if TYPE_CHECKING:
    from aiompi.core import Request
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.processes import Program
    from aiompi.engine.seams import Link, RecoveryService
    from aiompi.engine.slots import SlotProvider
    from aiompi.wire.control import BusinessCard, Obituary


class Environment:
    """The services that an engine gets from outside: connections, failure detection and other jobs.

    This class is the environment of a rank that is in no job and reaches no other rank. The environment of a rank in a
    job, `aiompi.job.wiring.Wiring`, derives from it.
    """

    # Connections.

    def connect(self, peer: Endpoint) -> Link:
        """Make the link to a peer. The engine calls this when it has the first frame for the peer.

        Raises:
            OtherError: no transport reaches the peer.
        """
        engine = peer.engine
        raise LocalProtocolError(f"rank {engine.rank} cannot reach rank {peer.rank}: it is not initialised")

    def home(self, card: BusinessCard) -> Hashable:
        """Return a value that is equal for business cards of processes that share memory; None for private memory."""
        return None

    @property
    def slot_provider(self) -> SlotProvider | None:
        """Provides memory in which this rank shows its contributions to collectives; None if ranks share no memory."""
        return None

    # Failures.

    def lost(self, peer: Endpoint, cause: str) -> None:
        """Judge a broken connection: call `peer.mark_failed` or `peer.mark_closed`, now or later."""
        peer.mark_failed(cause)

    def forgotten(self, peer: Endpoint) -> None:
        """Close the links to a process to which no communicator refers any more."""

    def unfit(self, error: Exception) -> None:
        """Tell the other ranks why this rank cannot communicate with them any more.

        Afterwards the caller fails all operations of this rank.
        """

    def fatal(self, error: BaseException) -> None:
        """End the job because of an error that no call can report."""

    @property
    def recovery(self) -> RecoveryService | None:
        """The service that answers questions about communicators with failed members; None if the job has none."""
        return None

    # Other jobs (MPI-2, chapter 5).

    async def admit(self) -> None:
        """Start to listen for processes of other jobs.

        Raises:
            NotImplementedError: ranks of this kind cannot be connected to other jobs.
        """
        raise NotImplementedError(
            "aiompi connects no ranks of a local_world, and none of jobs with several IMPI clients"
        )

    def start(self, programs: Sequence[Program], port: str, options: Sequence[str]) -> Request[None]:
        """Start processes that connect to a port of this process.

        Args:
            programs: what they run.
            port: name of the port.
            options: further options of the launcher.

        Returns:
            A request that completes when the processes have ended, and fails if they cannot be started.
        """
        raise NotImplementedError("this rank cannot start processes")

    def obituaries_changed(self) -> None:
        """Check the lost processes of spawned jobs again, because a new obituary may say why they ended."""

    def relay(self, obituary: Obituary) -> None:
        """Tell the other ranks of the job why a process of a spawned job has failed."""
