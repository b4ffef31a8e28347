"""Files: the calls that both faces share, because they do not wait (MPI-4.1, chapter 14)."""

from __future__ import annotations

from typing import NoReturn, cast

from aiompi import file as core
from aiompi.base.arguments import integer
from aiompi.base.opaque import Reference
from aiompi.comm import Communicator
from aiompi.datatype import Datatype
from aiompi.errors import InvalidArgumentError, JobAbortedError
from aiompi.face.common import Grouped, hints
from aiompi.face.errhandlers import ErrorHandling
from aiompi.info import Info
from aiompi.job.runtime import Runtime


def types_of(etype: Datatype, filetype: Datatype | None) -> tuple[Datatype, Datatype]:
    """Return the elementary type and the file type of a view; the default file type is the elementary type."""
    return etype, etype if filetype is None else filetype


class FileCalls(Reference[core.File], ErrorHandling, Grouped):
    """A handle of a file; null if it is made without arguments, and after the file is closed."""

    __slots__ = ()

    _kind = core.File
    _advice = "a file is open in its own process"

    @property
    def _core(self) -> core.File:
        """The file; `NULL` if the handle is null. `NULL` refuses all calls except those on `Open`'s error handler."""
        return cast(core.File, core.NULL) if self._denoted is None else self._denoted

    @property
    def _owners(self) -> Communicator:
        return self._core.comm

    def Get_view(self) -> tuple[int, Datatype, Datatype, str]:
        """Return the displacement, the elementary type, the file type and the representation (MPI_File_get_view).

        Returns:
            (displacement in bytes, elementary type, file type, data representation).
        """
        view = self._core.view
        return view.disp, Datatype(view.etype), Datatype(view.filetype), view.datarep

    def Get_byte_offset(self, offset: int) -> int:
        """Return the position in the file, in bytes, of an offset of the view (MPI_File_get_byte_offset).

        Args:
            offset: in elementary types of the view.

        Returns:
            The offset in bytes.
        """
        file = self._core
        file.check_positions("File_get_byte_offset")
        if integer(offset, "Get_byte_offset: offset") < 0:
            raise InvalidArgumentError(f"Get_byte_offset: offset is {offset}: expected 0 or more")
        return file.view.position(offset * file.view.unit)

    def Get_type_extent(self, datatype: Datatype) -> int:
        """Return the extent of a type in the file, in bytes (MPI_File_get_type_extent).

        Args:
            datatype: the type.

        Returns:
            The extent in bytes.
        """
        return self._core.view.extent_of(datatype)

    def Get_position(self) -> int:
        """Return the position of the pointer of this process, in elementary types (MPI_File_get_position).

        Returns:
            The position, in elementary types of the view.
        """
        self._core.check_positions("File_get_position")
        return self._core.position

    @property
    def amode(self) -> int:
        """The mode of access with which the file was opened."""
        return self._core.amode

    def Get_amode(self) -> int:
        """Return the mode of access with which the file was opened (MPI_File_get_amode).

        Returns:
            The access mode.
        """
        return self._core.amode

    @property
    def info(self) -> Info:
        """The hints in use (MPI_File_get_info)."""
        return Info.Create(self._core.hints.items(self._core.aggregators))

    @info.setter
    def info(self, info: Info) -> None:
        self.Set_info(info)

    def Set_info(self, info: Info) -> None:
        """Set hints (MPI_File_set_info).

        Args:
            info: the same in all processes of the file; see `Open`.
        """
        self._core.hints.update(hints(info))

    def Get_info(self) -> Info:
        """Return the hints in use (MPI_File_get_info).

        Returns:
            A copy of the hints.
        """
        return self.info

    def Get_atomicity(self) -> bool:
        """Return whether accesses of different processes happen one after the other (MPI_File_get_atomicity).

        Returns:
            True or False.
        """
        return self._core.atomic

    def _abort(self, errorcode: int) -> NoReturn:
        """End the job, because the error handler says so."""
        comm = self._core.comm
        reason = f"the error handler of {self!r} of rank {comm.engine.rank} is ERRORS_ARE_FATAL"
        if comm.session is not None:
            runtime: Runtime = comm.session.runtime
            runtime.abort(errorcode, reason)
            if runtime.launched:
                runtime.exit(errorcode)
        raise JobAbortedError(reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'null' if self._denoted is None else repr(self._denoted.path)}>"
