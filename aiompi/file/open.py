"""Opening and deleting files (MPI-4.1, sections 14.2.1 and 14.2.3)."""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Mapping
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

_AMODE: Final = struct.Struct("<q")
#: position at first, and the token of the shared pointer
_START: Final = struct.Struct("<q16s")
#: permissions of a new file before the umask
_RIGHTS: Final = 0o666

Name = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def open_file(comm: Communicator, filename: Name, amode: object, given: Mapping[str, str]) -> Request[File]:
    """Open a file; all processes of a communicator call this (MPI_File_open).

    Args:
        comm: an intracommunicator.
        filename: path, which names the same file in all processes.
        amode: mode of access, the same in all processes.
        given: hints.

    Returns:
        The request; its result is the file.

    Raises:
        InvalidCommError: an intercommunicator.
        TypeError: the mode is no integer.
        FileError: awaiting the request, in all processes: the file cannot be opened.
    """
    if comm.remote is not None:
        raise InvalidCommError(f"{comm.where('File_open')}: a file is opened on an intracommunicator")
    mode = integer(amode, "File.Open: amode", "a sum of modes, such as MODE_CREATE + MODE_RDWR")
    opening = _Opening(os.fsdecode(filename), mode)
    return comm.run(opening.run(create.dup(comm), given))


class _Opening:
    """How one process opens a file.

    Args:
        path: of the file.
        amode: mode of access.
    """

    def __init__(self, path: str, amode: int) -> None:
        self._path = path
        self._amode = amode
        self._fd = -1

    async def run(self, duplicate: Request[Communicator], given: Mapping[str, str]) -> File:
        comm = await duplicate
        comm.hints = {}
        try:
            start, token = await comm.start(functools.partial(self._open, comm), "File_open")
        except BaseException:
            if self._fd >= 0:
                os.close(self._fd)
            comm.release()
            raise
        shared = SharedPointer(self._path, token, start)
        file = File(comm, self._path, self._amode, self._fd, shared)
        file.hints.update(given)
        file.errhandler = NULL.errhandler
        return file

    async def _open(self, comm: Communicator, channel: Channel) -> tuple[int, str]:
        """Open the file in the first process, which may create it, and then in the others."""
        error: MPIError | None = None
        flags, amode = 0, self._amode
        try:
            flags = flags_of(amode)
        except FileError as failed:
            error = FileError(f"{self._where(comm)}: {failed}", failed.error_class)
        if len(set(await agree(channel, error, _AMODE.pack(amode)))) > 1:
            raise FileError(f"{self._where(comm)}: amode is not the same in all processes", ERR_NOT_SAME)
        start, token = 0, os.urandom(8).hex()  # `secrets` takes 3 ms to import
        if channel.rank == 0:
            creating = (os.O_CREAT if amode & MODE_CREATE else 0) | (os.O_EXCL if amode & MODE_EXCL else 0)
            error = await self._attempt(comm, flags | creating)
            if error is None and amode & MODE_APPEND:
                start = os.fstat(self._fd).st_size
        start, name = _START.unpack((await agree(channel, error, _START.pack(start, token.encode())))[0])
        await agree(channel, await self._attempt(comm, flags) if channel.rank else None)
        return start, name.decode()

    async def _attempt(self, comm: Communicator, flags: int) -> MPIError | None:
        try:
            self._fd = await Disk.of(comm.engine).run(lambda: os.open(self._path, flags, _RIGHTS), at_once=True)
        except Exception as error:
            return of_cause(error, self._where(comm))
        return None

    def _where(self, comm: Communicator) -> str:
        return f"File_open of {self._path!r}, rank {comm.rank}"


def delete(filename: Name) -> None:
    """Delete a file (MPI_File_delete).

    Raises:
        FileError: it cannot be deleted, for example ERR_NO_SUCH_FILE.
    """
    try:
        os.unlink(filename)
    except (OSError, ValueError) as error:
        raise of_cause(error, f"File_delete of {os.fsdecode(filename)!r}") from error
