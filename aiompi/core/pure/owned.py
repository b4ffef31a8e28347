"""The await of an operation that belongs to the awaiting code."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar

from aiompi.core.pure.request import Request

T_co = TypeVar("T_co", covariant=True)


class OwnedBase(Generic[T_co]):
    """An operation as the asyncio face awaits it; see `aiompi.engine.owned.Owned`."""

    __slots__ = ("_name", "_request", "_steps")

    def __init__(self, request: Request[T_co], name: str = "operation") -> None:
        self._request: Request[T_co] | None = request
        self._steps: Generator[Any, None, T_co] | None = None
        self._name = name

    @property
    def __name__(self) -> str:
        """The name by which tools show the operation."""
        return self._name

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._wait()

    def _wait(self) -> Generator[Any, None, T_co]:
        """Wait step by step."""
        raise NotImplementedError
