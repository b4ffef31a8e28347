"""Attributes: values that a program caches on its objects, with callbacks that copy and delete them (section 5.7).

A key is valid in one process, for all objects of one kind: communicators, datatypes or windows. Callbacks have the
signature of mpi4py: object, key, value. Attributes are copied in the order in which they were set, and deleted in the
reverse order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from aiompi.base.arguments import integer
from aiompi.base.callbacks import call_back
from aiompi.constants import KEYVAL_INVALID
from aiompi.errors import InvalidKeyvalError, MPIError

#: returns the value of a duplicate from (object, key, value); NotImplemented if the duplicate gets no value
CopyFunction: TypeAlias = Callable[[Any, int, Any], Any]
#: called with (object, key, value) when the value is deleted
DeleteFunction: TypeAlias = Callable[[Any, int, Any], object]


class Keyval:
    """A key with the callbacks for its values.

    Args:
        number: number by which the program refers to the key.
        copy_fn: returns the value of a duplicate. True copies the value; with None the duplicate gets no value.
        delete_fn: called with each value that is deleted; None for no call.
        integers: True if values must be integers.
    """

    __slots__ = ("copy_fn", "delete_fn", "integers", "number")

    def __init__(
        self, number: int, copy_fn: CopyFunction | bool | None, delete_fn: DeleteFunction | bool | None, integers: bool
    ) -> None:
        self.number = number
        self.copy_fn = copy_fn
        self.delete_fn = delete_fn if callable(delete_fn) else None
        self.integers = integers

    def copy(self, owner: Any, value: Any) -> Any:
        """Return the value for a duplicate of `owner`, NotImplemented if the duplicate gets no value."""
        if self.copy_fn is True:
            return value
        if not callable(self.copy_fn):
            return NotImplemented
        return call_back(self._callback("copy", owner), self.copy_fn, owner, self.number, value)

    def delete(self, owner: Any, value: Any) -> None:
        """Call the delete callback with a value."""
        if self.delete_fn is not None:
            call_back(self._callback("delete", owner), self.delete_fn, owner, self.number, value)

    def _callback(self, kind: str, owner: Any) -> str:
        return f"the {kind} callback of attribute key {self.number} on {owner!r}"


class Keyvals:
    """The keys of a process for one kind of objects.

    Args:
        kind: name of the kind, for messages.
        predefined: key -> function that returns its value for an object. Programs cannot change or free these keys.
    """

    def __init__(self, kind: str, predefined: Mapping[int, Callable[[Any], Any]] | None = None) -> None:
        self.kind = kind
        self.predefined: Final = dict(predefined or {})
        self._keyvals: dict[int, Keyval] = {}

    def create(
        self,
        copy_fn: CopyFunction | bool | None = None,
        delete_fn: DeleteFunction | bool | None = None,
        nopython: bool = False,
    ) -> int:
        """Create a key with a number that the process has never used for a key; see `Caching.Create_keyval`.

        Raises:
            TypeError: a callback cannot be called.
        """
        for function in (copy_fn, delete_fn):
            if not (function is None or isinstance(function, bool) or callable(function)):
                raise TypeError(f"Create_keyval: {function!r} is no function; pass one, True, or None")
        keyval = Keyval(next(_numbers), copy_fn, delete_fn, nopython)
        self._keyvals[keyval.number] = keyval
        return keyval.number

    def free(self, keyval: int) -> int:
        """Free a key: no further values can be set under it; see `Caching.Free_keyval`."""
        self.check_own(keyval, "freed")
        del self._keyvals[self.find(keyval).number]
        return KEYVAL_INVALID

    def find(self, keyval: int) -> Keyval:
        """Return the key with this number.

        Raises:
            InvalidKeyvalError: there is no such key.
        """
        found = self._keyvals.get(keyval)
        if found is None:
            name = "KEYVAL_INVALID" if keyval == KEYVAL_INVALID else f"{keyval}, never created or freed,"
            raise InvalidKeyvalError(f"{name} is no key for attributes of a {self.kind}: use one from Create_keyval")
        return found

    def check(self, keyval: object) -> None:
        """Refuse a value that cannot be a key.

        Raises:
            TypeError: the value is not an integer.
        """
        integer(keyval, f"the key of an attribute of a {self.kind}")

    def check_own(self, keyval: int, what: str) -> None:
        """Refuse a key that the program has not created.

        Args:
            keyval: the key.
            what: participle for the message, such as "freed".

        Raises:
            InvalidKeyvalError: the key is predefined.
            TypeError: the key is not an integer.
        """
        self.check(keyval)
        if keyval in self.predefined:
            raise InvalidKeyvalError(f"the predefined attribute key {keyval} cannot be {what}")


_numbers: Final = itertools.count(64)


class Attributes:
    """The attributes of one object.

    A value is removed even if its delete callback fails, so that no delete callback is called twice for a value.

    The methods' argument `owner` is the program's handle of the object. The methods pass this handle to the callbacks.

    Args:
        keyvals: keys for objects of this kind.
    """

    __slots__ = ("_keyvals", "_values")

    def __init__(self, keyvals: Keyvals) -> None:
        self._keyvals = keyvals
        self._values: dict[int, tuple[Keyval, Any]] = {}

    def get(self, owner: Any, keyval: int, default: Any = None) -> Any:
        """Return the value under a key, or `default` if the key has no value; see `Caching.Get_attr`."""
        self._keyvals.check(keyval)
        if keyval in self._values:
            return self._values[keyval][1]
        if keyval in self._keyvals.predefined:
            value = self._keyvals.predefined[keyval](owner)
            return default if value is None else value
        self._keyvals.find(keyval)
        return default

    def set(self, owner: Any, keyval: int, value: Any) -> None:
        """Delete the previous value, if there is one, and store a new one; see `Caching.Set_attr`."""
        self._keyvals.check_own(keyval, "set")
        key = self._keyvals.find(keyval)
        if key.integers:
            value = integer(value, f"the value of attribute key {keyval}, which is for integers,")
        if keyval in self._values:
            self.delete(owner, keyval)
        self._values[keyval] = key, value

    def delete(self, owner: Any, keyval: int) -> None:
        """Delete a value and call its delete callback; see `Caching.Delete_attr`."""
        self._keyvals.check_own(keyval, "deleted")
        if keyval not in self._values:
            self._keyvals.find(keyval)
            raise InvalidKeyvalError(f"{owner!r} has no attribute under key {keyval} that could be deleted")
        key, value = self._values.pop(keyval)
        key.delete(owner, value)

    def copy(self, owner: Any, duplicate: Any) -> Attributes:
        """Return the attributes of a duplicate. The copy callbacks run in the order in which attributes were set.

        Args:
            owner: object with these attributes.
            duplicate: object that gets the new attributes. If copying fails, the delete callbacks are called with it.

        Raises:
            aiompi.MPIError: a copy callback failed; the values copied before have been deleted again.
        """
        copies = Attributes(self._keyvals)
        try:
            for keyval, (key, value) in list(self._values.items()):
                copy = key.copy(owner, value)
                if copy is not NotImplemented:
                    copies._values[keyval] = key, copy
        except BaseException:
            copies._clear(duplicate)
            raise
        return copies

    def clear(self, owner: Any) -> None:
        """Delete all values, the latest first, because the owner is being freed (section 5.7.1).

        Raises:
            aiompi.MPIError: the first failure of a callback; all values are deleted nevertheless.
        """
        failures = self._clear(owner)
        if failures:
            raise failures[0]

    def _clear(self, owner: Any) -> list[MPIError]:
        failures = []
        while self._values:
            key, value = self._values.popitem()[1]
            try:
                key.delete(owner, value)
            except MPIError as error:
                failures.append(error)
        return failures

    def __len__(self) -> int:
        return len(self._values)


class Caching:
    """Base class with the calls for attributes of communicators and datatypes.

    Attributes:
        _keyvals: keys for objects of this kind.
    """

    __slots__ = ()

    _keyvals: ClassVar[Keyvals]

    @property
    def _attributes(self) -> Attributes:
        """The attributes of this object."""
        raise NotImplementedError

    @classmethod
    def Create_keyval(
        cls,
        copy_fn: CopyFunction | bool | None = None,
        delete_fn: DeleteFunction | bool | None = None,
        nopython: bool = False,
    ) -> int:
        """Create an attribute key for objects of this kind in this process (MPI_Keyval_create, section 5.7.1).

        Args:
            copy_fn: called with (object, keyval, value) when the object is duplicated. Returns the value for the
                duplicate, or NotImplemented if the duplicate gets no value. True copies the value (MPI_DUP_FN); None
                copies no value (MPI_NULL_COPY_FN).
            delete_fn: called with (object, keyval, value) when the value is deleted or replaced, or the object
                is freed.
            nopython: values must be integers.

        Returns:
            The key, which is not KEYVAL_INVALID.
        """
        return cls._keyvals.create(copy_fn, delete_fn, nopython)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Free a key (MPI_Keyval_free, section 5.7.1). Values under it stay, and are copied and deleted as before.

        Args:
            keyval: key that `Create_keyval` returned.

        Returns:
            KEYVAL_INVALID.

        Raises:
            InvalidKeyvalError: there is no such key, or the key is predefined.
        """
        return cls._keyvals.free(keyval)

    def Get_attr(self, keyval: int, default: Any = None) -> Any:
        """Return the value under a key (MPI_Attr_get, section 5.7.1).

        Args:
            keyval: key from `Create_keyval`, or a predefined key. The predefined keys of communicators are TAG_UB,
                HOST, IO, WTIME_IS_GLOBAL, UNIVERSE_SIZE, APPNUM, LASTUSEDCODE, and the keys of IMPI 0.0, section 2.5.
                IMPI_CLIENT_SIZE and IMPI_HOST_SIZE are the numbers of clients and hosts of the communicator.
                IMPI_CLIENT_COLOR and IMPI_HOST_COLOR are the indexes of this process's client and host.
            default: returned if there is no value. A default that is not None lets the program tell a missing value
                from the value None.

        Returns:
            The value, or `default` if there is none.

        Raises:
            InvalidKeyvalError: there is no such key.
        """
        return self._attributes.get(self, keyval, default)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Store a value, and delete the previous one if there is one (MPI_Attr_put, section 5.7.1).

        Args:
            keyval: key that `Create_keyval` returned.
            attrval: any object.

        Raises:
            InvalidKeyvalError: there is no such key, or the key is predefined.
            TypeError: the key is for integers, and the value is not one.
            aiompi.MPIError: the delete callback of the old value failed. The new value is not stored.
        """
        self._attributes.set(self, keyval, attrval)

    def Delete_attr(self, keyval: int) -> None:
        """Delete a value and call the delete callback of its key (MPI_Attr_delete, section 5.7.1).

        Args:
            keyval: key that `Create_keyval` returned.

        Raises:
            InvalidKeyvalError: there is no value under this key, or the key is predefined.
            aiompi.MPIError: the callback failed; the value is deleted nevertheless.
        """
        self._attributes.delete(self, keyval)
