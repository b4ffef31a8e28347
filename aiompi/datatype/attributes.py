"""Attributes of datatypes (section 6.7.4 of MPI-3.1)."""

from __future__ import annotations

from typing import Final

from aiompi import attribute
from aiompi.attribute import Attributes, Keyvals
from aiompi.datatype.handle import Handle

DATATYPE_KEYVALS: Final = Keyvals("datatype")


class Caching(Handle, attribute.Caching):
    """Values that a program caches on a datatype; all handles of the type see them."""

    __slots__ = ()

    _keyvals = DATATYPE_KEYVALS

    @property
    def _attributes(self) -> Attributes:
        self._valid()
        if self._state.attributes is None:
            self._state.attributes = Attributes(DATATYPE_KEYVALS)
        return self._state.attributes

    def _copy_attributes(self, duplicate: Handle) -> None:
        """Give a duplicate what the copy callbacks say."""
        if self._state.attributes is not None:
            duplicate._state.attributes = self._state.attributes.copy(self, duplicate)

    def _forget_attributes(self) -> None:
        """Call the delete callbacks: the type is being freed."""
        if self._state.attributes is not None:
            self._state.attributes.clear(self)
