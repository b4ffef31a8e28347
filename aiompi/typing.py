"""Types of the arguments of communication, with the names of mpi4py.typing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import os

    import numpy as np
    import numpy.typing as npt

    from aiompi.datatype import Datatype
    from aiompi.datatype.buffer.address import Bottom as BottomType
    from aiompi.datatype.buffer.address import InPlace as InPlaceType

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
#: a result that is None at some ranks, such as all but the root. It is Any, as in typeshed: it needs no check for None
MaybeNone: TypeAlias = Any

_Memory: TypeAlias = "Buffer | Bottom"
_Items: TypeAlias = "Count | tuple[Count, Displ] | None"
_Item: TypeAlias = "tuple[_Memory, _Items | TypeSpec] | tuple[_Memory, _Items, TypeSpec]"
_Numbers: TypeAlias = "int | Sequence[int] | npt.NDArray[np.integer[Any]]"
_Blocks: TypeAlias = "_Numbers | tuple[_Numbers, _Numbers] | None"
_Block: TypeAlias = "tuple[_Memory, _Blocks | TypeSpec] | tuple[_Memory, _Blocks, TypeSpec]"
_Types: TypeAlias = "tuple[_Memory, Sequence[TypeSpec]] | tuple[_Memory, _Blocks, Sequence[TypeSpec]]"

#: memory with a count, a displacement and a datatype, or None for no items; see `aiompi.datatype.buffer.bufspec`
BufSpec: TypeAlias = "Buffer | _Item | tuple[_Memory, Count, Displ, TypeSpec] | list[Any] | None"
#: a BufSpec with blocks for several ranks; its count is the count of one block
BufSpecB: TypeAlias = BufSpec
#: blocks of different lengths; see `aiompi.datatype.buffer.vector`
BufSpecV: TypeAlias = "Buffer | _Block | tuple[_Memory, _Numbers, _Numbers, TypeSpec] | list[Any]"
#: blocks with a datatype for each rank; see `aiompi.datatype.buffer.vector`
BufSpecW: TypeAlias = "_Types | tuple[_Memory, _Numbers, _Numbers, Sequence[TypeSpec]] | list[Any]"
#: path of a file
FileName: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
#: part of a window: displacement, or displacement, count and datatype
TargetSpec: TypeAlias = "Displ | tuple[Displ] | tuple[Displ, Count] | tuple[Displ, Count, TypeSpec] | list[Any] | None"
