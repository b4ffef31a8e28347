"""Reduction operations (section 4.9): what every operation can do, and those that users create."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias

import numpy as np

from aiompi.datatype import Buffer, Datatype, bytes_of, check_disjoint, resolve_recv, resolve_send
from aiompi.datatype.buffer.memory import buffer
from aiompi.errors import InvalidCountError, InvalidOpError, InvalidTypeError
from aiompi.op.combine import combiner
from aiompi.opaque import Reference

Vector: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Combines vectors: inoutvec[i] = invec[i] o inoutvec[i], in place, for each invec.
Kernel: TypeAlias = Callable[[Iterable[Vector], Vector, Datatype], None]


class Operation:
    """What handles denote.

    Attributes:
        name: name in the standard, such as "MPI_SUM"; for a user's operation that of its function.
        combine: two Python objects.
        kernel: combines vectors.
        commute: whether the order of the operands does not matter.
        types: datatypes on which it is defined, by the names of their groups (section 4.9.2); None: any.
        function: of the user; None: it is predefined.
    """

    __slots__ = ("__weakref__", "_identities", "combine", "commute", "function", "kernel", "name", "types")

    def __init__(
        self,
        name: str,
        combine: Callable[[Any, Any], Any],
        kernel: Kernel,
        *,
        commute: bool,
        types: Mapping[str, Sequence[Datatype]] | None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self.combine = combine
        self.kernel = kernel
        self.commute = commute
        self.types = types
        self._identities = None if types is None else {one.identity for group in types.values() for one in group}
        self.function = function

    def takes(self, datatype: Datatype) -> bool:
        """Return True if it is defined on a datatype."""
        return self._identities is None or datatype.identity in self._identities


class Op(Reference[Operation]):
    """A reduction operation, associative by assumption (section 4.9.1).

    Calling it combines two Python objects: `SUM(a, b)` is `a + b`; the first operand is the one of the lower
    ranks. `reduce` combines two vectors in place. A handle equals OP_NULL once it is freed.

    Args:
        op: to be another handle of; None for a null handle.
    """

    __slots__ = ()

    _kind = Operation

    def __new__(cls, op: Op | None = None) -> Self:
        return cls._another(Op, op)

    @property
    def _valid(self) -> Operation:
        """What to reduce with.

        Raises:
            InvalidOpError: the handle is null.
        """
        if self._denoted is None:
            raise InvalidOpError("the operation is OP_NULL or was freed; pass one such as SUM, or Op.Create one")
        return self._denoted

    @property
    def name(self) -> str:
        """Name in the standard, such as "MPI_SUM"; for a user's operation that of its function."""
        return "MPI_OP_NULL" if self._denoted is None else self._denoted.name

    @property
    def commute(self) -> bool:
        """True if the order of the operands does not matter."""
        return self._valid.commute

    @classmethod
    def Create(cls, function: Callable[..., Any], commute: bool = False) -> Self:
        """Make an operation from a function (MPI_Op_create, section 4.9.4).

        Args:
            function: serves both kinds of reduction, and takes three arguments, as in mpi4py:
                of buffers, `function(invec, inoutvec, datatype)`: two `MPI.buffer`s of bytes, equally long,
                each holding items of `datatype`; it must set inoutvec[i] to invec[i] o inoutvec[i] and
                may be called several times with pieces of the whole;
                of objects, `function(a, b, None)`: it returns a o b.
                The first operand is the one of the lower ranks. It must not communicate. An exception ends
                the reduction at the caller.
            commute: whether a o b is b o a; if not, operands are combined in the order of the ranks.

        Raises:
            TypeError: `function` cannot be called.
        """
        if not callable(function):
            raise TypeError(f"Op.Create expects a function, not {type(function).__name__}")
        name = getattr(function, "__qualname__", type(function).__qualname__)
        combine, kernel = object_function(function), vector_kernel(function)
        return cls._denote(Operation(name, combine, kernel, commute=bool(commute), types=None, function=function))

    def Free(self) -> None:
        """Turn the handle into OP_NULL (MPI_Op_free, section 4.9.4). Reductions in progress complete.

        Raises:
            InvalidOpError: the operation is predefined, or freed already.
        """
        if self.is_predefined:
            what = f"{self.name} is predefined and" if self else "OP_NULL"
            raise InvalidOpError(f"{what} cannot be freed; free only what Op.Create made, once")
        self._denoted = None

    def Is_commutative(self) -> bool:
        """Return True if the order of the operands does not matter (MPI_Op_commutative, MPI-2.2)."""
        return self.commute

    @property
    def is_commutative(self) -> bool:
        """True if the order of the operands does not matter."""
        return self.commute

    @property
    def is_predefined(self) -> bool:
        """True if the operation is a named constant, which cannot be freed."""
        return self._denoted is None or self._denoted.function is None

    def check(self, datatype: Datatype | None = None) -> None:
        """Check that a reduction may start with this operation.

        Args:
            datatype: type of the items; None for objects, on which every operation but OP_NULL is defined.

        Raises:
            InvalidOpError: the operation is OP_NULL, or not defined for the datatype (section 4.9.2).
        """
        operation = self._denoted or self._valid  # without a call, most often
        if datatype is not None and not operation.takes(datatype):
            raise self._undefined(datatype)

    def reduce(self, invec: Vector, inoutvec: Vector, datatype: Datatype) -> None:
        """Set inoutvec[i] to invec[i] o inoutvec[i], in place (MPI_User_function, section 4.9.4).

        Integers wrap around on overflow, and floating-point exceptions are silent, as in C.

        Args:
            invec: shape (count,), the operand of the lower ranks; it is not changed.
            inoutvec: shape (count,), of the same numpy type.
            datatype: type of the items.

        Raises:
            InvalidOpError: the operation is not defined for the datatype.
        """
        self.check(datatype)
        self.kernel((invec,), inoutvec, datatype)

    @property
    def kernel(self) -> Kernel:
        """What does that for one invec after the other, of a datatype for which the operation is known to be defined.

        Raises:
            InvalidOpError: the handle is null.
        """
        return self._valid.kernel

    def Reduce_local(self, inbuf: object, inoutbuf: object) -> None:
        """Combine two buffers of this process (MPI_Reduce_local, MPI-2.2): inoutbuf[i] becomes inbuf[i] o inoutbuf[i].

        Args:
            inbuf: specification of (count,) items, the operand of the lower ranks.
            inoutbuf: specification of as many items of the same datatype, writable.

        Raises:
            InvalidOpError: the operation is OP_NULL, or not defined for the datatype.
            InvalidTypeError, InvalidCountError: the buffers differ in datatype, or in length.
            InvalidBufferError: they share memory, or the second is read-only.
            TypeError: not a buffer specification.
        """
        left, right = resolve_send(inbuf, "inbuf"), resolve_recv(inoutbuf, "inoutbuf")
        self._check_pair(left, right)
        combine = combiner(self, right.datatype, right.count)
        result = right.packed()
        combine((left.packed(),), result)
        if not right.contiguous:
            right.unpack(result)

    def _check_pair(self, left: Buffer, right: Buffer) -> None:
        if left.datatype != right.datatype:
            raise InvalidTypeError(
                f"Reduce_local: inbuf holds {left.datatype}, inoutbuf {right.datatype}; pass the same datatype"
            )
        if left.count != right.count:
            raise InvalidCountError(
                f"Reduce_local: inbuf holds {left.count} items, inoutbuf {right.count}; pass as many in both"
            )
        self.check(right.datatype)
        check_disjoint(left, right, "inbuf", "inoutbuf")

    def _undefined(self, datatype: Datatype) -> InvalidOpError:
        groups = " and ".join(", ".join(self._valid.types or ()).rsplit(", ", 1))
        remedy = f"it is defined for {groups} types" if groups else "it is for one-sided operations only"
        return InvalidOpError(
            f"{self.name} is not defined for {datatype} (section 4.9.2): {remedy}; other "
            "combinations take an operation made with Op.Create"
        )

    def __call__(self, a: Any, b: Any) -> Any:
        return self._valid.combine(a, b)

    def __repr__(self) -> str:
        return f"<aiompi.Op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._denoted is not None and self._denoted.function is not None:
            return type(self).Create, (self._denoted.function, self._denoted.commute)
        constant = PREDEFINED[self.name]
        return (_by_name, (self.name,)) if self is constant else (type(self), (constant,))


def vector_kernel(function: Callable[..., Any]) -> Kernel:
    """Adapt a user function of memory, as `Op.Create` describes it, to numpy vectors."""

    def kernel(invecs: Iterable[Vector], inoutvec: Vector, datatype: Datatype) -> None:
        if inoutvec.size:
            for invec in invecs:
                function(buffer(bytes_of(invec)), buffer(bytes_of(inoutvec)), datatype)

    return kernel


def object_function(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Adapt a user function to two objects: the third argument, the datatype, is None."""

    def combine(a: Any, b: Any) -> Any:
        return function(a, b, None)

    return combine


# MPI name -> the one object of that name; `aiompi.op.predefined` fills it.
PREDEFINED: Final[dict[str, Op]] = {}
Op._constants = PREDEFINED


def _by_name(name: str) -> Op:
    return PREDEFINED[name]
