"""Built-in types, the formats of messages, what goes out of band, and pickles."""

from __future__ import annotations

import collections
import enum
import math
import pickle
import struct
import subprocess
import sys
import textwrap
import tracemalloc
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiompi.errors import InvalidTypeError, OtherError, RemoteProtocolError
from aiompi.objects import Codec
from aiompi.objects.codec import ALIGNMENT, OUT_OF_BAND, is_pickle
from support.cases import cases
from support.limits import LIMIT
from support.messages import FRAMED, LENIENT, PICKLED, STRICT, Point, assert_same, message, payloads, through


class Pair(NamedTuple):
    left: int
    right: int


class Color(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


class Tagged(np.ndarray[Any, Any]):
    """A subclass of arrays."""


class Breaking:
    """Can be pickled and not unpickled."""

    def __reduce__(self) -> Any:
        return _break, ()


def _break() -> None:
    raise LookupError("broken on arrival")


BUILT_IN = [
    None, True, False, 0, -1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 3**1000, -(3**1000),
    0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, complex(-0.0, math.nan), 1 + 2j,
    "", "x", "héllo ☃ 😀", "\ud800 alone", b"", b"\xc4\xc5\xc6", bytearray(b"abc"), bytearray(),
    (), (1, 2), ((), [()]), [], [(), []], (1, [2, (3, [4])]), [(1, 2), (3, 4)], [[1], [2]], [{"a": 1}, {"b": 2}],
    {}, {"a": 1, "b": [1, 2, 3]}, {"z": 1, "a": 2}, {1: "a", None: 2, (1, (2,)): 3, 1.5: 4, True + 1: 5},
    {2**70: -(2**70)}, {"k": 2**70, "s": "\udcff"}, {frozenset({1}): {b"k": bytearray(b"v")}},
    [bytearray(b"x"), b"x"], {"a": [[bytearray(b"x")]]}, {memoryview(b"k").tobytes(): 1},
    set(), {1, "a", (2, 3)}, frozenset({b"x", None}), {frozenset({frozenset()})},
    range(5), range(10, -(2**70), -3), slice(None), slice(1, "b", (2, 3)), list(range(100)), [1.5] * 100,
    [[float(i), str(i)] for i in range(100)], [(i, {"i": i}) for i in range(50)], {str(i): i for i in range(100)},
    [{"a": i, "b": "x"} for i in range(50)], {"a": {"b": {"c": [{}, [], ()]}}},
    msgpack.ExtType(5, b"abc"), [msgpack.Timestamp(1, 2)],
]  # fmt: skip


@cases("obj", BUILT_IN[:-2])
def test_built_in_types_come_back_exactly_without_pickle(obj: Any) -> None:
    assert_same(through(obj), obj)
    assert_same(through({"nested": [obj, (obj,)]}), {"nested": [obj, (obj,)]})


@cases("obj", BUILT_IN[-2:])
def test_types_of_the_packer_itself_come_back(obj: Any) -> None:
    assert_same(through(obj, LENIENT), obj)


@pytest.mark.parametrize("obj", [0, "x", {"a": 1, "b": [1, 2, 3]}, [1.5, None, True], b"abc"])
def test_simple_objects_are_plain_msgpack(obj: Any) -> None:
    assert STRICT.dumps(obj) == ([msgpack.packb(obj)], len(msgpack.packb(obj)))


def test_golden_bytes() -> None:
    assert message(STRICT, (1, [2])) == b"\xc1\x02\x00\x00\x00" + b"\x00\x01" + b"\x92\x01\x91\x02"
    assert message(LENIENT, Color.RED)[:3] == b"\xc7\x80\x05"
    framed = message(Codec(out_of_band=4), [b"abcd", b"12345"])
    head = b"\xc8\0\0\0" + struct.pack("<IQQQ", 2, 13, 4, 5)
    body = b"\xc1\x03\0\0\0" + b"\x07\x07\x00" + b"\x92\x91\xc0\x91\xc0"
    assert framed == head + body + bytes(64 - 45) + b"abcd" + bytes(60) + b"12345"


atoms = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary()
    | st.complex_numbers() | st.text(st.characters(categories=["Cs", "L"]))
)  # fmt: skip
keys = st.recursive(
    atoms, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.lists(inner, max_size=3).map(frozenset)
)
trees = st.recursive(
    atoms | st.binary().map(bytearray) | st.builds(range, st.integers(), st.integers()),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(st.tuples(keys, inner)).map(dict)
        | st.lists(keys).map(set)
        | st.builds(Point, inner, inner)
        | st.lists(inner).map(lambda items: np.arange(len(items), dtype=">i2"))
    ),
    max_leaves=20,
)


@given(trees, st.sampled_from([1, 8, OUT_OF_BAND]))
@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_tree_comes_back_exactly_and_does_not_look_like_a_plain_pickle(tree: Any, out_of_band: int) -> None:
    codec = Codec(pickle=False, out_of_band=out_of_band)
    sent = message(codec, tree)
    assert not is_pickle(sent)
    assert_same(codec.loads(sent), tree)


