"""Objects that tell where their memory is in other ways than the buffer protocol: DLPack, and array interfaces.

What they describe becomes a numpy array over the same memory, which keeps the object. A pointer is followed only
after the kernel has said that it leads to memory of this process: that of a GPU does not, unless it is managed.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, TypeAlias

import numpy as np

from aiompi.datatype.buffer import process
from aiompi.errors import InvalidBufferError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Foreign: TypeAlias = "Array | memoryview"


def exported(memory: object) -> Foreign | None:
    """The memory of an object, None if it does not say where that is.

    Raises:
        InvalidBufferError: it is not in the memory of this process, has gaps, or is described wrongly.
        TypeError, ValueError, KeyError: a description has parts of a wrong kind.
    """
    try:
        return memoryview(memory)  # type: ignore[arg-type]
    except TypeError:
        pass
    if hasattr(memory, "__dlpack__") and hasattr(memory, "__dlpack_device__"):
        from aiompi.datatype.buffer.dlpack import from_dlpack

        return from_dlpack(memory)
    if hasattr(memory, "__cuda_array_interface__"):
        return _of_interface(memory, memory.__cuda_array_interface__)
    if hasattr(memory, "__array_interface__") or hasattr(memory, "__array_struct__"):
        return np.asarray(memory)
    return None


class Description:
    """Memory as it is described to numpy, with the objects that it belongs to.

    Args:
        owner: frees the memory when it is forgotten.
        address: of the first byte.
        shape: number of elements along each axis.
        strides: bytes from element to element along each axis; None: there are no gaps, in C order.
        typestr: as numpy has it.
        readonly: whether it must not be written.
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
        """The memory as an array that keeps this description.

        Raises:
            InvalidBufferError: it is not all in memory of this process, or the elements do not lie without gaps.
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
    """Check that the first and the last of so many bytes are in memory of this process.

    Raises:
        InvalidBufferError: they are not.
    """
    for place in {address, address + nbytes - 1}:
        try:
            process.read(os.getpid(), place, memoryview(bytearray(1)))
        except OSError:
            raise InvalidBufferError(
                f"address {place:#x} is in no memory that this process can read, but maybe in that of a device; "
                "copy the data to the host first"
            ) from None


def _of_interface(owner: object, interface: Any) -> Array:
    """The array that `__cuda_array_interface__` describes, which is also what managed memory is known by."""
    if not isinstance(interface, dict):
        raise TypeError(f"__cuda_array_interface__ is of type {type(interface).__name__}: expected a dict")
    if interface.get("mask") is not None:
        raise InvalidBufferError("__cuda_array_interface__ has a mask, which messages cannot have; apply it first")
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
        None if strides is None else _without_idle(shape, tuple(strides), itemsize),
        np.dtype(typestr if typestr[0] != "|" else typestr[1:]).str,
        bool(readonly),
    ).array()


def _itemsize(typestr: str) -> int:
    """Bytes of an element.

    Raises:
        InvalidBufferError: the elements are not in native byte order.
    """
    if typestr[:1] not in ("<", ">", "|", "="):
        raise InvalidBufferError(f"typestr {typestr!r} has no byte order that is known")
    itemsize = int(typestr[2:])
    if typestr[0] not in "|=" and not np.dtype(typestr).isnative:
        raise InvalidBufferError(f"typestr {typestr!r} is not in native byte order; convert the data first")
    return itemsize


def _check_description(description: Any, typestr: str) -> None:
    """Warn of structured elements, of which only the length is known here."""
    if description is None:
        return
    if not isinstance(description, list):
        raise TypeError(f"descr of __cuda_array_interface__ is of type {type(description).__name__}: expected a list")
    if description != [("", typestr)]:
        warnings.warn("descr of __cuda_array_interface__ is ignored: elements are sent as bytes", RuntimeWarning, 2)


def _without_idle(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in which those along axes of one element, which lead nowhere, fit any order."""
    return tuple(itemsize if n <= 1 else stride for n, stride in zip(shape, strides, strict=True))
