"""Decoding: the call that made a datatype, and its arguments (section 4.1.13 of MPI-3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from aiompi import constants as mpi
from aiompi.datatype.arguments import Integers
from aiompi.datatype.handle import COMBINERS, PREDEFINED, TypeHandle
from aiompi.datatype.typemap import TypeMap
from aiompi.errors import InvalidTypeError

if TYPE_CHECKING:
    from aiompi.datatype.datatype import Datatype


class ArgumentNames(NamedTuple):
    """Names of the arguments of a constructor, in the order in which `Get_contents` lists their values.

    Attributes:
        integers: arguments in the list of integers; "n" is the length of the sequences.
        addresses: arguments in the list of addresses.
    """

    integers: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


# The table of section 4.1.13 of MPI-3.1. The list of datatypes has as many entries as were passed.
ARGUMENT_NAMES: Final = {
    mpi.COMBINER_NAMED: ArgumentNames(),
    mpi.COMBINER_DUP: ArgumentNames(),
    mpi.COMBINER_CONTIGUOUS: ArgumentNames(("count",)),
    mpi.COMBINER_VECTOR: ArgumentNames(("count", "blocklength", "stride")),
    mpi.COMBINER_HVECTOR: ArgumentNames(("count", "blocklength"), ("stride",)),
    mpi.COMBINER_INDEXED: ArgumentNames(("n", "blocklengths", "displacements")),
    mpi.COMBINER_HINDEXED: ArgumentNames(("n", "blocklengths"), ("displacements",)),
    mpi.COMBINER_INDEXED_BLOCK: ArgumentNames(("n", "blocklength", "displacements")),
    mpi.COMBINER_HINDEXED_BLOCK: ArgumentNames(("n", "blocklength"), ("displacements",)),
    mpi.COMBINER_STRUCT: ArgumentNames(("n", "blocklengths"), ("displacements",)),
    mpi.COMBINER_SUBARRAY: ArgumentNames(("n", "sizes", "subsizes", "starts", "order")),
    mpi.COMBINER_DARRAY: ArgumentNames(("size", "rank", "n", "gsizes", "distribs", "dargs", "psizes", "order")),
    mpi.COMBINER_RESIZED: ArgumentNames((), ("lb", "extent")),
    mpi.COMBINER_F90_INTEGER: ArgumentNames(("r",)),
    mpi.COMBINER_F90_REAL: ArgumentNames(("p", "r")),
    mpi.COMBINER_F90_COMPLEX: ArgumentNames(("p", "r")),
}


class Decoding(TypeHandle):
    """Methods of a datatype that describe the call that made it."""

    __slots__ = ()

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        """Return the numbers of arguments, and the combiner (MPI_Type_get_envelope).

        Returns:
            (integers, addresses, counts, datatypes, combiner): the lengths of the lists of `Get_contents`, and
            one of the COMBINER_ constants.

        Raises:
            InvalidTypeError: the type is null or freed.
        """
        typemap = self._valid()
        call = ARGUMENT_NAMES[typemap.combiner]
        ni, na = (sum(len(_values(typemap, name)) for name in names) for names in call)
        return ni, na, 0, len(typemap.types), typemap.combiner

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        """Return the arguments of the call that made the type (MPI_Type_get_contents).

        Returns:
            (integers, addresses, counts, datatypes), in the order of the standard's table. `counts` is empty, because
            it belongs to large-count calls. Predefined types are the constants themselves; others are new handles,
            which may be freed.

        Raises:
            InvalidTypeError: the type is null, freed or predefined.
        """
        typemap = self._valid()
        if typemap.combiner == mpi.COMBINER_NAMED:
            raise InvalidTypeError(f"{self} is predefined and has no contents; check is_named first")
        integers, addresses = (
            [n for name in names for n in _values(typemap, name)] for names in ARGUMENT_NAMES[typemap.combiner]
        )
        return integers, addresses, [], [self._handle_of(old) for old in typemap.types]

    def decode(self) -> tuple[Datatype, str, dict[str, Any]]:
        """Return the call that made the type, in a repeatable form.

        Returns:
            (datatype, combiner, arguments): `getattr(datatype, "Create_" + combiner.lower())(**arguments)` makes
            an equivalent type. A predefined type returns itself, "NAMED" and no arguments.

        Raises:
            InvalidTypeError: the type is null or freed.
        """
        typemap = self._valid()
        name = COMBINERS[typemap.combiner]
        if typemap.combiner == mpi.COMBINER_NAMED:
            return cast("Datatype", self), name, {}
        given: dict[str, Any] = {
            key: value if isinstance(value, int) else _listed(value) for key, value in typemap.arguments.items()
        }
        old = PREDEFINED["MPI_DATATYPE_NULL"]
        if typemap.combiner == mpi.COMBINER_STRUCT:
            given["datatypes"] = [self._handle_of(part) for part in typemap.types]
        elif typemap.types:
            old = self._handle_of(typemap.types[0])
        return old, name, given

    @property
    def envelope(self) -> tuple[int, int, int, int, int]:
        """Result of `Get_envelope`."""
        return self.Get_envelope()

    @property
    def contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        """Result of `Get_contents`."""
        return self.Get_contents()

    @property
    def combiner(self) -> int:
        """The call that made the type: one of the COMBINER_ constants."""
        return self._valid().combiner

    @property
    def is_named(self) -> bool:
        """True if the type is a constant of the standard."""
        return self._valid().combiner == mpi.COMBINER_NAMED

    def _handle_of(self, typemap: TypeMap) -> Datatype:
        """Return the constant of a predefined type map, or a new handle of a derived one."""
        if typemap.constant is not None:
            return typemap.constant
        return cast("Datatype", self._of(typemap))


def _values(typemap: TypeMap, name: str) -> list[int]:
    """Return the numbers that one argument contributes to its list."""
    if name == "n":
        return [next(len(value) for value in typemap.arguments.values() if not isinstance(value, int))]
    value = typemap.arguments[name]
    return [value] if isinstance(value, int) else _listed(value)


def _listed(values: tuple[int, ...] | Integers) -> list[int]:
    return list(values) if isinstance(values, tuple) else values.tolist()
