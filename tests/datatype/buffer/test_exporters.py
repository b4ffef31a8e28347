"""Memory that is described by DLPack and by array interfaces."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np
import pytest

from aiompi.datatype import predefined as mpi
from aiompi.datatype import resolve_recv, resolve_send
from aiompi.datatype.buffer.address import BOTTOM, Get_address
from aiompi.datatype.buffer.dlpack import _Tensor
from aiompi.datatype.buffer.exporters import check_reachable
from aiompi.errors import InvalidBufferError
from support.cases import cases


class Interface:
    """An object that has an array interface of some name and no buffer protocol."""

    def __init__(self, name: str, memory: np.ndarray[Any, Any], **changes: Any) -> None:
        self.memory = memory
        interface = dict(memory.__array_interface__) | changes
        setattr(self, name, {key: value for key, value in interface.items() if value is not ...})


NAMES = ["__array_interface__", "__cuda_array_interface__"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("code", list("?bhilqBHILQfdgFDG"))
def test_interfaces_share_the_memory(name: str, code: str) -> None:
    memory = np.zeros(3, code)
    buffer = resolve_recv(Interface(name, memory))
    assert (buffer.count, buffer.datatype.size) == (3, memory.itemsize)
    buffer.view[:] = np.ones(3, code).tobytes()
    assert memory.tolist() == np.ones(3, code).tolist()


def test_an_interface_keeps_its_object() -> None:
    buffer = resolve_send(Interface("__cuda_array_interface__", np.arange(4)))
    assert bytes(buffer.view) == np.arange(4).tobytes()


@cases(
    ("changes", "error"),
    [
        ({"data": ...}, KeyError),
        ({"data": 5}, TypeError),
        ({"data": (1, False, 2)}, ValueError),
        ({"data": (8, False)}, BufferError),
        ({"typestr": 5}, TypeError),
        ({"typestr": "#i4"}, BufferError),
        ({"typestr": ">i4"}, BufferError),
        ({"typestr": "<iX"}, ValueError),
        ({"shape": None}, TypeError),
        ({"shape": (-3,)}, BufferError),
        ({"strides": (7,)}, BufferError),
        ({"strides": 5}, TypeError),
        ({"mask": True}, BufferError),
        ({"descr": 5}, TypeError),
    ],
)
def test_wrong_descriptions_are_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve_send(Interface("__cuda_array_interface__", np.zeros(3, "i4"), **changes))


def test_structures_are_sent_as_bytes_with_a_warning() -> None:
    memory = np.zeros(2, np.dtype("V8"))
    described = Interface("__cuda_array_interface__", memory, descr=[("", "<i4"), ("", "<i4")])
    with pytest.warns(RuntimeWarning, match="descr"):
        assert resolve_send(described).nbytes == 16


def test_read_only_interfaces_cannot_receive() -> None:
    memory = np.zeros(3)
    described = Interface("__cuda_array_interface__", memory, data=(memory.ctypes.data, True))
    assert resolve_send(described).nbytes == 24
    with pytest.raises(InvalidBufferError, match="read-only") as failure:
        resolve_recv(described)
    assert isinstance(failure.value, BufferError)


def test_addresses_without_memory_are_refused() -> None:
    with pytest.raises(BufferError, match="not in memory that this process can read"):
        check_reachable(4096, 1)


_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    """Memory in a capsule of the older version, as an array module without numpy would hand it out."""

    def __init__(self, memory: array.array[Any], code: int, device: int = 1, **changes: Any) -> None:
        self.memory = memory
        shape, strides = (ctypes.c_int64 * 1)(len(memory)), (ctypes.c_int64 * 1)(1)
        self.tensor = _Tensor(memory.buffer_info()[0], device, 0, 1, code, 8 * memory.itemsize, 1, shape, strides, 0)
        for name, value in changes.items():
            setattr(self.tensor, name, value)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.device_type, self.tensor.device_id

    def __dlpack__(self, stream: Any = None) -> object:
        return _new(ctypes.addressof(self.tensor), b"dltensor", None)


def test_dlpack_shares_the_memory() -> None:
    memory = array.array("i", [1, 2, 3])
    buffer = resolve_recv(Tensor(memory, 0))
    assert (buffer.count, buffer.datatype) == (3, mpi.INT)
    buffer.view[:4] = (7).to_bytes(4, "little")
    assert memory[0] == 7


def test_addresses_in_memory_of_dlpack() -> None:
    """They lead there as long as the object that was asked lives."""
    tensor = Tensor(array.array("i", [1, 2, 3]), 0)
    second = mpi.INT.Create_hindexed([1], [Get_address(tensor) + 4]).Commit()
    buffer = resolve_recv([BOTTOM, 1, second])
    buffer.unpack(memoryview((7).to_bytes(4, "little")))
    assert list(tensor.memory) == [1, 7, 3]
    del tensor, buffer
    with pytest.raises(InvalidBufferError, match="or the memory was freed"):
        resolve_recv([BOTTOM, 1, second])


def test_dlpack_of_numpy_is_read_and_not_consumed() -> None:
    class Wrapped:
        def __init__(self) -> None:
            self.memory = np.arange(3.0)
            self.__dlpack__ = self.memory.__dlpack__
            self.__dlpack_device__ = self.memory.__dlpack_device__

    assert resolve_recv(Wrapped()).datatype == mpi.DOUBLE


@cases(
    "changes",
    [
        {"device_type": 2},
        {"ndim": -1},
        {"ndim": 1, "shape": None},
        {"shape": (ctypes.c_int64 * 1)(-1)},
        {"strides": (ctypes.c_int64 * 1)(-1)},
        {"strides": (ctypes.c_int64 * 1)(2)},
    ],
)
def test_wrong_tensors_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BufferError):
        resolve_send(Tensor(array.array("i", [1, 2, 3]), 0, **changes))


def test_vectors_and_unknown_elements_are_bytes() -> None:
    memory = array.array("i", [1, 2, 3])
    assert resolve_send(Tensor(memory, 0, bits=16, lanes=2)).nbytes == 12
    assert resolve_send(Tensor(memory, 3)).nbytes == 12


def test_what_is_no_capsule_is_refused() -> None:
    class Broken:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> None:
            return None

    with pytest.raises(BufferError, match="not a DLPack capsule"):
        resolve_send(Broken())
