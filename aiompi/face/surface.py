"""What hooks see besides communicators and requests: the calls of objects that both faces share."""

from __future__ import annotations

from aiompi import hooks
from aiompi.comm import Group
from aiompi.comm.errhandler import Errhandler
from aiompi.datatype import Datatype
from aiompi.info import Info
from aiompi.op import Op

# Only what the standard has: the other names are Python's views of the same.
for _shared in (Group, Datatype, Op, Info, Errhandler):
    hooks.surface(_shared, [name for name in dir(_shared) if name[0].isupper()])
