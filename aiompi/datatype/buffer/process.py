"""Memory by its address, of this process or of another one."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

#: copies between memory of this process and an address of another one
Copy: TypeAlias = Callable[[int, int, memoryview], None]

_byte_of: Final = ctypes.c_char.from_buffer
_libc: Final = ctypes.CDLL(None, use_errno=True)
_readv, _writev = _libc.process_vm_readv, _libc.process_vm_writev
for _function in (_readv, _writev):
    _function.restype = ctypes.c_ssize_t
    _function.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong,
    ]  # fmt: skip
#: address and bytes here, and there
_RANGES: Final = struct.Struct("=QQQQ")
_THERE: Final = _RANGES.size // 2

_map = _libc.mmap
_map.restype = ctypes.c_void_p
_map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
#: which the module of that name has not
_MAP_FIXED: Final = 0x10


def address_of(piece: bytes | bytearray | memoryview) -> int:
    """Of the first byte."""
    try:
        return ctypes.addressof(_byte_of(piece))
    except (TypeError, ValueError):  # it is read-only, or empty
        return int(np.frombuffer(piece, np.uint8).__array_interface__["data"][0])


def read(process: int, address: int, memory: memoryview) -> None:
    """Copy bytes of a process into memory of this one (process_vm_readv(2)), while other threads run.

    Args:
        process: its id.
        address: of the first byte there.
        memory: as many bytes, one or more.

    Raises:
        OSError: the kernel does not allow it, or that process does not have all of this memory (EFAULT), or is no more.
    """
    _copy(_readv, process, address, memory)


def write(process: int, address: int, memory: bytes | memoryview) -> None:
    """Copy bytes of this process into memory of another one (process_vm_writev(2)), while other threads run.

    For arguments and errors see `read`.
    """
    _copy(_writev, process, address, memory)


def _copy(function: Any, process: int, address: int, memory: bytes | memoryview) -> None:
    ranges = _ranges(address, memory)
    start = address_of(ranges)
    _check(function(process, start, 1, start + _THERE, 1, 0), len(memory))


def _ranges(address: int, memory: bytes | memoryview) -> bytearray:
    """Where the bytes are of a copy, here and there."""
    nbytes = len(memory)
    return bytearray(_RANGES.pack(address_of(memory), nbytes, address, nbytes))


def _check(copied: int, nbytes: int) -> None:
    if copied != nbytes:
        number = ctypes.get_errno() if copied < 0 else errno.EFAULT
        raise OSError(number, os.strerror(number))


def blank(address: int, nbytes: int, usable: bool) -> None:
    """Put private memory of zeros in the place of other memory (mmap(2)).

    Args:
        address, nbytes: whole pages, which nobody else uses meanwhile.
        usable: whether it can be read and written; otherwise whoever does is killed.

    Raises:
        OSError: there is no memory.
    """
    access = mmap.PROT_READ | mmap.PROT_WRITE if usable else 0
    if _map(address, nbytes, access, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED, -1, 0) != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
