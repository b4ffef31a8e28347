"""Opaque objects and their handles (section 2.4.1).

A program holds handles. A handle denotes an object of the library, or nothing if it is null. Handles of the same object
are equal. They cannot be hashed, because they change when they are freed. As in C, each object has a number, by which a
program can refer to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar
from weakref import WeakValueDictionary

from aiompi.base.public import public
from aiompi.errors import InvalidArgumentError

T = TypeVar("T")


@public
class Opaque:
    """Base class of handles. Subclasses define which objects their handles denote.

    Attributes:
        _kind: class of the objects.
        _constants: name -> predefined handle, including null handles. The module of the class defines these names.
        _advice: reason why a handle cannot be pickled, for messages.
    """

    __slots__ = ("__weakref__",)

    _kind: ClassVar[type]
    _constants: ClassVar[Mapping[str, Any]]
    _advice: ClassVar[str] = "what it denotes means something only in its own process"
    _numbered: ClassVar[WeakValueDictionary[int, Any]] = WeakValueDictionary()

    @property
    def _denoted(self) -> Any:
        """The object that the handle denotes, None for a null handle."""
        raise NotImplementedError

    @classmethod
    def _denote(cls, denoted: Any) -> Self:
        """Return a new handle of an object."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        return self._denoted is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Opaque) or other._kind is not self._kind:
            return NotImplemented
        return self._denoted is other._denoted

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle constants by name. Other objects exist only in their own process (section 2.4.1).

        Raises:
            ValueError: the handle does not denote a predefined object.
        """
        constant = self._reduce_constant()
        if constant is None:
            raise ValueError(f"cannot pickle {self!r}: {self._advice}")
        return constant

    def _reduce_constant(self) -> str | tuple[Any, ...] | None:
        """Return the result of `__reduce__` for a handle of a predefined object, None for others."""
        for name, constant in self._constants.items():
            if self == constant:
                return name if self is constant else (type(self), (constant,))
        return None

    @property
    def handle(self) -> int:
        """Number of the denoted object, the same for all handles of the object; 0 for a null handle."""
        denoted = self._denoted
        if denoted is None:
            return 0
        self._numbered[id(denoted)] = self._holder
        return id(denoted)

    @property
    def _holder(self) -> Any:
        """The object that has to exist as long as the number is valid."""
        return self._denoted

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        """Return a handle of the object with this number.

        Args:
            handle: property `handle` of another handle; the object must still exist.

        Returns:
            A handle of the object.

        Raises:
            InvalidArgumentError: there is no such object, or it is of another kind.
        """
        if not handle:
            return cls()
        holder = cls._numbered.get(handle)
        denoted = holder._denoted if isinstance(holder, Opaque) else holder
        if not isinstance(denoted, cls._kind) or id(denoted) != handle:
            raise InvalidArgumentError(
                f"{handle:#x} stands for no {cls.__name__}: pass the handle of one that still exists"
            )
        return cls._denote(denoted)

    def toint(self) -> int:
        """Return the number of the object, which is also its `handle`. The MPI-5 ABI defines this conversion.

        Returns:
            The number.
        """
        return self.handle

    @classmethod
    def fromint(cls, arg: int, /) -> Self:
        """Inverse of `toint`: return a handle of the object with this number; see `fromhandle`.

        Args:
            arg: number of the object.

        Returns:
            A handle of the object.

        Raises:
            InvalidArgumentError: there is no such object, or it is of another kind.
        """
        return cls.fromhandle(arg)

    def py2f(self) -> int:
        """Return the number of the object for programs in Fortran; the same as `handle`.

        Returns:
            The number.
        """
        return self.handle

    @classmethod
    def f2py(cls, arg: int) -> Self:
        """Inverse of `py2f`: return a handle of the object with this number; see `fromhandle`.

        Args:
            arg: number of the object.

        Returns:
            A handle of the object.

        Raises:
            InvalidArgumentError: there is no such object, or it is of another kind.
        """
        return cls.fromhandle(arg)


@public
class NumberedByHandle(Opaque):
    """A handle whose number is valid as long as this handle exists.

    Requests have such handles, because they do not support weak references.
    """

    __slots__ = ()

    @property
    def _holder(self) -> Self:
        return self


@public
class Reference(Opaque, Generic[T]):
    """A handle that stores only a reference to its object."""

    __slots__ = ("_denoted",)

    _denoted: T | None

    @classmethod
    def _denote(cls, denoted: T | None) -> Self:
        self = object.__new__(cls)
        self._denoted = denoted
        return self

    @classmethod
    def _another(cls, root: type[Reference[T]], other: Reference[T] | None) -> Self:
        """Return a new handle of the object that another handle denotes, a null handle if `other` is None.

        Raises:
            TypeError: the other handle is not of class `root`.
        """
        if other is None:
            return cls._denote(None)
        same_kind(root, other)
        return cls._denote(other._denoted)

    @property
    def _constant(self) -> bool:
        """True for a constant itself, False for another handle of the same object."""
        return any(self is constant for constant in self._constants.values())

    def free(self) -> None:
        """Make the handle null, unless it is a predefined one."""
        if not self._constant:
            self._denoted = None


def same_kind(cls: type, other: object) -> None:
    """Check the class of the handle that a new handle copies.

    Raises:
        TypeError: `other` is not of class `cls`.
    """
    if not isinstance(other, cls):
        raise TypeError(f"{other!r} is of type {type(other).__name__}: expected a {cls.__name__}, or nothing")
