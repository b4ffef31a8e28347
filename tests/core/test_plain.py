"""Small plain objects as messages: the core and the codec in Python understand each other, whatever the bytes are."""

from __future__ import annotations

import contextlib
import gc
import struct
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiompi import core
from aiompi.errors import MPIError
from aiompi.objects import Codec
from support.cases import cases
from support.messages import assert_same


class Text(str):
    __slots__ = ()


class Numbers(list[int]):
    pass


CODEC = Codec()
PLAIN = 1024  # bytes

INTS = [0, 127, 128, 255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64]
INTS += [-each for each in INTS] + [-32, -33, -129, -(2**15), -(2**15) - 1, -(2**31), -(2**31) - 1, -(2**63) - 1]
ATOMS: Any = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.sampled_from(INTS), st.floats(), st.text(max_size=40)
)
LEAVES: Any = ATOMS | st.binary(max_size=300) | st.sampled_from([(), (1,), {1}, 1j])
OBJECTS: Any = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(ATOMS, inner, max_size=20), max_leaves=30
)


def through_python(obj: Any) -> bytes:
    """Return the message of an object by the codec in Python alone."""
    segments, nbytes = CODEC._dumps(obj)
    message = b"".join(segments)
    assert len(message) == nbytes
    return message


def outcome(loads: Any, message: bytes) -> Any:
    """Return what the object of a message looks like, with types and the order of keys, or the class of the error."""
    try:
        return repr(loads(bytearray(message)))
    except MPIError as error:
        return type(error), str(error)


def nested(levels: int, kind: type) -> Any:
    obj: Any = 1
    for _ in range(levels):
        obj = [obj] if kind is list else {"a": obj}
    return obj


@settings(max_examples=100, deadline=None)
@given(OBJECTS)
@example("é" * 20)
@example("\ud800")
@example({"": {}, "x" * 31: [], "x" * 32: b""})
@example([0] * 15)
@example([0] * 16)
@example({each: each for each in range(16)})
@example("x" * (PLAIN - 3))
@example("x" * (PLAIN - 2))
@example([b"x" * 255, b"x" * 256])
@example(nested(16, list))
@example(nested(17, list))
@example(nested(17, dict))
def test_messages_of_both_are_the_same(obj: Any) -> None:
    message = through_python(obj)
    segments, nbytes = CODEC.dumps(obj)
    assert (b"".join(segments), nbytes) == (message, len(message))
    assert_same(CODEC.loads(bytearray(message)), obj)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40) | OBJECTS.map(through_python), st.data())
def test_malformed_messages_are_refused_as_by_python(message: bytes, data: st.DataObject) -> None:
    changed = bytearray(message)
    for _ in range(data.draw(st.integers(0, 3))):
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    changed = changed[: data.draw(st.integers(0, len(changed)))] if data.draw(st.booleans()) else changed
    assert outcome(CODEC.loads, changed) == outcome(CODEC._loads, changed)


@cases("message", [
    b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff\x01", b"\xde\xff\xff\x01\x01", b"\xdf\xff\xff\xff\xff", b"\xda\xff\xffx",
    b"\xc4\x05ab", b"\xc5\xff", b"\xd9", b"\xcb\0\0", b"\x92\x01", b"\x81\x01", b"\x81\x90\x01", b"\x81\x80\x01",
    b"\x01\x02", b"\xc1", b"\xd4\x01", b"\xa2\xff\xfe", b"\xa3\xed\xa0\x80", b"\x91" * 2000, b"\x81\xa1", b"\x81\xbfa",
    b"\x82\xa1a\x01\xa1a\x02", b"\x82\x01\x01\xc3\x02", b"\xca\x3f\x80\0\0",
])  # fmt: skip
def test_lengths_that_lie(message: bytes) -> None:
    assert outcome(CODEC.loads, message) == outcome(CODEC._loads, message)


def test_numbers_in_longer_forms() -> None:
    for code, form in zip(range(0xCC, 0xD4), "BHIQbhiq", strict=True):
        assert CODEC.loads(bytes([code]) + struct.pack(">" + form, 1)) == 1


def test_keys_that_share_a_place() -> None:
    for length in range(32):  # the core keeps 256 keys
        for number in range(64):
            key = f"{number:02}" * length
            assert CODEC.loads(through_python({key[:length]: number})) == {key[:length]: number}
    assert CODEC.loads(through_python({"é": 1, "e\u0301": 2})) == {"é": 1, "e\u0301": 2}


def test_what_is_sent_out_of_band_is_not_packed() -> None:
    codec = Codec(out_of_band=8)
    assert codec.dumps(b"x" * 8) == codec._dumps(b"x" * 8)
    assert codec.dumps([1] * 7)[0] == [b"\x97" + b"\x01" * 7]


def test_a_subclass_is_no_plain_object() -> None:
    for obj in (Text("a"), Numbers([1]), [Text("a")], {Text("a"): 1}):
        assert CODEC.dumps(obj)[0][0] == through_python(obj)


@pytest.mark.skipif(core.form == "pure", reason="there is no memory of C")
def test_nothing_is_left() -> None:
    message = through_python({"a": [1.5, {"b": b"xyz"}], "key of a dict": "text"})
    bad = message[:-1]

    def work() -> None:
        for _ in range(1000):
            CODEC.loads(message)
            CODEC.dumps(CODEC.loads(message))
            with contextlib.suppress(MPIError):
                CODEC.loads(bad)

    work()
    gc.collect()
    before = sys.getallocatedblocks()
    work()
    gc.collect()
    assert sys.getallocatedblocks() - before < 100
