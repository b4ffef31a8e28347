"""external32 against bytes written by hand (section 4.3, table 13.2 of MPI-3.1)."""

from __future__ import annotations

import struct
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.datatype import binary128, external32, predefined
from aiompi.datatype.external32 import element_of, is_native, packed_layout, to_external32, unpack
from aiompi.datatype.handle import PREDEFINED
from aiompi.datatype.predefined import BYTE, CHAR, DOUBLE, INT, Datatype
from aiompi.errors import ERR_ARG, InvalidArgumentError, InvalidBufferError, InvalidTypeError
from support.cases import cases

INF, NAN = float("inf"), float("nan")

# Type, values, and the digits of each value in external32.
GOLDEN: dict[str, list[tuple[Any, str]]] = {
    "CHAR": [(b"A", "41"), (b"\xe9", "e9"), (b"\0", "00")],
    "SHORT": [(258, "0102"), (-2, "fffe"), (-32768, "8000")],
    "INT": [(1, "00000001"), (-2, "fffffffe"), (-(2**31), "80000000")],
    "LONG": [(1, "00000001"), (-1, "ffffffff"), (2**31 - 1, "7fffffff"), (-(2**31), "80000000")],
    "UNSIGNED_CHAR": [(255, "ff"), (7, "07")],
    "UNSIGNED_SHORT": [(65534, "fffe"), (258, "0102")],
    "UNSIGNED": [(2**32 - 2, "fffffffe"), (1, "00000001")],
    "UNSIGNED_LONG": [(1, "00000001"), (2**32 - 1, "ffffffff")],
    "FLOAT": [(1.0, "3f800000"), (-2.5, "c0200000"), (-0.0, "80000000"), (INF, "7f800000"), (1e-45, "00000001")],
    "DOUBLE": [(1.0, "3ff0000000000000"), (-0.1, "bfb999999999999a"), (-INF, "fff0000000000000")],
    "LONG_DOUBLE": [
        (1.0, "3fff" + 28 * "0"), (-2.5, "c0004" + 27 * "0"), (0.0, 32 * "0"), (-0.0, "8" + 31 * "0"),
        (INF, "7fff" + 28 * "0"), (-INF, "ffff" + 28 * "0"), (NAN, "7fff8" + 27 * "0"),
        (5e-324, "3bcd" + 28 * "0"),
    ],
    "BYTE": [(200, "c8")],
    "PACKED": [(200, "c8")],
    "LONG_LONG_INT": [(1, "0000000000000001"), (-2, "fffffffffffffffe")],
    "UNSIGNED_LONG_LONG": [(2**64 - 2, "fffffffffffffffe")],
    "SIGNED_CHAR": [(-2, "fe")],
    "WCHAR": [("A", "0041"), ("\u20ac", "20ac"), ("\uffff", "ffff")],
    "C_BOOL": [(True, "01"), (False, "00")],
    "INT8_T": [(-2, "fe")],
    "INT16_T": [(-2, "fffe")],
    "INT32_T": [(-2, "fffffffe")],
    "INT64_T": [(-2, "fffffffffffffffe"), (2**32, "0000000100000000")],
    "UINT8_T": [(254, "fe")],
    "UINT16_T": [(258, "0102")],
    "UINT32_T": [(2**31, "80000000")],
    "UINT64_T": [(2**63 + 1, "8000000000000001")],
    "C_FLOAT_COMPLEX": [(1 - 2.5j, "3f800000 c0200000")],
    "C_DOUBLE_COMPLEX": [(1 - 2.5j, "3ff0000000000000 c004000000000000")],
    "C_LONG_DOUBLE_COMPLEX": [(1 - 2.5j, "3fff" + 28 * "0" + "c0004" + 27 * "0")],
    "AINT": [(-2, "fffffffffffffffe")],
    "COUNT": [(2**40, "0000010000000000")],
    "OFFSET": [(258, "0000000000000102")],
    "INTEGER": [(-2, "fffffffe")],
    "REAL": [(1.0, "3f800000")],
    "DOUBLE_PRECISION": [(1.0, "3ff0000000000000")],
    "COMPLEX": [(1 - 2.5j, "3f800000 c0200000")],
    "DOUBLE_COMPLEX": [(1 - 2.5j, "3ff0000000000000 c004000000000000")],
    "LOGICAL": [(1, "00000001"), (0, "00000000")],
    "CHARACTER": [(b"A", "41")],
    "INTEGER1": [(-2, "fe")],
    "INTEGER2": [(-2, "fffe")],
    "INTEGER4": [(-2, "fffffffe")],
    "INTEGER8": [(-2, "fffffffffffffffe")],
    "REAL2": [(1.0, "3c00"), (-2.0, "c000")],
    "REAL4": [(1.0, "3f800000")],
    "REAL8": [(1.0, "3ff0000000000000")],
    "LOGICAL1": [(1, "01")],
    "LOGICAL2": [(1, "0001")],
    "LOGICAL4": [(1, "00000001")],
    "LOGICAL8": [(1, "0000000000000001")],
    "FLOAT16_T": [(1.0, "3c00"), (-2.0, "c000")],
    "FLOAT32_T": [(1.0, "3f800000")],
    "FLOAT64_T": [(1.0, "3ff0000000000000")],
    "COMPLEX8": [(1 - 2.5j, "3f800000 c0200000")],
    "COMPLEX16": [(1 - 2.5j, "3ff0000000000000 c004000000000000")],
    "FLOAT_INT": [((1.0, -2), "3f800000 fffffffe")],
    "DOUBLE_INT": [((1.0, -2), "3ff0000000000000 fffffffe")],
    "LONG_INT": [((-1, 258), "ffffffff 00000102")],
    "TWOINT": [((1, -2), "00000001 fffffffe")],
    "SHORT_INT": [((258, -2), "0102 fffffffe")],
    "LONG_DOUBLE_INT": [((1.0, -2), "3fff" + 28 * "0" + "fffffffe")],
    "TWOREAL": [((1.0, -2.5), "3f800000 c0200000")],
    "TWODOUBLE_PRECISION": [((1.0, -2.5), "3ff0000000000000 c004000000000000")],
    "TWOINTEGER": [((1, -2), "00000001 fffffffe")],
}  # fmt: skip

