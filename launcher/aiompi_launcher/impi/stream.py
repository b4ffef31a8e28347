"""Packets over a non-blocking stream socket.

Data are not copied: sockets are read into buffers, packets consist of chunks of the buffers, and a buffer is reused
once the last of its chunks has been sent. Long packets from and to ranks are in memory that is shared with them
(`aiompi.impi.slots`).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import os
import re
import socket
from collections.abc import Callable, Sequence
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.impi.slots import SharedPackets, Slot
from aiompi_launcher.impi.buffers import Chunk, SlotChunk, discard
from aiompi_launcher.impi.splitter import PacketSplitter

_TURNS: Final = range(16)  # system calls per turn, so that one busy connection does not starve the others
_CHUNKS: Final = 64  # chunks per system call, well below IOV_MAX
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)  # address families with a low-water mark
#: Older kernels may wait for more bytes than fit into the receive buffer, if they arrive in small segments.
_KERNEL: Final = (5, 9)
#: highest low-water mark while a packet is incomplete; without a mark each segment would wake the launcher
_MAX_MARK: Final = 2**20
#: turns of the event loop that first poll for the rest of a packet: over a fast network the rest arrives before a
#: wake-up
_POLLS: Final = 100


class PacketStream:
    """One connection that carries packets.

    Args:
        sock: connected; the stream closes it.
        splitter: splits the data into packets.
        on_end: called once when the connection has ended or failed, or invalid data has arrived. The argument is the
            error, or None if the connection has ended between two packets.
        shared: memory that is shared with the peer.

    Attributes:
        backlog: bytes that the socket has not accepted yet.
        on_drained: called when the backlog has become empty.
    """

    def __init__(
        self,
        sock: socket.socket,
        splitter: PacketSplitter,
        on_end: Callable[[Exception | None], object],
        shared: SharedPackets | None = None,
    ) -> None:
        self.backlog = 0
        self.on_drained: Callable[[], object] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._splitter = splitter
        self._on_end = on_end
        self._shared = shared
        self._queue: collections.deque[Chunk] = collections.deque()
        self._paused = False
        self._shutting = False
        self._polls = 0  # remaining polls for the rest of a packet
        self._decrypted: Callable[[], int] | None = getattr(sock, "pending", None)  # with TLS, bytes in the process
        marks = sock.family in _FAMILIES and kernel() >= _KERNEL and self._decrypted is None
        self._mark: int | None = 1 if marks else None
        self._watch()

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Send a packet; the stream releases its chunks."""
        if self._socket.fileno() < 0:
            discard(chunks)
            return
        chunks = [part.reference() if isinstance(part, SlotChunk) else part for part in chunks]
        waiting = bool(self._queue)
        self._queue.extend(chunks)
        self.backlog += sum(len(part.view) for part in chunks)
        if not waiting:
            self._flush()
            if self._queue:
                self._loop.add_writer(self._socket, self._writable)
        for part in chunks if waiting else self._queue:
            part.settle()

    def slot(self) -> Slot | None:
        """Return a slot for a long packet to the peer, or None."""
        return None if self._shared is None else self._shared.outbound.take()

    def pause(self) -> None:
        """Read nothing until `resume`."""
        if not self._paused and self._socket.fileno() >= 0:
            self._paused = True
            self._loop.remove_reader(self._socket)

    def resume(self) -> None:
        """Read again."""
        if self._paused and self._socket.fileno() >= 0:
            self._paused = False
            self._watch()

    def shut_down(self) -> None:
        """Shut down the sending side once everything is sent; reading goes on."""
        self._shutting = True
        if not self._queue:
            self._shut_down()

    def close(self) -> None:
        """Close the connection at once; nothing more is reported."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._splitter.close()
            discard(self._queue)
            self._shared = None  # the memory is unmapped with its last view

    def _shut_down(self) -> None:
        if self._socket.fileno() >= 0:
            with contextlib.suppress(OSError):  # the peer may have closed first
                self._socket.shutdown(socket.SHUT_WR)

    def _break(self, error: OSError) -> None:
        if self._socket.fileno() >= 0:
            self._end(error)

    def _end(self, error: Exception | None) -> None:
        self.close()
        self._on_end(error)

    # Reading.

    def _watch(self) -> None:
        self._loop.add_reader(self._socket, self._readable)
        self._read_on()

    def _read_on(self) -> None:
        """Schedule a read if data is already decrypted: for such data the socket does not become readable."""
        if self._decrypted is not None and self._decrypted():
            self._loop.call_soon(self._readable)

    def _readable(self) -> None:
        if self._paused or self._socket.fileno() < 0:
            return
        self._read()
        if self._mark is not None and self._socket.fileno() >= 0:
            self._set_mark()
            if self._splitter.missing and not self._polls:
                self._polls = _POLLS
                self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        """Read the next bytes of a long packet, and poll again unless it is complete or _POLLS are used up."""
        self._polls -= 1
        os.sched_yield()
        if self._socket.fileno() >= 0 and not self._paused:
            self._read()
        if self._socket.fileno() < 0:
            return
        if self._polls and self._splitter.missing:
            self._loop.call_soon(self._poll)
        else:
            self._polls = 0
            self._set_mark()

    def _set_mark(self) -> None:
        """Set the low-water mark for the packet that is being read."""
        nbytes = min(max(self._splitter.missing, 1), _MAX_MARK)
        if nbytes != self._mark:
            self._mark = nbytes
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, nbytes)

    def _read(self) -> None:
        for _ in _TURNS:
            buffers = self._splitter.buffers()
            try:
                nbytes = self._socket.recvmsg_into(buffers)[0]
            except BlockingIOError:
                return
            except OSError as error:
                self._end(error)
                return
            if not nbytes:
                cut = not self._splitter.between_packets
                self._end(RemoteProtocolError("the connection ended in the middle of a packet") if cut else None)
                return
            try:
                self._splitter.updated(nbytes)
            except RemoteProtocolError as error:
                self._end(error)
                return
            # A read that left room has read all data; a handler may have paused or closed this stream.
            if nbytes < sum(map(len, buffers)) or self._paused or self._socket.fileno() < 0:
                return
        self._read_on()

    # Writing.

    def _writable(self) -> None:
        self._flush()
        if not self._queue:
            self._loop.remove_writer(self._socket)
            if self._shutting:
                self._shut_down()
            self.on_drained()

    def _flush(self) -> None:
        """Send what the socket accepts, with at most _TURNS system calls."""
        try:
            for _ in _TURNS:
                if not self._queue or not self._send_once():
                    return
        except BlockingIOError:
            return
        except OSError as error:
            if not isinstance(error, ConnectionError):  # the reading side reports these, after all arrived data
                self._loop.call_soon(self._break, error)
            discard(self._queue)
            self._queue.clear()
            self.backlog = 0

    def _send_once(self) -> bool:
        """Send with one system call; return True if the socket may accept more."""
        views = [part.view for part in itertools.islice(self._queue, _CHUNKS)]
        done = nbytes = self._socket.sendmsg(views)
        self.backlog -= done
        while nbytes:
            part = self._queue[0]
            if nbytes < len(part.view):
                part.view = memoryview(part.view)[nbytes:]
                break
            nbytes -= len(part.view)
            self._queue.popleft().release()
        return done == sum(map(len, views))


def kernel() -> tuple[int, ...]:
    """Return the version of the kernel."""
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
