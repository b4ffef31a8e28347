"""Files of the blocking face (MPI-4.1, chapter 14)."""

from __future__ import annotations

from typing import Any, Final, Self, TypeVar

from aiompi import file as core
from aiompi.base.arguments import instance, integer, text
from aiompi.base.public import public
from aiompi.datatype import BYTE, Datatype
from aiompi.face.blocking.access import ExplicitOffsets, IndividualPointer, SharedPointer, SplitCollectives, check_loop
from aiompi.face.blocking.communicator import Intracomm
from aiompi.face.common import hints
from aiompi.face.files import types_of
from aiompi.file.modes import MODE_RDONLY, SEEK_SET
from aiompi.info import INFO_NULL, Info
from aiompi.typing import FileName

__all__ = ["FILE_NULL", "File", "Register_datarep"]

T = TypeVar("T")


@public
class File(ExplicitOffsets, IndividualPointer, SharedPointer, SplitCollectives):
    """A file that the processes of a communicator read and write (MPI-4.1, chapter 14), with mpi4py's names.

    Args:
        file: the file to which the new handle refers; None for a null handle.
    """

    __slots__ = ()

    def __new__(cls, file: File | None = None) -> Self:
        return cls._another(File, file)

    def Open(cls, comm, filename, amode, info):
        admitted = instance(comm, Intracomm, "File.Open: comm", "an intracommunicator")._entered("File.Open(...)")
        return cls._denote(comm._finish(core.open_file(admitted, filename, amode, lambda: hints(info) if info else {})))

    def free(self) -> None:
        """Call `Close` unless the handle is null (MPI_File_close).

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        if self:
            self.Close()

    @classmethod
    def Delete(cls, filename: FileName, info: Info = INFO_NULL) -> None:
        """Delete a file (MPI_File_delete).

        Args:
            filename: path of the file.
            info: hints, which are ignored.

        Raises:
            FileError: the file cannot be deleted; the error class is for example ERR_NO_SUCH_FILE.
        """
        check_loop("Delete(filename)")
        core.delete(filename)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self.Get_size()

    @property
    def atomicity(self) -> bool:
        """Whether accesses of different processes happen one after the other."""
        return self.Get_atomicity()

    @atomicity.setter
    def atomicity(self, flag: bool) -> None:
        self.Set_atomicity(flag)


def Register_datarep(datarep: str, read_fn: Any, write_fn: Any, extent_fn: Any) -> None:
    """Give another name to the native representation of data, in this process (MPI_Register_datarep).

    Args:
        datarep: the name.
        read_fn, write_fn: None; functions that convert data are not called.
        extent_fn: ignored, since extents are those of the native representation.

    Raises:
        FileError: ERR_DUP_DATAREP if a representation has this name already; ERR_CONVERSION if functions are given.
    """
    core.register_datarep(text(datarep, "Register_datarep: datarep"), read_fn, write_fn)


FILE_NULL: Final = File()

File._constants = {"FILE_NULL": FILE_NULL}
