"""Error classes of MPI (sections 2.7 and 7.3) as exceptions.

Exception
└── MPIError                      any MPI error: error_class, error_code, error_string
    ├── InvalidBufferError        ERR_BUFFER       (one exception per error class, see ERROR_CLASSES)
    ├── ...
    ├── InvalidArgumentError      ERR_ARG
    │   ├── InvalidKeyvalError    ERR_KEYVAL (in MPI-1.1, this class and the next ones are ERR_ARG)
    │   ├── InvalidErrhandlerError ERR_ERRHANDLER
    │   ├── InvalidSessionError   ERR_SESSION
    │   └── InvalidInfoError      ERR_INFO
    │       ├── InvalidInfoKeyError ERR_INFO_KEY
    │       ├── InvalidInfoValueError ERR_INFO_VALUE
    │       └── InfoNoKeyError    ERR_INFO_NOKEY
    ├── SpawnError                ERR_SPAWN
    ├── InvalidPortError          ERR_PORT
    ├── InvalidServiceError       ERR_SERVICE
    ├── NotPublishedError         ERR_NAME
    ├── LocalProtocolError        ERR_OTHER: the caller broke a rule of use
    │   └── BlockingCallError     a blocking call inside a running event loop
    ├── RemoteProtocolError       ERR_OTHER: a peer broke the protocol
    │   └── AuthenticationError   a peer could not prove the key
    ├── FileError                 ERR_IO and the other classes of files
    ├── WindowError               ERR_WIN and the other classes of windows
    ├── RevokedError              ERR_REVOKED: a rank has revoked the communicator
    └── ProcessFailedError        ERR_PROC_FAILED: a peer is gone
        ├── ProcessFailedPendingError ERR_PROC_FAILED_PENDING: it may have been the sender; the receive is still posted
        └── JobAbortedError       ERR_PROC_ABORTED: the whole job ended

InvalidBufferError, InvalidCountError, InvalidTypeError, InvalidOpError and InvalidArgumentError are ValueErrors
as well, and InvalidBufferError is a BufferError, because Python and mpi4py raise these for such arguments.
"""

from __future__ import annotations

import functools
from typing import Any, Final, TypeVar

from aiompi.base import unsupported_errors
from aiompi.base.arguments import integer, text
from aiompi.constants import MAX_ERROR_STRING

#: length at which the text of an exception that ends a process is cut; a traceback shows the whole text
_LONGEST: Final = 4096

__all__ = [
    "SUCCESS", "ERR_BUFFER", "ERR_COUNT", "ERR_TYPE", "ERR_TAG", "ERR_COMM", "ERR_RANK", "ERR_REQUEST", "ERR_ROOT",
    "ERR_GROUP", "ERR_OP", "ERR_TOPOLOGY", "ERR_DIMS", "ERR_ARG", "ERR_UNKNOWN", "ERR_TRUNCATE", "ERR_OTHER",
    "ERR_INTERN", "ERR_IN_STATUS", "ERR_PENDING", "ERR_KEYVAL", "ERR_ERRHANDLER", "ERR_INFO", "ERR_INFO_KEY",
    "ERR_INFO_VALUE", "ERR_INFO_NOKEY", "ERR_SPAWN", "ERR_PORT", "ERR_SERVICE", "ERR_NAME", "ERR_PROC_ABORTED",
    "ERR_SESSION", "ERR_REVOKED", "ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_LASTCODE", "MPIError",
    "InvalidBufferError", "InvalidCountError", "InvalidTypeError", "InvalidTagError", "InvalidCommError",
    "InvalidRankError", "InvalidRequestError", "InvalidRootError", "InvalidGroupError", "InvalidOpError",
    "InvalidTopologyError", "InvalidDimsError", "InvalidArgumentError", "UnknownError", "TruncationError", "OtherError",
    "InternalError", "InStatusError", "PendingError", "InvalidKeyvalError", "InvalidErrhandlerError",
    "InvalidInfoError", "InvalidInfoKeyError", "InvalidInfoValueError", "InfoNoKeyError", "InvalidSessionError",
    "SpawnError", "InvalidPortError", "InvalidServiceError", "NotPublishedError", "LocalProtocolError",
    "BlockingCallError", "FileError", "WindowError", "RemoteProtocolError", "AuthenticationError", "RevokedError",
    "ProcessFailedError", "ProcessFailedPendingError", "JobAbortedError", "ERROR_CLASSES", "LATER_ERROR_CLASSES",
    "error_string", "Get_error_class", "Get_error_string", "Add_error_class", "Add_error_code", "Add_error_string",
    "Remove_error_class", "Remove_error_code", "Remove_error_string",
]  # fmt: skip

