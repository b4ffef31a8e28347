"""Attributes: values that a program caches on its objects, with callbacks that copy and delete them (section 5.7).

A key belongs to a process and serves all its objects of one kind: communicators, or datatypes. Callbacks are those of
mpi4py: they get the object, the key and the value. Attributes are copied in the order in which they were set, and
deleted in the reverse order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from aiompi.arguments import integer
from aiompi.constants import KEYVAL_INVALID
from aiompi.errors import Exception as MPIException
from aiompi.errors import InvalidKeyvalError, call_back

#: makes the value of a duplicate out of (object, key, value); NotImplemented: the duplicate gets none
CopyFunction: TypeAlias = Callable[[Any, int, Any], Any]
#: is told (object, key, value) before the value is forgotten
DeleteFunction: TypeAlias = Callable[[Any, int, Any], object]


class Keyval:
    """A key, and what happens to the values under it.

    Args:
        number: names it.
        copy_fn: makes the value of a duplicate; True: the same value, None: the duplicate gets none.
        delete_fn: is told of values that are forgotten, if it is not None.
        integers: whether values must be integers.
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
        """The value for a duplicate of its owner, NotImplemented if that gets none."""
        if self.copy_fn is True:
            return value
        if not callable(self.copy_fn):
            return NotImplemented
        return call_back(self._callback("copy", owner), self.copy_fn, owner, self.number, value)

    def delete(self, owner: Any, value: Any) -> None:
        """Tell the callback that a value is forgotten."""
        if self.delete_fn is not None:
            call_back(self._callback("delete", owner), self.delete_fn, owner, self.number, value)

    def _callback(self, kind: str, owner: Any) -> str:
        return f"the {kind} callback of attribute key {self.number} on {owner!r}"


class Keyvals:
    """The keys of a process for one kind of objects.

    Args:
        kind: of the objects, for messages.
        predefined: keys that programs cannot change or free, with what makes their values out of an object.
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
        """A new key (MPI_Keyval_create, section 5.7.1); see `Keyval` for the callbacks.

        Args:
            nopython: values must be integers.

        Raises:
            TypeError: a callback cannot be called.

        Returns:
            Its number, which no other key of the process has or has had.
        """
        for function in (copy_fn, delete_fn):
            if not (function is None or isinstance(function, bool) or callable(function)):
                raise TypeError(f"Create_keyval: {function!r} is no function; pass one, True, or None")
        keyval = Keyval(next(_numbers), copy_fn, delete_fn, nopython)
        self._keyvals[keyval.number] = keyval
        return keyval.number

    def free(self, keyval: int) -> int:
        """Give up a key (MPI_Keyval_free, section 5.7.1).

        Values under it stay where they are, and their callbacks are called, but no more can be set.

        Returns:
            KEYVAL_INVALID.

        Raises:
            InvalidKeyvalError: it is predefined, or there is no such key.
        """
        self.check_own(keyval, "freed")
        del self._keyvals[self.find(keyval).number]
        return KEYVAL_INVALID

    def find(self, keyval: int) -> Keyval:
        """The key with this number.

        Raises:
            InvalidKeyvalError: there is none.
        """
        found = self._keyvals.get(keyval)
        if found is None:
            name = "KEYVAL_INVALID" if keyval == KEYVAL_INVALID else f"{keyval}, never created or freed,"
            raise InvalidKeyvalError(f"{name} is no key for attributes of a {self.kind}: use what Create_keyval gives")
        return found

    def check(self, keyval: object) -> None:
        """Refuse what is no key.

        Raises:
            TypeError: it is no integer, and therefore no key.
        """
        integer(keyval, f"the key of an attribute of a {self.kind}")

    def check_own(self, keyval: int, what: str) -> None:
        """Refuse what is no key of the program's own.

        Raises:
            InvalidKeyvalError: a predefined key cannot be treated so.
            TypeError: it is no integer.
        """
        self.check(keyval)
        if keyval in self.predefined:
            raise InvalidKeyvalError(f"the predefined attribute key {keyval} cannot be {what}")


_numbers: Final = itertools.count(64)


class Attributes:
    """The attributes of one object.

    A value is gone when its delete callback has been called, even if that has failed: it would not expect to be called
    for the same value again.

    Its methods get the object as its program knows it, which is what the callbacks see.

    Args:
        keyvals: the keys for its kind.
    """

    __slots__ = ("_keyvals", "_values")

    def __init__(self, keyvals: Keyvals) -> None:
        self._keyvals = keyvals
        self._values: dict[int, tuple[Keyval, Any]] = {}

    def get(self, owner: Any, keyval: int, default: Any = None) -> Any:
        """The value under a key, `default` if there is none (MPI_Attr_get, section 5.7.1).

        Raises:
            InvalidKeyvalError: there is no such key.
        """
        self._keyvals.check(keyval)
        if keyval in self._values:
            return self._values[keyval][1]
        if keyval in self._keyvals.predefined:
            value = self._keyvals.predefined[keyval](owner)
            return default if value is None else value
        self._keyvals.find(keyval)
        return default

    def set(self, owner: Any, keyval: int, value: Any) -> None:
        """Store a value, after the one that was there has been deleted (MPI_Attr_put, section 5.7.1).

        Raises:
            InvalidKeyvalError: there is no such key, or it is predefined.
            TypeError: the key is for integers, and this is none.
            aiompi.Exception: the callback that deletes the old value failed; the new one is not stored.
        """
        self._keyvals.check_own(keyval, "set")
        key = self._keyvals.find(keyval)
        if key.integers:
            value = integer(value, f"the value of attribute key {keyval}, which is for integers,")
        if keyval in self._values:
            self.delete(owner, keyval)
        self._values[keyval] = key, value

    def delete(self, owner: Any, keyval: int) -> None:
        """Forget a value, which its callback is told (MPI_Attr_delete, section 5.7.1).

        Raises:
            InvalidKeyvalError: there is no value under this key, or it is predefined.
            aiompi.Exception: the callback failed; the value is forgotten nevertheless.
        """
        self._keyvals.check_own(keyval, "deleted")
        if keyval not in self._values:
            self._keyvals.find(keyval)
            raise InvalidKeyvalError(f"{owner!r} has no attribute under key {keyval} that could be deleted")
        key, value = self._values.pop(keyval)
        key.delete(owner, value)

    def copy(self, owner: Any, duplicate: Any) -> Attributes:
        """The attributes of a duplicate, as the copy callbacks say, in the order in which they were set.

        Args:
            owner: has these attributes.
            duplicate: will have the new ones; the delete callbacks see it when the copying fails.

        Raises:
            aiompi.Exception: a copy callback failed; the values that had been copied have been deleted again.
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
        """Forget all values, the latest first, because their owner is being freed (section 5.7.1).

        Raises:
            aiompi.Exception: callbacks failed; this is the first failure, and all values are forgotten.
        """
        failures = self._clear(owner)
        if failures:
            raise failures[0]

    def _clear(self, owner: Any) -> list[MPIException]:
        failures = []
        while self._values:
            key, value = self._values.popitem()[1]
            try:
                key.delete(owner, value)
            except MPIException as error:
                failures.append(error)
        return failures

    def __len__(self) -> int:
        return len(self._values)


