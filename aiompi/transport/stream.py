"""What stream sockets have in common: links over non-blocking sockets, and the listener that accepts them."""

from __future__ import annotations

import errno
import os
import socket
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiompi import errors
from aiompi.engine import Driver, Engine, Link, Peer, Timer
from aiompi.engine.seams import Owner
from aiompi.transport.template import Site, Transport
from aiompi.wire.frame import Reader
from aiompi.wire.hello import ROLE_PEER, Acceptor, Connector, Handshake

#: payloads up to this size are copied when the socket cannot take them at once, so that their send is complete
COPIED: Final = 16 * 2**10
#: payloads up to this size are joined with their header: cheaper than a gathering system call
JOINED: Final = 4 * 2**10
#: pieces of memory per gathering system call, well below IOV_MAX
PIECES: Final = 64
#: system calls per turn and direction, so that one busy connection does not starve the loop
BUDGET: Final = 16
#: connections that have not proven the key yet; the oldest makes place for a new one
HALF_OPEN: Final = 128


class StreamLink:
    """Frames of one peer over one connected socket; before that, a queue for them."""

    def __init__(self, transport: StreamTransport, peer: Peer) -> None:
        self.peer = peer
        self._transport = transport
        self._driver: Driver = transport.engine.driver
        self._socket: socket.socket | None = None
        self._reader = Reader(peer)
        self._queue: deque[tuple[bytes | memoryview, Owner | None]] = deque()
        self._writing = False

    @property
    def idle(self) -> bool:
        return not self._queue

    def open(self, sock: socket.socket) -> None:
        """Use a socket whose peer has proven the key."""
        self._socket = sock
        self._driver.add_reader(sock.fileno(), self._readable)
        if self._queue:
            self._writable()

    def send(self, header: bytes, payload: Sequence[memoryview], owner: Owner | None) -> bool:
        sock = self._socket
        if self._queue or sock is None:
            return self._enqueue(header, payload, owner)
        nbytes = len(header)
        try:
            if not payload:
                done = sock.send(header)
            elif len(payload) == 1 and len(payload[0]) <= JOINED:
                nbytes += len(payload[0])
                done = sock.send(header + payload[0])
            else:
                nbytes += sum(map(len, payload))
                done = sock.sendmsg((header, *payload[: PIECES - 1]))
        except (BlockingIOError, InterruptedError):
            done = 0
        except OSError as error:
            self.lost(_cause(error))
            return False
        if done == nbytes:
            return True
        free = self._enqueue(header, payload, owner, done)
        self._watch()
        return free

    def _enqueue(self, header: bytes, payload: Sequence[memoryview], owner: Owner | None, done: int = 0) -> bool:
        """Keep the rest of a frame of which `done` bytes have left."""
        if self.peer.error is not None:
            return False
        copy = sum(map(len, payload)) <= COPIED
        pieces: list[bytes | memoryview] = [b"".join((header, *payload))] if copy else [header, *payload]
        while done >= len(pieces[0]):
            done -= len(pieces.pop(0))
        pieces[0] = memoryview(pieces[0])[done:]
        last = pieces.pop()
        self._queue.extend((piece, None) for piece in pieces)
        self._queue.append((last, None if copy else owner))
        return copy

    def _watch(self) -> None:
        if not self._writing and self._socket is not None:
            self._writing = True
            self._driver.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        queue, sock = self._queue, self._socket
        assert sock is not None
        for _ in range(BUDGET):
            if not queue:
                break
            pieces = [queue[i][0] for i in range(min(PIECES, len(queue)))]
            try:
                done = sock.sendmsg(pieces)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                self.lost(_cause(error))
                return
            self._left(done)
        if queue:
            self._watch()
        elif self._writing:
            self._writing = False
            self._driver.remove_writer(sock.fileno())
            self._transport.drained()

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
        sock, reader = self._socket, self._reader
        for _ in range(BUDGET):
            if sock is None:
                return
            room = reader.get_buffer()
            try:
                nbytes = sock.recv_into(room)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.lost(_cause(error))
                return
            if nbytes == 0:
                self._eof()
                return
            try:
                reader.buffer_updated(nbytes)
            except errors.RemoteProtocolError as error:
                self.lost(str(error))
                return
            if nbytes < len(room):
                return
            sock = self._socket

    def _eof(self) -> None:
        if self._reader.between_frames and self.peer.farewell is not None:
            self.close()
        else:
            self.lost("its connection closed")

    def lost(self, cause: str) -> None:
        """The connection is of no use any more."""
        owners = [owner for _, owner in self._queue if owner is not None]
        self.close()
        self.peer.lost(cause)
        error = self.peer.error or self.peer.farewell
        for owner in owners:
            if error is not None:
                owner.fail(error)
        self._transport.drained()

    def close(self) -> None:
        self._queue.clear()
        self._transport.links.discard(self)
        sock, self._socket = self._socket, None
        if sock is not None:
            self._driver.remove_reader(sock.fileno())
            if self._writing:
                self._driver.remove_writer(sock.fileno())
            sock.close()