# Types whose elements are shorter in external32 than in memory, in bytes.
SHORTER = {"MPI_LONG": 4, "MPI_UNSIGNED_LONG": 4, "MPI_WCHAR": 2, "MPI_LONG_INT": 8}


def encoded(datatype: Datatype, values: Any, count: int | None = None) -> bytes:
    memory = np.ascontiguousarray(values).reshape(-1)
    layout = datatype.external.repeat(len(memory) if count is None else count, datatype.extent)
    return bytes(to_external32(layout, memory.view(np.uint8)))


def decoded(datatype: Datatype, payload: bytes, memory: np.ndarray[Any, Any], count: int) -> None:
    layout = datatype.external.repeat(count, datatype.extent)
    unpack(layout, memoryview(payload), memory.reshape(-1).view(np.uint8))


def test_every_predefined_type_is_here() -> None:
    named = {getattr(predefined, name).name for name in GOLDEN}
    assert set(PREDEFINED) - named == {"MPI_DATATYPE_NULL", "MPI_LB", "MPI_UB"}


@cases(("name", "cases"), GOLDEN.items())
@pytest.mark.spec("D4.3-1", "D4.3-6")
def test_golden_bytes(name: str, cases: list[tuple[Any, str]]) -> None:
    datatype: Datatype = getattr(predefined, name)
    values = np.array([value for value, _ in cases], datatype.dtype)
    expected = bytes.fromhex("".join(digits for _, digits in cases))
    assert encoded(datatype, values).hex() == expected.hex()
    back = np.zeros_like(values)
    decoded(datatype, expected, back, len(cases))
    assert back.tolist() == values.tolist() or (name == "LONG_DOUBLE" and repr(back) == repr(values))


@cases("name", GOLDEN)
@pytest.mark.spec("D4.3-2")
def test_sizes(name: str) -> None:
    datatype: Datatype = getattr(predefined, name)
    expected = SHORTER.get(datatype.name, datatype.size)
    assert datatype.external.size == expected
    if datatype.dtype is not None and datatype.dtype.names is None:
        assert element_of(datatype).nbytes == expected


def test_only_basic_types_have_an_element() -> None:
    for datatype in (
        predefined.DOUBLE_INT,
        predefined.DATATYPE_NULL,
        predefined.LB,
        predefined.INT.Create_vector(2, 1, 2),
    ):
        with pytest.raises(InvalidTypeError, match="not a basic type"):
            element_of(datatype)


@pytest.mark.spec("D4.3-4")
@cases("datarep", ["native", "internal", "External32", "", None, 32])
def test_other_representations_are_unknown(datarep: object) -> None:
    external32.check_datarep("external32")
    with pytest.raises(InvalidArgumentError, match="datarep") as caught:
        external32.check_datarep(datarep)
    assert caught.value.error_class == ERR_ARG


