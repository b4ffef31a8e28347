"""Types of the arguments of communication, with the names of mpi4py.typing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from aiompi.datatype import Datatype
    from aiompi.datatype.buffer.address import Bottom as BottomType
    from aiompi.datatype.buffer.constant import InPlace as InPlaceType

__all__ = [
    "Aint", "Bottom", "BufSpec", "BufSpecB", "BufSpecV", "BufSpecW", "Buffer", "Count", "Displ", "InPlace", "Offset",
    "SupportsBuffer", "SupportsCAI", "SupportsDLPack", "TargetSpec", "TypeSpec",
]  # fmt: skip


class SupportsBuffer(Protocol):
    """Objects with the buffer protocol (PEP 688)."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


class SupportsDLPack(Protocol):
    """Objects that give their memory in a capsule of DLPack."""

    def __dlpack__(self, /, *, stream: Any = None) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


class SupportsCAI(Protocol):
    """Objects with the array interface of CUDA."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


Buffer: TypeAlias = SupportsBuffer | SupportsDLPack | SupportsCAI
Bottom: TypeAlias = "BottomType | None"
InPlace: TypeAlias = "InPlaceType | None"
Aint: TypeAlias = int
Count: TypeAlias = int
Displ: TypeAlias = int
Offset: TypeAlias = int
TypeSpec: TypeAlias = "Datatype | str"

#: see `aiompi.datatype.buffer.bufspec`
BufSpec: TypeAlias = "Buffer | tuple[Any, ...] | list[Any]"
#: as BufSpec; a count is that of one rank's block
BufSpecB: TypeAlias = "Buffer | tuple[Any, ...] | list[Any]"
#: see `aiompi.datatype.buffer.vector`
BufSpecV: TypeAlias = "Buffer | tuple[Any, ...] | list[Any]"
#: with a type for each rank
BufSpecW: TypeAlias = "tuple[Any, ...] | list[Any]"
#: of one-sided communication
TargetSpec: TypeAlias = "Displ | tuple[Any, ...] | list[Any]"
