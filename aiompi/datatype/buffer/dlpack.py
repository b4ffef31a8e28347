"""Reading DLPack capsules, with which other libraries export arrays (DLPack 0 and 1, on the CPU).

The capsule is read and kept, but not consumed, so its owner frees the memory when the capsule is deleted.
numpy.from_dlpack cannot be used: it treats memory of DLPack 0 as read-only, and does not support vectors as elements.
"""

from __future__ import annotations

import ctypes
import math
from operator import index
from typing import Any, Final

from aiompi.base.lazy import np
from aiompi.errors import InvalidBufferError

#: device types whose memory belongs to the process: CPU, and pinned or managed memory of GPUs
_OF_THE_HOST: Final = {1: "CPU", 3: "CUDAHost", 11: "ROCMHost", 13: "CUDAManaged"}
_READ_ONLY: Final = 1
#: numpy's letters for the codes of element types: integer, unsigned, float, handle, bfloat16, complex, bool
_LETTERS: Final = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_uint),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid: Final = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer: Final = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer.restype = ctypes.c_void_p


def described(producer: Any) -> tuple[object, int, tuple[int, ...], tuple[int, ...] | None, str, bool]:
    """Return the arguments of `exporters.Description` for the memory of an object with `__dlpack__`.

    Raises:
        InvalidBufferError: the memory is on a device or has gaps, or the object gives no capsule of a known version.
        TypeError, ValueError: the description of the memory is invalid.
    """
    kind, number = producer.__dlpack_device__()
    if index(kind) not in _OF_THE_HOST or index(number) < 0:
        raise InvalidBufferError(f"DLPack memory on device {kind}: only memory of the host can be sent; copy it there")
    capsule = _capsule(producer)
    tensor, readonly = _tensor(capsule)
    shape, strides = _shape(tensor)
    code = _typestr(tensor)
    itemsize = int(code[1:])
    if strides is not None:
        strides = tuple(itemsize * (stride if n > 1 else 1) for n, stride in zip(shape, strides, strict=True))
    if any(stride <= 0 for n, stride in zip(shape, strides or (), strict=False) if n > 1):
        raise InvalidBufferError(f"DLPack memory with strides {strides} has gaps or overlaps; pass a contiguous copy")
    address = (tensor.data or 0) + tensor.byte_offset
    return (producer, capsule), address, shape, strides, code, readonly


def _capsule(producer: Any) -> object:
    try:
        capsule: object = producer.__dlpack__(max_version=(1, 0))
    except TypeError:  # DLPack 0
        capsule = producer.__dlpack__()
    return capsule


def _tensor(capsule: object) -> tuple[_Tensor, bool]:
    """Return the tensor in a capsule, and whether it is read-only."""
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise InvalidBufferError(f"DLPack version {versioned.major}.{versioned.minor} is not supported; 1 is")
        return versioned.tensor, bool(versioned.flags & _READ_ONLY)
    if _is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(_pointer(capsule, b"dltensor")), False
    raise InvalidBufferError(f"__dlpack__ gave {capsule!r}, which is not a DLPack capsule, or was already consumed")


def _shape(tensor: _Tensor) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the shape, and the strides in elements (None instead of strides for C order without gaps)."""
    n = tensor.ndim
    if n < 0 or (n and not tensor.shape):
        raise InvalidBufferError(f"DLPack memory of {n} dimensions{'' if n < 0 else ' without a shape'}")
    shape = tuple(tensor.shape[i] for i in range(n))
    if min(shape, default=0) < 0:
        raise InvalidBufferError(f"DLPack memory of shape {shape}, which has a negative number")
    if 0 in shape or not tensor.strides:
        return shape, None
    return shape, tuple(tensor.strides[i] for i in range(n))


def _typestr(tensor: _Tensor) -> str:
    """Return numpy's letter and size of an element. Vectors, and types that numpy does not have, are bytes."""
    nbytes = math.ceil(tensor.bits * tensor.lanes / 8)
    letter = _LETTERS.get(tensor.code, "V") if tensor.lanes == 1 else "V"
    try:
        return np.dtype(f"{letter}{nbytes}").str[1:]
    except TypeError:
        return f"V{nbytes}"
