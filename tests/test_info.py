"""Info: pairs of strings, with mpi4py's names and those of a mapping."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from aiompi import errors
from aiompi.constants import MAX_INFO_KEY, MAX_INFO_VAL
from aiompi.info import INFO_ENV, INFO_NULL, Info


def test_pairs_are_in_the_order_in_which_they_were_set() -> None:
    info = Info.Create({"b": "1", "a": "2"})
    info.Set("c", "")
    info.Set("b", "3")
    assert info.Get_nkeys() == len(info) == 3
    assert [info.Get_nthkey(n) for n in range(3)] == info.keys() == list(info) == ["b", "a", "c"]
    assert [info.Get(key) for key in info] == info.values() == ["3", "2", ""]
    assert info.items() == [("b", "3"), ("a", "2"), ("c", "")]
    assert info.Get("d") is None
    info.Delete("a")
    assert info.keys() == ["b", "c"]
    assert repr(info) == "<Info {'b': '3', 'c': ''}>"


@pytest.mark.parametrize("items", [{"k": "v"}, [("k", "v")], Info.Create([("k", "v")])])
def test_made_out_of_what_there_is(items: Any) -> None:
    assert Info.Create(items).items() == [("k", "v")]
    info = Info.Create({"k": "old"})
    info.update(items, more="m")
    assert info.items() == [("k", "v"), ("more", "m")]


def test_mapping() -> None:
    info = Info.Create({"a": "1", "b": "2", "c": "3"})
    assert "a" in info
    assert "z" not in info
    assert (info["a"], info.get("a"), info.get("z"), info.get("z", "x")) == ("1", "1", None, "x")
    info["a"] = "4"
    del info["b"]
    assert (info.pop("a"), info.pop("a", "gone"), info.pop("a", None)) == ("4", "gone", None)
    info["d"] = "5"
    assert info.popitem() == ("d", "5")
    info.clear()
    assert (len(info), bool(info)) == (0, True)
    for absent in (lambda: info["a"], lambda: info.__delitem__("a"), lambda: info.pop("a"), info.popitem):
        with pytest.raises(KeyError):
            absent()


def test_handles() -> None:
    info = Info.Create({"k": "v"})
    other, duplicate = Info(info), info.Dup()
    other["k"] = "w"
    assert info["k"] == "w"
    assert duplicate["k"] == "v"
    assert info == other != duplicate
    assert info.copy() != info
    assert info != "info"
    other.Free()
    assert (bool(other), other) == (False, INFO_NULL)
    assert info["k"] == "w"
    info.free()
    info.free()
    assert info == Info()
    with pytest.raises(TypeError, match="unhashable"):
        hash(info)


def test_null() -> None:
    null = Info()
    assert not INFO_NULL
    assert (null.keys(), null.values(), null.items(), len(null), null.get("k", "d")) == ([], [], [], 0, "d")
    assert null.copy() == INFO_NULL
    assert repr(null) == "<Info null>"
    assert "k" not in null
    null.clear()
    with pytest.raises(KeyError):
        null["k"] = "v"
    with pytest.raises(KeyError):
        null.update()
    calls: list[Callable[[], object]] = [null.Dup, null.Free, null.Get_nkeys, lambda: null.Get("k")]
    calls += [lambda: null.Set("k", "v"), lambda: null.Delete("k"), lambda: null.Get_nthkey(0)]
    for call in calls:
        with pytest.raises(errors.InvalidInfoError, match="the info is null"):
            call()


def test_errors() -> None:
    info = Info.Create({"k" * MAX_INFO_KEY: "v" * MAX_INFO_VAL})
    with pytest.raises(errors.InvalidInfoKeyError, match=f"1..{MAX_INFO_KEY} characters, and not {MAX_INFO_KEY + 1}"):
        info.Set("k" * (MAX_INFO_KEY + 1), "v")
    with pytest.raises(errors.InvalidInfoKeyError, match="and not 0"):
        info.Get("")
    with pytest.raises(errors.InvalidInfoValueError, match=f"{MAX_INFO_VAL} are allowed"):
        info.Set("k", "v" * (MAX_INFO_VAL + 1))
    with pytest.raises(errors.InfoNoKeyError, match="no key 'k'"):
        info.Delete("k")
    for n in (-1, 1):
        with pytest.raises(errors.InvalidArgumentError, match=f"{n} is not in 0..0"):
            info.Get_nthkey(n)
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"value of an info is .*: expected a string"):
        info.Set("k", wrong)
    with pytest.raises(TypeError, match=r"key of an info is .*: expected a string"):
        info.Get(wrong)
    with pytest.raises(TypeError):
        Info.Create(wrong)


def test_pickling() -> None:
    info = Info.Create({"b": "1", "a": "2"})
    copy = pickle.loads(pickle.dumps(info))
    assert copy != info
    assert copy.items() == info.items()
    for constant in (INFO_NULL, INFO_ENV):
        assert pickle.loads(pickle.dumps(constant)) is constant
        copy = pickle.loads(pickle.dumps(Info(constant)))
        assert copy is not constant
        assert copy == constant


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert INFO_ENV["command"] == sys.argv[0]
    for change in (INFO_ENV.Free, lambda: INFO_ENV.Set("command", "x"), lambda: INFO_ENV.Delete("command")):
        with pytest.raises(errors.InvalidInfoError, match="INFO_ENV"):
            change()
    INFO_ENV.free()
    assert INFO_ENV.Dup().items() == INFO_ENV.items()
    info = Info.Create_env(["program", "-n", "3"])
    assert (info["command"], info["argv"]) == ("program", "-n 3")
    assert Info.Create_env("program")["command"] == "program"
    assert "argv" not in Info.Create_env([])
    assert "argv" not in Info.Create_env(["program", "x" * (MAX_INFO_VAL + 1)])
    monkeypatch.setattr(sys, "argv", ["other"])
    assert Info.Create_env()["command"] == "other"
