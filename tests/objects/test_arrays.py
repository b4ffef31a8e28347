"""NumPy arrays and scalars, and memoryviews."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

from aiompi.objects import Codec
from aiompi.objects.codec import OUT_OF_BAND
from support.cases import cases
from support.messages import assert_same, through

STRUCTURED = np.dtype([("a", "<i4"), ("b", ">f8", (2, 3)), ("c", [("d", "S3"), ("e", "<M8[ms]")])])
DTYPES = [
    "?", "b", "B", "h", "i", "l", "q", "Q", "e", "f", "d", "g", "F", "D", ">i2", ">f8", ">q", "S5", "U3", "V7", "S0",
    "M8[ns]", "m8[25s]", "M8", STRUCTURED, np.dtype("i1,i8", align=True),
    np.dtype({"names": ["x"], "formats": ["u1"], "offsets": [5], "itemsize": 9}),
]  # fmt: skip


@cases("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@cases("out_of_band", [1, OUT_OF_BAND])
def test_arrays_keep_dtype_and_shape(dtype: Any, shape: tuple[int, ...], out_of_band: int) -> None:
    array = np.zeros(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = 1 if array.nbytes else 0
    copy = through(array, Codec(pickle=False, out_of_band=out_of_band))
    assert_same(copy, array)
    assert copy.dtype.isalignedstruct == array.dtype.isalignedstruct
    assert copy.flags.writeable


@pytest.mark.parametrize("out_of_band", [1, OUT_OF_BAND])
def test_arrays_keep_their_order(out_of_band: int) -> None:
    codec = Codec(pickle=False, out_of_band=out_of_band)
    c = np.arange(24.0).reshape(2, 3, 4)
    for view in (c, np.asfortranarray(c), c.T, c[:, ::-2], c[..., 1], np.broadcast_to(c, (2, 2, 3, 4))):
        copy = through(view, codec)
        assert np.array_equal(copy, view)
        assert copy.flags.f_contiguous == (view.flags.f_contiguous and not view.flags.c_contiguous)


@pytest.mark.parametrize(
    "scalar",
    [
        np.float64(1.5), np.float32(-0.0), np.int8(-1), np.uint64(2**64 - 1), np.longlong(3), np.longdouble(1) / 3,
        np.complex64(1 + 2j), np.bool_(True), np.str_("a\0"), np.bytes_(b"a\0"), np.str_(""), np.void(b"abc"),
        np.datetime64("NaT", "s"), np.datetime64("2020-01-01", "D"), np.timedelta64(3, "us"), np.float16(2),
        np.zeros((), STRUCTURED)[()],
    ],
    ids=repr,
)  # fmt: skip
def test_numpy_scalars_keep_their_type(scalar: Any) -> None:
    assert_same(through(scalar), scalar)
    assert_same(through({"k": [scalar]})["k"][0], scalar)


def test_numpy_scalars_as_keys() -> None:
    obj = {np.int64(1): "a", np.str_("b"): 2}
    assert_same(through(obj), obj)


@pytest.mark.parametrize("view", [
    memoryview(b"abc"), memoryview(bytearray(b"abcd")), memoryview(bytes(48)).cast("d", (2, 3)),
    memoryview(b"abcdef")[::2], memoryview(b""), memoryview(array.array("d")),
])  # fmt: skip
@pytest.mark.parametrize("out_of_band", [1, OUT_OF_BAND])
def test_memoryviews_keep_format_and_shape(view: memoryview, out_of_band: int) -> None:
    codec = Codec(pickle=False, out_of_band=out_of_band)
    for copy in (through([view], codec)[0], through([[view]], codec)[0][0]):
        assert copy == view
        assert (copy.format, copy.shape, copy.readonly) == (view.format, view.shape, view.readonly)


def test_a_memoryview_as_key_comes_back_as_one() -> None:
    assert [type(key) for key in through({memoryview(b"k"): 1})] == [memoryview]
