"""The class of all datatypes (sections 3.2.2 and 3.12; chapter 4 of MPI-3.1)."""

from __future__ import annotations

from typing import Any, Final, Self

from aiompi.base.arguments import text
from aiompi.base.opaque import same_kind
from aiompi.base.public import public
from aiompi.constants import COMBINER_DUP
from aiompi.datatype.arguments import InvalidCodeError
from aiompi.datatype.contents import Decoding
from aiompi.datatype.derived import Constructors
from aiompi.datatype.handle import PREDEFINED
from aiompi.datatype.layout.layout import Layout
from aiompi.datatype.lookup import Lookup
from aiompi.datatype.pack import Packing
from aiompi.datatype.signature import Signature
from aiompi.errors import InvalidTypeError


@public
class Datatype(Constructors, Decoding, Lookup, Packing):
    """A datatype: a sequence of basic types at displacements from the address of an item.

    The methods `Create_...` of a type make derived types, which must be committed before use:

        column = MPI.DOUBLE.Create_vector(rows, 1, columns).Commit()

    Args:
        datatype: the type to which the new handle refers; DATATYPE_NULL by default.
    """

    __slots__ = ()

    def __new__(cls, datatype: Datatype | None = None) -> Self:
        self = super().__new__(cls)
        if datatype is None:
            datatype = PREDEFINED.get("MPI_DATATYPE_NULL")
        else:
            same_kind(Datatype, datatype)
        if datatype is not None:
            self._set(datatype._map, datatype._state)
            self._null = datatype._null
        return self

    # Size, bounds and layout (sections 3.12.2 and 3.12.3).

    def Get_size(self) -> int:
        """Return the bytes of data in one item, gaps not counted (MPI_Type_size).

        Returns:
            The number of bytes.
        """
        return self._valid().size

    def Get_extent(self) -> tuple[int, int]:
        """Return the lower bound and the extent in bytes (MPI_Type_get_extent).

        Returns:
            (lower bound, extent) in bytes.
        """
        self._valid()
        return self.lb, self.extent

    def Get_true_extent(self) -> tuple[int, int]:
        """Return the lower bound and extent of the data, without markers and padding (MPI_Type_get_true_extent).

        Returns:
            (true lower bound, true extent) in bytes.
        """
        self._valid()
        return self.true_lb, self.true_extent

    @property
    def ub(self) -> int:
        """Upper bound in bytes: `lb + extent`."""
        return self.lb + self.extent

    @property
    def true_lb(self) -> int:
        """Where the data begin, in bytes from the address of the item."""
        return self._map.bounds.first or 0

    @property
    def true_ub(self) -> int:
        """Where the data end, in bytes from the address of the item."""
        return self._map.bounds.last or 0

    @property
    def true_extent(self) -> int:
        """Bytes from the first byte of data to the last."""
        return self.true_ub - self.true_lb

    @property
    def alignment(self) -> int:
        """Strictest alignment of a basic type in it, in bytes."""
        return self._map.bounds.alignment

    @property
    def signature(self) -> Signature:
        """The basic types in order."""
        return self._map.signature

    @property
    def layout(self) -> Layout:
        """For each byte of an item in memory, its position in a message; computed by Commit, or at the first use."""
        return self._map.layout

    @property
    def external(self) -> Layout:
        """For each byte of an item in memory, its position in an external32 message; computed at the first use."""
        return self._map.external

    def layout_of(self, count: int) -> Layout:
        """Return the layout of `count` items, one extent apart (section 3.12.5).

        Args:
            count: number of items.

        Returns:
            The layout.
        """
        if count == 1:
            return self._map.layout
        if self._several is None or self._several[0] != count:
            self._several = count, self._map.layout.repeat(count, self.extent)
        return self._several[1]

    # Commit and free (section 3.12.4).

    def Commit(self) -> Self:
        """Make the type ready for use in communication (MPI_Type_commit); a second call does nothing.

        Returns:
            The type itself.

        Raises:
            InvalidTypeError: the type is null or freed.
        """
        typemap = self._valid()
        if not self._state.committed and not typemap.is_marker:
            typemap.layout  # noqa: B018
            self._state.committed = True
        return self

    def Free(self) -> None:
        """Turn the handle into DATATYPE_NULL (MPI_Type_free).

        Communication in progress completes, and types derived from this one stay valid.

        Raises:
            InvalidTypeError: the type is predefined, null or already freed.
        """
        self._valid()
        if self.is_predefined:
            raise InvalidTypeError(f"{self} is predefined and cannot be freed; free derived types only")
        self._forget_attributes()
        self._null = True

    def free(self) -> None:
        """Free the type, unless it is a constant or null. Another handle of a constant becomes null."""
        if self._null or self is self._map.constant:
            return
        if self.is_predefined:
            self._null = True
        else:
            self.Free()

    @property
    def is_committed(self) -> bool:
        """True if the type may be used in communication, as all predefined types but DATATYPE_NULL, LB and UB."""
        return self._state.committed and not self._null

    @property
    def is_predefined(self) -> bool:
        """True if the type is a constant or made by Create_f90_...; such types cannot be freed."""
        return self._map.constant is not None

    # Names.

    def Get_name(self) -> str:
        """Return the name of the type (MPI_Type_get_name); empty if it has none.

        Returns:
            The name.
        """
        return "MPI_DATATYPE_NULL" if self._null else self._state.name

    def Set_name(self, name: str) -> None:
        """Name the type; messages show the name (MPI_Type_set_name).

        Args:
            name: the name, which may be empty.

        Raises:
            InvalidTypeError: the type is null or freed, or it is predefined and `name` is not its name.
        """
        self._valid()
        if self.is_predefined and name != self._state.name:
            raise InvalidTypeError(f"{self} is predefined and keeps its name; name a Dup() of it")
        self._state.name = text(name, "name")

    @property
    def name(self) -> str:
        """Result of `Get_name`."""
        return self.Get_name()

    @name.setter
    def name(self, name: str) -> None:
        self.Set_name(name)

    # Codes of numpy and PEP 3118.

    def tocode(self) -> str:
        """Return the type code from which `fromcode` makes the same type, or a type with the same layout.

        Returns:
            The type code.

        Raises:
            InvalidTypeError: the type has no code, because its items are not numbers or characters.
        """
        if self.typechar in ("", "V"):
            raise InvalidCodeError(f"{self} has no type code; only predefined types of one element have one")
        return self.typestr if any(map(str.isdigit, self._original_name())) else self.typechar

    @property
    def typestr(self) -> str:
        """numpy's letter and size, such as "f8", or "V" and the extent; empty for DATATYPE_NULL."""
        if self._null:
            return ""
        return f"V{self.extent}" if self.dtype is None or self.dtype.names else self.dtype.str[1:]

    @property
    def typechar(self) -> str:
        """The type's letter in numpy or PEP 3118, such as "d", or "V" if it has none; empty for DATATYPE_NULL."""
        if self._null:
            return ""
        if self.dtype is None or self.dtype.names:
            return "V"
        return _LETTERS.get(self._original_name(), self.dtype.char)

    def _original_name(self) -> str:
        """Return the name of this type if predefined, or of the predefined type that it duplicates; otherwise ""."""
        typemap = self._map
        while typemap.combiner == COMBINER_DUP:
            (typemap,) = typemap.types
        return typemap.constant.Get_name() if typemap.constant is not None else ""

    # Pickling: predefined types by name, derived ones by the call that made them.

    def __reduce__(self) -> tuple[Any, ...]:
        if self._null or self.is_named:
            constant = PREDEFINED[self.Get_name()]
            return (_by_name, (self.Get_name(),)) if self is constant else (type(self), (constant,))
        old, combiner, given = self.decode()
        given.update(self._map.arguments)  # arrays take less room than lists
        return _repeat, (old, combiner, given, self._state.name, self._state.committed)


# Letters of types that share their numpy type with other types.
_LETTERS: Final = {
    "MPI_CHAR": "c", "MPI_CHARACTER": "c", "MPI_AINT": "p", "MPI_OFFSET": "p", "MPI_COUNT": "n",
}  # fmt: skip


def _by_name(name: str) -> Datatype:
    return PREDEFINED[name]


def _repeat(old: Datatype, combiner: str, given: dict[str, Any], name: str, committed: bool) -> Datatype:
    """Make a type by the call that `Datatype.decode` returned."""
    made: Datatype = getattr(old, f"Create_{combiner.lower()}")(**given)
    if not made.is_predefined:
        made.Set_name(name)
        if committed:
            made.Commit()
    return made
