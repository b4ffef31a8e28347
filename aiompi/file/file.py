"""`File`: an open file of the processes of a communicator (MPI-4.1, chapter 14)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiompi.base.arguments import integer
from aiompi.base.unsupported_errors import ERR_READ_ONLY
from aiompi.comm import Channel
from aiompi.datatype.datatype import Datatype
from aiompi.engine import Request, Schedule
from aiompi.engine.schedule import settled
from aiompi.errors import FileError, InvalidArgumentError, MPIError
from aiompi.file.access import Access, Steps
from aiompi.file.collective import aggregators
from aiompi.file.failures import agree
from aiompi.file.modes import (
    DISPLACEMENT_CURRENT,
    LARGEST,
    MODE_DELETE_ON_CLOSE,
    MODE_RDONLY,
    MODE_SEQUENTIAL,
    SEEK_CUR,
    SEEK_END,
    SEEK_SET,
)
from aiompi.file.view import View

_NUMBER: Final = struct.Struct("<q")


class File(Access):
    """An open file: its size, view, pointers and settings. The base class `Access` reads and writes it.

    A call that all processes make returns a request. If the call fails in one process, the requests of all processes
    fail.
    """

    def close(self) -> Request[None]:
        """Close the file once its operations are complete (MPI_File_close)."""
        pending = self._pending()

        async def run(channel: Channel) -> None:
            await settled(pending)
            try:
                error = await self.attempt(self._release, "File_close")
                await agree(channel, None)  # all have closed it
                if channel.rank == 0:
                    error = error or await self.attempt(self._remove, "File_close")
                await agree(channel, error)
            finally:
                self._release()
                self.comm.release()

        try:
            return self.comm.start(run, "File_close")
        except MPIError:  # the others do not come any more
            self.abandon()
            raise

    def abandon(self) -> None:
        """Close the file in this process alone. The process starts nothing on the file any more."""
        self.comm.release()

        async def run() -> None:
            await settled(self._pending())
            self._release()

        self.comm.engine.spawn(run())

    def _pending(self) -> list[Schedule[Any]]:
        return [schedule for schedule in self.comm.engine.schedules if schedule.owner is self.comm]

    def _release(self) -> None:
        self.shared.close()
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __del__(self) -> None:
        """Close a file that the program never received, because an interrupt or a cancellation ended its `Open`."""
        self._release()

    def _remove(self) -> None:
        self.shared.remove()
        if self.amode & MODE_DELETE_ON_CLOSE:
            os.unlink(self.path)

    # Size (section 14.2).

    def set_size(self, size: object) -> Request[None]:
        """Set the size in bytes (MPI_File_set_size)."""
        return self._resize("File_set_size", size, lambda nbytes: os.ftruncate(self.fd, nbytes))

    def preallocate(self, size: object) -> Request[None]:
        """Reserve disk space for a number of bytes (MPI_File_preallocate)."""
        reserve = lambda nbytes: os.posix_fallocate(self.fd, 0, nbytes) if nbytes else None  # noqa: E731
        return self._resize("File_preallocate", size, reserve)

    def _resize(self, name: str, size: object, work: Callable[[int], object]) -> Request[None]:
        def prepare() -> Steps[None]:
            nbytes = integer(size, "size")
            if not 0 <= nbytes <= LARGEST:
                raise InvalidArgumentError(
                    f"{self.where(name)}: size is {nbytes}: expected a number of bytes, 0 to 2**63 - 1"
                )
            if self.amode & MODE_RDONLY:
                raise FileError(f"{self.where(name)}: the file was opened with MODE_RDONLY", ERR_READ_ONLY)
            return self._by_first(name, str(nbytes), lambda: work(nbytes))

        return self.together(name, prepare)

    def size(self, *, at_once: bool = False) -> Request[int]:
        """Return the size in bytes (MPI_File_get_size)."""
        return self.in_thread("File_get_size", lambda: os.fstat(self.fd).st_size, at_once=at_once)

    def sync(self) -> Request[None]:
        """Flush written data to the disk (MPI_File_sync)."""

        async def run(channel: Channel) -> None:
            await agree(channel, await self.attempt(lambda: os.fsync(self.fd), "File_sync"))

        return self.together("File_sync", lambda: run)

    # Views (section 14.3) and settings.

    def set_view(
        self,
        disp: object,
        etype: Datatype,
        filetype: Datatype,
        datarep: str,
        given: Callable[[], Mapping[str, str]],
    ) -> Request[None]:
        """Set the view of this process, and move its pointer to the start of the view (MPI_File_set_view).

        Args:
            disp: bytes.
            etype, filetype: types.
            datarep: name of the representation of data.
            given: returns the hints.
        """

        async def run(channel: Channel) -> None:
            error: Exception | None = None
            view = self.view
            hints: Mapping[str, str] = {}
            try:
                at = await self._current() if disp == DISPLACEMENT_CURRENT else integer(disp, "disp")
                view, hints = View(at, Datatype(etype), Datatype(filetype), datarep), given()
            except Exception as failed:
                error = failed
            mine = _NUMBER.pack(view.etype.extent) + view.datarep.encode()
            self.check_same(await agree(channel, error, mine), "File_set_view: datarep, or the extent of etype,")
            first = channel.rank == 0
            error = await self.attempt(self.shared.reset, "File_set_view") if first else None
            self.view, self.position, self.shared.start = view, 0, 0
            self.hints.update(hints)
            await agree(channel, error)

        return self.together("File_set_view", lambda: run)

    async def _current(self) -> int:
        """Return where the shared pointer is, in bytes of the file."""
        if not self.amode & MODE_SEQUENTIAL:
            raise InvalidArgumentError(
                f"{self.where('File_set_view')}: DISPLACEMENT_CURRENT is for files opened with MODE_SEQUENTIAL"
            )
        position = await self.in_thread("File_set_view", self.shared.load)
        return self.view.position(position * self.view.unit)

    def set_atomicity(self, flag: object) -> Request[None]:
        """Enter or leave atomic mode, in which accesses happen one after the other (MPI_File_set_atomicity)."""

        def prepare() -> Steps[None]:
            atomic = bool(flag)

            async def run(channel: Channel) -> None:
                self.check_same(await agree(channel, None, bytes([atomic])), "File_set_atomicity: flag")
                self.atomic = atomic

            return run

        return self.together("File_set_atomicity", prepare)

    @property
    def aggregators(self) -> int:
        """Number of ranks that move the data of all in collectives."""
        return len(aggregators(self.comm.hosts or [[rank] for rank in range(self.comm.size)], self.hints.cb_nodes))

    # Pointers (sections 14.4.3 and 14.4.4).

    def seek(self, offset: int, whence: int, *, at_once: bool = False) -> Request[None]:
        """Move the pointer of this process (MPI_File_seek); complete at once, unless `whence` is SEEK_END."""
        self.check_positions("File_seek")

        async def run() -> None:
            if whence == SEEK_END:
                base = self._units(await self.size(at_once=at_once))
            else:
                base = self.position if whence == SEEK_CUR else 0
            self.position = self._sought(base, offset, whence, "File_seek")

        return self.comm.run(run())

    def seek_shared(self, offset: object, whence: object) -> Request[None]:
        """Move the shared pointer (MPI_File_seek_shared)."""
        name = "File_seek_shared"

        def prepare() -> Steps[None]:
            by, origin = integer(offset, "offset"), integer(whence, "whence")

            def move() -> None:
                base = 0
                if origin == SEEK_END:
                    base = self._units(os.fstat(self.fd).st_size)
                elif origin == SEEK_CUR:
                    base = self.shared.load()
                self.shared.store(self._sought(base, by, origin, name))

            return self._by_first(name, f"{by} {origin}", move)

        return self.together(name, prepare)

    def shared_position(self, *, at_once: bool = False) -> Request[int]:
        """Return the position of the shared pointer (MPI_File_get_position_shared)."""
        return self.in_thread("File_get_position_shared", self.shared.load, at_once=at_once)

    def _units(self, size: int) -> int:
        """Return the position, in elementary types, of the end of a file of `size` bytes."""
        return -(-self.view.before(size) // self.view.unit)

    def _sought(self, base: int, offset: int, whence: int, name: str) -> int:
        if whence not in (SEEK_SET, SEEK_CUR, SEEK_END):
            raise InvalidArgumentError(f"{self.where(name)}: whence is {whence}: expected SEEK_SET, SEEK_CUR, SEEK_END")
        if not 0 <= base + offset <= LARGEST:
            raise InvalidArgumentError(
                f"{self.where(name)}: position {base + offset} is not one of 0 to 2**63 - 1, from the start of the view"
            )
        return base + offset

    def _by_first(self, name: str, arguments: str, work: Callable[[], object]) -> Steps[None]:
        """Return the steps of a collective call whose work only rank 0 does; all processes give the same arguments."""

        async def run(channel: Channel) -> None:
            self.check_same(await agree(channel, None, arguments.encode()), f"{name}: an argument")
            await agree(channel, await self.attempt(work, name) if channel.rank == 0 else None)

        return run
