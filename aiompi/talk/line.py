"""`Line`: numbered messages between two members, each delivered once and in order while both live."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from aiompi.errors import RemoteProtocolError

#: kind of the message; whether its receiver acknowledges it at once; its number; the last number that its sender got
HEADER: Final = struct.Struct("<BBQQ")
#: the kind of a message that only acknowledges; it has the number 0
ACKNOWLEDGEMENT: Final = 0
#: the second field of a message that its receiver acknowledges at once
_ASKS: Final = 1
#: stands in place of a kind: several messages follow, each after its length
BUNDLE: Final = 255
_BUNDLE_HEAD: Final = bytes((BUNDLE,))
_LENGTH: Final = struct.Struct("<L")
#: bytes of messages that are sent together
_MOST_TOGETHER: Final = 8192

#: bytes of messages that a line keeps before senders wait
_LIMIT: Final = 4 * 2**20
#: bytes that a kept message counts for, in addition to its content
_OVERHEAD: Final = 256

#: called once: with None when the other member has received the message, or with an error if that member never receives
#: it
Settle: TypeAlias = Callable[[Exception | None], object]


#: a message: number, kind, content, and the function to call when it has been received
_Kept: TypeAlias = tuple[int, int, bytes, Settle | None]


class Line:
    """The messages to one member and from it.

    The sender keeps a message until the other member acknowledges it. In the next world, the sender sends all kept
    messages again. The receiver drops a message that it has. Acknowledgements travel with messages of the other
    direction. An acknowledgement travels alone if the sender asks for it. The first messages in a turn of the event
    loop leave at once. Later messages of the same turn travel together.

    Args:
        birth: number of the world in which the line began, the same at both ends.
        take: called with the line, the kind and the content of each message.

    Attributes:
        birth: number of the world in which the line began.
        transmit: function that sends bytes to the other member in their common world; None while they have no common
            world.
        error: why the other member receives nothing more; None while it still receives.
    """

    def __init__(self, birth: int, take: Callable[[Line, int, memoryview], object]) -> None:
        self.birth = birth
        self.transmit: Callable[[bytes], object] | None = None
        self.error: Exception | None = None
        self._take = take
        self._kept: deque[_Kept] = deque()
        self._sent = self._received = 0
        self._bytes = self._unasked = 0  # of kept messages; of messages since the last one with `_ASKS`
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._together: list[bytes] = []
        self._bytes_together = 0
        self._alone = 0  # messages that have left alone in this turn of the event loop; the first one does not count

    @property
    def has_room(self) -> bool:
        """True if a message need not wait."""
        return self._bytes < _LIMIT

    @property
    def is_idle(self) -> bool:
        """True if the other member has everything."""
        return not self._kept

    async def room(self) -> None:
        """Wait until there is room for a message, or the line has ended."""
        while self._bytes >= _LIMIT and self.error is None:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                await future
            finally:
                if future in self._waiting:
                    self._waiting.remove(future)

    def post(self, kind: int, data: bytes, settle: Settle | None = None) -> None:
        """Send a message at once, or in the next world.

        Args:
            kind: for the receiver.
            data: content.
            settle: called when the message has been received, or never will be.
        """
        if self.error is not None:
            if settle is not None:
                settle(self.error)
            return
        self._sent += 1
        nbytes = len(data) + _OVERHEAD
        self._bytes += nbytes
        self._unasked += nbytes
        self._kept.append((self._sent, kind, data, settle))
        if self.transmit is not None:
            asks = settle is not None or self._unasked >= _LIMIT // 4
            if asks:
                self._unasked = 0
            self._send(self.transmit, HEADER.pack(kind, asks, self._sent, self._received) + data)

    def _send(self, transmit: Callable[[bytes], object], message: bytes) -> None:
        if self._alone < 2:
            self._alone += 1
            if self._alone == 2:  # a member that answers each message needs no callback
                asyncio.get_running_loop().call_soon(self._on_turn)
            transmit(message)
        elif len(message) >= _MOST_TOGETHER:
            self._send_together()
            transmit(message)
        else:
            self._together += (_LENGTH.pack(len(message)), message)
            self._bytes_together += len(message)
            if self._bytes_together >= _MOST_TOGETHER:
                self._send_together()

    def _on_turn(self) -> None:
        self._alone = 0
        self._send_together()

    def _send_together(self) -> None:
        messages, self._together, self._bytes_together = self._together, [], 0
        if messages and self.transmit is not None:
            self.transmit(b"".join((_BUNDLE_HEAD, *messages)))

    def acknowledge(self) -> None:
        """Tell the other member which messages have come."""
        if self.transmit is not None:
            self.transmit(HEADER.pack(ACKNOWLEDGEMENT, 0, 0, self._received))

    def ask(self) -> None:
        """Ask the other member to acknowledge the messages that it has."""
        if self._kept and self.transmit is not None:
            self.transmit(HEADER.pack(ACKNOWLEDGEMENT, _ASKS, 0, self._received))

    def resume(self, transmit: Callable[[bytes], object]) -> None:
        """Go on in a new world: send again all messages that the other member may not have."""
        self.transmit = transmit
        self._together, self._bytes_together = [], 0
        for number, kind, data, _ in [*self._kept]:
            transmit(HEADER.pack(kind, _ASKS, number, self._received) + data)

    def arrived(self, message: memoryview) -> None:
        """Take what the other member has sent.

        Raises:
            RemoteProtocolError: the other member breaks the protocol.
        """
        if not message or message[0] != BUNDLE:
            self._arrived(message)
            return
        bundle = bytes(message)  # a copy, so that a kept message does not keep all others
        start = 1
        while start < len(bundle) and self.error is None:
            end = start + _LENGTH.size
            if end <= len(bundle):
                start, end = end, end + _LENGTH.unpack_from(bundle, start)[0]
            if end > len(bundle):
                raise RemoteProtocolError(f"messages of {len(bundle)} bytes came whose last one ends at {end}")
            self._arrived(memoryview(bundle[start:end]))
            start = end

    def _arrived(self, message: memoryview) -> None:
        if len(message) < HEADER.size:
            raise RemoteProtocolError(f"a message of {len(message)} bytes came, which is shorter than a header")
        kind, asks, number, received = HEADER.unpack_from(message)
        if (kind == ACKNOWLEDGEMENT) != (number == 0) or number > self._received + 1 or received > self._sent:
            raise RemoteProtocolError(
                f"message {number} of kind {kind} came after {self._received}, acknowledging {received} of {self._sent}"
            )
        if self._alone == 1:
            self._alone = 0  # another turn
        self._settle(received)
        if number == self._received + 1:
            self._received = number
            self._take(self, kind, message[HEADER.size :])
        if asks:
            self.acknowledge()

    def _settle(self, received: int) -> None:
        """Forget the messages that the other member has."""
        kept = self._kept
        while kept and kept[0][0] <= received:
            _, _, data, settle = kept.popleft()
            self._bytes -= len(data) + _OVERHEAD
            if settle is not None:
                settle(None)
        if self._waiting and self._bytes < _LIMIT:
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def end(self, error: Exception) -> None:
        """Drop all messages: the other member is gone."""
        if self.error is None:
            self.error, self.transmit = error, None
            kept, self._kept = self._kept, deque()
            for _, _, _, settle in kept:
                if settle is not None:
                    settle(error)
            self._wake()
