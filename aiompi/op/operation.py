"""Reduction operations (section 4.9): what every operation can do, and those that users create."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiompi.datatype import Buffer, Datatype, check_disjoint, resolve_recv, resolve_send
from aiompi.errors import InvalidCountError, InvalidOpError, InvalidTypeError
from aiompi.op.combine import combiner
from aiompi.op.user import Kernel, Vector, object_function, vector_kernel


class Op:
    """A reduction operation, associative by assumption (section 4.9.1).

    Calling it combines two Python objects: `SUM(a, b)` is `a + b`; the first operand is the one of the lower
    ranks. `reduce` combines two vectors in place. An operation equals OP_NULL once it is freed.

    Attributes:
        name: name in the standard, such as "MPI_SUM"; for a user's operation that of its function.
        commute: whether the order of the operands does not matter.
        types: datatypes on which it is defined (section 4.9.2); None: any.
    """

    __slots__ = ("__weakref__", "_combine", "_function", "_kernel", "_null", "commute", "name", "types")

    def __init__(
        self,
        name: str,
        combine: Callable[[Any, Any], Any],
        kernel: Kernel,
        *,
        commute: bool,
        types: frozenset[Datatype] | None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self.commute = commute
        self.types = types
        self._combine = combine
        self._kernel = kernel
        self._function = function
        self._null = name == "MPI_OP_NULL"

    @classmethod
    def Create(cls, function: Callable[..., Any], commute: bool = False) -> Op:
        """Make an operation from a function (MPI_Op_create, section 4.9.4).

        Args:
            function: serves both kinds of reduction, and takes three arguments, as in mpi4py:
                of buffers, `function(invec, inoutvec, datatype)`: two memoryviews of bytes, equally long,
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
        return cls(name, combine, kernel, commute=bool(commute), types=None, function=function)

    def Free(self) -> None:
        """Turn the handle into OP_NULL (MPI_Op_free, section 4.9.4). Reductions in progress complete.

        Raises:
            InvalidOpError: the operation is predefined, or freed already.
        """
        if self._null or self._function is None:
            what = "OP_NULL" if self._null else f"{self.name} is predefined and"
            raise InvalidOpError(f"{what} cannot be freed; free only what Op.Create made, once")
        self._null = True

    def Is_commutative(self) -> bool:
        return self.commute

    @property
    def is_predefined(self) -> bool:
        """Whether the operation is a named constant, which cannot be freed."""
        return self._function is None

    def check(self, datatype: Datatype | None = None) -> None:
        """Check that a reduction may start with this operation.

        Args:
            datatype: type of the items; None for objects, on which every operation but OP_NULL is defined.

        Raises:
            InvalidOpError: the operation is OP_NULL, or not defined for the datatype (section 4.9.2).
        """
        if self._null:
            raise InvalidOpError("the operation is OP_NULL or was freed; pass one such as SUM, or Op.Create one")
        if datatype is not None and self.types is not None and datatype not in self.types:
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
        if self.types is not None and datatype not in self.types:
            raise self._undefined(datatype)
        self._kernel(invec, inoutvec, datatype)

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
        combine(left.packed(), result)
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
        names = sorted(known.name for known in self.types or ())
        remedy = f"it is defined for {', '.join(names)}" if names else "it is for one-sided operations only"
        return InvalidOpError(
            f"{self.name} is not defined for {datatype.name} (section 4.9.2): {remedy}; other "
            "combinations take an operation made with Op.Create"
        )

    def __call__(self, a: Any, b: Any) -> Any:
        return self._combine(a, b)

    def __bool__(self) -> bool:
        return not self._null

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Op):
            return NotImplemented
        return self is other or (self._null and other._null)

    def __hash__(self) -> int:
        return hash("MPI_OP_NULL") if self._null else object.__hash__(self)

    def __repr__(self) -> str:
        return f"<aiompi.Op {'MPI_OP_NULL' if self._null else self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._function is None or self._null:
            return _by_name, (self.name if self._function is None else "MPI_OP_NULL",)
        return Op.Create, (self._function, self.commute)


# MPI name -> the one object of that name; `aiompi.op.predefined` fills it.
PREDEFINED: Final[dict[str, Op]] = {}


def _by_name(name: str) -> Op:
    return PREDEFINED[name]
