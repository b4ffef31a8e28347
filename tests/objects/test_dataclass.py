"""Dataclasses as messages."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from typing import Any, Generic, TypeVar

import msgpack
import pytest

from aiompi.errors import InvalidTypeError, RemoteProtocolError
from support.cases import cases
from support.messages import LENIENT, PICKLED, STRICT, assert_same, message, through

T = TypeVar("T")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0

    def __post_init__(self) -> None:
        self.x = [self.x] if isinstance(self.x, str) else self.x


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    size: int


@dataclasses.dataclass
class Account:
    """A class whose fields follow a rule."""

    name: str
    trusted: bool = dataclasses.field(default=False, init=False)


@dataclasses.dataclass
class Point3(Point, Generic[T]):
    z: Any = None


class Undecorated(Point):
    """Inherits the fields of a dataclass and is none."""


@dataclasses.dataclass
class Reducing:
    x: int

    def __reduce__(self) -> Any:
        return Reducing, (self.x + 1,)


@dataclasses.dataclass
class Counter(dict[str, int]):
    total: int = 0


@pytest.mark.parametrize("obj", [
    Point(1, (2, [3])), Frozen("a", 1), Point3(Point(1), {"k": Frozen("b", 2)}, 2**70), [Point(i) for i in range(9)],
], ids=repr)  # fmt: skip
def test_dataclasses_come_back_without_pickle(obj: Any) -> None:
    assert_same(through(obj), obj)


def test_frozen_dataclasses_can_be_keys() -> None:
    assert through({Frozen("a", 1): 2}) == {Frozen("a", 1): 2}


def test_neither_init_nor_post_init_run() -> None:
    point = Point(1)
    point.x = "text"
    assert through(point).x == "text"


def test_the_sender_chooses_each_field_also_without_pickle() -> None:
    """As security.md says; a program has to check what matters to it."""
    account = Account("a")
    account.trusted = True
    assert through(account, STRICT).trusted is True


@pytest.mark.parametrize("obj", [Reducing(1), Counter(3), Undecorated(1, 2)], ids=repr)
def test_dataclasses_with_ways_of_their_own_are_pickled(obj: Any) -> None:
    if isinstance(obj, Counter):
        obj["a"] = 1
    assert message(LENIENT, obj)[0] == PICKLED
    copy, expected = through(obj, LENIENT), pickle.loads(pickle.dumps(obj))
    assert type(copy) is type(obj)
    assert (dict(copy) if isinstance(obj, dict) else copy) == (dict(expected) if isinstance(obj, dict) else expected)
    with pytest.raises(InvalidTypeError, match=type(obj).__name__):
        STRICT.dumps(obj)


def test_a_dataclass_with_more_than_its_fields_is_pickled() -> None:
    point = Point(1)
    point.extra = 2  # type: ignore[attr-defined]
    assert through(point, LENIENT).extra == 2
    with pytest.raises(InvalidTypeError, match="attributes that are not its fields"):
        STRICT.dumps(point)


def test_a_dataclass_that_is_not_found_by_its_name_is_refused() -> None:
    local = dataclasses.make_dataclass("Local", ["x"])
    with pytest.raises(InvalidTypeError, match="not found by its name"):
        STRICT.dumps(local(1))
    with pytest.raises(InvalidTypeError, match="cannot be pickled"):
        LENIENT.dumps(local(1))


def dataclass_message(reference: str, *values: object) -> bytes:
    packed: bytes = msgpack.packb([reference, *values])
    return b"\xc1\x01\0\0\0\x0c" + packed


@cases(
    ("reference", "complaint"),
    [
        ("no_such_module:Point", "is not imported here"),
        ("os:path.join", "no class|not a dataclass"),
        ("sys:modules.os", "no class"),
        ("subprocess:Popen", "not a dataclass"),
        (f"{__name__}:Undecorated", "not a dataclass"),
        (f"{__name__}:Reducing", "not a dataclass"),
        (f"{__name__}:dataclasses.dataclass", "not a dataclass"),
        (f"{__name__}:Point", "has 2 fields here and 1 at the sender"),
    ],
)
def test_only_imported_dataclasses_are_received_without_pickle(reference: str, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint):
        STRICT.loads(dataclass_message(reference, 1))


def test_a_module_may_have_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the main program has, which workers load under another one than `__main__`."""
    monkeypatch.setitem(sys.modules, "another", sys.modules[__name__])
    assert_same(STRICT.loads(dataclass_message("another:Point", 1, 2)), Point(1, 2))


def test_modules_are_imported_only_with_pickle(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import dataclasses\n@dataclasses.dataclass\nclass Late:\n    x: int\n"
    (tmp_path / "aiompi_late_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    late = dataclass_message("aiompi_late_module:Late", 7)
    with pytest.raises(RemoteProtocolError, match="not imported here"):
        STRICT.loads(late)
    try:
        assert LENIENT.loads(late).x == 7
    finally:
        sys.modules.pop("aiompi_late_module", None)