@pytest.mark.spec("D4.3-6")
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_long_keeps_the_low_bytes_and_the_sign(values: list[int]) -> None:
    got = np.frombuffer(encoded(predefined.LONG, np.array(values, np.int64)), ">i4").tolist()
    for value, short in zip(values, got, strict=True):
        assert (value - short) % 2**31 == 0
        assert (value < 0) == (short < 0)
        assert short == value or not -(2**31) <= value < 2**31


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_unsigned_long_keeps_the_low_bytes(values: list[int]) -> None:
    got = np.frombuffer(encoded(predefined.UNSIGNED_LONG, np.array(values, np.uint64)), ">u4")
    assert got.tolist() == [value % 2**32 for value in values]


@cases(
    ("datatype", "digits", "value"),
    [
        (predefined.LONG, "fffffffe", -2),
        (predefined.LONG, "7ffffffe", 2**31 - 2),
        (predefined.UNSIGNED_LONG, "fffffffe", 2**32 - 2),
        (predefined.WCHAR, "fffe", "\ufffe"),
        (predefined.LOGICAL, "80000000", 1),
        (predefined.LOGICAL, "00000100", 1),
        (predefined.LOGICAL, "00000000", 0),
        (predefined.C_BOOL, "02", True),
        (predefined.C_BOOL, "00", False),
    ],
)
def test_decoding_extends(datatype: Datatype, digits: str, value: Any) -> None:
    back = np.frombuffer(b"\xaa" * datatype.extent, datatype.dtype).copy()
    decoded(datatype, bytes.fromhex(digits), back, 1)
    assert back[0] == value
    assert back.tobytes() == np.array([value], datatype.dtype).tobytes()


@pytest.mark.parametrize("datatype", [predefined.LOGICAL, predefined.C_BOOL])
def test_whatever_is_not_zero_is_true(datatype: Datatype) -> None:
    memory = np.zeros((3, datatype.extent), np.uint8)
    memory[1, -1], memory[2] = 0x80, 0xFF
    assert encoded(datatype, memory, 3).hex() == "".join(f"{i:0{2 * datatype.extent}x}" for i in (0, 1, 1))


@cases(
    ("datatype", "bits"),
    [
        (predefined.FLOAT, "7f801234"),
        (predefined.FLOAT, "ffc00001"),
        (predefined.DOUBLE, "7ff0000000000001"),
        (predefined.REAL2, "7c01"),
        (predefined.C_FLOAT_COMPLEX, "7f801234 ff801234"),
    ],
)
def test_nans_keep_their_payload(datatype: Datatype, bits: str) -> None:
    payload = bytes.fromhex(bits)
    back = np.zeros(1, datatype.dtype)
    decoded(datatype, payload, back, 1)
    assert encoded(datatype, back) == payload


def test_long_double_of_every_kind() -> None:
    one = np.longdouble(1)
    numbers = [one / 3, np.ldexp(one, 16383), np.ldexp(one, -16445), -np.ldexp(one, -16382), one * INF, -one * 0]
    values = np.array(numbers)
    back = np.empty_like(values)
    decoded(predefined.LONG_DOUBLE, encoded(predefined.LONG_DOUBLE, values), back, len(values))
    assert (back == values).all()
    assert np.signbit(back).tolist() == np.signbit(values).tolist()


def test_a_long_double_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary128, "NATIVE", None)
    monkeypatch.setitem(external32.elements(), "MPI_LONG_DOUBLE", external32._long_double(external32._WHOLE))
    assert element_of(predefined.LONG_DOUBLE).nbytes == 16
    with pytest.raises(InvalidTypeError, match="long double of this machine"):
        encoded(predefined.LONG_DOUBLE, np.ones(1, np.longdouble))
    with pytest.raises(InvalidTypeError, match="long double of this machine"):
        decoded(predefined.LONG_DOUBLE, bytes(16), np.ones(1, np.longdouble), 1)


@pytest.mark.spec("D4.3-2")
def test_a_struct_has_no_gaps() -> None:
    pair = Datatype.Create_struct([1, 1], [0, 8], [predefined.DOUBLE, predefined.CHAR])
    items = np.array([(1.0, b"A"), (-2.5, b"B")], np.dtype([("x", "f8"), ("c", "S1")], align=True))
    assert pair.external.size == 9
    assert encoded(pair, items) == bytes.fromhex("3ff0000000000000 41 c004000000000000 42")


