"""Memory by its address, of this process or of another one."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np


class _Range(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


#: copies between memory of this process and an address of another one
Copy: TypeAlias = Callable[[int, int, memoryview], None]

_libc: Final = ctypes.CDLL(None, use_errno=True)
_readv, _writev = _libc.process_vm_readv, _libc.process_vm_writev
for _function in (_readv, _writev):
    _function.restype = ctypes.c_ssize_t
    _function.argtypes = [
        ctypes.c_int, ctypes.POINTER(_Range), ctypes.c_ulong, ctypes.POINTER(_Range), ctypes.c_ulong, ctypes.c_ulong,
    ]  # fmt: skip

_map, _mremap, _unmap = _libc.mmap, _libc.mremap, _libc.munmap
_map.restype = _mremap.restype = ctypes.c_void_p
_map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
_unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_MAYMOVE: Final = 1
_FIXED: Final = 2
_FAILED: Final = ctypes.c_void_p(-1).value


def address_of(piece: bytes | memoryview) -> int:
    """Of the first byte."""
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
    nbytes = len(memory)
    here, there = _Range(address_of(memory), nbytes), _Range(address, nbytes)
    copied = function(process, here, 1, there, 1, 0)
    if copied != nbytes:
        number = ctypes.get_errno() if copied < 0 else errno.EFAULT
        raise OSError(number, os.strerror(number))


def separate(address: int, nbytes: int) -> int:
    """Put private memory with the same content in the place of memory that is shared with other processes.

    What other threads write there meanwhile may be lost.

    Args:
        address, nbytes: whole pages of one mapping.

    Returns:
        The address of the shared memory from now on.

    Raises:
        OSError: there is no memory.
    """
    shared = _remap(address, 0, nbytes, _MAYMOVE, None)  # no length: the same pages once more
    try:
        private = _check(_map(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, _PRIVATE, -1, 0))
        ctypes.memmove(private, address, nbytes)
        _remap(private, nbytes, nbytes, _MAYMOVE | _FIXED, address)
    except BaseException:
        _unmap(shared, nbytes)
        raise
    return shared


def restore(shared: int, address: int, nbytes: int) -> None:
    """Undo `separate`, and lose the private memory.

    Args:
        shared: what it has returned.
        address, nbytes: as there.

    Raises:
        OSError: there is no memory.
    """
    _remap(shared, nbytes, nbytes, _MAYMOVE | _FIXED, address)


def _remap(address: int, old: int, new: int, flags: int, wanted: int | None) -> int:
    return _check(_mremap(address, old, new, flags, wanted))


def _check(address: int | None) -> int:
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return address