T = TypeVar("T")

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
ERR_KEYVAL: Final = 20
ERR_ERRHANDLER: Final = 21
ERR_INFO: Final = 22
ERR_INFO_KEY: Final = 23
ERR_INFO_VALUE: Final = 24
ERR_INFO_NOKEY: Final = 25
ERR_SPAWN: Final = 27
ERR_PORT: Final = 28
ERR_SERVICE: Final = 29
ERR_NAME: Final = 30
ERR_PROC_ABORTED: Final = 31
ERR_SESSION: Final = 61
ERR_REVOKED: Final = 62
ERR_PROC_FAILED: Final = 63
ERR_PROC_FAILED_PENDING: Final = 64
ERR_LASTCODE: Final = 0x3FFFFFFF


@functools.total_ordering
class MPIError(RuntimeError):
    """An MPI error (section 7.3).

    An error compares, hashes and converts like its code, so that `error == aiompi.MPI.ERR_RANK` works.

    Args:
        what: message that says what happened, where, and what to do about it; or an error code, as in mpi4py:
            `MPIError(ERR_RANK)` returns an InvalidRankError whose message is the text of the code.

    Attributes:
        error_class: one of the ERR_ constants, or a class from `Add_error_class`.
        error_code: the code from which the exception was created; otherwise the error class.
    """

    error_class: int = ERR_UNKNOWN

    def __init_subclass__(cls, error_class: int | None = None) -> None:
        """Set the error class of an exception type; by default it is the error class of the base type."""
        super().__init_subclass__()
        if error_class is not None:
            cls.error_class = error_class

    def __new__(cls, *what: Any) -> MPIError:
        """Return an exception of the type for the error class of a code."""
        by_code = cls is MPIError and len(what) == 1 and isinstance(what[0], int)
        return super().__new__(_TYPES.get(Get_error_class(what[0]), cls) if by_code else cls, *what)

    def __init__(self, *what: Any) -> None:
        self.error_code = self.error_class
        if not what and type(self) is MPIError:
            what = (SUCCESS,)
        self._is_code = len(what) == 1 and isinstance(what[0], int)
        if self._is_code:
            self.error_code = what[0] if what[0] >= SUCCESS else ERR_UNKNOWN
            self.error_class = Get_error_class(self.error_code)
        super().__init__(*what)

    @property
    def error_string(self) -> str:
        """The message."""
        return str(self)

    def Get_error_class(self) -> int:
        """Return the error class (MPI_Error_class, section 7.3)."""
        return self.error_class

    def Get_error_code(self) -> int:
        """Return the error code."""
        return self.error_code

    def Get_error_string(self) -> str:
        """Return the message (MPI_Error_string, section 7.3)."""
        return str(self)

    def __str__(self) -> str:
        return Get_error_string(self.error_code) if self._is_code else RuntimeError.__str__(self)

    def __repr__(self) -> str:
        return f"MPI.Exception({self.error_code})" if self._is_code else super().__repr__()

    def __int__(self) -> int:
        return int(self.error_code)  # the code may be a constant with a name

    def __bool__(self) -> bool:
        return self.error_code != SUCCESS

    def __hash__(self) -> int:
        return hash(self.error_code)

    def __eq__(self, other: object) -> bool:
        return self.error_code == int(other) if isinstance(other, int | MPIError) else NotImplemented

    def __lt__(self, other: int | MPIError) -> bool:
        return self.error_code < int(other) if isinstance(other, int | MPIError) else NotImplemented


class InvalidBufferError(MPIError, ValueError, BufferError, error_class=ERR_BUFFER):
    """Bad buffer: too small, read-only as a receive buffer, not contiguous, overlapping."""


class InvalidCountError(MPIError, ValueError, error_class=ERR_COUNT):
    """Bad count argument."""


class InvalidTypeError(MPIError, ValueError, error_class=ERR_TYPE):
    """Bad datatype argument."""


class InvalidTagError(MPIError, error_class=ERR_TAG):
    """Bad tag: legal are 0..TAG_UB, and ANY_TAG in receives."""


