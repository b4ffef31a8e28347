"""Messages that go straight into the memory of a receive that is posted already: their sender copies them, once.

The receiver advertises such a receive. A sender with a message for it claims it, writes the message where it belongs
(process_vm_writev(2)), and tells so by a frame in the place of the message. Nobody answers: where there is no such
receive, or the kernel does not let the sender write, the message goes as any other. A sender only looks for one that is
just being posted, for less time than it may save; and who takes memory back waits for a copy into it that has begun.

The first message of the sender that a receive matches is its. So one is advertised when none that was posted before can
get that message, and claimed when the receiver has read everything that was sent before. A receive that is withdrawn
after that has its message kept aside, until the frame comes. One at a time is advertised per ring, the last one, unless
it wants the same messages as the one before.

They meet by words of the ring from the sender to the receiver.

| word       | written by   | meaning                                                                              |
|------------|--------------|--------------------------------------------------------------------------------------|
| CLAIMED    | the sender   | twice the number of the receive that it writes to, 1 more when the message is there; |
|            |              | 0: none                                                                              |
| LENGTH     | the sender   | of that message, in bytes                                                            |
| POSTED     | the receiver | number of the receive, another one each time; 0: none                                |
| CONTEXT    | the receiver | of that receive                                                                      |
| WANTED_TAG | the receiver | the tag that it wants                                                                |
| ADDRESS    | the receiver | of its memory                                                                        |
| BYTES      | the receiver | that there are                                                                       |

Memory ordering. What describes a receive is stored before its number, and changed only when that has been cleared. The
sender stores what it claims and then, after a fence, loads the number again; the receiver clears the number and then,
after a fence, loads what is claimed. So either the sender finds that the receive is withdrawn and leaves its memory
alone, or the receiver finds that it is claimed, and waits until the message is there.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Final

from aiompi.constants import ANY_TAG
from aiompi.datatype.buffer.allocation import copied
from aiompi.datatype.buffer.process import address_of
from aiompi.engine.receive import SHORTEST
from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.halves import LONG, FirstHalf, SecondHalf
from aiompi.transport.shared_memory.inbound import Inbound, nothing_filled
from aiompi.transport.shared_memory.neighbour import Neighbour
from aiompi.transport.shared_memory.outbound import NOT, Outbound
from aiompi.transport.shared_memory.ring import FILLED
from aiompi.transport.shared_memory.words import CLAIMED, CONTEXT, HEAD, LENGTH, POSTED, TAIL
from aiompi.wire.frame import EAGER, HEADER, Sink

if TYPE_CHECKING:
    from aiompi.engine import Engine, Receive


#: bytes of a message from which this takes less time than the ring where ranks share cores: the sender, which does all
#: the work, keeps others from theirs
_SHORTEST_CROWDED: Final = 128 * 2**10
#: the words from CONTEXT to BYTES
_RECEIVE: Final = struct.Struct("=QqQQ")
_PLACE: Final = 8 * CONTEXT
_unpack: Final = HEADER.unpack
_unpack_from: Final = _RECEIVE.unpack_from
#: how often a sender looks for a receive that is just being posted, and once more for so many bytes: for less time than
#: it saves
_LOOKS: Final = 60
_PER_LOOK: Final = 4 * 2**10
#: messages in a row that wait so in vain before none does any more
_HOPE: Final = 8
#: in the place of a message that nobody gets
_LOST: Final = memoryview(b"")


def shortest(engine: Engine) -> int:
    """Bytes of a message from which it may go straight into the memory of its receive."""
    if not engine.settings.single_copy:
        return sys.maxsize
    return SHORTEST if engine.uncrowded else _SHORTEST_CROWDED


class Advertiser:
    """The receiver's end (see `aiompi.engine.seams.Advertised`).

    Args:
        neighbour: the sender.
        ring: from the sender.
    """

    __slots__ = ("_half", "_helping", "_kept", "_neighbour", "_number", "_receive", "_ring")

    def __init__(self, neighbour: Neighbour, ring: Inbound) -> None:
        self._neighbour = neighbour
        self._ring = ring
        self._half = SecondHalf(neighbour, ring)
        self._helping = False
        self._number = 0
        self._receive: Receive | None = None
        self._kept: memoryview | None = None
        ring.accept = self._accept

    def end(self) -> None:
        """The ring is of no use any more, and what is there for a receive is lost."""
        self.drop()
        self._ring.accept, self._ring.help = nothing_filled, None  # nothing refers to itself any more

    def advertise(self, receive: Receive, memory: memoryview) -> None:
        """Let the sender know of a receive into memory, in the place of one that waits for other messages."""
        if self._kept is not None or not self._neighbour.reachable:
            return
        other = self._receive
        if other is not None:
            if (other.matcher, other.want_tag) == (receive.matcher, receive.want_tag) or self.claimed():
                return
            other.advertised = None
        words, self._number = self._ring.words, self._number + 1
        _RECEIVE.pack_into(words, _PLACE, receive.matcher.context, receive.want_tag, address_of(memory), len(memory))
        self._receive = receive
        receive.advertised = self
        self._ring.help = self._help if len(memory) >= LONG and self._half.able else None
        words[POSTED] = self._number

    def _help(self) -> bool:
        """Copy a part of the message if the sender is just copying it; whether that was so."""
        receive, claim = self._receive, self._number << 1
        words = self._ring.words
        if self._helping or receive is None or receive.memory is None or words[CLAIMED] != claim:
            return False
        self._helping = True
        try:
            return self._half.copy(receive.memory, claim)
        finally:
            self._helping = False

    def claimed(self) -> bool:
        return not self._settled(wait=False) or self._there()

    def close(self, wait: bool = True) -> bool:
        receive = self._receive
        if receive is None:
            return True
        if not self._settled(wait):
            return False
        if self._there():
            assert receive.memory is not None
            self._kept = copied(receive.memory[: self._ring.words[LENGTH]])
        self._receive = receive.advertised = None
        return True

    def drop(self) -> None:
        receive = self._receive
        if receive is not None:
            self._settled(wait=True)
            if self._there():
                self._kept = _LOST
            self._receive = receive.advertised = None

    def _settled(self, wait: bool) -> bool:
        """Whether nobody writes into the memory; from now on nobody begins to."""
        words, claim = self._ring.words, self._number << 1
        words[POSTED] = 0
        self._ring.fence()
        return self._neighbour.settled(lambda: words[CLAIMED] != claim, wait)

    def _there(self) -> bool:
        claimed: int = self._ring.words[CLAIMED]
        return claimed == self._number << 1 | 1

    def _accept(self, sink: Sink, header: tuple[int, ...]) -> None:
        """Hand over the message, of which a frame has told."""
        receive, length = self._receive, header[5]
        memory = self._kept if receive is None else receive.memory
        if memory is _LOST:
            self._kept = None
            return
        if memory is None or length > len(memory):
            raise RemoteProtocolError(f"it told of {length} bytes in the memory of a receive that it does not know")
        self._ring.words[POSTED] = 0
        self._ring.help = None
        if receive is None:
            self._kept = None
            sink.frame((EAGER, *header[1:]), memory[:length])
        else:
            self._receive = receive.advertised = None
            sink.filled(header, receive)


class Filler:
    """The sender's end.

    Args:
        neighbour: the receiver.
        ring: to the receiver.
    """

    __slots__ = ("_half", "_hope", "_neighbour", "_ring", "_words")

    def __init__(self, neighbour: Neighbour, ring: Outbound) -> None:
        self._neighbour = neighbour
        self._ring = ring
        self._words = ring.words
        self._hope = _HOPE
        self._half = FirstHalf(neighbour, ring)

    def fill(self, header: bytes, payload: bytes | memoryview) -> bool:
        """Send an eager message into the memory of its receive, and a frame that tells so; False if that cannot be.

        Raises:
            RemoteProtocolError: the receiver has corrupted the ring.
        """
        words = self._words
        head = words[HEAD]
        if words[TAIL] != head:
            return False
        kind, tag, _, _, context, nbytes, _, _ = _unpack(header)
        if kind != EAGER or not self._neighbour.reachable:
            return False
        number = words[POSTED] or self._awaited(nbytes)
        wanted_context, wanted_tag, address, room = _unpack_from(words, _PLACE)
        if not number or context != wanted_context or nbytes > room or tag != wanted_tag != ANY_TAG:
            return False
        start = address_of(payload)
        # By a send that a signal handler has interrupted, which is the caller of this; or else has made, just now.
        if words[CLAIMED] >> 1 == number or not self._half.begin(start, nbytes) or words[CLAIMED] >> 1 == number:
            return False
        words[LENGTH] = nbytes
        words[CLAIMED] = claim = number << 1
        ring = self._ring
        try:
            ring.fence()
            if words[POSTED] == number and self._copy(address, start, nbytes):
                words[CLAIMED] = claim | 1
                self._hope = _HOPE
                return ring.put(header, b"", FILLED) != NOT
            words[CLAIMED] = 0
            return False
        except BaseException:
            # Whatever has interrupted this: once the message is there, the receiver relies on it that he will be told.
            if words[CLAIMED] == claim:
                words[CLAIMED] = 0
            elif words[HEAD] == head:
                ring.put(header, b"", FILLED)
            elif ring.unheard():
                ring.ring()
            raise

    def _awaited(self, nbytes: int) -> int:
        """The number of a receive that is just being posted, as where two ranks answer each other; 0 if there is none.

        Args:
            nbytes: of the message: the more, the longer this takes.
        """
        words, ring = self._words, self._ring
        if self._hope and ring.uncrowded and not ring.asleep:
            for _ in range(_LOOKS + nbytes // _PER_LOOK):
                number: int = words[POSTED]
                if number:
                    return number
            self._hope -= 1
        return 0

    def _copy(self, address: int, start: int, nbytes: int) -> bool:
        """Copy a message to its receive; whether all is there."""
        ring, neighbour = self._ring, self._neighbour
        if not neighbour.same():
            return False
        if (nbytes >= LONG or not ring.habit.late) and ring.herald():  # he wakes up meanwhile; otherwise `put` rings
            ring.ring()
        try:
            return self._half.copy(address, start, nbytes)
        except OSError as error:
            neighbour.refused(error)
            return False
