# Written by aiompi/face/generate from native/access.py, generate/blocking/access.py: edit these files.
"""Reads and writes of files of the blocking face (MPI-4.1, chapter 14)."""

from __future__ import annotations

from sys import modules
from typing import ClassVar, TypeVar

from aiompi import file as core
from aiompi.driver.threads import ASYNCIO_EVENTS, loop_is_running
from aiompi.engine import Request as EngineRequest
from aiompi.face.blocking.process import check_running_loop, process, wait
from aiompi.face.blocking.requests import Request
from aiompi.face.files import FileCalls
from aiompi.file import POINTER
from aiompi.status import Status, check_status
from aiompi.typing import BufSpec

T = TypeVar("T")


class Access(FileCalls):
    """The common part of reads and writes of a file. The call that meets an error raises it."""

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
        check_loop(call)
        process.check_thread()
        return self._core

    def _finish(self, request: EngineRequest[T]) -> T:
        """Wait for a request, and return its result."""
        if not request.done():
            wait(request)
        return request.result()

    def _access(self, operation: EngineRequest[Status], status: Status | None) -> None:
        """Wait for an access."""
        if status is not None:
            check_status(status)
        result = self._finish(operation)
        if status is not None:
            status.assign(result)


class ExplicitOffsets(Access):
    """Accesses at offsets that the program gives (section 14.4.2)."""

    __slots__ = ()

    def Read_at(self, offset: int, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at an offset (MPI_File_read_at).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a writable buffer specification, not to be touched before the read is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            BlockingCallError: an event loop is running in this thread.
        """
        file = self._entered("Read_at(offset, buf)")
        self._access(file.independent(buf, offset, writing=False, at_once=True), status)

    def Iread_at(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start to read into a buffer at an offset (MPI_File_iread_at).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        file = self._admitted
        return Request._denote(file.independent(buf, offset, writing=False))

    def Read_at_all(self, offset: int, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at an offset; collective (MPI_File_read_at_all).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a writable buffer specification, not to be touched before the read is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(
            self._entered("Read_at_all(offset, buf)").collective(buf, offset, writing=False, at_once=True), status
        )

    def Iread_at_all(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start to read into a buffer at an offset; collective (MPI_File_iread_at_all).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: completing it: the buffer specification is wrong in
                a process.
            FileError: completing it: a process had an error in this call, or made a different call on the file.
        """
        return Request._denote(self._admitted.collective(buf, offset, writing=False))

    def Write_at(self, offset: int, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at an offset (MPI_File_write_at).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a buffer specification, not to be changed before the write is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            BlockingCallError: an event loop is running in this thread.
        """
        file = self._entered("Write_at(offset, buf)")
        self._access(file.independent(buf, offset, writing=True, at_once=True), status)

    def Iwrite_at(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start to write a buffer at an offset (MPI_File_iwrite_at).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        file = self._admitted
        return Request._denote(file.independent(buf, offset, writing=True))

    def Write_at_all(self, offset: int, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at an offset; collective (MPI_File_write_at_all).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a buffer specification, not to be changed before the write is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(
            self._entered("Write_at_all(offset, buf)").collective(buf, offset, writing=True, at_once=True), status
        )

    def Iwrite_at_all(self, offset: int, buf: BufSpec) -> Request[Status]:
        """Start to write a buffer at an offset; collective (MPI_File_iwrite_at_all).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: completing it: the buffer specification is wrong in
                a process.
            FileError: completing it: a process had an error in this call, or made a different call on the file.
        """
        return Request._denote(self._admitted.collective(buf, offset, writing=True))


class IndividualPointer(Access):
    """Accesses at the pointer of this process, which moves on at once (section 14.4.3)."""

    __slots__ = ()

    def Read(self, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at the pointer of this process (MPI_File_read).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Read(buf)").independent(buf, POINTER, writing=False, at_once=True), status)

    def Iread(self, buf: BufSpec) -> Request[Status]:
        """Start to read into a buffer at the pointer of this process (MPI_File_iread).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        return Request._denote(self._admitted.independent(buf, POINTER, writing=False))

    def Read_all(self, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at the pointer of each process; collective (MPI_File_read_all).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Read_all(buf)").collective(buf, POINTER, writing=False, at_once=True), status)

    def Iread_all(self, buf: BufSpec) -> Request[Status]:
        """Start to read into a buffer at the pointer of each process; collective (MPI_File_iread_all).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: completing it: the buffer specification is wrong in
                a process.
            FileError: completing it: a process had an error in this call, or made a different call on the file.
        """
        return Request._denote(self._admitted.collective(buf, POINTER, writing=False))

    def Write(self, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at the pointer of this process (MPI_File_write).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Write(buf)").independent(buf, POINTER, writing=True, at_once=True), status)

    def Iwrite(self, buf: BufSpec) -> Request[Status]:
        """Start to write a buffer at the pointer of this process (MPI_File_iwrite).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        return Request._denote(self._admitted.independent(buf, POINTER, writing=True))

    def Write_all(self, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at the pointer of each process; collective (MPI_File_write_all).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Write_all(buf)").collective(buf, POINTER, writing=True, at_once=True), status)

    def Iwrite_all(self, buf: BufSpec) -> Request[Status]:
        """Start to write a buffer at the pointer of each process; collective (MPI_File_iwrite_all).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: completing it: the buffer specification is wrong in
                a process.
            FileError: completing it: a process had an error in this call, or made a different call on the file.
        """
        return Request._denote(self._admitted.collective(buf, POINTER, writing=True))


class SharedPointer(Access):
    """Accesses at the pointer that all processes share (section 14.4.4)."""

    __slots__ = ()

    def Read_shared(self, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at the pointer that all processes share (MPI_File_read_shared).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Read_shared(buf)").by_shared_pointer(buf, writing=False, at_once=True), status)

    def Iread_shared(self, buf: BufSpec) -> Request[Status]:
        """Start to read into a buffer at the pointer that all processes share (MPI_File_iread_shared).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        return Request._denote(self._admitted.by_shared_pointer(buf, writing=False))

    def Read_ordered(self, buf: BufSpec, status: Status | None = None) -> None:
        """Read into a buffer at the shared pointer, in rank order; collective (MPI_File_read_ordered).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Read_ordered(buf)").ordered(buf, writing=False, at_once=True), status)

    def Write_shared(self, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at the pointer that all processes share (MPI_File_write_shared).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Write_shared(buf)").by_shared_pointer(buf, writing=True, at_once=True), status)

    def Iwrite_shared(self, buf: BufSpec) -> Request[Status]:
        """Start to write a buffer at the pointer that all processes share (MPI_File_iwrite_shared).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
        """
        return Request._denote(self._admitted.by_shared_pointer(buf, writing=True))

    def Write_ordered(self, buf: BufSpec, status: Status | None = None) -> None:
        """Write a buffer at the shared pointer, in rank order; collective (MPI_File_write_ordered).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Write_ordered(buf)").ordered(buf, writing=True, at_once=True), status)


class SplitCollectives(Access):
    """Collective accesses in two calls, one access at a time on a file (section 14.4.5)."""

    __slots__ = ()

    def Read_at_all_begin(self, offset: int, buf: BufSpec) -> None:
        """Begin a `Read_at_all`; `Read_at_all_end` raises the other errors (MPI_File_read_at_all_begin).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a writable buffer specification, not to be touched before the read is complete.

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Read_at_all", lambda: file.collective(buf, offset, writing=False))

    def Read_at_all_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Complete the `Read_at_all` that was begun (MPI_File_read_at_all_end).

        Args:
            buf: the buffer that was given to `Read_at_all_begin`.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            LocalProtocolError: none was begun.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Read_at_all_end(buf)").end("Read_at_all"), status)

    def Read_all_begin(self, buf: BufSpec) -> None:
        """Begin a `Read_all`; `Read_all_end` raises the other errors (MPI_File_read_all_begin).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Read_all", lambda: file.collective(buf, POINTER, writing=False))

    def Read_all_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Complete the `Read_all` that was begun (MPI_File_read_all_end).

        Args:
            buf: the buffer that was given to `Read_all_begin`.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            LocalProtocolError: none was begun.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Read_all_end(buf)").end("Read_all"), status)

    def Read_ordered_begin(self, buf: BufSpec) -> None:
        """Begin a `Read_ordered`; `Read_ordered_end` raises the other errors (MPI_File_read_ordered_begin).

        Args:
            buf: a writable buffer specification, not to be touched before the read is complete.

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Read_ordered", lambda: file.ordered(buf, writing=False))

    def Read_ordered_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Complete the `Read_ordered` that was begun (MPI_File_read_ordered_end).

        Args:
            buf: the buffer that was given to `Read_ordered_begin`.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            LocalProtocolError: none was begun.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Read_ordered_end(buf)").end("Read_ordered"), status)

    def Write_at_all_begin(self, offset: int, buf: BufSpec) -> None:
        """Begin a `Write_at_all`; `Write_at_all_end` raises the other errors (MPI_File_write_at_all_begin).

        Args:
            offset: in elementary types of the view, from its beginning.
            buf: a buffer specification, not to be changed before the write is complete.

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Write_at_all", lambda: file.collective(buf, offset, writing=True))

    def Write_at_all_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Complete the `Write_at_all` that was begun (MPI_File_write_at_all_end).

        Args:
            buf: the buffer that was given to `Write_at_all_begin`.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            LocalProtocolError: none was begun.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Write_at_all_end(buf)").end("Write_at_all"), status)

    def Write_all_begin(self, buf: BufSpec) -> None:
        """Begin a `Write_all`; `Write_all_end` raises the other errors (MPI_File_write_all_begin).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Write_all", lambda: file.collective(buf, POINTER, writing=True))

    def Write_all_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Complete the `Write_all` that was begun (MPI_File_write_all_end).

        Args:
            buf: the buffer that was given to `Write_all_begin`.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            LocalProtocolError: none was begun.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Write_all_end(buf)").end("Write_all"), status)

    def Write_ordered_begin(self, buf: BufSpec) -> None:
        """Begin a `Write_ordered`; `Write_ordered_end` raises the other errors (MPI_File_write_ordered_begin).

        Args:
            buf: a buffer specification, not to be changed before the write is complete.

        Raises:
            LocalProtocolError: another split collective is in progress on the file.
        """
        file = self._admitted
        file.begin("Write_ordered", lambda: file.ordered(buf, writing=True))

    def Write_ordered_end(self, buf: BufSpec, status: Status | None = None) -> None:
        """Complete the `Write_ordered` that was begun (MPI_File_write_ordered_end).

        Args:
            buf: the buffer that was given to `Write_ordered_begin`.
            status: filled with the number of bytes that were read or written; its `Get_count` converts it to elements.

        Raises:
            LocalProtocolError: none was begun.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong in a process.
            FileError: a process had an error in this call, or made a different call on the file.
            BlockingCallError: an event loop is running in this thread.
        """
        self._access(self._entered("Write_ordered_end(buf)").end("Write_ordered"), status)


def check_loop(call: str) -> None:
    """Refuse a call that blocks in a thread whose event loop is running."""
    if ASYNCIO_EVENTS in modules and loop_is_running():
        check_running_loop(f"File.{call.partition('(')[0]}", f"await file.{call}")
