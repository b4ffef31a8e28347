"""Type maps: the sequence of basic types at displacements that a datatype describes (section 3.12).

A type map is immutable. A type map stores the constructor call that made it, and everything else follows from this
call. A constructor defines its result once, as a composition of four steps: repeat, place, shift and concat. The
composition is applied to each form of the map: its bounds, its signature, its layout in memory and its layout in
external32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypeVar

from aiompi.base.lazy import np
from aiompi.constants import COMBINER_NAMED, Constant
from aiompi.datatype.arguments import Integers
from aiompi.datatype.bounds import Bounds
from aiompi.datatype.layout.layout import Layout
from aiompi.datatype.layout.move import Items
from aiompi.datatype.signature import Signature

if TYPE_CHECKING:
    from aiompi.datatype.datatype import Datatype

Arguments: TypeAlias = "Mapping[str, int | tuple[int, ...] | Integers]"

#: type maps by the calls that made them, for programs that repeat their constructors; only small ones
_recent: Final[dict[tuple[object, ...], TypeMap]] = {}
_RECENT: Final = 1024
_FEW: Final = 16
_MOST: Final = 64
_are_integers: Final = frozenset({int}).issuperset


class Form(Protocol):
    """A form of a type map: Bounds, Signature or Layout."""

    def repeat(self, count: int, stride: int, /) -> Self: ...
    def place(self, displacements: Integers, lengths: Integers | int, extent: int, /) -> Self: ...
    def shift(self, nbytes: int, /) -> Self: ...
    @staticmethod
    def concat(parts: Iterable[Any], /) -> Any: ...


F = TypeVar("F", bound=Form)


class Compose(Protocol):
    """Computes a form of a type map from the forms of its components.

    Args:
        kind: the class of the form.
        form: returns the form of a component.
    """

    def __call__(self, kind: type[F], form: Callable[[TypeMap], F], /) -> F: ...


class TypeMap:
    """A sequence of basic types at displacements.

    Attributes:
        combiner: the constructor that made the type map, one of the COMBINER_ constants.
        arguments: arguments of the call by name: integers, and tuples or arrays of integers.
        types: the types that were passed to the call, in order.
        bounds: bounds and alignment.
        lb: lower bound, bytes.
        extent: bytes from the lower to the upper bound.
        signature: basic types in order.
        constant: the predefined datatype that has this type map, or None.
        small: True if few numbers describe the type map, its components included.
        items, external_items: the `Items` of the type in native and in external32 representation; None until they are
            needed.
    """

    __slots__ = (
        "_components", "_compose", "_dtype", "_external", "_layout", "arguments", "bounds", "combiner", "constant",
        "extent", "external_items", "items", "lb", "signature", "small", "types",
    )  # fmt: skip

    combiner: int
    arguments: Arguments
    types: Sequence[TypeMap]
    bounds: Bounds
    lb: int
    extent: int
    signature: Signature
    constant: Datatype | None
    small: bool
    items: Items | None
    external_items: Items | None
    _dtype: np.dtype[Any] | Callable[[], np.dtype[Any]] | None
    _components: tuple[TypeMap, ...]
    _compose: Compose | None
    _layout: Layout | None
    _external: Layout | None

    @classmethod
    def basic(cls, signature: Signature, alignment: int, dtype: Callable[[], np.dtype[Any]]) -> TypeMap:
        """Return the type map of a basic type: {(type, 0)}."""
        self = cls._leaf(Bounds(0, signature.size, alignment), signature)
        self._dtype = dtype
        self._layout = Layout.run(signature.size)
        return self

    @classmethod
    def empty(cls, bounds: Bounds) -> TypeMap:
        """Return a type map without entries, for the null type or a marker."""
        self = cls._leaf(bounds, Signature.concat(()))
        self._layout = self._external = Layout.concat(())
        return self

    @classmethod
    def _leaf(cls, bounds: Bounds, signature: Signature) -> TypeMap:
        self = cls.__new__(cls)
        self.combiner, self.arguments, self.types, self.constant = COMBINER_NAMED, {}, (), None
        self._set_bounds(bounds)
        self.signature, self._dtype, self.small = signature, None, True
        self._components, self._compose, self._layout, self._external = (), None, None, None
        self.items = self.external_items = None
        return self

    @classmethod
    def derived(
        cls,
        combiner: int,
        arguments: Arguments,
        types: Sequence[TypeMap],
        compose: Compose,
        *,
        markers: tuple[int, int] | None = None,
        components: Iterable[TypeMap] | None = None,
    ) -> TypeMap:
        """Return the type map that a constructor makes, or made in an earlier call with equal arguments.

        Args:
            markers: lower and upper bound, instead of the bounds that follow from the components.
            components: type maps from which the result is composed; `types` by default.
        """
        call = (combiner, *types, *arguments.values())
        try:
            known = _recent.get(call)
        except TypeError:  # arrays cannot be hashed
            known = None
        if known is not None:
            return known
        self = cls.__new__(cls)
        few = len(call) <= _FEW and {TypeMap, int, tuple}.issuperset(map(type, call))
        self.small = few and all(old.small for old in types)
        self._dtype = None
        self.combiner, self.arguments, self.types, self.constant = combiner, arguments, types, None
        self._components = tuple(dict.fromkeys(types if components is None else components))
        self._compose, self._layout, self._external = compose, None, None
        self.items = self.external_items = None
        self.signature = compose(Signature, operator.attrgetter("signature"))
        bounds = compose(Bounds, operator.attrgetter("bounds"))
        self._set_bounds(bounds if markers is None else bounds.marked(*markers))
        if self.small and components is None:
            if len(_recent) >= _RECENT:
                _recent.clear()
            _recent[call] = self
        return self

    def _set_bounds(self, bounds: Bounds) -> None:
        self.bounds, self.lb = bounds, bounds.lb
        self.extent = bounds.ub - self.lb

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Numpy type of an item, or None. A function set in its place makes the type at the first use."""
        if callable(self._dtype):
            self._dtype = self._dtype()
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: np.dtype[Any] | Callable[[], np.dtype[Any]] | None) -> None:
        self._dtype = dtype

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return self.signature.size

    @property
    def is_marker(self) -> bool:
        """True for the type maps of LB and UB."""
        return self.constant is not None and (self.bounds.lower is None) != (self.bounds.upper is None)

    @property
    def layout(self) -> Layout:
        """For each byte of memory, its position in a message; computed at the first use."""
        if self._layout is None:
            self._complete("_layout")
        assert self._layout is not None
        return self._layout

    @property
    def external(self) -> Layout:
        """For each byte of memory, its position in external32 (section 4.3 of MPI-3.1); computed at the first use."""
        if self._external is None:
            self._complete("_external")
        assert self._external is not None
        return self._external

    def make_items(self, form: str) -> Items:
        """Make the items in one representation, named by their attribute.

        If elements must be converted to external32 one by one, the items are empty, and cannot be used.
        """
        from aiompi.datatype import external32  # needs NumPy, and programs without arrays do not

        layout = self.layout if form == "items" else self.external
        words = None if form == "items" else external32.words(layout)
        parts = layout.blocks if words is not None or form == "items" else ()
        made = Items(parts, words, layout.size, self.extent, layout.overlapping)
        setattr(self, form, made)
        return made

    def _complete(self, form: str) -> None:
        """Compute a layout after the layouts of the components, without recursion: types may be nested deeply."""
        stack = [self]
        while stack:
            typemap = stack[-1]
            if getattr(typemap, form) is not None:  # already computed: several types may have the same component
                stack.pop()
                continue
            missing = [part for part in typemap._components if getattr(part, form) is None]
            if missing:
                stack += missing
                continue
            if typemap._compose is not None:
                setattr(typemap, form, typemap._compose(Layout, operator.attrgetter(form)))
            else:
                typemap._external = _external_element(typemap)


def recalled(combiner: int, types: Iterable[TypeMap], *arguments: object) -> TypeMap | None:
    """Return the type map of an earlier call with equal arguments, or None. Such arguments need no second check.

    Args:
        combiner: the constructor, one of the COMBINER_ constants.
        types: type maps of the types that were passed to the call.
        arguments: the other arguments as they were passed, in the order of `TypeMap.arguments`.
    """
    call: list[object] = [combiner, *types]
    for given in arguments:
        if type(given) is int or type(given) is Constant:  # the default of `order`
            call.append(given)
        elif (type(given) is list or type(given) is tuple) and len(given) <= _MOST and _are_integers(map(type, given)):
            call.append(tuple(given))
        else:
            return None
    return _recent.get(tuple(call))


def _external_element(typemap: TypeMap) -> Layout:
    from aiompi.datatype import external32  # needs NumPy, and programs without arrays do not

    assert typemap.constant is not None
    return Layout.element(typemap.constant, typemap.size, external32.element_of(typemap.constant).nbytes)
