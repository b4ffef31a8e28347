# Written by aiompi/face/generate from native/agreement.py, generate/blocking/agreement.py: edit these files.
"""The calls that living members make together after a failure, in the blocking face (ULFM)."""

from __future__ import annotations

import struct
from typing import Any, Final, Self, cast

from aiompi import create
from aiompi.comm import Communicator, recovery
from aiompi.comm.null import NullCommunicator
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.requests import Request
from aiompi.typing import SupportsBuffer

_PENDING: Final = cast(Communicator, NullCommunicator("Ishrink is not complete: wait for its request first"))
_INT: Final = struct.Struct("i")


class Agreement(Handle):
    """The calls that all living members of a communicator make, even of a revoked one."""

    __slots__ = ()

    def Agree(self, flag: int) -> int:
        """Agree with all living members on a number (MPI_Comm_agree, ULFM), also on a revoked communicator.

        Args:
            flag: of 64 bits with sign.

        Returns:
            The bitwise AND of the flags, the same at all members.

        Raises:
            ProcessFailedError: a member has failed, and some other member had not acknowledged the failure by
                `Ack_failed`. Then all other members raise this error; its attribute `flag` has the result.
            BlockingCallError: an event loop is running in this thread.
        """
        return self._finish(recovery.agree(self._entered("Agree(flag)"), flag))

    def Iagree(self, flag: SupportsBuffer) -> Request[None]:
        """Start an `Agree` (MPI_Comm_iagree, ULFM).

        Args:
            flag: a writable buffer with one C int, which the result replaces.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            ValueError: the buffer has another size.
        """
        core, number = self._admitted, memoryview(cast(Any, flag)).cast("B")
        if number.nbytes != _INT.size:
            raise ValueError(f"{core.where('Iagree')}: flag has {number.nbytes} bytes: expected a C int of {_INT.size}")
        request = recovery.agree(core, _INT.unpack(number)[0])

        async def complete() -> None:
            _INT.pack_into(number, 0, await request)

        return Request._denote(core.run(complete()))

    def Shrink(self) -> Self:
        """Make a communicator of the members that have not failed (MPI_Comm_shrink, ULFM), also of a revoked one.

        All living members call this. Ranks keep their order. Failures of members do not make the call fail.

        Returns:
            The new communicator.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        made: Self = self._finish(self._made(create.shrink(self._entered("Shrink()")), "Shrink"))
        return made

    def Ishrink(self) -> tuple[Self, Request[None]]:
        """Start a `Shrink` (MPI_Comm_ishrink, ULFM).

        Returns:
            The communicator and the request. The communicator must not be used before the request is complete.
        """
        core = self._admitted
        made: Self = self._kin(core)._hold(_PENDING)

        async def complete() -> None:
            made._hold(await create.shrink(core))

        return made, Request._denote(core.run(complete()))
