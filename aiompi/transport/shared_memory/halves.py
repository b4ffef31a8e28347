"""A long message into the memory of a receive that is posted (see `posted`), copied by both ends at the same time.

The sender begins at its beginning, with the first half. A receiver that looks for messages meanwhile, because it waits,
begins at the end, until they meet; one that computes is not needed. That takes half as long as one core takes.

A sender that meets a part which the receiver copies waits for it, as long as that may take. If the receiver was stopped
in its midst the sender waits no longer, and the message goes as any other: whatever the receiver still copies into the
memory of that receive it does before it gets the message.

They meet by words of the ring from the sender to the receiver. Positions count bytes of the message; above them is the
number of the copy, so that nothing that is said of an earlier one is taken for this.

| word    | written by   | meaning                                                               |
|---------|--------------|-----------------------------------------------------------------------|
| FROM    | the sender   | the address of the message in its process, 0 if nobody is to help     |
| REACHED | the sender   | it has copied everything before this, or is about to; 0 at first      |
| HELPING | the receiver | it has copied everything from here on, or is about to                 |
| HELPED  | the receiver | it has copied everything from here on                                 |

Memory ordering. Each first stores what it is about to copy and then, after a fence, loads what the other one is: when
both want the same at least one of them sees it, and leaves it to the other. So does a sender before it begins another
copy, if the last one was interrupted or given up: it stores that it has reached the end of that. A receiver loads the
number before all else that it needs to know of a copy, and once more before it copies.
"""

from __future__ import annotations

import errno
from typing import Final

from aiompi.datatype.buffer.process import Writer, read_if
from aiompi.transport.shared_memory.inbound import Inbound
from aiompi.transport.shared_memory.neighbour import Neighbour
from aiompi.transport.shared_memory.outbound import Outbound
from aiompi.transport.shared_memory.words import CLAIMED, FROM, HELPED, HELPING, LENGTH, REACHED

#: bytes of a message from which it takes less time to copy it so
LONG: Final = 512 * 2**10
#: bytes that a receiver copies by one system call
_PIECE: Final = 512 * 2**10
#: of words: the position, and above it the number, of which none is used twice
_BITS: Final = 28
_POSITION: Final = (1 << _BITS) - 1
_WORD: Final = (1 << 64) - 1
_LAST: Final = _WORD & ~_POSITION
#: looks of a sender for the part of the receiver, and seconds after those in which it lets others run
_PATIENCE: Final = range(100)
_LONGEST: Final = 1e-3
#: how often a sender claims something: a receiver leaves it what he has claimed once, unless he cheats
_CLAIMS: Final = range(8)
#: pieces that a receiver copies before he looks at everything else
_TURN: Final = range(4)


class FirstHalf:
    """The sender's part.

    Args:
        neighbour: the receiver.
        ring: to the receiver.
    """

    __slots__ = ("_mark", "_nbytes", "_ring", "_whole", "_words", "_write")

    def __init__(self, neighbour: Neighbour, ring: Outbound) -> None:
        self._ring = ring
        self._words = ring.words
        self._write = Writer(neighbour.pid).write
        self._mark = self._nbytes = 0
        self._whole = True

    def begin(self, start: int, nbytes: int) -> bool:
        """Let the receiver help with a message that is claimed next, if it is long.

        Args:
            start: its address.

        Returns:
            Whether nothing of an earlier message is still being copied.
        """
        words = self._words
        if not self._whole:
            words[REACHED] = self._mark | _POSITION  # whoever begins to help with that one from now on leaves it
            self._ring.fence()
            if self._position(HELPED) > self._position(HELPING):
                return False
        self._whole = True
        if not LONG <= nbytes <= _POSITION or not self._ring.uncrowded or self._mark == _LAST:
            words[FROM] = 0
            return True
        self._mark = mark = self._mark + _POSITION + 1
        self._nbytes = nbytes
        words[REACHED] = mark
        words[FROM] = start
        return True

    def copy(self, address: int, start: int, nbytes: int) -> bool:
        """Copy the message to an address of the receiver's process, together with him; whether all is there.

        Raises:
            OSError: the kernel does not allow it, or that memory is not there.
        """
        if not self._words[FROM]:
            self._write(address, start, nbytes)
            return True
        self._whole = False
        done, until = 0, nbytes // 2
        for _ in _CLAIMS:
            stop = self._claim(until)
            if done < stop:
                self._write(address + done, start + done, stop - done)
                done = stop
            elif not self._left(done):
                break
            if self._position(HELPED) <= done:
                self._whole = True
                return True
            until = nbytes
        return False

    def _claim(self, until: int) -> int:
        """Up to where there is something to copy that the receiver is not copying."""
        self._words[REACHED] = self._mark | until
        self._ring.fence()
        return min(until, self._position(HELPING))

    def _position(self, word: int) -> int:
        """Of the receiver; at the end of the message if he has not begun to help."""
        position: int = self._words[word]
        return position & _POSITION if position & ~_POSITION == self._mark else self._nbytes

    def _left(self, done: int) -> bool:
        """Whether the receiver has copied the rest, which he has claimed, or left it, after a while if need be."""

        def settled() -> bool:
            return self._position(HELPED) <= done or self._position(HELPING) > done

        for _ in _PATIENCE:
            if settled():
                return True
        return self._ring.give_way(settled, _LONGEST)


class SecondHalf:
    """The receiver's part.

    Args:
        neighbour: the sender.
        ring: from the sender.

    Attributes:
        able: whether the kernel allows it, as far as is known.
    """

    __slots__ = ("_end", "_mark", "_neighbour", "_ring", "able")

    def __init__(self, neighbour: Neighbour, ring: Inbound) -> None:
        self._neighbour = neighbour
        self._ring = ring
        self._mark = self._end = 0  # of the last message, and from where on it is there
        self.able = True

    def copy(self, memory: memoryview, claim: int) -> bool:
        """Help with a message as long as its sender copies it; whether this has copied anything.

        Args:
            memory: of the receive.
            claim: what CLAIMED is while the sender copies into that memory.
        """
        words = self._ring.words
        # In this order: what is loaded after the number is of that copy if `_reached` finds the same one again.
        reached = words[REACHED]
        start, nbytes = words[FROM], words[LENGTH]
        mark, begun = reached & ~_POSITION, reached & _POSITION
        if not start or not begun or nbytes > len(memory) or not self.able or not self._neighbour.same():
            return False
        if mark != self._mark:
            self._mark, self._end = mark, nbytes
        first = end = min(self._end, nbytes)
        for _ in _TURN:
            left = end - self._reached(mark)
            if left <= 0:
                break
            begin = end - min(left, _PIECE)
            copied = False
            words[HELPING] = mark | begin
            try:
                self._ring.fence()
                if self._reached(mark) <= begin:
                    address, piece = start + begin & _WORD, memory[begin:end]
                    copied = read_if(self._neighbour.pid, address, piece, words, CLAIMED, claim)
            except OSError as error:
                self.able = error.errno == errno.EFAULT  # that memory alone is gone
            finally:
                # Whatever has interrupted this: the sender waits for what is claimed.
                if copied:
                    self._end = end = begin
                    words[HELPED] = mark | begin
                else:
                    words[HELPING] = mark | end
            if not copied:
                break
        return end < first

    def _reached(self, mark: int) -> int:
        """Position of the sender; beyond all messages if he does something else by now."""
        position: int = self._ring.words[REACHED]
        return position & _POSITION if position & ~_POSITION == mark else _POSITION
