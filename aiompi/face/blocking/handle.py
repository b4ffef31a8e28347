"""How a communicator of the blocking face finds the rank of its process, and waits."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from aiompi.comm import Communicator
from aiompi.comm.null import NULL
from aiompi.driver.blocking import BlockingDriver, get_ident
from aiompi.engine import Request
from aiompi.face.blocking.process import process
from aiompi.face.common import Membership

T = TypeVar("T")
H = TypeVar("H", bound="Handle")


class Handle(Membership):
    """A handle of a communicator; the first use of a predefined one initialises.

    Args:
        comm: to be another handle of; None for a null handle.
    """

    __slots__ = ("_core", "_driver", "_predefined")

    _gated: ClassVar[bool] = True

    _core: Communicator
    _driver: BlockingDriver
    _predefined: str

    def __init__(self, comm: Handle | None = None) -> None:
        self._predefined = "" if comm is None else comm._predefined
        if comm is None:
            self._core = NULL
        elif not comm._predefined:
            self._hold(comm._core)

    @classmethod
    def _named(cls: type[H], predefined: str) -> H:
        """A predefined communicator, by its name in the runtime."""
        handle = cls.__new__(cls)
        handle._predefined = predefined
        return handle

    def _hold(self: H, core: Communicator) -> H:
        """Be a handle of this communicator."""
        self._predefined = ""
        self._core = core
        self._driver = process.driver
        return self

    @property
    def _admitted(self) -> Communicator:
        """The communicator, for a call: only threads that may make it get it."""
        core = self._core
        if get_ident() != process.owner:
            process.admit()
        return core

    def __getattr__(self, name: str) -> Any:
        if name not in ("_core", "_driver"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        runtime = process.runtime
        if self._predefined:
            self._core = getattr(runtime, self._predefined)
        self._driver = process.driver
        return getattr(self, name)

    def __bool__(self) -> bool:
        return bool(self._predefined) or super().__bool__()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Handle) and (self._predefined or other._predefined):
            return self._predefined == other._predefined
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash(self._predefined) if self._predefined else super().__hash__()

    def _finish(self, request: Request[T]) -> T:
        if not request._done:
            self._wait(request)
        return request.result()

    def _wait(self, request: Request[Any]) -> None:
        """Wait for an operation that belongs to the call: when a signal handler raises, nothing of it stays behind."""
        try:
            self._driver.finish(request)
        except BaseException:
            request.withdraw()
            raise
