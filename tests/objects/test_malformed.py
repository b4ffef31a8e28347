"""What arrives is hostile: whatever the bytes, they load, or are refused as malformed."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.errors import InvalidTypeError, RemoteProtocolError
from aiompi.objects import Codec, decode, type_tags
from aiompi.objects.codec import is_pickle
from aiompi.objects.decode import MOST_ALIKE
from support.messages import LENIENT, PICKLED, STRICT, Point, finish, message

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


def extension_message(code: int, items: object) -> bytes:
    return kinds_message(b"", msgpack.ExtType(code, msgpack.packb(items)))


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
        extension_message(type_tags.SCALAR, ["S", 2**40]),
        extension_message(type_tags.SCALAR, ["<S999999999999999999", b""]),
        extension_message(type_tags.ARRAY, ["<f8", False, b"12345678", 2**60]),
        extension_message(type_tags.ARRAY, ["<f8", False, b"12345678", -1, -1]),
        extension_message(type_tags.ARRAY, ["O", False, b"12345678", 1]),
        extension_message(type_tags.ARRAY, ["i4,O", False, b"12345678", 1]),
        extension_message(type_tags.ARRAY, ["<f8", False, None, 1]),
        kinds_message(b"\x0d", []),
        extension_message(type_tags.ARRAY, []),
        extension_message(type_tags.ARRAY, 5),
        extension_message(type_tags.ARRAY, {"<f8": 1, False: 2, b"": 3, 4: 4}),
        extension_message(type_tags.SCALAR, ["<f8", msgpack.ExtType(type_tags.SCALAR, b"")]),
        extension_message(5, [1]),
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


MERSENNE = 2**61 - 1  # all its multiples have the hash 0
ALIKE = {
    "integers": [MERSENNE * (2**20 + i) for i in range(20_000)],
    "complex numbers": [complex(-1000003 * i, i) for i in range(20_000)],
    "tuples": [(MERSENNE * (2**20 + i),) for i in range(20_000)],
}


@pytest.mark.parametrize("keys", ALIKE.values(), ids=ALIKE)
@pytest.mark.parametrize("kind", [set, frozenset, dict.fromkeys, lambda keys: [dict.fromkeys(keys)]])
def test_many_keys_of_one_hash_are_refused(keys: list[object], kind: Callable[[list[object]], object]) -> None:
    """To fill a set or a dict of them would take quadratic time."""
    few = kind(keys[:MOST_ALIKE])
    assert STRICT.loads(message(STRICT, few)) == few
    many = message(STRICT, kind(keys[: MOST_ALIKE + 1]))
    with pytest.raises(RemoteProtocolError, match="more than 256 keys of one hash"):
        STRICT.loads(many)
    with pytest.raises(RemoteProtocolError, match="more than 256 keys of one hash"):
        finish(STRICT.loads_in_steps(many))
    assert LENIENT.loads(many) == kind(keys[: MOST_ALIKE + 1]), "what may pickle can do worse"


def test_many_keys_of_many_hashes_are_not() -> None:
    for many in (set(range(10**5)), {(n, str(n)): n for n in range(10**5)}, {1j * n for n in range(10**5)}):
        assert STRICT.loads(message(STRICT, many)) == many
        assert finish(STRICT.loads_in_steps(message(STRICT, many)))[0] == many


def map_of(keys: list[bytes], value: bytes = b"\xc0") -> bytes:
    return b"\xde" + struct.pack("!H", len(keys)) + b"".join(key + value for key in keys)


@pytest.mark.parametrize(
    ("key", "tags"),
    [
        (lambda n: b"\x92" + msgpack.packb(n * -1000003.0) + msgpack.packb(float(n)), bytes([type_tags.COMPLEX])),
        (lambda n: b"\x91\x01", bytes([type_tags.TUPLE])),
    ],
    ids=["complex numbers", "tuples"],
)
def test_keys_in_maps_of_msgpack(key: Callable[[int], bytes], tags: bytes) -> None:
    """A hostile sender also puts keys into maps of msgpack for which the codec uses arrays."""
    few, many = (map_of([key(n) for n in range(count)]) for count in (MOST_ALIKE, MOST_ALIKE + 1))
    head = struct.pack("<BI", 0xC1, MOST_ALIKE) + tags * MOST_ALIKE
    assert len(STRICT.loads(head + few)) in (1, MOST_ALIKE)
    head = struct.pack("<BI", 0xC1, MOST_ALIKE + 1) + tags * (MOST_ALIKE + 1)
    for load in (STRICT.loads, lambda data: finish(STRICT.loads_in_steps(data))):
        with pytest.raises(RemoteProtocolError, match="more than 256 keys of one hash"):
            load(head + many)


def test_keys_in_messages_without_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among these are timestamps, whose hash a sender can choose. There are 9 integers of 64 bits with the hash 0."""
    monkeypatch.setattr(decode, "MOST_ALIKE", 8)
    keys = [msgpack.packb(MERSENNE * n) for n in range(9)]
    value = msgpack.packb(bytes(128))  # the core reads messages of up to 1,024 bytes, in which few keys are alike
    assert len(STRICT.loads(map_of(keys[:8], value))) == 8
    with pytest.raises(RemoteProtocolError, match="more than 8 keys of one hash"):
        STRICT.loads(map_of(keys, value))
    with pytest.raises(RemoteProtocolError, match="more than 8 keys of one hash"):
        finish(STRICT.loads_in_steps(map_of(keys, value)))


