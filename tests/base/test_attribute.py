"""Attributes: keys, values, and the callbacks that copy and delete them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from aiompi import errors
from aiompi.base.attribute import Attributes, Keyvals
from aiompi.comm.attribute import COMMUNICATOR_KEYVALS
from aiompi.constants import KEYVAL_INVALID


class Thing:
    """An object with attributes, of which there are two kinds."""

    def __init__(self, keyvals: Keyvals, name: str = "thing") -> None:
        self.attributes = Attributes(keyvals)
        self.name = name

    def get(self, keyval: int, default: Any = None) -> Any:
        return self.attributes.get(self, keyval, default)

    def set(self, keyval: int, value: Any) -> None:
        self.attributes.set(self, keyval, value)

    def delete(self, keyval: int) -> None:
        self.attributes.delete(self, keyval)

    def dup(self, name: str = "copy") -> Thing:
        copy = Thing(self.attributes._keyvals, name)
        copy.attributes = self.attributes.copy(self, copy)
        return copy

    def free(self) -> None:
        self.attributes.clear(self)

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Calls(list[tuple[Any, ...]]):
    """What callbacks have been called with."""

    def copy_fn(self, owner: Any, keyval: int, value: Any) -> Any:
        self.append(("copy", owner, keyval, value))
        return f"copy of {value}"

    def delete_fn(self, owner: Any, keyval: int, value: Any) -> None:
        self.append(("delete", owner, keyval, value))


@pytest.fixture
def keyvals() -> Keyvals:
    return Keyvals("thing", {1: lambda owner: owner.name, 2: lambda owner: None})


@pytest.mark.parametrize("callbacks", [(3, None), (None, "delete")])
def test_callbacks_must_be_functions(callbacks: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match=r"(3|'delete') is no function; pass one, True, or None"):
        Keyvals("thing").create(*callbacks)


@pytest.mark.spec("S5.7.1-1")
def test_keys_are_unique_in_the_process() -> None:
    """Also among kinds of objects, and after they were freed; every object of the kind can use them."""
    kinds = [Keyvals("communicator"), Keyvals("datatype")]
    numbers = [kind.create() for kind in kinds for _ in range(5)]
    kinds[0].free(numbers[0])
    numbers.append(kinds[0].create())
    others = [KEYVAL_INVALID, *COMMUNICATOR_KEYVALS.predefined]
    assert len({*numbers, *others}) == len(numbers) + len(others)
    for thing in (Thing(kinds[1]), Thing(kinds[1])):
        assert thing.get(numbers[5]) is None
        thing.set(numbers[5], 3)
        assert thing.get(numbers[5]) == 3
    with pytest.raises(errors.InvalidKeyvalError, match="no key for attributes of a communicator"):
        Thing(kinds[0]).get(numbers[5])


@pytest.mark.spec("S5.7.1-14")
def test_values_belong_to_one_object(keyvals: Keyvals) -> None:
    key = keyvals.create()
    one, other = Thing(keyvals), Thing(keyvals)
    one.set(key, "one")
    assert (one.get(key), other.get(key)) == ("one", None)


@pytest.mark.spec("S5.7.1-12")
@pytest.mark.parametrize("value", [None, 0, False, ""])
def test_values_that_look_like_none(keyvals: Keyvals, value: Any) -> None:
    key, thing, absent = keyvals.create(True), Thing(keyvals), object()
    assert thing.get(key, absent) is absent
    thing.set(key, value)
    assert thing.get(key, absent) is value
    assert thing.dup().get(key, absent) is value
    thing.delete(key)
    assert thing.get(key, absent) is absent


@pytest.mark.spec("S5.7.1-2", "S5.7.1-3")
def test_copy_callbacks_are_called_once_for_each_value(keyvals: Keyvals) -> None:
    """With the old object, the key and the value, in the order in which the values were set."""
    calls, thing = Calls(), Thing(keyvals)
    keys = [keyvals.create(calls.copy_fn) for _ in range(4)]
    for key, value in ((keys[2], "c"), (keys[0], "a"), (keys[1], "b"), (keys[2], "C")):
        thing.set(key, value)
    copy = thing.dup()
    assert calls == [("copy", thing, keys[0], "a"), ("copy", thing, keys[1], "b"), ("copy", thing, keys[2], "C")]
    assert [copy.get(key) for key in keys] == ["copy of a", "copy of b", "copy of C", None]
    assert [thing.get(key) for key in keys] == ["a", "b", "C", None]


@pytest.mark.spec("S5.7.1-3", "S5.7.1-4")
@pytest.mark.parametrize("copy_fn", [None, False, lambda owner, keyval, value: NotImplemented])
def test_values_that_are_not_copied(keyvals: Keyvals, copy_fn: Any) -> None:
    key, thing = keyvals.create(copy_fn), Thing(keyvals)
    thing.set(key, "value")
    absent = object()
    assert thing.dup().get(key, absent) is absent


@pytest.mark.spec("S5.7.1-4")
@pytest.mark.parametrize("delete_fn", [None, False, True])
def test_predefined_callbacks(keyvals: Keyvals, delete_fn: Any) -> None:
    """The duplicate has the same value, and nothing is called when it is deleted."""
    key, thing, value = keyvals.create(True, delete_fn), Thing(keyvals), ["value"]
    thing.set(key, value)
    copy = thing.dup()
    assert copy.get(key) is value
    copy.delete(key)
    assert thing.get(key) is value
    thing.free()


@pytest.mark.spec("S5.7.1-5")
def test_failing_copy_callback(keyvals: Keyvals) -> None:
    """What had been copied is deleted again, from the duplicate that does not come to be."""
    calls, thing, copy = Calls(), Thing(keyvals), Thing(keyvals, "copy")

    def fail(owner: Any, keyval: int, value: Any) -> Any:
        raise ValueError("no copy of this")

    keys = [keyvals.create(copy_fn, calls.delete_fn) for copy_fn in (calls.copy_fn, True, fail, calls.copy_fn)]
    for number, key in enumerate(keys):
        thing.set(key, number)
    with pytest.raises(
        errors.OtherError, match=f"copy callback of attribute key {keys[2]} on <thing> failed: ValueError: no copy"
    ):
        thing.attributes.copy(thing, copy)
    assert calls == [("copy", thing, keys[0], 0), ("delete", copy, keys[1], 1), ("delete", copy, keys[0], "copy of 0")]
    assert [thing.get(key) for key in keys] == [0, 1, 2, 3]


@pytest.mark.spec("S5.7.1-6", "S5.7.1-8")
def test_delete_callbacks(keyvals: Keyvals) -> None:
    """Called by delete, by set with the old value, and by free, inside these calls, and by no others."""
    calls, thing = Calls(), Thing(keyvals)
    one, two = keyvals.create(True, calls.delete_fn), keyvals.create(None, calls.delete_fn)
    thing.set(one, "old")
    thing.get(one)
    thing.dup()
    assert calls == []
    thing.set(one, "new")
    assert calls == [("delete", thing, one, "old")]
    thing.delete(one)
    assert calls[1:] == [("delete", thing, one, "new")]
    thing.set(one, "a")
    thing.set(two, "b")
    calls.clear()
    thing.free()
    assert calls == [("delete", thing, two, "b"), ("delete", thing, one, "a")]
    assert len(thing.attributes) == 0
    thing.free()
    assert len(calls) == 2


@pytest.mark.spec("S5.7.1-7")
def test_failing_delete_callback(keyvals: Keyvals) -> None:
    """The call fails, and the value is gone; a free tells the first failure, and forgets all."""
    calls, thing = Calls(), Thing(keyvals)

    def fail(owner: Any, keyval: int, value: Any) -> None:
        calls.append((value,))
        raise errors.InvalidTagError("mine") if value == "mine" else KeyError(value)

    key, other = keyvals.create(None, fail), keyvals.create(None, fail)
    calls_that_delete: list[Callable[[], None]] = [lambda: thing.delete(key), lambda: thing.set(key, "new")]
    for call in calls_that_delete:
        thing.set(key, "old")
        with pytest.raises(
            errors.OtherError, match=f"delete callback of attribute key {key} on <thing> failed: KeyError"
        ):
            call()
        assert thing.get(key) is None
    thing.set(key, "theirs")
    thing.set(other, "mine")
    with pytest.raises(errors.InvalidTagError, match="mine"):
        thing.free()
    assert calls == [("old",), ("old",), ("mine",), ("theirs",)]
    thing.free()


@pytest.mark.spec("S5.7.1-9")
def test_callbacks_have_state_of_their_own(keyvals: Keyvals) -> None:
    """What extra_state is in C: each key's callbacks are called with its own."""
    one, other, thing = Calls(), Calls(), Thing(keyvals)
    keys = [keyvals.create(state.copy_fn, state.delete_fn) for state in (one, other)]
    for key in keys:
        thing.set(key, "x")
    copy = thing.dup()
    thing.free()
    for key, calls in zip(keys, (one, other), strict=True):
        assert calls == [("copy", thing, key, "x"), ("delete", thing, key, "x")]
    copy.free()


