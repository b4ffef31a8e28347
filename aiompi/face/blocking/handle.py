"""Handles of communicators of the blocking face: how a call finds the rank of its process, and waits."""

from __future__ import annotations

from sys import modules
from typing import ClassVar, Self, TypeVar

from aiompi.base.opaque import NumberedByHandle
from aiompi.comm import Communicator
from aiompi.comm.null import NULL
from aiompi.driver.threads import ASYNCIO_EVENTS, get_ident, loop_is_running
from aiompi.engine import Request
from aiompi.face.blocking.process import check_running_loop, process, wait
from aiompi.face.common import CommunicatorHandle

T = TypeVar("T")


class Handle(CommunicatorHandle, NumberedByHandle):
    """A handle of a communicator.

    The class has no `__getattr__`, with which every lookup of an attribute or a method would take at least three times
    as long.

    Args:
        comm: the communicator to which the new handle refers; None for a null handle.
    """

    __slots__ = ("_core", "_predefined")

    _gated: ClassVar[bool] = True
    _kind = Communicator
    _core: Communicator
    _predefined: str

    def __new__(cls, comm: Handle | None = None) -> Self:
        self = super().__new__(cls)
        if comm is None:
            self._predefined = ""
            self._core = NULL
        elif not isinstance(comm, Handle) or (comm and not self._suits(comm)):
            raise TypeError(f"{comm!r} is of type {type(comm).__name__}, and not what {cls.__name__} is a handle of")
        else:
            self._hold(comm._core)
        return self

    @classmethod
    def _suits(cls, comm: Handle) -> bool:
        """Return True if handles of this class can denote the communicator."""
        return True

    @property
    def _denoted(self) -> Communicator | None:
        return self._core if self else None

    @classmethod
    def _denote(cls, denoted: Communicator) -> Self:
        return cls()._hold(denoted)

    @classmethod
    def _named(cls, predefined: str) -> Self:
        """Return the handle of a predefined communicator.

        `predefined` is the name of the communicator in the runtime, where the first use of the handle looks it up.
        """
        handle = super().__new__(cls)
        handle._predefined = predefined
        return handle

    def _hold(self, core: Communicator) -> Self:
        """Be a handle of this communicator."""
        self._predefined = ""
        self._core = core
        return self

    @property
    def _admitted(self) -> Communicator:
        return self._core.admitted()

    def _entered(self, call: str) -> Communicator:
        """Return the communicator for a call that blocks: `_admitted` and `check_running_loop` in one step.

        The shortest calls check for a running event loop themselves, and call this method only if there is one. The
        core checks the thread.

        Args:
            call: the same call in the asyncio face, such as "Bcast(buf, root)".
        """
        if ASYNCIO_EVENTS in modules and loop_is_running():  # this look at the modules takes less time than a call
            check_running_loop(f"Comm.{call.partition('(')[0]}", f"await comm.{call}")
        core = self._core
        if get_ident() != process.driver.owner:
            process.check_thread()
        return core

    def _become_null(self, core: Communicator) -> None:
        """Make the handle null.

        Args:
            core: null communicator, which says in errors why the handle is null.
        """
        self._predefined = ""
        self._core = core

    def __bool__(self) -> bool:
        return bool(self._predefined) or super().__bool__()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Handle) and (self._predefined or other._predefined):
            if self._predefined and other._predefined:
                return self._predefined == other._predefined
            return bool(self and other) and self._core is other._core
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def _finish(self, request: Request[T]) -> T:
        if not request._done and not request.spin():
            wait(request)
        return request.result()
