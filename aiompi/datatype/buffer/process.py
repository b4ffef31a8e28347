"""Access to memory by address, in this process or in another one."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from aiompi.lazy import np

#: function that copies between memory of this process and an address of another process
Copy: TypeAlias = Callable[[int, int, memoryview], None]

_byte_of: Final = ctypes.c_char.from_buffer
_libc: Final = ctypes.CDLL(None, use_errno=True)
_readv, _writev = _libc.process_vm_readv, _libc.process_vm_writev
for _function in (_readv, _writev):
    _function.restype = ctypes.c_ssize_t
    _function.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong,
    ]  # fmt: skip
#: address and length in this process, then in the other one
_RANGES: Final = struct.Struct("=QQQQ")
_THERE: Final = _RANGES.size // 2

_map = _libc.mmap
_map.restype = ctypes.c_void_p
_map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
#: missing in the module `mmap`
_MAP_FIXED: Final = 0x10


def address_of(piece: bytes | bytearray | memoryview) -> int:
    """Return the address of the first byte."""
    try:
        return ctypes.addressof(_byte_of(piece))
    except (TypeError, ValueError):  # it is read-only, or empty
        return int(np.frombuffer(piece, np.uint8).__array_interface__["data"][0])


def read(process: int, address: int, memory: memoryview) -> None:
    """Copy bytes of a process into memory of this one (process_vm_readv(2)), while other threads run.

    Args:
        process: id of the process.
        address: address of the first byte there.
        memory: memory to fill, one byte or more.

    Raises:
        OSError: the kernel does not allow the copy, the process does not have all of that memory (EFAULT), or it has
            ended.
    """
    _copy(_readv, process, address, memory)


def write(process: int, address: int, memory: bytes | memoryview) -> None:
    """Copy bytes of this process into memory of another one (process_vm_writev(2)), while other threads run.

    For the arguments and errors see `read`.
    """
    _copy(_writev, process, address, memory)


def _copy(function: Any, process: int, address: int, memory: bytes | memoryview) -> None:
    nbytes = len(memory)
    ranges = bytearray(_RANGES.pack(address_of(memory), nbytes, address, nbytes))
    start = address_of(ranges)
    copied = function(process, start, 1, start + _THERE, 1, 0)
    if copied != nbytes:
        number = ctypes.get_errno() if copied < 0 else errno.EFAULT
        raise OSError(number, os.strerror(number))


def blank(address: int, nbytes: int, usable: bool) -> None:
    """Replace memory by private memory of zeros (mmap(2)).

    Args:
        address, nbytes: whole pages, not in use by other threads.
        usable: True if the memory can be read and written; if not, an access kills the process.

    Raises:
        OSError: there is not enough memory.
    """
    access = mmap.PROT_READ | mmap.PROT_WRITE if usable else 0
    if _map(address, nbytes, access, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED, -1, 0) != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