@pytest.mark.spec("S5.7.1-10")
def test_freed_keys_live_as_long_as_their_values(keyvals: Keyvals) -> None:
    calls, thing = Calls(), Thing(keyvals)
    key = keyvals.create(calls.copy_fn, calls.delete_fn)
    thing.set(key, "value")
    assert keyvals.free(key) == KEYVAL_INVALID
    assert thing.get(key) == "value"
    copy = thing.dup()
    assert copy.get(key) == "copy of value"
    with pytest.raises(errors.InvalidKeyvalError, match="never created or freed"):
        thing.set(key, "new")
    thing.delete(key)
    copy.free()
    assert [name for name, *_ in calls] == ["copy", "delete", "delete"]
    for call in (lambda: thing.get(key), lambda: thing.delete(key), lambda: keyvals.free(key)):
        with pytest.raises(errors.InvalidKeyvalError, match="never created or freed"):
            call()


@pytest.mark.spec("S5.7.1-11", "S5.7.1-13")
@pytest.mark.parametrize("key", [KEYVAL_INVALID, 999999])
def test_keys_that_there_are_not(keyvals: Keyvals, key: int) -> None:
    thing, valid = Thing(keyvals), keyvals.create()
    for call in (
        lambda: thing.get(key),
        lambda: thing.set(key, 1),
        lambda: thing.delete(key),
        lambda: keyvals.free(key),
    ):
        with pytest.raises(errors.InvalidKeyvalError, match="KEYVAL_INVALID is no key" if key < 0 else "999999"):
            call()
    assert thing.get(valid) is None
    with pytest.raises(errors.InvalidKeyvalError, match=f"<thing> has no attribute under key {valid}"):
        thing.delete(valid)


