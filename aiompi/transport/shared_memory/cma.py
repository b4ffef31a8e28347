"""Cross memory attach: a long message is copied once, by the kernel, from the memory of its sender.

The sender announces such a message with the addresses of its pieces: it exposes the message. When the receiver has
matched it, it reads the message from its beginning on (process_vm_readv(2)), and invites the sender to write it from
its end on (process_vm_writev(2)), until the two meet. Both cores work, and a sender that does something else only costs
time. Then the receiver answers.

Until that answer the sender must not change the memory. If it has to, it retracts: it raises a number, and the receiver
asks for the message in chunks instead. The receiver also does that if the kernel does not let it read, which depends on
users, namespaces, Yama and seccomp.

The two use words of the ring from the sender to the receiver. Positions count bytes of the message. Those of the sender
carry the number of the invitation in their high bits, so that a position of an earlier invitation is never used.

| word      | written by   | meaning                                                              |
|-----------|--------------|----------------------------------------------------------------------|
| RETRACTED | the sender   | how often it has retracted messages                                  |
| WRITING   | the sender   | it has written everything from here on, or is about to               |
| WRITTEN   | the sender   | it has written everything from here on                               |
| READ      | the receiver | it has read everything before this, or is about to                   |
| INVITED   | the receiver | number of the current invitation, 0: none                            |

Memory ordering. Each rank first stores what it is about to copy and then, after a fence, loads what the other is about
to copy. If both want the same bytes at least one of them sees it, and leaves them to the other. The receiver gives the
memory back to its program only after it has withdrawn the invitation and then found WRITING and WRITTEN equal: a
sender that stores WRITING later loads INVITED after that, and does not write.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from aiompi.datatype.buffer import process
from aiompi.transport.shared_memory.ring import INVITED, READ, RETRACTED, WRITING, WRITTEN, Ring
from aiompi.wire.frame import Payload

#: bytes from which a message takes less time this way than in the ring
LONG: Final = 2 * 2**20 + 1
#: bytes that its pieces must have on average, since each piece takes system calls of its own
LONG_PIECE: Final = 256 * 2**10
#: bytes copied by one system call
_PIECE: Final = 512 * 2**10
_BITS: Final = 48
#: how often a receiver yields its core for a sender that writes the last piece, before it does something else
_PATIENCE: Final = range(5)
_CREDENTIALS: Final = struct.Struct("3i")
#: the highest number of an invitation; after it the numbers begin again at 1
NUMBERS: Final = 2**16 - 1
#: seconds between two looks of a receiver that can do nothing else
_PAUSE: Final = 100e-6
_never_set: Final = threading.Event()


def _parts(lengths: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield where the bytes from `start` to `stop` of a message lie: the index of a piece, and begin and end in it."""
    for number, nbytes in enumerate(lengths):
        begin, end = max(start, 0), min(stop, nbytes)
        if begin < end:
            yield number, begin, end
        start, stop = start - nbytes, stop - nbytes


class Exposed:
    """A message that its sender has exposed (see `aiompi.wire.frame.Offer`).

    Args:
        process: the sender.
        pieces: address and length of each piece.
        ring: the ring from the sender.
        retracted: the value of RETRACTED when the message was exposed.
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
        if not memory or words[INVITED] or len(memory) >> _BITS:
            return None
        if not self._process.invites or not self._process.reachable:
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
        """Claim bytes to read; return their end, which is `start` if the sender writes all the rest."""
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
        """Return a position of the sender, beyond all messages if it has not accepted the invitation yet."""
        position: int = self._ring.words[word]
        return position - (self._number << _BITS) if position >> _BITS == self._number else 1 << _BITS

    def _join(self, start: int, length: int) -> int:
        """Wait a while for the sender, which writes all the rest; return up to where the message is there."""
        for _ in _PATIENCE:
            if self._position(WRITTEN) == start:
                return length
            if self._position(WRITING) != start:
                break  # the kernel has refused
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
    """The sender of a message, which copies it from its end on.

    Args:
        process: the receiver.
        pieces: the message.
        wanted: bytes of the message that the receiver wants.
        address: where it wants them.
        number: number of the invitation.
        ring: the ring to the receiver.
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
        """Write at most `most` bytes; return True if there is more to do."""
        until = max(0, self._low - most)
        while self._low > until:
            if not self._piece(max(until, self._low - _PIECE)):
                return False
        return self._low > 0

    def _piece(self, start: int) -> bool:
        """Write from `start` on, unless the receiver reads there or has withdrawn; return True if it was written."""
        words, written = self._ring.words, False
        if words[INVITED] != self._number:
            return False  # the words may be those of another invitation
        try:
            words[WRITING] = self._mark | start
            self._ring.fence()
            if words[INVITED] == self._number and words[READ] <= start:
                written = self._write(start)
        finally:
            # Even if this was interrupted: the receiver waits until the two are equal.
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


