"""`ProcessManager`, what a rank needs of the program that has started it, and `Store`, one that passes values on."""

from __future__ import annotations

import dataclasses
import socket
from abc import ABC, abstractmethod


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
    def abort(self, code: int, reason: str) -> None:
        """Ask it to end all processes, if it can.

        Args:
            code: exit status of the job.
            reason: for the user.
        """

    @abstractmethod
    def finalize(self) -> None:
        """Tell it that this process ends well."""


class Store(ProcessManager):
    """A process manager with a store of texts, by which processes introduce themselves to each other."""

    @abstractmethod
    def put(self, key: str, value: str) -> None:
        """Store a value, which others can get after the next fence.

        Args:
            key: at most 32 letters, digits, dots and hyphens.
            value: at most 1023 such characters and colons, commas and brackets.
        """

    @abstractmethod
    def get(self, key: str, rank: int) -> str:
        """Return the value that a rank has put before the last fence."""

    @abstractmethod
    def fence(self) -> None:
        """Wait until all processes call this."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The place of this process in its job.

    Attributes:
        manager: the process manager; it is told of the end of this process.
        key: of the job.
        connection: to the agent; both have proven the key.
    """

    manager: ProcessManager
    key: bytes = dataclasses.field(repr=False)
    connection: socket.socket
