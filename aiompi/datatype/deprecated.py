"""Functions of MPI-1.1 that later versions replaced (sections 3.12.1 to 3.12.3).

The functions call their replacements. So the types that they make have the combiners of the replacements.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.datatype.arguments import Numbers
from aiompi.datatype.buffer.address import Get_address
from aiompi.datatype.datatype import Datatype

__all__ = ["Address", "Type_extent", "Type_hindexed", "Type_hvector", "Type_lb", "Type_struct", "Type_ub"]


def Address(location: object) -> int:
    """Return the address of a buffer: `Get_address` (MPI_Address).

    Args:
        location: an object with the buffer protocol.

    Returns:
        The address.
    """
    return Get_address(location)


def Type_hvector(count: int, blocklength: int, stride: int, oldtype: Datatype) -> Datatype:
    """Make a type of blocks at equal distances in bytes: `Datatype.Create_hvector` (MPI_Type_hvector).

    Args:
        count: number of blocks.
        blocklength: items of each block.
        stride: bytes from the beginning of a block to the beginning of the next block.
        oldtype: type of the items.

    Returns:
        The new datatype.
    """
    return oldtype.Create_hvector(count, blocklength, stride)


def Type_hindexed(blocklengths: Numbers, displacements: Numbers, oldtype: Datatype) -> Datatype:
    """Make a type of blocks at displacements in bytes: `Datatype.Create_hindexed` (MPI_Type_hindexed).

    Args:
        blocklengths: items of each block.
        displacements: bytes from the beginning to each block.
        oldtype: type of the items.

    Returns:
        The new datatype.
    """
    return oldtype.Create_hindexed(blocklengths, displacements)


def Type_struct(blocklengths: Numbers, displacements: Numbers, types: Sequence[Datatype]) -> Datatype:
    """Make a type of blocks of different types, also LB and UB: `Datatype.Create_struct` (MPI_Type_struct).

    Args:
        blocklengths: items of each block.
        displacements: bytes from the beginning to each block.
        types: type of the items of each block.

    Returns:
        The new datatype.
    """
    return Datatype.Create_struct(blocklengths, displacements, types)


def Type_extent(datatype: Datatype) -> int:
    """Return the bytes from one item to the next: `Datatype.Get_extent` (MPI_Type_extent).

    Args:
        datatype: a datatype.

    Returns:
        The extent in bytes.
    """
    return datatype.Get_extent()[1]


def Type_lb(datatype: Datatype) -> int:
    """Return the lower bound in bytes: `Datatype.Get_extent` (MPI_Type_lb).

    Args:
        datatype: a datatype.

    Returns:
        The lower bound in bytes.
    """
    return datatype.Get_extent()[0]


def Type_ub(datatype: Datatype) -> int:
    """Return the upper bound in bytes: the sum of the results of `Datatype.Get_extent` (MPI_Type_ub).

    Args:
        datatype: a datatype.

    Returns:
        The upper bound in bytes.
    """
    return sum(datatype.Get_extent())
