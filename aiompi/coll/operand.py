"""Operands: what a reduction combines, vectors in memory or Python objects.

The order of operands is the order of ranks (section 4.9.4), also where the operation commutes: then results are
the same on all ranks to the last bit, and the same whenever the same algorithm runs on the same number of ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from aiompi.coll.combine import combiner
from aiompi.coll.slot import Slot
from aiompi.datatype.buffer.buffer import Buffer, allocate
from aiompi.op import Op
from aiompi.wire.frame import Payload


class Codec(Protocol):
    """Turns objects into messages and back."""

    def dumps(self, obj: Any) -> tuple[Payload, int]:
        """The message of an object: memory in pieces, and the bytes they are together."""

    def loads(self, data: memoryview) -> Any:
        """The object of a message. It may keep using the memory."""


class Operand(ABC):
    """The partial result of one rank: at first its own contribution.

    Receive the partial result of other ranks into `incoming()`, then `absorb` or `adopt` it. No send of `slot()`
    may be under way meanwhile: its memory is used again.
    """

    __slots__ = ()

    @abstractmethod
    def slot(self) -> Slot:
        """The partial result, for sending."""

    @abstractmethod
    def incoming(self) -> Slot:
        """Room for another partial result."""

    @abstractmethod
    def absorb(self, lower: bool) -> None:
        """Combine with what came in; `lower`: it is the one of lower ranks, otherwise of higher ones."""

    @abstractmethod
    def adopt(self) -> None:
        """Take over what came in."""


class VectorOperand(Operand):
    """Vectors as they travel, packed, combined in place.

    Args:
        value: contribution of this rank; not changed unless it is `result`.
        result: as many items, where the result belongs; partial results may be there, too. None where none is wanted.
        op: operation, defined for the datatype.

    Raises:
        InvalidTypeError: a function of the user cannot be given items of the datatype.
    """

    __slots__ = ("_combine", "_incoming", "_own", "_place", "_result", "_spare", "_value")

    def __init__(self, value: Buffer, result: Buffer | None, op: Op) -> None:
        self._combine = combiner(op, value.datatype, value.count)
        self._result = result
        self._place = result.view if result is not None and result.contiguous else None
        self._own = value is result or not value.contiguous
        if value is result and self._place is not None:
            self._value, self._spare = self._place, []
        else:
            self._value, self._spare = value.packed(), [] if self._place is None else [self._place]
        self._incoming = self._value

    def slot(self) -> Slot:
        return Slot(self._value)

    def incoming(self) -> Slot:
        self._incoming = self._scratch()
        return Slot(self._incoming)

    def absorb(self, lower: bool) -> None:
        if lower:
            self._make_own()
            self._combine(self._incoming, self._value)
            self._spare.append(self._incoming)
        else:
            self._combine(self._value, self._incoming)
            self.adopt()

    def adopt(self) -> None:
        if self._own:
            self._spare.append(self._value)
        self._value, self._own = self._incoming, True

    def finish(self) -> None:
        """Put the result where it belongs."""
        if self._result is not None and self._value is not self._place:
            self._result.unpack(self._value)

    def _scratch(self) -> memoryview:
        return self._spare.pop() if self._spare else allocate(self._value.nbytes)

    def _make_own(self) -> None:
        if not self._own:
            scratch = self._scratch()
            scratch[:] = self._value
            self._value, self._own = scratch, True


class ObjectOperand(Operand):
    """Python objects, combined by calling the operation.

    Args:
        value: contribution of this rank.
        op: takes two objects, the one of lower ranks first, and returns their combination.
        codec: makes messages of objects.
    """

    __slots__ = ("_codec", "_incoming", "_op", "value")

    def __init__(self, value: Any, op: Callable[[Any, Any], Any], codec: Codec) -> None:
        self.value = value
        self._op = op
        self._codec = codec
        self._incoming = Slot()

    def slot(self) -> Slot:
        return Slot.holding(*self._codec.dumps(self.value))

    def incoming(self) -> Slot:
        self._incoming = Slot()
        return self._incoming

    def absorb(self, lower: bool) -> None:
        other = self._codec.loads(self._incoming.data)
        self.value = self._op(other, self.value) if lower else self._op(self.value, other)

    def adopt(self) -> None:
        self.value = self._codec.loads(self._incoming.data)
