# Written by aiompi/face/generate from native/file.py, generate/blocking/file.py: edit these files.
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

    @classmethod
    def Open(cls, comm: Intracomm, filename: FileName, amode: int = MODE_RDONLY, info: Info = INFO_NULL) -> Self:
        """Open a file; all processes of the communicator call it (MPI_File_open).

        Args:
            comm: the communicator; its processes reach the file by the same name.
            filename: path of the file.
            amode: one of MODE_RDONLY, MODE_WRONLY and MODE_RDWR, added to any of MODE_CREATE, MODE_EXCL,
                MODE_DELETE_ON_CLOSE, MODE_UNIQUE_OPEN, MODE_SEQUENTIAL and MODE_APPEND; the same in all processes.
            info: hints: cb_nodes, cb_buffer_size, collective_buffering, romio_cb_write, romio_cb_read.

        Returns:
            The file.

        Raises:
            InvalidCommError: the communicator is null, or an intercommunicator.
            FileError: the file cannot be opened, or the modes differ between processes or contradict themselves.
            TypeError: an argument is of a wrong type.
            BlockingCallError: an event loop is running in this thread.
        """
        admitted = instance(comm, Intracomm, "File.Open: comm", "an intracommunicator")._entered("File.Open(...)")
        return cls._denote(comm._finish(core.open_file(admitted, filename, amode, lambda: hints(info) if info else {})))

    def Close(self) -> None:
        """Close the file, whose handle is null at once; collective (MPI_File_close).

        Operations that were started on the file are completed first.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        file = self._entered("Close()")
        self._denoted = None
        self._finish(file.close())

    # Size (section 14.2).

    def Set_size(self, size: int) -> None:
        """Set the size; collective (MPI_File_set_size).

        Args:
            size: bytes; the same in all processes.

        Raises:
            InvalidArgumentError, FileError: the size is wrong in a process, or differs between processes.
            BlockingCallError: an event loop is running in this thread.
        """
        self._finish(self._entered("Set_size(size)").set_size(size))

    def Preallocate(self, size: int) -> None:
        """Reserve room for the first bytes of the file; collective (MPI_File_preallocate).

        Args:
            size: bytes, the same in all processes; a shorter file gets this size.

        Raises:
            InvalidArgumentError, FileError: the size is wrong in a process, or differs between processes.
            BlockingCallError: an event loop is running in this thread.
        """
        self._finish(self._entered("Preallocate(size)").preallocate(size))

    def Get_size(self) -> int:
        """Return the size of the file in bytes (MPI_File_get_size).

        Returns:
            The size in bytes.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        return self._finish(self._entered("Get_size()").size(at_once=True))

    def Sync(self) -> None:
        """Make all written data reach the disk; collective (MPI_File_sync).

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._finish(self._entered("Sync()").sync())

    # Views (section 14.3).

    def Set_view(
        self,
        disp: int = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        datarep: str = "native",
        info: Info = INFO_NULL,
    ) -> None:
        """Choose the part of the file that this process sees, and go to its start; collective (MPI_File_set_view).

        Args:
            disp: bytes before the first file type.
            etype: elementary type, the unit of offsets; its extent is the same in all processes.
            filetype: file type, made of elementary types; the view repeats it from `disp` on. By default it is `etype`.
            datarep: "native", "internal" (which means the same), or "external32"; the same in all processes.
            info: see `Open`.

        Raises:
            InvalidTypeError, InvalidArgumentError, FileError: an argument is wrong in a process.
            BlockingCallError: an event loop is running in this thread.
        """
        request = self._entered("Set_view(disp, etype, filetype, datarep, info)").set_view(
            disp, *types_of(etype, filetype), datarep, lambda: hints(info) if info else {}
        )
        self._finish(request)

    # Pointers (sections 14.4.3 and 14.4.4).

    def Seek(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the pointer of this process (MPI_File_seek); complete at once, except with SEEK_END.

        Args:
            offset: elementary types, from the place that `whence` names.
            whence: SEEK_SET, SEEK_CUR or SEEK_END: the start of the view, the pointer, the end of the file.

        Raises:
            InvalidArgumentError: the position would be negative or above 2**63 - 1.
            BlockingCallError: an event loop is running in this thread.
        """
        self._finish(self._entered("Seek(offset, whence)").seek(integer(offset, "Seek: offset"), whence, at_once=True))

    def Seek_shared(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the shared pointer; collective (MPI_File_seek_shared).

        Args:
            offset: see `Seek`; the same in all processes.
            whence: see `Seek`; the same in all processes.

        Raises:
            InvalidArgumentError, FileError: an argument is wrong in a process, or differs between processes.
            BlockingCallError: an event loop is running in this thread.
        """
        self._finish(self._entered("Seek_shared(offset, whence)").seek_shared(offset, whence))

    def Get_position_shared(self) -> int:
        """Return the position of the shared pointer, in elementary types (MPI_File_get_position_shared).

        Returns:
            The position, in elementary types of the view.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        return self._finish(self._entered("Get_position_shared()").shared_position(at_once=True))

    def Set_atomicity(self, flag: bool) -> None:
        """Set whether accesses of different processes happen one after the other (MPI_File_set_atomicity).

        Collective. With a true flag, each access locks all bytes from its first to its last one.

        Args:
            flag: True if accesses happen one after the other; the same in all processes.

        Raises:
            FileError: the flags differ.
            BlockingCallError: an event loop is running in this thread.
        """
        self._finish(self._entered("Set_atomicity(flag)").set_atomicity(flag))


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
