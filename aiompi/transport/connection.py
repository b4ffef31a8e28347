"""`Connection`: frames or packets over one connected stream socket."""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from aiompi.engine import Driver, Engine, Link
from aiompi.engine.blame import cause_of
from aiompi.engine.seams import BufferOwner
from aiompi.transport.dial import describe
from aiompi.transport.unread import MAX_UNREAD, Unread
from aiompi.wire import liveness
from aiompi.wire.frame import READ_AHEAD, Payload, beginning

#: most bytes of a payload that is copied when the socket is full, so that its send is complete
COPY_LIMIT: Final = 16 * 2**10
#: most bytes of a payload that is joined with its header, which is cheaper than a gathering system call
JOIN_LIMIT: Final = 4 * 2**10
MAX_PIECES: Final = 64  # pieces of memory per gathering system call at most, well below IOV_MAX
#: maximum of system calls per turn and direction, so that one busy connection does not starve the loop
BUDGET: Final = 16
_TURNS: Final = range(BUDGET)
_CALL_BYTES: Final = 2**20  # most bytes per system call, which otherwise lasts as long as the other side reads
_TURN_BYTES: Final = 2**21  # maximum of bytes per turn and direction
#: bytes of a long payload that must have arrived before the kernel wakes the receiver, unless fewer are missing
PART: Final = 2**18


class StreamParser(Protocol):
    """Cuts a stream into frames; see `aiompi.wire.frame.FrameReader`."""

    @property
    def landing(self) -> object | None:
        """The message that is being read straight into its destination; None if no message is being read."""

    def get_buffer(self) -> memoryview: ...

    def buffer_updated(self, nbytes: int) -> None: ...


class ConnectionMaker(Protocol):
    """An object that makes connections and keeps the set of their links."""

    engine: Engine
    links: set[Any]
    drained: Callable[[], object]


class ConnectionUser(Protocol):
    """An object that uses a connection, such as a peer."""

    def connection_lost(self, cause: str) -> None:
        """Handle the end of a broken connection."""

    def buffer_unsent(self, owner: BufferOwner) -> None:
        """Handle an operation whose memory was unsent when the connection broke."""


