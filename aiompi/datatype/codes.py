"""Conversions between datatypes and numpy types, PEP 3118 formats and the type codes of mpi4py."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from aiompi.base.lazy import np
from aiompi.constants import ORDER_C
from aiompi.datatype import predefined as mpi
from aiompi.datatype.arguments import UnknownFormatError
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.handle import CODES
from aiompi.datatype.lookup import is_foreign, split_code
from aiompi.errors import InvalidTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

# The codes of mpi4py: PEP 3118 letters first, then numpy's letters with a size.
CODES.update({
    "?": mpi.C_BOOL,
    "b": mpi.SIGNED_CHAR, "h": mpi.SHORT, "i": mpi.INT, "l": mpi.LONG, "q": mpi.LONG_LONG,
    "B": mpi.UNSIGNED_CHAR, "H": mpi.UNSIGNED_SHORT, "I": mpi.UNSIGNED,
    "L": mpi.UNSIGNED_LONG, "Q": mpi.UNSIGNED_LONG_LONG,
    "n": mpi.COUNT, "N": mpi.UNSIGNED_LONG, "p": mpi.AINT, "P": mpi.UNSIGNED_LONG,
    "e": mpi.REAL2, "f": mpi.FLOAT, "d": mpi.DOUBLE, "g": mpi.LONG_DOUBLE,
    "F": mpi.C_FLOAT_COMPLEX, "D": mpi.C_DOUBLE_COMPLEX, "G": mpi.C_LONG_DOUBLE_COMPLEX,
    "Zf": mpi.C_FLOAT_COMPLEX, "Zd": mpi.C_DOUBLE_COMPLEX, "Zg": mpi.C_LONG_DOUBLE_COMPLEX,
    "c": mpi.CHAR, "a": mpi.CHAR, "s": mpi.CHAR, "1s": mpi.CHAR, "S": mpi.CHAR, "S1": mpi.CHAR,
    "w": mpi.WCHAR, "1w": mpi.WCHAR, "U": mpi.WCHAR, "U1": mpi.WCHAR,
    "u": mpi.UINT16_T, "1u": mpi.UINT16_T,
    "m": mpi.INT64_T, "m8": mpi.INT64_T, "M": mpi.INT64_T, "M8": mpi.INT64_T,
    "b1": mpi.C_BOOL,
    "i1": mpi.INT8_T, "i2": mpi.INT16_T, "i4": mpi.INT32_T, "i8": mpi.INT64_T,
    "u1": mpi.UINT8_T, "u2": mpi.UINT16_T, "u4": mpi.UINT32_T, "u8": mpi.UINT64_T,
    "f2": mpi.REAL2, "f4": mpi.FLOAT, "f8": mpi.DOUBLE,
    "c8": mpi.C_FLOAT_COMPLEX, "c16": mpi.C_DOUBLE_COMPLEX,
    f"f{mpi.LONG_DOUBLE.size}": mpi.LONG_DOUBLE,
    f"c{mpi.C_LONG_DOUBLE_COMPLEX.size}": mpi.C_LONG_DOUBLE_COMPLEX,
})  # fmt: skip

# numpy's type characters of the types with a fixed size. Eight-bit integers are numbers in numpy, so they map to types
# with reductions; section 4.9.2 defines no reductions of the C characters.
BY_CHAR: Final[dict[str, Datatype]] = {
    **{char: CODES[char] for char in "?hilqHILQefdgFDGcmM"},
    "b": mpi.INT8_T,
    "B": mpi.UINT8_T,
}

# Formats of memory other than numpy arrays: bytes are numbers, and ctypes exports wchar_t as "u".
_FORMATS: Final = CODES | {"B": mpi.UINT8_T, "b": mpi.INT8_T, "u": mpi.WCHAR}

# Element types of strings and void memory, which have a fixed number of elements, by numpy's kind.
_FLEXIBLE: Final = {"S": mpi.CHAR, "U": mpi.WCHAR, "V": mpi.BYTE}


def _layout(dtype: np.dtype[Any]) -> tuple[object, ...]:
    """Return the size, field types and offsets of a structured type; only the size of any other type."""
    return dtype.itemsize, *((field.str, field.shape, offset) for field, offset in fields_of(dtype))


def fields_of(dtype: np.dtype[Any]) -> Iterator[tuple[np.dtype[Any], int]]:
    """Yield the type and offset of each field of a structured type, in the order of definition."""
    for name in dtype.names or ():
        assert dtype.fields is not None
        yield dtype.fields[name][0], dtype.fields[name][1]


@functools.cache
def _pairs() -> dict[tuple[object, ...], Datatype]:
    """Return the predefined pairs by their `_layout`. 2INTEGER is left out, because 2INT has the same layout."""
    pairs = (
        mpi.FLOAT_INT, mpi.DOUBLE_INT, mpi.LONG_INT, mpi.TWOINT, mpi.SHORT_INT, mpi.LONG_DOUBLE_INT, mpi.TWOREAL,
        mpi.TWODOUBLE_PRECISION,
    )  # fmt: skip
    return {_layout(pair.dtype): pair for pair in pairs if pair.dtype is not None}


def from_dtype(dtype: npt.DTypeLike) -> Datatype:
    """Return the committed datatype of a numpy type.

    A structured type becomes the pair of section 4.9.3 with the same layout. A structured type without such a pair
    becomes a struct of its fields with the same offsets and extent. Structured types may be aligned, packed or nested,
    and may have sub-arrays. Strings become arrays of characters; void types, and types of other packages such as
    bfloat16, become arrays of bytes. Results are cached, so equal types give the same object.

    Args:
        dtype: numpy type or anything numpy.dtype() takes.

    Raises:
        InvalidTypeError: the type is not in native byte order, or no datatype corresponds to it.
    """
    dtype = np.dtype(dtype)
    datatype = BY_CHAR.get(dtype.char) if dtype.isnative and _is_builtin(dtype) else None
    if datatype is None:
        datatype = _made(dtype, dtype.isalignedstruct)
        if not datatype:  # the program has freed it
            _made.cache_clear()
            datatype = _made(dtype, dtype.isalignedstruct)
    return datatype


def _is_builtin(dtype: np.dtype[Any]) -> bool:
    """Return True for NumPy's types of fixed size. Types of other packages may have the same characters."""
    return 0 <= dtype.num < 24


