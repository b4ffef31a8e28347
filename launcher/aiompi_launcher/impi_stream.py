"""Packets over a non-blocking stream socket, whole ones in and out.

What is passed on is not copied: sockets are read into blocks of memory, packets are pieces of these, and a block is
used again when the last of its pieces has been sent.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import socket
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from aiompi.errors import RemoteProtocolError
from aiompi.impi.packet import HEADER_BYTES, Packet, describe, unpack

_TURNS: Final = range(16)  # system calls per turn, so that one busy connection does not starve the others
_PIECES: Final = 64  # of memory per system call, well below IOV_MAX
_BLOCK_BYTES: Final = 256 * 2**10
_LEAST_ROOM: Final = 16 * 2**10  # bytes that a read must have room for
_SPARE_BLOCKS: Final = 64
#: pieces up to this size are copied when they have to wait, and do not keep a block from being used
_COPIED: Final = 4 * 2**10


class Block:
    """Memory that sockets are read into.

    Attributes:
        view: all of it.
        pieces: number of its pieces that are still needed.
    """

    __slots__ = ("pieces", "view")

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_BLOCK_BYTES))
        self.pieces = 0

    def release(self) -> None:
        """A piece is not needed any more."""
        self.pieces -= 1
        if not self.pieces and len(_spare) < _SPARE_BLOCKS:
            _spare.append(self)


#: Blocks that nobody uses: fresh memory costs a page fault for every 4 KiB.
_spare: Final[list[Block]] = []

#: a part of a packet, and the block that it is in if it is in one
Piece: TypeAlias = tuple[bytes | memoryview, Block | None]

#: takes a packet: its header, and all of it, which must be sent, discarded or copied
OnPacket: TypeAlias = Callable[[Packet, list[Piece]], object]


def discard(pieces: Sequence[Piece]) -> None:
    """Nobody needs this packet."""
    for _, block in pieces:
        if block is not None:
            block.release()


def copied(pieces: Sequence[Piece]) -> list[Piece]:
    """The same packet in memory of its own, to be kept for longer."""
    data = b"".join(piece for piece, _ in pieces)
    discard(pieces)
    return [(data, None)]


class PacketStream:
    """One connection.

    Args:
        sock: connected; the stream closes it.
        maxdatalen: most bytes of data in a packet.
        on_packet: takes what arrives.
        on_end: called once, when the far end has closed the connection, it broke, or what came are no packets: with
            the error, None for an end between two packets.

    Attributes:
        backlog: bytes that the socket has not taken yet.
        on_drained: called when the backlog has become empty.
    """

    def __init__(
        self, sock: socket.socket, maxdatalen: int, on_packet: OnPacket, on_end: Callable[[Exception | None], object]
    ) -> None:
        self.backlog = 0
        self.on_drained: Callable[[], object] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._maxdatalen = maxdatalen
        self._on_packet = on_packet
        self._on_end = on_end
        self._queue: collections.deque[Piece] = collections.deque()
        self._paused = False
        self._shutting = False
        self._block = _new_block()
        self._start = self._read = 0  # between them is what has been read and not been handed over
        self._packet: Packet | None = None  # the one that is being read
        # Of it, in blocks that are full. One piece of each block, however small the portions that it comes in: there
        # is a limit to the pieces of a system call.
        self._pieces: list[Piece] = []
        self._missing = 0  # bytes of it from `_start` on
        self._loop.add_reader(sock, self._readable)

    def send(self, pieces: Sequence[Piece]) -> None:
        """Send a packet; its pieces are the stream's from now on."""
        if self._socket.fileno() < 0:
            discard(pieces)
            return
        if not self._queue:
            pieces = self._send_at_once(pieces)
            if pieces:
                self._loop.add_writer(self._socket, self._writable)
        for piece in pieces:
            self._queue.append(_settled(piece))
            self.backlog += len(piece[0])

    def _send_at_once(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Send what the socket takes; returns the rest."""
        try:
            done = self._socket.sendmsg([piece for piece, _ in pieces[:_PIECES]])
        except BlockingIOError:
            return pieces
        except OSError as error:
            if not isinstance(error, ConnectionError):  # of those the reading side tells, behind what has come before
                self._loop.call_soon(self._break, error)
            discard(pieces)
            return ()
        for index, (piece, block) in enumerate(pieces):
            if done < len(piece):
                return [(memoryview(piece)[done:], block), *pieces[index + 1 :]]
            done -= len(piece)
            discard(pieces[index : index + 1])
        return ()

    def pause(self) -> None:
        """Read nothing until `resume`."""
        if not self._paused and self._socket.fileno() >= 0:
            self._paused = True
            self._loop.remove_reader(self._socket)

    def resume(self) -> None:
        """Read again."""
        if self._paused and self._socket.fileno() >= 0:
            self._paused = False
            self._loop.add_reader(self._socket, self._readable)

    def shut_down(self) -> None:
        """Send nothing more after what was sent; what still comes is read."""
        self._shutting = True
        if not self._queue:
            self._shut_down()

    def close(self) -> None:
        """Close the connection at once; nothing more is reported."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            discard((*self._queue, *self._pieces, (b"", self._block)))

    def _shut_down(self) -> None:
        if self._socket.fileno() >= 0:
            with contextlib.suppress(OSError):  # the far end may have been faster
                self._socket.shutdown(socket.SHUT_WR)

    def _break(self, error: OSError) -> None:
        if self._socket.fileno() >= 0:
            self._end(error)

    def _end(self, error: Exception | None) -> None:
        self.close()
        self._on_end(error)

    # Reading.

    def _readable(self) -> None:
        for _ in _TURNS:
            room = self._room()
            try:
                nbytes = self._socket.recv_into(room)
            except BlockingIOError:
                return
            except OSError as error:
                self._end(error)
                return
            if not nbytes:
                cut = self._packet is not None or self._start < self._read
                self._end(RemoteProtocolError("the connection ended in the middle of a packet") if cut else None)
                return
            self._read += nbytes
            try:
                self._cut()
            except RemoteProtocolError as error:
                self._end(error)
                return
            # Memory that was not filled means that there was no more; a handler may have paused or closed us.
            if nbytes < len(room) or self._paused or self._socket.fileno() < 0:
                return

    def _room(self) -> memoryview:
        """Memory for the next bytes: behind the last ones, or from the beginning of a block that nobody else needs."""
        if self._start == self._read and self._block.pieces == 1:
            self._start = self._read = 0
        elif len(self._block.view) - self._read < _LEAST_ROOM:
            self._change_block()
        return self._block.view[self._read :]

    def _change_block(self) -> None:
        """Read on in another block: what there is of a packet stays where it is, what there is of a header moves."""
        block, rest = self._block, self._block.view[self._start : self._read]
        self._block = _new_block()
        if self._packet is not None:
            self._pieces.append((rest, block))
            self._missing -= len(rest)
            self._start = self._read = 0
            return
        self._block.view[: len(rest)] = rest
        self._start, self._read = 0, len(rest)
        block.release()

    def _cut(self) -> None:
        """Hand over the packets that are complete."""
        while self._socket.fileno() >= 0:
            if self._packet is None:
                if self._read - self._start < HEADER_BYTES:
                    return
                self._packet = packet = unpack(self._block.view, self._start)
                if packet.pk_len > self._maxdatalen:
                    raise RemoteProtocolError(
                        f"{describe(packet)} has {packet.pk_len} bytes of data; {self._maxdatalen} were agreed upon"
                    )
                self._missing = HEADER_BYTES + packet.pk_len
            end = self._start + self._missing
            if self._read < end:
                return
            self._block.pieces += 1
            packet, pieces = self._packet, [*self._pieces, (self._block.view[self._start : end], self._block)]
            self._start = end
            self._packet = None
            self._pieces.clear()
            self._on_packet(packet, pieces)

    # Writing.

    def _writable(self) -> None:
        queue = self._queue
        for _ in _TURNS:
            pieces = list(itertools.islice(queue, _PIECES))
            rest = self._send_at_once(pieces)
            for piece, _block in pieces:
                queue.popleft()
                self.backlog -= len(piece)
            queue.extendleft(reversed(rest))
            self.backlog += sum(len(piece) for piece, _block in rest)
            if rest or not queue:
                break
        if not queue:
            self._loop.remove_writer(self._socket)
            if self._shutting:
                self._shut_down()
            self.on_drained()


def _new_block() -> Block:
    block = _spare.pop() if _spare else Block()
    block.pieces = 1  # what is read next
    return block


def _settled(piece: Piece) -> Piece:
    """A piece that has to wait."""
    data, block = piece
    if block is None or len(data) > _COPIED:
        return piece
    small = bytes(data)
    block.release()
    return small, None
