"""`ByClass`: by class, the objects that higher layers attach to an object of a lower layer."""

from __future__ import annotations

from typing import Any, TypeVar, cast

T = TypeVar("T")


class ByClass(dict[type[Any], Any]):
    """The objects that higher layers keep here, at most one of each class."""

    def of(self, kind: type[T]) -> T | None:
        """Return the attached object of a class; None if no object of the class is attached."""
        return cast("T | None", self.get(kind))

    def put(self, value: T) -> T:
        """Store an object in place of any stored object of the same class, and return the new object."""
        self[type(value)] = value
        return value
