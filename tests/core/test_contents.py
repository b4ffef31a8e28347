"""What objects hold, in both forms."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi import core
from aiompi.core.pure import contents as pure
from aiompi.objects import type_tags

if core.form == "native":
    from aiompi.core import _native as native
else:
    native = None  # type: ignore[assignment]

FORMS: list[Any] = [pure, *([native] if native else [])]
TUPLES, FOREIGN, OTHER = pure.TUPLES, pure.FOREIGN, pure.OTHER
LONGEST = 4


class Meta(type):
    """Classes whose hash must not be asked for."""

    def __hash__(cls) -> int:
        raise AssertionError("code of a class has run")


class Strange(metaclass=Meta):
    pass


class Items(list[int]):
    pass


def nested(levels: int) -> Any:
    obj: Any = 1
    for _ in range(levels):
        obj = [obj]
    return obj


def cycle() -> Any:
    items: list[Any] = [[], 1]
    items += [items, {"a": items}]
    return items


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("obj", "found"), [
    (None, 0), (True, 0), (2**70, 0), (0.5, 0), ("x", 0), (b"abc", 0), (b"abcd", OTHER), ([b"abcd"], OTHER),
    ([], 0), ({}, 0), ((), TUPLES), ({"a": [1, {"b": None}], 2: b"abc"}, 0), ([[(1,)], 2], TUPLES),
    (1j, FOREIGN), ({"a": [1j, (2j,)]}, FOREIGN + TUPLES), ({1j: 1}, OTHER), ({(1,): 1}, OTHER), ({b"a": 1}, OTHER),
    ([{1}], OTHER), (bytearray(b"a"), OTHER), (Items([1]), OTHER), ([Items()], OTHER),
    (nested(500), 0), (nested(501), OTHER), (cycle(), OTHER), (nested(100_000), OTHER),
], ids=lambda it: type(it).__name__)  # fmt: skip
def test_contents(form: Any, obj: Any, found: int) -> None:
    got = form.contents(obj, {complex}, LONGEST)
    assert got == found if found != OTHER else got & OTHER


@pytest.mark.skipif(native is None, reason="the pure form hashes classes")
def test_no_code_of_classes_runs() -> None:
    assert native.contents([Strange()], {complex}, LONGEST) == OTHER


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("obj", "items"), [
    (1, 0), ([], 0), ([1, 2], 2), ({"a": 1, "b": [1, (2, 3)]}, 6), ([[] for _ in range(5)], 5), (b"abc", 0),
], ids=repr)  # fmt: skip
def test_large_contents(form: Any, obj: Any, items: int) -> None:
    for most in (items, items + 1, 2**40):
        assert form.contents(obj, {complex}, LONGEST, None, most) < OTHER
    if items:
        assert form.contents(obj, {complex}, LONGEST, None, items - 1) & pure.MANY
    assert form.contents([*range(100), {1}], {complex}, LONGEST, None, 100) & pure.MANY, "before it is looked at"


@pytest.mark.parametrize("form", FORMS)
def test_arrays_that_are_not_of_plain_numbers_are_something_else(form: Any) -> None:
    found = {
        dtype: form.contents([np.zeros(2, dtype)], {np.ndarray}, LONGEST)
        for dtype in ("f8", "?", ">i2", "O", "S3", "M8")
    }
    assert found == {"f8": FOREIGN, "?": FOREIGN, ">i2": OTHER, "O": OTHER, "S3": OTHER, "M8": OTHER}
    assert form.contents(np.zeros(2), {complex}, LONGEST) == OTHER


def sequences(form: Any, obj: Any) -> bytes:
    found = bytearray()
    form.contents(obj, {complex}, LONGEST, found)
    return bytes(found)


@pytest.mark.parametrize("form", FORMS)
def test_sequences(form: Any) -> None:
    assert (type_tags.LIST, type_tags.TUPLE) == (0, 1)
    assert sequences(form, 1) == b""
    assert sequences(form, (1, [2])) == b"\0\1"
    assert sequences(form, [{"a": (), "b": [()]}, [], (1, (2,)), 1j]) == b"\1\1\0\0\1\1\0"


trees = st.recursive(
    st.none() | st.integers() | st.binary(max_size=6) | st.complex_numbers() | st.just(frozenset()),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=30,
)


@pytest.mark.skipif(native is None, reason="there is one form only")
@given(trees)
def test_both_forms_agree(tree: Any) -> None:
    ours, theirs = (form.contents(tree, {complex}, LONGEST) for form in (native, pure))
    assert ours & OTHER == theirs & OTHER
    if not ours & OTHER:
        assert ours == theirs
        assert sequences(native, tree) == sequences(pure, tree)


@pytest.mark.parametrize("form", FORMS)
def test_references_are_as_before(form: Any) -> None:
    leaf, items = "a string of its own" * 2, (1, 2)
    obj = {leaf: [leaf, (leaf, items)], "b": leaf}
    before = sys.getrefcount(leaf), sys.getrefcount(items)
    for _ in range(1000):
        form.contents(obj, {complex}, LONGEST)
        sequences(form, obj)
    assert (sys.getrefcount(leaf), sys.getrefcount(items)) == before
