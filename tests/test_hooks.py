"""Hooks around public calls: what they see, that they cost nothing when there are none, and what they leave."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import pytest

from aiompi import hooks


@pytest.fixture(autouse=True)
def no_hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test declares its own surfaces, and leaves no hook behind."""
    monkeypatch.setattr(hooks, "_surfaces", [])
    monkeypatch.setattr(hooks, "_hooks", ())
    monkeypatch.setattr(hooks, "_always", ())
    monkeypatch.setattr(hooks, "_guard", None)
    yield
    for hook in hooks.active():
        hooks.remove(hook)


def make_classes() -> tuple[Any, Any]:
    """A class of communicators and one that derives from it, as the faces have them."""

    class Sends:
        def Send(self, buf: str, dest: int = 0) -> str:
            """Send a buffer."""
            return f"{self.Pack(buf)} to {dest}"

        def Pack(self, buf: str) -> str:
            return f"<{buf}>"

    class Comm(Sends):
        size = 4

        @property
        def rank(self) -> int:
            return 3

        @classmethod
        def Create(cls, name: str) -> str:
            return f"{cls.__name__} {name}"

        @staticmethod
        def Compute(n: int) -> int:
            return 2 * n

        def Abort(self) -> None:
            raise ValueError("no more")

        def _private(self) -> None: ...

    class Cartcomm(Comm):
        def Shift(self, disp: int) -> int:
            return disp

    return hooks.surface(Comm), hooks.surface(Cartcomm)


