"""Integral floats as ranks, tags and counts, which mpi4py accepts: programs compute `size / 2`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, Final

from aiompi.face.blocking import Intercomm, Intracomm

_NUMBERS: Final = frozenset({"dest", "source", "root", "tag", "sendtag", "recvtag", "color", "key", "rank"})
_BUFFERS: Final = frozenset({"buf", "sendbuf", "recvbuf"})


def accept_integral_floats() -> None:
    """Let all methods of communicators accept floats such as 2.0 for ranks, tags and counts, from now on."""
    classes = {*Intracomm.__mro__, *Intercomm.__mro__}
    for cls in classes:
        if cls.__module__.startswith("aiompi.face.blocking"):
            for name, method in list(vars(cls).items()):
                if inspect.isfunction(method) and not name.startswith("_"):
                    parameters = inspect.signature(method).parameters.keys()
                    if parameters & (_NUMBERS | _BUFFERS):
                        setattr(cls, name, _accepting(method))


def _accepting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that is called again with integers if it refuses floats, as it does before it begins."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        changed: dict[str, Any] = {}
        try:
            return method(*args, **kwargs)
        except TypeError:
            with contextlib.suppress(TypeError):  # the arguments may be too few, or too many
                given = inspect.signature(method).bind(*args, **kwargs)
                changed = {name: _integers(name, value) for name, value in given.arguments.items()}
            if not changed or all(changed[name] is value for name, value in given.arguments.items()):
                raise
            given.arguments.update(changed)
        return method(*given.args, **given.kwargs)

    return call


def _integers(name: str, value: Any) -> Any:
    """Return an argument with integers for integral floats; the object itself if there are none."""
    if name in _NUMBERS:
        return _integer(value)
    if name in _BUFFERS and isinstance(value, list | tuple):
        parts = [_integers(name, part) if isinstance(part, list | tuple) else _integer(part) for part in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    return value


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
