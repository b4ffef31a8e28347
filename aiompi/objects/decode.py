"""Decoding: makes an object from an unpacked body, the type tags of its arrays, and the out-of-band buffers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

import msgpack

from aiompi.objects import dataclass, type_tags
from aiompi.objects.type_tags import FROZENSET, LIST, PAIRS, SET, TUPLE

#: tags of arrays whose items are hashed
HASHED: Final = frozenset({SET, FROZENSET, PAIRS})
#: items of a set, or keys and values of a dict, that are hashed in a step
_FILLED: Final = 2**13

#: most keys of one hash that are accepted without pickling; a set of n such keys takes n * n steps
MOST_ALIKE: Final = 256

_unpack: Final = msgpack.unpackb

#: takes the decoder, and the items of the array one by one
DecodeFunction: TypeAlias = "Callable[..., Any]"


class Decoder:
    """The state of decoding one message.

    Args:
        tags: type tags of the arrays, in the order in which the arrays end.
        buffers: buffers sent out of band, in the same order.
        imports: True if modules of dataclasses may be imported, because the sender is trusted to send pickles.
        suspend: called between the steps of filling a large set or dict.
    """

    __slots__ = ("_next_tag", "buffers", "imports", "suspend")

    def __init__(
        self,
        tags: Iterator[int],
        buffers: Iterator[memoryview],
        imports: bool,
        suspend: Callable[[], None] = lambda: None,
    ) -> None:
        self._next_tag = tags.__next__
        self.buffers = buffers
        self.imports = imports
        self.suspend = suspend

    def revive(self, items: list[Any]) -> Any:
        """Return the object that an array represents; msgpack calls this at the end of each array.

        Raises:
            builtins.Exception: of any class, if the message is malformed.
        """
        tag = self._next_tag()
        if tag == LIST:
            return items
        if tag == TUPLE:
            return tuple(items)
        if len(items) > MOST_ALIKE and tag in HASHED:
            return self._fill(tag, items)
        return _DECODERS[tag](self, *items)

    def extension(self, code: int, data: bytes) -> Any:
        """Return the object that an extension type represents.

        Raises:
            builtins.Exception: of any class, if the message is malformed.
        """
        mapping = None if self.imports else self.mapping
        items = _unpack(data, strict_map_key=False, unicode_errors="surrogatepass", object_pairs_hook=mapping)
        return _EXTENSIONS[code](self, *items)

    def mapping(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        """Return the dict of a msgpack map. If the sender is hostile, its keys may be anything."""
        if len(pairs) <= MOST_ALIKE:
            return dict(pairs)
        filled: dict[Any, Any] = self._fill(PAIRS, [*chain.from_iterable(pairs)])
        return filled

    def _fill(self, tag: int, items: list[Any]) -> Any:
        """Return a set or a dict that is filled in steps."""
        filled: set[Any] | dict[Any, Any] = {} if tag == PAIRS else set()
        counts: Counter[int] = Counter()
        for start in range(0, len(items), _FILLED):
            part = items[start : start + _FILLED]
            if not self.imports:
                _count_hashes(part[::2] if tag == PAIRS else part, counts)
            filled.update(zip(part[::2], part[1::2], strict=True) if tag == PAIRS else part)
            self.suspend()
        return frozenset(filled) if tag == FROZENSET else filled

    def payload(self, data: bytes | None) -> bytes | memoryview:
        """Return data from the body, or the next buffer sent out of band."""
        if data is None:
            return next(self.buffers)
        if type(data) is not bytes:
            raise ValueError(f"payload is a {type(data).__name__}")
        return data

    def array_payload(self, data: bytes | None) -> bytearray | memoryview:
        """Return the result of `payload`; if this is data from the body, return a copy in writable memory."""
        payload = self.payload(data)
        return bytearray(payload) if isinstance(payload, bytes) else payload


def _count_hashes(keys: list[Any], counts: Counter[int]) -> None:
    """Add the hashes of keys.

    Raises:
        ValueError: too many are equal.
    """
    hashes = list(map(hash, keys))
    counts.update(hashes)
    if max(map(counts.__getitem__, hashes), default=0) > MOST_ALIKE:
        raise ValueError(f"more than {MOST_ALIKE} keys of one hash")


def _decode_range(_decoder: Decoder, *numbers: int) -> range:
    if len(numbers) != 3 or max(map(int.bit_length, numbers)) > type_tags.RANGE_BITS:
        raise ValueError("no range")  # the length of a range of long numbers takes a division of them
    return range(*numbers)


def _decode_complex(_decoder: Decoder, real: float, imaginary: float) -> complex:
    if not type(real) is type(imaginary) is float:
        raise ValueError("no complex number")
    return complex(real, imaginary)


def _decode_memoryview(decoder: Decoder, readonly: bool, code: str, data: bytes | None, *shape: int) -> memoryview:
    if not type_tags.is_shape(shape):
        raise ValueError(f"memoryview with {len(shape)} dimensions")
    # A view of bytes if possible, because it may be the key of a dict: a view of a bytearray has no hash.
    view = memoryview(decoder.payload(data) if readonly else decoder.array_payload(data))
    if code != "B" or shape != (view.nbytes,):
        view = _cast(view, code, shape)
    return view.toreadonly() if readonly else view


def _cast(view: memoryview, code: str, shape: tuple[int, ...]) -> memoryview:
    if math.prod(shape):
        return view.cast("B").cast(code, shape)  # type: ignore[call-overload, no-any-return]
    if view.nbytes or len(shape) != 1:
        raise ValueError(f"memoryview of shape {shape} with {view.nbytes} bytes")
    return view.cast(code)  # type: ignore[call-overload, no-any-return]


def _decode_numpy(code: int) -> DecodeFunction:
    """Return a stub for the decoder of an extension type: the first call imports NumPy and replaces the stub."""

    def decode(decoder: Decoder, *items: Any) -> Any:
        from aiompi.objects import arrays  # needs NumPy, and programs without arrays do not

        _EXTENSIONS.update(arrays.DECODERS)
        return _EXTENSIONS[code](decoder, *items)

    return decode


_DECODERS: Final[dict[int, DecodeFunction]] = {
    type_tags.SET: lambda _decoder, *items: set(items),
    type_tags.FROZENSET: lambda _decoder, *items: frozenset(items),
    type_tags.PAIRS: lambda _decoder, *items: dict(zip(items[::2], items[1::2], strict=True)),
    type_tags.COMPLEX: _decode_complex,
    type_tags.INTEGER: lambda _decoder, data: int.from_bytes(data, "little", signed=True),
    type_tags.BYTES: lambda decoder, data: bytes(decoder.payload(data)),
    type_tags.BYTEARRAY: lambda decoder, data: bytearray(decoder.payload(data)),
    type_tags.MEMORYVIEW: _decode_memoryview,
    type_tags.RANGE: _decode_range,
    type_tags.SLICE: lambda _decoder, start, stop, step: slice(start, stop, step),
    type_tags.DATACLASS: lambda decoder, reference, *values: dataclass.restore(reference, values, decoder.imports),
}
_EXTENSIONS: Final[dict[int, DecodeFunction]] = {
    code: _decode_numpy(code) for code in (type_tags.ARRAY, type_tags.SCALAR)
}
