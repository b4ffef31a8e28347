"""Long messages that are copied between memory of this rank and of its peers, in turn with everything else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.wire.frame import SYNCACK, Offer, Payload

if TYPE_CHECKING:
    from aiompi.engine.message import Landing
    from aiompi.engine.peer import Peer
    from aiompi.engine.seams import Driver
    from aiompi.engine.send import Send

#: bytes that are copied before the event loop gets a turn
_PER_TURN: Final = 4 * 2**20


class Copies:
    """Those under way. A part of one of them is copied per turn, however many there are."""

    __slots__ = ("_driver", "_parts", "_scheduled")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._parts: deque[Callable[[], bool]] = deque()
        self._scheduled = False

    def begin(self, part: Callable[[], bool]) -> None:
        """Copy one more.

        Args:
            part: copies a part of it, and tells whether there is more.
        """
        try:
            self._parts.append(part)
        finally:
            if not self._scheduled:
                self._go_on()

    def drop(self, part: Callable[[], bool]) -> None:
        """Copy no more of one, if it is under way."""
        if part in self._parts:
            self._parts.remove(part)

    def _go_on(self) -> None:
        parts = self._parts
        self._scheduled = True
        try:
            if parts:
                part = parts[0]
                parts.rotate(-1)
                if not part():
                    self.drop(part)
        finally:
            # Whatever the part raises, the others go on, and this one again.
            self._scheduled = False
            if parts:
                self._driver.call_soon(self._go_on)
                self._scheduled = True


def read_part(peer: Peer, landing: Landing, srqid: int, offer: Offer) -> bool:
    """Copy a part of a message of a peer from where it is on offer, and answer at its end; whether there is more."""
    if landing not in peer.landings:
        return False  # it is complete, or the peer is gone
    if landing.filled < landing.length:
        landing.filled = offer.copy(landing.memory, landing.filled, _PER_TURN, landing.length)
        if landing.filled < landing.length:
            return True
    if not offer.close(wait=False):
        return True
    if offer.stands():
        try:
            peer.emit(SYNCACK, srqid=srqid)
        finally:
            # Even if a signal handler raises: with the answer the memory is that of the sender's program.
            landing.advance(0)
    else:
        landing.filled = 0
        peer.ask(landing, srqid)
    return False


def write_part(request: Send, payload: Payload, write: Callable[[int], bool]) -> bool:
    """Copy a part of a message to its receiver; whether there is more.

    Args:
        payload: of the request when this began: its memory may have become the program's meanwhile.
        write: copies up to so many bytes, and tells whether there is more.
    """
    engine = request._engine
    if engine.sends.get(request.srqid) is request and request.payload is payload and write(_PER_TURN):
        return True
    engine.assisting.pop(request.srqid, None)
    return False
