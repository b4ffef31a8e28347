"""`File`: an open file of the processes of a communicator (MPI-4.1, chapter 14)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiompi.base.unsupported_errors import ERR_READ_ONLY
from aiompi.comm import Channel
from aiompi.datatype.datatype import Datatype
from aiompi.engine import Request
from aiompi.engine.schedule import settled
from aiompi.errors import FileError, InvalidArgumentError, MPIError
from aiompi.file.access import Access
from aiompi.file.collective import aggregators
from aiompi.file.failures import agree
from aiompi.file.modes import (
    DISPLACEMENT_CURRENT,
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

    Calls that all processes make return requests, which fail in all of them if one fails.
    """

    def close(self) -> Request[None]:
        """Close the file once its operations are complete (MPI_File_close)."""
        pending = [schedule for schedule in self.comm.engine.schedules if schedule.owner is self.comm]

        async def run(channel: Channel) -> None:
            await settled(pending)
            try:
                error = await self.attempt(self._release, "File_close")
                failure: MPIError | None = None
                try:
                    await agree(channel, error)
                except MPIError as told:
                    failure = told
                removing = await self.attempt(self._remove, "File_close") if self.comm.rank == 0 else None
                await agree(channel, removing)
                if failure is not None:
                    raise failure
            finally:
                self._release()
                self.comm.release()

        return self.start("File_close", run)

    def abandon(self) -> None:
        """Close the file in this process alone, which starts nothing on it any more."""
        self.comm.release()

        async def run() -> None:
            await settled([schedule for schedule in self.comm.engine.schedules if schedule.owner is self.comm])
            self._release()

        self.comm.engine.spawn(run())

    def _release(self) -> None:
        self.shared.close()
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _remove(self) -> None:
        self.shared.remove()
        if self.amode & MODE_DELETE_ON_CLOSE:
            os.unlink(self.path)

    # Size (section 14.2).

    def set_size(self, size: int) -> Request[None]:
        """Set the size in bytes (MPI_File_set_size)."""
        return self._resize("File_set_size", size, lambda: os.ftruncate(self.fd, size))

    def preallocate(self, size: int) -> Request[None]:
        """Reserve disk space for a number of bytes (MPI_File_preallocate)."""
        return self._resize("File_preallocate", size, lambda: os.posix_fallocate(self.fd, 0, size) if size else None)

    def _resize(self, name: str, size: int, work: Callable[[], object]) -> Request[None]:
        if size < 0:
            raise InvalidArgumentError(f"{self.where(name)}: size is {size}: expected a number of bytes, 0 or more")
        if self.amode & MODE_RDONLY:
            raise FileError(f"{self.where(name)}: the file was opened with MODE_RDONLY", ERR_READ_ONLY)
        return self._by_first(name, _NUMBER.pack(size), work)

    def size(self, *, at_once: bool = False) -> Request[int]:
        """Return the size in bytes (MPI_File_get_size)."""
        return self.in_thread("File_get_size", lambda: os.fstat(self.fd).st_size, at_once=at_once)

    def sync(self) -> Request[None]:
        """Flush written data to the disk (MPI_File_sync)."""

        async def run(channel: Channel) -> None:
            await agree(channel, await self.attempt(lambda: os.fsync(self.fd), "File_sync"))

        return self.start("File_sync", run)

    # Views (section 14.3) and settings.

    def set_view(
        self, disp: int, etype: Datatype, filetype: Datatype, datarep: str, given: Mapping[str, str]
    ) -> Request[None]:
        """Set the view of this process, and move its pointer to the start of the view (MPI_File_set_view)."""

        async def run(channel: Channel) -> None:
            error, view = None, self.view
            try:
                at = await self._current() if disp == DISPLACEMENT_CURRENT else disp
                view = View(at, Datatype(etype), Datatype(filetype), datarep)
            except MPIError as failed:
                error = failed
            mine = _NUMBER.pack(view.etype.extent) + view.datarep.encode()
            self.check_same(await agree(channel, error, mine), "File_set_view: datarep, or the extent of etype,")
            first = channel.rank == 0
            error = await self.attempt(self.shared.reset, "File_set_view") if first else None
            self.view, self.position, self.shared.start = view, 0, 0
            self.hints.update(given)
            await agree(channel, error)

        return self.start("File_set_view", run)

    async def _current(self) -> int:
        """Return where the shared pointer is, in bytes of the file."""
        if not self.amode & MODE_SEQUENTIAL:
            raise InvalidArgumentError(
                f"{self.where('File_set_view')}: DISPLACEMENT_CURRENT is for files opened with MODE_SEQUENTIAL"
            )
        position = await self.in_thread("File_set_view", self.shared.load)
        return self.view.position(position * self.view.unit)

    def set_atomicity(self, atomic: bool) -> Request[None]:
        """Set or leave atomic mode: accesses then happen one after the other (MPI_File_set_atomicity)."""

        async def run(channel: Channel) -> None:
            self.check_same(await agree(channel, None, bytes([atomic])), "File_set_atomicity: flag")
            self.atomic = atomic

        return self.start("File_set_atomicity", run)

    @property
    def aggregators(self) -> int:
        """Number of ranks that move the data of all in collectives."""
        return len(aggregators(self.comm.hosts or [[rank] for rank in range(self.comm.size)], self.hints.cb_nodes))

    # Pointers (sections 14.4.3 and 14.4.4).

    def seek(self, offset: int, whence: int, *, at_once: bool = False) -> Request[None]:
        """Move the pointer of this process (MPI_File_seek); at once, unless it depends on the size of the file."""
        self.check_positions("File_seek")

        async def run() -> None:
            if whence == SEEK_END:
                base = self._units(await self.size(at_once=at_once))
            else:
                base = self.position if whence == SEEK_CUR else 0
            self.position = self._sought(base, offset, whence, "File_seek")

        return self.comm.run(run())

    def seek_shared(self, offset: int, whence: int) -> Request[None]:
        """Move the shared pointer (MPI_File_seek_shared)."""

        def move() -> None:
            base = 0
            if whence == SEEK_END:
                base = self._units(os.fstat(self.fd).st_size)
            elif whence == SEEK_CUR:
                base = self.shared.load()
            self.shared.store(self._sought(base, offset, whence, "File_seek_shared"))

        return self._by_first("File_seek_shared", _NUMBER.pack(offset) + bytes([whence & 255]), move)

    def shared_position(self, *, at_once: bool = False) -> Request[int]:
        """Return the position of the shared pointer (MPI_File_get_position_shared)."""
        return self.in_thread("File_get_position_shared", self.shared.load, at_once=at_once)

    def _units(self, size: int) -> int:
        """Return the position of the end of a file of this size."""
        return -(-self.view.before(size) // self.view.unit)

    def _sought(self, base: int, offset: int, whence: int, name: str) -> int:
        if whence not in (SEEK_SET, SEEK_CUR, SEEK_END):
            raise InvalidArgumentError(f"{self.where(name)}: whence is {whence}: expected SEEK_SET, SEEK_CUR, SEEK_END")
        if base + offset < 0:
            raise InvalidArgumentError(f"{self.where(name)}: position {base + offset} is before the start of the view")
        return base + offset

    def _by_first(self, name: str, arguments: bytes, work: Callable[[], Any]) -> Request[None]:
        """Let rank 0 call a function; check that all processes give the same arguments."""

        async def run(channel: Channel) -> None:
            self.check_same(await agree(channel, None, arguments), f"{name}: an argument")
            await agree(channel, await self.attempt(work, name) if channel.rank == 0 else None)

        return self.start(name, run)
