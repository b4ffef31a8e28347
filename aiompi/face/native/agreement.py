"""The calls that living members make together after a failure, in the asyncio face (ULFM)."""

from __future__ import annotations

from typing import Self

from aiompi import create
from aiompi.comm import recovery
from aiompi.engine import AwaitableCall, Request
from aiompi.face.native.handle import Handle


class Agreement(Handle):
    """The calls that all living members of a communicator make, even of a revoked one."""

    __slots__ = ()

    def Agree(self, flag: int) -> AwaitableCall[int]:
        """Agree with all living members on a number (MPI_Comm_agree, ULFM), also on a revoked communicator.

        Args:
            flag: of 64 bits with sign.

        Returns:
            The request; its result is the bitwise AND of the flags, the same at all members.

        Raises:
            ProcessFailedError: awaiting it: a member has failed, and some other member had not acknowledged the failure
                by `Ack_failed`. Then all other members raise this error; its attribute `flag` has the result.
        """
        return AwaitableCall(recovery.agree(self._admitted, flag), "Agree", self._core)

    def Iagree(self, flag: int) -> Request[int]:
        """Start an `Agree`, whose request is kept and awaited later (MPI_Comm_iagree, ULFM).

        Args:
            flag: of 64 bits with sign.

        Returns:
            A request whose result is the bitwise AND of the flags, the same at all members.
        """
        return recovery.agree(self._admitted, flag)

    def Shrink(self) -> AwaitableCall[Self]:
        """Make a communicator of the members that have not failed (MPI_Comm_shrink, ULFM), also of a revoked one.

        All living members call this. Ranks keep their order. Failures of members do not make the call fail.

        Returns:
            A request whose result is the new communicator.
        """
        return AwaitableCall(self._made(create.shrink(self._admitted), "Shrink"))

    def Ishrink(self) -> Request[Self]:
        """Start a `Shrink`, whose request is kept and awaited later (MPI_Comm_ishrink, ULFM).

        Returns:
            A request whose result is the new communicator.
        """
        return self._made(create.shrink(self._admitted), "Shrink")
