"""`ProcessManager`: the program that has started this process. `Place`: the key and agent connection of a rank."""

from __future__ import annotations

import dataclasses
import socket
from abc import ABC, abstractmethod

from aiompi.settings import Settings


class ProcessManager(ABC):
    """The program that has started the processes of this job, as seen from one of them.

    Attributes:
        name: for messages.
        rank: of this process.
        size: number of processes.
    """

    name: str
    rank: int
    size: int

    @abstractmethod
    def meet(self, settings: Settings) -> Place:
        """Become a rank of the job.

        Raises:
            JobAbortedError: the other processes cannot be reached.
            AuthenticationError: there is no key.
        """

    @abstractmethod
    def abort(self, code: int, reason: str) -> None:
        """Ask the process manager to end all processes, if it can.

        Args:
            code: exit status of the job.
            reason: for the user.
        """

    @abstractmethod
    def finalize(self) -> None:
        """Tell the process manager that this process ends without an error."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The place of this process in its job.

    Attributes:
        manager: the process manager, to which this process reports its end.
        key: of the job.
        connection: to the agent; both have proven the key.
    """

    manager: ProcessManager
    key: bytes = dataclasses.field(repr=False)
    connection: socket.socket
