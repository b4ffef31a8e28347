"""Persistent requests (section 3.9) and generalized requests (MPI-3.1, section 12.2) of the blocking face."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from aiompi.base.arguments import integer, several
from aiompi.comm.partitioned import PartitionedReceive, PartitionedSend
from aiompi.engine import GeneralizedRequest, PersistentRequest
from aiompi.engine import Request as EngineRequest
from aiompi.errors import InvalidRequestError
from aiompi.face.blocking.process import process
from aiompi.face.blocking.requests import Request, T


class Prequest(Request[T]):
    """A persistent request (section 3.9): inactive until it is started, and again after its completion."""

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
            InvalidRequestError: the request is null, or active: started, and not completed by a Wait or Test.
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
            InvalidRequestError: a request cannot be started; the requests before it have been started.
        """
        for request in several(requests, "requests", "persistent requests"):
            if not isinstance(request, Prequest):
                raise InvalidRequestError(f"Prequest.Startall: {request!r} is not persistent")
            request.Start()

    def Free(self) -> None:
        """Make the request null; see `Request.Free` (MPI_Request_free, section 3.9).

        Raises:
            InvalidRequestError: the request is null, or partitioned and active.
        """
        if isinstance(self._core, PartitionedSend | PartitionedReceive):
            self._core.refuse_active("Free")
        super().Free()

    # Partitioned communication (MPI-4.1, section 4.2).

    def Pready(self, partition: int) -> None:
        """Send a partition, which must not be changed from now on (MPI_Pready, MPI-4).

        Any thread that may make MPI calls (`Init_thread`) may make this call.

        Args:
            partition: number of the partition, 0 or above. A run sends each partition once.

        Raises:
            InvalidRequestError: the request is not of a partitioned send, or has not been started.
            InvalidArgumentError: there is no such partition, or it is ready already.
        """
        self._sending("Pready").ready(partition)

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        """Send the partitions from one to another; see `Pready` (MPI_Pready_range, MPI-4).

        Args:
            partition_low: number of the first partition.
            partition_high: number of the last partition.

        Raises:
            InvalidRequestError: the request is not of a partitioned send, or has not been started.
            InvalidArgumentError: a partition does not exist or is ready already; then no partition is sent.
        """
        low, high = integer(partition_low, "Pready_range: low"), integer(partition_high, "Pready_range: high")
        self._sending("Pready_range").ready(*range(low, high + 1))

    def Pready_list(self, partitions: Sequence[int]) -> None:
        """Send several partitions; see `Pready` (MPI_Pready_list, MPI-4).

        Args:
            partitions: numbers of the partitions.

        Raises:
            InvalidRequestError: the request is not of a partitioned send, or has not been started.
            InvalidArgumentError: a partition does not exist, is ready already or is listed twice; then no partition is
                sent.
        """
        self._sending("Pready_list").ready(*several(partitions, "partitions", "numbers"))

    def Parrived(self, partition: int) -> bool:
        """Test whether a partition has arrived, and may be used (MPI_Parrived, MPI-4).

        Args:
            partition: number of the partition, 0 or above. The sender may have another number of partitions.

        Returns:
            True if the partition has arrived, or the request is null or inactive.

        Raises:
            InvalidRequestError: the request is not of a partitioned receive.
            InvalidArgumentError: there is no such partition.
            MPIError: the receive failed.
        """
        core = self._core
        if core is None:
            return True
        if not isinstance(core, PartitionedReceive):
            raise InvalidRequestError(f"Prequest.Parrived: {self!r} is not of a partitioned receive")
        process.check_thread()
        arrival = core.arrived(partition)
        if not arrival.done():
            process.driver.poll()
            if not arrival.done():
                return False
        arrival.result()
        return True

    def _sending(self, call: str) -> PartitionedSend:
        core = self._core
        if not isinstance(core, PartitionedSend):
            raise InvalidRequestError(f"Prequest.{call}: {self!r} is not of a partitioned send")
        process.check_thread()
        return core


class Grequest(Request[Any]):
    """An operation of the program, which the program waits for and tests together with operations of MPI."""

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
            free_fn: called with (*args, **kwargs) when the request is not needed any more.
            cancel_fn: called with (completed, *args, **kwargs) when the request is cancelled.
            args: arguments of these functions.
            kwargs: keyword arguments of these functions.
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
        """Complete the operation with an object, which `wait` and `test` return (MPI_Grequest_complete).

        Args:
            obj: a Python object.

        Raises:
            InvalidRequestError: the request is null, or complete already.
        """
        process.check_thread()
        if self._core is None or self._core.done():
            state = "complete already" if self else "MPI_REQUEST_NULL"
            raise InvalidRequestError(f"Grequest.Complete: the request is {state}")
        self._core.complete(obj)
