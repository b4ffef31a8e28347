"""Errors of files: their classes, and how all processes of a collective agree on one (MPI-4.1, section 14.7)."""

from __future__ import annotations

import errno
import json
from typing import Final

from aiompi import errors
from aiompi.base import unsupported_errors as classes
from aiompi.coll.algorithms.allgather import ring
from aiompi.coll.block import Block
from aiompi.comm import Channel
from aiompi.errors import FileError, MPIError

#: number of the operating system -> error class; ERR_IO for all others
_CLASSES: Final = {
    errno.ENOENT: classes.ERR_NO_SUCH_FILE,
    errno.EEXIST: classes.ERR_FILE_EXISTS,
    errno.EACCES: classes.ERR_ACCESS,
    errno.EPERM: classes.ERR_ACCESS,
    errno.EROFS: classes.ERR_READ_ONLY,
    errno.ENOSPC: classes.ERR_NO_SPACE,
    errno.EDQUOT: classes.ERR_QUOTA,
    errno.ETXTBSY: classes.ERR_FILE_IN_USE,
    errno.EBUSY: classes.ERR_FILE_IN_USE,
    errno.ENAMETOOLONG: classes.ERR_BAD_FILE,
    errno.EISDIR: classes.ERR_BAD_FILE,
    errno.ENOTDIR: classes.ERR_BAD_FILE,
    errno.ELOOP: classes.ERR_BAD_FILE,
    errno.ESPIPE: classes.ERR_UNSUPPORTED_OPERATION,
    errno.EOPNOTSUPP: classes.ERR_UNSUPPORTED_OPERATION,
    errno.ENOSYS: classes.ERR_UNSUPPORTED_OPERATION,
    errno.ENOLCK: classes.ERR_UNSUPPORTED_OPERATION,
}
_ADVICE: Final = {
    errno.ENOLCK: "; its file system has no locks, which shared pointers and the atomic mode need",
    errno.EFBIG: "; the limit of the size of a file (ulimit -f, or of the file system) is reached",
    errno.ESPIPE: "; it has no positions: use a regular file",
}
_LENGTH: Final = 4


def of_cause(cause: BaseException, where: str) -> MPIError:
    """Return the MPI error for an exception, which becomes its cause.

    Args:
        where: the call and the file.
    """
    if isinstance(cause, MPIError):
        return cause
    if isinstance(cause, OSError):
        number = cause.errno or 0
        why = f"{cause.strerror or cause}{_ADVICE.get(number, '')}"
        error: MPIError = FileError(f"{where}: {why}", _CLASSES.get(number, classes.ERR_IO))
    else:
        error = FileError(f"{where}: {type(cause).__name__}: {cause}", classes.ERR_IO)
    error.__cause__ = cause
    return error


async def agree(channel: Channel, error: MPIError | None, data: bytes = b"") -> list[bytes]:
    """Exchange errors and data among all processes.

    Args:
        channel: of the collective call.
        error: of this process, if there is one.

    Returns:
        The data of all processes, in rank order.

    Raises:
        aiompi.MPIError: a process has failed: all of them raise the error of the first one in rank order.
    """
    told = b"" if error is None else json.dumps([error.error_class, str(error)]).encode()
    blocks = [Block() for _ in range(channel.size)]
    mine = len(told).to_bytes(_LENGTH, "big") + told + data
    blocks[channel.rank] = Block.holding((mine,), len(mine))
    await ring(channel, blocks)
    found: list[bytes] = []
    failed: tuple[int, bytes] | None = None
    for rank, block in enumerate(blocks):
        message = bytes(block.data)
        end = _LENGTH + int.from_bytes(message[:_LENGTH], "big")
        if end > _LENGTH and failed is None:
            failed = rank, message[_LENGTH:end]
        found.append(message[end:])
    if failed is not None:
        rank, text = failed
        if rank == channel.rank and error is not None:
            raise error
        raise _told(rank, text) from error
    return found


def _told(rank: int, text: bytes) -> MPIError:
    """Return the error from the message of another process."""
    error_class, words = json.loads(text)
    kind = errors.ERROR_CLASSES.get(error_class) or errors.LATER_ERROR_CLASSES.get(error_class)
    words = f"at rank {rank}: {words}"
    return FileError(words, error_class) if kind is None else kind(words)
