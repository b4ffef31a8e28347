"""Access to memory by address, in this process or in another one."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

from aiompi.base.lazy import np

_byte_of: Final = ctypes.c_char.from_buffer
_libc: Final = ctypes.CDLL(None, use_errno=True)
_readv = _libc.process_vm_readv
_readv.restype = ctypes.c_ssize_t
_readv.argtypes = [
    ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong,
]  # fmt: skip
#: address and length in this process, then in the other one
_RANGES: Final = struct.Struct("=QQQQ")
_THERE: Final = _RANGES.size // 2


def address_of(piece: bytes | bytearray | memoryview) -> int:
    """Return the address of the first byte."""
    try:
        return ctypes.addressof(_byte_of(piece))
    except (TypeError, ValueError):  # it is read-only, or empty
        return int(np.frombuffer(piece, np.uint8).__array_interface__["data"][0])


def read(process: int, address: int, memory: memoryview) -> None:
    """Copy bytes of a process into memory of this process (process_vm_readv(2)).

    Args:
        process: id of the process.
        address: address of the first byte in that process.
        memory: memory to fill, one byte or more.

    Raises:
        OSError: the kernel does not allow the copy, the process does not have all of that memory (EFAULT), or the
            process has ended.
    """
    nbytes = len(memory)
    ranges = bytearray(_RANGES.pack(address_of(memory), nbytes, address, nbytes))
    start = address_of(ranges)
    copied = _readv(process, start, 1, start + _THERE, 1, 0)
    if copied != nbytes:
        number = ctypes.get_errno() if copied < 0 else errno.EFAULT
        raise OSError(number, os.strerror(number))
