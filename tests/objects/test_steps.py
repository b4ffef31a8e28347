"""Large objects that are encoded and decoded in steps: the same messages and objects, in steps of bounded size."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import Point, assert_same

from aiompi.errors import InvalidTypeError, RemoteProtocolError
from aiompi.objects import Codec, steps

T = TypeVar("T")

MANY = 3 * steps.LARGE_ITEMS
ROW = {"step": 1200, "loss": 0.25, "phase": "train", "shape": [32, 128], "done": False}

LARGE: dict[str, Any] = {
    "dicts": [ROW] * MANY,
    "tuples": [(number, {"x": (number,)}) for number in range(MANY)],
    "one tuple": tuple(range(MANY)),
    "dict": {str(number): [number] for number in range(MANY)},
    "dict with other keys": {(number, "x"): {number: ()} for number in range(MANY)},
    "set": set(range(MANY)),
    "frozenset": frozenset(map(str, range(MANY))),
    "nested": {"rows": [[ROW] * MANY, {"deep": {"deeper": [None] * MANY}}], "few": (1, 2)},
    "keys in a row": {2**number: [ROW] * MANY for number in (1, 80)},
    "long ints": [2**70 + number for number in range(MANY)],
    "lone surrogate": ["\ud800", *map(str, range(MANY))],
    "bytes": [bytearray(b"\xc4"), b"\xc5", *range(MANY)],
    "arrays": [np.arange(40_000), *([Point(1, 2)] * 500), *([(1.5, None)] * MANY)],
}


def finish(generator: Generator[None, None, T]) -> tuple[T, int]:
    """Return the result of steps and their number."""
    count = 0
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            return stop.value, count
        count += 1


def joined(message: tuple[list[Any], int]) -> bytes:
    data = b"".join(message[0])
    assert len(data) == message[1]
    return data


@pytest.mark.parametrize("name", LARGE)
def test_the_same_as_at_once(name: str) -> None:
    codec, obj = Codec(), LARGE[name]
    assert codec.is_large(obj)
    encoded, count = finish(codec.dumps_in_steps(obj))
    assert count > 2
    data = joined(encoded)
    assert data == joined(codec.dumps(obj))
    assert codec.is_large_message(data)
    received, count = finish(codec.loads_in_steps(bytearray(data)))
    assert count >= 1
    assert_same(received, obj)


@settings(max_examples=50, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3) | st.binary(max_size=3) | st.floats(allow_nan=False),
        lambda child: st.lists(child) | st.dictionaries(st.text(max_size=2) | st.integers(), child) | st.tuples(child),
        max_leaves=30,
    )
)
def test_any_object_in_steps(obj: Any) -> None:
    """Whatever the size: an object that is not a container is put into one."""
    codec, wrapped = Codec(), [obj]
    message = joined(finish(codec.dumps_in_steps(wrapped))[0])
    assert message == joined(codec.dumps(wrapped))
    assert_same(finish(codec.loads_in_steps(message))[0], wrapped)


def test_no_step_packs_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the items are spread over containers inside containers."""
    packed: list[int] = []
    append = steps.Body._append

    def counted(body: steps.Body, items: Any, count: int) -> None:
        packed.append(weight(items))
        append(body, items, count)

    def weight(obj: Any) -> int:
        children = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
        return len(children) + sum(map(weight, children))

    monkeypatch.setattr(steps.Body, "_append", counted)
    for name in ("dicts", "tuples", "dict", "nested"):
        finish(Codec().dumps_in_steps(LARGE[name]))
    assert max(packed) <= steps.STEP_ITEMS + steps._CHUNK


@pytest.mark.parametrize(
    ("obj", "large"),
    [
        (None, False),
        ("x" * 10**6, False),
        (ROW, False),
        ([0] * steps.LARGE_ITEMS, False),
        ([0] * (steps.LARGE_ITEMS + 1), True),
        ({"a": {"b": [[0] * 90] * 90}}, False),
        ({"a": {"b": [[0] * 91] * 91}}, True),
        (([[]] * 100, [{}] * steps.LARGE_ITEMS), True),
    ],
    ids=range(8),
)
def test_which_objects_are_large(obj: Any, large: bool) -> None:
    assert Codec().is_large(obj) is large


def test_objects_that_only_pickle_expresses() -> None:
    """They keep identities, also that of the container itself."""
    codec = Codec()
    cyclic: list[Any] = [ROW] * MANY
    cyclic.append(cyclic)
    received = codec.loads(joined(finish(codec.dumps_in_steps(cyclic))[0]))
    assert received[-1] is received
    shared = [Exception()] * MANY
    message = joined(finish(codec.dumps_in_steps(shared))[0])
    assert not codec.is_large_message(message)
    received = codec.loads(message)
    assert received[0] is received[-1]
    with pytest.raises(InvalidTypeError, match="contains itself"):
        finish(Codec(pickle=False).dumps_in_steps(cyclic))


@pytest.mark.parametrize("change", [list.clear, list.pop, lambda rows: rows.extend([0] * MANY)])
def test_a_list_that_changes_meanwhile(change: Any) -> None:
    rows = [0] * MANY
    encoding = Codec().dumps_in_steps(rows)
    next(encoding)
    change(rows)
    with pytest.raises(RuntimeError, match=f"a list of {MANY} items had"):
        finish(encoding)


def test_a_dict_that_changes_meanwhile() -> None:
    rows: dict[int, int] = dict.fromkeys(range(MANY), 0)
    encoding = Codec().dumps_in_steps(rows)
    next(encoding)
    rows[-1] = 0
    with pytest.raises(RuntimeError, match="changed size"):
        finish(encoding)


@pytest.mark.parametrize(
    "message",
    [
        msgpack.packb([0] * MANY)[:-1],
        msgpack.packb([0] * MANY) + b"\0",
        b"\xc1" + bytes([9, 0, 0, 0]) + bytes(9) + msgpack.packb([0] * MANY),
        b"\xc1" + bytes(4) + msgpack.packb([[0] * MANY]) + b"\0",
        b"\xc8\0\0\0" + bytes(12),
        b"\xc1",
    ],
    ids=["cut", "longer", "too many tags", "no tags", "empty body", "header only"],
)
def test_malformed(message: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed"):
        finish(Codec().loads_in_steps(message))
    assert not Codec().is_large_message(message) or len(message) > steps.LARGE_BYTES
