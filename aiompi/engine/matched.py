"""Receives of messages that a matched probe has taken (MPI_Mrecv, MPI-3)."""

from __future__ import annotations

from collections.abc import Callable

from aiompi.engine.message import Message
from aiompi.engine.receive import Receive
from aiompi.engine.scattered import ScatteredReceive


class Returning:
    """Mixed into receives of a certain message.

    Attributes:
        keep: gets the message back when the receive is withdrawn.
    """

    __slots__ = ()

    keep: Callable[[Message], object]

    def _give_back(self, message: Message) -> None:
        self.keep(message)


class MatchedReceive(Returning, Receive):
    """A receive of a certain message."""

    __slots__ = ("keep",)


class MatchedScatteredReceive(Returning, ScatteredReceive):
    """The same, into memory with gaps."""

    __slots__ = ("keep",)
