"""Opaque objects and their handles (section 2.4.1).

A handle is what a program holds; it denotes an object of the library, or nothing when it is null. Handles of one
object are equal, and cannot be hashed, because they change when they are freed. As in C an object has a number, which
stands for it in a program that keeps integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar
from weakref import WeakValueDictionary

from aiompi.errors import InvalidArgumentError

T = TypeVar("T")


class Opaque:
    """A handle. Classes of handles say what theirs denote.

    Attributes:
        _kind: class of the objects.
        _constants: the predefined handles, null ones among them, by their names in the module of the class.
        _advice: what a message says about handles that cannot be pickled.
    """

    __slots__ = ("__weakref__",)

    _kind: ClassVar[type]
    _constants: ClassVar[Mapping[str, Any]]
    _advice: ClassVar[str] = "what it denotes means something only in its own process"
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

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Constants by name; other objects mean something only in their own process (section 2.4.1).

        Raises:
            ValueError: it denotes nothing predefined.
        """
        constant = self._reduce_constant()
        if constant is None:
            raise ValueError(f"cannot pickle {self!r}: {self._advice}")
        return constant

    def _reduce_constant(self) -> str | tuple[Any, ...] | None:
        """What `__reduce__` gives for a handle of something predefined, None for others."""
        for name, constant in self._constants.items():
            if self == constant:
                return name if self is constant else (type(self), (constant,))
        return None

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


class Reference(Opaque, Generic[T]):
    """A handle that holds what it denotes, and nothing else."""

    __slots__ = ("_denoted",)

    _denoted: T | None

    @classmethod
    def _denote(cls, denoted: T | None) -> Self:
        self = object.__new__(cls)
        self._denoted = denoted
        return self

    @classmethod
    def _another(cls, root: type[Reference[T]], other: Reference[T] | None) -> Self:
        """A new handle of what another one denotes, a null handle if there is none.

        Raises:
            TypeError: the other one is not of the class `root`.
        """
        if other is None:
            return cls._denote(None)
        same_kind(root, other)
        return cls._denote(other._denoted)

    @property
    def _constant(self) -> bool:
        """Whether this is one of the constants, and not another handle of what they name."""
        return any(self is constant for constant in self._constants.values())

    def free(self) -> None:
        """Make the handle null, unless it is one of the predefined constants."""
        if not self._constant:
            self._denoted = None


def same_kind(cls: type, other: object) -> None:
    """Check what a new handle is to be another handle of.

    Raises:
        TypeError: it is of another class.
    """
    if not isinstance(other, cls):
        raise TypeError(f"{other!r} is of type {type(other).__name__}: expected a {cls.__name__}, or nothing")
