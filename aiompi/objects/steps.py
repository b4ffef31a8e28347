"""Encoding and decoding of large objects in steps, between which an event loop can do other work.

The messages equal those that `Codec` makes in one step. A step encodes about STEP_ITEMS items of containers, or decodes
STEP_BYTES bytes. `pickles` encodes and decodes in steps the objects that msgpack cannot express.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from functools import lru_cache
from itertools import chain, compress, islice
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final, cast

import msgpack

from aiompi.core import MANY, OTHER, contents
from aiompi.objects import dataclass, type_tags
from aiompi.objects.encode import ATOMS, EXTENSIONS, Encoder
from aiompi.objects.type_tags import InexpressibleError

STEP_ITEMS: Final = 2048
STEP_BYTES: Final = 32 * 2**10
#: items from which an object is encoded in steps
LARGE_ITEMS: Final = 4 * STEP_ITEMS
#: bytes from which a message is decoded in steps
LARGE_BYTES: Final = 2 * STEP_BYTES
#: children of a container that are packed together
_CHUNK: Final = 256

_TAGS: Final[dict[type, int]] = {
    list: type_tags.LIST, tuple: type_tags.TUPLE, set: type_tags.SET, frozenset: type_tags.FROZENSET,
    dict: type_tags.PAIRS,
}  # fmt: skip
_SEQUENCES: Final = frozenset(_TAGS) - {dict}
#: types that are encoded in one piece, whatever they hold
_LEAVES: Final = ATOMS | {bytes, bytearray, memoryview, complex, range, slice}
_getattribute: Final = object.__getattribute__  # runs no code of the class


def is_large(obj: Any) -> bool:
    """Return True if an object has enough items, nested containers and attributes included, to be encoded in steps."""
    found = contents(obj, EXTENSIONS, sys.maxsize, None, LARGE_ITEMS)
    return found >= OTHER and (found & MANY != 0 or _exceeds([obj], LARGE_ITEMS))


def _exceeds(items: Collection[Any], limit: int = STEP_ITEMS) -> bool:
    """Return True if objects have more than `limit` items, nested containers and instances included."""
    seen: set[int] = set()  # instances, which may refer to each other
    while functions := {kind: each for kind in set(map(type, items)) - _LEAVES if (each := _items_of(kind))}:
        found: Iterable[Any] = compress(items, map(functions.__contains__, map(type, items)))
        if functions.keys() - _TAGS.keys():
            found = [each for each in found if id(each) not in seen]
            seen.update(map(id, found))
        inner: Iterable[Any]
        if functions.keys() <= _SEQUENCES:
            inner = found
        elif len(functions) == 1:
            (function,) = functions.values()
            inner = map(function, found)
        else:
            inner = (functions[type(each)](each) for each in found)
        items = list(islice(chain.from_iterable(inner), limit + 1))
        limit -= len(items)
        if limit < 0:
            return True
    return False


@lru_cache(256)
def _items_of(kind: Any) -> Callable[[Any], Collection[Any]] | None:
    """Return a function that lists an object's items or attributes; return None if objects of type `kind` have none."""
    if issubclass(kind, dict):
        return cast("Callable[[Any], Collection[Any]]", kind.values)
    if issubclass(kind, (list, tuple, set, frozenset, deque)):
        return lambda items: items
    if any(base.__module__ == "numpy" and base.__name__ == "ndarray" for base in kind.__mro__):
        return lambda array: array.flat if array.dtype.hasobject else ()
    if issubclass(kind, (type, ModuleType, FunctionType)):  # pickled by name
        return None
    slots = [
        slot
        for base in kind.__mro__
        if "__slots__" in base.__dict__
        for slot in base.__dict__.values()
        if type(slot) is MemberDescriptorType
    ]
    has_dict = any("__dict__" in base.__dict__ for base in kind.__mro__)
    if slots:
        return lambda obj: _attributes(obj, has_dict, slots)
    return (lambda obj: _getattribute(obj, "__dict__").values()) if has_dict else None


def _attributes(obj: Any, has_dict: bool, slots: list[MemberDescriptorType]) -> list[Any]:
    values = list(_getattribute(obj, "__dict__").values()) if has_dict else []
    for slot in slots:
        with contextlib.suppress(AttributeError):  # an unset slot
            values.append(slot.__get__(obj))
    return values


