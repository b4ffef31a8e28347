"""Transports over stream sockets: what TCP and Unix sockets have in common.

`StreamLink` carries the frames of one peer over a socket. `StreamTransport` makes it.
"""

from __future__ import annotations

import errno
import socket
from abc import abstractmethod
from typing import Any, ClassVar, Final, Protocol

from aiompi import errors
from aiompi.core.awaits import warn_unraisable
from aiompi.engine import Endpoint, Engine, Link, Peer, Timer
from aiompi.engine.seams import BufferOwner
from aiompi.net.handshake import protection_of
from aiompi.transport.connection import Connection
from aiompi.transport.dial import EXHAUSTED, Dialling, Greeting, Limits, describe
from aiompi.transport.resolve import Address
from aiompi.transport.template import Site, Transport
from aiompi.wire.frame import EAGER, FrameReader, Payload
from aiompi.wire.hello import ROLE_PEER, Acceptor, Connector, Protection

#: most connections that have not proven the key yet, beyond one for each rank; a further one replaces another
MAX_GREETINGS: Final = 128
#: most connections with one other rank: each of the two may make one, and earlier ones may still be ending
MAX_LINKS: Final = 4
_MAX_ACCEPTS: Final = 64  # connections that are accepted per turn at most
ACCEPT_PAUSE: Final = 1.0  # seconds without accepting when descriptors run out
_FOR_HELLO: Final = 1.0  # seconds that a connection has for its hello when descriptors run out


class SocketLink(Link, Protocol):
    """A link that uses a connected socket."""

    @property
    def peer(self) -> Peer: ...

    def open(self, sock: socket.socket) -> None:
        """Use a socket whose peer has proven the key."""

    def cannot_connect(self, cause: str) -> None:
        """Report that this process could not connect. No agent knows the cause, which is here or unknown."""

    def close_gracefully(self) -> None:
        """Close so that everything that was sent arrives, even if the peer is still sending."""


