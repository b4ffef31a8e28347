"""Objects that export memory through DLPack or an array interface instead of the buffer protocol.

Their memory becomes a numpy array, which keeps the object alive. A pointer is used only after the kernel has confirmed
that it refers to memory of this process. A pointer to GPU memory passes this check only if the host can read that
memory too (managed memory).
"""

from __future__ import annotations

import os
import warnings
from typing import Any, TypeAlias

from aiompi.base.lazy import np
from aiompi.datatype.buffer import dlpack, process
from aiompi.errors import InvalidBufferError

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Foreign: TypeAlias = "Array | memoryview"


def exported(memory: object) -> Foreign | None:
    """Return the memory of an object, or None if the object does not export it.

    Raises:
        InvalidBufferError: the memory is not in this process, has gaps, or has an invalid description.
        TypeError, ValueError, KeyError: a part of the description has a wrong type.
    """
    try:
        return memoryview(memory)  # type: ignore[arg-type]
    except TypeError:
        pass
    if hasattr(memory, "__dlpack__") and hasattr(memory, "__dlpack_device__"):
        return Description(*dlpack.described(memory)).array()
    if hasattr(memory, "__cuda_array_interface__"):
        return _of_interface(memory, memory.__cuda_array_interface__)
    if hasattr(memory, "__array_interface__") or hasattr(memory, "__array_struct__"):
        return np.asarray(memory)
    return None


class Description:
    """A description of memory for numpy, with the object that owns the memory.

    Args:
        owner: object that owns the memory.
        address: address of the first byte.
        shape: number of elements along each axis.
        strides: bytes from element to element along each axis; None for C order without gaps.
        typestr: type of the elements, as in numpy's array interface.
        readonly: True if the memory is read-only.
    """

    __slots__ = ("__array_interface__", "_owner")

    def __init__(
        self,
        owner: object,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        typestr: str,
        readonly: bool,
    ) -> None:
        self._owner = owner
        self.__array_interface__: dict[str, Any] = {
            "data": (address, readonly),
            "shape": shape,
            "strides": strides,
            "typestr": typestr,
            "version": 3,
        }

    def array(self) -> Array:
        """Return the memory as an array that keeps this description alive.

        Raises:
            InvalidBufferError: the memory is not all in this process, or has gaps.
        """
        interface = self.__array_interface__
        address, shape, typestr = interface["data"][0], interface["shape"], interface["typestr"]
        if 0 in shape:
            return np.empty(shape, typestr)
        array = np.asarray(self)
        if not array.flags.forc:
            raise InvalidBufferError(
                f"the memory of shape {shape} with strides {interface['strides']} has gaps; pass a contiguous copy"
            )
        check_reachable(address, array.nbytes)
        return array


def check_reachable(address: int, nbytes: int) -> None:
    """Raise InvalidBufferError unless the first and the last of `nbytes` bytes are in memory of this process."""
    for place in {address, address + nbytes - 1}:
        try:
            process.read(os.getpid(), place, memoryview(bytearray(1)))
        except OSError:
            raise InvalidBufferError(
                f"address {place:#x} is not in memory that this process can read; it may be memory of a device: "
                "copy the data to the host first"
            ) from None


def _of_interface(owner: object, interface: Any) -> Array:
    """Return the array that `__cuda_array_interface__` describes; managed memory has this interface too."""
    if not isinstance(interface, dict):
        raise TypeError(f"__cuda_array_interface__ is of type {type(interface).__name__}: expected a dict")
    if interface.get("mask") is not None:
        raise InvalidBufferError("__cuda_array_interface__ has a mask, which messages cannot represent; apply it first")
    address, readonly = interface["data"]
    typestr = interface["typestr"]
    if not isinstance(typestr, str):
        raise TypeError(f"typestr of __cuda_array_interface__ is {typestr!r}: expected a string")
    itemsize = _itemsize(typestr)
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    _check_description(interface.get("descr"), typestr)
    if min(shape, default=0) < 0:
        raise InvalidBufferError(f"shape {shape} of __cuda_array_interface__ has a negative number")
    return Description(
        owner,
        int(address),
        shape,
        # Strides of axes of one element have no effect.
        strides if strides is None else tuple(itemsize if n < 2 else by for n, by in zip(shape, strides, strict=True)),
        np.dtype(typestr if typestr[0] != "|" else typestr[1:]).str,
        bool(readonly),
    ).array()


def _itemsize(typestr: str) -> int:
    """Return the bytes of an element.

    Raises:
        InvalidBufferError: the elements are not in native byte order.
    """
    if typestr[:1] not in ("<", ">", "|", "="):
        raise InvalidBufferError(f"typestr {typestr!r} has an unknown byte order")
    itemsize = int(typestr[2:])
    if typestr[0] not in "|=" and not np.dtype(typestr).isnative:
        raise InvalidBufferError(f"typestr {typestr!r} is not in native byte order; convert the data first")
    return itemsize


def _check_description(description: Any, typestr: str) -> None:
    """Warn about structured elements, whose fields are ignored."""
    if description is None:
        return
    if not isinstance(description, list):
        raise TypeError(f"descr of __cuda_array_interface__ is of type {type(description).__name__}: expected a list")
    if description != [("", typestr)]:
        warnings.warn("descr of __cuda_array_interface__ is ignored: elements are sent as bytes", RuntimeWarning, 2)
