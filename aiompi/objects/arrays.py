"""Encoding of NumPy arrays and scalars: the dtype, the shape and the memory."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from aiompi.objects import type_tags
from aiompi.objects.type_tags import InexpressibleError, is_shape

if TYPE_CHECKING:
    from aiompi.objects.decode import DecodeFunction, Decoder
    from aiompi.objects.encode import Encoder

_BUILTIN: Final = range(24)  # numbers of NumPy's own dtypes of fixed size; other packages use the same characters
_DEPTH: Final = 32  # levels of a dtype inside dtypes; deeper ones are pickled
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Excludes "O": an object dtype from the network would be an array of addresses.
_DTYPE: Final = re.compile(r"[<>|]?[?bBhHiIlLqQuefdgcFDGSUVmM]\d{0,18}(\[([1-9]\d{0,8})?[a-zA-Z]{1,2}\])?", re.ASCII)

#: the flags of a dtype that NumPy documents. NumPy 2.5 has more, which depend on how the dtype was made.
_PUBLIC_FLAGS: Final = 0xFF


def encode_array(encoder: Encoder, array: Array) -> Any:
    """Encode an array whose class is exactly ndarray: dtype, True for Fortran order, payload, *shape.

    Raises:
        InexpressibleError: the dtype holds objects, or has no exact description.
    """
    dtype, flags = array.dtype, array.flags
    name = _PLAIN.get(dtype.num)
    if name is not None and dtype.isbuiltin == 1 and flags.c_contiguous:  # the usual case
        brief = array.nbytes < encoder.out_of_band
        payload = array.tobytes() if brief else encoder.payload(memoryview(cast(Any, array)).cast("B"))
        return encoder.extension(type_tags.ARRAY, [name, False, payload, *array.shape])
    description = describe(dtype)
    fortran = flags.f_contiguous and not flags.c_contiguous
    if not (fortran or flags.c_contiguous):
        array = np.ascontiguousarray(array)
    if array.nbytes < encoder.out_of_band:
        payload = array.tobytes("A")
    else:
        memory: Any = (array.T if fortran else array).reshape(-1).view(np.uint8)
        payload = encoder.payload(memoryview(memory))
    return encoder.extension(type_tags.ARRAY, [description, fortran, payload, *array.shape])


def decode_array(decoder: Decoder, description: Any, fortran: bool, data: bytes | None, *shape: int) -> Array:
    """Decode an array: a view of its out-of-band buffer, or of new memory if the data came inside the body."""
    dtype = _named(description) if type(description) is str else parse(description)
    payload = decoder.array_payload(data)
    if not is_shape(shape):
        raise ValueError(f"array with {len(shape)} dimensions")
    if dtype.itemsize * math.prod(shape) != len(payload):
        raise ValueError(f"array of shape {shape} and dtype {dtype} with {len(payload)} bytes")
    return np.ndarray(shape, dtype, payload, order="F") if fortran else np.ndarray(shape, dtype, payload)


def encode_scalar(encoder: Encoder, scalar: np.generic) -> Any:
    """Encode a scalar: dtype, bytes. Strings are sent by value, because trailing zeros look like padding in memory."""
    if isinstance(scalar, (np.str_, np.bytes_)):
        # Not str(scalar), which drops trailing zeros.
        value = str.__str__(scalar) if isinstance(scalar, np.str_) else bytes(scalar)
        return encoder.extension(type_tags.SCALAR, [scalar.dtype.kind, value])
    return encoder.extension(type_tags.SCALAR, [describe(scalar.dtype), scalar.tobytes()])


def decode_scalar(_decoder: Decoder, description: Any, data: Any) -> np.generic:
    """Decode a scalar."""
    if description == "U" and type(data) is str:
        return np.str_(data)
    if description == "S" and type(data) is bytes:
        return np.bytes_(data)
    dtype = parse(description)
    if type(data) is not bytes or len(data) != dtype.itemsize:
        raise ValueError(f"scalar of dtype {dtype} without its bytes")
    cell: Any = np.ndarray((), dtype, bytearray(data))
    scalar: np.generic = cell[()]
    return scalar


def describe(dtype: np.dtype[Any]) -> Any:
    """Describe a dtype with built-in types: a str, [base, shape] of a subarray, or a dict for a structured type.

    Raises:
        InexpressibleError: the dtype holds objects, has titles or metadata, or is a custom class.
    """
    if dtype.isbuiltin == 1 and dtype.num in _PLAIN:
        return _PLAIN[dtype.num]
    if dtype.metadata is not None or dtype.num not in _BUILTIN:
        raise InexpressibleError(np.ndarray, f"of dtype {dtype}" + " with metadata" * (dtype.metadata is not None))
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [describe(base), list(shape)]
    if dtype.fields is None:
        return _name(*_traits(dtype))
    names = list(dtype.names or ())
    fields = [dtype.fields[name] for name in names]
    description = {
        "names": names,
        "formats": [describe(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }
    if any(len(field) > 2 for field in fields):
        raise InexpressibleError(np.ndarray, f"of dtype {dtype}, which has titles")
    return _checked(description, dtype)


def parse(description: Any, depth: int = _DEPTH) -> np.dtype[Any]:
    """Return the dtype of a description made by `describe`, nested at most `depth` levels.

    Raises:
        ValueError, TypeError, KeyError: the description is malformed.
    """
    if isinstance(description, str):
        return _named(description)
    if not depth:
        raise ValueError(f"dtype nested deeper than {_DEPTH} levels")
    if isinstance(description, list):
        base, shape = description
        if not isinstance(shape, list) or not is_shape(shape):
            raise ValueError("subarray of no shape")
        return np.dtype((parse(base, depth - 1), tuple(shape)))
    layout = {
        "names": list(description["names"]),
        "formats": [parse(field, depth - 1) for field in description["formats"]],
        "offsets": list(description["offsets"]),
        "itemsize": int(description["itemsize"]),
    }
    return np.dtype(layout, align=bool(description["aligned"]))  # type: ignore[call-overload, no-any-return]


@lru_cache(256)
def _name(dtype: np.dtype[Any], *traits: object) -> str:
    name = dtype.str
    if np.dtype(name).char != dtype.char:
        name = (">" if dtype.str[0] == ">" else "") + dtype.char
    checked: str = _checked(name, dtype)
    return checked


@lru_cache(256)
def _named(name: str) -> np.dtype[Any]:
    if not _DTYPE.fullmatch(name):
        raise ValueError(f"not a dtype of plain memory: {name!r}")
    return np.dtype(name)


def _checked(description: Any, dtype: np.dtype[Any]) -> Any:
    with contextlib.suppress(ValueError, TypeError):
        if _traits(parse(description)) == _traits(dtype):
            return description
    raise InexpressibleError(np.ndarray, f"of dtype {dtype}")


def _traits(dtype: np.dtype[Any]) -> tuple[object, ...]:
    """Return the dtype and the properties that NumPy ignores when it compares dtypes like long and long long."""
    return dtype, dtype.type, dtype.num, dtype.char, dtype.flags & _PUBLIC_FLAGS, dtype.alignment


#: number of each dtype that memoryview can cast to bytes -> its description. `isbuiltin` is 1 for NumPy's own object of
#: the dtype, which has no metadata.
_PLAIN: Final = {dtype.num: _name(*_traits(dtype)) for dtype in map(np.dtype, "?bBhHiIlLqQefd")}
_SCALARS: Final = {np.dtype(code).type for code in "?bBhHiIlLqQefdgFDGSUVmM"}
ENCODERS: Final[dict[type, Callable[[Encoder, Any], Any]]] = {
    np.ndarray: encode_array,
    **dict.fromkeys(_SCALARS, encode_scalar),
}
DECODERS: Final[dict[int, DecodeFunction]] = {type_tags.ARRAY: decode_array, type_tags.SCALAR: decode_scalar}