class Greeting:
    """A connection on which the hello is being exchanged."""

    def __init__(
        self,
        driver: Driver,
        sock: socket.socket,
        handshake: Handshake,
        timeout: float,
        done: Callable[[Greeting, str | None], object],
    ) -> None:
        self.socket = sock
        self.handshake = handshake
        self._driver = driver
        self._done = done
        self._timer: Timer = driver.call_later(timeout, lambda: self._end("it did not answer the hello in time"))
        driver.add_reader(sock.fileno(), self._readable)
        self._flush()

    def _readable(self) -> None:
        try:
            data = self.socket.recv(self.handshake.needed)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(_cause(error))
            return
        if not data:
            self._end("it closed the connection during the hello")
            return
        try:
            self.handshake.receive_data(data)
        except errors.RemoteProtocolError as error:
            self._end(str(error))
            return
        if self._flush() and self.handshake.done:
            self._end(None)

    def _flush(self) -> bool:
        data = self.handshake.data_to_send()
        try:
            # A hello is far smaller than the buffer of a fresh connection: less than all of it means an error.
            if data and self.socket.send(data) < len(data):
                raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        except OSError as error:
            self._end(_cause(error))
            return False
        return True

    def _end(self, cause: str | None) -> None:
        self.detach()
        if cause is not None:
            self.socket.close()
        self._done(self, cause)

    def detach(self) -> None:
        self._timer.cancel()
        self._driver.remove_reader(self.socket.fileno())

    def close(self) -> None:
        self.detach()
        self.socket.close()


