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

While there is no hook nothing is paid: the methods are what their classes define. The first hook that concerns a class
wraps them, and they are unwrapped when the last one is removed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

Hook: TypeAlias = "Callable[[Call], Any]"
Namespace: TypeAlias = type | ModuleType
H = TypeVar("H", bound=Hook)
F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound=Namespace)

_PROGRAM: Final = 0  # calls are seen by all hooks
_HOOK: Final = 1  # they are seen by those only that belong to the call itself
_LIBRARY: Final = 2  # they are parts of a call


class _Added(NamedTuple):
    """A hook, and which calls it is around."""

    hook: Hook
    always: bool
    concerns: Callable[[Namespace], bool]


_added: tuple[_Added, ...] = ()  # innermost first
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

    def __repr__(self) -> str:
        return f"<Call {self.name} on {self.receiver!r}>"


def _everything(namespace: Namespace) -> bool:
    return True


def add(hook: H, *, always: bool = False, concerns: Callable[[Namespace], bool] = _everything) -> H:
    """Call `hook(call)` in place of public calls from now on, around the hooks that are there already.

    Args:
        hook: returns what the program gets; usually what `call()` returns.
        always: it belongs to the calls themselves, as error handlers do: it is inside all others, and around what
            these call too.
        concerns: whether it is around the calls of a class or module; by default around all. If it concerns a class
            it concerns the subclasses, and no subclass otherwise.

    Returns:
        The hook, so that this can decorate it.

    Raises:
        ValueError: it has been added before.
    """
    if hook in active():
        raise ValueError(f"{hook!r} has been added already: remove it first")
    inside = [one for one in _added if one.always]
    outside = [one for one in _added if not one.always]
    (inside if always else outside).append(_Added(hook, always, concerns))
    _use((*inside, *outside))
    return hook


def remove(hook: Hook) -> None:
    """Undo `add`.

    Raises:
        ValueError: it is not there.
    """
    if hook not in active():
        raise ValueError(f"{hook!r} is no hook: it was never added, or has been removed")
    _use(tuple(one for one in _added if one.hook != hook))


def _use(added: tuple[_Added, ...]) -> None:
    global _added
    _added = added
    for declared in _surfaces:
        declared.update()


def active() -> tuple[Hook, ...]:
    """The hooks, innermost first."""
    return tuple(one.hook for one in _added)


@contextlib.contextmanager
def added(hook: H) -> Iterator[H]:
    """A block in which there is a hook."""
    add(hook)
    try:
        yield hook
    finally:
        remove(hook)


@contextlib.contextmanager
def bypassed() -> Iterator[None]:
    """A block whose calls no hook sees, as those of PMPI_Xxx (section 8.1)."""
    token = _level.set(_HOOK)
    try:
        yield
    finally:
        _level.reset(token)


@contextlib.contextmanager
def library() -> Iterator[None]:
    """A block whose calls are parts of another one, so that nothing at all is around them."""
    token = _level.set(_LIBRARY)
    try:
        yield
    finally:
        _level.reset(token)


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
    declared.update()
    return namespace


def surfaces() -> Iterator[tuple[Namespace, tuple[str, ...]]]:
    """All that has been declared: namespaces, and the names of their calls."""
    for declared in _surfaces:
        yield declared.namespace, declared.names


def _public_names(namespace: Namespace) -> Iterator[str]:
    for name in dir(namespace):
        if not name.startswith("_") and _is_call(inspect.getattr_static(namespace, name)):
            yield name


def _is_call(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)


class _Surface:
    """A namespace whose calls are wrapped while there are hooks that concern it.

    Attributes:
        hooks: those, innermost first.
        always: those of them that belong to the calls themselves.
    """

    def __init__(self, namespace: Namespace, names: Iterable[str] | None) -> None:
        self.namespace = namespace
        self.hooks: tuple[Hook, ...] = ()
        self.always: tuple[Hook, ...] = ()
        self._names = None if names is None else tuple(names)
        self._replaced: dict[str, Any] = {}  # name -> what the namespace itself has under it, None if it inherits it

    @property
    def names(self) -> tuple[str, ...]:
        """The calls, which are looked for when they are needed: it would take longer than all else in an import."""
        if self._names is None:
            self._names = tuple(_public_names(self.namespace))
        return self._names

    def update(self) -> None:
        """Have the hooks that there are now."""
        concerned = [one for one in _added if one.concerns(self.namespace)]
        wrapped = bool(self.hooks)
        self.always = tuple(one.hook for one in concerned if one.always)
        self.hooks = tuple(one.hook for one in concerned)
        if bool(self.hooks) != wrapped:
            self._unwrap() if wrapped else self._wrap()

    def _wrap(self) -> None:
        """Put the hooks around the calls, but not twice around those of a superclass."""
        for name in self.names:
            value = inspect.getattr_static(self.namespace, name)
            if not hasattr(getattr(value, "__func__", value), "_is_hooked"):
                self._replaced[name] = vars(self.namespace).get(name)
                setattr(self.namespace, name, self._wrapped(name, value))

    def _unwrap(self) -> None:
        """Leave the namespace as it was."""
        for name, value in self._replaced.items():
            if value is None:
                delattr(self.namespace, name)
            else:
                setattr(self.namespace, name, value)
        self._replaced.clear()

    def _wrapped(self, name: str, value: Any) -> Any:
        """A method, class method, static method or function that goes through the hooks."""
        if isinstance(value, classmethod):
            return classmethod(self._through_hooks(name, value.__func__, True))
        if isinstance(value, staticmethod):
            return staticmethod(self._through_hooks(name, value.__func__, False))
        return self._through_hooks(name, value, isinstance(self.namespace, type))

    def _through_hooks(self, name: str, function: Callable[..., Any], has_receiver: bool) -> Callable[..., Any]:
        @functools.wraps(function)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            level = _level.get()
            if level == _LIBRARY or (has_receiver and not args):
                return function(*args, **kwargs)
            receiver, rest = (args[0], args[1:]) if has_receiver else (None, args)
            bound = functools.partial(function, receiver) if has_receiver else function
            with bypassed():
                return Call(name, receiver, bound, rest, kwargs, self.hooks if level == _PROGRAM else self.always)()

        hooked._is_hooked = True  # type: ignore[attr-defined]
        return hooked