class InvalidCommError(MPIError, error_class=ERR_COMM):
    """Bad communicator: null, freed, or of the wrong kind."""


class InvalidRankError(MPIError, error_class=ERR_RANK):
    """Bad rank: legal are 0..size-1, PROC_NULL, and ANY_SOURCE in receives."""


class InvalidRequestError(MPIError, error_class=ERR_REQUEST):
    """Bad request."""


class InvalidRootError(MPIError, error_class=ERR_ROOT):
    """Bad root: legal are 0..size-1."""


class InvalidGroupError(MPIError, error_class=ERR_GROUP):
    """Bad group."""


class InvalidOpError(MPIError, ValueError, error_class=ERR_OP):
    """Bad reduction operation, or one that is not defined for the datatype (section 4.9.2)."""


class InvalidTopologyError(MPIError, error_class=ERR_TOPOLOGY):
    """Bad topology."""


class InvalidDimsError(MPIError, error_class=ERR_DIMS):
    """Bad dimension argument."""


class InvalidArgumentError(MPIError, ValueError, error_class=ERR_ARG):
    """Bad argument of another kind."""


class UnknownError(MPIError, error_class=ERR_UNKNOWN):
    """Unknown error."""


class TruncationError(MPIError, error_class=ERR_TRUNCATE):
    """The message is longer than the receive buffer; nothing was written beyond the buffer (section 3.2.4)."""


class OtherError(MPIError, error_class=ERR_OTHER):
    """A known error that has no class of its own; the string explains it."""


class InternalError(MPIError, error_class=ERR_INTERN):
    """A defect of aiompi itself."""


class InStatusError(MPIError, error_class=ERR_IN_STATUS):
    """Some of several requests failed; the statuses say which (section 3.7.5)."""


class PendingError(MPIError, error_class=ERR_PENDING):
    """The request has neither failed nor completed (section 3.7.5)."""


class InvalidKeyvalError(InvalidArgumentError, error_class=ERR_KEYVAL):
    """Bad attribute key: never created, freed, KEYVAL_INVALID, or predefined where it must not be (section 5.7)."""


class InvalidErrhandlerError(InvalidArgumentError, error_class=ERR_ERRHANDLER):
    """Bad error handler: null, or predefined where it is to be freed (section 7.2)."""


class InvalidSessionError(InvalidArgumentError, error_class=ERR_SESSION):
    """Bad session: SESSION_NULL, or finalized."""


class InvalidInfoError(InvalidArgumentError, error_class=ERR_INFO):
    """Bad info: null or freed, or predefined where it is to be changed."""


class InvalidInfoKeyError(InvalidInfoError, error_class=ERR_INFO_KEY):
    """Bad key of an info: empty, or longer than MAX_INFO_KEY."""


class InvalidInfoValueError(InvalidInfoError, error_class=ERR_INFO_VALUE):
    """Bad value in an info: longer than MAX_INFO_VAL."""


class InfoNoKeyError(InvalidInfoError, error_class=ERR_INFO_NOKEY):
    """The info has no such key."""


class SpawnError(OtherError):
    """Processes cannot be started, or have ended before they joined; the message says why."""

    error_class = ERR_SPAWN


class InvalidPortError(OtherError):
    """The port does not exist, or was closed."""

    error_class = ERR_PORT


class InvalidServiceError(OtherError):
    """A service name that cannot be published or withdrawn: it is empty, taken, or was published by another process."""

    error_class = ERR_SERVICE


class NotPublishedError(OtherError):
    """No process has published this service name."""

    error_class = ERR_NAME


class LocalProtocolError(OtherError):
    """The caller broke a rule of use, for example by a call after Finalize."""


class BlockingCallError(LocalProtocolError):
    """A blocking call was made inside a running event loop; the message names the awaitable to use."""


class RemoteProtocolError(OtherError):
    """A peer sent bytes that the protocol does not allow; its connection is closed."""


class AuthenticationError(RemoteProtocolError):
    """A peer could not prove the key of the job, or the key of the two ranks."""


class RevokedError(OtherError):
    """A rank has revoked the communicator (Comm.Revoke): only Agree, Shrink and Free are still possible on it."""

    error_class = ERR_REVOKED


class ProcessFailedError(OtherError):
    """A peer of the operation is gone: it died, or it left the job.

    Attributes:
        flag: the result of an agreement that has raised the error (Comm.Agree).
    """

    flag: int | None = None

    error_class = ERR_PROC_FAILED


