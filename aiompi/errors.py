"""Error classes of MPI (sections 2.7 and 7.3) as exceptions.

builtins.Exception
└── Exception                     any MPI error: error_class, error_code, error_string
    ├── InvalidBufferError        ERR_BUFFER       (one exception per error class, see ERROR_CLASSES)
    ├── ...
    ├── LocalProtocolError        ERR_OTHER: our caller broke a rule of use
    │   └── BlockingCallError     a blocking call inside a running event loop
    ├── RemoteProtocolError       ERR_OTHER: a peer sent what it must not
    │   └── AuthenticationError   a peer could not prove the key
    └── ProcessFailedError        ERR_OTHER: a peer is gone
        └── JobAbortedError       the whole job ended
"""

from __future__ import annotations

from typing import ClassVar, Final

__all__ = [
    "SUCCESS", "ERR_BUFFER", "ERR_COUNT", "ERR_TYPE", "ERR_TAG", "ERR_COMM", "ERR_RANK", "ERR_REQUEST",
    "ERR_ROOT", "ERR_GROUP", "ERR_OP", "ERR_TOPOLOGY", "ERR_DIMS", "ERR_ARG", "ERR_UNKNOWN", "ERR_TRUNCATE",
    "ERR_OTHER", "ERR_INTERN", "ERR_IN_STATUS", "ERR_PENDING", "ERR_LASTCODE", "Exception", "InvalidBufferError",
    "InvalidCountError", "InvalidTypeError", "InvalidTagError", "InvalidCommError", "InvalidRankError",
    "InvalidRequestError", "InvalidRootError", "InvalidGroupError", "InvalidOpError", "InvalidTopologyError",
    "InvalidDimsError", "InvalidArgumentError", "UnknownError", "TruncationError", "OtherError", "InternalError",
    "InStatusError", "PendingError", "LocalProtocolError", "BlockingCallError", "RemoteProtocolError",
    "AuthenticationError", "ProcessFailedError", "JobAbortedError", "ERROR_CLASSES", "error_string",
]  # fmt: skip

SUCCESS: Final = 0
ERR_BUFFER: Final = 1
ERR_COUNT: Final = 2
ERR_TYPE: Final = 3
ERR_TAG: Final = 4
ERR_COMM: Final = 5
ERR_RANK: Final = 6
ERR_REQUEST: Final = 7
ERR_ROOT: Final = 8
ERR_GROUP: Final = 9
ERR_OP: Final = 10
ERR_TOPOLOGY: Final = 11
ERR_DIMS: Final = 12
ERR_ARG: Final = 13
ERR_UNKNOWN: Final = 14
ERR_TRUNCATE: Final = 15
ERR_OTHER: Final = 16
ERR_INTERN: Final = 17
ERR_IN_STATUS: Final = 18
ERR_PENDING: Final = 19
ERR_LASTCODE: Final = 0x3FFFFFFF


class Exception(RuntimeError):
    """An MPI error (section 7.3).

    Args:
        message: what happened, where, and what to do about it.

    Attributes:
        error_class: one of the ERR_ constants.
        error_code: equals the class; aiompi has no finer codes.
        error_string: the message.
    """

    error_class: ClassVar[int] = ERR_UNKNOWN

    @property
    def error_code(self) -> int:
        return self.error_class

    @property
    def error_string(self) -> str:
        return str(self)

    def Get_error_class(self) -> int:
        return self.error_class

    def Get_error_code(self) -> int:
        return self.error_class

    def Get_error_string(self) -> str:
        return str(self)

    def __int__(self) -> int:
        return self.error_class


class InvalidBufferError(Exception):
    """Bad buffer: too small, read-only as a receive buffer, not contiguous, overlapping."""

    error_class = ERR_BUFFER


class InvalidCountError(Exception):
    """Bad count argument."""

    error_class = ERR_COUNT


class InvalidTypeError(Exception):
    """Bad datatype argument."""

    error_class = ERR_TYPE


class InvalidTagError(Exception):
    """Bad tag: legal are 0..TAG_UB, and ANY_TAG in receives."""

    error_class = ERR_TAG


class InvalidCommError(Exception):
    """Bad communicator: null, freed, or of the wrong kind."""

    error_class = ERR_COMM


class InvalidRankError(Exception):
    """Bad rank: legal are 0..size-1, PROC_NULL, and ANY_SOURCE in receives."""

    error_class = ERR_RANK


class InvalidRequestError(Exception):
    """Bad request."""

    error_class = ERR_REQUEST


class InvalidRootError(Exception):
    """Bad root: legal are 0..size-1."""

    error_class = ERR_ROOT


class InvalidGroupError(Exception):
    """Bad group."""

    error_class = ERR_GROUP


class InvalidOpError(Exception):
    """Bad reduction operation, or one that is not defined for the datatype (section 4.9.2)."""

    error_class = ERR_OP


class InvalidTopologyError(Exception):
    """Bad topology."""

    error_class = ERR_TOPOLOGY


class InvalidDimsError(Exception):
    """Bad dimension argument."""

    error_class = ERR_DIMS


class InvalidArgumentError(Exception):
    """Bad argument of another kind."""

    error_class = ERR_ARG


class UnknownError(Exception):
    """Unknown error."""

    error_class = ERR_UNKNOWN


class TruncationError(Exception):
    """The message is longer than the receive buffer; nothing was written beyond it (section 3.2.4)."""

    error_class = ERR_TRUNCATE


class OtherError(Exception):
    """A known error that has no class of its own; the string explains."""

    error_class = ERR_OTHER


class InternalError(Exception):
    """A defect of aiompi itself."""

    error_class = ERR_INTERN


class InStatusError(Exception):
    """Some of several requests failed: look into the statuses (section 3.7.5)."""

    error_class = ERR_IN_STATUS


class PendingError(Exception):
    """The request has neither failed nor completed (section 3.7.5)."""

    error_class = ERR_PENDING


class LocalProtocolError(OtherError):
    """Our own caller broke a rule of use, for example by calling after Finalize."""


class BlockingCallError(LocalProtocolError):
    """A blocking call was made inside a running event loop; the message names the awaitable to use."""


class RemoteProtocolError(OtherError):
    """A peer sent bytes that the protocol does not allow; its connection is closed."""


class AuthenticationError(RemoteProtocolError):
    """A peer could not prove the key of the job."""


class ProcessFailedError(OtherError):
    """A peer of the operation is gone: it died, or it left the job."""


class JobAbortedError(ProcessFailedError):
    """The job ended: a rank called Abort, failed, or the launcher is gone."""


_PLAIN: tuple[type[Exception], ...] = (
    InvalidBufferError, InvalidCountError, InvalidTypeError, InvalidTagError, InvalidCommError, InvalidRankError,
    InvalidRequestError, InvalidRootError, InvalidGroupError, InvalidOpError, InvalidTopologyError,
    InvalidDimsError, InvalidArgumentError, UnknownError, TruncationError, OtherError, InternalError,
    InStatusError, PendingError,
)  # fmt: skip

# Error class -> the exception that stands for it, and the text of MPI_Error_string.
ERROR_CLASSES: Final[dict[int, type[Exception]]] = {cls.error_class: cls for cls in _PLAIN}


def error_string(code: int) -> str:
    """Text of an error class (MPI_Error_string, section 7.3)."""
    if code == SUCCESS:
        return "no error"
    return (ERROR_CLASSES.get(code, UnknownError).__doc__ or "").splitlines()[0]