class Record:
    """A hook that keeps the names and arguments of calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.calls]

    def __call__(self, call: hooks.Call) -> Any:
        self.calls.append((call.name, call.receiver, call.args, call.kwargs))
        return call()


@pytest.mark.spec("S8.1-2")
def test_every_kind_of_call_is_seen_once() -> None:
    comm_class, cart_class = make_classes()
    comm, cart = comm_class(), cart_class()
    with hooks.added(Record()) as record:
        assert comm.Send("x", dest=2) == "<x> to 2"
        assert cart.Send("y") == "<y> to 0"
        assert cart.Shift(5) == 5
        assert comm_class.Create("a") == "Comm a"
        assert cart_class.Create(name="b") == "Cartcomm b"
        assert comm_class.Compute(4) == 8
        assert (comm.rank, comm.size) == (3, 4)
    assert record.calls == [
        ("Send", comm, ("x",), {"dest": 2}),
        ("Send", cart, ("y",), {}),
        ("Shift", cart, (5,), {}),
        ("Create", comm_class, ("a",), {}),
        ("Create", cart_class, (), {"name": "b"}),
        ("Compute", None, (4,), {}),
    ]


@pytest.mark.spec("S8.1-2")
def test_hooks_see_outcomes_and_may_change_them() -> None:
    comm = make_classes()[0]()
    seen: list[str] = []

    @hooks.add
    def doubled(call: hooks.Call) -> Any:
        try:
            if call.name == "Send":
                call.args = (call.args[0] * 2,)
                return call().upper()
            return call()
        except ValueError as error:
            seen.append(f"{call!r}: {error}")
            raise

    assert comm.Send("x") == "<XX> TO 0"
    with pytest.raises(ValueError, match="no more"):
        comm.Abort()
    assert seen == [f"<Call Abort on {comm!r}>: no more"]
    with pytest.raises(TypeError, match="self"):
        type(comm).Send()


def test_hooks_are_around_those_that_came_before() -> None:
    comm = make_classes()[0]()
    order: list[str] = []

    def named(name: str) -> hooks.Hook:
        def hook(call: hooks.Call) -> Any:
            order.append(f"{name} in")
            result = call()
            order.append(f"{name} out")
            return result

        return hook

    first, second, always = named("first"), named("second"), named("always")
    hooks.add(first)
    hooks.add(second)
    hooks.add(always, always=True)
    assert hooks.active() == (always, first, second)
    comm.Pack("x")
    assert order == ["second in", "first in", "always in", "always out", "first out", "second out"]


@pytest.mark.spec("S8.1-1")
def test_shifted_names_do_the_same_without_hooks() -> None:
    """Inside and outside of hooks, for every call that there is."""
    comm_class, cart_class = make_classes()
    comm = cart_class()
    with hooks.added(Record()) as record:
        send, create = hooks.shifted(comm_class.Send), hooks.shifted(cart_class.Create)
        assert send(comm, "x", dest=1) == "<x> to 1"
        assert create("c") == "Cartcomm c"
        assert hooks.shifted(comm.Shift)(3) == 3
        with hooks.bypassed():
            assert comm.Send("y") == "<y> to 0"
        assert record.calls == []
    assert send.__doc__ == "Send a buffer."


def test_what_a_hook_calls_is_not_seen() -> None:
    comm = make_classes()[0]()
    calls: list[str] = []

    def hook(call: hooks.Call) -> Any:
        calls.append(call.name)
        comm.Pack("mine")
        return call()

    with hooks.added(hook):
        comm.Send("x")
    assert calls == ["Send"]


def test_hooks_that_belong_to_calls_are_around_those_of_hooks_too() -> None:
    """But not around those that the library makes, or they themselves."""
    comm = make_classes()[0]()
    seen: list[str] = []

    def belonging(call: hooks.Call) -> Any:
        seen.append(call.name)
        with hooks.library():
            comm.Pack("handler")
        return call()

    def profiler(call: hooks.Call) -> Any:
        comm.Pack("profiler")
        return call()

    hooks.add(belonging, always=True)
    hooks.add(profiler)
    assert comm.Send("x") == "<x> to 0"
    assert seen == ["Pack", "Send"]


def test_free_while_there_are_no_hooks() -> None:
    """The classes are unchanged in every detail."""
    comm_class, cart_class = make_classes()
    before = [dict(vars(cls)) for cls in (comm_class, cart_class)]
    first, second = Record(), Record()
    hooks.add(first)
    hooks.add(second)
    assert dict(vars(comm_class)) != before[0]
    hooks.remove(first)
    cart_class().Shift(1)
    assert (first.names, second.names) == ([], ["Shift"])
    hooks.remove(second)
    assert [dict(vars(cls)) for cls in (comm_class, cart_class)] == before


def test_classes_that_come_later_are_seen_too() -> None:
    with hooks.added(Record()) as record:
        comm = make_classes()[1]()
        comm.Send("x")
        comm.Shift(1)
    comm.Send("y")
    assert record.names == ["Send", "Shift"]


def test_modules() -> None:
    module = types.ModuleType("functions")
    module.Wtime = lambda: 1.5  # type: ignore[attr-defined]
    module._private = lambda: None  # type: ignore[attr-defined]
    hooks.surface(module)
    assert [(declared.namespace, declared.names) for declared in hooks._surfaces] == [(module, ("Wtime",))]
    with hooks.added(Record()) as record:
        assert module.Wtime() == 1.5
    assert record.calls == [("Wtime", None, (), {})]


def test_names_can_be_chosen() -> None:
    comm_class = make_classes()[0]

    class Group:
        def Get_rank(self) -> int:
            return 1

        def helper(self) -> int:
            return 2

    hooks.surface(Group, ["Get_rank"])
    with hooks.added(Record()) as record:
        assert (Group().helper(), Group().Get_rank()) == (2, 1)
        comm_class().Pack("x")
    assert record.names == ["Get_rank", "Pack"]


def test_a_guard_is_inside_all_hooks_around_the_classes_that_it_concerns() -> None:
    """It is there for calls that others make, too, and stays when hooks come and go; others are left alone."""
    comm_class, cart_class = make_classes()

    class Group:
        def Get_rank(self) -> int:
            return 1

    hooks.surface(Group)
    before = dict(vars(Group))
    seen: list[str] = []

    @contextlib.contextmanager
    def enter(name: str) -> Iterator[None]:
        seen.append(f"enter {name}")
        yield
        seen.append(f"leave {name}")

    def profile(call: hooks.Call) -> Any:
        seen.append(f"before {call.name}")
        result = call()
        seen.append(f"after {call.name}")
        return result

    with hooks.added(profile):
        hooks.guard(enter, lambda namespace: issubclass(namespace, comm_class))  # type: ignore[arg-type]
        cart_class().Shift(1)
        Group().Get_rank()
    assert seen == ["before Shift", "enter Shift", "leave Shift", "after Shift", "before Get_rank", "after Get_rank"]
    seen.clear()
    cart_class().Pack("x")
    Group().Get_rank()
    assert seen == ["enter Pack", "leave Pack"]
    assert dict(vars(Group)) == before

    @hooks.surface
    class Distgraph(comm_class):
        def Neighbors(self) -> int:
            return 1

    seen.clear()
    Distgraph().Neighbors()
    Distgraph().Pack("x")
    assert seen == ["enter Neighbors", "leave Neighbors", "enter Pack", "leave Pack"]


def test_hooks_are_added_and_removed_once() -> None:
    hook = hooks.add(Record())
    with pytest.raises(ValueError, match="has been added already"):
        hooks.add(hook)
    hooks.remove(hook)
    with pytest.raises(ValueError, match="was never added, or has been removed"):
        hooks.remove(hook)


def test_a_hook_may_remove_itself() -> None:
    comm = make_classes()[0]()
    names: list[str] = []

    def once(call: hooks.Call) -> Any:
        hooks.remove(once)
        names.append(call.name)
        return call()

    hooks.add(once)
    assert comm.Send("x") == "<x> to 0"
    assert comm.Send("y") == "<y> to 0"
    assert names == ["Send"]
