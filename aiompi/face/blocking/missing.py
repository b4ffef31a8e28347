"""Classes, calls and constants of parts of MPI that aiompi does not have.

Programs name them at import, compare handles with their null handles, or try calls. All names are there as in mpi4py,
and every call raises NotImplementedError with its name.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

from aiompi.base.opaque import Opaque, same_kind
from aiompi.face.absent import WINDOWS, absent

__all__ = [
    "LOCK_EXCLUSIVE", "LOCK_SHARED", "MODE_NOCHECK", "MODE_NOPRECEDE", "MODE_NOPUT", "MODE_NOSTORE", "MODE_NOSUCCEED",
    "WIN_BASE", "WIN_CREATE_FLAVOR", "WIN_DISP_UNIT", "WIN_FLAVOR", "WIN_FLAVOR_ALLOCATE", "WIN_FLAVOR_CREATE",
    "WIN_FLAVOR_DYNAMIC", "WIN_FLAVOR_SHARED", "WIN_MODEL", "WIN_NULL", "WIN_SEPARATE", "WIN_SIZE", "WIN_UNIFIED",
    "Win",
]  # fmt: skip


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class _Missing(type):
    """Metaclass of classes whose calls are all missing; it finds them by name."""

    _calls: frozenset[str]
    _attributes: frozenset[str]
    _part: str

    def __getattr__(cls, name: str) -> Any:
        if name not in cls._calls | cls._attributes:
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return absent(f"{cls.__name__}.{name}", cls._part)

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *cls._calls, *cls._attributes})


class _Kind(Opaque, metaclass=_Missing):
    """Handles of a kind of objects of which there are none, so that all of them are null."""

    __slots__ = ()

    _kind: ClassVar[type] = type(None)
    _calls: ClassVar[frozenset[str]] = frozenset()
    _attributes: ClassVar[frozenset[str]] = frozenset()

    def __new__(cls, other: Opaque | None = None) -> Self:
        if other is not None:
            same_kind(cls._root(), other)
        return super().__new__(cls)

    @classmethod
    def _root(cls) -> type:
        """Return the class of this module of which a class of the program is a subclass."""
        return cls.__mro__[cls.__mro__.index(_Kind) - 1]

    @property
    def _denoted(self) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return True if isinstance(other, self._root()) else NotImplemented

    __hash__ = None

    def free(self) -> None:
        """Do nothing, since the handle is null."""

    def __getattr__(self, name: str) -> Any:
        if name in self._attributes:
            getattr(type(self), name)()
        if name not in self._calls:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(type(self), name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} null>"


class Win(_Kind):
    """Memory for one-sided communication; there is none."""

    __slots__ = ()

    _part = WINDOWS
    _calls = _names(
        """Create Allocate Allocate_shared Create_dynamic Shared_query Attach Detach Free Set_info Get_info
        Get_group Get_attr Set_attr Delete_attr Create_keyval Free_keyval tomemory Put Get Accumulate
        Get_accumulate Fetch_and_op Compare_and_swap Rput Rget Raccumulate Rget_accumulate Fence Start
        Complete Post Wait Test Lock Unlock Lock_all Unlock_all Flush Flush_all Flush_local Flush_local_all
        Sync Create_errhandler Get_errhandler Set_errhandler Call_errhandler Get_name Set_name"""
    )
    _attributes = _names("info group group_size group_rank attrs flavor model name")

    def __new__(cls, win: Win | None = None) -> Self:
        return super().__new__(cls, win)


WIN_NULL: Final = Win()

_Kind._constants = {"WIN_NULL": WIN_NULL}

# Values are ours: nothing takes them but calls that are missing.
WIN_BASE: Final = 7
WIN_SIZE: Final = 8
WIN_DISP_UNIT: Final = 9
WIN_CREATE_FLAVOR: Final = 10
WIN_FLAVOR: Final = WIN_CREATE_FLAVOR
WIN_MODEL: Final = 11
WIN_FLAVOR_CREATE: Final = 1
WIN_FLAVOR_ALLOCATE: Final = 2
WIN_FLAVOR_DYNAMIC: Final = 3
WIN_FLAVOR_SHARED: Final = 4
WIN_SEPARATE: Final = 1
WIN_UNIFIED: Final = 2
LOCK_EXCLUSIVE: Final = 1
LOCK_SHARED: Final = 2
MODE_NOCHECK: Final = 1
MODE_NOSTORE: Final = 2
MODE_NOPUT: Final = 4
MODE_NOPRECEDE: Final = 8
MODE_NOSUCCEED: Final = 16