def test_payloads_alias_the_memory_of_the_sender_and_of_the_message() -> None:
    array = np.arange(10_000, dtype="<i8")
    fortran = np.ones((200, 100)).T
    raw = bytearray(OUT_OF_BAND)
    segments, nbytes = STRICT.dumps({"array": array, "fortran": fortran, "raw": raw, "n": 1})
    views = payloads(segments)
    array[0], raw[0] = 77, 5
    assert np.frombuffer(views[0], "<i8")[0] == 77
    assert np.shares_memory(np.frombuffer(views[1]), fortran)
    assert views[2][0] == 5
    memory = bytearray(b"".join(segments))
    copy = STRICT.loads(memory)
    assert len(memory) == nbytes
    assert np.shares_memory(copy["array"], np.frombuffer(memory, np.uint8))
    assert np.array_equal(copy["array"], array)
    assert np.array_equal(copy["fortran"], fortran)
    assert copy["raw"] == raw


def test_payloads_are_aligned_in_the_message() -> None:
    obj = [np.full(n, n, np.uint8) for n in range(1, 200)] + [bytes(65)]
    segments, _ = Codec(out_of_band=1).dumps(obj)
    offset = 0
    for segment in segments:
        if isinstance(segment, memoryview):
            assert offset % ALIGNMENT == 0
        offset += len(segment)
    assert len(payloads(segments)) == len(obj)


@pytest.mark.parametrize("size", [OUT_OF_BAND - 1, OUT_OF_BAND])
@pytest.mark.parametrize("make", [bytes, bytearray, lambda n: np.zeros(n, "u1"), lambda n: memoryview(bytes(n))])
def test_the_threshold(make: Any, size: int) -> None:
    for obj in (make(size), {"a": make(size)}, (1, [make(size)])):
        assert len(payloads(STRICT.dumps(obj)[0])) == (size >= OUT_OF_BAND)


def test_received_arrays_are_writable_when_the_message_is() -> None:
    joined = message(STRICT, np.zeros(OUT_OF_BAND))
    assert STRICT.loads(joined).flags.writeable
    assert not STRICT.loads(bytes(joined)).flags.writeable
    assert STRICT.loads(memoryview(joined)).flags.writeable


def test_large_bodies_are_not_joined() -> None:
    text = "x" * 10**6
    segments, _ = STRICT.dumps((text, [text], np.zeros(OUT_OF_BAND)))
    assert len(segments) > 2
    assert_same(through((text, [text], np.zeros(3))), (text, [text], np.zeros(3)))


def memory_taken(codec: Codec, obj: object) -> int:
    """Bytes that a message of an object takes at most while it is made."""
    tracemalloc.start()
    codec.dumps(obj)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("obj", [{"data": bytes(2**20)}, [[bytearray(2**20)], 1], {"a": memoryview(bytes(2**20))}])
def test_what_goes_out_of_band_is_not_packed_first(obj: Any) -> None:
    assert memory_taken(Codec(), obj) < 2**18


@pytest.mark.parametrize("dtype", ["f8", ">i2", "S3", [("a", "i4")]])
def test_arrays_beside_tuples_and_large_numbers(dtype: Any) -> None:
    array = np.zeros((2, 3), dtype)
    for obj in ([(1, array), [2]], {"a": array, "b": 2**70}, {"a": (array, "\ud800")}, (array,), [[], {"x": [array]}]):
        assert_same(through(obj), obj)
        assert_same(through(obj, Codec(pickle=False, out_of_band=1)), obj)


def test_scalars_that_are_python_numbers_too() -> None:
    obj = {"loss": np.float64(0.5), "name": np.str_("x\0"), "raw": np.bytes_(b"x\0"), "pair": (np.complex128(1j), 1)}
    STRICT.dumps(np.zeros(1))  # from now on the types of NumPy are known
    assert_same(through(obj), obj)
    assert_same(through([np.float64(1.5)]), [np.float64(1.5)])


def test_memory_of_a_large_message_is_not_kept() -> None:
    codec = Codec(pickle=False)
    before = codec._pack
    codec.dumps("x" * 2**21)
    assert codec._pack is not before


@pytest.mark.parametrize("obj", [
    Pair(1, 2), collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]), Color.RED, Text("x"), int,
    np.array([None, "a"]), np.zeros(2).view(Tagged), np.zeros(1, [("a", "i4")]).view(np.recarray), Ellipsis, ValueError,
], ids=repr)  # fmt: skip
def test_other_types_are_pickled_as_a_whole(obj: Any) -> None:
    for sent in (obj, {"nested": [1, (obj,)]}):
        assert message(LENIENT, sent)[0] == PICKLED
        with pytest.raises(InvalidTypeError, match=r"pickling is off.*AIOMPI_PICKLE=1"):
            STRICT.dumps(sent)
        copy = through(sent, LENIENT)
        assert type(copy) is type(sent)
        assert repr(copy) == repr(sent)


def test_the_type_that_needs_pickle_is_named() -> None:
    with pytest.raises(InvalidTypeError, match=r"type collections\.OrderedDict while"):
        STRICT.dumps({"a": [1, collections.OrderedDict()]})


