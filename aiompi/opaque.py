"""Opaque objects and their handles (section 2.4.1).

A handle is what a program holds; it denotes an object of the library, or nothing when it is null. Handles of one
object are equal, and cannot be hashed, because they change when they are freed. As in C an object has a number, which
stands for it in a program that keeps integers.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

from aiompi.errors import InvalidArgumentError


class Opaque:
    """A handle. Classes of handles say what theirs denote.

    Attributes:
        _kind: class of the objects.
    """

    __slots__ = ("__weakref__",)

    _kind: ClassVar[type]
    _numbered: ClassVar[WeakValueDictionary[int, Any]] = WeakValueDictionary()

    @property
    def _denoted(self) -> Any:
        """The object, None for a null handle."""
        raise NotImplementedError

    @classmethod
    def _denote(cls, denoted: Any) -> Self:
        """A new handle of an object."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        return self._denoted is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Opaque) or other._kind is not self._kind:
            return NotImplemented
        return self._denoted is other._denoted

    __hash__ = None  # type: ignore[assignment]

    @property
    def handle(self) -> int:
        """A number for what the handle denotes, the same for all handles of it; 0 for a null one."""
        denoted = self._denoted
        if denoted is None:
            return 0
        self._numbered[id(denoted)] = denoted
        return id(denoted)

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        """A handle of the object that a number stands for.

        Args:
            handle: what the property `handle` of another one gives; the object must still exist.

        Raises:
            InvalidArgumentError: there is no such object, or it is of another kind.
        """
        if not handle:
            return cls()
        denoted = cls._numbered.get(handle)
        if not isinstance(denoted, cls._kind):
            raise InvalidArgumentError(
                f"{handle:#x} stands for no {cls.__name__}: pass the handle of one that still exists"
            )
        return cls._denote(denoted)

    def toint(self) -> int:
        """The number of the object, as the ABI of MPI-5 has it; the same as `handle`."""
        return self.handle

    @classmethod
    def fromint(cls, arg: int, /) -> Self:
        """The opposite of `toint`; see `fromhandle`."""
        return cls.fromhandle(arg)

    def py2f(self) -> int:
        """The number of the object, as programs in Fortran know it; the same as `handle`."""
        return self.handle

    @classmethod
    def f2py(cls, arg: int) -> Self:
        """The opposite of `py2f`; see `fromhandle`."""
        return cls.fromhandle(arg)


def same_kind(cls: type, other: object) -> None:
    """Check what a new handle is to be another handle of.

    Raises:
        TypeError: it is of another class.
    """
    if not isinstance(other, cls):
        raise TypeError(f"{other!r} is of type {type(other).__name__}: expected a {cls.__name__}, or nothing")