class Body:
    """The msgpack value of an object that is packed in steps.

    Args:
        pack: packs a list or a dict whose parts are small.
        encoder: makes the trees for `pack` and collects type tags; None if `pack` refuses objects that need an encoder.
        check: called with each list or dict before it is packed; raises an error if `pack` cannot express the list or
            dict exactly.
    """

    def __init__(
        self, pack: Callable[[Any], bytes], encoder: Encoder | None, check: Callable[[Any], None] | None = None
    ) -> None:
        self.value = bytearray()
        self._pack = pack
        self._encoder = encoder
        self._check = check
        self._headers = msgpack.Packer()
        self._path: set[int] = set()  # ids of the containers around the current one

    def add(self, obj: Any) -> Generator[None, None, None]:
        """Pack a large container, or a dataclass with one.

        Raises:
            InexpressibleError: the container contains itself, or an object that only pickle can express.
            RuntimeError: the number of the container's items has changed since the first step.
        """
        kind, encoder = type(obj), self._encoder
        if kind not in _TAGS:
            yield from self._add_instance(obj)
            return
        count = len(obj)
        if id(obj) in self._path:
            raise InexpressibleError(kind, "that contains itself")
        self._path.add(id(obj))
        if kind is dict and (encoder is None or encoder.atoms.issuperset(map(type, obj))):
            self.value += self._headers.pack_map_header(count)
            packed = yield from self._add_all(iter(obj.items()), self._add_pairs)
        else:
            items: Iterator[Any] = chain.from_iterable(obj.items()) if kind is dict else iter(obj)
            count *= 1 + (kind is dict)
            self.value += self._headers.pack_array_header(count)
            packed = yield from self._add_all(items, self._add_items)
            if encoder is not None:
                encoder.node(_TAGS[kind], obj)
        if packed != count:
            raise RuntimeError(f"a {kind.__name__} of {count} items had {packed} when it was sent")
        self._path.remove(id(obj))

    def _add_instance(self, obj: Any) -> Generator[None, None, None]:
        if "__dataclass_fields__" not in type(obj).__dict__ or self._encoder is None:
            raise InexpressibleError(type(obj))
        if id(obj) in self._path:
            raise InexpressibleError(type(obj), "that contains itself")
        self._path.add(id(obj))
        reference, values = dataclass.state(obj)
        items = [reference, *values]
        self.value += self._headers.pack_array_header(len(items))
        yield from self._add_items(items)
        self._encoder.node(type_tags.DATACLASS, obj)
        self._path.remove(id(obj))

    def _add_all(
        self, items: Iterator[Any], add: Callable[[list[Any]], Generator[None, None, None]]
    ) -> Generator[None, None, int]:
        packed = 0
        while chunk := list(islice(items, _CHUNK)):
            packed += len(chunk)
            yield from add(chunk)
        return packed

    def _add_items(self, items: list[Any]) -> Generator[None, None, None]:
        if not _exceeds(items):
            self._append(self._encoder.encode_all(items) if self._encoder else items, len(items))
            yield
        elif len(items) == 1:
            yield from self.add(items[0])
        else:
            half = len(items) // 2
            yield from self._add_items(items[:half])
            yield from self._add_items(items[half:])

    def _add_pairs(self, pairs: list[tuple[Any, Any]]) -> Generator[None, None, None]:
        values = [value for _, value in pairs]
        if not _exceeds(values):
            trees = self._encoder.encode_all(values) if self._encoder else values
            self._append(dict(zip([key for key, _ in pairs], trees, strict=True)), len(pairs))
            yield
        elif len(pairs) == 1:
            self._append([pairs[0][0]], 1)
            yield from self.add(values[0])
        else:
            half = len(pairs) // 2
            yield from self._add_pairs(pairs[:half])
            yield from self._add_pairs(pairs[half:])

    def _append(self, items: Any, count: int) -> None:
        """Append the packed items of a list or a dict, without its header."""
        if self._check is not None:
            self._check(items)
        packed = self._pack(items)
        self.value += memoryview(packed)[1 if count < 16 else 3 :]


def unpacked(value: memoryview, hooks: dict[str, Any]) -> Generator[None, None, Any]:
    """Unpack a msgpack value.

    Args:
        value: the packed bytes.
        hooks: further arguments for msgpack, which make objects.

    Raises:
        builtins.Exception: of any class, if it is malformed.
    """
    nbytes = len(value)
    unpacker = msgpack.Unpacker(max_buffer_size=nbytes, **hooks)
    for start in range(0, nbytes, STEP_BYTES):
        unpacker.feed(value[start : start + STEP_BYTES])
        try:
            obj = unpacker.unpack()
        except msgpack.OutOfData:
            yield
            continue
        if unpacker.tell() != nbytes:
            raise ValueError(f"a value of {unpacker.tell()} bytes in {nbytes}")
        return obj
    raise ValueError("a value that is incomplete")
