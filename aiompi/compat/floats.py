"""Integral floats as ranks, tags and counts. mpi4py accepts them, and programs compute `size / 2`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, Final

from aiompi.datatype import Datatype
from aiompi.face.blocking import Cartcomm, Graphcomm, Intercomm, Intracomm

_NUMBERS: Final = frozenset({
    *("dest", "source", "root", "tag", "sendtag", "recvtag", "color", "key", "rank", "direction", "disp"),
    *("count", "blocklength", "stride", "lb", "extent", "size", "nnodes"),
})  # fmt: skip
_PLACES: Final = ("aiompi.face.", "aiompi.datatype.")
_BUFFERS: Final = frozenset({"buf", "sendbuf", "recvbuf"})


def accept_integral_floats() -> None:
    """Let all methods of communicators and datatypes accept numbers such as 2.0 for ranks, tags and counts."""
    kinds = Intracomm, Intercomm, Cartcomm, Graphcomm, Datatype
    for cls in {cls for kind in kinds for cls in kind.__mro__ if cls.__module__.startswith(_PLACES)}:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                parameters = inspect.signature(method).parameters.keys()
                if parameters & (_NUMBERS | _BUFFERS):
                    setattr(cls, name, accepting(method))


def accepting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls `method`, and calls it again with integers if it refuses floats (by TypeError)."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        changed: dict[str, Any] = {}
        try:
            return method(*args, **kwargs)
        except TypeError:
            with contextlib.suppress(TypeError):  # there may be too few or too many arguments
                given = inspect.signature(method).bind(*args, **kwargs)
                changed = {name: _integers(name, value) for name, value in given.arguments.items()}
            if not changed or all(changed[name] is value for name, value in given.arguments.items()):
                raise
            given.arguments.update(changed)
        return method(*given.args, **given.kwargs)

    return call


def _integers(name: str, value: Any) -> Any:
    """Return an argument with integers in place of integral floats; the same object if nothing is replaced."""
    if name in _NUMBERS:
        return _integer(value)
    if name in _BUFFERS and isinstance(value, list | tuple):
        parts = [_integers(name, part) if isinstance(part, list | tuple) else _integer(part) for part in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, int) or not isinstance(value, Real):
        return value
    try:
        number = int(float(value))
    except (ValueError, OverflowError):  # it is not finite
        return value
    return number if number == value else value
