"""Cross memory attach: a long message is copied once, by the kernel, straight from the memory of its sender.

The sender announces such a message with the addresses of its pieces. When the receiver has matched it, it reads the
message from its beginning on (process_vm_readv(2)), and invites the sender to write it from its end on meanwhile
(process_vm_writev(2)), until they meet: both cores work, and a sender that does something else costs time only. Then
the receiver answers.

Until that answer the memory is the message's, unless the sender takes it back: it raises a number then,
and the receiver asks for the message instead, as for any other. It also does where the kernel does not let it read,
which depends on users, namespaces, Yama and seccomp.

They meet by words of the ring from the sender to the receiver. Positions count bytes of the message; above them those
of the sender carry the number of the invitation, so that nothing that it says of an earlier one is taken for this.

| word      | written by   | meaning                                                              |
|-----------|--------------|----------------------------------------------------------------------|
| RETRACTED | the sender   | how often it has taken back the memory of messages that were exposed |
| WRITING   | the sender   | it has written everything from here on, or is about to               |
| WRITTEN   | the sender   | it has written everything from here on                               |
| READ      | the receiver | it has read everything before this, or is about to                   |
| INVITED   | the receiver | number of the invitation that holds, 0: none                         |

Memory ordering. Each first stores what it is about to copy and then, after a fence, loads what the other one is: when
both want the same at least one of them sees it, and leaves it to the other. The receiver gives the memory back to its
program only after it has withdrawn the invitation, and then found that WRITING and WRITTEN are the same: a sender that
stores WRITING later loads INVITED after that, and does not write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from aiompi.datatype.buffer import process
from aiompi.transport.shared_memory.peer_process import PeerProcess
from aiompi.transport.shared_memory.ring import INVITED, READ, RETRACTED, WRITING, WRITTEN, Ring
from aiompi.wire.frame import Payload

#: bytes of a message from which this takes less time than the ring
LONG: Final = 2 * 2**20 + 1
#: the same of its pieces on average: each takes system calls of its own
LONG_PIECE: Final = 256 * 2**10
#: bytes that are copied by one system call
_PIECE: Final = 512 * 2**10
_BITS: Final = 48
#: how often a receiver lets others run until the sender has written the last piece, before it does something else
_PATIENCE: Final = range(5)


def _parts(lengths: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Where a part of a message lies: the number of each piece, and from where to where in it."""
    for number, nbytes in enumerate(lengths):
        begin, end = max(start, 0), min(stop, nbytes)
        if begin < end:
            yield number, begin, end
        start, stop = start - nbytes, stop - nbytes


class Exposed:
    """A message that its sender has exposed (see `aiompi.wire.frame.Offer`).

    Args:
        process: the sender.
        pieces: address there, and length, of each.
        ring: from the sender.
        retracted: what RETRACTED was when it was exposed.
    """

    __slots__ = ("_addresses", "_complete", "_lengths", "_process", "_number", "_retracted", "_ring")

    def __init__(self, process: PeerProcess, pieces: Sequence[tuple[int, int]], ring: Ring, retracted: int) -> None:
        self._process = process
        self._addresses, self._lengths = zip(*pieces, strict=True)
        self._ring = ring
        self._retracted = retracted
        self._complete = True
        self._number = 0  # of the invitation

    def invite(self, memory: memoryview) -> tuple[int, int] | None:
        words = self._ring.words
        if not memory or words[INVITED] or not self._process.reachable or len(memory) >> _BITS:
            return None
        self._number = self._process.next_invitation()
        words[READ] = 0
        words[INVITED] = self._number
        return self._number, process.address_of(memory)

    def copy(self, memory: memoryview, start: int, most: int, length: int) -> int:
        until = min(start + most, length)
        while start < until and self._complete:
            stop = min(start + _PIECE, until)
            if self._number:
                stop = self._claim(start, stop)
                if stop == start:
                    return self._join(start, length)
            self._complete = self._read(memory, start, stop)
            start = stop
        return start if self._complete else length

    def _read(self, memory: memoryview, start: int, stop: int) -> bool:
        for number, begin, end in _parts(self._lengths, start, stop):
            room = memory[start : start + end - begin]
            if room and not self._process.read(self._addresses[number] + begin, room):
                return False
            start += end - begin
        return True

    def _claim(self, start: int, stop: int) -> int:
        """Up to where there is something to read that the sender is not writing."""
        words = self._ring.words
        invited = words[INVITED] == self._number  # not after `close`: the words may be those of another invitation
        if invited:
            words[READ] = stop
        self._ring.fence()
        position = self._position(WRITING)
        if start <= position < stop:
            stop = position
            if invited:
                words[READ] = stop
        return stop

    def _position(self, word: int) -> int:
        """Of the sender; beyond all messages if it has not accepted the invitation yet."""
        position: int = self._ring.words[word]
        return position - (self._number << _BITS) if position >> _BITS == self._number else 1 << _BITS

    def _join(self, start: int, length: int) -> int:
        """The sender writes all the rest: whether it has done so; up to where all is there."""
        for _ in _PATIENCE:
            if self._position(WRITTEN) == start:
                return length
            if self._position(WRITING) != start:
                break  # it could not
            os.sched_yield()
        return start

    def stands(self) -> bool:
        unchanged: bool = self._ring.words[RETRACTED] == self._retracted
        return self._complete and unchanged and self._process.same()

    def close(self, wait: bool = True) -> bool:
        if not self._number:
            return True
        words = self._ring.words
        if words[INVITED] == self._number:
            words[INVITED] = 0
        self._ring.fence()
        if not self._process.settled(lambda: self._position(WRITING) == self._position(WRITTEN), wait):
            return False
        self._number = 0
        return True


class Assistance:
    """The sender's part of copying a message, from its end on.

    Args:
        process: the receiver.
        pieces: of the message.
        wanted: bytes of it.
        address: where they are wanted.
        number: of the invitation.
        ring: to the receiver.
    """

    __slots__ = ("_address", "_lengths", "_low", "_mark", "_process", "_number", "_pieces", "_ring")

    def __init__(
        self, process: PeerProcess, pieces: Payload, wanted: int, address: int, number: int, ring: Ring
    ) -> None:
        self._process = process
        self._pieces = [memoryview(piece) for piece in pieces]
        self._lengths = [len(piece) for piece in pieces]
        self._address = address
        self._number = number
        self._ring = ring
        self._mark = number << _BITS
        self._low = wanted
        words = ring.words
        words[WRITTEN] = words[WRITING] = self._mark | self._low

    def write(self, most: int) -> bool:
        """Write up to so many bytes; whether there is more to do."""
        until = max(0, self._low - most)
        while self._low > until:
            if not self._piece(max(until, self._low - _PIECE)):
                return False
        return self._low > 0

    def _piece(self, start: int) -> bool:
        """Write from there on, unless the receiver reads that, or wants no more; whether it is written."""
        words, written = self._ring.words, False
        if words[INVITED] != self._number:
            return False  # the words may be those of another invitation
        try:
            words[WRITING] = self._mark | start
            self._ring.fence()
            if words[INVITED] == self._number and words[READ] <= start:
                written = self._write(start)
        finally:
            # Whatever has interrupted this: the receiver waits until they are the same.
            if written:
                self._low = start
                words[WRITTEN] = self._mark | start
            words[WRITING] = self._mark | self._low
        return written

    def _write(self, start: int) -> bool:
        for number, begin, end in _parts(self._lengths, start, self._low):
            if not self._process.write(self._address + start, self._pieces[number][begin:end]):
                return False
            start += end - begin
        return True
