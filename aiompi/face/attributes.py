"""Attributes of communicators (section 5.7), with mpi4py's names; the same in both faces."""

from __future__ import annotations

from aiompi import attribute
from aiompi.comm.attribute import COMMUNICATOR_KEYVALS, Attributes
from aiompi.face.common import Membership


class Caching(Membership, attribute.Caching):
    """Values that a program caches on a communicator of its process."""

    __slots__ = ()

    _keyvals = COMMUNICATOR_KEYVALS

    @property
    def _attributes(self) -> Attributes:
        return self._core.attributes