class PeerProcess:
    """The process at the other end of a connection.

    Args:
        sock: the connection.
        invites: True if it may be invited to write into memory of this rank. A process that is stopped in the midst of
            that would write after the memory was given back.

    Attributes:
        pid: its id, 0 if it is in another pid namespace.
        reachable: True if its memory can be reached, as far as is known.
    """

    __slots__ = ("_fd", "_invitations", "invites", "pid", "reachable")

    def __init__(self, sock: socket.socket, invites: bool = True) -> None:
        self.invites = invites
        self.pid = process_of(sock)
        self._fd: int | None = None
        self._invitations = 0
        if self.pid > 0:
            with contextlib.suppress(OSError):
                self._fd = os.pidfd_open(self.pid)  # tells the process from a later one with the same id
        self.reachable = self._fd is not None and _connected(sock)

    def read(self, address: int, memory: memoryview) -> bool:
        """Copy from an address of the process; return True if all was copied."""
        return self._copy(process.read, address, memory)

    def write(self, address: int, memory: memoryview) -> bool:
        """Copy to an address of the process; return True if all was copied."""
        return self._copy(process.write, address, memory)

    def _copy(self, copy: process.Copy, address: int, memory: memoryview) -> bool:
        if not self.same():
            return False
        try:
            copy(self.pid, address, memory)
        except OSError as error:
            self.reachable = error.errno == errno.EFAULT  # only this memory is gone
            return False
        return True

    def same(self) -> bool:
        """Return True if the process can be reached, and its id has not become that of another process."""
        if not self.reachable or self._fd is None:
            return False
        try:
            signal.pidfd_send_signal(self._fd, 0)
        except OSError:
            self.reachable = False
            return False
        return True

    def alive(self) -> bool:
        """Return True if the process has not ended; it may be writing, even if it has been stopped."""
        if self._fd is None:
            return False
        try:
            signal.pidfd_send_signal(self._fd, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
        return not has_ended(self.pid)

    def settled(self, is_settled: Callable[[], bool], wait: bool) -> bool:
        """Return True if `is_settled` returns True or the process has ended; `wait` for one of the two if asked to."""
        while not is_settled() and self.alive():
            if not wait:
                return False
            _never_set.wait(_PAUSE)
        return True

    def next_invitation(self) -> int:
        """Return a number that no earlier invitation had which the process may still answer."""
        self._invitations = self._invitations % NUMBERS + 1
        return self._invitations

    def close(self) -> None:
        """Reach the process no more."""
        self.reachable = False
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _connected(sock: socket.socket) -> bool:
    """Return True if the peer has not closed the connection, as it does at its end."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def process_of(sock: socket.socket) -> int:
    """Return the id of the process that made the other end of a connection, 0 if it is in another pid namespace."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    number: int = _CREDENTIALS.unpack(credentials)[0]
    return number


def has_ended(number: int) -> bool:
    """Return True if a process is known to have ended, so that none of its memory is in use."""
    if number <= 0:
        return False
    try:
        os.kill(number, 0)
        process.read(number, 0, memoryview(bytearray(1)))  # a zombie has no memory
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
