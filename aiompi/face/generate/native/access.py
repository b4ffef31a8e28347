"""Reads and writes of files of the asyncio face (MPI-4.1, chapter 14)."""

from __future__ import annotations

from aiompi import file as core
from aiompi.engine import AwaitableCall, Request
from aiompi.face.files import FileCalls
from aiompi.file import POINTER
from aiompi.status import Status
from aiompi.typing import BufSpec


class Access(FileCalls):
    """Base class of the reads and writes of a file; each access starts at once.

    Offsets and positions count elementary types of the view. The result is the Status; its `Get_count` tells how much
    was read or written. A read gets less than it asks for only at the end of the file. The call itself raises errors of
    arguments. The await raises errors of the file, and all errors of collective accesses. When the await of a
    noncollective access is cancelled, the access stops between two pieces. A write has then written all bytes before
    the place where it stopped.
    """

    __slots__ = ()

    @property
    def _admitted(self) -> core.File:
        """The file, for a call. A thread that may not make calls gets an error."""
        file = self._core
        file.comm.engine.driver.check_thread()
        return file


class ExplicitOffsets(Access):
    """Accesses at offsets that the program gives (section 14.4.2)."""

    __slots__ = ()

    def Read_at(self, offset: int, buf: BufSpec) -> AwaitableCall[Status]:
        """Read into a buffer at an offset (MPI_File_read_at).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        file = self._admitted
        return AwaitableCall(file.independent(buf, offset, writing=False, at_once=True), "File.Read_at")

    def Iread_at(self): ...

    def Read_at_all(self, offset: int, buf: BufSpec) -> AwaitableCall[Status]:
        """Read into a buffer at an offset; collective (MPI_File_read_at_all).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: awaiting it: the buffer specification is wrong in a
                process.
            FileError: awaiting it: a process had an error in this call, or made a different call on the file.
        """
        return AwaitableCall(self._admitted.collective(buf, offset, writing=False, at_once=True), "File.Read_at_all")

    def Iread_at_all(self): ...

    def Write_at(self, offset: int, buf: BufSpec) -> AwaitableCall[Status]:
        """Write a buffer at an offset (MPI_File_write_at).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        file = self._admitted
        return AwaitableCall(file.independent(buf, offset, writing=True, at_once=True), "File.Write_at")

    def Iwrite_at(self): ...

    def Write_at_all(self, offset: int, buf: BufSpec) -> AwaitableCall[Status]:
        """Write a buffer at an offset; collective (MPI_File_write_at_all).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: awaiting it: the buffer specification is wrong in a
                process.
            FileError: awaiting it: a process had an error in this call, or made a different call on the file.
        """
        return AwaitableCall(self._admitted.collective(buf, offset, writing=True, at_once=True), "File.Write_at_all")

    def Iwrite_at_all(self): ...


class IndividualPointer(Access):
    """Accesses at the pointer of this process, which moves on at once (section 14.4.3)."""

    __slots__ = ()

    def Read(self, buf: BufSpec) -> AwaitableCall[Status]:
        """Read into a buffer at the pointer of this process (MPI_File_read).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        return AwaitableCall(self._admitted.independent(buf, POINTER, writing=False, at_once=True), "File.Read")

    def Iread(self): ...

    def Read_all(self, buf: BufSpec) -> AwaitableCall[Status]:
        """Read into a buffer at the pointer of each process; collective (MPI_File_read_all).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: awaiting it: the buffer specification is wrong in a
                process.
            FileError: awaiting it: a process had an error in this call, or made a different call on the file.
        """
        return AwaitableCall(self._admitted.collective(buf, POINTER, writing=False, at_once=True), "File.Read_all")

    def Iread_all(self): ...

    def Write(self, buf: BufSpec) -> AwaitableCall[Status]:
        """Write a buffer at the pointer of this process (MPI_File_write).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        return AwaitableCall(self._admitted.independent(buf, POINTER, writing=True, at_once=True), "File.Write")

    def Iwrite(self): ...

    def Write_all(self, buf: BufSpec) -> AwaitableCall[Status]:
        """Write a buffer at the pointer of each process; collective (MPI_File_write_all).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: awaiting it: the buffer specification is wrong in a
                process.
            FileError: awaiting it: a process had an error in this call, or made a different call on the file.
        """
        return AwaitableCall(self._admitted.collective(buf, POINTER, writing=True, at_once=True), "File.Write_all")

    def Iwrite_all(self): ...


class SharedPointer(Access):
    """Accesses at the pointer that all processes share (section 14.4.4)."""

    __slots__ = ()

    def Read_shared(self, buf: BufSpec) -> AwaitableCall[Status]:
        """Read into a buffer at the pointer that all processes share (MPI_File_read_shared).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        return AwaitableCall(self._admitted.by_shared_pointer(buf, writing=False, at_once=True), "File.Read_shared")

    def Iread_shared(self): ...

    def Read_ordered(self, buf: BufSpec) -> AwaitableCall[Status]:
        """Read into a buffer at the shared pointer, in rank order; collective (MPI_File_read_ordered).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: awaiting it: the buffer specification is wrong in a
                process.
            FileError: awaiting it: a process had an error in this call, or made a different call on the file.
        """
        return AwaitableCall(self._admitted.ordered(buf, writing=False, at_once=True), "File.Read_ordered")

    def Write_shared(self, buf: BufSpec) -> AwaitableCall[Status]:
        """Write a buffer at the pointer that all processes share (MPI_File_write_shared).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        return AwaitableCall(self._admitted.by_shared_pointer(buf, writing=True, at_once=True), "File.Write_shared")

    def Iwrite_shared(self): ...

    def Write_ordered(self, buf: BufSpec) -> AwaitableCall[Status]:
        """Write a buffer at the shared pointer, in rank order; collective (MPI_File_write_ordered).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: awaiting it: the buffer specification is wrong in a
                process.
            FileError: awaiting it: a process had an error in this call, or made a different call on the file.
        """
        return AwaitableCall(self._admitted.ordered(buf, writing=True, at_once=True), "File.Write_ordered")


class SplitCollectives(Access):
    """Collective accesses in two calls, one access at a time on a file (section 14.4.5)."""

    __slots__ = ()

    def Read_at_all_begin(self): ...

    def Read_at_all_end(self): ...

    def Read_all_begin(self): ...

    def Read_all_end(self): ...

    def Read_ordered_begin(self): ...

    def Read_ordered_end(self): ...

    def Write_at_all_begin(self): ...

    def Write_at_all_end(self): ...

    def Write_all_begin(self): ...

    def Write_all_end(self): ...

    def Write_ordered_begin(self): ...

    def Write_ordered_end(self): ...
