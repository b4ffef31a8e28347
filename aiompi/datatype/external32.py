"""The external32 representation, which machines of any architecture can exchange (section 4.3 of MPI-3.1).

Numbers are big-endian, in two's complement or IEEE 754, without padding or header. Characters are ISO 8859-1, LOGICAL
is 0 or 1, a complex number is its two parts, and long double is binary128. Only the low bytes of LONG, UNSIGNED_LONG
and WCHAR are sent, and LONG keeps its sign, so values that fit are preserved.

`pack` and `unpack` work on the external form of a layout (`Datatype.external`). The functions of the same names in
`move` work on the native form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiompi.base.lazy import np
from aiompi.datatype.layout import move
from aiompi.datatype.layout.layout import Layout
from aiompi.datatype.layout.move import Memory
from aiompi.errors import InvalidArgumentError, InvalidBufferError, InvalidTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

    from aiompi.datatype.datatype import Datatype

__all__ = [
    "DATAREP", "Element", "check_datarep", "element_of", "is_native", "pack", "packed_layout", "to_external32",
    "unpack", "words",
]  # fmt: skip

DATAREP: Final = "external32"

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
#: indices that select the parts of an element in an array of elements
Parts: TypeAlias = tuple[Any, ...]
_WHOLE: Final[Parts] = (...,)
_COMPLEX: Final[Parts] = ("real", "imag")


def _unchanged(values: Array) -> Array:
    return values


class Element:
    """The conversion of one basic element between memory and external32.

    Bits are copied as unsigned integers, so NaNs keep their payload. The conversion is an assignment of numpy from one
    type to the other, which reverses the bytes, and truncates or extends them.

    Args:
        native: type of a part in memory.
        external: type of a part in external32.
        parts: indices of the parts: the fields of complex numbers, or the whole element.
        encode: converts native parts to the values that are assigned to external parts.
        decode: converts external parts to the values that are assigned to native parts.

    Attributes:
        dtypes: types of an element in memory and in external32.
        nbytes: bytes of an element in external32.
        same: True if both forms have the same bytes.
        word: length of the words whose bytes the conversion reverses; 0 if both forms have the same bytes; -1 for any
            other conversion.
    """

    __slots__ = ("decode", "dtypes", "encode", "nbytes", "parts", "same", "word")

    def __init__(
        self,
        native: npt.DTypeLike,
        external: npt.DTypeLike,
        parts: Parts = _WHOLE,
        encode: Callable[[Array], Array] = _unchanged,
        decode: Callable[[Array], Array] = _unchanged,
    ) -> None:
        in_memory, in_message = self.dtypes = _of_parts(parts, np.dtype(native)), _of_parts(parts, np.dtype(external))
        self.parts = parts
        self.encode = encode
        self.decode = decode
        self.nbytes: int = in_message.itemsize
        self.same = in_memory == in_message and encode is decode is _unchanged
        self.word = 0
        if not self.same:
            part = np.dtype(native)
            reversed_ = part.newbyteorder() == np.dtype(external) and encode is decode is _unchanged
            self.word = part.itemsize if reversed_ and part.itemsize <= 8 else -1


def _of_parts(parts: Parts, dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if parts is _WHOLE else np.dtype([(name, dtype) for name in parts])


def _same(code: str, parts: Parts = _WHOLE) -> Element:
    return Element(f"=u{code}", f">u{code}", parts)


def _nonzero(values: Array) -> Array:
    return np.not_equal(values, 0)


def _narrow(values: Array) -> Array:
    """Return the low 4 bytes, with the sign of the whole value in their highest bit."""
    if values.dtype.itemsize == 4:
        return values
    result: Array = values & 0x7FFF_FFFF | values >> 63 << 31
    return result


def _long_double(parts: Parts) -> Element:
    from aiompi.datatype import binary128  # needs NumPy, and programs without arrays do not

    native = binary128.NATIVE
    if native is None:
        return Element(np.longdouble, binary128.EXTERNAL, parts, _no_long_double, _no_long_double)
    return Element(
        native, binary128.EXTERNAL, parts, binary128.to_binary128, lambda it: binary128.from_binary128(it, native)
    )


def _no_long_double(_: Array) -> Array:
    raise InvalidTypeError(
        f"the long double of this machine, of {np.dtype(np.longdouble).itemsize} bytes and "
        f"{np.finfo(np.longdouble).nmant} bits of fraction, cannot be converted to external32; send DOUBLE"
    )


@functools.cache
def elements() -> dict[str, Element]:
    """Return the elements by their names in the standard (table 13.2 of MPI-3.1). Pairs are structs of these."""
    return {
        **dict.fromkeys(
            ("MPI_CHAR", "MPI_UNSIGNED_CHAR", "MPI_SIGNED_CHAR", "MPI_BYTE", "MPI_PACKED", "MPI_CHARACTER",
             "MPI_INT8_T", "MPI_UINT8_T", "MPI_INTEGER1", "MPI_LOGICAL1"), _same("1"),
        ),
        **dict.fromkeys(
            ("MPI_SHORT", "MPI_UNSIGNED_SHORT", "MPI_INT16_T", "MPI_UINT16_T", "MPI_INTEGER2", "MPI_REAL2",
             "MPI_LOGICAL2", "MPIX_C_FLOAT16"), _same("2")
        ),
        **dict.fromkeys(
            ("MPI_INT", "MPI_UNSIGNED", "MPI_FLOAT", "MPI_INT32_T", "MPI_UINT32_T", "MPI_INTEGER", "MPI_INTEGER4",
             "MPI_REAL", "MPI_REAL4", "MPI_LOGICAL4", "MPIX_C_FLOAT32"), _same("4"),
        ),
        **dict.fromkeys(
            ("MPI_DOUBLE", "MPI_LONG_LONG_INT", "MPI_UNSIGNED_LONG_LONG", "MPI_INT64_T", "MPI_UINT64_T", "MPI_AINT",
             "MPI_COUNT", "MPI_OFFSET", "MPI_DOUBLE_PRECISION", "MPI_INTEGER8", "MPI_REAL8", "MPI_LOGICAL8",
             "MPIX_C_FLOAT64"), _same("8"),
        ),
        **dict.fromkeys(("MPI_C_FLOAT_COMPLEX", "MPI_COMPLEX", "MPI_COMPLEX8"), _same("4", _COMPLEX)),
        **dict.fromkeys(("MPI_C_DOUBLE_COMPLEX", "MPI_DOUBLE_COMPLEX", "MPI_COMPLEX16"), _same("8", _COMPLEX)),
        "MPI_LONG": Element("l", ">i4", encode=_narrow),
        "MPI_UNSIGNED_LONG": Element("L", ">u4"),
        "MPI_WCHAR": Element("=u4", ">u2"),
        "MPI_C_BOOL": Element("u1", "u1", encode=_nonzero, decode=_nonzero),
        "MPI_LOGICAL": Element("=u4", ">u4", encode=_nonzero, decode=_nonzero),
        "MPI_LONG_DOUBLE": _long_double(_WHOLE),
        "MPI_C_LONG_DOUBLE_COMPLEX": _long_double(_COMPLEX),
    }  # fmt: skip


def element_of(basic: object) -> Element:
    """Return the conversion of a basic type.

    Raises:
        InvalidTypeError: the type is not basic.
    """
    element = elements().get(getattr(basic, "name", ""))
    if element is None:
        raise InvalidTypeError(f"{basic} is not a basic type: external32 is defined for the elements of its signature")
    return element


def words(layout: Layout) -> list[int] | None:
    """Return, for each part of an external layout, the length of the words that its conversion reverses; 0 for none.

    Lengths are in bytes. The result is None if a part has to be converted in another way.
    """
    found = [element_of(block.kind).word for block in layout.blocks]
    return None if -1 in found else found


def is_native(datatype: Datatype) -> bool:
    """Return True if a packed message of the datatype has the same bytes in external32 and in native form."""
    return all(element_of(block.kind).same for block in datatype.external.blocks)


def packed_layout(datatype: Datatype, count: int) -> Layout:
    """Return the external layout of `count` items whose elements are packed in memory without gaps."""
    parts, at = [], 0
    for basic, number in datatype.signature:
        parts.append(basic.external.repeat(number, basic.size).shift(at))
        at += number * basic.size
    return Layout.concat(parts).repeat(count, at)


def check_datarep(datarep: object) -> None:
    """Raise InvalidArgumentError for a data representation other than "external32" (section 12.2 of MPI-3.1)."""
    if datarep != DATAREP:
        raise InvalidArgumentError(f"datarep is {datarep!r}: the only data representation is {DATAREP!r}")


def to_external32(layout: Layout, memory: Memory, base: int = 0) -> memoryview:
    """Return the external32 bytes of the elements of a layout; see `pack`."""
    out = np.empty(layout.size, np.uint8).data
    pack(layout, memory, base, out)
    return out


def pack(layout: Layout, memory: Memory, base: int, out: memoryview) -> None:
    """Convert the elements of a layout to external32.

    Args:
        layout: a layout in external form, such as `Datatype.external`.
        memory: memory that contains the elements.
        base: position in `memory` of address 0 of the layout, bytes.
        out: (layout.size) bytes, writable.

    Raises:
        InvalidBufferError: an element is not within the memory.
        InvalidTypeError: the long double of this machine cannot be converted.
    """
    move.check(layout, memory, base, out)
    for block in layout.blocks:
        element = element_of(block.kind)
        for native, external in move.views(block, memory, base, out, element.dtypes, unpacking=False):
            for part in element.parts:
                external[part] = element.encode(native[part])


def unpack(layout: Layout, payload: memoryview, memory: Memory, base: int = 0) -> None:
    """Convert external32 to the elements of a layout.

    Args:
        layout: a layout in external form, such as `Datatype.external`.
        payload: at most layout.size bytes. Elements that are incomplete in it are not written.
        memory: writable memory that contains the elements.
        base: position in `memory` of address 0 of the layout, bytes.

    Raises:
        InvalidBufferError: an element is not within the memory, the memory is read-only, or the payload is longer
            than the layout.
        InvalidTypeError: see `pack`.
    """
    if len(payload) > layout.size:
        raise InvalidBufferError(
            f"{len(payload)} bytes of {DATAREP} cannot be unpacked into items of {layout.size} bytes; pass a prefix"
        )
    layout = layout.prefix(len(payload))
    move.check(layout, memory, base, payload, unpacking=True)
    for block in layout.blocks:
        element = element_of(block.kind)
        for native, external in move.views(block, memory, base, payload, element.dtypes, unpacking=True):
            for part in element.parts:
                native[part] = element.decode(external[part])
