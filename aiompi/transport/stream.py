"""What stream sockets have in common: links over non-blocking sockets, and the listener that accepts them."""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from aiompi import errors
from aiompi.engine import Driver, Endpoint, Engine, Link, Peer, Timer
from aiompi.engine.request import warn_unraisable
from aiompi.engine.seams import BufferOwner
from aiompi.transport.dial import EXHAUSTED, Dialling, Greeting, describe
from aiompi.transport.template import Site, Transport
from aiompi.wire.frame import EAGER, READ_AHEAD, FrameReader, Payload, beginning
from aiompi.wire.hello import ROLE_PEER, Acceptor, Connector

#: payloads up to this size are copied when the socket cannot take them at once, so that their send is complete
COPIED: Final = 16 * 2**10
#: payloads up to this size are joined with their header: cheaper than a gathering system call
JOINED: Final = 4 * 2**10
#: pieces of memory per gathering system call, well below IOV_MAX
PIECES: Final = 64
#: system calls per turn and direction, so that one busy connection does not starve the loop
BUDGET: Final = 16
_TURNS: Final = range(BUDGET)
#: bytes per system call: while the other side takes them, it would go on and on
_PORTION: Final = 2**20
#: bytes per turn and direction
_MOST: Final = 2**21
#: connections that may wait to be accepted
BACKLOG: Final = 4096
#: connections that have not proven the key yet, beyond one of each rank; then one makes place for a new one
HALF_OPEN: Final = 128
#: connections that are accepted per turn
_ACCEPTED: Final = 64
#: seconds without accepting when descriptors run out
BREATHER: Final = 1.0


class SocketLink(Link, Protocol):
    """A link of which a connected socket is part."""

    @property
    def peer(self) -> Peer:
        """Whose frames it carries."""

    def open(self, sock: socket.socket) -> None:
        """Use a socket whose peer has proven the key."""

    def lost(self, cause: str) -> None:
        """The connection is of no use any more."""

    def prevented(self, cause: str) -> None:
        """It cannot be made for a reason that is here, of which nobody else can tell."""

    def hang_up(self) -> None:
        """Close in good order: what was sent arrives, even if the peer sends still."""


class Cutter(Protocol):
    """What cuts a stream into frames; see `aiompi.wire.frame.FrameReader`."""

    @property
    def landing(self) -> object | None:
        """What is being read straight into its place."""

    def get_buffer(self) -> memoryview: ...

    def buffer_updated(self, nbytes: int) -> None: ...


class Keeper(Protocol):
    """An object that makes connections."""

    engine: Engine
    links: set[Any]
    drained: Callable[[], object]


class Correspondent(Protocol):
    """An object that is told what becomes of a connection."""

    def connection_lost(self, cause: str) -> None:
        """It broke."""

    def orphan(self, owner: BufferOwner) -> None:
        """It broke before it had sent the owner's memory."""