class ProcessFailedPendingError(ProcessFailedError):
    """A rank that may have been the sender is gone. The receive is still posted: call `Ack_failed`, and wait again."""

    error_class = ERR_PROC_FAILED_PENDING


class JobAbortedError(ProcessFailedError):
    """The job ended: a rank called Abort, failed, or the launcher is gone."""

    error_class = ERR_PROC_ABORTED


class FileError(MPIError, error_class=unsupported_errors.ERR_IO):
    """A call on a file has failed. The error class tells why, and `__cause__` is the operating system's error.

    Args:
        what: message.
        error_class: one of the error classes of files, such as ERR_NO_SUCH_FILE.
    """

    def __init__(self, what: str, error_class: int = unsupported_errors.ERR_IO) -> None:
        super().__init__(what)
        self.error_class = self.error_code = error_class

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.error_class)


class WindowError(MPIError, error_class=unsupported_errors.ERR_WIN):
    """A call on a window is wrong. The error class says how.

    Args:
        what: message.
        error_class: one of the error classes of windows, such as ERR_RMA_SYNC.
    """

    def __init__(self, what: str, error_class: int = unsupported_errors.ERR_WIN) -> None:
        super().__init__(what)
        self.error_class = self.error_code = error_class

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.error_class)


_PLAIN: tuple[type[MPIError], ...] = (
    InvalidBufferError, InvalidCountError, InvalidTypeError, InvalidTagError, InvalidCommError, InvalidRankError,
    InvalidRequestError, InvalidRootError, InvalidGroupError, InvalidOpError, InvalidTopologyError,
    InvalidDimsError, InvalidArgumentError, UnknownError, TruncationError, OtherError, InternalError,
    InStatusError, PendingError,
)  # fmt: skip

# Error class -> exception. The first table has the classes of MPI-1.1, the second one has classes of later versions.
ERROR_CLASSES: Final[dict[int, type[MPIError]]] = {cls.error_class: cls for cls in _PLAIN}
LATER_ERROR_CLASSES: Final[dict[int, type[MPIError]]] = {
    cls.error_class: cls
    for cls in (
        InvalidKeyvalError, InvalidErrhandlerError, InvalidInfoError, InvalidInfoKeyError, InvalidInfoValueError,
        InfoNoKeyError, InvalidSessionError, SpawnError, InvalidPortError, InvalidServiceError, NotPublishedError,
        RevokedError, ProcessFailedError, ProcessFailedPendingError, JobAbortedError,
    )
}  # fmt: skip
_TYPES: Final = {**ERROR_CLASSES, **LATER_ERROR_CLASSES}


class _Codes:
    """The error classes and codes that the program has added (MPI-2, section 8.5), all greater than ERR_LASTCODE.

    Attributes:
        last: greatest number in use.
        class_of: added code -> its class; an added class is listed as its own code.
        strings: added code -> text of the code, if the program has set one.
    """

    def __init__(self) -> None:
        self.last = ERR_LASTCODE
        self.class_of: dict[int, int] = {}
        self.strings: dict[int, str] = {}

    def add(self, error_class: int | None) -> int:
        """Add a code to a class, or a new class if `error_class` is None. Return its number."""
        self.last += 1
        self.class_of[self.last] = self.last if error_class is None else error_class
        return self.last

    def check(self, code: int) -> int:
        """Return an error code if the program has added it.

        Raises:
            InvalidArgumentError: the program has not added this code.
        """
        if code not in self.class_of:
            raise InvalidArgumentError(f"{code} is no error code that this program has added and not removed")
        return code

    def is_class(self, code: int) -> bool:
        """Return True if an added code is a class."""
        return self.class_of[self.check(code)] == code

    def remove(self, code: int) -> None:
        """Remove a code or a class (MPI_Remove_error_code, MPI_Remove_error_class, MPI-4.1).

        Raises:
            InvalidArgumentError: the code or class still has codes or a string.
        """
        codes = [other for other, owner in self.class_of.items() if owner == code != other]
        if codes or code in self.strings:
            what = f"codes {codes}" if codes else f"the string {self.strings[code]!r}"
            raise InvalidArgumentError(f"error {code} still has {what}: remove them first")
        del self.class_of[code]


_codes: Final = _Codes()


