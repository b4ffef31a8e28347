"""MPI error classes of files, windows and missing parts of MPI. They have no Python exception classes of their own."""

from __future__ import annotations

from typing import Final

from aiompi.constants import Constant

__all__ = [
    "ERR_NO_MEM", "ERR_BASE", "ERR_SIZE",
    "ERR_DISP", "ERR_ASSERT", "ERR_LOCKTYPE", "ERR_WIN", "ERR_RMA_CONFLICT", "ERR_RMA_SYNC", "ERR_RMA_RANGE",
    "ERR_RMA_ATTACH", "ERR_RMA_SHARED", "ERR_RMA_FLAVOR", "ERR_FILE", "ERR_BAD_FILE", "ERR_NO_SUCH_FILE",
    "ERR_FILE_EXISTS", "ERR_FILE_IN_USE", "ERR_AMODE", "ERR_ACCESS", "ERR_READ_ONLY", "ERR_NO_SPACE", "ERR_QUOTA",
    "ERR_NOT_SAME", "ERR_IO", "ERR_UNSUPPORTED_OPERATION", "ERR_UNSUPPORTED_DATAREP", "ERR_CONVERSION",
    "ERR_DUP_DATAREP", "ERR_VALUE_TOO_LARGE", "ERR_ABI",
]  # fmt: skip

ERR_NO_MEM: Final = 26
ERR_BASE: Final = 32
ERR_SIZE: Final = 33
ERR_DISP: Final = 34
ERR_ASSERT: Final = 35
ERR_LOCKTYPE: Final = 36
ERR_WIN: Final[int] = Constant("ERR_WIN", 37)
ERR_RMA_CONFLICT: Final = 38
ERR_RMA_SYNC: Final = 39
ERR_RMA_RANGE: Final = 40
ERR_RMA_ATTACH: Final = 41
ERR_RMA_SHARED: Final = 42
ERR_RMA_FLAVOR: Final = 43
ERR_FILE: Final = 44
ERR_BAD_FILE: Final = 45
ERR_NO_SUCH_FILE: Final = 46
ERR_FILE_EXISTS: Final = 47
ERR_FILE_IN_USE: Final = 48
ERR_AMODE: Final = 49
ERR_ACCESS: Final = 50
ERR_READ_ONLY: Final = 51
ERR_NO_SPACE: Final = 52
ERR_QUOTA: Final = 53
ERR_NOT_SAME: Final = 54
ERR_IO: Final[int] = Constant("ERR_IO", 55)
ERR_UNSUPPORTED_OPERATION: Final = 56
ERR_UNSUPPORTED_DATAREP: Final = 57
ERR_CONVERSION: Final = 58
ERR_DUP_DATAREP: Final = 59
ERR_VALUE_TOO_LARGE: Final = 60
ERR_ABI: Final = 65

#: class -> its text
TEXTS: Final = {
    ERR_NO_MEM: "There is no memory left.",
    ERR_BASE: "Bad base address.",
    ERR_SIZE: "Bad size.",
    ERR_DISP: "Bad displacement.",
    ERR_ASSERT: "Bad assertion.",
    ERR_LOCKTYPE: "Bad type of lock.",
    ERR_WIN: "Bad window.",
    ERR_RMA_CONFLICT: "Conflicting accesses to a window.",
    ERR_RMA_SYNC: "Wrong synchronisation of a window.",
    ERR_RMA_RANGE: "Target memory is not part of the window.",
    ERR_RMA_ATTACH: "Memory cannot be attached to the window.",
    ERR_RMA_SHARED: "Memory cannot be shared.",
    ERR_RMA_FLAVOR: "The window is of the wrong flavor.",
    ERR_FILE: "Bad file.",
    ERR_BAD_FILE: "Bad file name.",
    ERR_NO_SUCH_FILE: "There is no such file.",
    ERR_FILE_EXISTS: "The file exists.",
    ERR_FILE_IN_USE: "The file is in use.",
    ERR_AMODE: "Bad mode of access.",
    ERR_ACCESS: "Access is denied.",
    ERR_READ_ONLY: "The file is read-only.",
    ERR_NO_SPACE: "There is no space left.",
    ERR_QUOTA: "The quota is exceeded.",
    ERR_NOT_SAME: "Arguments differ between the processes of a collective.",
    ERR_IO: "Other error of input or output.",
    ERR_UNSUPPORTED_OPERATION: "The operation is not supported on this file.",
    ERR_UNSUPPORTED_DATAREP: "The representation of data is not supported.",
    ERR_CONVERSION: "A conversion of data has failed.",
    ERR_DUP_DATAREP: "The representation of data is defined already.",
    ERR_VALUE_TOO_LARGE: "A value is too large.",
    ERR_ABI: "The library has another binary interface.",
}
