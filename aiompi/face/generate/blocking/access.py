"""Reads and writes of files of the blocking face (MPI-4.1, chapter 14)."""

from __future__ import annotations

from sys import modules
from typing import ClassVar, TypeVar

from aiompi import file as core
from aiompi.driver.threads import ASYNCIO_EVENTS, loop_is_running
from aiompi.engine import Request as EngineRequest
from aiompi.face.blocking.process import check_running_loop, process, wait
from aiompi.face.blocking.requests import Request
from aiompi.face.files import FileCalls
from aiompi.status import Status, check_status
from aiompi.typing import BufSpec

T = TypeVar("T")


class Access(FileCalls):
    """The common part of reads and writes of a file. The call that meets an error raises it."""

    __slots__ = ()

    _gated: ClassVar[bool] = True

    @property
    def _admitted(self) -> core.File:
        """The file, for a call that does not wait."""
        process.check_thread()
        return self._core

    def _entered(self, call: str) -> core.File:
        """Return the file for a call that waits.

        Args:
            call: the same call in the asyncio face, such as "Write_all(buf)".
        """
        check_loop(call)
        process.check_thread()
        return self._core

    def _finish(self, request: EngineRequest[T]) -> T:
        """Wait for a request, and return its result."""
        if not request.done():
            wait(request)
        return request.result()

    def _access(self, operation: EngineRequest[Status], status: Status | None) -> None:
        """Wait for an access."""
        if status is not None:
            check_status(status)
        result = self._finish(operation)
        if status is not None:
            status.assign(result)


class ExplicitOffsets(Access):
    """Accesses at offsets that the program gives (section 14.4.2)."""

    __slots__ = ()


class IndividualPointer(Access):
    """Accesses at the pointer of this process, which moves on at once (section 14.4.3)."""

    __slots__ = ()


class SharedPointer(Access):
    """Accesses at the pointer that all processes share (section 14.4.4)."""

    __slots__ = ()


class SplitCollectives(Access):
    """Collective accesses in two calls, one access at a time on a file (section 14.4.5)."""

    __slots__ = ()


def check_loop(call: str) -> None:
    """Refuse a call that blocks in a thread whose event loop is running."""
    if ASYNCIO_EVENTS in modules and loop_is_running():
        check_running_loop(f"File.{call.partition('(')[0]}", f"await file.{call}")
