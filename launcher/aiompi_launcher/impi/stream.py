"""Packets over a non-blocking stream socket, whole ones in and out.

What is passed on is not copied: sockets are read into blocks of memory, packets are chunks of these, and a block is
used again when the last of its chunks has been sent. Long packets from and to ranks are in memory that is shared with
them (`aiompi.impi.slots`).
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
_CHUNKS: Final = 64  # of memory per system call, well below IOV_MAX
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)  # of sockets that know a low-water mark
#: Older kernels wait for more bytes than they have room for, when these come in small segments.
_KERNEL: Final = (5, 9)
#: bytes of a packet that has begun for which it is worth to be wakened: each segment would be one wake-up
_WORTH: Final = 2**20
#: turns of the loop in which its rest is looked for before: over a fast network it is there before one is wakened
_LOOKS: Final = 100


class PacketStream:
    """One connection.

    Args:
        sock: connected; the stream closes it.
        splitter: takes what is read.
        on_end: called once, when the far end has closed the connection, it broke, or what came are no packets: with
            the error, None for an end between two packets.
        shared: memory that is shared with the far end.

    Attributes:
        backlog: bytes that the socket has not taken yet.
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
        self._looks = 0  # turns in which will be looked for the rest of a packet
        self._mark: int | None = 1 if sock.family in _FAMILIES and kernel() >= _KERNEL else None
        self._loop.add_reader(sock, self._readable)

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Send a packet; its chunks are the stream's from now on."""
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
        """Where a long packet for the far end may be written, if there is such a place."""
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
            self._splitter.close()
            discard(self._queue)
            self._shared = None  # the memory goes when its last view does

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
        self._read()
        if self._mark is not None and self._socket.fileno() >= 0:
            self._sleep()
            if self._splitter.missing and not self._looks:
                self._looks = _LOOKS
                self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Read what has come of a long packet meanwhile, for the last time once it has been looked for often enough."""
        self._looks -= 1
        os.sched_yield()
        if self._socket.fileno() >= 0 and not self._paused:
            self._read()
        if self._socket.fileno() < 0:
            return
        if self._looks and self._splitter.missing:
            self._loop.call_soon(self._look)
        else:
            self._looks = 0
            self._sleep()

    def _sleep(self) -> None:
        """Be wakened when it is worth it for the packet that is being read, or at the end."""
        nbytes = min(max(self._splitter.missing, 1), _WORTH)
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
            # Memory that was not filled means that there was no more; a handler may have paused or closed us.
            if nbytes < sum(map(len, buffers)) or self._paused or self._socket.fileno() < 0:
                return

    # Writing.

    def _writable(self) -> None:
        self._flush()
        if not self._queue:
            self._loop.remove_writer(self._socket)
            if self._shutting:
                self._shut_down()
            self.on_drained()

    def _flush(self) -> None:
        """Send what the socket takes, and not too much at a time."""
        try:
            for _ in _TURNS:
                if not self._queue or not self._send_once():
                    return
        except BlockingIOError:
            return
        except OSError as error:
            if not isinstance(error, ConnectionError):  # of those the reading side tells, behind what has come before
                self._loop.call_soon(self._break, error)
            discard(self._queue)
            self._queue.clear()
            self.backlog = 0

    def _send_once(self) -> bool:
        """Send with one system call; returns whether the socket may take more."""
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
    """Version of the kernel."""
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
