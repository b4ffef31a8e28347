"""Files of the asyncio face (MPI-4.1, chapter 14)."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from aiompi import file as core
from aiompi.base.arguments import instance, integer
from aiompi.base.public import public
from aiompi.datatype import BYTE, Datatype
from aiompi.driver.aio import in_thread
from aiompi.engine import AwaitableCall
from aiompi.face.common import hints
from aiompi.face.files import types_of
from aiompi.face.native.access import ExplicitOffsets, IndividualPointer, SharedPointer, SplitCollectives
from aiompi.face.native.communicator import Intracomm
from aiompi.file.modes import MODE_RDONLY, SEEK_SET
from aiompi.info import INFO_NULL, Info
from aiompi.typing import FileName


@public
class File(ExplicitOffsets, IndividualPointer, SharedPointer, SplitCollectives):
    """A file that the processes of a communicator read and write (MPI-4.1, chapter 14); FILE_NULL without arguments.

        async with aiompi.File.Open(comm, "data", MPI.MODE_CREATE | MPI.MODE_WRONLY) as file:
            await file.Write_at_all(comm.rank * len(block), block)

    All processes of the file make the calls that are collective in the standard, and such a call fails in all of them
    or in none. An exception that leaves the `async with` closes the file in this process only.
    """

    __slots__ = ()

    def __new__(cls, file: File | None = None) -> Self:
        return cls._another(File, file)

    @classmethod
    def Open(
        cls, comm: Intracomm, filename: FileName, amode: int = MODE_RDONLY, info: Info = INFO_NULL
    ) -> AwaitableCall[Self]:
        """Open a file; all processes of the communicator call it (MPI_File_open).

        Args:
            comm: the communicator; its processes reach the file by the same name.
            filename: path of the file.
            amode: one of MODE_RDONLY, MODE_WRONLY and MODE_RDWR, added to any of MODE_CREATE, MODE_EXCL,
                MODE_DELETE_ON_CLOSE, MODE_UNIQUE_OPEN, MODE_SEQUENTIAL and MODE_APPEND; the same in all processes.
            info: hints: cb_nodes, cb_buffer_size, collective_buffering, romio_cb_write, romio_cb_read.

        Returns:
            The request; its result is the file.

        Raises:
            InvalidCommError: the communicator is null, or an intercommunicator.
            FileError: awaiting it: the file cannot be opened, or the modes differ between processes or contradict
                themselves.
            TypeError: awaiting it: an argument is of a wrong type.
        """
        admitted = instance(comm, Intracomm, "File.Open: comm", "an intracommunicator")._admitted
        opening = core.open_file(admitted, filename, amode, lambda: hints(info) if info else {})

        async def opened() -> Self:
            return cls._denote(await opening)

        return AwaitableCall(admitted.engine.spawn(opened()), "File.Open")

    def Close(self) -> AwaitableCall[None]:
        """Close the file, whose handle is null at once; collective (MPI_File_close).

        Operations that were started on the file are completed first.
        """
        file = self._admitted
        self._denoted = None
        return AwaitableCall(file.close(), "File.Close")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self and error is None:
            await self.Close()
        elif self:  # the other processes may not make the call
            self._admitted.abandon()
            self._denoted = None

    @classmethod
    async def Delete(cls, filename: FileName, info: Info = INFO_NULL) -> None:
        """Delete a file (MPI_File_delete).

        Args:
            filename: path of the file.
            info: hints, which are ignored.

        Raises:
            FileError: the file cannot be deleted; the error class is for example ERR_NO_SUCH_FILE.
        """
        await in_thread(lambda: core.delete(filename))

    # Size (section 14.2).

    def Set_size(self, size: int) -> AwaitableCall[None]:
        """Set the size; collective (MPI_File_set_size).

        Args:
            size: bytes; the same in all processes.

        Raises:
            InvalidArgumentError, FileError: awaiting it: the size is wrong in a process, or differs between processes.
        """
        return AwaitableCall(self._admitted.set_size(size), "File.Set_size")

    def Preallocate(self, size: int) -> AwaitableCall[None]:
        """Reserve room for the first bytes of the file; collective (MPI_File_preallocate).

        Args:
            size: bytes, the same in all processes; a shorter file gets this size.

        Raises:
            InvalidArgumentError, FileError: awaiting it: the size is wrong in a process, or differs between processes.
        """
        return AwaitableCall(self._admitted.preallocate(size), "File.Preallocate")

    def Get_size(self) -> AwaitableCall[int]:
        """Return the size of the file in bytes (MPI_File_get_size).

        Returns:
            A request whose result is the size in bytes.
        """
        return AwaitableCall(self._admitted.size(at_once=True), "File.Get_size")

    def Sync(self) -> AwaitableCall[None]:
        """Make all written data reach the disk; collective (MPI_File_sync)."""
        return AwaitableCall(self._admitted.sync(), "File.Sync")

    # Views (section 14.3).

    def Set_view(
        self,
        disp: int = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        datarep: str = "native",
        info: Info = INFO_NULL,
    ) -> AwaitableCall[None]:
        """Choose the part of the file that this process sees, and go to its start; collective (MPI_File_set_view).

        Args:
            disp: bytes before the first file type.
            etype: elementary type, the unit of offsets; its extent is the same in all processes.
            filetype: file type, made of elementary types; the view repeats it from `disp` on. By default it is `etype`.
            datarep: "native", "internal" (which means the same), or "external32"; the same in all processes.
            info: see `Open`.

        Raises:
            InvalidTypeError, InvalidArgumentError, FileError: awaiting it: an argument is wrong in a process.
        """
        request = self._admitted.set_view(
            disp, *types_of(etype, filetype), datarep, lambda: hints(info) if info else {}
        )
        return AwaitableCall(request, "File.Set_view")

    # Pointers (sections 14.4.3 and 14.4.4).

    def Seek(self, offset: int, whence: int = SEEK_SET) -> AwaitableCall[None]:
        """Move the pointer of this process (MPI_File_seek); complete at once, except with SEEK_END.

        Args:
            offset: elementary types, from the place that `whence` names.
            whence: SEEK_SET, SEEK_CUR or SEEK_END: the start of the view, the pointer, the end of the file.

        Raises:
            InvalidArgumentError: awaiting it: the position would be negative or above 2**63 - 1.
        """
        return AwaitableCall(self._admitted.seek(integer(offset, "Seek: offset"), whence, at_once=True), "File.Seek")

    def Seek_shared(self, offset: int, whence: int = SEEK_SET) -> AwaitableCall[None]:
        """Move the shared pointer; collective (MPI_File_seek_shared).

        Args:
            offset: see `Seek`; the same in all processes.
            whence: see `Seek`; the same in all processes.

        Raises:
            InvalidArgumentError, FileError: awaiting it: an argument is wrong in a process, or differs between
                processes.
        """
        return AwaitableCall(self._admitted.seek_shared(offset, whence), "File.Seek_shared")

    def Get_position_shared(self) -> AwaitableCall[int]:
        """Return the position of the shared pointer, in elementary types (MPI_File_get_position_shared).

        Returns:
            A request whose result is the position, in elementary types of the view.
        """
        return AwaitableCall(self._admitted.shared_position(at_once=True), "File.Get_position_shared")

    def Set_atomicity(self, flag: bool) -> AwaitableCall[None]:
        """Set whether accesses of different processes happen one after the other (MPI_File_set_atomicity).

        Collective. With a true flag, each access locks all bytes from its first to its last one.

        Args:
            flag: True if accesses happen one after the other; the same in all processes.

        Raises:
            FileError: awaiting it: the flags differ.
        """
        return AwaitableCall(self._admitted.set_atomicity(flag), "File.Set_atomicity")


FILE_NULL: Final = File()

File._constants = {"FILE_NULL": FILE_NULL}
