"""Packets over a non-blocking stream socket, whole ones in and out."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.impi.packet import OnPacket, Reader

_TURNS: Final = range(16)  # system calls per turn, so that one busy connection does not starve the others
_PIECES: Final = 64  # of memory per system call, well below IOV_MAX


class PacketStream:
    """One connection.

    Args:
        sock: connected; the stream closes it.
        maxdatalen: most bytes of data in a packet.
        on_packet: takes what arrives; the memory is valid only during the call.
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
        self._reader = Reader(maxdatalen, on_packet)
        self._on_end = on_end
        self._queue: collections.deque[bytes | memoryview] = collections.deque()
        self._paused = False
        self._shutting = False
        self._loop.add_reader(sock, self._readable)

    def send(self, data: bytes | memoryview) -> None:
        """Send a packet; its memory may be used again after the call."""
        if self._socket.fileno() < 0:
            return
        done = 0
        if not self._queue:
            try:
                done = self._socket.send(data)
            except BlockingIOError:
                pass
            except OSError:  # the reading side tells
                return
            if done == len(data):
                return
            self._loop.add_writer(self._socket, self._writable)
        self._queue.append(bytes(data[done:]))
        self.backlog += len(data) - done

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

    def _shut_down(self) -> None:
        if self._socket.fileno() >= 0:
            with contextlib.suppress(OSError):  # the far end may have been faster
                self._socket.shutdown(socket.SHUT_WR)

    def _readable(self) -> None:
        for _ in _TURNS:
            buffer = self._reader.get_buffer()
            try:
                nbytes = self._socket.recv_into(buffer)
            except BlockingIOError:
                return
            except OSError as error:
                self._end(error)
                return
            if not nbytes:
                whole = self._reader.between_packets
                self._end(None if whole else RemoteProtocolError("the connection ended in the middle of a packet"))
                return
            try:
                self._reader.buffer_updated(nbytes)
            except RemoteProtocolError as error:
                self._end(error)
                return
            # A buffer that was not filled means that there was no more; a handler may have paused or closed us.
            if nbytes < len(buffer) or self._paused or self._socket.fileno() < 0:
                return

    def _writable(self) -> None:
        queue = self._queue
        for _ in _TURNS:
            pieces = [queue[index] for index in range(min(_PIECES, len(queue)))]
            try:
                done = self._socket.sendmsg(pieces)
            except BlockingIOError:
                return
            except OSError:  # the reading side tells
                queue.clear()
                done = self.backlog
            self.backlog -= done
            while queue and done >= len(queue[0]):
                done -= len(queue.popleft())
            if done and queue:
                queue[0] = memoryview(queue[0])[done:]
            if not queue:
                break
        if not queue:
            self._loop.remove_writer(self._socket)
            if self._shutting:
                self._shut_down()
            self.on_drained()

    def _end(self, error: Exception | None) -> None:
        self.close()
        self._on_end(error)
