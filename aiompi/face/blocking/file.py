"""Files of the blocking face (MPI-4.1, chapter 14); `aiompi.face.native.file` describes the arguments."""

from __future__ import annotations

from sys import modules
from typing import Any, ClassVar, Final, Self, TypeVar

from aiompi import file as core
from aiompi.base.arguments import instance, integer, text
from aiompi.datatype import BYTE, Datatype
from aiompi.driver.threads import ASYNCIO_EVENTS, loop_is_running
from aiompi.engine import Request as EngineRequest
from aiompi.face.blocking.communicator import Intracomm
from aiompi.face.blocking.process import check_running_loop, process, wait
from aiompi.face.blocking.requests import Request
from aiompi.face.common import hints
from aiompi.face.files import FileCalls, offset_of, types_of
from aiompi.file.modes import MODE_RDONLY, SEEK_SET
from aiompi.info import INFO_NULL, Info
from aiompi.status import Status, check_status
from aiompi.typing import BufSpec, FileName

__all__ = ["FILE_NULL", "File", "Register_datarep"]

T = TypeVar("T")


class Access(FileCalls):
    """Reads and writes of a file; errors are raised by the call that meets them."""

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
        _check_loop(call)
        process.check_thread()
        return self._core

    def _access(self, operation: EngineRequest[Status], status: Status | None) -> None:
        """Wait for an access."""
        if status is not None:
            check_status(status)
        result = _finish(operation)
        if status is not None:
            status.assign(result)

    # Explicit offsets (section 14.4.2).

    def Read_at(self, offset: int, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at an offset (MPI_File_read_at)."""
        file = self._entered("Read_at(offset, buf)")
        self._access(file.independent(buf, offset_of(offset), writing=False, at_once=True), status)

    def Iread_at(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start a `Read_at` (MPI_File_iread_at)."""
        return Request._denote(self._admitted.independent(buf, offset_of(offset), writing=False))

    def Read_at_all(self, offset: int, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at an offset; collective (MPI_File_read_at_all)."""
        file = self._entered("Read_at_all(offset, buf)")
        self._access(file.collective(buf, offset_of(offset), writing=False, at_once=True), status)

    def Iread_at_all(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start a `Read_at_all` (MPI_File_iread_at_all)."""
        return Request._denote(self._admitted.collective(buf, offset_of(offset), writing=False))

    def Write_at(self, offset: int, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at an offset (MPI_File_write_at)."""
        file = self._entered("Write_at(offset, buf)")
        self._access(file.independent(buf, offset_of(offset), writing=True, at_once=True), status)

    def Iwrite_at(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start a `Write_at` (MPI_File_iwrite_at)."""
        return Request._denote(self._admitted.independent(buf, offset_of(offset), writing=True))

    def Write_at_all(self, offset: int, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at an offset; collective (MPI_File_write_at_all)."""
        file = self._entered("Write_at_all(offset, buf)")
        self._access(file.collective(buf, offset_of(offset), writing=True, at_once=True), status)

    def Iwrite_at_all(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start a `Write_at_all` (MPI_File_iwrite_at_all)."""
        return Request._denote(self._admitted.collective(buf, offset_of(offset), writing=True))

    # The pointer of this process (section 14.4.3).

    def Read(self, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at the pointer of this process (MPI_File_read)."""
        self._access(self._entered("Read(buf)").independent(buf, None, writing=False, at_once=True), status)

    def Iread(self, buf: BufSpec) -> Request[Status]:
        """Start a `Read` (MPI_File_iread)."""
        return Request._denote(self._admitted.independent(buf, None, writing=False))

    def Read_all(self, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at the pointer of each process; collective (MPI_File_read_all)."""
        self._access(self._entered("Read_all(buf)").collective(buf, None, writing=False, at_once=True), status)

    def Iread_all(self, buf: BufSpec) -> Request[Status]:
        """Start a `Read_all` (MPI_File_iread_all)."""
        return Request._denote(self._admitted.collective(buf, None, writing=False))

    def Write(self, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at the pointer of this process (MPI_File_write)."""
        self._access(self._entered("Write(buf)").independent(buf, None, writing=True, at_once=True), status)

    def Iwrite(self, buf: BufSpec) -> Request[Status]:
        """Start a `Write` (MPI_File_iwrite)."""
        return Request._denote(self._admitted.independent(buf, None, writing=True))

    def Write_all(self, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at the pointer of each process; collective (MPI_File_write_all)."""
        self._access(self._entered("Write_all(buf)").collective(buf, None, writing=True, at_once=True), status)

    def Iwrite_all(self, buf: BufSpec) -> Request[Status]:
        """Start a `Write_all` (MPI_File_iwrite_all)."""
        return Request._denote(self._admitted.collective(buf, None, writing=True))

    # The shared pointer (section 14.4.4).

    def Read_shared(self, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at the pointer that all processes share (MPI_File_read_shared)."""
        self._access(self._entered("Read_shared(buf)").by_shared_pointer(buf, writing=False, at_once=True), status)

    def Iread_shared(self, buf: BufSpec) -> Request[Status]:
        """Start a `Read_shared` (MPI_File_iread_shared)."""
        return Request._denote(self._admitted.by_shared_pointer(buf, writing=False))

    def Read_ordered(self, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at the shared pointer, in rank order; collective (MPI_File_read_ordered)."""
        self._access(self._entered("Read_ordered(buf)").ordered(buf, writing=False, at_once=True), status)

    def Write_shared(self, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at the pointer that all processes share (MPI_File_write_shared)."""
        self._access(self._entered("Write_shared(buf)").by_shared_pointer(buf, writing=True, at_once=True), status)

    def Iwrite_shared(self, buf: BufSpec) -> Request[Status]:
        """Start a `Write_shared` (MPI_File_iwrite_shared)."""
        return Request._denote(self._admitted.by_shared_pointer(buf, writing=True))

    def Write_ordered(self, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at the shared pointer, in rank order; collective (MPI_File_write_ordered)."""
        self._access(self._entered("Write_ordered(buf)").ordered(buf, writing=True, at_once=True), status)

    # Split collectives (section 14.4.5).

    def Read_at_all_begin(self, offset: int, buf: BufSpec) -> None:
        """Begin a `Read_at_all` (MPI_File_read_at_all_begin)."""
        file = self._admitted
        file.begin("Read_at_all", lambda: file.collective(buf, offset_of(offset), writing=False))

    def Read_at_all_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Wait for the `Read_at_all` that was begun (MPI_File_read_at_all_end)."""
        self._access(self._entered("Read_at_all_end(buf)").end("Read_at_all"), status)

    def Read_all_begin(self, buf: BufSpec) -> None:
        """Begin a `Read_all` (MPI_File_read_all_begin)."""
        file = self._admitted
        file.begin("Read_all", lambda: file.collective(buf, None, writing=False))

    def Read_all_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Wait for the `Read_all` that was begun (MPI_File_read_all_end)."""
        self._access(self._entered("Read_all_end(buf)").end("Read_all"), status)

    def Read_ordered_begin(self, buf: BufSpec) -> None:
        """Begin a `Read_ordered` (MPI_File_read_ordered_begin)."""
        file = self._admitted
        file.begin("Read_ordered", lambda: file.ordered(buf, writing=False))

    def Read_ordered_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Wait for the `Read_ordered` that was begun (MPI_File_read_ordered_end)."""
        self._access(self._entered("Read_ordered_end(buf)").end("Read_ordered"), status)

    def Write_at_all_begin(self, offset: int, buf: BufSpec) -> None:
        """Begin a `Write_at_all` (MPI_File_write_at_all_begin)."""
        file = self._admitted
        file.begin("Write_at_all", lambda: file.collective(buf, offset_of(offset), writing=True))

    def Write_at_all_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Wait for the `Write_at_all` that was begun (MPI_File_write_at_all_end)."""
        self._access(self._entered("Write_at_all_end(buf)").end("Write_at_all"), status)

    def Write_all_begin(self, buf: BufSpec) -> None:
        """Begin a `Write_all` (MPI_File_write_all_begin)."""
        file = self._admitted
        file.begin("Write_all", lambda: file.collective(buf, None, writing=True))

    def Write_all_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Wait for the `Write_all` that was begun (MPI_File_write_all_end)."""
        self._access(self._entered("Write_all_end(buf)").end("Write_all"), status)

    def Write_ordered_begin(self, buf: BufSpec) -> None:
        """Begin a `Write_ordered` (MPI_File_write_ordered_begin)."""
        file = self._admitted
        file.begin("Write_ordered", lambda: file.ordered(buf, writing=True))

    def Write_ordered_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Wait for the `Write_ordered` that was begun (MPI_File_write_ordered_end)."""
        self._access(self._entered("Write_ordered_end(buf)").end("Write_ordered"), status)


class File(Access):
    """A file that the processes of a communicator read and write (MPI-4.1, chapter 14), with mpi4py's names.

    Args:
        file: to be another handle of; None for a null handle.
    """

    __slots__ = ()

    def __new__(cls, file: File | None = None) -> Self:
        return cls._another(File, file)

    @classmethod
    def Open(cls, comm: Intracomm, filename: FileName, amode: int = MODE_RDONLY, info: Info = INFO_NULL) -> Self:
        """Open a file; all processes of the communicator call it (MPI_File_open)."""
        if not process.initialized and comm:
            process.start()
            return cls.Open(comm, filename, amode, info)  # looked up again: from now on, calls may be wrapped
        admitted = instance(comm, Intracomm, "File.Open: comm", "an intracommunicator")._entered("File.Open(...)")
        given = hints(info) if info else {}
        return cls._denote(_finish(core.open_file(admitted, filename, integer(amode, "File.Open: amode"), given)))

    def Close(self) -> None:
        """Close the file; its handle is then null; collective (MPI_File_close)."""
        request = self._entered("Close()").close()
        self._denoted = None
        _finish(request)

    def free(self) -> None:
        """Call `Close` unless the handle is null."""
        if self:
            self.Close()

    @classmethod
    def Delete(cls, filename: FileName, info: Info = INFO_NULL) -> None:
        """Delete a file (MPI_File_delete)."""
        _check_loop("Delete(filename)")
        core.delete(filename)

    # Size (section 14.2).

    def Set_size(self, size: int) -> None:
        """Set the size in bytes; collective (MPI_File_set_size)."""
        _finish(self._entered("Set_size(size)").set_size(integer(size, "Set_size: size")))

    def Preallocate(self, size: int) -> None:
        """Reserve room for the first bytes of the file; collective (MPI_File_preallocate)."""
        _finish(self._entered("Preallocate(size)").preallocate(integer(size, "Preallocate: size")))

    def Get_size(self) -> int:
        """Return the size of the file in bytes (MPI_File_get_size)."""
        return _finish(self._entered("Get_size()").size(at_once=True))

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self.Get_size()

    def Sync(self) -> None:
        """Have all that was written reach the disk; collective (MPI_File_sync)."""
        _finish(self._entered("Sync()").sync())

    # Views (section 14.3).

    def Set_view(
        self,
        disp: int = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        datarep: str = "native",
        info: Info = INFO_NULL,
    ) -> None:
        """Set what this process sees of the file, and go to its start; collective (MPI_File_set_view)."""
        file = self._entered("Set_view(...)")
        given = hints(info) if info else {}
        _finish(file.set_view(integer(disp, "Set_view: disp"), *types_of(etype, filetype), datarep, given))

    # Pointers (sections 14.4.3 and 14.4.4).

    def Seek(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the pointer of this process (MPI_File_seek)."""
        _finish(self._entered("Seek(offset)").seek(integer(offset, "Seek: offset"), whence, at_once=True))

    def Seek_shared(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the shared pointer; collective, with the same arguments (MPI_File_seek_shared)."""
        _finish(self._entered("Seek_shared(offset)").seek_shared(integer(offset, "Seek_shared: offset"), whence))

    def Get_position_shared(self) -> int:
        """Return the position of the shared pointer, in elementary types (MPI_File_get_position_shared)."""
        return _finish(self._entered("Get_position_shared()").shared_position(at_once=True))

    # Settings.

    def Set_atomicity(self, flag: bool) -> None:
        """Set whether accesses of different processes happen one after the other (MPI_File_set_atomicity)."""
        _finish(self._entered("Set_atomicity(flag)").set_atomicity(bool(flag)))

    @property
    def atomicity(self) -> bool:
        """Whether accesses of different processes happen one after the other."""
        return self.Get_atomicity()

    @atomicity.setter
    def atomicity(self, flag: bool) -> None:
        self.Set_atomicity(flag)


def _check_loop(call: str) -> None:
    """Refuse a call that blocks in a thread whose event loop is running."""
    if ASYNCIO_EVENTS in modules and loop_is_running():
        check_running_loop(f"File.{call.partition('(')[0]}", f"await file.{call}")


def _finish(request: EngineRequest[T]) -> T:
    """Wait for a request, and return its result."""
    if not request.done():
        wait(request)
    return request.result()


def Register_datarep(datarep: str, read_fn: Any, write_fn: Any, extent_fn: Any) -> None:
    """Give another name to the native representation of data, in this process (MPI_Register_datarep).

    Args:
        datarep: the name.
        read_fn, write_fn: None; functions that convert data are not called.
        extent_fn: ignored, since extents are those of the native representation.

    Raises:
        FileError: ERR_DUP_DATAREP: there is such a representation; ERR_CONVERSION: there are functions.
    """
    core.register_datarep(text(datarep, "Register_datarep: datarep"), read_fn, write_fn)


FILE_NULL: Final = File()

File._constants = {"FILE_NULL": FILE_NULL}
