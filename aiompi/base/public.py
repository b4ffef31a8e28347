"""`public`: the names of the methods of public classes."""

from __future__ import annotations

from types import FunctionType
from typing import Final, TypeVar

C = TypeVar("C", bound=type)

_public: Final[set[type]] = set()


def public(cls: C) -> C:
    """Class decorator: puts the public class's name into `__qualname__` of methods inherited from private classes.

    Messages such as "Comm.send() got an unexpected keyword argument" then name a class that programs know. If two
    public classes inherit a method from one private class, the second one gets a copy of it.
    """
    _public.add(cls)
    known = {base for other in cls.__mro__[1:] if other in _public for base in other.__mro__}
    found = set(vars(cls))
    for base in cls.__mro__[1:]:
        if base in known or not base.__module__.startswith("aiompi."):
            continue
        for name, value in vars(base).items():
            function = getattr(value, "__func__", value)
            if name[0] == "_" or not isinstance(function, FunctionType):
                continue
            named = function.__qualname__.removesuffix(f".{function.__name__}")
            if named == base.__qualname__:
                _rename(function, cls)
            elif named != cls.__qualname__ and name not in found:
                copy = _rename(_copy(function), cls)
                setattr(cls, name, copy if value is function else type(value)(copy))
            found.add(name)
    return cls


def _rename(function: FunctionType, cls: type) -> FunctionType:
    function.__module__, function.__qualname__ = cls.__module__, f"{cls.__qualname__}.{function.__name__}"
    return function


def _copy(function: FunctionType) -> FunctionType:
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
    copy.__defaults__, copy.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    copy.__doc__, copy.__annotations__ = function.__doc__, function.__annotations__
    vars(copy).update(vars(function))
    return copy
