"""Opening and deleting files (MPI-4.1, sections 14.2.1 and 14.2.3)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from typing import Final

from aiompi import create
from aiompi.base.arguments import integer
from aiompi.base.unsupported_errors import ERR_NOT_SAME
from aiompi.comm import Channel, Communicator
from aiompi.engine import Request
from aiompi.errors import FileError, InvalidCommError, MPIError
from aiompi.file.disk import Disk
from aiompi.file.failures import agree, of_cause
from aiompi.file.file import File
from aiompi.file.modes import MODE_APPEND, MODE_CREATE, MODE_EXCL, flags_of
from aiompi.file.null import NULL
from aiompi.file.shared import SharedPointer

#: position at first, and the token of the shared pointer
_START: Final = struct.Struct("<q16s")
#: permissions of a new file before the umask
_RIGHTS: Final = 0o666

Name = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def open_file(
    comm: Communicator, filename: Name, amode: object, given: Callable[[], Mapping[str, str]]
) -> Request[File]:
    """Open a file; all processes of a communicator call this (MPI_File_open).

    Args:
        comm: an intracommunicator.
        filename: path, which names the same file in all processes.
        amode: mode of access, the same in all processes.
        given: returns the hints.

    Returns:
        The request; its result is the file.

    Raises:
        InvalidCommError: `comm` is an intercommunicator.
        TypeError: awaiting the request: an argument is of a wrong type.
        FileError: awaiting the request, in all processes: the file cannot be opened.
    """
    if comm.remote is not None:
        raise InvalidCommError(f"{comm.where('File_open')}: a file is opened on an intracommunicator")
    return comm.run(_Opening(filename, amode, given).run(create.dup(comm)))


class _Opening:
    """How one process opens a file.

    Args:
        filename: path of the file.
        amode: mode of access.
        given: returns the hints.
    """

    def __init__(self, filename: Name, amode: object, given: Callable[[], Mapping[str, str]]) -> None:
        self._path, self._amode, self._flags = repr(filename), 0, 0
        self._hints: Mapping[str, str] = {}
        self._error: Exception | None = None
        try:
            self._path = os.fsdecode(filename)
            self._hints = given()
            self._amode = integer(amode, "File.Open: amode", "a sum of modes, such as MODE_CREATE + MODE_RDWR")
            self._flags = flags_of(self._amode)
        except Exception as error:  # kept, so that all processes get to know it
            self._error = error
        self._fd = -1

    async def run(self, duplicate: Request[Communicator]) -> File:
        comm = await duplicate
        comm.hints, comm.name = {}, repr(self._path)
        try:
            start, token = await comm.start(self._open, "File_open")
        except BaseException:
            if self._fd >= 0:
                os.close(self._fd)
            comm.release()
            raise
        shared = SharedPointer(self._path, token, start)
        file = File(comm, self._path, self._amode, self._fd, shared)
        file.hints.update(self._hints)
        file.errhandler = NULL.errhandler
        return file

    async def _open(self, channel: Channel) -> tuple[int, str]:
        """Open the file in the first process, which may create it, and then in the others."""
        error, flags, amode = self._error, self._flags, self._amode
        if isinstance(error, FileError):
            error = FileError(f"{channel.where}: {error}", error.error_class)
        if len(set(await agree(channel, error, f"{amode:x}".encode()))) > 1:
            raise FileError(f"{channel.where}: amode is not the same in all processes", ERR_NOT_SAME)
        start, token = 0, os.urandom(8).hex()  # `secrets` takes 3 ms to import
        if channel.rank == 0:
            creating = (os.O_CREAT if amode & MODE_CREATE else 0) | (os.O_EXCL if amode & MODE_EXCL else 0)
            error = await self._attempt(channel, flags | creating)
            if error is None and amode & MODE_APPEND:
                start = os.fstat(self._fd).st_size
        start, name = _START.unpack((await agree(channel, error, _START.pack(start, token.encode())))[0])
        await agree(channel, await self._attempt(channel, flags) if channel.rank else None)
        return start, name.decode()

    async def _attempt(self, channel: Channel, flags: int) -> MPIError | None:
        try:
            self._fd = await Disk.of(channel.comm.engine).run(lambda: os.open(self._path, flags, _RIGHTS), at_once=True)
        except Exception as error:
            return of_cause(error, channel.where)
        return None


def delete(filename: Name) -> None:
    """Delete a file (MPI_File_delete).

    Raises:
        FileError: it cannot be deleted, for example ERR_NO_SUCH_FILE.
    """
    try:
        os.unlink(filename)
    except (OSError, ValueError) as error:
        raise of_cause(error, f"File_delete of {os.fsdecode(filename)!r}") from error
