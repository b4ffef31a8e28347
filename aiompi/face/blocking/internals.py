"""Names of `MPI` that Python modules of mpi4py, such as mpi4py.util, use when they run on aiompi."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from aiompi.base.opaque import Opaque
from aiompi.datatype import Datatype, predefined
from aiompi.datatype.handle import CODES
from aiompi.driver.threads import Lock
from aiompi.face.absent import absent
from aiompi.face.blocking.communicator import Comm, Intercomm, Intracomm
from aiompi.status import Status

__all__ = [
    "_addressof", "_comm_lock", "_comm_lock_table", "_commctx_inter", "_commctx_intra", "_handleof",
    "_set_abort_status", "_sizeof", "_typealign", "_typecode", "_typedict", "_typedict_c", "_typedict_f",
]  # fmt: skip

_OF_C: Final = (
    "? b h i l q B H I L Q f d g F D G b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 "
    f"f{predefined.LONG_DOUBLE.size} c{predefined.C_LONG_DOUBLE_COMPLEX.size}"
)

#: type codes, as `Datatype.fromcode` takes them
_typedict: Final = dict(CODES)
#: type codes of numbers in C
_typedict_c: Final = {code: CODES[code] for code in _OF_C.split()}
#: type codes of numbers in Fortran; a letter does not mean the same as in C
_typedict_f: Final = {
    "l": predefined.LOGICAL, "i": predefined.INTEGER, "s": predefined.REAL, "r": predefined.REAL,
    "d": predefined.DOUBLE_PRECISION, "c": predefined.COMPLEX, "z": predefined.DOUBLE_COMPLEX,
    "i1": predefined.INTEGER1, "i2": predefined.INTEGER2, "i4": predefined.INTEGER4, "i8": predefined.INTEGER8,
    "r4": predefined.REAL4, "r8": predefined.REAL8, "c8": predefined.COMPLEX8, "c16": predefined.COMPLEX16,
}  # fmt: skip

_C: Final = "an interface for C"
_sizeof = absent("_sizeof", _C)
_addressof = absent("_addressof", _C)


def _typecode(datatype: Datatype) -> str | None:
    """Return the type code of a predefined datatype, None if it has none."""
    try:
        return datatype.tocode()
    except ValueError:
        return None


def _typealign(datatype: Datatype) -> int | None:
    """Return the alignment of a predefined datatype in bytes, None for other datatypes."""
    return datatype.alignment if datatype and datatype.is_predefined else None


def _handleof(arg: Opaque | Status) -> int:
    """Return the number of an object, or of a status."""
    if isinstance(arg, Status):
        return id(arg)
    if not isinstance(arg, Opaque):
        raise TypeError(f"{arg!r} is no handle")
    return arg.handle


def _set_abort_status(status: int) -> None:
    """Do nothing: in any case, a process that ends with an exception or a status ends the job.

    Args:
        status: of the process.
    """


class _Context:
    """A duplicate of a communicator for a library of the program, and the number of tags that were used on it.

    Attributes:
        comm: the duplicate.
        local: for an intercommunicator, a communicator of the local group.
        low: for an intercommunicator, True if the local group is the first of the two groups.
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm.Dup()
        self.tag = 0
        self.local: Any = None
        self.low = True
        if isinstance(comm, Intercomm):
            self.low = self._is_low(comm)
            merged = comm.Merge(high=not self.low)
            self.local = merged.Split(color=int(self.low))
            merged.Free()

    @staticmethod
    def _is_low(comm: Intercomm) -> bool:
        """Return True if the local group has the process with the lowest rank in the world; True in one group only."""
        own, other = comm.Get_group().members, comm.Get_remote_group().members
        return min(own) < min(other)

    def take_tag(self) -> int:
        self.tag += 1
        return self.tag

    def free(self) -> None:
        for comm in (self.comm, self.local):
            if comm:
                comm.Free()


_locks = Lock()
_LOCKS = Comm.Create_keyval()
_CONTEXT = Comm.Create_keyval(delete_fn=lambda _comm, _key, context: context.free())


def _comm_lock_table(comm: Comm) -> dict[Hashable, Lock]:
    """Return the locks of a communicator, by what they guard."""
    with _locks:
        table: dict[Hashable, Lock] | None = comm.Get_attr(_LOCKS)
        if table is None:
            table = {}
            comm.Set_attr(_LOCKS, table)
    return table


def _comm_lock(comm: Comm, key: Hashable = None) -> Lock:
    """Return the lock of a communicator for one purpose."""
    return _comm_lock_table(comm).setdefault(key, Lock())


def _context(comm: Comm) -> _Context:
    context: _Context | None = comm.Get_attr(_CONTEXT)
    if context is None:
        context = _Context(comm)
        comm.Set_attr(_CONTEXT, context)
    return context


def _commctx_intra(comm: Intracomm) -> tuple[Intracomm, int]:
    """Return a duplicate of a communicator for the messages of a library, and a tag that no other call gets."""
    context = _context(comm)
    return context.comm, context.take_tag()


def _commctx_inter(comm: Intercomm) -> tuple[Intercomm, int, Intracomm, bool]:
    """Return the communicator, a tag, a communicator of the local group, and True if the local group is the first."""
    context = _context(comm)
    return context.comm, context.take_tag(), context.local, context.low
