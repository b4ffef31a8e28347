"""Hooks around every public call of both faces: the profiling interface of chapter 8.

    @hooks.add
    def timed(call):
        began = time.perf_counter()
        try:
            return call()
        finally:
            print(call.name, time.perf_counter() - began)

A hook replaces MPI_Xxx. In the hook, `call()` is PMPI_Xxx: it runs the call itself, or the hook that was added before.
Hooks do not see the calls that a hook makes, nor the calls that the library makes while it serves a call. `bypassed()`
and `shifted()` hide the calls of other code in the same way. In the asyncio face a call starts an operation and returns
an awaitable, so that a hook sees only the start of the operation. Use `add_done_callback` of the request to see the
end.

Without hooks there is no cost, because no method is wrapped. The first hook wraps the methods, and the removal of the
last hook unwraps them. A guard is another wrapper, which makes threads take turns. It stays for the life of the
process.
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

from aiompi.base.opaque import Opaque

Hook: TypeAlias = "Callable[[Call], Any]"
Guard: TypeAlias = Callable[[str], AbstractContextManager[object]]
Namespace: TypeAlias = type | ModuleType
H = TypeVar("H", bound=Hook)
F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound=Namespace)
T = TypeVar("T")

_PROGRAM: Final = 0  # all hooks see calls
_HOOK: Final = 1  # only hooks with `always` see calls
_LIBRARY: Final = 2  # no hook sees calls, because they are part of another call

_hooks: tuple[Hook, ...] = ()
_always: tuple[Hook, ...] = ()
_guard: tuple[Guard, Callable[[Namespace], bool]] | None = None
_surfaces: Final[list[_Surface]] = []
_level: Final[ContextVar[int]] = ContextVar("aiompi.hooks.level", default=_PROGRAM)


class Call:
    """A public call that the program makes.

    Attributes:
        name: name of the method or function, such as "Send".
        receiver: object or class that the method is called on; None for a function.
        args, kwargs: arguments; a hook may replace them before it makes the call.
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
        """Make the call, PMPI_Xxx of the standard, and return its result."""
        if not self._inner:
            with library():
                return self._function(*self.args, **self.kwargs)
        *inner, hook = self._inner
        return hook(Call(self.name, self.receiver, self._function, self.args, self.kwargs, tuple(inner)))

    def denoted(self, kind: type[T]) -> Iterator[T]:
        """Yield the objects of class `kind` behind the handles in the receiver and the arguments, also in lists."""
        for value in (self.receiver, *self.args, *self.kwargs.values()):
            for item in value if isinstance(value, list | tuple) else (value,):
                if isinstance(item, Opaque) and isinstance(item._denoted, kind):
                    yield item._denoted

    def __repr__(self) -> str:
        return f"<Call {self.name} on {self.receiver!r}>"


def add(hook: H, *, always: bool = False) -> H:
    """Call `hook(call)` in place of every public call from now on, around the hooks that were added before.

    Args:
        hook: returns the result for the program, usually that of `call()`.
        always: True for a hook that is a part of the calls themselves, such as the error handlers. A hook with `always`
            is inside all other hooks and also sees the calls that other hooks make.

    Returns:
        The hook, so that this function can be used as a decorator.

    Raises:
        ValueError: the hook has been added before.
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
    """Remove a hook that `add` has added.

    Raises:
        ValueError: the hook was not added.
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
    """Return the hooks, innermost first."""
    return _always + _hooks


def guard(enter: Guard, concerns: Callable[[Namespace], bool]) -> None:
    """Run each call in the context `enter(name)` until the process ends; hooks run outside of this context.

    Args:
        enter: returns the context for the call of this name. Contexts nest, because calls are parts of other calls.
        concerns: returns True for a class or module whose calls are guarded. If True for a class, it must be True for
            its subclasses.
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
    """Return a context in which a hook is added."""
    add(hook)
    try:
        yield hook
    finally:
        remove(hook)


def bypassed() -> AbstractContextManager[None]:
    """Return a context in which only hooks with `always` see calls, as with PMPI_Xxx (section 8.1)."""
    return _At(_HOOK)


def library() -> AbstractContextManager[None]:
    """Return a context in which calls are parts of another call, so that no hook sees them."""
    return _At(_LIBRARY)


class _At:
    """A context that sets the level of calls; a class, because a generator would be the slowest part of a call."""

    __slots__ = ("_level", "_token")

    def __init__(self, level: int) -> None:
        self._level = level

    def __enter__(self) -> None:
        self._token = _level.set(self._level)

    def __exit__(self, *failure: object) -> None:
        _level.reset(self._token)


def shifted(function: F) -> F:
    """Return a function or method without hooks, for its shifted name: `PMPI_Send = shifted(Comm.Send)`."""

    @functools.wraps(function)
    def bypassing(*args: Any, **kwargs: Any) -> Any:
        with bypassed():
            return function(*args, **kwargs)

    return bypassing  # type: ignore[return-value]


def surface(namespace: N, names: Iterable[str] | None = None) -> N:
    """Declare public calls, which hooks see from now on.

    Args:
        namespace: a class, or a module with functions. Declare superclasses before their subclasses.
        names: names of the calls. The default is all methods or functions whose names do not start with an underscore.
            For a class, the default includes the methods that it inherits from undeclared classes.

    Returns:
        The namespace, so that this function can be used as a class decorator.
    """
    declared = _Surface(namespace, names)
    _surfaces.append(declared)
    declared.guard()
    if active():
        declared.wrap()
    return namespace


def _public_names(namespace: Namespace) -> Iterator[str]:
    # dir() of a module may also list the names that the module makes on first use; no function is among them.
    for name in dir(namespace) if isinstance(namespace, type) else sorted(vars(namespace)):
        if not name.startswith("_") and _is_call(inspect.getattr_static(namespace, name)):
            yield name


def _is_call(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)


class _Surface:
    """A namespace whose calls are wrapped while there are hooks."""

    def __init__(self, namespace: Namespace, names: Iterable[str] | None) -> None:
        self.namespace = namespace
        self._names = None if names is None else tuple(names)
        self._replaced: dict[str, Any] = {}  # name -> original attribute of the namespace, None if it is inherited

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the calls, found at first use because the search would take most of the time of the import."""
        if self._names is None:
            self._names = tuple(_public_names(self.namespace))
        return self._names

    def guard(self) -> None:
        """Wrap the calls with the guard, if there is one for them."""
        if _guard is not None and _guard[1](self.namespace):
            self._put_around(_guarded, "_is_guarded")

    def wrap(self) -> None:
        """Wrap the calls with the hooks."""
        self._replaced = self._put_around(_hooked, "_is_hooked")

    def unwrap(self) -> None:
        """Remove the wrappers of the hooks."""
        for name, value in self._replaced.items():
            if value is None:
                delattr(self.namespace, name)
            else:
                setattr(self.namespace, name, value)
        self._replaced.clear()

    def _put_around(self, make: Callable[[str, F, bool], F], mark: str) -> dict[str, Any]:
        """Replace the calls, except those inherited from a superclass whose calls have been replaced.

        Args:
            make: called with the name of a call, its present function, and True if this function takes a receiver;
                returns the new function.
            mark: attribute that the new functions get.

        Returns:
            The original attributes of the namespace by their names; None for an attribute that the namespace inherits.
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
