"""Partitioned communication (chapter 4 of MPI-4.1), the same in both faces."""

from __future__ import annotations

from typing import Generic, TypeVar

from aiompi.comm.partitioned import PartitionedReceive, PartitionedSend, precv_init, psend_init
from aiompi.face.common import CommunicatorHandle, hints
from aiompi.info import INFO_NULL, Info
from aiompi.typing import BufSpec

#: classes of the partitioned requests of a face
Sending = TypeVar("Sending")
Receiving = TypeVar("Receiving")


class Partitions(CommunicatorHandle, Generic[Sending, Receiving]):
    """The partitioned messages of a communicator."""

    __slots__ = ()

    def Psend_init(self, buf: BufSpec, partitions: int, dest: int, tag: int = 0, info: Info = INFO_NULL) -> Sending:
        """Bind the arguments of a send whose partitions are sent as they become ready (MPI_Psend_init, MPI-4).

        The send matches the next `Precv_init` of the other rank for this rank, tag and communicator. The other rank may
        divide the same total length into another number of partitions.

        Args:
            buf: a buffer specification of all partitions, which have equal lengths. A count in it is the count of one
                partition.
            partitions: number of partitions, 1 or above.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request. `Pready`, in the asyncio face `ready`, sends partitions after a start.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidArgumentError, InvalidRankError, InvalidTagError: an argument is out of range.
            NotImplementedError: the communicator spans IMPI clients.
        """
        hints(info)
        return self._bound_send(psend_init(self._admitted, buf, partitions, dest, tag))

    def Precv_init(self, buf: BufSpec, partitions: int, source: int, tag: int = 0, info: Info = INFO_NULL) -> Receiving:
        """Bind the arguments of a receive whose partitions can be used as they arrive (MPI_Precv_init, MPI-4).

        The receive matches the next `Psend_init` of the other rank for this rank, tag and communicator.

        Args:
            buf: a buffer specification of all partitions, which have equal lengths. A count in it is the count of one
                partition.
            partitions: number of partitions, 1 or above.
            source: rank, or PROC_NULL; not ANY_SOURCE.
            tag: 0..TAG_UB; not ANY_TAG.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request. `Parrived`, in the asyncio face `arrived`, says which partitions are there.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidArgumentError, InvalidRankError, InvalidTagError: an argument is out of range.
            NotImplementedError: the communicator spans IMPI clients.
        """
        hints(info)
        return self._bound_receive(precv_init(self._admitted, buf, partitions, source, tag))

    def _bound_send(self, request: PartitionedSend) -> Sending:
        """Return the request as one of the face."""
        raise NotImplementedError

    def _bound_receive(self, request: PartitionedReceive) -> Receiving:
        """Return the request as one of the face."""
        raise NotImplementedError