LAYOUTS: dict[str, tuple[Datatype, int]] = {
    "contiguous": (predefined.INT.Create_contiguous(6), 1),
    "column": (predefined.INT.Create_vector(5, 1, 4), 1),
    "columns": (predefined.INT.Create_vector(5, 1, 4).Create_resized(0, 4), 3),
    "backwards": (predefined.INT.Create_vector(5, 2, -3), 1),
    "cube": (predefined.SHORT.Create_subarray([4, 5, 6], [2, 3, 3], [1, 1, 2]), 2),
    "irregular": (
        predefined.LONG.Create_indexed([1, 3, 2, 0, 1, 1, 5, 1, 2, 1], [9, 0, 17, 3, 5, 30, 22, 12, 40, 38]), 2,
    ),
    "single": (predefined.DOUBLE.Create_indexed_block(1, [7, 3, 30, 1, 22, 9, 14, 12, 40, 39, 5]), 3),
    "irregular columns": (
        predefined.C_FLOAT_COMPLEX.Create_vector(3, 1, 5).Create_hindexed_block(1, [0, 8, 24, 200, 216, 999, 800, 408]),
        1,
    ),
    "long doubles": (
        predefined.C_LONG_DOUBLE_COMPLEX.Create_hindexed_block(1, [64, 0, 300, 140, 172, 999, 500, 700, 900]), 2,
    ),
    "mixed": (
        Datatype.Create_struct([2, 1, 3], [64, 0, 11], [predefined.LONG, predefined.SHORT_INT, predefined.CHAR]), 3,
    ),
    "twice": (predefined.LONG.Create_indexed([2, 2], [0, 1]), 1),
    "empty": (predefined.LONG.Create_contiguous(0), 1),
}  # fmt: skip


def elements(datatype: Datatype, count: int, base: int) -> list[tuple[Datatype, int]]:
    """(basic type, position in memory) in type map order, by the native layout, which is tested elsewhere."""
    layout = datatype.layout_of(count)
    where, _, lengths = layout.runs()
    places = np.concatenate(
        [base + at + np.arange(n) for at, n in zip(where, lengths, strict=True)] or [np.empty(0, int)]
    )
    found, packed = [], 0
    for _ in range(count):
        for basic, times in datatype.signature:
            for _ in range(times):
                found.append((basic, int(places[packed])))
                packed += basic.size
    return found


@pytest.mark.parametrize(("datatype", "count"), LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.spec("D4.3-2", "D4.3-6")
def test_layouts_element_by_element(datatype: Datatype, count: int) -> None:
    rng = np.random.default_rng(3)
    external = datatype.external.repeat(count, datatype.extent)
    base = max(0, -external.lb) + 3
    memory = rng.integers(0, 256, base + external.ub + 5, np.uint8)
    single = []
    for basic, at in elements(datatype, count, base):
        assert basic.dtype is not None
        single.append(encoded(basic, memory[at : at + basic.size].view(basic.dtype)))
    payload = b"".join(single)
    assert bytes(to_external32(external, memory, base)) == payload

    for nbytes in {0, 1, 7, len(payload) // 2, max(0, len(payload) - 1), len(payload)}:
        target, expected = memory[::-1].copy(), memory[::-1].copy()
        unpack(external, memoryview(payload)[: min(nbytes, len(payload))], target, base)
        packed = 0
        for (basic, at), digits in zip(elements(datatype, count, base), single, strict=True):
            packed += len(digits)
            if packed <= nbytes:
                decoded(basic, digits, expected[at : at + basic.size], 1)
        assert target.tobytes() == expected.tobytes()


def test_what_is_not_in_the_memory() -> None:
    layout = predefined.INT.external.repeat(3, 4)
    for base in (-1, 1):
        with pytest.raises(InvalidBufferError):
            to_external32(layout, memoryview(bytes(12)), base)
        with pytest.raises(InvalidBufferError):
            unpack(layout, memoryview(bytes(12)), memoryview(bytearray(12)), base)
    with pytest.raises(InvalidBufferError):
        unpack(layout, memoryview(bytes(12)), memoryview(bytes(12)))
    with pytest.raises(InvalidBufferError):
        external32.pack(layout, memoryview(bytes(12)), 0, memoryview(bytearray(11)))
    with pytest.raises(InvalidBufferError):
        unpack(layout, memoryview(bytes(13)), memoryview(bytearray(12)))


def test_packed_items_have_no_gaps_on_either_side() -> None:
    """An INT and a DOUBLE, whose packed form is 12 bytes here and there."""
    typed = Datatype.Create_struct([1, 1], [0, 8], [INT, DOUBLE]).Create_resized(0, 24)
    native = struct.pack("=idid", 1, 1.0, 2, 2.0)
    message = to_external32(packed_layout(typed, 2), memoryview(native))
    assert bytes(message) == struct.pack(">idid", 1, 1.0, 2, 2.0)


@pytest.mark.parametrize(("datatype", "same"), [(CHAR, True), (INT, sys.byteorder == "big"), (BYTE, True)])
def test_what_lies_in_memory_as_in_external32(datatype: Datatype, same: bool) -> None:
    assert is_native(datatype) is same
    assert is_native(datatype.Create_vector(2, 1, 3)) is same
