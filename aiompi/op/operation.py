"""Reduction operations (section 4.9): the class `Op`, and operations that users create."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias

from aiompi.base.lazy import np
from aiompi.base.opaque import Reference
from aiompi.datatype import Buffer, Datatype, bytes_of, check_disjoint, resolve_recv, resolve_send
from aiompi.errors import InvalidCountError, InvalidOpError, InvalidTypeError
from aiompi.op.combine import combiner

Vector: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

# Combines vectors: inoutvec[i] = invec[i] o inoutvec[i], in place, for each invec.
Kernel: TypeAlias = Callable[[Iterable[Vector], Vector, Datatype], None]


@dataclasses.dataclass(eq=False, slots=True, weakref_slot=True)
class Operation:
    """The operation to which handles refer.

    Attributes:
        name: name in the standard, such as "MPI_SUM"; for a user's operation the name of its function.
        combine: function that combines two Python objects.
        kernel: function that combines vectors.
        commute: True if the order of the operands does not matter.
        types: datatypes for which the operation is defined, by group (section 4.9.2); None if it is defined for all.
        function: the user function; None for a predefined operation.
    """

    name: str
    combine: Callable[[Any, Any], Any]
    kernel: Kernel
    commute: bool
    types: Mapping[str, Sequence[Datatype]] | None
    function: Callable[..., Any] | None = None
    _identities: set[object] | None = None

    def __post_init__(self) -> None:
        if self.types is not None:
            self._identities = {one.identity for group in self.types.values() for one in group}

    def takes(self, datatype: Datatype) -> bool:
        """Return True if the operation is defined for a datatype."""
        return self._identities is None or datatype.identity in self._identities


class Op(Reference[Operation]):
    """A reduction operation, assumed to be associative (section 4.9.1).

    An operation can be called with two Python objects: `SUM(a, b)` is `a + b`. The first operand comes from lower
    ranks. `reduce` combines two vectors in place. A freed handle equals OP_NULL.

    Args:
        op: the operation to which the new handle refers; None for a null handle.
    """

    __slots__ = ()

    _kind = Operation

    def __new__(cls, op: Op | None = None) -> Self:
        return cls._another(Op, op)

    @property
    def _valid(self) -> Operation:
        """The operation of the handle.

        Raises:
            InvalidOpError: the handle is null.
        """
        if self._denoted is None:
            raise InvalidOpError("the operation is OP_NULL or was freed; pass one such as SUM, or Op.Create one")
        return self._denoted

    @property
    def name(self) -> str:
        """Name in the standard, such as "MPI_SUM"; for a user's operation the name of its function."""
        return "MPI_OP_NULL" if self._denoted is None else self._denoted.name

    @property
    def commute(self) -> bool:
        """True if the order of the operands does not matter."""
        return self._valid.commute

    @classmethod
    def Create(cls, function: Callable[..., Any], commute: bool = False) -> Self:
        """Make an operation from a function (MPI_Op_create, section 4.9.4).

        Args:
            function: serves reductions of buffers and of objects, and takes three arguments as in mpi4py. Buffers:
                `function(invec, inoutvec, datatype)` with two `MPI.buffer`s of equal length that hold items of
                `datatype`. The function sets inoutvec[i] to invec[i] o inoutvec[i]; it may be called several times with
                parts of the vectors. Objects: `function(a, b, None)` returns a o b. The first operand comes from the
                lower ranks. The function must not communicate. An exception ends the reduction at the caller.
            commute: True if a o b equals b o a; if not, operands are combined in rank order.

        Returns:
            The operation.

        Raises:
            TypeError: `function` cannot be called.
        """
        if not callable(function):
            raise TypeError(f"Op.Create expects a function, not {type(function).__name__}")
        name = getattr(function, "__qualname__", type(function).__qualname__)
        combine, kernel = lambda a, b: function(a, b, None), vector_kernel(function)
        return cls._denote(Operation(name, combine, kernel, commute=bool(commute), types=None, function=function))

    def Free(self) -> None:
        """Turn the handle into OP_NULL (MPI_Op_free, section 4.9.4). Reductions in progress complete.

        Raises:
            InvalidOpError: the operation is predefined or already freed.
        """
        if self.is_predefined:
            what = f"{self.name} is predefined and" if self else "OP_NULL"
            raise InvalidOpError(f"{what} cannot be freed; free only operations made by Op.Create, and only once")
        self._denoted = None

    def Is_commutative(self) -> bool:
        """Return True if the order of the operands does not matter (MPI_Op_commutative, MPI-2.2).

        Returns:
            True or False.
        """
        return self.commute

    @property
    def is_commutative(self) -> bool:
        """True if the order of the operands does not matter."""
        return self.commute

    @property
    def is_predefined(self) -> bool:
        """True if the operation is a constant, which cannot be freed."""
        return self._denoted is None or self._denoted.function is None

    def check(self, datatype: Datatype | None = None) -> None:
        """Check that a reduction may start with this operation.

        Args:
            datatype: type of the items; None for objects, for which every operation except OP_NULL is defined.

        Raises:
            InvalidOpError: the operation is OP_NULL, or not defined for the datatype (section 4.9.2).
        """
        operation = self._denoted or self._valid  # avoids a call in the usual case
        if datatype is not None and not operation.takes(datatype):
            raise self._undefined(datatype)

    def reduce(self, invec: Vector, inoutvec: Vector, datatype: Datatype) -> None:
        """Set inoutvec[i] to invec[i] o inoutvec[i], in place (MPI_User_function, section 4.9.4).

        Integers wrap around on overflow, and floating-point exceptions are silent, as in C.

        Args:
            invec: shape (count,), the operand of the lower ranks; not changed.
            inoutvec: shape (count,), with the same numpy type.
            datatype: type of the items.

        Raises:
            InvalidOpError: the operation is not defined for the datatype.
        """
        self.check(datatype)
        self.kernel((invec,), inoutvec, datatype)

    @property
    def kernel(self) -> Kernel:
        """Function that combines several invecs with one inoutvec in place, and does not check the datatype.

        Raises:
            InvalidOpError: the handle is null.
        """
        return self._valid.kernel

    def Reduce_local(self, inbuf: object, inoutbuf: object) -> None:
        """Combine two buffers of this process (MPI_Reduce_local, MPI-2.2): inoutbuf[i] becomes inbuf[i] o inoutbuf[i].

        Args:
            inbuf: specification of (count,) items, the operand of the lower ranks.
            inoutbuf: specification of (count,) items of the same datatype, writable.

        Raises:
            InvalidOpError: the operation is OP_NULL, or not defined for the datatype.
            InvalidTypeError, InvalidCountError: the buffers differ in datatype or count.
            InvalidBufferError: the buffers share memory, or `inoutbuf` is read-only.
            TypeError: an argument is not a buffer specification.
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
                f"Reduce_local: inbuf holds {left.count} items, inoutbuf {right.count}; pass equal counts"
            )
        self.check(right.datatype)
        check_disjoint(left, right, "inbuf", "inoutbuf")

    def _undefined(self, datatype: Datatype) -> InvalidOpError:
        groups = " and ".join(", ".join(self._valid.types or ()).rsplit(", ", 1))
        remedy = f"it is defined for {groups} types" if groups else "it is for one-sided operations only"
        return InvalidOpError(
            f"{self.name} is not defined for {datatype} (section 4.9.2): {remedy}; for other "
            "combinations make an operation with Op.Create"
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
    """Return a kernel that calls a user function of `Op.Create` for numpy vectors."""

    def kernel(invecs: Iterable[Vector], inoutvec: Vector, datatype: Datatype) -> None:
        from aiompi.datatype.buffer.memory import buffer  # imports NumPy, which programs without arrays do not need

        if inoutvec.size:
            for invec in invecs:
                function(buffer(bytes_of(invec)), buffer(bytes_of(inoutvec)), datatype)

    return kernel


# MPI name -> the one object of that name; `aiompi.op.predefined` fills it.
PREDEFINED: Final[dict[str, Op]] = {}
Op._constants = PREDEFINED


def _by_name(name: str) -> Op:
    return PREDEFINED[name]