def test_keys_for_integers(keyvals: Keyvals) -> None:
    key, thing = keyvals.create(True, None, nopython=True), Thing(keyvals)
    thing.set(key, 2**40)
    assert thing.dup().get(key) == 2**40
    with pytest.raises(TypeError):
        thing.set(key, "text")
    assert thing.get(key) == 2**40


@pytest.mark.spec("S7.1.1-2")
def test_predefined_keys_cannot_be_changed(keyvals: Keyvals) -> None:
    thing = Thing(keyvals)
    for call, what in (
        (lambda: thing.set(1, 3), "set"),
        (lambda: thing.delete(1), "deleted"),
        (lambda: keyvals.free(1), "freed"),
    ):
        with pytest.raises(errors.InvalidKeyvalError, match=f"predefined attribute key 1 cannot be {what}"):
            call()
    assert (thing.get(1), thing.get(2), thing.get(2, "default")) == ("thing", None, "default")
    assert thing.dup().get(1) == "copy"


def test_numbers_of_keys_are_integers(keyvals: Keyvals) -> None:
    wrong: Any = "key"
    with pytest.raises(TypeError):
        Thing(keyvals).get(wrong)
    assert operator.index(keyvals.create()) > 0


@pytest.mark.spec("S5.7.1-8")
def test_callbacks_may_use_attributes(keyvals: Keyvals) -> None:
    """A value that refers to another one takes it along, and one that is set while its owner is freed goes too."""
    thing = Thing(keyvals)
    other = keyvals.create()
    key = keyvals.create(None, lambda owner, keyval, value: owner.set(other, value))
    thing.set(key, "left over")
    thing.free()
    assert len(thing.attributes) == 0
