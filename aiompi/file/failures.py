"""Errors of files: their classes, and how a collective call tells all processes of an error (MPI-4.1, section 14.7)."""

from __future__ import annotations

import errno
import json
import struct
from typing import Final, NoReturn

from aiompi import errors
from aiompi.base import unsupported_errors as classes
from aiompi.coll.algorithms.allgather import ring
from aiompi.coll.block import Block
from aiompi.comm import Channel
from aiompi.errors import FileError, MPIError, RemoteProtocolError

#: error number of the operating system -> error class; ERR_IO for all other numbers
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
#: head of a message: lengths of the error and of the name of the call
_HEAD: Final = struct.Struct(">II")
#: the call after which a rank makes no other call on the file
_CLOSE: Final = "File_close"


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


async def agree(channel: Channel, error: Exception | None, data: bytes = b"") -> list[bytes]:
    """Exchange errors and data among all processes, and check that all make the same call.

    Args:
        channel: of the collective call.
        error: of this process, if there is one.

    Returns:
        The data of all processes, in rank order.

    Raises:
        Exception: a process has failed. A process that has an error raises its own error. All other processes raise an
            MPI error that names the first process with an error, and this error.
        FileError: ERR_NOT_SAME: another process has made another call.
        RemoteProtocolError: the message of another process is malformed.
    """
    told, call = b"" if error is None else _telling(error), channel.operation.encode()
    mine = b"".join([_HEAD.pack(len(told), len(call)), told, call, data])
    blocks = [Block() for _ in range(channel.size)]
    blocks[channel.rank] = Block.holding((mine,), len(mine))
    await ring(channel, blocks)
    found: list[bytes] = []
    failed: MPIError | None = None
    others: dict[str, int] = {}  # calls -> the first rank that has made it
    for rank, block in enumerate(blocks):
        its_error, its_call, its_data = _parsed(rank, bytes(block.data))
        failed = failed or its_error
        if its_call != channel.operation:
            others.setdefault(its_call, rank)
        found.append(its_data)
    differs = _disagreement(channel, others) if others else None
    failure = error or differs or failed
    if failure is not None:
        raise failure
    return found


async def fail(channel: Channel, error: Exception) -> NoReturn:
    """Take part in a collective call that this process cannot make: tell all others the error, and raise it."""
    await agree(channel, error)
    raise error


def _disagreement(channel: Channel, others: dict[str, int]) -> MPIError:
    """Return the error for differing calls. If a process has called Close, later calls on the file raise it, too."""
    call, rank = next(iter(others.items()))
    error = FileError(
        f"{channel.where}: rank {rank} has called {call}; all ranks must make the same collective calls on a file in "
        "the same order",
        classes.ERR_NOT_SAME,
    )
    if _CLOSE in others:
        channel.comm.member_failed(error)
    return error


def _telling(error: Exception) -> bytes:
    """Return the message about an error of this process. An error that is no MPI error counts as one of an argument."""
    if isinstance(error, MPIError):
        return json.dumps([error.error_class, str(error)]).encode()
    return json.dumps([errors.ERR_ARG, f"{type(error).__name__}: {error}"]).encode()


def _parsed(rank: int, message: bytes) -> tuple[MPIError | None, str, bytes]:
    """Return the error, the call and the data in the message of a process.

    Raises:
        RemoteProtocolError: the message is malformed.
    """
    try:
        nbytes, length = _HEAD.unpack_from(message)
        end = _HEAD.size + nbytes
        error = _told(rank, message[_HEAD.size : end]) if nbytes else None
        return error, message[end : end + length].decode(), message[end + length :]
    except (struct.error, TypeError, ValueError, RecursionError) as wrong:
        raise RemoteProtocolError(
            f"rank {rank} takes part in a call on a file with a malformed message: {wrong}"
        ) from None


def _told(rank: int, text: bytes) -> MPIError:
    """Return the error from the message of another process."""
    error_class, words = json.loads(text)
    kind = errors.ERROR_CLASSES.get(error_class) or errors.LATER_ERROR_CLASSES.get(error_class)
    words = f"at rank {rank}: {words}"
    return FileError(words, error_class) if kind is None else kind(words)
