"""Reductions of data in external32."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from aiompi_launcher.conformance.model.datatype import Datatype
from aiompi_launcher.conformance.script import MPIFailure
from aiompi_launcher.conformance.script.calls import COMPOSE_MODULUS
from aiompi_launcher.conformance.wire.external32 import Basic

_LOGICAL: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "MPI_LAND": lambda a, b: int(bool(a) and bool(b)),
    "MPI_LOR": lambda a, b: int(bool(a) or bool(b)),
    "MPI_LXOR": lambda a, b: int(bool(a) != bool(b)),
}
_BITWISE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "MPI_BAND": operator.and_,
    "MPI_BOR": operator.or_,
    "MPI_BXOR": operator.xor,
}
_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "MPI_MAX": max,
    "MPI_MIN": min,
    "MPI_SUM": operator.add,
    "MPI_PROD": operator.mul,
}
_LOCATING: Final[dict[str, Callable[[Any, Any], bool]]] = {"MPI_MAXLOC": operator.gt, "MPI_MINLOC": operator.lt}

NAMES: Final = (*_ARITHMETIC, *_LOGICAL, *_BITWISE, *_LOCATING)


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An operation.

    Attributes:
        name: a predefined one, or `TEST_COMPOSE`.
        commutative: as its creator says.
    """

    name: str
    commutative: bool = True

    def combine(self, datatype: Datatype, invec: bytes, inoutvec: bytes) -> bytes:
        """`invec op inoutvec`, element by element.

        Raises:
            MPIFailure: the operation is not defined for the type.
        """
        if self.name in _LOCATING or self.name == "TEST_COMPOSE":
            return self._pairs(datatype, invec, inoutvec)
        basics = {basic for _, basic in datatype.entries}
        function = self._function(basics, datatype)
        out = []
        for basic, a, b in _elements(datatype, invec, inoutvec):
            out.append(basic.encode(function(basic.decode(a), basic.decode(b))))
        return b"".join(out)

    def _function(self, basics: set[Basic], datatype: Datatype) -> Callable[[Any, Any], Any]:
        kinds = {basic.kind for basic in basics}
        for table, allowed in (
            (_ARITHMETIC, {"integer", "float"}),
            (_LOGICAL, {"integer"}),
            (_BITWISE, {"integer", "byte"}),
        ):
            if self.name in table and kinds <= allowed:
                return table[self.name]
        raise MPIFailure("MPI_ERR_OP", f"{self.name} is not defined for {datatype.name}")

    def _pairs(self, datatype: Datatype, invec: bytes, inoutvec: bytes) -> bytes:
        if len(datatype.entries) != 2:
            raise MPIFailure("MPI_ERR_OP", f"{self.name} takes pairs, not {datatype.name}")
        (_, first), (_, second) = datatype.entries
        size = datatype.wire_size
        out = []
        for start in range(0, len(invec), size):
            a, b = (_pair(first, second, data[start : start + size]) for data in (invec, inoutvec))
            value, index = _compose(a, b) if self.name == "TEST_COMPOSE" else self._locate(a, b)
            out.append(first.encode(value) + second.encode(index))
        return b"".join(out)

    def _locate(self, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        if a[0] == b[0]:
            return a[0], min(a[1], b[1])
        return a if _LOCATING[self.name](a[0], b[0]) else b


def _pair(first: Basic, second: Basic, data: bytes) -> tuple[Any, Any]:
    return first.decode(data[: first.wire_size]), second.decode(data[first.wire_size :])


def _compose(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[int, int]:
    """Compose x -> a0 x + a1 and x -> b0 x + b1, where b is applied first. This is associative, and not commutative."""
    return a[0] * b[0] % COMPOSE_MODULUS, (a[0] * b[1] + a[1]) % COMPOSE_MODULUS


def _elements(datatype: Datatype, invec: bytes, inoutvec: bytes) -> Iterator[tuple[Basic, bytes, bytes]]:
    position = 0
    while position < len(invec):
        for _, basic in datatype.entries:
            end = position + basic.wire_size
            yield basic, invec[position:end], inoutvec[position:end]
            position = end
