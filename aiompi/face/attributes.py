"""Attributes of communicators (section 5.7), with mpi4py's names; the same in both faces."""

from __future__ import annotations

from typing import Any

from aiompi.comm.attribute import COMMUNICATOR_KEYVALS, CopyFunction, DeleteFunction
from aiompi.face.common import Membership


class Caching(Membership):
    """Values that a program caches on a communicator of its process."""

    __slots__ = ()

    @classmethod
    def Create_keyval(
        cls,
        copy_fn: CopyFunction | bool | None = None,
        delete_fn: DeleteFunction | bool | None = None,
        nopython: bool = False,
    ) -> int:
        """A new attribute key for the communicators of this process (MPI_Keyval_create, section 5.7.1).

        Args:
            copy_fn: makes the value of a duplicate out of (comm, keyval, value), or gives NotImplemented when it is to
                have none. True: the same value (MPI_DUP_FN); None: no value (MPI_NULL_COPY_FN).
            delete_fn: called with (comm, keyval, value) when the value is deleted or replaced, or comm is freed.
            nopython: values must be integers.

        Returns:
            The key, which is not KEYVAL_INVALID.
        """
        return COMMUNICATOR_KEYVALS.create(copy_fn, delete_fn, nopython)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Give up a key (MPI_Keyval_free, section 5.7.1); values under it stay, and are copied and deleted as before.

        Returns:
            KEYVAL_INVALID.

        Raises:
            InvalidKeyvalError: there is no such key, or it is predefined.
        """
        return COMMUNICATOR_KEYVALS.free(keyval)

    def Get_attr(self, keyval: int, default: Any = None) -> Any:
        """The value under a key (MPI_Attr_get, section 5.7.1).

        Args:
            keyval: made by `Create_keyval`, or TAG_UB, HOST, IO, WTIME_IS_GLOBAL, UNIVERSE_SIZE, LASTUSEDCODE, or the
                keys of IMPI 0.0, section 2.5: IMPI_CLIENT_SIZE and IMPI_HOST_SIZE, the number of clients and of hosts
                that the processes of the communicator belong to, and IMPI_CLIENT_COLOR and IMPI_HOST_COLOR, the number
                of the one of this process among them.
            default: returned when there is none; tells that from a value of None.

        Raises:
            InvalidKeyvalError: there is no such key.
        """
        return self._core.attributes.get(self, keyval, default)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Store a value; one that is there already is deleted (MPI_Attr_put, section 5.7.1).

        Raises:
            InvalidKeyvalError: there is no such key, or it is predefined.
            aiompi.Exception: the callback that deletes the old value failed; the new one is not stored.
        """
        self._core.attributes.set(self, keyval, attrval)

    def Delete_attr(self, keyval: int) -> None:
        """Delete a value, through the callback of its key (MPI_Attr_delete, section 5.7.1).

        Raises:
            InvalidKeyvalError: there is no value under this key, or it is predefined.
            aiompi.Exception: the callback failed; the value is deleted nevertheless.
        """
        self._core.attributes.delete(self, keyval)
