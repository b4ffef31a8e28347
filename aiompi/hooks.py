"""Hooks around every public call of both faces: the profiling interface of chapter 8.

    @hooks.add
    def timed(call):
        began = time.perf_counter()
        try:
            return call()
        finally:
            print(call.name, time.perf_counter() - began)

A hook takes the place of MPI_Xxx, and `call()` is PMPI_Xxx: the call itself, or the hook that was added before. What a
hook calls in its turn, and what the library calls while it serves a call, no hook sees; `bypassed()` and `shifted()`
give other code the same freedom. In the native face a call starts an operation and returns something to be awaited,
which is what hooks see; the end of the operation is seen by `add_done_callback` of the request.

While there is no hook nothing is paid: the methods are what their classes define. The first hook wraps them, and they
are unwrapped when the last one is removed. A guard, by which threads take turns, costs as little as it can: it stays.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar

from aiompi.opaque import Opaque

Hook: TypeAlias = "Callable[[Call], Any]"
Guard: TypeAlias = Callable[[str], AbstractContextManager[object]]
Namespace: TypeAlias = type | ModuleType
H = TypeVar("H", bound=Hook)
F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound=Namespace)
T = TypeVar("T")

_PROGRAM: Final = 0  # calls are seen by all hooks
_HOOK: Final = 1  # they are seen by those only that belong to the call itself
_LIBRARY: Final = 2  # they are parts of a call

_hooks: tuple[Hook, ...] = ()
_always: tuple[Hook, ...] = ()
_guard: tuple[Guard, Callable[[Namespace], bool]] | None = None
_surfaces: Final[list[_Surface]] = []
_level: Final[ContextVar[int]] = ContextVar("aiompi.hooks.level", default=_PROGRAM)


class Call:
    """A public call that the program makes.

    Attributes:
        name: of the method or function, such as "Send".
        receiver: the object or the class that the method is called on; None for a function.
        args, kwargs: its arguments; a hook may replace them before it makes the call.
    """

    __slots__ = ("_function", "_inner", "args", "kwargs", "name", "receiver")

    def __init__(
        self,
        name: str,
        receiver: Any,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inner: tuple[Hook, ...],
    ) -> None:
        self.name = name
        self.receiver = receiver
        self.args = args
        self.kwargs = kwargs
        self._function = function
        self._inner = inner

    def __call__(self) -> Any:
        """Make the call: what the standard calls PMPI_Xxx; what it returns or raises is the outcome."""
        if not self._inner:
            with library():
                return self._function(*self.args, **self.kwargs)
        *inner, hook = self._inner
        return hook(Call(self.name, self.receiver, self._function, self.args, self.kwargs, tuple(inner)))

    def denoted(self, kind: type[T]) -> Iterator[T]:
        """The objects of a kind that the receiver and the arguments are handles of, alone or in lists."""
        for value in (self.receiver, *self.args, *self.kwargs.values()):
            for item in value if isinstance(value, list | tuple) else (value,):
                if isinstance(item, Opaque) and isinstance(item._denoted, kind):
                    yield item._denoted

    def __repr__(self) -> str:
        return f"<Call {self.name} on {self.receiver!r}>"


def add(hook: H, *, always: bool = False) -> H:
    """Call `hook(call)` in place of every public call from now on, around the hooks that are there already.

    Args:
        hook: returns what the program gets; usually what `call()` returns.
        always: it belongs to the calls themselves, as error handlers do: it is inside all others, and around what
            these call too.

    Returns:
        The hook, so that this can decorate it.

    Raises:
        ValueError: it has been added before.
    """
    global _always, _hooks
    if hook in active():
        raise ValueError(f"{hook!r} has been added already: remove it first")
    if not active():
        _wrap_all()
    if always:
        _always = (*_always, hook)
    else:
        _hooks = (*_hooks, hook)
    return hook


def remove(hook: Hook) -> None:
    """Undo `add`.

    Raises:
        ValueError: it is not there.
    """
    global _always, _hooks
    if hook not in active():
        raise ValueError(f"{hook!r} is no hook: it was never added, or has been removed")
    _always = tuple(other for other in _always if other != hook)
    _hooks = tuple(other for other in _hooks if other != hook)
    if not active():
        _unwrap_all()


def _wrap_all() -> None:
    for declared in _surfaces:
        declared.wrap()


def _unwrap_all() -> None:
    for declared in reversed(_surfaces):
        declared.unwrap()


def active() -> tuple[Hook, ...]:
    """The hooks, innermost first."""
    return _always + _hooks


def guard(enter: Guard, concerns: Callable[[Namespace], bool]) -> None:
    """From now on, for as long as the process lives, be inside of `enter(name)` during calls; hooks are around that.

    Args:
        enter: given the name of a call, what to enter for it; often, as calls are parts of others.
        concerns: whether that is for the calls of a class or module. If it concerns a class it concerns the subclasses.
    """
    global _guard
    if active():
        _unwrap_all()
    _guard = enter, concerns
    for declared in _surfaces:
        declared.guard()
    if active():
        _wrap_all()


@contextlib.contextmanager
def added(hook: H) -> Iterator[H]:
    """A block in which there is a hook."""
    add(hook)
    try:
        yield hook
    finally:
        remove(hook)


def bypassed() -> AbstractContextManager[None]:
    """A block whose calls no hook sees, as those of PMPI_Xxx (section 8.1)."""
    return _At(_HOOK)


def library() -> AbstractContextManager[None]:
    """A block whose calls are parts of another one, so that nothing at all is around them."""
    return _At(_LIBRARY)


class _At:
    """A block whose calls are at a level; a class, because a generator would take longer than all else of a call."""

    __slots__ = ("_level", "_token")

    def __init__(self, level: int) -> None:
        self._level = level

    def __enter__(self) -> None:
        self._token = _level.set(self._level)

    def __exit__(self, *failure: object) -> None:
        _level.reset(self._token)


def shifted(function: F) -> F:
    """A function or method under its shifted name: `PMPI_Send = shifted(Comm.Send)` does the same, without hooks."""

    @functools.wraps(function)
    def bypassing(*args: Any, **kwargs: Any) -> Any:
        with bypassed():
            return function(*args, **kwargs)

    return bypassing  # type: ignore[return-value]


def surface(namespace: N, names: Iterable[str] | None = None) -> N:
    """Declare public calls: hooks are around them from now on.

    Args:
        namespace: a class, or a module with functions. Superclasses come before their subclasses.
        names: of the calls; by default all methods or functions whose names do not start with an underscore, for a
            class also those it inherits from classes that are no surface themselves.

    Returns:
        The namespace, so that this can decorate a class.
    """
    declared = _Surface(namespace, names)
    _surfaces.append(declared)
    declared.guard()
    if active():
        declared.wrap()
    return namespace


def _public_names(namespace: Namespace) -> Iterator[str]:
    for name in dir(namespace):
        if not name.startswith("_") and _is_call(inspect.getattr_static(namespace, name)):
            yield name


def _is_call(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)


class _Surface:
    """A namespace whose calls are wrapped while there are hooks."""

    def __init__(self, namespace: Namespace, names: Iterable[str] | None) -> None:
        self.namespace = namespace
        self._names = None if names is None else tuple(names)
        self._replaced: dict[str, Any] = {}  # name -> what the namespace itself has under it, None if it inherits it

    @property
    def names(self) -> tuple[str, ...]:
        """The calls, which are looked for when they are needed: it would take longer than all else in an import."""
        if self._names is None:
            self._names = tuple(_public_names(self.namespace))
        return self._names

    def guard(self) -> None:
        """Put the guard around the calls, if there is one for them."""
        if _guard is not None and _guard[1](self.namespace):
            self._put_around(_guarded, "_is_guarded")

    def wrap(self) -> None:
        """Put the hooks around the calls."""
        self._replaced = self._put_around(_hooked, "_is_hooked")

    def unwrap(self) -> None:
        """Take the hooks away."""
        for name, value in self._replaced.items():
            if value is None:
                delattr(self.namespace, name)
            else:
                setattr(self.namespace, name, value)
        self._replaced.clear()

    def _put_around(self, make: Callable[[str, F, bool], F], mark: str) -> dict[str, Any]:
        """Replace the calls, but for those inherited from a superclass whose calls have been.

        Args:
            make: given the name of a call, its function, and whether that takes a receiver, gives the new function.
            mark: attribute that the new functions get.

        Returns:
            What the namespace itself has had under each name, None for what it inherits.
        """
        replaced = {}
        for name in self.names:
            value = inspect.getattr_static(self.namespace, name)
            function = getattr(value, "__func__", value)
            if not hasattr(function, mark):
                replaced[name] = vars(self.namespace).get(name)
                in_class = isinstance(self.namespace, type)
                new = make(name, function, in_class and not isinstance(value, staticmethod))
                setattr(new, mark, True)
                method = isinstance(value, classmethod | staticmethod)
                setattr(self.namespace, name, type(value)(new) if method else new)
        return replaced


def _guarded(name: str, function: F, has_receiver: bool) -> F:
    assert _guard is not None
    enter, _ = _guard

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        with enter(name):
            return function(*args, **kwargs)

    return guarded  # type: ignore[return-value]


def _hooked(name: str, function: F, has_receiver: bool) -> F:
    @functools.wraps(function)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        level = _level.get()
        if level == _LIBRARY or (has_receiver and not args):
            return function(*args, **kwargs)
        receiver, rest = (args[0], args[1:]) if has_receiver else (None, args)
        bound = functools.partial(function, receiver) if has_receiver else function
        with bypassed():
            return Call(name, receiver, bound, rest, kwargs, active() if level == _PROGRAM else _always)()

    return hooked  # type: ignore[return-value]
