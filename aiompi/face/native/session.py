"""Sessions of the asyncio face (chapter 11 of MPI-4)."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

from aiompi import hooks
from aiompi.base.public import public
from aiompi.comm.errhandler import Errhandler
from aiompi.engine import AwaitableCall, Request
from aiompi.face.native.job import rank_of_loop
from aiompi.face.session import SessionCalls
from aiompi.info import INFO_NULL, Info
from aiompi.job.runtime import Runtime


@public
@hooks.surface
class Session(SessionCalls):
    __doc__ = SessionCalls.__doc__

    __slots__ = ("_arguments",)

    _arguments: tuple[Info, Errhandler | None]

    def __new__(cls, session: Session | None = None) -> Self:
        return cls._another(Session, session)

    @classmethod
    def Init(cls, info: Info = INFO_NULL, errhandler: Errhandler | None = None) -> Self:
        """Return a session that opens when it is awaited, or entered by `async with` (MPI_Session_init).

        async with aiompi.Session.Init() as session:
                group = session.Create_group("mpi://WORLD")
                comm = await aiompi.Intracomm.Create_from_group(group, "org.example.solver")

        The session belongs to the rank of the running event loop. If the loop has no rank, the process becomes the rank
        for which the launcher has started it. The process stays this rank when its last session ends, so that it can
        open other sessions.

        Args:
            info: hints, which `Get_info` returns.
            errhandler: error handler of the session.

        Returns:
            The session, which opens when it is awaited or entered.

        Raises:
            LocalProtocolError: awaiting it: several ranks use this event loop.
            JobAbortedError: awaiting it: the job cannot be joined.
        """
        session = cls()
        session._arguments = info, errhandler
        return session

    async def _begin(self) -> Self:
        runtime = await rank_of_loop()
        return self._open(runtime, "MPI_THREAD_FUNNELED", *self._arguments)

    def __await__(self) -> Generator[Any, None, Self]:
        return self._begin().__await__()

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self and error is None and self._core.engine.error is None:
            await self.Finalize()
        elif self:
            session = self._closing()
            session.runtime.sessions.open.discard(session)

    def Finalize(self) -> AwaitableCall[None]:
        """Close the session; its handle is null at once (MPI_Session_finalize).

        Communication on its communicators must be complete. If the World of the process has not been finalized, the
        process remains a rank of its job. If the World has been finalized, the request of the last session completes
        when the other ranks have ended communication, too.

        Returns:
            A request that is complete when the session has ended.

        Raises:
            InvalidSessionError: the handle is null.
        """
        session = self._closing()
        session.engine.driver.check_thread()
        runtime: Runtime = session.runtime
        return AwaitableCall(runtime.sessions.end(session), "Session.Finalize")

    def Detach_buffer(self) -> Request[Any]:
        """Take the attached memory back when the messages in it have left (MPI_Session_detach_buffer, MPI-4.1).

        Returns:
            A request whose result is the object that was attached.

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        return self._core.attachment.detach()

    def Flush_buffer(self) -> Request[None]:
        """Wait until the messages in the attached buffer have left (MPI_Session_flush_buffer, MPI-4.1).

        Returns:
            A request.

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        return self._core.attachment.flush()
