"""Receives of messages that a matched probe has taken (MPI_Mrecv, MPI-3)."""

from __future__ import annotations

from collections.abc import Callable

from aiompi.engine.message import Message
from aiompi.engine.receive import Receive
from aiompi.engine.scattered import ScatteredReceive


class MatchedReceive(Receive):
    """A receive of a certain message.

    Attributes:
        keep: gets the message back when the receive is withdrawn.
    """

    __slots__ = ("keep",)

    keep: Callable[[Message], object]

    def _give_back(self, message: Message) -> None:
        self.keep(message)


class MatchedScatteredReceive(ScatteredReceive):
    """The same, into memory with gaps."""

    __slots__ = ("keep",)

    keep: Callable[[Message], object]

    def _give_back(self, message: Message) -> None:
        self.keep(message)
