"""Operations on files: requests whose result is the status. An operation can be stopped between two pieces."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from aiompi.comm import Communicator
from aiompi.engine import Schedule
from aiompi.file.transfer import Stop
from aiompi.status import Status


class Operation(Schedule[Status]):
    """An access to a file.

    Args:
        comm: of the file.
        coroutine: makes the access, and returns the number of bytes.
        stop: stops an independent access early; None for a collective access, which all processes need.
        external: True if the bytes are in external32.
    """

    __slots__ = ("_external", "_stop")

    def __init__(
        self, comm: Communicator, coroutine: Coroutine[Any, None, int], stop: Stop | None, external: bool
    ) -> None:
        self._stop = stop
        self._external = external
        super().__init__(comm.engine, self._status(coroutine), comm)

    async def _status(self, coroutine: Coroutine[Any, None, int]) -> Status:
        nbytes = await coroutine
        self._cancelled = self._stop is not None and self._stop.asked
        return Status.of(nbytes=nbytes, cancelled=self._cancelled, external=self._external)

    @property
    def status(self) -> Status:
        """The number of bytes written or read, for `Status.Get_count`."""
        return self._value if isinstance(self._value, Status) else super().status

    def cancel(self) -> bool:
        """Stop between two pieces (MPI_Cancel); collective operations go on, because other processes need them."""
        if self._stop is None or self._done:
            return False
        self._stop.asked = True
        return True

    def withdraw(self) -> None:
        self.cancel()

    def quiescent(self) -> bool:
        """Return True once no thread uses the memory of the operation any more."""
        if self._stop is not None:
            self.cancel()
            return self._done
        return True
