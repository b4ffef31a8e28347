"""Large objects that are encoded and decoded in steps: the same messages and objects, in steps of bounded size."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.errors import InvalidTypeError, RemoteProtocolError
from aiompi.objects import Codec, decode, steps
from support.limits import LIMIT
from support.messages import Point, assert_same, finish

T = TypeVar("T")

MANY = 3 * steps.LARGE_ITEMS
ROWS = MANY // 8  # of several items each
ROW = {"step": 1200, "loss": 0.25, "phase": "train", "shape": [32, 128], "done": False}

LARGE: dict[str, Any] = {
    "dicts": [ROW] * ROWS,
    "tuples": [(number, {"x": (number,)}) for number in range(MANY // 3)],
    "one tuple": tuple(range(MANY)),
    "dict": {str(number): [number] for number in range(MANY)},
    "dict with other keys": {(number, "x"): {number: ()} for number in range(MANY // 2)},
    "set": set(range(MANY)),
    "frozenset": frozenset(map(str, range(MANY))),
    "nested": {"rows": [[ROW] * ROWS, {"deep": {"deeper": [None] * MANY}}], "few": (1, 2)},
    "keys in a row": {2**number: [ROW] * ROWS for number in (1, 80)},
    "long ints": [2**70 + number for number in range(MANY)],
    "parts of 16 items": [[None] * (steps.STEP_ITEMS // 20)] * 768,
    "parts of 16 pairs": {str(number): [None] * (steps.STEP_ITEMS // 20) for number in range(768)},
    "lone surrogate": ["\ud800", *map(str, range(MANY))],
    "bytes": [bytearray(b"\xc4"), b"\xc5", *range(MANY)],
    "bytes deep inside": [*[{**ROW, "text": "\u0100", "loss": 1 / 3}] * ROWS, {"a": [{"b": bytearray(b"x")}]}],
    "arrays": [np.arange(40_000), *([Point(1, 2)] * 500), *([(1.5, None)] * MANY)],
}


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


@pytest.mark.parametrize("inner", [b"x", bytearray(b"x"), memoryview(b"x"), (1,), {1}, {b"x": 1}, {(1,): 2}])
@pytest.mark.parametrize("count", [1, 100])
def test_types_deep_inside_at_once(inner: Any, count: int) -> None:
    """Also where the bytes of strings and floats look like those of what msgpack does not express exactly."""
    obj = [*[{"text": "\u0100", "loss": 1 / 3, "rows": [{"a": None}]}] * count, {"rows": [{"a": inner}]}]
    codec = Codec()
    for _ in range(2):
        assert_same(codec.loads(joined(codec.dumps(obj))), obj)


@settings(max_examples=25, deadline=None)
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


class Record:  # noqa: PLW1641
    """An object that only pickle expresses."""

    def __init__(self, **values: Any) -> None:
        self.__dict__ |= values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.__dict__ == other.__dict__


class Unpicklable:
    def __reduce__(self) -> Any:
        raise ZeroDivisionError


def shared_and_long() -> list[Any]:
    one = Record(name="one")
    return [one, b"\xff" * 300_000, *[one] * MANY, bytearray(200_000), *[Record(number=n) for n in range(MANY)]]


class Slotted:  # noqa: PLW1641
    __slots__ = ("rows", "unset")

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.rows == other.rows


def rows(count: int = MANY) -> list[Any]:
    return [dict(ROW) for _ in range(count)]


def page(count: int = MANY) -> Record:
    return Record(rows=rows(count))


PICKLED: dict[str, Callable[[], Any]] = {
    "instance in a tuple": lambda: (page(),),
    "instance in a dict": lambda: {"page": page()},
    "many instances with some items": lambda: [page(100) for _ in range(MANY // 50)],
    "instance in an instance": lambda: Record(name="outer", inner=Record(page=page())),
    "slots": lambda: [1, Slotted(rows())],
    "subclass of a container in a list": lambda: [deque(map(str, range(4 * MANY)))],
    "instances": lambda: [Record(number=number, name=str(number), row=[number]) for number in range(MANY)],
    "fractions": lambda: {number: Fraction(number, 7) for number in range(MANY)},
    "an attribute": lambda: Record(
        rows=[dict(ROW) for _ in range(MANY)], names=[str(number) for number in range(MANY)]
    ),
    "counter": lambda: Counter({str(number): number for number in range(4 * MANY)}),
    "deque": lambda: deque(map(str, range(4 * MANY))),
    "arrays": lambda: [np.arange(40_000), *(Record(number=number) for number in range(MANY))],
    "shared and long": shared_and_long,
}


@pytest.mark.parametrize("name", PICKLED)
def test_pickled_as_at_once(name: str) -> None:
    codec, obj = Codec(), PICKLED[name]()
    assert codec.is_large(obj)
    encoded, count = finish(codec.dumps_in_steps(obj))
    data = joined(encoded)
    assert count >= len(data) // 2**19
    assert data == joined(codec.dumps(obj))
    assert codec.is_large_message(data)
    received, count = finish(codec.loads_in_steps(bytearray(data)))
    assert count >= len(data) // 2**19
    if isinstance(obj, list) and isinstance(obj[0], np.ndarray):
        assert (received.pop(0) == obj.pop(0)).all()
    assert received == obj
    if name == "shared and long":
        assert received[2] is received[0]


@pytest.mark.parametrize("wrap", [lambda keys: keys, lambda keys: [frozenset(keys), dict.fromkeys(keys, 1.5)]])
def test_sets_and_dicts_with_other_keys_are_filled_in_steps(wrap: Callable[[set[Any]], Any]) -> None:
    codec, obj = Codec(), wrap({(number, "x") for number in range(MANY)})
    message = joined(codec.dumps(obj))
    received, count = finish(codec.loads_in_steps(message))
    assert_same(received, obj)
    assert count >= (len(message) - 2 * MANY) // steps.STEP_BYTES + MANY // decode._FILLED  # tags come at once
    assert_same(codec.loads(message), obj)
    with pytest.raises(RemoteProtocolError, match="malformed"):
        finish(codec.loads_in_steps(message[:-1]))


def test_an_array_of_objects() -> None:
    codec, obj = Codec(), np.array(rows())
    for each in (obj, [obj], Record(array=obj)):
        assert codec.is_large(each)
    encoded, count = finish(codec.dumps_in_steps(obj))
    assert count > 2
    assert (codec.loads(joined(encoded)) == obj).all()
    assert not codec.is_large(np.zeros(10 * MANY))


def test_instances_that_refer_to_each_other() -> None:
    """They are gone through once, so few of them stay small."""
    parent = Record(name="parent")
    parent.children = [Record(parent=parent, rows=[ROW] * 10) for _ in range(20)]  # type: ignore[attr-defined]
    assert not Codec().is_large(parent)
    cyclic = Point([0] * MANY, None)
    cyclic.y = cyclic
    received = Codec().loads(joined(finish(Codec().dumps_in_steps(cyclic))[0]))
    assert received.y is received


@pytest.mark.parametrize("wrap", [lambda point: point, lambda point: [point], lambda point: {"a": Point(point, (1,))}])
def test_a_dataclass_with_large_containers(wrap: Callable[[Any], Any]) -> None:
    codec, obj = Codec(), wrap(Point([ROW] * ROWS, {str(number): None for number in range(ROWS)}))
    assert codec.is_large(obj)
    encoded, count = finish(codec.dumps_in_steps(obj))
    assert count > 2
    assert joined(encoded) == joined(codec.dumps(obj))
    assert finish(codec.loads_in_steps(bytearray(joined(encoded))))[0] == obj


def test_objects_that_only_pickle_expresses() -> None:
    """They keep identities, also that of the container itself."""
    codec = Codec()
    cyclic: list[Any] = [ROW] * MANY
    cyclic.append(cyclic)
    received = codec.loads(joined(finish(codec.dumps_in_steps(cyclic))[0]))
    assert received[-1] is received
    with pytest.raises(InvalidTypeError, match="contains itself"):
        finish(Codec(pickle=False).dumps_in_steps(cyclic))


def test_errors_of_pickles_are_those_at_once() -> None:
    records = [*PICKLED["instances"](), Unpicklable()]
    with pytest.raises(InvalidTypeError, match="ZeroDivisionError") as caught:
        finish(Codec().dumps_in_steps(records))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(InvalidTypeError, match="while pickling is off"):
        finish(Codec(pickle=False).dumps_in_steps(records[:-1]))
    message = joined(Codec().dumps(records[:-1]))
    with pytest.raises(InvalidTypeError, match="received a pickled object"):
        finish(Codec(pickle=False).loads_in_steps(message))
    with pytest.raises(RemoteProtocolError, match="malformed"):
        finish(Codec().loads_in_steps(message[:-1]))


def pickling_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "aiompi pickle"]


@pytest.mark.parametrize("way", ["dumps", "loads"])
def test_a_pickle_that_is_given_up(way: str) -> None:
    """Its thread ends, and does nothing meanwhile; so it does when the generator is dropped before it has begun."""
    codec, records = Codec(), PICKLED["instances"]()
    for begun in (False, True):
        generator = (
            codec.dumps_in_steps(records) if way == "dumps" else codec.loads_in_steps(joined(codec.dumps(records)))
        )
        if begun:
            next(generator)
            (thread,) = pickling_threads()
        del generator
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_pickles_run_in_the_context_of_their_caller_and_not_beside_it() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    seen: list[Any] = []

    class Curious:
        def __reduce__(self) -> Any:
            seen.append((variable.get(), threading.current_thread() is threading.main_thread()))
            return str, ("x" * 100,)

    records = [Record(name="first"), *(Curious() for _ in range(MANY))]
    variable.set(7)
    generator = Codec().dumps_in_steps(records)
    next(generator)
    before = len(seen)
    time.sleep(0.05)
    assert 0 < len(seen) == before < MANY
    finish(generator)
    assert set(seen) == {(7, False)}


def test_pickles_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    codec, records = Codec(), PICKLED["instances"]()
    encoded, count = finish(codec.dumps_in_steps(records))
    assert count == 0
    assert finish(codec.loads_in_steps(joined(encoded))) == (records, 0)


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
