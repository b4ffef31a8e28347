"""Encoding: converts an object to a tree that msgpack packs, type tags of its arrays, and out-of-band buffers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from itertools import chain
from types import NoneType
from typing import Any, Final, TypeAlias

import msgpack

from aiompi.constants import Constant
from aiompi.objects import dataclass, type_tags
from aiompi.objects.type_tags import InexpressibleError

# Types that msgpack packs and unpacks exactly. An int beyond 64 bits makes the packer raise OverflowError.
ATOMS: Final[frozenset[type]] = frozenset({NoneType, bool, int, float, str})
ATOMS_WITHOUT_INT: Final = ATOMS - {int}

#: types of objects that `Encoder.extension` expresses: NumPy's types, once an object of one of them has been sent
EXTENSIONS: Final[set[type]] = set()

#: packs the items of extensions, which are plain values
_packed: Final = msgpack.Packer(unicode_errors="surrogatepass").pack
_new: Final = tuple.__new__  # without the checks of ExtType

_ROWS: Final[dict[type, bytes]] = {list: bytes([type_tags.LIST]), tuple: bytes([type_tags.TUPLE]), dict: b""}


class Encoder:
    """The state of encoding one message.

    Args:
        out_of_band: bytes; payloads of at least this size become buffers.
        atoms: types that the packer handles itself.

    Attributes:
        tags: type tags of the arrays so far.
        buffers: contiguous views of the user's memory, with format "B".
    """

    __slots__ = ("atoms", "buffers", "out_of_band", "tags")

    def __init__(self, out_of_band: int, atoms: frozenset[type] = ATOMS) -> None:
        self.out_of_band = out_of_band
        self.atoms = atoms
        self.tags = bytearray()
        self.buffers: list[memoryview] = []

    def encode(self, obj: Any) -> Any:
        """Return the tree of `obj`.

        Raises:
            InexpressibleError: only pickle can express the object, or a part of it.
        """
        return _ENCODERS.get(type(obj), _encode_other)(self, obj)

    def encode_all(self, values: Collection[Any]) -> Collection[Any]:
        """Return the trees of several objects; `values` itself if msgpack can pack all of them unchanged."""
        atoms = self.atoms
        found = set(map(type, values))
        if found <= atoms or (len(found) == 1 and self._are_flat(values, *found)):
            return values
        return [x if type(x) in atoms else _ENCODERS.get(type(x), _encode_other)(self, x) for x in values]

    def node(self, tag: int, items: Iterable[Any]) -> Any:
        """Append the type tag of an array, and return the array. All arrays inside it must be encoded before."""
        self.tags.append(tag)
        return items

    def extension(self, code: int, items: list[Any]) -> msgpack.ExtType:
        """Return the msgpack extension type that represents a NumPy object: number `code`, and the packed `items`."""
        return _new(msgpack.ExtType, (code, _packed(items)))

    def leaf(self, obj: Any) -> Any:
        """Return the tree of a tuple or of an object of one of `EXTENSIONS`; the packer calls this.

        Raises:
            InexpressibleError: only pickle can express the object.
            OverflowError: the object is an int that msgpack cannot express.
        """
        kind = type(obj)
        if kind is tuple:
            return list(obj)
        if kind is int:
            raise OverflowError("int of more than 64 bits")
        return _ENCODERS[kind](self, obj)

    def payload(self, data: memoryview) -> bytes | None:
        """Return the bytes that represent `data` in the body; None if `data` is long and is sent out of band."""
        if data.nbytes < self.out_of_band:
            return data.tobytes()
        self.buffers.append(data)
        return None

    def _are_flat(self, rows: Collection[Any], kind: type) -> bool:
        # Rows of one type, such as a list of pairs, are checked in C: 8 times as fast as row by row.
        if kind not in _ROWS:
            return False
        cells = chain.from_iterable(rows)
        if kind is dict:
            cells = chain(cells, chain.from_iterable(map(dict.values, rows)))
        if not self.atoms.issuperset(map(type, cells)):
            return False
        self.tags += _ROWS[kind] * len(rows)
        return True


def _encode_int(encoder: Encoder, number: int) -> Any:
    if -(2**63) <= number < 2**64:
        return number
    return encoder.node(type_tags.INTEGER, [number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)])


def _encode_dict(encoder: Encoder, mapping: dict[Any, Any]) -> Any:
    if not encoder.atoms.issuperset(map(type, mapping)):
        return encoder.node(type_tags.PAIRS, encoder.encode_all(list(chain.from_iterable(mapping.items()))))
    values = mapping.values()
    encoded = encoder.encode_all(values)
    return mapping if encoded is values else dict(zip(mapping, encoded, strict=True))


def _encode_bytes(encoder: Encoder, data: bytes) -> Any:
    if len(data) < encoder.out_of_band:
        return data
    return encoder.node(type_tags.BYTES, [encoder.payload(memoryview(data))])


def _encode_memoryview(encoder: Encoder, view: memoryview) -> Any:
    code, shape = view.format, view.shape
    if not shape or len(code.removeprefix("@")) != 1:
        raise InexpressibleError(memoryview, f"of format {code!r} and {view.ndim} dimensions")
    if not view.c_contiguous or 0 in shape:  # memoryview.cast accepts neither
        data = memoryview(view.tobytes())
    else:
        data = view.cast("B")
    return encoder.node(type_tags.MEMORYVIEW, [view.readonly, code, encoder.payload(data), *shape])


def _encode_range(encoder: Encoder, it: range) -> Any:
    numbers = it.start, it.stop, it.step
    if max(map(int.bit_length, numbers)) > type_tags.RANGE_BITS:
        raise InexpressibleError(range, f"of numbers of more than {type_tags.RANGE_BITS} bits")
    return encoder.node(type_tags.RANGE, encoder.encode_all(numbers))


def _encode_other(encoder: Encoder, obj: Any) -> Any:
    kind = type(obj)
    if "__dataclass_fields__" in kind.__dict__:
        reference, values = dataclass.state(obj)
        return encoder.node(type_tags.DATACLASS, [reference, *encoder.encode_all(values)])
    # An array cannot exist unless NumPy was imported.
    if kind.__module__ == "numpy" and "numpy" in sys.modules:
        from aiompi.objects import arrays  # imports NumPy, which is loaded

        _ENCODERS.update(arrays.ENCODERS)
        EXTENSIONS.update(arrays.ENCODERS)
        if kind in arrays.ENCODERS:
            return arrays.ENCODERS[kind](encoder, obj)
    raise InexpressibleError(kind)


EncodeFunction: TypeAlias = Callable[[Encoder, Any], Any]

# By exact type: a subclass, such as a namedtuple or an IntEnum, is a different type and not included.
_ENCODERS: Final[dict[type, EncodeFunction]] = {
    **dict.fromkeys((NoneType, bool, float, str), lambda _encoder, obj: obj),
    int: _encode_int,
    Constant: lambda _encoder, number: int(number),
    complex: lambda encoder, number: encoder.node(type_tags.COMPLEX, [number.real, number.imag]),
    list: lambda encoder, items: encoder.node(type_tags.LIST, encoder.encode_all(items)),
    tuple: lambda encoder, items: encoder.node(type_tags.TUPLE, encoder.encode_all(items)),
    set: lambda encoder, items: encoder.node(type_tags.SET, list(encoder.encode_all(items))),
    frozenset: lambda encoder, items: encoder.node(type_tags.FROZENSET, list(encoder.encode_all(items))),
    dict: _encode_dict,
    bytes: _encode_bytes,
    bytearray: lambda encoder, data: encoder.node(type_tags.BYTEARRAY, [encoder.payload(memoryview(data))]),
    memoryview: _encode_memoryview,
    range: _encode_range,
    slice: lambda encoder, it: encoder.node(type_tags.SLICE, encoder.encode_all((it.start, it.stop, it.step))),
}
