"""Constants of files: modes of access, origins of positions, and displacements."""

from __future__ import annotations

import os
from typing import Final

from aiompi.base.unsupported_errors import ERR_AMODE
from aiompi.constants import Constant
from aiompi.errors import FileError

__all__ = [
    "DISPLACEMENT_CURRENT", "DISP_CUR", "MODE_APPEND", "MODE_CREATE", "MODE_DELETE_ON_CLOSE", "MODE_EXCL",
    "MODE_RDONLY", "MODE_RDWR", "MODE_SEQUENTIAL", "MODE_UNIQUE_OPEN", "MODE_WRONLY", "SEEK_CUR", "SEEK_END",
    "SEEK_SET",
]  # fmt: skip

MODE_RDONLY: Final[int] = Constant("MODE_RDONLY", 1)
MODE_WRONLY: Final = 2
MODE_RDWR: Final = 4
MODE_CREATE: Final = 8
MODE_EXCL: Final = 16
MODE_DELETE_ON_CLOSE: Final = 32
MODE_UNIQUE_OPEN: Final = 64
MODE_SEQUENTIAL: Final = 128
MODE_APPEND: Final = 256
SEEK_SET: Final[int] = Constant("SEEK_SET", 0)
SEEK_CUR: Final = 1
SEEK_END: Final = 2
DISPLACEMENT_CURRENT: Final = -54278278
DISP_CUR: Final = DISPLACEMENT_CURRENT
#: largest size of a file, and largest offset
LARGEST: Final = 2**63 - 1
#: in place of an offset: the pointer of the process
POINTER: Final = object()

_ACCESS: Final = {MODE_RDONLY: os.O_RDONLY, MODE_WRONLY: os.O_WRONLY, MODE_RDWR: os.O_RDWR}
_KNOWN: Final = 2 * MODE_APPEND - 1


def flags_of(amode: int) -> int:
    """Return the flags of `os.open` for a mode of access, without the flags that create the file.

    Raises:
        FileError: ERR_AMODE: the mode contradicts itself (MPI-4.1, section 14.2.1).
    """
    access = amode & (MODE_RDONLY | MODE_WRONLY | MODE_RDWR)
    if access not in _ACCESS or amode & ~_KNOWN:
        raise FileError(
            f"amode is {amode:#x}: expected exactly one of MODE_RDONLY, MODE_WRONLY and MODE_RDWR, and other modes "
            "added to it",
            ERR_AMODE,
        )
    if access == MODE_RDONLY and amode & (MODE_CREATE | MODE_EXCL):
        raise FileError("amode has MODE_RDONLY together with MODE_CREATE or MODE_EXCL, which need writing", ERR_AMODE)
    if access == MODE_RDWR and amode & MODE_SEQUENTIAL:
        raise FileError("amode has MODE_RDWR together with MODE_SEQUENTIAL: such a file has one direction", ERR_AMODE)
    return _ACCESS[access] | os.O_CLOEXEC
