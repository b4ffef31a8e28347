"""The common part of the sessions of both faces (chapter 11 of MPI-4): process sets, hints, buffers, error handlers."""

from __future__ import annotations

from typing import Final, NoReturn, Self, TypeVar

from aiompi.base.arguments import integer, text
from aiompi.base.opaque import Reference
from aiompi.comm import Group
from aiompi.comm.errhandler import Errhandler
from aiompi.comm.session import SessionState
from aiompi.datatype.buffer.address import BufferAutomatic
from aiompi.errors import InvalidArgumentError, InvalidSessionError, JobAbortedError
from aiompi.face.common import attach, hints
from aiompi.face.errhandlers import ErrorHandling
from aiompi.info import INFO_NULL, Info
from aiompi.job.runtime import Runtime
from aiompi.typing import BufSpec

C = TypeVar("C", bound=ErrorHandling)

#: name of the hint that every session has
THREAD_LEVEL: Final = "thread_level"
_MEMORY_KINDS: Final = "mpi_memory_alloc_kinds"


class SessionCalls(Reference[SessionState], ErrorHandling):
    """A handle of a session; null if it is made without arguments, and after Finalize.

    Process sets have the names of MPI-4: "mpi://WORLD" has the processes of the job, and "mpi://SELF" this process.
    In addition, there is a set "aiompi://host/NAME" for each machine, and "aiompi://section/NUMBER" for each section of
    the launcher's command line.
    """

    __slots__ = ()

    _kind = SessionState
    _advice = "a session means something only in its own process"

    @property
    def _core(self) -> SessionState:
        """The session, for a call.

        Raises:
            InvalidSessionError: the handle is null.
        """
        if self._denoted is None:
            raise InvalidSessionError("the session is SESSION_NULL: there is none behind it, or it was finalized")
        return self._denoted

    def _open(self, runtime: Runtime, level: str, info: Info, errhandler: Errhandler | None) -> Self:
        """Be a handle of a new session of a rank that has started."""
        session = runtime.sessions.begin()
        session.hints = {**info_items(info), THREAD_LEVEL: level, _MEMORY_KINDS: "mpi,system"}
        self._denoted = session
        if errhandler is not None:
            self.Set_errhandler(errhandler)
        return self

    def _closing(self) -> SessionState:
        """Make the handle null, and return the session."""
        session, self._denoted = self._core, None
        return session

    def _abort(self, code: int) -> NoReturn:
        """End the job: the error handler of the session is ERRORS_ARE_FATAL."""
        runtime: Runtime = self._core.runtime
        reason = f"the error handler of a session of rank {runtime.engine.rank} is ERRORS_ARE_FATAL"
        runtime.abort(code, reason)
        if runtime.launched:
            runtime.exit(code)
        raise JobAbortedError(reason)

    def Get_num_psets(self, info: Info = INFO_NULL) -> int:
        """Return the number of process sets of which this process is a member (MPI_Session_get_num_psets).

        Args:
            info: ignored.

        Returns:
            The number.
        """
        return len(self._own_psets())

    def Get_nth_pset(self, n: int, info: Info = INFO_NULL) -> str:
        """Return the name of a process set of which this process is a member (MPI_Session_get_nth_pset).

        Args:
            n: 0..`Get_num_psets()`-1.
            info: ignored.

        Returns:
            The name.

        Raises:
            InvalidArgumentError: the number is out of range.
        """
        names = self._own_psets()
        if not 0 <= integer(n, "Get_nth_pset: n") < len(names):
            raise InvalidArgumentError(f"Get_nth_pset: {n} is not in 0..{len(names) - 1}")
        return names[n]

    def Get_info(self) -> Info:
        """Return the hints of the session, "thread_level" among them (MPI_Session_get_info).

        Returns:
            A copy of the hints.
        """
        return Info.Create(self._core.hints)

    def Get_pset_info(self, pset_name: str) -> Info:
        """Return what is known of a process set: its size as "mpi_size" (MPI_Session_get_pset_info).

        Args:
            pset_name: name of a process set.

        Returns:
            An Info with the key `mpi_size`.

        Raises:
            InvalidArgumentError: there is no such process set.
        """
        return Info.Create({"mpi_size": str(len(self._members(pset_name, "Get_pset_info")))})

    def Create_group(self, pset_name: str) -> Group:
        """Return the group of a process set (MPI_Group_from_session_pset). This process need not be a member.

        Args:
            pset_name: name of a process set, such as "mpi://WORLD".

        Returns:
            The group.

        Raises:
            InvalidArgumentError: there is no such process set.
        """
        members = self._members(pset_name, "Create_group")
        return Group.of(members, self._core.engine.rank, self._core)

    def _own_psets(self) -> list[str]:
        core = self._core
        return [name for name, members in core.runtime.sessions.psets().items() if core.engine.rank in members]

    def _members(self, name: str, call: str) -> list[int]:
        psets: dict[str, list[int]] = self._core.runtime.sessions.psets()
        members = psets.get(text(name, f"{call}: pset_name"))
        if members is None:
            raise InvalidArgumentError(f"{call}: there is no process set {name!r}, only {', '.join(psets)}")
        return members

    def Attach_buffer(self, buf: BufSpec | BufferAutomatic | None) -> None:
        """Give memory to buffered sends on communicators of the session (MPI_Session_attach_buffer, MPI-4.1).

        Args:
            buf: writable memory. Each message takes its length and BSEND_OVERHEAD bytes of it. None: each message gets
                new memory.

        Raises:
            InvalidBufferError: a buffer is attached already, or `buf` is read-only.
        """
        attach(self._core.attachment, buf)


def info_items(info: Info) -> dict[str, str]:
    """Return the hints that a call gets; INFO_NULL has none."""
    return {} if info == INFO_NULL else hints(info)


def of_group(comm: C, info: Info, errhandler: Errhandler | None) -> C:
    """Set the hints and the error handler of a communicator that was made from a group; return the communicator."""
    comm._core.hints = info_items(info)
    if errhandler is not None:
        comm.Set_errhandler(errhandler)
    return comm