class Connection(Link):
    """Frames over one connected socket, and a queue for frames until the socket is connected.

    `dispatch` always returns False, because the socket may take only a part of a frame.

    Args:
        maker: the transport that made the connection.
        user: notified when the connection breaks.
        reader: parses received bytes.
    """

    sharing = None
    far = False

    def __init__(self, maker: ConnectionMaker, user: ConnectionUser, reader: StreamParser) -> None:
        self._maker = maker
        self._user = user
        self._driver: Driver = maker.engine.driver
        # Without progress in the background, a send is complete only when its bytes have left the process, because the
        # receiver may need them while this process does something else.
        self._copying = background = maker.engine.driver.background
        # A blocking rank has nothing else to do in a turn, so it needs no limits.
        self._call_bytes, self._turn_bytes = (_CALL_BYTES, _TURN_BYTES) if background else (sys.maxsize, sys.maxsize)
        self._spent = 0  # bytes written in this turn by gathering system calls
        self._socket: socket.socket | None = None
        self._decrypted: Callable[[], int] | None = None  # with TLS, number of bytes that wait in the process
        self._reader = reader
        self._queue: deque[tuple[bytes | memoryview, BufferOwner | None]] = deque()
        self._unread = Unread()
        self._writing = False
        self._closed = False
        self._awaited = 1  # bytes that must arrive before the kernel wakes this rank, 0 if unknown

    @property
    def idle(self) -> bool:
        return not self._queue

    def open(self, sock: socket.socket) -> None:
        self._socket = sock
        self._decrypted = getattr(sock, "pending", None)
        in_parts = self.far and self._decrypted is None
        self._driver.add_reader(sock.fileno(), self._readable_in_parts if in_parts else self._readable)
        if self._queue:
            self._writable()

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        sock = self._socket
        if sock is None or self._queue:
            return self._enqueue(header, payload, owner)
        try:
            if len(payload) == 1 and len(payload[0]) <= JOIN_LIMIT:
                data = header + payload[0]
                nbytes = len(data)
                done = sock.send(data)
            elif payload:
                nbytes = len(header) + sum(map(len, payload))
                done = (
                    sock.sendmsg((header, *payload[: MAX_PIECES - 1]))
                    if self._spent + nbytes <= self._turn_bytes
                    else 0
                )
                self._spend(done)
            else:
                nbytes = len(header)
                done = sock.send(header)
        except (BlockingIOError, InterruptedError):
            done = 0
        except OSError as error:
            self._cannot_write(error)
            return self._enqueue(header, payload, owner)
        if done == nbytes:
            return True
        free = self._enqueue(header, payload, owner, done)
        self._watch()
        return free

    def is_cut_off(self, seconds: float) -> bool:
        """Return True if the machine at the other end of a TCP connection has not answered for `seconds`."""
        return self._socket is not None and liveness.is_cut_off(self._socket, seconds)

    def _spend(self, nbytes: int) -> None:
        before, self._spent = self._spent, self._spent + nbytes
        if before <= self._turn_bytes // 2 < self._spent:
            self._driver.call_soon(self._reset_spent)

    def _reset_spent(self) -> None:
        self._spent = 0

    def _enqueue(self, header: bytes, payload: Payload, owner: BufferOwner | None, done: int = 0) -> bool:
        """Queue the rest of a frame whose first `done` bytes were sent. Return True if the payload was copied."""
        copy = self._copying and sum(map(len, payload)) <= COPY_LIMIT
        # Without empty pieces, so that the last piece leaves when all of the owner's memory has left.
        pieces: list[bytes | memoryview] = [b"".join((header, *payload))] if copy else [header, *filter(len, payload)]
        while done >= len(pieces[0]):
            done -= len(pieces.pop(0))
        if done:
            pieces[0] = memoryview(pieces[0])[done:]
        if self._closed:
            if owner is not None:
                self._user.buffer_unsent(owner)
            return False
        if owner is None and not payload:
            if self._unread.add():
                self._queue.append((pieces[0], self._unread))
            elif self._unread.frames == MAX_UNREAD:
                self._driver.call_soon(self.lost, f"it does not read what is sent to it: {MAX_UNREAD} frames")
            return copy
        last = pieces.pop()
        self._queue.extend((piece, None) for piece in pieces)
        self._queue.append((last, None if copy else owner))
        return copy

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        queue = self._queue
        ends = [index for index, (_, other) in enumerate(queue) if other is owner]
        for end in ends:
            for index in range(end, -1, -1):
                piece, other = queue[index]
                if other is not None and index != end:
                    break  # this piece ends the previous frame
                queue[index] = (bytes(piece), other)

    def _watch(self) -> None:
        if not self._writing and self._socket is not None:
            self._writing = True
            self._driver.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        queue, sock = self._queue, self._socket
        assert sock is not None
        self._spent = 0
        for _ in _TURNS:
            if not queue or self._spent >= self._turn_bytes:
                break
            try:
                pieces = (piece for piece, _ in itertools.islice(queue, MAX_PIECES))
                done = sock.sendmsg(beginning(pieces, self._call_bytes))
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                self._cannot_write(error)
                return
            self._remove_sent(done)
            self._spend(done)
        if queue:
            self._watch()
            return
        self._unwatch(sock)
        self._maker.drained()

    def _unwatch(self, sock: socket.socket) -> None:
        if self._writing:
            self._writing = False
            self._driver.remove_writer(sock.fileno())

    def _cannot_write(self, error: OSError) -> None:
        """Write nothing more.

        If the peer has closed the connection, the read handler reports the loss. The handler first reads the peer's
        last frames, which may give the cause.
        """
        if not isinstance(error, ConnectionError):
            self.lost(describe(error))
        elif self._socket is not None:
            self._copying = False  # nothing more is sent, so no send completes early
            self._unwatch(self._socket)

    def _remove_sent(self, nbytes: int) -> None:
        """Remove `nbytes` that were sent from the queue."""
        queue = self._queue
        while nbytes:
            piece, owner = queue[0]
            if nbytes < len(piece):
                queue[0] = (memoryview(piece)[nbytes:], owner)
                return
            nbytes -= len(piece)
            queue.popleft()
            if owner is not None:
                owner.sent()

    def _readable_in_parts(self) -> None:
        """Read; let the kernel wake this rank for a long payload only when a large part has arrived, to save wake-ups.

        This never waits for more bytes than are missing. The end of the connection wakes the rank as well.
        """
        try:
            self._readable()
        finally:
            sock, reader = self._socket, self._reader
            awaited = 1 if reader.landing is None else min(len(reader.get_buffer()), PART)
            if awaited != self._awaited and sock is not None:
                self._awaited = 0
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, awaited)
                self._awaited = awaited

    def _readable(self) -> None:
        reader, left = self._reader, self._turn_bytes
        for _ in _TURNS:
            sock = self._socket
            if sock is None:
                return
            room = reader.get_buffer()
            if len(room) > self._call_bytes:
                room = room[: self._call_bytes]
            try:
                nbytes = sock.recv_into(room)
                if nbytes:
                    reader.buffer_updated(nbytes)
                    left -= nbytes
                    if nbytes < len(room) or (
                        (reader.landing is None or left <= 0) and (self._decrypted is None or not self._decrypted())
                    ):
                        return
                    continue
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.lost(describe(error))
                return
            except Exception as error:
                self.lost(cause_of(error))
                return
            self._eof()
            return
        if self._socket is not None and self._decrypted is not None and self._decrypted():
            self._driver.call_soon(self._readable)

    def _eof(self) -> None:
        """Handle the end of the stream: the other side sends nothing more."""
        self.lost("its connection closed")

    def lost(self, cause: str) -> None:
        if self._closed:
            return
        self.close()
        self._user.connection_lost(cause)
        self._maker.drained()

    def close_gracefully(self) -> None:
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
                # Unread bytes would turn the close into a reset, which destroys bytes in flight to the peer.
                while sock.recv(READ_AHEAD):
                    pass
        self.close()

    def close(self) -> None:
        self._closed = True
        owners = [owner for _, owner in self._queue if owner not in (None, self._unread)]
        self._queue.clear()
        self._maker.links.discard(self)
        sock, self._socket = self._socket, None
        if sock is not None:
            self._driver.remove_reader(sock.fileno())
            self._unwatch(sock)
            sock.close()
        for owner in owners:
            self._user.buffer_unsent(owner)
