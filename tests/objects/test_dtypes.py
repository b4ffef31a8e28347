"""dtypes that `==` does not tell apart, and dtypes that NumPy does not make from a name, arrive as they were sent."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aiompi
from aiompi.errors import InvalidTypeError
from aiompi.objects import Codec
from aiompi.objects.codec import OUT_OF_BAND
from support.messages import LENIENT, PICKLED, STRICT, message, through

ENUM = np.dtype("i1", metadata={"enum": {"A": 0}})
ALIGNED = np.dtype([("a", "i4"), ("b", "i4")], align=True)

#: dtypes that the codec describes
EXACT = [
    np.dtype("c"), np.dtype("q"), np.dtype(">q"), np.dtype("M8[25us]"), np.dtype(">m8[7D]"), np.dtype("V5"),
    np.dtype("S0"), np.dtype([]),
    ALIGNED, np.dtype([("a", "i4"), ("b", "i4")]), np.dtype([("a", "i1"), ("b", "i8")], align=True),
    np.dtype([("a", ALIGNED), ("b", ALIGNED, (2,)), ("c", "q")]),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    np.dtype({"names": ["a", "b"], "formats": ["i4", ">i2"], "offsets": [6, 0], "itemsize": 13}),
    np.dtype([("a", "i4"), ("b", "f8"), ("c", "u1")])[["a", "c"]],
]  # fmt: skip

#: dtypes that are pickled
PICKLES = [
    np.dtypes.StringDType(), np.dtypes.StringDType(na_object=None), np.dtypes.StringDType(coerce=False),
    ENUM, np.dtype("f8", metadata={}), np.dtype("M8[25us]", metadata={"a": 1}), np.dtype("V3", metadata={"a": [2]}),
    np.dtype(">i4", metadata={"a": 1}), np.dtype([("a", ENUM)]), np.dtype([("a", ENUM, (2,))]),
    np.dtype([("a", [("b", ENUM)])]), np.dtype([("a", "i4")], metadata={"a": 1}),
    np.dtype([("a", np.dtype(("i2", (3,)), metadata={"b": 1}))]), np.dtype("O", metadata={"ref": int}),
    np.dtype([(("title", "a"), "i4")]), np.dtype([("a", [(("title", "b"), "i4")])]),
    np.dtype([("a", "i4"), ("b", "O")]),
    np.dtype((np.record, [("a", "i4")])), np.dtype((np.record, 8)), np.dtype([("a", (np.record, [("b", "i4")]))]),
    np.dtype((np.int32, {"low": (np.int16, 0), "high": (np.int16, 2)})),
    *(np.dtype(getattr(ml_dtypes, name)) for name in (
        "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "int2", "uint4")),
    np.dtype([("a", ml_dtypes.bfloat16), ("b", "i4")], align=True),
]  # fmt: skip


def traits(dtype: np.dtype[Any]) -> Any:
    """The dtype with what `==` does not compare, in all its parts."""
    parts: list[Any] = [
        dtype,
        dtype.type,
        dtype.num,
        dtype.char,
        dtype.flags & 0xFF,
        dtype.alignment,
        dtype.isalignedstruct,
    ]
    parts.append(None if dtype.metadata is None else dict(dtype.metadata))
    if dtype.subdtype is not None:
        parts.append((traits(dtype.subdtype[0]), dtype.subdtype[1]))
    parts.append([(name, traits(field[0]), field[1:]) for name, field in (dtype.fields or {}).items()])
    return parts


def filled(dtype: np.dtype[Any], shape: tuple[int, ...] = (4,)) -> np.ndarray[Any, Any]:
    array = np.zeros(shape, dtype)
    if dtype.char == "T":
        array[...] = "some text that is longer than sixteen bytes"
    elif not dtype.hasobject and array.nbytes:
        array.reshape(-1).view(np.uint8)[...] = 1
    return array


def assert_exact(got: Any, sent: Any) -> None:
    assert type(got) is type(sent)
    assert traits(got.dtype) == traits(sent.dtype)
    assert got.shape == sent.shape
    if sent.dtype.hasobject or sent.dtype.names is not None:  # padding is not kept
        assert repr(got.tolist()) == repr(sent.tolist())
    else:
        assert got.tobytes() == sent.tobytes()


@pytest.mark.parametrize("dtype", EXACT, ids=repr)
@pytest.mark.parametrize("out_of_band", [1, OUT_OF_BAND])
def test_described_dtypes_arrive_exactly(dtype: np.dtype[Any], out_of_band: int) -> None:
    codec = Codec(pickle=False, out_of_band=out_of_band)
    for shape in ((4,), (2, 3), (0,), ()):
        array = filled(dtype, shape)
        assert_exact(through(array, codec), array)
        assert_exact(through({"k": [array]}, codec)["k"][0], array)
    assert_exact(through(filled(dtype)[:1][0], codec), filled(dtype)[:1][0])


@pytest.mark.parametrize("dtype", PICKLES, ids=repr)
@pytest.mark.parametrize("out_of_band", [1, OUT_OF_BAND])
def test_other_dtypes_are_pickled(dtype: np.dtype[Any], out_of_band: int) -> None:
    codec = Codec(out_of_band=out_of_band)
    for array in (
        filled(dtype),
        filled(dtype, (2, 3)).T,
        filled(
            dtype,
            (6,),
        )[1:],
        filled(dtype, ()),
    ):
        assert_exact(through(array, codec), array)
        assert_exact(through([1, {"k": (array,)}], codec)[1]["k"][0], array)
    assert message(LENIENT, filled(dtype))[0] == PICKLED
    with pytest.raises(InvalidTypeError, match=r"numpy.ndarray of dtype .* while pickling is off"):
        STRICT.dumps(filled(dtype))


def test_equal_dtypes_that_were_sent_before_change_nothing() -> None:
    """Descriptions are cached, and dictionaries do not tell these dtypes apart."""
    pairs = [(np.dtype("i1"), ENUM), (np.dtype("S1"), np.dtype("c")), (np.dtype("V8"), np.dtype((np.record, 8)))]
    pairs += [(np.dtype("l"), np.dtype("q")), (np.dtype([("a", "i4"), ("b", "i4")]), ALIGNED)]
    for pair in pairs:
        assert pair[0] == pair[1]
        for dtype in (*pair, *pair):
            assert_exact(through(filled(dtype), LENIENT), filled(dtype))


@pytest.mark.parametrize("kind", [np.recarray, np.ma.MaskedArray, np.matrix])
def test_subclasses_of_arrays_keep_their_class(kind: Any) -> None:
    array = np.zeros((2, 2), [("a", ENUM)] if kind is np.recarray else ENUM).view(kind)
    assert_exact(through(array, LENIENT), array)


def test_scalars_keep_the_metadata_of_their_dtype() -> None:
    for dtype in (np.dtype([("a", ENUM)]), np.dtype("V3", metadata={"a": 1}), np.dtype([(("title", "a"), "i4")])):
        scalar = filled(dtype)[0]
        assert traits(through(scalar, LENIENT).dtype) == traits(pickle.loads(pickle.dumps(scalar)).dtype)
        assert traits(scalar.dtype) == traits(dtype)
    assert type(through([ml_dtypes.bfloat16(1.5)], LENIENT)[0]) is ml_dtypes.bfloat16


async def exchange(world: Any, obj: Any) -> list[Any]:
    """Send an object from rank 0 in every kind of call; return what arrives."""
    modes = ["send", "ssend", "bsend", "isend", "issend", "ibsend"]
    world.Attach_buffer(bytearray(2**23))
    if world.rank == 0:
        for mode in modes:
            await getattr(world, mode)(obj, dest=1)
    got = [await world.recv(source=0) for _ in modes] if world.rank else []
    got.append(await world.sendrecv(obj, dest=1 - world.rank, source=1 - world.rank))
    got.append(await world.bcast(obj if world.rank == 0 else None))
    got += await world.allgather(obj)
    got += await world.alltoall([obj, obj])
    got.append(await world.scatter([obj, obj] if world.rank == 0 else None))
    got += await world.gather(obj, root=1) or []
    got.append(await world.exscan(obj, op=lambda a, b: a))
    return got


@pytest.mark.parametrize(
    ("run", "size"), [("asyncio", 3), ("uvloop", 60_000)], ids=["small", "large"], indirect=["run"]
)
def test_every_call_keeps_dtypes(size: int, run: Any) -> None:
    dtypes = [np.dtypes.StringDType(na_object=None), ENUM, np.dtype(ml_dtypes.bfloat16), ALIGNED]
    sent = [filled(dtype, (size,)) for dtype in dtypes]

    async def main() -> None:
        _, got = await asyncio.gather(*(exchange(comm, sent) for comm in aiompi.local_world(2)))
        assert len(got) == 16
        for arrays in got:
            for array, original in zip(arrays, sent, strict=True):
                assert_exact(array, original)

    run(main())
