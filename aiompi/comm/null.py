"""The stand-in for the communicator of a handle that is COMM_NULL (section 5.4)."""

from __future__ import annotations

from typing import Final, NoReturn, cast

from aiompi.comm.communicator import Communicator
from aiompi.errors import InvalidCommError


class NullCommunicator:
    """Replaces a Communicator, and raises InvalidCommError at each access.

    Args:
        reason: why the handle is null, for error messages.
    """

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        object.__setattr__(self, "_reason", reason)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._error()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise self._error()

    def _error(self) -> InvalidCommError:
        return InvalidCommError(f"the communicator is COMM_NULL: {self._reason}")

    def __repr__(self) -> str:
        return "<COMM_NULL>"


def is_null(comm: Communicator) -> bool:
    """Return True if `comm` stands for COMM_NULL."""
    return isinstance(comm, NullCommunicator)


def freed(comm: Communicator) -> Communicator:
    """Return the stand-in for a freed communicator."""
    return cast(Communicator, NullCommunicator(f"{comm.label}, rank {comm.rank}, has been freed"))


NULL: Final = cast(Communicator, NullCommunicator("there is no communicator behind it"))
OUTSIDE: Final = cast(Communicator, NullCommunicator("this process is in no group of the new communicator"))