class StreamLink(Connection):
    """The frames to and from one peer over a socket (a `SocketLink`)."""

    def __init__(self, transport: StreamTransport, peer: Peer) -> None:
        self.peer = peer
        self.far = transport.far
        self._transport = transport
        self._frames = FrameReader(peer)
        self._completed_early = False  # the queue has messages whose sends are complete
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
            self._transport.drained()  # queued frames are not needed any more
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
        self._warned = False  # a refused peer has been reported

    @abstractmethod
    def listen(self) -> tuple[socket.socket, Any]:
        """Return a listening socket and the address to publish."""

    @abstractmethod
    def targets(self, address: Any) -> list[Address]:
        """Return the socket addresses to try, in order, for the published address of a peer."""

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
        self._listener.settimeout(0)
        self._listen()
        return address

    def connect(self, peer: Peer, address: Any) -> Link:
        targets = self.targets(address)
        # Looked up before the first attempt, because the peer may be forgotten before a later one.
        namespace, target = self.engine.processes.namespace_of(peer.rank)
        key = namespace.key_for(target)

        def handshake(channel: Protection) -> Connector:
            return Connector(
                key, role=ROLE_PEER, rank=namespace.own, target=target, channel=channel, namespace=namespace.id
            )

        def dialled(dialling: Dialling, cause: str | None) -> None:
            self._diallings.discard(dialling)
            if cause is not None:
                (link.cannot_connect if dialling.failed_here else link.lost)(cause)
            else:
                self.set_options(dialling.socket)
                link.open(dialling.socket)

        driver, settings = self.engine.driver, self.engine.settings
        limits = Limits(settings.connect_timeout, retries=True, wait_for_hello=True)
        # The dialling is made before the link, because it may fail for lack of descriptors. It calls nothing back yet.
        dialling = Dialling(driver, targets, handshake, settings, limits, dialled)
        self._diallings.add(dialling)
        link = self.link(peer, dialled=True)
        self.links.add(link)
        peer.adopt(link)
        return link

    def cannot_connect(self, link: SocketLink, cause: str, frames_lost: bool, completed_early: bool) -> None:
        """Fail a peer at once if this process cannot connect to it for a local reason, as no agent can report that.

        Args:
            frames_lost: True if messages are lost.
            completed_early: True if the sends of some lost messages are already complete.
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

    def exhausted(self, link: SocketLink, cause: str) -> None:
        """Fail this rank, as it has no resources for a new link; if the peer is of another job, lose only the peer."""
        peer, processes = link.peer, self.engine.processes
        if peer.finalize_error is not None or processes.is_stranger(peer.rank):
            link.cannot_connect(cause)
        else:
            self.engine.unfit(errors.OtherError(f"{processes.label(peer.rank)} cannot be reached: {cause}"))
            link.lost(cause)

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
                if error.errno in EXHAUSTED and not self._drop_late():
                    self._pause_accepting(error)
                return
            self._exhausted_since = None
            if not self.admits(sock):
                sock.close()
                continue
            sock.settimeout(0)
            if len(self._greetings) >= MAX_GREETINGS + self.engine.size:
                self._make_room()
            self.set_options(sock)
            settings = self.engine.settings
            handshake = Acceptor(
                self.engine.processes.namespaces, role=ROLE_PEER, channel=protection_of(sock, settings)
            )
            greeting = Greeting(self.engine.driver, sock, handshake, settings, settings.connect_timeout, self._accepted)
            self._greetings[greeting] = None

    def _listen(self) -> None:
        assert self._listener is not None
        self._accept_timer = None
        self.engine.driver.add_reader(self._listener.fileno(), self.accept)

    def _pause_accepting(self, error: OSError) -> None:
        """Accept no connection for a while, because a listener that stays readable would keep the driver busy."""
        assert self._listener is not None
        cause = f"rank {self.engine.rank} cannot take the connection of another rank: {describe(error)}"
        now, patience = self.engine.driver.now(), self.engine.settings.connect_timeout
        if self._exhausted_since is None:
            self._exhausted_since = now
            warn_unraisable(cause)
        elif now - self._exhausted_since > patience:
            self.engine.unfit(errors.OtherError(f"{cause}. It has been so for {patience:g} s (connect_timeout)"))
            return
        if self._accept_timer is None:
            self.engine.driver.remove_reader(self._listener.fileno())
            self._accept_timer = self.engine.driver.call_later(ACCEPT_PAUSE, self._listen)

    def _drop_late(self) -> bool:
        """Close one connection whose time for the hello is over; return False if there is no such connection."""
        limit = self.engine.driver.now() - _FOR_HELLO
        for greeting in [each for each in self._greetings if each.since < limit and not each.handshake.answered]:
            greeting.read()  # this rank may have been busy
            if not greeting.handshake.answered:
                if greeting in self._greetings:
                    self._drop(greeting)
                return True
        return False

    def _make_room(self) -> None:
        """Close a connection in its hello to make room: the oldest that has sent no byte, or else the oldest."""
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
        peer = None if rank is None else self.engine.peer(rank)
        places = MAX_LINKS - sum(link.peer is peer for link in self.links)
        if isinstance(peer, Peer) and peer.error is None and places > 0:
            link = self.link(peer, dialled=False)
            self.links.add(link)
            link.open(greeting.socket)
            peer.adopt(link)
        else:
            greeting.socket.close()
            self._warn_of(handshake.refusal)

    def _warn_of(self, refusal: str) -> None:
        """Warn, once, that a process was refused because it has another protocol, or the key but another channel."""
        if refusal and not self._warned:
            self._warned = True
            warn_unraisable(f"rank {self.engine.rank} has refused a connection: {refusal}")

    def pending(self, peer: Endpoint) -> bool:
        return any(self._claims(greeting, peer.rank) for greeting in self._greetings)

    def _claims(self, greeting: Greeting, rank: int) -> bool:
        """Return True if a connection claims to be of this process. A peer sends no frames before it has an answer."""
        handshake, processes = greeting.handshake, self.engine.processes
        if not handshake.answered:
            return False
        assert isinstance(handshake, Acceptor)
        namespace, index = handshake.namespace, handshake.peer_rank
        # This does not call `caller`, which would meet an unknown process before the key is proven.
        return rank == (processes.of_job(index) if namespace.id == processes.job else namespace.members.get(index))

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