class Connection:
    """Frames over one connected socket; before that, a queue for them (a `Link`).

    Args:
        keeper: made it.
        correspondent: is told when it breaks.
        reader: takes what comes.
    """

    sharing = None

    def __init__(self, keeper: Keeper, correspondent: Correspondent, reader: Cutter) -> None:
        self._keeper = keeper
        self._correspondent = correspondent
        self._driver: Driver = keeper.engine.driver
        # Without progress in the background, a send is complete only when its bytes have left the process: its
        # receiver may depend on them while this process does something else.
        self._copying = background = keeper.engine.driver.background
        # Otherwise nothing else waits for a turn.
        self._portion, self._most = (_PORTION, _MOST) if background else (sys.maxsize, sys.maxsize)
        self._spent = 0  # bytes that were written in this turn, if they are many
        self._socket: socket.socket | None = None
        self._reader = reader
        self._queue: deque[tuple[bytes | memoryview, BufferOwner | None]] = deque()
        self._writing = False
        self._closed = False

    @property
    def idle(self) -> bool:
        return not self._queue

    def open(self, sock: socket.socket) -> None:
        """Use a socket whose peer has proven the key."""
        self._socket = sock
        self._driver.add_reader(sock.fileno(), self._readable)
        if self._queue:
            self._writable()

    def dispatch(self, header: bytes, payload: Payload) -> bool:
        return False  # a part of it may leave

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        sock = self._socket
        if sock is None or self._queue:
            return self._enqueue(header, payload, owner)
        try:
            if len(payload) == 1 and len(payload[0]) <= JOINED:
                data = header + payload[0]
                nbytes = len(data)
                done = sock.send(data)
            elif payload:
                nbytes = len(header) + sum(map(len, payload))
                done = sock.sendmsg((header, *payload[: PIECES - 1])) if self._spent + nbytes <= self._most else 0
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

    def _spend(self, nbytes: int) -> None:
        before, self._spent = self._spent, self._spent + nbytes
        if before <= self._most // 2 < self._spent:
            self._driver.call_soon(self._spare)

    def _spare(self) -> None:
        """Another turn has come."""
        self._spent = 0

    def _enqueue(self, header: bytes, payload: Payload, owner: BufferOwner | None, done: int = 0) -> bool:
        """Keep the rest of a frame of which `done` bytes have left."""
        copy = self._copying and sum(map(len, payload)) <= COPIED
        # Without its empty pieces: the last one must leave as the owner's memory does.
        pieces: list[bytes | memoryview] = [b"".join((header, *payload))] if copy else [header, *filter(len, payload)]
        while done >= len(pieces[0]):
            done -= len(pieces.pop(0))
        pieces[0] = memoryview(pieces[0])[done:]
        if self._closed:
            if owner is not None:
                self._correspondent.orphan(owner)
            return False
        last = pieces.pop()
        self._queue.extend((piece, None) for piece in pieces)
        self._queue.append((last, None if copy else owner))
        return copy

    def grant(self, nbytes: int) -> bool:
        return False

    def granted(self) -> int:
        return 0

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        queue = self._queue
        ends = [index for index, (_, other) in enumerate(queue) if other is owner]
        for end in ends:
            for index in range(end, -1, -1):
                piece, other = queue[index]
                if other is not None and index != end:
                    break  # the frame before it
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
            if not queue or self._spent >= self._most:
                break
            try:
                pieces = (piece for piece, _ in itertools.islice(queue, PIECES))
                done = sock.sendmsg(beginning(pieces, self._portion))
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                self.lost(describe(error))
                return
            self._left(done)
            self._spend(done)
        if queue:
            self._watch()
            return
        if self._writing:
            self._writing = False
            self._driver.remove_writer(sock.fileno())
        self._keeper.drained()

    def _left(self, nbytes: int) -> None:
        """`nbytes` of the queue have left."""
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

    def _readable(self) -> None:
        reader, left = self._reader, self._most
        for _ in _TURNS:
            sock = self._socket
            if sock is None:
                return
            room = reader.get_buffer()
            if len(room) > self._portion:
                room = room[: self._portion]
            try:
                nbytes = sock.recv_into(room)
                if nbytes:
                    reader.buffer_updated(nbytes)
                    left -= nbytes
                    if nbytes < len(room) or reader.landing is None or left <= 0:
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

    def _eof(self) -> None:
        """The other side will send nothing more."""
        self.lost("its connection closed")

    def lost(self, cause: str) -> None:
        """The connection is of no use any more."""
        self.close()
        self._correspondent.connection_lost(cause)
        self._keeper.drained()

    def hang_up(self) -> None:
        """Close in good order: what was sent arrives, even if the peer sends still."""
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
                # Unread bytes would turn the close into a reset, which destroys what is on its way to the peer.
                while sock.recv(READ_AHEAD):
                    pass
        self.close()

    def close(self) -> None:
        self._closed = True
        owners = [owner for _, owner in self._queue if owner is not None]
        self._queue.clear()
        self._keeper.links.discard(self)
        sock, self._socket = self._socket, None
        if sock is not None:
            self._driver.remove_reader(sock.fileno())
            if self._writing:
                self._writing = False
                self._driver.remove_writer(sock.fileno())
            sock.close()
        for owner in owners:
            self._correspondent.orphan(owner)


class StreamLink(Connection):
    """Frames of one peer."""

    def __init__(self, transport: StreamTransport, peer: Peer) -> None:
        self.peer = peer
        self._transport = transport
        self._frames = FrameReader(peer)
        self._promised = False  # whether messages have been queued whose sends are complete
        super().__init__(transport, peer, self._frames)

    def _enqueue(self, header: bytes, payload: Payload, owner: BufferOwner | None, done: int = 0) -> bool:
        copied = super()._enqueue(header, payload, owner, done)
        self._promised |= copied and owner is not None and header[0] == EAGER
        return copied

    def prevented(self, cause: str) -> None:
        self._transport.give_up(self, cause, bool(self._queue), self._promised)

    def _eof(self) -> None:
        if self._frames.between_frames and self.peer.finalize_error is not None:
            self.close()
            if not self._transport.linked(self.peer):
                self.peer.mark_closed()
        else:
            super()._eof()


