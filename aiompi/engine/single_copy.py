"""Long messages that are copied once, part by part, from the memory of one rank to the memory of another.

The receiver copies an offered message (`copy_from_sender`). If the receiver asks for help, the sender copies the end of
the message at the same time (`copy_to_receiver`). `CopyQueue` gives the event loop a turn after each part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.engine.blame import cause_of
from aiompi.wire.frame import SYNCACK, Offer, Payload

if TYPE_CHECKING:
    from aiompi.engine.message import Landing
    from aiompi.engine.peer import Peer
    from aiompi.engine.seams import Driver
    from aiompi.engine.send import Send
    from aiompi.engine.sending_peer import SendingPeer

#: bytes that are copied before the event loop gets a turn
_PER_TURN: Final = 4 * 2**20


class CopyQueue:
    """The copies in progress of a rank, and other long work, of which one part is done per turn."""

    __slots__ = ("_driver", "_parts", "_scheduled")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._parts: deque[Callable[[], bool]] = deque()
        self._scheduled = False

    def begin(self, part: Callable[[], bool]) -> None:
        """Begin a copy.

        Args:
            part: copies one part, and returns True if there is more.
        """
        try:
            self._parts.append(part)
        finally:
            if not self._scheduled:
                self._go_on()

    def begin_later(self, part: Callable[[], bool]) -> None:
        """Begin in a later turn; see `begin`."""
        self._parts.append(part)
        if not self._scheduled:
            self._driver.call_soon(self._go_on)
            self._scheduled = True

    def drop(self, part: Callable[[], bool]) -> None:
        """End a copy, if it is in progress."""
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
            # If the part raises, the other copies go on, and this one is tried again later.
            self._scheduled = False
            if parts:
                self._driver.call_soon(self._go_on)
                self._scheduled = True


def copy_from_sender(peer: Peer, landing: Landing, srqid: int, offer: Offer) -> bool:
    """Copy a part of an offered message, and answer when the message is complete; return True if bytes remain."""
    try:
        return _copy_from_sender(peer, landing, srqid, offer)
    except Exception as error:
        peer.break_off(cause_of(error))
        return False


def _copy_from_sender(peer: Peer, landing: Landing, srqid: int, offer: Offer) -> bool:
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
            # Also when a signal handler raises, because the answer gives the memory back to the sender's program.
            landing.advance(0)
    else:
        landing.filled = 0
        peer.ask(landing, srqid)
    return False


def copy_to_receiver(peer: SendingPeer, request: Send, payload: Payload, write: Callable[[int], bool]) -> bool:
    """Copy a part of a message to its receiver; return True if bytes remain.

    Args:
        payload: the payload of the request when the copy began. If the request has another payload now, the program
            uses this memory again.
        write: copies at most the given number of bytes, and returns True if bytes remain.
    """
    engine = peer.engine
    try:
        if engine.sends.get(request.srqid) is request and request.payload is payload and write(_PER_TURN):
            return True
    except Exception as error:
        peer.break_off(cause_of(error))
    engine.assisted.pop(request.srqid, None)
    return False