@functools.lru_cache(maxsize=1024)
def _made(dtype: np.dtype[Any], aligned: bool) -> Datatype:
    if not dtype.isnative:
        raise UnknownFormatError(
            f"numpy type {dtype.str} is not in native byte order; "
            "convert with array.astype(array.dtype.newbyteorder('='))"
        )
    pair = _pairs().get(_layout(dtype))
    if pair is not None:
        return pair
    if dtype.names is not None:
        return _struct(dtype).Commit()
    element, count = _elements(dtype)
    return element if count == 1 else element.Create_contiguous(count).Commit()


def _struct(dtype: np.dtype[Any]) -> Datatype:
    fields = list(fields_of(dtype))
    elements = [_elements(field) for field, _ in fields]
    struct = Datatype.Create_struct(
        [count for _, count in elements], [offset for _, offset in fields], [element for element, _ in elements]
    )
    if struct.Get_extent() != (0, dtype.itemsize):
        struct = struct.Create_resized(0, dtype.itemsize)
    from numpy.lib.format import drop_metadata  # needs NumPy, and programs without arrays do not

    struct.dtype = drop_metadata(dtype)  # metadata describes memory, and differs between equal types
    return struct


def _elements(dtype: np.dtype[Any]) -> tuple[Datatype, int]:
    """Return the datatype of the elements of a numpy type, and the number of elements in one item."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        element, count = _elements(base)
        return element, count * math.prod(shape)
    if dtype.names is None and dtype.kind in _FLEXIBLE:
        element = _FLEXIBLE[dtype.kind]
        return element, dtype.itemsize // element.size
    if dtype.isbuiltin == 2:  # of another package, such as bfloat16
        return mpi.BYTE, dtype.itemsize
    if dtype.names is None and (dtype.char not in BY_CHAR or not _is_builtin(dtype)):
        raise UnknownFormatError(
            f"no MPI datatype corresponds to numpy type {dtype}; pass one, as in [array, BYTE] for raw bytes, "
            "or use the methods for objects (lower-case names)"
        )
    return from_dtype(dtype), 1


def _exported(view: memoryview) -> np.dtype[Any]:
    if isinstance(view.obj, ctypes.Structure | ctypes.Union | ctypes.Array):
        return np.dtype(type(view.obj)).base  # the formats that ctypes exports leave out padding
    return np.asarray(view).dtype


def to_dtype(datatype: Datatype) -> np.dtype[Any]:
    """Return the numpy type of one item of a datatype: the same elements in the same places.

    The itemsize is the extent of the datatype. If the data end beyond the extent, because the lower bound is positive,
    the itemsize is the upper bound. Derived types become structured types. Their fields are the blocks, aligned if
    possible. The fields are named f0, f1 ..., or as in the numpy type from which the datatype was made. Contiguous
    types and whole subarrays become sub-arrays.

    Raises:
        InvalidTypeError: no numpy type can describe the datatype. The datatype has data before its address or beyond
            its upper bound, or it is null, a marker, a part of an array or a distributed array.
    """
    if not datatype:
        raise InvalidTypeError("the datatype is DATATYPE_NULL or was freed, and has no numpy type")
    if datatype.dtype is not None:
        return datatype.dtype
    old, combiner, given = datatype.decode()
    if combiner == "DUP":
        return to_dtype(old)
    if combiner == "CONTIGUOUS":
        return _array(to_dtype(old), (given["count"],))
    if combiner == "SUBARRAY" and given["subsizes"] == given["sizes"]:
        shape = given["sizes"] if given["order"] == ORDER_C else given["sizes"][::-1]
        return _array(to_dtype(old), tuple(shape))
    return _structured(datatype)


def _structured(datatype: Datatype) -> np.dtype[Any]:
    """Return a structured numpy type for a datatype, or raise as `to_dtype`."""
    parts = _parts(datatype)
    if parts is None:
        raise InvalidTypeError(f"{datatype} has no numpy type; use its bytes")
    names, fields = parts
    formats, offsets = [field for field, _ in fields], [offset for _, offset in fields]
    fits = sum(datatype.Get_true_extent()) <= datatype.extent
    length = datatype.extent if fits else datatype.ub
    struct: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": length}
    if datatype.lb >= 0:
        for align in (True, False):
            with contextlib.suppress(ValueError):
                dtype: np.dtype[Any] = np.dtype(struct, align=align)
                return dtype
    raise InvalidTypeError(
        f"{datatype} has no numpy type: it has data before its address, or beyond its upper bound of "
        f"{datatype.ub} bytes; use its bytes"
    )


def _array(dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.dtype[Any]:
    """Return a sub-array type; the dimensions of a sub-array of sub-arrays are joined."""
    return np.dtype((dtype.base, shape + dtype.shape))


def _parts(datatype: Datatype) -> tuple[list[str], list[tuple[np.dtype[Any], int]]] | None:
    """Return the names, and the types with offsets, of the fields of a datatype; None if it has no structured type."""
    if datatype.dtype is not None:
        return None if datatype.dtype.names is None else (list(datatype.dtype.names), list(fields_of(datatype.dtype)))
    old, combiner, given = datatype.decode()
    if combiner in ("DUP", "RESIZED") and (inner := _parts(old)) is not None:
        return inner
    blocks = _blocks(old, combiner, given)
    if blocks is None:
        return None
    fields = [
        (_array(to_dtype(each), (length,)) if length != 1 else to_dtype(each), offset)
        for length, offset, each in zip(*blocks, strict=True)
    ]
    return [f"f{i}" for i in range(len(fields))], fields


def _blocks(old: Datatype, combiner: str, given: dict[str, Any]) -> tuple[list[int], list[int], list[Datatype]] | None:
    """Return the lengths, offsets in bytes and types of the blocks of a derived type; None if it has no such blocks."""
    scale = 1 if combiner.startswith("H") or combiner == "STRUCT" else old.extent
    if combiner == "RESIZED":
        return [1], [0], [old]
    if "stride" in given:
        offsets = [i * given["stride"] * scale for i in range(given["count"])]
    elif "displacements" in given:
        offsets = [displacement * scale for displacement in given["displacements"]]
    else:
        return None
    lengths = given["blocklengths"] if "blocklengths" in given else [given["blocklength"]] * len(offsets)
    blocks = zip(lengths, offsets, given.get("datatypes", [old] * len(offsets)), strict=True)
    # Markers and empty blocks are not elements; their displacements have no meaning.
    there = [block for block in blocks if block[0] and block[2].size]
    return [block[0] for block in there], [block[1] for block in there], [block[2] for block in there]


def from_format(view: memoryview) -> Datatype:
    """Return the datatype of a memoryview's elements, by its PEP 3118 format; "B" and "b" are 8-bit integers.

    Raises:
        InvalidTypeError: see `from_dtype`.
    """
    order, plain = split_code(view.format)
    datatype = _FORMATS.get(plain)
    if datatype is not None and datatype.extent == view.itemsize and not is_foreign(order):
        return datatype
    try:
        dtype = _exported(view)
    except (TypeError, ValueError, NotImplementedError):
        raise UnknownFormatError(
            f"no MPI datatype corresponds to the format {view.format!r}; pass one, as in [buffer, BYTE]"
        ) from None
    return from_dtype(dtype)
