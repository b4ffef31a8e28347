"""What arrives is hostile: whatever the bytes, they load, or are refused as malformed."""

from __future__ import annotations

import contextlib
import struct

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import LENIENT, PICKLED, STRICT, Point, message

from aiompi.errors import InvalidTypeError, RemoteProtocolError
from aiompi.objects import Codec
from aiompi.objects.codec import is_pickle

SAMPLES = [
    {"a": 1, "b": [1, 2, 3]}, (1.5, [2, (b"3", "x")]), {1: {2**70, 1j}, (2,): frozenset({range(3)})},
    [np.arange(6, dtype=">i2").reshape(2, 3), np.zeros(9, [("a", "<i4"), ("b", ">f8", (2, 3))])],
    [np.float64(1), np.str_("x"), np.datetime64("NaT", "s")],
    [bytearray(b"a" * 40), memoryview(b"b" * 40), b"c" * 40, slice(1, 2)], [Point(1, 2), Point("a")],
]  # fmt: skip
VALID = [bytes(message(Codec(pickle=False, out_of_band=size), obj)) for obj in SAMPLES for size in (16, 10**6)]


def try_to_load(data: bytes) -> None:
    # The second is for pickles: changed bytes may look like one, and it is refused unread.
    refusals = (RemoteProtocolError, *([InvalidTypeError] if PICKLED in data or is_pickle(data) else []))
    with contextlib.suppress(*refusals):
        STRICT.loads(data)


@pytest.mark.parametrize("valid", VALID, ids=range(len(VALID)))
def test_truncated_messages_are_malformed(valid: bytes) -> None:
    for length in range(1, len(valid)):
        with pytest.raises(RemoteProtocolError, match=f"malformed message of {length} bytes"):
            STRICT.loads(valid[:length])
    with pytest.raises(RemoteProtocolError):
        STRICT.loads(valid + b"\0")


@given(st.sampled_from(VALID), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), min_size=1, max_size=6))
@settings(max_examples=600, deadline=None)
def test_mutated_messages_load_or_are_malformed(valid: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(valid)
    for position, value in changes:
        data[position % len(data)] = value
    try_to_load(bytes(data))


@given(st.binary(max_size=40), st.sampled_from([b"", b"\xc1", b"\xc1\x01\0\0\0", b"\xc1\x02\0\0\0", b"\xc8\0\0\0"]))
@settings(max_examples=300, deadline=None)
def test_random_messages_load_or_are_malformed(data: bytes, prefix: bytes) -> None:
    try_to_load(prefix + data)


def kinds_message(kinds: bytes, value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return b"\xc1" + struct.pack("<I", len(kinds)) + kinds + packed


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc1\xff\xff\xff\xff",
        b"\xc8\0\0\0" + struct.pack("<IQ", 2**32 - 1, 0),
        b"\xc8\0\0\0" + struct.pack("<IQQ", 1, 2**63, 2**63),
        b"\xc8\0\0\0" + struct.pack("<IQ", 0, 16) + b"\xc8\0\0\0" + struct.pack("<IQ", 0, 0),
        b"\xc8\0\0\0" + struct.pack("<IQ", 0, 1) + b"\x01",
        kinds_message(b"\x07", [2**40]),
        kinds_message(b"\x08", [2**40]),
        kinds_message(b"\x0e", ["S", 2**40]),
        kinds_message(b"\x0e", ["<S999999999999999999", b""]),
        kinds_message(b"\x0d", ["<f8", False, b"12345678", 2**60]),
        kinds_message(b"\x0d", ["<f8", False, b"12345678", -1, -1]),
        kinds_message(b"\x0d", ["O", False, b"12345678", 1]),
        kinds_message(b"\x0d", ["i4,O", False, b"12345678", 1]),
        kinds_message(b"\x0d", ["<f8", False, None, 1]),
        kinds_message(b"\x0f", []),
        kinds_message(b"\x00\x02", [1]),
        kinds_message(b"\x02\x02", [[1]]),
        kinds_message(b"\x04", [1, 2, 3]),
        b"\x81\x90\x01",
    ],
    ids=lambda data: data[:24].hex(),
)
def test_impossible_messages_are_malformed(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed message"):
        LENIENT.loads(data)