def test_cycles_are_pickled() -> None:
    cycle: list[Any] = [1]
    cycle.append({"self": cycle})
    copy = through(cycle, LENIENT)
    assert copy[1]["self"] is copy
    with pytest.raises(InvalidTypeError, match="contains itself"):
        STRICT.dumps(cycle)


def test_deep_nesting_ends_in_an_object_or_an_error_that_names_it() -> None:
    """How deep pickle can go depends on the version of Python and, from 3.14 on, on the stack of the thread."""
    deep: Any = 1
    for depth in range(100_000):
        deep = [deep] if depth % 2 else (deep,)
        if depth in (100, 250, 400):
            assert repr(through(deep, LENIENT)) == repr(deep)
    with pytest.raises(InvalidTypeError):
        LENIENT.dumps(deep)


def test_an_object_referenced_twice_comes_back_as_two() -> None:
    row = [0]
    a, b = through([row, row])
    assert a == b == row
    assert a is not b


def test_pickled_objects_keep_identities_and_send_arrays_out_of_band() -> None:
    array = np.arange(OUT_OF_BAND)
    obj = [Pair(1, 2), array, array]
    segments, nbytes = LENIENT.dumps(obj)
    assert len(payloads(segments)) == 1
    assert np.shares_memory(np.frombuffer(payloads(segments)[0], array.dtype), array)
    memory = bytearray(b"".join(segments))
    assert (memory[0], len(memory)) == (FRAMED, nbytes)
    _, first, second = LENIENT.loads(memory)
    assert first is second
    assert np.shares_memory(first, np.frombuffer(memory, np.uint8))
    assert np.array_equal(first, array)


def test_pickle_buffers_go_out_of_band() -> None:
    memory = bytearray(range(256)) * 256
    segments, _ = LENIENT.dumps([pickle.PickleBuffer(memory)])
    assert len(payloads(segments)) == 1
    assert through([pickle.PickleBuffer(memory)], LENIENT)[0] == memory
    fortran: Any = np.zeros((2, 3), "u1").T
    strided = pickle.PickleBuffer(fortran)
    assert len(message(LENIENT, [strided])) > 0


@pytest.mark.parametrize("obj", [Pair(1, 2), [Pair(1, 2), np.zeros(OUT_OF_BAND)]], ids=["plain", "buffers"])
def test_pickles_are_refused_when_pickling_is_off(obj: Any) -> None:
    with pytest.raises(InvalidTypeError, match="pickling is off"):
        STRICT.loads(message(LENIENT, obj))


def test_what_cannot_be_pickled_is_named_with_its_cause() -> None:
    with pytest.raises(InvalidTypeError, match="cannot send an object of type function") as caught:
        LENIENT.dumps(lambda: None)
    assert isinstance(caught.value.__cause__, (pickle.PicklingError, AttributeError))


def test_a_call_that_was_not_awaited_is_no_object_to_send() -> None:
    async def received() -> None: ...

    call = received()
    with pytest.raises(InvalidTypeError, match=r"of type coroutine: .*; await it, and send its result"):
        LENIENT.dumps(call)
    call.close()


def test_what_cannot_be_unpickled_is_wrapped_with_its_cause() -> None:
    with pytest.raises(OtherError, match="LookupError: broken on arrival") as caught:
        through(Breaking(), LENIENT)
    assert type(caught.value) is OtherError
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@cases("obj", [None, 1, {}, [], (), "x", Pair(1, 2)])
def test_plain_pickles_are_taken_for_messages(obj: Any, protocol: int) -> None:
    assert_same(LENIENT.loads(pickle.dumps(obj, protocol)), obj)
    with pytest.raises(InvalidTypeError, match="pickling is off"):
        STRICT.loads(pickle.dumps(obj, protocol))


def test_a_message_without_bytes_is_none() -> None:
    assert STRICT.loads(b"") is None


def test_a_truncated_pickle_is_malformed() -> None:
    with pytest.raises(RemoteProtocolError):
        LENIENT.loads(bytes(message(LENIENT, Pair(1, 2)))[:-2])


def test_numpy_is_not_imported_until_an_array_arrives() -> None:
    """If it can not be imported, for want of descriptors, that is said, and the next array arrives."""
    program = f"""
        import os, resource, sys
        from aiompi.objects import Codec
        codec = Codec(pickle=False)
        codec.loads(codec.dumps((1, {{2: 3}}))[0][0])
        assert "numpy" not in sys.modules
        data = bytes.fromhex("{message(STRICT, np.arange(3)).hex()}")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (os.open(os.devnull, os.O_RDONLY), hard))
        try:
            codec.loads(data)
        except OSError as error:
            assert "Too many open files" in str(error), error
        else:
            raise AssertionError
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert codec.loads(data).tolist() == [0, 1, 2]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=LIMIT)


@pytest.mark.parametrize(
    "obj",
    [["x" * 2**21, 2**70], {"a": "x" * 2**21, "b": "\ud800"}],
    ids=["a large number", "a lone surrogate"],
)
def test_no_large_memory_is_kept_after_what_is_packed_in_vain(obj: Any) -> None:
    codec = Codec()
    before = codec._pack
    codec.dumps(obj)
    assert codec._pack is not before
