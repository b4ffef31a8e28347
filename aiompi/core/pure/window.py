"""Direct accesses to the windows of other ranks. The pure form has none: there only the target accesses its memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class WindowBase:
    """The base of a window, for direct accesses to other ranks' memory; see `aiompi.window.window.Window`.

    Attributes:
        comm: communicator of its messages.
        unflushed: ranks that have not answered a request of this rank yet.
        pending: operations that are not complete at this end, by rank.
        accessed: True once this rank has accessed the memory of any rank since the last fence.
    """

    __slots__ = ("accessed", "comm", "pending", "unflushed")

    comm: Any
    unflushed: set[int]
    pending: dict[int, set[Any]]
    accessed: bool

    def prepare(self, size: int, operations: Sequence[object]) -> None:
        """Make room for the notes on the memory of each rank.

        Args:
            size: number of ranks.
            operations: predefined operations in the order of their numbers in the core.
        """

    def place(self, rank: int, memory: memoryview | None, address: int, nbytes: int, unit: int) -> None:
        """Note where the memory of a rank is.

        Args:
            rank: the rank.
            memory: memory of the rank; None if it is not mapped here.
            address: address of the memory in the process of that rank; 0 if this rank must not copy through the kernel.
            nbytes, unit: bytes of the memory, and bytes of a displacement.
        """

    def permit(self, rank: int, rights: int) -> None:
        """Set the rights of this rank to access the memory of a rank; see `aiompi.window.sync`."""

    def withdraw(self) -> None:
        """Use the general path for every access from now on: the window is freed or revoked, or a rank has failed."""

    # The accesses. Each returns False if the general path must make the access; that path also reports errors.

    def put_at_once(self, origin: object, rank: object, target: object) -> bool:
        """Write an array to the memory of a rank."""
        return False

    def get_at_once(self, origin: object, rank: object, target: object) -> bool:
        """Read from the memory of a rank into an array."""
        return False

    def accumulate_at_once(self, origin: object, result: object, rank: object, target: object, op: object) -> bool:
        """Combine an array with elements of a rank's memory. `result`, unless None, gets the former elements."""
        return False

    def fetch_at_once(self, origin: object, result: object, rank: object, target: object, op: object) -> bool:
        """Do what `accumulate_at_once` does, with one element."""
        return False

    def swap_at_once(self, origin: object, compare: object, result: object, rank: object, target: object) -> bool:
        """Set one element of a rank's memory if the element equals `compare`, and fetch its old value into `result`."""
        return False

    def flush_at_once(self, rank: object) -> bool:
        """Complete the accesses to the memory of a rank, if that is possible without waiting."""
        return False