class StreamTransport(Transport):
    """A transport over stream sockets; a derived one says of which family."""

    def __init__(self, engine: Engine, site: Site) -> None:
        super().__init__(engine, site)
        self.links: set[SocketLink] = set()
        self._listener: socket.socket | None = None
        self._breather: Timer | None = None
        self._short: float | None = None  # since when there have been no descriptors, which has been told
        self._greetings: dict[Greeting, None] = {}
        self._diallings: set[Dialling] = set()

    @abstractmethod
    def listen(self) -> tuple[socket.socket, Any]:
        """A bound, listening socket and the address to publish."""

    @abstractmethod
    def dial(self, address: Any) -> tuple[socket.socket, Any]:
        """A fresh socket and the address to give to its `connect`."""

    def link(self, peer: Peer, dialled: bool) -> SocketLink:
        """A link that waits for its socket.

        Args:
            dialled: whether this rank makes the connection.
        """
        return StreamLink(self, peer)

    def tune(self, sock: socket.socket) -> None:
        """Set options of a new connection."""

    def address(self) -> Any:
        self._listener, address = self.listen()
        self._listener.setblocking(False)
        self._listen()
        return address

    def connect(self, peer: Peer, address: Any) -> Link:
        sock, target = self.dial(address)  # first: if there are no descriptors, there is no link
        link = self.link(peer, dialled=True)
        self.links.add(link)
        peer.adopt(link)

        def handshake() -> Connector:
            return Connector(self.site.key, role=ROLE_PEER, rank=self.engine.rank, target=peer.rank)

        def dialled(dialling: Dialling, cause: str | None) -> None:
            self._diallings.discard(dialling)
            if cause is not None:
                (link.prevented if dialling.hindered else link.lost)(cause)
            else:
                self.tune(dialling.socket)
                link.open(dialling.socket)

        timeout = self.engine.settings.connect_timeout
        dialling = Dialling(self.engine.driver, sock, target, handshake(), timeout, dialled, handshake, patient=True)
        self._diallings.add(dialling)
        return link

    def give_up(self, link: SocketLink, cause: str, needed: bool, promised: bool) -> None:
        """Tell at once that a connection cannot be made for a reason that is here: nobody else can.

        Args:
            needed: whether messages are lost with it.
            promised: whether sends are among them that are complete already.
        """
        peer = link.peer
        link.lost(cause)
        if peer.finalize_error is not None or (not needed and self.linked(peer)):
            return
        peer.mark_failed(cause)
        if promised and peer.error is not None and not self.engine.finished:
            self.engine.fatal(peer.error)  # they can report nothing

    def accept(self) -> None:
        """Take connections that are waiting."""
        for _ in range(_ACCEPTED):
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
                    self._breathe(error)
                return
            self._short = None
            sock.setblocking(False)
            if len(self._greetings) >= HALF_OPEN + self.engine.size:
                self._turn_away()
            self.tune(sock)
            handshake = Acceptor(self.site.key, role=ROLE_PEER, rank=self.engine.rank)
            timeout = self.engine.settings.connect_timeout
            self._greetings[Greeting(self.engine.driver, sock, handshake, timeout, self._accepted)] = None

    def _listen(self) -> None:
        assert self._listener is not None
        self._breather = None
        self.engine.driver.add_reader(self._listener.fileno(), self.accept)

    def _breathe(self, error: OSError) -> None:
        """Accept nothing for a while: a listener that stays readable would keep the driver busy."""
        assert self._listener is not None
        cause = f"rank {self.engine.rank} cannot take the connection of another rank: {describe(error)}"
        now, patience = self.engine.driver.now(), self.engine.settings.connect_timeout
        if self._short is None:
            self._short = now
            warn_unraisable(cause)
        elif now - self._short > patience:
            self.engine.failure.abort(
                errors.OtherError(f"{cause}. It has been so for {patience:g} s (connect_timeout)")
            )
            return
        if self._breather is None:
            self.engine.driver.remove_reader(self._listener.fileno())
            self._breather = self.engine.driver.call_later(BREATHER, self._listen)

    def _turn_away(self) -> None:
        """Make place for one more: the oldest goes that has not said anything, or else the oldest."""
        for greeting in list(self._greetings):
            if greeting.silent:
                greeting.look()
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
        rank = greeting.handshake.peer_rank
        known = 0 <= rank < self.engine.size and rank != self.engine.rank
        # One that was given up is not taken back: its messages would come after the news of its end.
        if cause is None and known and isinstance(peer := self.engine.peer(rank), Peer) and peer.error is None:
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

    def idle(self) -> bool:
        return all(link.idle for link in self.links)

    def close(self) -> None:
        for link in list(self.links):
            link.hang_up()
        for greeting in list(self._greetings):
            self._drop(greeting)
        for dialling in self._diallings:
            dialling.close()
        self._diallings.clear()
        if self._listener is not None:
            if self._breather is not None:
                self._breather.cancel()
            else:
                self.engine.driver.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None


def bound(family: int, address: Any) -> socket.socket:
    """A listening socket.

    Raises:
        OSError: the address cannot be had; it names it.
    """
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except BaseException as error:
        listener.close()
        if isinstance(error, OSError):
            error.filename = address if family == socket.AF_UNIX else address[0]
        raise
    return listener
