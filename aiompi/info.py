"""`Info`: hints as pairs of strings, in the order in which they were set (MPI-2, chapter 9 of MPI-3.1)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias

from aiompi.base.arguments import integer, several, text
from aiompi.base.opaque import Reference
from aiompi.constants import MAX_INFO_KEY, MAX_INFO_VAL
from aiompi.errors import (
    InfoNoKeyError,
    InvalidArgumentError,
    InvalidInfoError,
    InvalidInfoKeyError,
    InvalidInfoValueError,
)

__all__ = ["INFO_ENV", "INFO_NULL", "Info"]

Items: TypeAlias = "Info | Mapping[str, str] | Iterable[tuple[str, str]]"


class _Pairs(dict[str, str]):
    """The object that info handles denote; handles of the same object are equal."""


class _Environment(_Pairs):
    """The object of INFO_ENV: how this process was started. The pairs are made at the first use of the object."""


class Info(Reference[_Pairs]):
    """A handle of an info, with the methods of mpi4py and of a mapping.

    Args:
        info: handle of the info to which the new handle refers; None for a null handle.
    """

    __slots__ = ()

    _kind = _Pairs

    def __new__(cls, info: Info | None = None) -> Self:
        return cls._another(Info, info)

    @classmethod
    def Create(cls, items: Items | None = None) -> Self:
        """Create an info (MPI_Info_create).

        Args:
            items: pairs to set in it.

        Returns:
            The Info.

        Raises:
            InvalidInfoKeyError, InvalidInfoValueError: a key or a value is too long.
        """
        info = cls._denote(_Pairs())
        if items is not None:
            info.update(items)
        return info

    @classmethod
    def Create_env(cls, args: Sequence[str] | None = None) -> Self:
        """Create an info that says how this process was started, like INFO_ENV (MPI_Info_create_env, MPI-4).

        Args:
            args: command line; by default the one of this process.

        Returns:
            The Info.
        """
        if isinstance(args, str):
            args = [args]
        return cls._denote(_Pairs(_environment(sys.argv if args is None else args)))

    def Dup(self) -> Self:
        """Return a new info with the same content (MPI_Info_dup).

        Returns:
            The copy.

        Raises:
            InvalidInfoError: the handle is null.
        """
        return self._denote(_Pairs(self._content("Dup")))

    def Free(self) -> None:
        """Make the handle null (MPI_Info_free).

        Raises:
            InvalidInfoError: the handle is null or predefined.
        """
        self._content("Free")
        if self._constant:
            raise InvalidInfoError("Info.Free: INFO_ENV is predefined and cannot be freed")
        self._denoted = None

    def Get(self, key: str) -> str | None:
        """Return the value of a key, None if there is no such key (MPI_Info_get).

        Args:
            key: the key.

        Returns:
            The value; None if there is none.

        Raises:
            InvalidInfoError: the handle is null.
            InvalidInfoKeyError: the key is empty or too long.
        """
        return self._content("Get").get(_check_key(key))

    def Set(self, key: str, value: str) -> None:
        """Set the value of a key (MPI_Info_set).

        Args:
            key: 1..MAX_INFO_KEY characters.
            value: at most MAX_INFO_VAL characters.

        Raises:
            InvalidInfoError: the handle is null, or INFO_ENV.
            InvalidInfoKeyError, InvalidInfoValueError: the length of the key or of the value is not allowed.
        """
        pairs = self._changeable("Set")
        if len(text(value, "value of an info")) > MAX_INFO_VAL:
            raise InvalidInfoValueError(f"a value of {len(value)} characters for {key!r}: {MAX_INFO_VAL} are allowed")
        pairs[_check_key(key)] = value

    def Delete(self, key: str) -> None:
        """Remove a key and its value (MPI_Info_delete).

        Args:
            key: the key.

        Raises:
            InvalidInfoError: the handle is null, or INFO_ENV.
            InfoNoKeyError: there is no such key.
        """
        if self._changeable("Delete").pop(_check_key(key), None) is None:
            raise InfoNoKeyError(f"Info.Delete: there is no key {key!r}; there are {', '.join(self.keys()) or 'none'}")

    def Get_nkeys(self) -> int:
        """Return the number of keys (MPI_Info_get_nkeys).

        Returns:
            The number.
        """
        return len(self._content("Get_nkeys"))

    def Get_nthkey(self, n: int) -> str:
        """Return the n-th key, counted from 0 in the order in which keys were set (MPI_Info_get_nthkey).

        Args:
            n: 0..Get_nkeys() - 1.

        Returns:
            The key.

        Raises:
            InvalidInfoError: the handle is null.
            InvalidArgumentError: there are not that many keys.
        """
        keys = list(self._content("Get_nthkey"))
        n = integer(n, "Get_nthkey: n")
        if not 0 <= n < len(keys):
            raise InvalidArgumentError(f"Info.Get_nthkey: {n} is not in 0..{len(keys) - 1}")
        return keys[n]

    def _content(self, call: str) -> _Pairs:
        """Return the object that the handle denotes.

        Raises:
            InvalidInfoError: the handle is null.
        """
        if self._denoted is None:
            raise InvalidInfoError(f"Info.{call}: the info is null; use Info.Create to get one")
        if isinstance(self._denoted, _Environment) and not self._denoted:
            self._denoted.update(_environment(sys.argv))
        return self._denoted

    def _changeable(self, call: str) -> _Pairs:
        pairs = self._content(call)
        if isinstance(pairs, _Environment):
            raise InvalidInfoError(f"Info.{call}: INFO_ENV cannot be changed; change a duplicate")
        return pairs

    # A mapping, empty for a null handle.

    def __len__(self) -> int:
        return self.Get_nkeys() if self else 0

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: str) -> bool:
        return bool(self) and self.Get(key) is not None

    def __getitem__(self, key: str) -> str:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: str) -> None:
        if not self:
            raise KeyError(key)
        self.Set(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self.Delete(key)

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the value of a key, or the default.

        Args:
            key: the key.
            default: returned if there is no such key.

        Returns:
            The value, or the default.
        """
        value = self.Get(key) if self else None
        return default if value is None else value

    def keys(self) -> list[str]:
        """Return all keys, in the order in which they were set.

        Returns:
            The keys.
        """
        return list(self._content("keys")) if self else []

    def values(self) -> list[str]:
        """Return all values, in the order of the keys.

        Returns:
            The values.
        """
        return list(self._content("values").values()) if self else []

    def items(self) -> list[tuple[str, str]]:
        """Return all pairs, in the order of the keys.

        Returns:
            Pairs (key, value).
        """
        return list(self._content("items").items()) if self else []

    def update(self, items: Items = (), **kwds: str) -> None:
        """Set several keys.

        Args:
            items: a mapping, an Info, or pairs (key, value).
            kwds: more items.

        Raises:
            KeyError: the handle is null.
        """
        if not self:
            raise KeyError("the info is null")
        pairs = [*_pairs_of(items), *kwds.items()]
        for key, value in pairs:
            self.Set(key, value)

    def pop(self, key: str, *default: str | None) -> str | None:
        """Remove a key. Return its value, or the default.

        Args:
            key: the key.
            default: returned if there is no such key.

        Returns:
            The value, or the default.

        Raises:
            KeyError: there is no such key and no default.
        """
        if key in self:
            value = self[key]
            self.Delete(key)
            return value
        if not default:
            raise KeyError(key)
        (value_by_default,) = default
        return value_by_default

    def popitem(self) -> tuple[str, str]:
        """Remove the key that was set last. Return the key and its value.

        Returns:
            (key, value).

        Raises:
            KeyError: the info is empty or null.
        """
        if not self.keys():
            raise KeyError("the info is empty")
        key, value = self.items()[-1]
        self.Delete(key)
        return key, value

    def copy(self) -> Self:
        """Return a new info with the same content, or a null handle for a null handle.

        Returns:
            The copy.
        """
        return self.Dup() if self else type(self)()

    def clear(self) -> None:
        """Remove all keys."""
        for key in self.keys():
            self.Delete(key)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle the content, or the name of a predefined handle."""
        return self._reduce_constant() or (type(self).Create, (self.items(),))

    def __repr__(self) -> str:
        return f"<Info {dict(self.items())}>" if self else "<Info null>"


def _check_key(key: str) -> str:
    if not 0 < len(text(key, "key of an info")) <= MAX_INFO_KEY:
        raise InvalidInfoKeyError(f"a key of an info has 1..{MAX_INFO_KEY} characters, and not {len(key)}")
    return key


def _pairs_of(items: Items) -> list[tuple[str, str]]:
    if isinstance(items, Info | Mapping):
        return list(items.items())
    return [(key, value) for key, value in several(items, "items", "pairs")]


def _environment(args: Sequence[str]) -> dict[str, str]:
    """Return the reserved keys of MPI whose values this process knows, without empty and too long values."""
    command, *argv = args or [""]
    known = {"command": command, "argv": " ".join(argv), "arch": os.uname().machine, "wdir": os.getcwd()}
    return {key: value for key, value in known.items() if 0 < len(value) <= MAX_INFO_VAL}


INFO_NULL: Final = Info()
INFO_ENV: Final = Info._denote(_Environment())

Info._constants = {"INFO_NULL": INFO_NULL, "INFO_ENV": INFO_ENV}
