"""Encoding and decoding of large objects in steps, between which an event loop can do something else.

The messages are those that `Codec` makes at once. A step encodes about STEP_ITEMS items of containers, or decodes
STEP_BYTES bytes. `pickles` does the same for objects that msgpack cannot express.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, compress, islice
from typing import Any, Final

import msgpack

from aiompi.objects import dataclass, type_tags
from aiompi.objects.encode import ATOMS, Encoder
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
_CONTAINERS: Final = frozenset(_TAGS)
#: classes whose subclasses are pickled, as deques are
_SUBCLASSED: Final = (list, tuple, set, frozenset, dict, deque)
_is_container: Final = _CONTAINERS.__contains__
_no_containers: Final = _CONTAINERS.isdisjoint
_ONLY_DICTS: Final = {dict}
#: numbers of containers and of items in each that are always small together
_FEW: Final = 16
_FEW_ITEMS: Final = 64


def is_large(obj: Any) -> bool:
    """Return True if an object, or its attributes, have so many items that it is encoded in steps."""
    kind = type(obj)
    if not _is_container(kind):
        if kind in ATOMS:
            return False
        if isinstance(obj, _SUBCLASSED) and len(obj) > LARGE_ITEMS:
            return True
        attributes = getattr(obj, "__dict__", None)
        return type(attributes) is dict and is_large(attributes)
    containers = [obj]
    for each in containers:  # most objects are certainly small; this takes less time than `_exceeds`
        if len(each) > _FEW_ITEMS or len(containers) > _FEW:
            return _exceeds([obj], LARGE_ITEMS)
        for item in each.values() if type(each) is dict else each:
            if type(item) in _CONTAINERS:
                containers.append(item)  # noqa: PERF401 # the list that is gone through
    return False


def _exceeds(level: Iterable[Any], limit: int = STEP_ITEMS) -> bool:
    """Return True if objects have more than `limit` items, those of all containers in them included."""
    containers = list(compress(level, map(_is_container, map(type, level))))
    while containers:
        limit -= sum(map(len, containers))
        if limit < 0:
            return True
        kinds = set(map(type, containers))
        if kinds == _ONLY_DICTS:
            items = list(chain.from_iterable(map(dict.values, containers)))
        elif dict not in kinds:
            items = list(chain.from_iterable(containers))
        else:
            items = [x for each in containers for x in (each.values() if type(each) is dict else each)]
        if _no_containers(map(type, items)):
            return False
        containers = list(compress(items, map(_is_container, map(type, items))))
    return False


class Body:
    """The msgpack value of an object that is packed in steps.

    Args:
        pack: packs a list or a dict of which each part is small.
        encoder: makes the trees for it and collects type tags; None if `pack` refuses whatever needs one.
        check: called with each list or dict and its packed value; raises an error if that may not express it.
    """

    def __init__(
        self, pack: Callable[[Any], bytes], encoder: Encoder | None, check: Callable[[Any, bytes], object] | None = None
    ) -> None:
        self.value = bytearray()
        self._pack = pack
        self._encoder = encoder
        self._check = check
        self._headers = msgpack.Packer()
        self._path: set[int] = set()  # of the containers around the one that is packed

    def add(self, obj: Any) -> Generator[None, None, None]:
        """Pack a large container, or a dataclass with one.

        Raises:
            InexpressibleError: the container contains itself, or something that only pickle can express.
            RuntimeError: the number of its items has changed meanwhile.
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
        reference, values = dataclass.state(obj)
        items = [reference, *values]
        self.value += self._headers.pack_array_header(len(items))
        yield from self._add_items(items)
        self._encoder.node(type_tags.DATACLASS, obj)

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
        packed = self._pack(items)
        if self._check is not None:
            self._check(items, packed)
        self.value += memoryview(packed)[1 if count < 16 else 3 :]


def unpacked(value: memoryview, list_hook: Callable[[list[Any]], Any] | None) -> Generator[None, None, Any]:
    """Unpack a msgpack value.

    Raises:
        builtins.Exception: of any class, if it is malformed.
    """
    nbytes = len(value)
    unpacker = msgpack.Unpacker(
        list_hook=list_hook, strict_map_key=False, unicode_errors="surrogatepass", max_buffer_size=nbytes
    )
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
