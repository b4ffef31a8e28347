"""Persistent requests (section 3.9) and generalized requests (MPI-3.1, section 12.2) of the blocking face."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from aiompi.base.arguments import several
from aiompi.engine import GeneralizedRequest, PersistentRequest
from aiompi.engine import Request as EngineRequest
from aiompi.errors import InvalidRequestError
from aiompi.face.absent import PARTITIONED, absent
from aiompi.face.blocking.process import process
from aiompi.face.blocking.requests import Request, T


class Prequest(Request[T]):
    """A persistent request (section 3.9): inactive until it is started, and again once it has been completed."""

    __slots__ = ()

    _kind: ClassVar[type] = PersistentRequest
    _core: PersistentRequest[T] | None

    @property
    def _active(self) -> EngineRequest[T] | None:
        return self._core if self._core is not None and self._core.started else None

    def _deactivate(self) -> None:
        if self._core is not None:
            self._core.forget_operation()

    def Start(self) -> None:
        """Start the operation (MPI_Start, section 3.9).

        Raises:
            InvalidRequestError: it is null, or active: started, and not completed by a Wait or Test.
        """
        if self._core is None or self._core.started:
            state = "MPI_REQUEST_NULL" if self._core is None else "active: complete it by Wait or Test first"
            raise InvalidRequestError(f"Prequest.Start: the request is {state}")
        process.check_thread()
        self._core.start()

    @classmethod
    def Startall(cls, requests: Iterable[Prequest[Any]]) -> None:
        """Start several requests, in their order (MPI_Startall, section 3.9).

        Args:
            requests: a sequence of requests.

        Raises:
            InvalidRequestError: one cannot be started; those before it have been.
        """
        for request in several(requests, "requests", "persistent requests"):
            if not isinstance(request, Prequest):
                raise InvalidRequestError(f"Prequest.Startall: {request!r} is not persistent")
            request.Start()

    Pready = absent("Prequest.Pready", PARTITIONED)
    Pready_range = absent("Prequest.Pready_range", PARTITIONED)
    Pready_list = absent("Prequest.Pready_list", PARTITIONED)
    Parrived = absent("Prequest.Parrived", PARTITIONED)


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
        """Start an operation, which is active until `Complete` (MPI_Grequest_start).

        Args:
            query_fn: called with (status, *args, **kwargs) when the request is completed; fills the status.
            free_fn: called with (*args, **kwargs) when it is not needed any more.
            cancel_fn: called with (completed, *args, **kwargs) when it is cancelled.
            args: arguments of these functions.
            kwargs: arguments of these functions.

        Raises:
            InvalidRequestError: the request is null, or complete already.
        """
        engine = process.runtime.engine
        return cls._denote(GeneralizedRequest(engine, query_fn, free_fn, cancel_fn, args or (), kwargs or {}))

    def Complete(self) -> None:
        """Complete the operation (MPI_Grequest_complete).

        Raises:
            InvalidRequestError: the request is null, or complete already.
        """
        self.complete()

    def complete(self, obj: object = None) -> None:
        """Complete the operation with an object, which `wait` and `test` return; see `Complete` (MPI_Wait, section
        3.7.3).

        Args:
            obj: a Python object.

        Raises:
            MPIError: the operation failed.
        """
        process.check_thread()
        if self._core is None or self._core.done():
            state = "complete already" if self else "MPI_REQUEST_NULL"
            raise InvalidRequestError(f"Grequest.Complete: the request is {state}")
        self._core.complete(obj)