@pytest.mark.parametrize("tag", [type_tags.ARRAY, type_tags.MEMORYVIEW])
@pytest.mark.parametrize(
    "shape",
    [[2**62] * 60_000, [1] * 65, [2**63], [-1, -1], [True], [1.0]],
    ids=lambda shape: f"{len(shape)} {shape[0]}",
)
def test_shapes_that_no_array_has(tag: int, shape: list[object]) -> None:
    """The product of many large lengths takes quadratic time."""
    if tag == type_tags.ARRAY:
        message = extension_message(tag, ["f8", False, b"", *shape])
    else:
        message = kinds_message(bytes([tag]), [False, "B", b"", *shape])
    with pytest.raises(RemoteProtocolError, match=r"with \d+ dimensions"):
        STRICT.loads(message)


def test_keys_in_the_dtype_of_an_array() -> None:
    """The description of a dtype is a msgpack value of its own."""
    monstrous = map_of([msgpack.packb(MERSENNE * n) for n in range(1, 5)] * 100)
    packed = b"\x94" + monstrous + b"\xc2\xc4\x00\x00"
    with pytest.raises(RemoteProtocolError, match="more than 256 keys of one hash"):
        STRICT.loads(kinds_message(b"", msgpack.ExtType(type_tags.ARRAY, packed)))


def test_a_dtype_that_is_nested_deeply_is_refused() -> None:
    dtype = np.dtype("u1")
    for level in range(33):
        if level == 32:
            with pytest.raises(InvalidTypeError, match=r"cannot send an object of type numpy\.ndarray of dtype"):
                message(STRICT, np.zeros(1, np.dtype([("a", dtype)])))
            break
        dtype = np.dtype([("a", dtype)])
        array = np.zeros(1, dtype)
        assert STRICT.loads(message(STRICT, array)).dtype == dtype
    level = {"names": ["a"], "formats": [None], "offsets": [0], "itemsize": 1, "aligned": False}
    begin, end = msgpack.packb(level).split(b"\xc0")  # old versions of msgpack pack 511 levels and unpack 1,024
    deep = b"\x94" + begin * 480 + b"\xa2u1" + end * 480 + b"\xc2\xc4\x01\x00\x01"
    with pytest.raises(RemoteProtocolError, match=r"nested deeper than 32 levels|recursion"):
        STRICT.loads(kinds_message(b"", msgpack.ExtType(type_tags.ARRAY, deep)))


@pytest.mark.parametrize("unit", ["[0s]", "[00s]", "[01s]"])
def test_units_that_no_dtype_has(unit: str) -> None:
    """NumPy takes a unit of 0 seconds, and later computations with the array raise SystemError."""
    for kind in ("M8", "m8"):
        with pytest.raises(RemoteProtocolError, match="not a dtype of plain memory"):
            STRICT.loads(extension_message(type_tags.SCALAR, [kind + unit, bytes(8)]))
        scalar = np.zeros((), f"{kind}[12s]")[()]
        assert STRICT.loads(message(STRICT, scalar)).dtype == scalar.dtype


def test_a_range_of_long_numbers_is_refused() -> None:
    """Its length is a quotient, which takes quadratic time."""
    short = range(-(2**4000), 2**4000, 2**3000)
    assert STRICT.loads(message(STRICT, short)) == short
    long = range(0, 2**4096, 2)
    with pytest.raises(InvalidTypeError, match="range of numbers of more than 4096 bits"):
        message(STRICT, long)
    assert LENIENT.loads(message(LENIENT, long)) == long
    integers = [[(2**n).to_bytes(n // 8 + 1, "little", signed=True)] for n in (8_000_000, 4_000_000)]
    tags = bytes([type_tags.INTEGER, type_tags.INTEGER, type_tags.RANGE])
    with pytest.raises(RemoteProtocolError, match="no range"):
        STRICT.loads(kinds_message(tags, [0, *integers][:1] + integers))
