"""Transports over stream sockets: what TCP and Unix sockets have in common.

`Connection` carries frames or packets over one non-blocking socket, `StreamLink` those of one peer. `StreamTransport`
listens, accepts and connects; the transports of `sockets` derive from it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

from aiompi import errors
from aiompi.engine import Driver, Endpoint, Engine, Link, Peer, Timer
from aiompi.engine.owned import warn_unraisable
from aiompi.engine.seams import BufferOwner
from aiompi.transport.dial import EXHAUSTED, Dialling, Greeting, describe
from aiompi.transport.resolve import Address
from aiompi.transport.template import Site, Transport
from aiompi.wire import liveness
from aiompi.wire.frame import EAGER, READ_AHEAD, FrameReader, Payload, beginning
from aiompi.wire.hello import ROLE_PEER, Acceptor, Connector

#: bytes of a payload that is copied when the socket cannot take it at once, so that its send is complete
COPY_LIMIT: Final = 16 * 2**10
#: bytes of a payload that is joined with its header, which is cheaper than a gathering system call
JOIN_LIMIT: Final = 4 * 2**10
#: maximum of pieces of memory per gathering system call, well below IOV_MAX
MAX_PIECES: Final = 64
#: maximum of system calls per turn and direction, so that one busy connection does not starve the loop
BUDGET: Final = 16
_TURNS: Final = range(BUDGET)
#: maximum of bytes per system call, which may last as long as the other side takes more
_CALL_BYTES: Final = 2**20
#: maximum of bytes per turn and direction
_TURN_BYTES: Final = 2**21
#: bytes of a long payload for which the kernel wakes the receiver of a TCP connection, unless fewer are missing
PART: Final = 2**18
#: maximum of connections that have not proven the key yet, beyond one of each rank; a new one then replaces another
MAX_GREETINGS: Final = 128
#: maximum of connections that are accepted per turn
_MAX_ACCEPTS: Final = 64
#: seconds without accepting when descriptors run out
ACCEPT_PAUSE: Final = 1.0


class SocketLink(Link, Protocol):
    """A link that uses a connected socket."""

    @property
    def peer(self) -> Peer: ...

    def open(self, sock: socket.socket) -> None:
        """Use a socket whose peer has proven the key."""

    def cannot_connect(self, cause: str) -> None:
        """Report that no connection can be made because of this process, which no other process can know."""

    def close_gracefully(self) -> None:
        """Close so that everything that was sent arrives, even if the peer is still sending."""


class StreamParser(Protocol):
    """Cuts a stream into frames; see `aiompi.wire.frame.FrameReader`."""

    @property
    def landing(self) -> object | None:
        """The message that is being read straight into its destination, None if there is none."""

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
        """Handle an operation whose memory the connection had not sent when it broke."""


class Connection(Link):
    """Frames over one connected socket, and a queue for them until it is connected.

    No frame is dispatched, because the socket may take only a part of it.

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
        self._writing = False
        self._closed = False
        self._awaited = 1  # bytes for which the kernel wakes this rank, 0 if unknown

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
            self.lost(describe(error))
            return self._enqueue(header, payload, owner)
        if done == nbytes:
            return True
        free = self._enqueue(header, payload, owner, done)
        self._watch()
        return free

    def is_cut_off(self, seconds: float) -> bool:
        """Return True if the machine at the other end of a TCP connection has not answered for so many seconds."""
        return self._socket is not None and liveness.is_cut_off(self._socket, seconds)

    def _spend(self, nbytes: int) -> None:
        before, self._spent = self._spent, self._spent + nbytes
        if before <= self._turn_bytes // 2 < self._spent:
            self._driver.call_soon(self._reset_spent)

    def _reset_spent(self) -> None:
        self._spent = 0

    def _enqueue(self, header: bytes, payload: Payload, owner: BufferOwner | None, done: int = 0) -> bool:
        """Queue the rest of a frame of which `done` bytes were sent. Return True if the payload was copied."""
        copy = self._copying and sum(map(len, payload)) <= COPY_LIMIT
        # Without empty pieces, so that the last piece leaves when all of the owner's memory has left.
        pieces: list[bytes | memoryview] = [b"".join((header, *payload))] if copy else [header, *filter(len, payload)]
        while done >= len(pieces[0]):
            done -= len(pieces.pop(0))
        pieces[0] = memoryview(pieces[0])[done:]
        if self._closed:
            if owner is not None:
                self._user.buffer_unsent(owner)
            return False
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
                    break  # the end of the frame before this one
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
                self.lost(describe(error))
                return
            self._remove_sent(done)
            self._spend(done)
        if queue:
            self._watch()
            return
        if self._writing:
            self._writing = False
            self._driver.remove_writer(sock.fileno())
        self._maker.drained()

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
        """Read, and sleep until a good part of a long payload has come: waking up takes longer than to read a packet.

        What is awaited is never more than what is missing. The end of the connection wakes the rank as well.
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
            except errors.RemoteProtocolError as error:
                self.lost(str(error))
                return
            self._eof()
            return
        if self._socket is not None and self._decrypted is not None and self._decrypted():
            self._driver.call_soon(self._readable)

    def _eof(self) -> None:
        """Handle the end of the stream: the other side sends nothing more."""
        self.lost("its connection closed")

    def lost(self, cause: str) -> None:
        self.close()
        self._user.connection_lost(cause)
        self._maker.drained()

    def close_gracefully(self) -> None:
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
                # Unread bytes would turn the close into a reset, which destroys bytes on their way to the peer.
                while sock.recv(READ_AHEAD):
                    pass
        self.close()

    def close(self) -> None:
        self._closed = True
        owners = [owner for _, owner in self._queue if owner is not None]
        self._queue.clear()
        self._maker.links.discard(self)
        sock, self._socket = self._socket, None
        if sock is not None:
            self._driver.remove_reader(sock.fileno())
            if self._writing:
                self._writing = False
                self._driver.remove_writer(sock.fileno())
            sock.close()
        for owner in owners:
            self._user.buffer_unsent(owner)


class StreamLink(Connection):
    """The frames to and from one peer over a socket (a `SocketLink`)."""

    def __init__(self, transport: StreamTransport, peer: Peer) -> None:
        self.peer = peer
        self.far = transport.far
        self._transport = transport
        self._frames = FrameReader(peer)
        self._completed_early = False  # messages whose sends are complete have been queued
        super().__init__(transport, peer, self._frames)

    def _enqueue(self, header: bytes, payload: Payload, owner: BufferOwner | None, done: int = 0) -> bool:
        copied = super()._enqueue(header, payload, owner, done)
        self._completed_early |= copied and owner is not None and header[0] == EAGER
        return copied

    def cannot_connect(self, cause: str) -> None:
        self._transport.cannot_connect(self, cause, bool(self._queue), self._completed_early)

    def _eof(self) -> None:
        if self._frames.between_frames and self.peer.finalize_error is not None:
            self.close()
            if not self._transport.linked(self.peer):
                self.peer.mark_closed()
            self._transport.drained()  # what was still queued is not needed any more
        else:
            super()._eof()


class StreamTransport(Transport):
    """A transport over stream sockets. A derived class chooses the family of the sockets."""

    far: ClassVar[bool] = False

    def __init__(self, engine: Engine, site: Site) -> None:
        super().__init__(engine, site)
        self.links: set[SocketLink] = set()
        self._listener: socket.socket | None = None
        self._accept_timer: Timer | None = None
        self._exhausted_since: float | None = None  # when accepting began to fail for want of descriptors
        self._greetings: dict[Greeting, None] = {}
        self._diallings: set[Dialling] = set()

    @abstractmethod
    def listen(self) -> tuple[socket.socket, Any]:
        """Return a listening socket and the address to publish."""

    @abstractmethod
    def targets(self, address: Any) -> list[Address]:
        """Return what to connect to, to be tried in this order, for the published address of a peer."""

    def admits(self, sock: socket.socket) -> bool:
        """Return True if an accepted connection came to an address on which this rank listens."""
        return True

    def link(self, peer: Peer, dialled: bool) -> SocketLink:
        """Return a link that waits for its socket.

        Args:
            dialled: True if this rank makes the connection.
        """
        return StreamLink(self, peer)

    def set_options(self, sock: socket.socket) -> None:
        """Set options of a new connection."""

    def address(self) -> Any:
        self._listener, address = self.listen()
        self._listener.setblocking(False)
        self._listen()
        return address

    def connect(self, peer: Peer, address: Any) -> Link:
        targets = self.targets(address)
        # Looked up before the first attempt, since the peer may be forgotten before a later one.
        namespace, target = self.engine.processes.way(peer.rank)
        key = namespace.key_for(target)

        def handshake() -> Connector:
            return Connector(key, role=ROLE_PEER, rank=namespace.own, target=target, namespace=namespace.id)

        def dialled(dialling: Dialling, cause: str | None) -> None:
            self._diallings.discard(dialling)
            if cause is not None:
                (link.cannot_connect if dialling.failed_here else link.lost)(cause)
            else:
                self.set_options(dialling.socket)
                link.open(dialling.socket)

        timeout = self.engine.settings.connect_timeout
        # Before the link, because it may fail for want of descriptors; it calls nothing back yet.
        dialling = Dialling(
            self.engine.driver,
            targets,
            handshake,
            self.engine.settings,
            timeout,
            dialled,
            retries=True,
            wait_for_hello=True,
        )
        self._diallings.add(dialling)
        link = self.link(peer, dialled=True)
        self.links.add(link)
        peer.adopt(link)
        return link

    def cannot_connect(self, link: SocketLink, cause: str, frames_lost: bool, completed_early: bool) -> None:
        """Fail a peer at once if no connection can be made because of this process, which no other process can know.

        Args:
            frames_lost: True if messages are lost.
            completed_early: True if the sends of some of them are complete already.
        """
        peer = link.peer
        link.lost(cause)
        if peer.finalize_error is not None or (not frames_lost and self.linked(peer)):
            return
        if self.engine.survives:
            return  # the agent decides, so that all ranks see the same
        peer.mark_failed(cause)
        if completed_early and peer.error is not None and not self.engine.finished:
            self.engine.fatal(peer.error)  # complete sends can report no error

    def accept(self) -> None:
        """Accept connections that are waiting."""
        for _ in range(_MAX_ACCEPTS):
            if self._listener is None:
                return
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno == errno.ECONNABORTED:
                    continue
                if error.errno in EXHAUSTED:
                    self._pause_accepting(error)
                return
            self._exhausted_since = None
            if not self.admits(sock):
                sock.close()
                continue
            sock.setblocking(False)
            if len(self._greetings) >= MAX_GREETINGS + self.engine.size:
                self._make_room()
            self.set_options(sock)
            handshake = Acceptor(self.engine.processes.namespaces, role=ROLE_PEER)
            settings = self.engine.settings
            greeting = Greeting(self.engine.driver, sock, handshake, settings, settings.connect_timeout, self._accepted)
            self._greetings[greeting] = None

    def _listen(self) -> None:
        assert self._listener is not None
        self._accept_timer = None
        self.engine.driver.add_reader(self._listener.fileno(), self.accept)

    def _pause_accepting(self, error: OSError) -> None:
        """Accept nothing for a while, because a listener that stays readable would keep the driver busy."""
        assert self._listener is not None
        cause = f"rank {self.engine.rank} cannot take the connection of another rank: {describe(error)}"
        now, patience = self.engine.driver.now(), self.engine.settings.connect_timeout
        if self._exhausted_since is None:
            self._exhausted_since = now
            warn_unraisable(cause)
        elif now - self._exhausted_since > patience:
            self.engine.failure.abort(
                errors.OtherError(f"{cause}. It has been so for {patience:g} s (connect_timeout)")
            )
            return
        if self._accept_timer is None:
            self.engine.driver.remove_reader(self._listener.fileno())
            self._accept_timer = self.engine.driver.call_later(ACCEPT_PAUSE, self._listen)

    def _make_room(self) -> None:
        """Close one greeting to make room: the oldest that has not sent anything, or else the oldest."""
        for greeting in list(self._greetings):
            if greeting.silent:
                greeting.read()
            if greeting not in self._greetings:
                return
            if greeting.silent:
                self._drop(greeting)
                return
        self._drop(next(iter(self._greetings)))

    def _drop(self, greeting: Greeting) -> None:
        del self._greetings[greeting]
        greeting.close()

    def _accepted(self, greeting: Greeting, cause: str | None) -> None:
        self._greetings.pop(greeting, None)
        handshake = greeting.handshake
        assert isinstance(handshake, Acceptor)
        rank = None if cause else self.engine.processes.caller(handshake.namespace.id, handshake.peer_rank)
        # A peer that has failed is not accepted again: its messages would arrive after the report of its failure.
        if rank is not None and isinstance(peer := self.engine.peer(rank), Peer) and peer.error is None:
            link = self.link(peer, dialled=False)
            self.links.add(link)
            link.open(greeting.socket)
            peer.adopt(link)
        else:
            greeting.socket.close()

    def pending(self) -> bool:
        self.accept()
        return bool(self._greetings)

    def linked(self, peer: Endpoint) -> bool:
        return any(link.peer is peer for link in self.links)

    def abandon(self, peer: Endpoint, cause: str) -> None:
        for link in [link for link in self.links if link.peer is peer]:
            link.lost(cause)

    def dismiss(self, peer: Endpoint) -> bool:
        links = [link for link in self.links if link.peer is peer]
        for link in links:
            if link.idle:
                link.close_gracefully()
        return not any(link.peer is peer for link in self.links)

    def idle(self) -> bool:
        return all(link.idle for link in self.links)

    def close(self) -> None:
        for link in list(self.links):
            link.close_gracefully()
        for greeting in list(self._greetings):
            self._drop(greeting)
        for dialling in self._diallings:
            dialling.close()
        self._diallings.clear()
        if self._listener is not None:
            if self._accept_timer is not None:
                self._accept_timer.cancel()
            else:
                self.engine.driver.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