class Caching:
    """The calls for attributes, which are the same for communicators and datatypes.

    Attributes:
        _keyvals: the keys for objects of this kind.
    """

    __slots__ = ()

    _keyvals: ClassVar[Keyvals]

    @property
    def _attributes(self) -> Attributes:
        """Those of this object."""
        raise NotImplementedError

    @classmethod
    def Create_keyval(
        cls,
        copy_fn: CopyFunction | bool | None = None,
        delete_fn: DeleteFunction | bool | None = None,
        nopython: bool = False,
    ) -> int:
        """A new attribute key for the objects of this kind in this process (MPI_Keyval_create, section 5.7.1).

        Args:
            copy_fn: makes the value of a duplicate out of (object, keyval, value), or gives NotImplemented when it
                is to have none. True: the same value (MPI_DUP_FN); None: no value (MPI_NULL_COPY_FN).
            delete_fn: called with (object, keyval, value) when the value is deleted or replaced, or the object
                is freed.
            nopython: values must be integers.

        Returns:
            The key, which is not KEYVAL_INVALID.
        """
        return cls._keyvals.create(copy_fn, delete_fn, nopython)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Give up a key (MPI_Keyval_free, section 5.7.1); values under it stay, and are copied and deleted as before.

        Returns:
            KEYVAL_INVALID.

        Raises:
            InvalidKeyvalError: there is no such key, or it is predefined.
        """
        return cls._keyvals.free(keyval)

    def Get_attr(self, keyval: int, default: Any = None) -> Any:
        """The value under a key (MPI_Attr_get, section 5.7.1).

        Args:
            keyval: made by `Create_keyval`; for communicators also TAG_UB, HOST, IO, WTIME_IS_GLOBAL, UNIVERSE_SIZE,
                APPNUM, LASTUSEDCODE, or the keys of IMPI 0.0, section 2.5: IMPI_CLIENT_SIZE and IMPI_HOST_SIZE, the
                number of clients and of hosts that the processes of the communicator belong to, and IMPI_CLIENT_COLOR
                and IMPI_HOST_COLOR, the number of the one of this process among them.
            default: returned when there is none; tells that from a value of None.

        Raises:
            InvalidKeyvalError: there is no such key.
        """
        return self._attributes.get(self, keyval, default)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Store a value; one that is there already is deleted (MPI_Attr_put, section 5.7.1).

        Raises:
            InvalidKeyvalError: there is no such key, or it is predefined.
            aiompi.Exception: the callback that deletes the old value failed; the new one is not stored.
        """
        self._attributes.set(self, keyval, attrval)

    def Delete_attr(self, keyval: int) -> None:
        """Delete a value, through the callback of its key (MPI_Attr_delete, section 5.7.1).

        Raises:
            InvalidKeyvalError: there is no value under this key, or it is predefined.
            aiompi.Exception: the callback failed; the value is deleted nevertheless.
        """
        self._attributes.delete(self, keyval)
