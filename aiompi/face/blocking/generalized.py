"""Generalized requests of the blocking face (MPI-3.1, section 12.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from aiompi.engine import GeneralizedRequest
from aiompi.errors import InvalidRequestError
from aiompi.face.blocking.process import process
from aiompi.face.blocking.requests import Request


class Grequest(Request[Any]):
    """An operation of the program, which is waited for and tested together with those of MPI."""

    __slots__ = ()

    _kind: ClassVar[type] = GeneralizedRequest
    _core: GeneralizedRequest | None

    @classmethod
    def Start(
        cls,
        query_fn: Callable[..., object] | None = None,
        free_fn: Callable[..., object] | None = None,
        cancel_fn: Callable[..., object] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Grequest:
        """A new operation, which is active until `Complete` (MPI_Grequest_start).

        Args:
            query_fn: called with (status, *args, **kwargs) when the request is completed; fills the status.
            free_fn: called with (*args, **kwargs) when it is not needed any more.
            cancel_fn: called with (completed, *args, **kwargs) when it is cancelled.
            args, kwargs: arguments of these functions.
        """
        engine = process.runtime.engine
        return cls._denote(GeneralizedRequest(engine, query_fn, free_fn, cancel_fn, args or (), kwargs or {}))

    def Complete(self) -> None:
        """Tell that the operation is complete (MPI_Grequest_complete).

        Raises:
            InvalidRequestError: the request is null, or complete already.
        """
        self.complete()

    def complete(self, obj: object = None) -> None:
        """As `Complete`; `wait` and `test` give the object."""
        process.admit()
        if self._core is None or self._core.done():
            state = "complete already" if self else "MPI_REQUEST_NULL"
            raise InvalidRequestError(f"Grequest.Complete: the request is {state}")
        self._core.complete(obj)