def Get_error_class(errorcode: int) -> int:
    """Return the class of an error code; a class is its own class (MPI_Error_class, section 7.3).

    Args:
        errorcode: error code, or error class.

    Returns:
        The error class.
    """
    if errorcode in (SUCCESS, ERR_LASTCODE) or errorcode in _TYPES or errorcode in unsupported_errors.TEXTS:
        return errorcode
    return _codes.class_of.get(errorcode, ERR_UNKNOWN)


def Get_error_string(errorcode: int) -> str:
    """Return the text of an error code or class (MPI_Error_string, section 7.2).

    Args:
        errorcode: error code, or error class.

    Returns:
        The text.
    """
    if errorcode == SUCCESS:
        return "no error"
    if errorcode in _codes.class_of:
        return _codes.strings.get(errorcode, "")
    text = unsupported_errors.TEXTS.get(errorcode)
    return text or (_TYPES.get(errorcode, UnknownError).__doc__ or "").splitlines()[0]


error_string = Get_error_string


def Add_error_class() -> int:
    """Add an error class, above ERR_LASTCODE, for a library on top of MPI (MPI_Add_error_class, MPI-2)."""
    return _codes.add(None)


def Add_error_code(errorclass: int) -> int:
    """Add an error code (MPI_Add_error_code, MPI-2).

    Args:
        errorclass: class of the code, predefined or added.

    Raises:
        InvalidArgumentError: there is no such class.
    """
    if (
        errorclass not in _TYPES
        and errorclass not in unsupported_errors.TEXTS
        and not _codes.is_class(integer(errorclass, "Add_error_code: errorclass"))
    ):
        raise InvalidArgumentError(f"{errorclass} is an error code, and not a class that could have codes of its own")
    return _codes.add(errorclass)


def Add_error_string(errorcode: int, string: str) -> None:
    """Set the text of an added code or class (MPI_Add_error_string, MPI-2).

    Args:
        errorcode: error code, or error class.
        string: the text, of at most MAX_ERROR_STRING characters.

    Raises:
        InvalidArgumentError: the program has not added the code, or the text is longer than MAX_ERROR_STRING
            characters.
    """
    if len(text(string, "Add_error_string: string")) > MAX_ERROR_STRING:
        raise InvalidArgumentError(f"an error string of {len(string)} characters: {MAX_ERROR_STRING} are allowed")
    _codes.strings[_codes.check(errorcode)] = string


def Remove_error_class(errorclass: int) -> None:
    """Undo `Add_error_class` (MPI_Remove_error_class, MPI-4.1); the number is not used again.

    Args:
        errorclass: error class that `Add_error_class` returned.

    Raises:
        InvalidArgumentError: `errorclass` is no added class, or still has codes or a string.
    """
    if not _codes.is_class(errorclass):
        raise InvalidArgumentError(f"{errorclass} is an error code: remove it by Remove_error_code")
    _codes.remove(errorclass)


def Remove_error_code(errorcode: int) -> None:
    """Undo `Add_error_code` (MPI_Remove_error_code, MPI-4.1); the number is not used again.

    Args:
        errorcode: error code, or error class.

    Raises:
        InvalidArgumentError: `errorcode` is no added code, or still has a string.
    """
    if _codes.is_class(errorcode):
        raise InvalidArgumentError(f"{errorcode} is an error class: remove it by Remove_error_class")
    _codes.remove(errorcode)


def Remove_error_string(errorcode: int) -> None:
    """Undo `Add_error_string` (MPI_Remove_error_string, MPI-4.1).

    Args:
        errorcode: error code, or error class.

    Raises:
        InvalidArgumentError: the program has not added the code, or the code has no string.
    """
    if _codes.strings.pop(_codes.check(errorcode), None) is None:
        raise InvalidArgumentError(f"error {errorcode} has no string that could be removed")


def last_used_code() -> int:
    """Return the greatest code in use (attribute LASTUSEDCODE, MPI-2)."""
    return _codes.last


def failure(error: BaseException) -> str:
    """Return a description of an exception that ends a process, even if `str` fails for the exception.

    For a group of exceptions, the text describes the first exception that is not a group.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    try:
        words = str(error)
    except Exception:
        words = "<its text cannot be made>"
    return f"failed: {type(error).__name__}" + (
        words and f": {words if len(words) <= _LONGEST else words[:_LONGEST] + '...'}"
    )
