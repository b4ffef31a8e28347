"""Files of the asyncio face (MPI-4.1, chapter 14)."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from aiompi import file as core
from aiompi.base.arguments import instance, integer
from aiompi.datatype import BYTE, Datatype
from aiompi.driver.aio import in_thread
from aiompi.engine import Owned, Request
from aiompi.face.common import hints
from aiompi.face.files import FileCalls, offset_of, types_of
from aiompi.face.native.communicator import Intracomm
from aiompi.file.modes import MODE_RDONLY, SEEK_SET
from aiompi.info import INFO_NULL, Info
from aiompi.status import Status
from aiompi.typing import BufSpec, FileName


class Access(FileCalls):
    """Reads and writes of a file; each starts at once.

    Offsets and positions count elementary types of the view. The result is the Status, whose `Get_count` tells how much
    was read or written: less was read only at the end of the file. Errors of arguments are raised by the call itself,
    errors of the file by the await. An access that is not collective ends between two pieces when its await is
    cancelled; the bytes before are written.
    """

    __slots__ = ()

    @property
    def _admitted(self) -> core.File:
        """The file, for a call; refused to threads that may not make calls."""
        file = self._core
        file.comm.engine.driver.check_thread()
        return file

    # Explicit offsets (section 14.4.2).

    def Read_at(self, offset: int, buf: BufSpec) -> Owned[Status]:
        """Read into a buffer at an offset (MPI_File_read_at).

        Args:
            offset: in elementary types of the view.
            buf: a buffer specification, writable.
        """
        file = self._admitted
        return Owned(file.independent(buf, offset_of(offset), writing=False, at_once=True), "File.Read_at")

    def Iread_at(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start a `Read_at` (MPI_File_iread_at)."""
        return self._admitted.independent(buf, offset_of(offset), writing=False)

    def Read_at_all(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Read into a buffer at an offset; collective (MPI_File_read_at_all)."""
        return self._admitted.collective(buf, offset_of(offset), writing=False, at_once=True)

    def Iread_at_all(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start a `Read_at_all` (MPI_File_iread_at_all)."""
        return self._admitted.collective(buf, offset_of(offset), writing=False)

    def Write_at(self, offset: int, buf: BufSpec) -> Owned[Status]:
        """Write a buffer at an offset (MPI_File_write_at).

        Args:
            offset: in elementary types of the view.
            buf: a buffer specification.
        """
        file = self._admitted
        return Owned(file.independent(buf, offset_of(offset), writing=True, at_once=True), "File.Write_at")

    def Iwrite_at(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start a `Write_at` (MPI_File_iwrite_at)."""
        return self._admitted.independent(buf, offset_of(offset), writing=True)

    def Write_at_all(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Write a buffer at an offset; collective (MPI_File_write_at_all)."""
        return self._admitted.collective(buf, offset_of(offset), writing=True, at_once=True)

    def Iwrite_at_all(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start a `Write_at_all` (MPI_File_iwrite_at_all)."""
        return self._admitted.collective(buf, offset_of(offset), writing=True)

    # The pointer of this process, which moves on at once (section 14.4.3).

    def Read(self, buf: BufSpec) -> Owned[Status]:
        """Read into a buffer at the pointer of this process (MPI_File_read)."""
        return Owned(self._admitted.independent(buf, None, writing=False, at_once=True), "File.Read")

    def Iread(self, buf: BufSpec) -> Request[Status]:
        """Start a `Read` (MPI_File_iread)."""
        return self._admitted.independent(buf, None, writing=False)

    def Read_all(self, buf: BufSpec) -> Request[Status]:
        """Read into a buffer at the pointer of each process; collective (MPI_File_read_all)."""
        return self._admitted.collective(buf, None, writing=False, at_once=True)

    def Iread_all(self, buf: BufSpec) -> Request[Status]:
        """Start a `Read_all` (MPI_File_iread_all)."""
        return self._admitted.collective(buf, None, writing=False)

    def Write(self, buf: BufSpec) -> Owned[Status]:
        """Write a buffer at the pointer of this process (MPI_File_write)."""
        return Owned(self._admitted.independent(buf, None, writing=True, at_once=True), "File.Write")

    def Iwrite(self, buf: BufSpec) -> Request[Status]:
        """Start a `Write` (MPI_File_iwrite)."""
        return self._admitted.independent(buf, None, writing=True)

    def Write_all(self, buf: BufSpec) -> Request[Status]:
        """Write a buffer at the pointer of each process; collective (MPI_File_write_all)."""
        return self._admitted.collective(buf, None, writing=True, at_once=True)

    def Iwrite_all(self, buf: BufSpec) -> Request[Status]:
        """Start a `Write_all` (MPI_File_iwrite_all)."""
        return self._admitted.collective(buf, None, writing=True)

    # The shared pointer (section 14.4.4).

    def Read_shared(self, buf: BufSpec) -> Owned[Status]:
        """Read into a buffer at the pointer that all processes share (MPI_File_read_shared)."""
        return Owned(self._admitted.by_shared_pointer(buf, writing=False, at_once=True), "File.Read_shared")

    def Iread_shared(self, buf: BufSpec) -> Request[Status]:
        """Start a `Read_shared` (MPI_File_iread_shared)."""
        return self._admitted.by_shared_pointer(buf, writing=False)

    def Read_ordered(self, buf: BufSpec) -> Request[Status]:
        """Read into a buffer at the shared pointer, in rank order; collective (MPI_File_read_ordered)."""
        return self._admitted.ordered(buf, writing=False, at_once=True)

    def Write_shared(self, buf: BufSpec) -> Owned[Status]:
        """Write a buffer at the pointer that all processes share (MPI_File_write_shared)."""
        return Owned(self._admitted.by_shared_pointer(buf, writing=True, at_once=True), "File.Write_shared")

    def Iwrite_shared(self, buf: BufSpec) -> Request[Status]:
        """Start a `Write_shared` (MPI_File_iwrite_shared)."""
        return self._admitted.by_shared_pointer(buf, writing=True)

    def Write_ordered(self, buf: BufSpec) -> Request[Status]:
        """Write a buffer at the shared pointer, in rank order; collective (MPI_File_write_ordered)."""
        return self._admitted.ordered(buf, writing=True, at_once=True)

    # Split collectives (section 14.4.5): one at a time on a file.

    def Read_at_all_begin(self, offset: int, buf: BufSpec) -> None:
        """Begin a `Read_at_all` (MPI_File_read_at_all_begin).

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Read_at_all", lambda: file.collective(buf, offset_of(offset), writing=False))

    def Read_at_all_end(self, buf: BufSpec) -> Request[Status]:
        """Return the `Read_at_all` that was begun, to be awaited (MPI_File_read_at_all_end).

        Args:
            buf: the buffer that was given to `Read_at_all_begin`.

        Raises:
            LocalProtocolError: none was begun.
        """
        return self._admitted.end("Read_at_all")

    def Read_all_begin(self, buf: BufSpec) -> None:
        """Begin a `Read_all` (MPI_File_read_all_begin).

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Read_all", lambda: file.collective(buf, None, writing=False))

    def Read_all_end(self, buf: BufSpec) -> Request[Status]:
        """Return the `Read_all` that was begun, to be awaited (MPI_File_read_all_end).

        Args:
            buf: the buffer that was given to `Read_all_begin`.

        Raises:
            LocalProtocolError: none was begun.
        """
        return self._admitted.end("Read_all")

    def Read_ordered_begin(self, buf: BufSpec) -> None:
        """Begin a `Read_ordered` (MPI_File_read_ordered_begin).

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Read_ordered", lambda: file.ordered(buf, writing=False))

    def Read_ordered_end(self, buf: BufSpec) -> Request[Status]:
        """Return the `Read_ordered` that was begun, to be awaited (MPI_File_read_ordered_end).

        Args:
            buf: the buffer that was given to `Read_ordered_begin`.

        Raises:
            LocalProtocolError: none was begun.
        """
        return self._admitted.end("Read_ordered")

    def Write_at_all_begin(self, offset: int, buf: BufSpec) -> None:
        """Begin a `Write_at_all` (MPI_File_write_at_all_begin).

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Write_at_all", lambda: file.collective(buf, offset_of(offset), writing=True))

    def Write_at_all_end(self, buf: BufSpec) -> Request[Status]:
        """Return the `Write_at_all` that was begun, to be awaited (MPI_File_write_at_all_end).

        Args:
            buf: the buffer that was given to `Write_at_all_begin`.

        Raises:
            LocalProtocolError: none was begun.
        """
        return self._admitted.end("Write_at_all")

    def Write_all_begin(self, buf: BufSpec) -> None:
        """Begin a `Write_all` (MPI_File_write_all_begin).

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Write_all", lambda: file.collective(buf, None, writing=True))

    def Write_all_end(self, buf: BufSpec) -> Request[Status]:
        """Return the `Write_all` that was begun, to be awaited (MPI_File_write_all_end).

        Args:
            buf: the buffer that was given to `Write_all_begin`.

        Raises:
            LocalProtocolError: none was begun.
        """
        return self._admitted.end("Write_all")

    def Write_ordered_begin(self, buf: BufSpec) -> None:
        """Begin a `Write_ordered` (MPI_File_write_ordered_begin).

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Write_ordered", lambda: file.ordered(buf, writing=True))

    def Write_ordered_end(self, buf: BufSpec) -> Request[Status]:
        """Return the `Write_ordered` that was begun, to be awaited (MPI_File_write_ordered_end).

        Args:
            buf: the buffer that was given to `Write_ordered_begin`.

        Raises:
            LocalProtocolError: none was begun.
        """
        return self._admitted.end("Write_ordered")


class File(Access):
    """A file that the processes of a communicator read and write (MPI-4.1, chapter 14); FILE_NULL without arguments.

        async with await aiompi.File.Open(comm, "data", MPI.MODE_CREATE | MPI.MODE_WRONLY) as file:
            await file.Write_at_all(comm.rank * len(block), block)

    Calls that the standard makes collective are called by all processes of the file, and fail in all of them alike. An
    exception that leaves the `async with` closes the file in this process, without the others.
    """

    __slots__ = ()

    def __new__(cls, file: File | None = None) -> Self:
        return cls._another(File, file)

    @classmethod
    def Open(
        cls, comm: Intracomm, filename: FileName, amode: int = MODE_RDONLY, info: Info = INFO_NULL
    ) -> Request[Self]:
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
            FileError: awaiting it: the file cannot be opened, or the modes differ or contradict themselves.
        """
        given = hints(info) if info else {}
        admitted = instance(comm, Intracomm, "File.Open: comm", "an intracommunicator")._admitted
        opening = core.open_file(admitted, filename, integer(amode, "File.Open: amode"), given)

        async def opened() -> Self:
            return cls._denote(await opening)

        return admitted.engine.spawn(opened())

    def Close(self) -> Request[None]:
        """Close the file, whose handle is null at once; collective (MPI_File_close).

        What was started on the file is completed first.
        """
        request = self._admitted.close()
        self._denoted = None
        return request

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self and error is None:
            await self.Close()
        elif self:  # the others may not come
            self._admitted.abandon()
            self._denoted = None

    @classmethod
    async def Delete(cls, filename: FileName, info: Info = INFO_NULL) -> None:
        """Delete a file (MPI_File_delete).

        Args:
            filename: path of the file.
            info: hints, which are ignored.

        Raises:
            FileError: it cannot be deleted, for example ERR_NO_SUCH_FILE.
        """
        await in_thread(lambda: core.delete(filename))

    # Size (section 14.2).

    def Set_size(self, size: int) -> Request[None]:
        """Set the size; collective (MPI_File_set_size).

        Args:
            size: bytes; the same in all processes.
        """
        return self._admitted.set_size(integer(size, "Set_size: size"))

    def Preallocate(self, size: int) -> Request[None]:
        """Reserve room for the first bytes of the file; collective (MPI_File_preallocate).

        Args:
            size: bytes; a shorter file gets this size.
        """
        return self._admitted.preallocate(integer(size, "Preallocate: size"))

    def Get_size(self) -> Request[int]:
        """Return the size of the file in bytes (MPI_File_get_size)."""
        return self._admitted.size(at_once=True)

    def Sync(self) -> Request[None]:
        """Have all that was written reach the disk; collective (MPI_File_sync)."""
        return self._admitted.sync()

    # Views (section 14.3).

    def Set_view(
        self,
        disp: int = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        datarep: str = "native",
        info: Info = INFO_NULL,
    ) -> Request[None]:
        """Set what this process sees of the file, and go to its start; collective (MPI_File_set_view).

        Args:
            disp: bytes before the first file type.
            etype: elementary type, in which offsets count; of the same extent in all processes.
            filetype: file type, which is repeated from `disp` on and made of elementary types; by default `etype`.
            datarep: "native", "internal", which is the same, or "external32"; the same in all processes.
            info: see `Open`.

        Raises:
            InvalidTypeError, InvalidArgumentError, FileError: awaiting it: an argument is wrong in a process.
        """
        file = self._admitted
        given = hints(info) if info else {}
        return file.set_view(integer(disp, "Set_view: disp"), *types_of(etype, filetype), datarep, given)

    # Pointers (sections 14.4.3 and 14.4.4).

    def Seek(self, offset: int, whence: int = SEEK_SET) -> Request[None]:
        """Move the pointer of this process (MPI_File_seek); at once, but with SEEK_END.

        Args:
            offset: elementary types, from the place that `whence` names.
            whence: SEEK_SET, SEEK_CUR or SEEK_END: the start of the view, the pointer, the end of the file.
        """
        return self._admitted.seek(integer(offset, "Seek: offset"), whence, at_once=True)

    def Seek_shared(self, offset: int, whence: int = SEEK_SET) -> Request[None]:
        """Move the shared pointer; collective (MPI_File_seek_shared).

        Args:
            offset, whence: see `Seek`; the same in all processes.
        """
        return self._admitted.seek_shared(integer(offset, "Seek_shared: offset"), whence)

    def Get_position_shared(self) -> Request[int]:
        """Return the position of the shared pointer, in elementary types (MPI_File_get_position_shared)."""
        return self._admitted.shared_position(at_once=True)

    def Set_atomicity(self, flag: bool) -> Request[None]:
        """Set whether accesses of different processes happen one after the other (MPI_File_set_atomicity).

        Collective. Accesses then lock the bytes between their first and their last one.

        Args:
            flag: True if they do; the same in all processes.
        """
        return self._admitted.set_atomicity(bool(flag))


FILE_NULL: Final = File()

File._constants = {"FILE_NULL": FILE_NULL}
