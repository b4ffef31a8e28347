"""Packing and unpacking, as methods of the datatype (section 3.13; 4.2 and 4.3 of MPI-3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aiompi.datatype.handle import Handle

if TYPE_CHECKING:
    from aiompi.datatype.datatype import Datatype


class Packing(Handle):
    """Methods that move items of the type between memory and packing units.

    Arguments, results and errors are those of the functions of `aiompi.datatype.pack`.
    """

    __slots__ = ()

    def Pack(self, inbuf: object, outbuf: object, position: int, comm: object = None) -> int:
        """Append items to a packing unit (MPI_Pack).

        Args:
            inbuf: buffer of the items; without a count, as many whole items as it holds.
            outbuf: memory of the packing unit.
            position: bytes of `outbuf` that are in use; 0 begins a unit.
            comm: communicator over which the unit will be sent, or None.

        Returns:
            The new position.
        """
        from aiompi.datatype.pack import pack

        return pack(cast("Datatype", self), inbuf, outbuf, position, comm)

    def Unpack(self, inbuf: object, position: int, outbuf: object, comm: object = None) -> int:
        """Take items out of a packing unit (MPI_Unpack).

        Args:
            inbuf: memory of the packing unit.
            position: where the items begin in it, in bytes.
            outbuf: buffer of the items; it is filled.
            comm: communicator over which the unit was received, or None.

        Returns:
            The position after the items.
        """
        from aiompi.datatype.pack import unpack

        return unpack(cast("Datatype", self), inbuf, position, outbuf, comm)

    def Pack_size(self, count: int, comm: object = None) -> int:
        """Bytes that packing `count` items takes, at most (MPI_Pack_size)."""
        from aiompi.datatype.pack import pack_size

        return pack_size(cast("Datatype", self), count, comm)

    def Pack_external(self, datarep: str, inbuf: object, outbuf: object, position: int) -> int:
        """Append items in the representation "external32" (MPI_Pack_external).

        Args:
            datarep: "external32".
            inbuf, outbuf, position: as for `Pack`.

        Returns:
            The new position.
        """
        from aiompi.datatype.pack import pack_external

        return pack_external(cast("Datatype", self), datarep, inbuf, outbuf, position)

    def Unpack_external(self, datarep: str, inbuf: object, position: int, outbuf: object) -> int:
        """Take items in the representation "external32" out of a packing unit (MPI_Unpack_external).

        Args:
            datarep: "external32".
            inbuf, position, outbuf: as for `Unpack`.

        Returns:
            The position after the items.
        """
        from aiompi.datatype.pack import unpack_external

        return unpack_external(cast("Datatype", self), datarep, inbuf, position, outbuf)

    def Pack_external_size(self, datarep: str, count: int) -> int:
        """Bytes that `count` items take in the representation "external32" (MPI_Pack_external_size)."""
        from aiompi.datatype.pack import pack_external_size

        return pack_external_size(cast("Datatype", self), datarep, count)
