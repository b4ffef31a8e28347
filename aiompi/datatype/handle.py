"""Handles of datatypes: their names, attributes, validity and comparison (sections 2.4.1 and 3.12.4)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Self

from aiompi import constants
from aiompi.base import attribute
from aiompi.base.attribute import Attributes, Keyvals
from aiompi.base.opaque import Opaque
from aiompi.datatype.arguments import Integers
from aiompi.datatype.typemap import Arguments, Compose, TypeMap
from aiompi.errors import InvalidTypeError

if TYPE_CHECKING:
    import numpy as np

    from aiompi.datatype.datatype import Datatype
    from aiompi.datatype.layout.layout import Layout
    from aiompi.datatype.layout.move import Items

# Combiner -> its name without the prefix, as `decode` gives it.
COMBINERS: Final = {
    value: name.removeprefix("COMBINER_") for name, value in vars(constants).items() if name.startswith("COMBINER_")
}

# MPI name -> the one object of that name; `aiompi.datatype.predefined` fills it.
PREDEFINED: Final[dict[str, Datatype]] = {}
# Type code -> datatype; `aiompi.datatype.codes` fills it.
CODES: Final[dict[str, Datatype]] = {}

DATATYPE_KEYVALS: Final = Keyvals("datatype")


@dataclasses.dataclass(eq=False, slots=True, weakref_slot=True)
class TypeState:
    """The state that all handles of one datatype share.

    Attributes:
        map: type map of the datatype.
        name: name of the datatype; empty if it has none.
        committed: True if the datatype may be used in communication.
        attributes: values that the program caches on the datatype (section 6.7.4 of MPI-3.1); None until it caches one.
    """

    map: TypeMap = dataclasses.field(init=False)
    name: str = ""
    committed: bool = False
    attributes: Attributes | None = None


class TypeHandle(Opaque, attribute.Caching):
    """A reference to a datatype. Handles are equal if they refer to the same datatype, or if both are null.

    A freed handle equals DATATYPE_NULL, and no call accepts it. Its Python attributes remain, because operations in
    progress still use them.

    Attributes:
        size: bytes of data in one item, gaps not counted.
        lb: lower bound: where an item starts, in bytes from its address.
        extent: bytes from one item to the next.
        dense: True if any number of items is known to be contiguous; if False, only the type map tells.
    """

    __slots__ = ("_dtype", "_map", "_null", "_several", "_state", "dense", "extent", "lb", "size")

    _map: TypeMap
    _state: TypeState
    _null: bool
    _several: tuple[int, Layout] | None
    _dtype: np.dtype[Any] | None
    size: int
    lb: int
    extent: int
    dense: bool

    @classmethod
    def _of(cls, typemap: TypeMap, state: TypeState | None = None) -> Self:
        """Return a handle of a new type, or of the type to which `state` belongs."""
        self = object.__new__(cls)
        self._set(typemap, state or TypeState())
        return self

    def _set(self, typemap: TypeMap, state: TypeState) -> None:
        self._map = state.map = typemap
        self._state = state
        self._null = False
        self._several = None
        self._dtype = None
        self.size = typemap.signature.size
        self.lb = typemap.lb
        self.extent = typemap.extent
        self.dense = self.size == self.extent and not typemap.types  # a derived type may have its data elsewhere

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Numpy type of one item, `extent` bytes long; None if numpy has no such type."""
        return self._map.dtype if self._dtype is None else self._dtype

    @dtype.setter
    def dtype(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype

    _kind = TypeState
    _keyvals = DATATYPE_KEYVALS

    @property
    def _denoted(self) -> TypeState | None:
        return None if self._null else self._state

    @classmethod
    def _denote(cls, denoted: TypeState) -> Self:
        return cls._of(denoted.map, denoted)

    @property
    def identity(self) -> TypeState:
        """An object that is the same for all handles of the type, usable as a dictionary key."""
        return self._state

    def _derive(
        self,
        combiner: int,
        arguments: Arguments,
        old: TypeMap,
        compose: Compose,
        markers: tuple[int, int] | None = None,
    ) -> Self:
        """Return a handle of a new type that is derived from this one."""
        return self._of(TypeMap.derived(combiner, arguments, (old,), compose, markers=markers))

    def _valid(self) -> TypeMap:
        """Return the type map for a query.

        Raises:
            InvalidTypeError: the handle is null.
        """
        if self._null:
            raise InvalidTypeError("the datatype is MPI_DATATYPE_NULL, or was freed; use a datatype that exists")
        return self._map

    def _component(self, name: str = "the datatype") -> TypeMap:
        """Return the type map for deriving another type.

        Raises:
            InvalidTypeError: the handle is null, or a marker.
        """
        if self._null:
            raise InvalidTypeError(f"{name} is MPI_DATATYPE_NULL, or was freed; make types of one that exists")
        if self._map.is_marker:
            raise InvalidTypeError(f"{name} is the marker {self}, which has a meaning only in Create_struct")
        return self._map

    def check_usable(self, name: str) -> None:
        """Check that the type may be used in communication (section 3.12.4).

        Args:
            name: name of the argument, for messages.

        Raises:
            InvalidTypeError: it is null, freed, a marker, or not committed.
        """
        if self._state.committed and not self._null:
            return
        if self._null:
            raise InvalidTypeError(f"{name} is MPI_DATATYPE_NULL, or was freed; pass a datatype, such as BYTE")
        if self._map.is_marker:
            raise InvalidTypeError(f"{name} is the marker {self}, which has a meaning only in Create_struct")
        raise InvalidTypeError(f"{name}, {self}, is not committed; call its Commit() first, once")

    @property
    def usable_items(self) -> Items | None:
        """The object that packs and unpacks items of the type; None if the type may not be used in communication."""
        if self._null or not self._state.committed:
            return None
        return self._map.items or self._map.make_items("items")

    @property
    def usable_external_items(self) -> Items | None:
        """Like `usable_items`, in external32."""
        if self._null or not self._state.committed:
            return None
        return self._map.external_items or self._map.make_items("external_items")

    @property
    def _attributes(self) -> Attributes:
        self._valid()
        if self._state.attributes is None:
            self._state.attributes = Attributes(DATATYPE_KEYVALS)
        return self._state.attributes

    def _copy_attributes(self, duplicate: TypeHandle) -> None:
        """Copy the attributes to a duplicate by their copy callbacks."""
        if self._state.attributes is not None:
            duplicate._state.attributes = self._state.attributes.copy(self, duplicate)

    def _forget_attributes(self) -> None:
        """Call the delete callbacks, because the type is being freed."""
        if self._state.attributes is not None:
            self._state.attributes.clear(self)

    def __bool__(self) -> bool:
        return not self._null

    def __str__(self) -> str:
        return "MPI_DATATYPE_NULL" if self._null else self._state.name or described(self._map)

    def __repr__(self) -> str:
        if self._null or self._map.combiner == constants.COMBINER_NAMED:
            return f"<aiompi.Datatype {self}>"
        given = ", ".join(f"{name}={_short(value)}" for name, value in self._map.arguments.items())
        call = f"{self}: {given}" if given else str(self)
        ready = "" if self._state.committed else ", not committed"
        return f"<aiompi.Datatype {call}; size {self.size}, extent {self.extent}{ready}>"


def described(typemap: TypeMap) -> str:
    """Describe in a few words how a type was made: "vector of MPI_INT", "struct of 3 blocks"."""
    call = COMBINERS[typemap.combiner].lower()
    if typemap.combiner == constants.COMBINER_STRUCT:
        return f"{call} of {len(typemap.types)} blocks"
    if not typemap.types:
        return call
    return f"{call} of {typemap.types[0].constant or 'a derived type'}"


def _short(value: int | tuple[int, ...] | Integers) -> str:
    if isinstance(value, int):
        return str(value)
    head = ", ".join(map(str, value[:6]))
    return f"[{head}]" if len(value) <= 6 else f"[{head}, ... {len(value)} in all]"
