"""Messages of objects as a receiver gets them, and what it means that an object comes back exactly."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Generator
from typing import Any, Final, TypeVar

import numpy as np

from aiompi.objects import Codec, Segment

T = TypeVar("T")

STRICT: Final = Codec(pickle=False)
LENIENT: Final = Codec()
PICKLED: Final = 0xC7
FRAMED: Final = 0xC8
#: types whose values are the same if they are equal
PLAIN: Final = frozenset({bool, bytearray, bytes, int, str, type(None)})


@dataclasses.dataclass
class Point:
    """A dataclass that is found by its name."""

    x: Any
    y: Any = 0


def message(codec: Codec, obj: object) -> bytearray:
    """The message as a receiver gets it, in memory of its own."""
    segments, nbytes = codec.dumps(obj)
    joined = bytearray(b"".join(segments))
    assert len(joined) == nbytes
    assert all(isinstance(s, bytes) or (s.format == "B" and s.c_contiguous) for s in segments)
    return joined


def finish(generator: Generator[None, None, T]) -> tuple[T, int]:
    """Return the result of steps and their number."""
    count = 0
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            return stop.value, count
        count += 1


def through(obj: Any, codec: Codec = STRICT) -> Any:
    return codec.loads(message(codec, obj))


def assert_same(a: Any, b: Any) -> None:
    """Equal, of the same types at every level, in the same order."""
    kind = type(a)
    assert kind is type(b)
    if kind in PLAIN:  # first, as most are
        assert a == b
    elif isinstance(a, float) and not isinstance(a, np.generic):
        assert struct.pack("<d", a) == struct.pack("<d", b)
    elif isinstance(a, complex) and not isinstance(a, np.generic):
        assert struct.pack("<dd", a.real, a.imag) == struct.pack("<dd", b.real, b.imag)
    elif isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype
        assert a.dtype.num == b.dtype.num
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
    elif isinstance(a, (set, frozenset)):
        assert_same(sorted(a, key=canonical), sorted(b, key=canonical))
    elif isinstance(a, dict):
        assert_same(list(a), list(b))
        assert_same(list(a.values()), list(b.values()))
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, slice):
        assert_same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    elif dataclasses.is_dataclass(a):
        assert_same(vars(a) if hasattr(a, "__dict__") else repr(a), vars(b) if hasattr(b, "__dict__") else repr(b))
    else:
        assert a == b


def canonical(obj: Any) -> str:
    """A text by which elements of sets are put in order; repr will not do, as it follows the order of inner sets."""
    if isinstance(obj, frozenset):
        return f"frozenset({sorted(map(canonical, obj))})"
    if isinstance(obj, tuple):
        return f"tuple({list(map(canonical, obj))})"
    return f"{type(obj).__name__}({obj!r})"


def payloads(segments: list[Segment]) -> list[memoryview]:
    return [segment for segment in segments if isinstance(segment, memoryview)]
