"""Communicators whose members fail: the local calls, which both faces share (ULFM, as in mpi4py 4.1)."""

from __future__ import annotations

from aiompi.comm import Group, recovery
from aiompi.face.common import CommunicatorHandle


class Recovery(CommunicatorHandle):
    """Failures of members and revocation."""

    __slots__ = ()

    def Revoke(self) -> None:
        """Revoke the communicator at all its members (MPI_Comm_revoke, ULFM); it is enough that one member calls this.

        All pending and new operations on the communicator raise RevokedError, except Agree, Shrink and Free. The call
        is local. The news reaches every living member, also if the caller fails next.

        Raises:
            NotImplementedError: the job has other IMPI clients.
        """
        recovery.revoke(self._core)

    def Is_revoked(self) -> bool:
        """Return True if this member knows that the communicator is revoked (MPI_Comm_is_revoked, ULFM).

        Returns:
            True or False.
        """
        return self._core.is_revoked

    def Get_failed(self) -> Group:
        """Return the members that are known to have failed, in the order of the reports (MPI_Comm_get_failed, ULFM).

        Returns:
            The group.
        """
        return recovery.get_failed(self._core)

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        """Acknowledge failures (MPI_Comm_ack_failed, ULFM): receives from any source wait for the living again.

        Args:
            num_to_ack: number of members to acknowledge, the first ones of `Get_failed`; None for all of them.

        Returns:
            How many failures are acknowledged now.

        Raises:
            InvalidArgumentError: the number is negative.
        """
        return recovery.ack_failed(self._core, num_to_ack)