class StreamTransport(Transport):
    """A transport over stream sockets; a derived one says of which family."""

    def __init__(self, engine: Engine, site: Site) -> None:
        super().__init__(engine, site)
        self.links: set[StreamLink] = set()
        self.drained: Callable[[], object] = lambda: None
        self._listener: socket.socket | None = None
        self._greetings: dict[Greeting, None] = {}
        self._dialling: set[_Dialling] = set()

    @abstractmethod
    def listen(self) -> tuple[socket.socket, Any]:
        """A bound, listening socket and the address to publish."""

    @abstractmethod
    def dial(self, address: Any) -> tuple[socket.socket, Any]:
        """A fresh socket and the address to give to its `connect`."""

    def tune(self, sock: socket.socket) -> None:
        """Set options of a new connection."""

    def address(self) -> Any:
        self._listener, address = self.listen()
        self._listener.setblocking(False)
        self.engine.driver.add_reader(self._listener.fileno(), self.accept)
        return address

    def connect(self, peer: Peer, address: Any) -> Link:
        link = StreamLink(self, peer)
        self.links.add(link)
        if peer.link is None:
            peer.link = link
        self._dialling.add(_Dialling(self, link, address))
        return link

    def greet(
        self, sock: socket.socket, handshake: Handshake, done: Callable[[Greeting, str | None], object]
    ) -> Greeting:
        """Exchange the hello over a connected socket, then call `done` with None or what went wrong."""
        self.tune(sock)
        return Greeting(self.engine.driver, sock, handshake, self.engine.settings.connect_timeout, done)

    def accept(self) -> None:
        """Take the connections that are waiting."""
        while self._listener is not None:
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno == errno.ECONNABORTED:
                    continue
                return
            sock.setblocking(False)
            if len(self._greetings) >= HALF_OPEN:
                self._drop(next(iter(self._greetings)))
            handshake = Acceptor(self.site.key, role=ROLE_PEER, rank=self.engine.rank)
            self._greetings[self.greet(sock, handshake, self._accepted)] = None

    def _drop(self, greeting: Greeting) -> None:
        del self._greetings[greeting]
        greeting.close()

    def _accepted(self, greeting: Greeting, cause: str | None) -> None:
        self._greetings.pop(greeting, None)
        rank = greeting.handshake.peer_rank
        if cause is None and 0 <= rank < self.engine.size:
            peer = self.engine.peer(rank)
            link = StreamLink(self, peer)
            self.links.add(link)
            if peer.link is None:
                peer.link = link
            link.open(greeting.socket)
        else:
            greeting.socket.close()

    def pending(self) -> bool:
        self.accept()
        return bool(self._greetings)

    def dialled(self, dialling: _Dialling) -> None:
        self._dialling.discard(dialling)

    def idle(self) -> bool:
        return all(link.idle for link in self.links)

    def close(self) -> None:
        for link in list(self.links):
            link.close()
        for greeting in list(self._greetings):
            self._drop(greeting)
        for dialling in list(self._dialling):
            dialling.close()
        if self._listener is not None:
            self.engine.driver.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None


class _Dialling:
    """A connection being made: connect, hello, then the link opens."""

    def __init__(self, transport: StreamTransport, link: StreamLink, address: Any) -> None:
        self._transport = transport
        self._link = link
        self._driver = transport.engine.driver
        self._socket, self._target = transport.dial(address)
        self._socket.setblocking(False)
        self._greeting: Greeting | None = None
        self._timer: Timer | None = None
        self._waiting = False
        self._connect()

    def _connect(self) -> None:
        code = self._socket.connect_ex(self._target)
        if code in (0, errno.EISCONN):
            self._connected()
        elif code == errno.EINPROGRESS:
            self._waiting = True
            self._driver.add_writer(self._socket.fileno(), self._progressed)
        elif code == errno.EAGAIN:
            # The backlog of a Unix listener is full; there is no readiness to wait for.
            self._timer = self._driver.call_later(0.005, self._connect)
        else:
            self._failed(os.strerror(code))

    def _progressed(self) -> None:
        self._unwatch()
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(os.strerror(code))
        else:
            self._connected()

    def _unwatch(self) -> None:
        if self._waiting:
            self._waiting = False
            self._driver.remove_writer(self._socket.fileno())

    def _connected(self) -> None:
        engine = self._transport.engine
        handshake = Connector(self._transport.site.key, role=ROLE_PEER, rank=engine.rank, target=self._link.peer.rank)
        self._greeting = self._transport.greet(self._socket, handshake, self._greeted)

    def _greeted(self, greeting: Greeting, cause: str | None) -> None:
        self._greeting = None
        self._transport.dialled(self)
        if cause is None:
            self._link.open(self._socket)
        else:
            self._link.lost(cause)

    def _failed(self, cause: str) -> None:
        self._transport.dialled(self)
        self._socket.close()
        self._link.lost(f"cannot connect to it: {cause}")

    def close(self) -> None:
        self._transport.dialled(self)
        if self._timer is not None:
            self._timer.cancel()
        self._unwatch()
        if self._greeting is not None:
            self._greeting.detach()
        self._socket.close()


def _cause(error: OSError) -> str:
    return f"its connection failed: {error.strerror or error}"
