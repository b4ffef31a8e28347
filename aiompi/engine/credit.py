"""Credit: how many bytes of eager messages a rank may send before the receiver has consumed earlier ones.

Each eager message spends credit (`eager_window` bytes at first). The receiver returns the credit when it has consumed
the message: in the header of any frame, or in a separate frame as soon as half of the window is owed. So the memory of
eager messages at the receiver is bounded. If a program answers each message, the answers return all credit, even the
credit of the longest eager messages over TCP.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.core.pure.peer import OVERHEAD
from aiompi.engine.endpoint import Endpoint
from aiompi.errors import RemoteProtocolError
from aiompi.wire.frame import HEADER, PROTOACK

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.seams import Link

_pack: Final = HEADER.pack


#: credit of a peer that is gone: so far below 0 that credit which still arrives makes no difference
NO_CREDIT: Final = -(2**62)


class CreditedEndpoint(Endpoint):
    """A peer with which this rank exchanges credit for eager messages: each of the two grants credit to the other."""

    __slots__ = ("_links", "_looked")

    def __init__(self, engine: Engine, rank: int, credit: int) -> None:
        super().__init__(engine, rank)
        self.credit = self.most_credit = credit
        self._hiwater = engine.settings.eager_window
        self._ackmark = self._hiwater // 2
        self._links: list[Link] = []
        self._looked = False

    @abstractmethod
    def connect(self) -> Link:
        """Make a link to the peer, unless the peer makes one meanwhile."""

    def look(self) -> None:
        for link in [*self._links]:
            link.look()

    # Credit that the peer grants.

    def check_sends(self) -> None:
        self.credit = NO_CREDIT  # a send that finds no credit makes this check

    def _affords(self, cost: int) -> bool:
        """Return True if there is credit for a message, including credit that the peer has granted by now.

        With progress in the background, this method looks for granted credit at most once per turn. Other
        work therefore gets a turn before this rank copies the messages for which credit was granted.
        """
        if cost > self.credit and not self._looked:
            for link in self._links:
                self.gain(link.granted())
            if self.engine.driver.background:
                self._looked = True
                self.engine.driver.call_soon(self._look_again)
        return cost <= self.credit

    def _look_again(self) -> None:
        self._looked = False

    def _give(self, envelope: tuple[int, ...], give: Callable[[bytes], bool]) -> bool:
        """Let `give` send a frame with this envelope; return False if the frame cannot be sent now."""
        kind, tag, source, context, length, srqid, note = envelope
        owed, self._owed = self._owed, 0
        given = True  # even if a signal handler raises here, so that no credit is returned twice
        try:
            given = give(_pack(kind, tag, source, owed, context, length, srqid, note))
        finally:
            if not given:
                self._owed += owed
        return given

    # Credit that the peer is granted.

    def _hold(self, length: int) -> int:
        cost = length + OVERHEAD
        held = self._held + cost
        if held > self._hiwater:
            raise RemoteProtocolError(
                f"rank {self.rank} sent {held} bytes eagerly, more than the {self._hiwater} it was granted"
            )
        self._held = held
        return cost

    def consumed(self, eager: int) -> None:
        if eager:
            self._held -= eager
            self._owed += eager  # as `_return_credit` does
            if self._owed >= self._ackmark:
                self._acknowledge()

    def _return_credit(self, nbytes: int) -> None:
        self._owed += nbytes
        if self._owed >= self._ackmark:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Return credit, in a separate frame if necessary.

        No rank sleeps to wait for credit: a sender without credit announces its message, and the receiver's answer
        wakes the sender.
        """
        if self.error is not None:
            return
        owed, self._owed = self._owed, 0
        link = self.link or self.connect()
        if not link.grant(owed):
            link.send(_pack(PROTOACK, 0, 0, owed, 0, 0, 0, 0), (), None)

    def _header(self, kind: int, tag: int, source: int, context: int, length: int, srqid: int, drqid: int) -> bytes:
        """Make the header of a frame, which returns all credit that is owed."""
        owed, self._owed = self._owed, 0
        return _pack(kind, tag, source, owed, context, length, srqid, drqid)
