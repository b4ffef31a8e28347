"""Sessions of the blocking face (chapter 11 of MPI-4)."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

from aiompi import hooks
from aiompi.base.public import public
from aiompi.comm.errhandler import Errhandler
from aiompi.constants import THREAD_SINGLE
from aiompi.errors import InvalidInfoValueError
from aiompi.face.blocking.process import check_running_loop, process
from aiompi.face.blocking.requests import Request
from aiompi.face.session import THREAD_LEVEL, SessionCalls, info_items
from aiompi.info import INFO_NULL, Info
from aiompi.settings import THREAD_LEVELS

__all__ = ["SESSION_NULL", "Session"]

_LEVELS: Final = [f"MPI_THREAD_{level.upper()}" for level in THREAD_LEVELS]


@public
@hooks.surface
class Session(SessionCalls):
    __doc__ = SessionCalls.__doc__

    __slots__ = ()

    _gated: ClassVar[bool] = True

    def __new__(cls, session: Session | None = None) -> Self:
        return cls._another(Session, session)

    @classmethod
    def Init(cls, info: Info = INFO_NULL, errhandler: Errhandler | None = None) -> Self:
        """Open a session (MPI_Session_init). The first call joins the job, and returns when every rank has joined.

        A process may open any number of sessions, at once or one after the other, before and beside the World Model.
        After Finalize, a process may open sessions as long as a session from before Finalize is open.

        Args:
            info: hints. "thread_level" asks for a thread level such as "MPI_THREAD_MULTIPLE" (see `Init_thread`). This
                hint counts only if the process has not joined its job yet.
            errhandler: error handler of the session.

        Raises:
            InvalidInfoValueError: there is no such thread level.
        """
        check_running_loop("Session.Init", "await aiompi.Session.Init()")
        wanted = info_items(info).get(THREAD_LEVEL, _LEVELS[THREAD_SINGLE])
        if wanted not in _LEVELS:
            raise InvalidInfoValueError(f"Session.Init: {THREAD_LEVEL} is {wanted!r}: expected one of {_LEVELS}")
        runtime = process.join(_LEVELS.index(wanted))
        with process.driver.exclusive("Init"):
            return cls()._open(runtime, _LEVELS[process.driver.level], info, errhandler)

    def Finalize(self) -> None:
        """Close the session; its handle is then null (MPI_Session_finalize).

        Communication on its communicators must be complete. The process remains a rank of its job, unless Finalize has
        been called: then the end of the last session waits for the other ranks.

        Raises:
            InvalidSessionError: the handle is null.
        """
        check_running_loop("Session.Finalize", "await session.Finalize()")
        process.close_session(self._closing())

    def free(self) -> None:
        """Call `Finalize` unless the handle is null."""
        if self:
            self.Finalize()

    def Detach_buffer(self) -> Any:
        """Take the attached memory back when the messages in it have left (MPI_Session_detach_buffer, MPI-4.1).

        Returns:
            The object that was attached.

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        check_running_loop("Session.Detach_buffer", "await session.Detach_buffer()")
        return process.driver.wait(self._core.attachment.detach())

    def Flush_buffer(self) -> None:
        """Wait until the messages in the attached buffer have left (MPI_Session_flush_buffer, MPI-4.1).

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        check_running_loop("Session.Flush_buffer", "await session.Flush_buffer()")
        process.driver.wait(self._core.attachment.flush())

    def Iflush_buffer(self) -> Request[None]:
        """Start to wait until the messages in the attached buffer have left (MPI_Session_iflush_buffer, MPI-4.1).

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        return Request._denote(self._core.attachment.flush())


SESSION_NULL: Final = Session()

Session._constants = {"SESSION_NULL": SESSION_NULL}
