"""How a communicator of the blocking face finds the rank of its process, and waits."""

from __future__ import annotations

from typing import Any, TypeVar

from aiompi.comm import Communicator
from aiompi.driver.blocking import BlockingDriver
from aiompi.engine import Request
from aiompi.face.blocking.process import process
from aiompi.face.common import Membership

T = TypeVar("T")


class Handle(Membership):
    """A predefined communicator; the first use of it initialises.

    Args:
        predefined: its name in the runtime.
    """

    __slots__ = ("_core", "_driver", "_predefined")

    def __init__(self, predefined: str) -> None:
        self._predefined = predefined

    def __getattr__(self, name: str) -> Any:
        if name not in ("_core", "_driver"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        runtime = process.runtime
        self._core: Communicator = getattr(runtime, self._predefined)
        self._driver: BlockingDriver = process.driver
        return getattr(self, name)

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
