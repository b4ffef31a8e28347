"""The names of MPI-1.1 that were replaced later (sections 3.12.1 to 3.12.3).

They do what their replacements do; types that they made have the combiners of those.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.datatype.arguments import Numbers
from aiompi.datatype.buffer.address import Get_address
from aiompi.datatype.datatype import Datatype

__all__ = ["Address", "Type_extent", "Type_hindexed", "Type_hvector", "Type_lb", "Type_struct", "Type_ub"]


def Address(location: object) -> int:
    """Address of a buffer: `Get_address` (MPI_Address)."""
    return Get_address(location)


def Type_hvector(count: int, blocklength: int, stride: int, oldtype: Datatype) -> Datatype:
    """Blocks at equal distances in bytes: `Datatype.Create_hvector` (MPI_Type_hvector)."""
    return oldtype.Create_hvector(count, blocklength, stride)


def Type_hindexed(blocklengths: Numbers, displacements: Numbers, oldtype: Datatype) -> Datatype:
    """Blocks at displacements in bytes: `Datatype.Create_hindexed` (MPI_Type_hindexed)."""
    return oldtype.Create_hindexed(blocklengths, displacements)


def Type_struct(blocklengths: Numbers, displacements: Numbers, types: Sequence[Datatype]) -> Datatype:
    """Blocks of different types, LB and UB among them: `Datatype.Create_struct` (MPI_Type_struct)."""
    return Datatype.Create_struct(blocklengths, displacements, types)


def Type_extent(datatype: Datatype) -> int:
    """Bytes from one item to the next: `Datatype.Get_extent` (MPI_Type_extent)."""
    return datatype.Get_extent()[1]


def Type_lb(datatype: Datatype) -> int:
    """Lower bound in bytes: `Datatype.Get_extent` (MPI_Type_lb)."""
    return datatype.Get_extent()[0]


def Type_ub(datatype: Datatype) -> int:
    """Upper bound in bytes: the sum of what `Datatype.Get_extent` gives (MPI_Type_ub)."""
    return sum(datatype.Get_extent())
