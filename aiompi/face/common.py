"""What communicators of both faces say of themselves (section 5.4.1)."""

from __future__ import annotations

from aiompi.comm import Communicator, Group


class Membership:
    """Who and where this process is in a communicator."""

    __slots__ = ()

    _core: Communicator

    @property
    def rank(self) -> int:
        """Rank of this process, 0..size-1."""
        return self._core.rank

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._core.size

    @property
    def name(self) -> str:
        """Name for diagnostics (MPI_Comm_get_name)."""
        return self._core.name

    @property
    def group(self) -> Group:
        """The processes in rank order."""
        return self._core.group

    def Get_rank(self) -> int:
        return self._core.rank

    def Get_size(self) -> int:
        return self._core.size

    def Get_name(self) -> str:
        return self._core.name

    def Get_group(self) -> Group:
        return self._core.group
