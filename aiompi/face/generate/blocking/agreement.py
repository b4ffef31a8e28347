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

    def Iagree(self, flag: SupportsBuffer) -> Request[None]:
        """
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

    def Ishrink(self) -> tuple[Self, Request[None]]:
        """
        Returns:
            The communicator and the request. The communicator must not be used before the request is complete.
        """
        core = self._admitted
        made: Self = self._kin(core)._hold(_PENDING)

        async def complete() -> None:
            made._hold(await create.shrink(core))

        return made, Request._denote(core.run(complete()))
