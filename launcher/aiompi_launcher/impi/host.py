"""An IMPI host in the launcher: its sockets around `aiompi.impi.host`.

Ranks connect over a Unix socket, prove the key of the job, pass memory for long packets, and then exchange packets in
the format that hosts use among themselves. Hosts of other clients connect over TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from aiompi.errors import AuthenticationError, MPIError, RemoteProtocolError
from aiompi.impi import auth, slots
from aiompi.impi.auth import Credentials
from aiompi.impi.host import ChannelState, Host
from aiompi.impi.label import TLS_VERSION
from aiompi.impi.packet import Packet, PacketType
from aiompi.impi.slots import SharedPackets, Slot
from aiompi.impi.universe import Universe
from aiompi.net.handshake import Greeter, channel_of
from aiompi.settings import Settings
from aiompi.wire import hello, liveness, memory
from aiompi_launcher.impi.buffers import Chunk, copied, discard
from aiompi_launcher.impi.splitter import PacketSplitter
from aiompi_launcher.impi.stream import PacketStream
from aiompi_launcher.job.rendezvous import RendezvousError
from aiompi_launcher.net.listen import AcceptLoop, StrangerReports, has_unread, rethrow, source_of

if TYPE_CHECKING:
    from aiompi.net.tls import SecureSocket

_T = TypeVar("_T")

#: bytes that may wait for a channel before the host stops reading from their rank
CONGESTION: Final = 4 * 2**20
#: most connections to a listener that have not identified themselves
MAX_NEWCOMERS: Final = 128
_GREETING: Final = 5.0  # seconds within which a newcomer must identify itself
_FAREWELL: Final = 5.0  # seconds for a peer to close its end of a channel after FINI
_SEND_BUFFER: Final = 2**20  # bytes; the larger the buffer, the less often a slow rank wakes the launcher
_RANK: Final = struct.Struct(">I")
_HANDSHAKE: Final = b"\x16"  # first byte of a TLS handshake, and of no host rank
_FINI: Final = Packet(PacketType.FINI).pack()


class HostObserver(Protocol):
    """Receives messages and failures of a host."""

    def say(self, text: str) -> None:
        """Print a message for the user."""

    def fail(self, reason: str) -> None:
        """End the job, which cannot go on."""


class _Newcomer:
    """A connection that has not identified itself (protocol `aiompi_launcher.net.listen.Newcomer`).

    Args:
        address: of its peer, empty for a Unix socket.
        newcomers: the newcomers of the same listener.
        reports: gets the reason if it is dropped.

    Attributes:
        heard: True once it has sent a byte.
    """

    def __init__(
        self, sock: socket.socket, address: str, newcomers: dict[_Newcomer, None], reports: StrangerReports
    ) -> None:
        self.socket = sock
        self.address = address
        self.source = source_of((address,)) if address else ""
        self.since = time.monotonic()
        self.task: asyncio.Task[None]
        self.heard = False
        self._newcomers = newcomers
        self._reports = reports
        newcomers[self] = None

    async def receive(self, nbytes: int) -> bytes:
        """Receive up to `nbytes`; none at the end of the connection."""
        data = await _when_ready(self.socket, lambda: self.socket.recv(nbytes))
        self.heard = self.heard or bool(data)
        return data

    def is_silent(self) -> bool:
        return not self.heard and not has_unread(self.socket)

    def drop(self, reason: str) -> None:
        self.task.cancel()
        self.forget()
        self.report(reason)

    def forget(self) -> None:
        """Note that it has identified itself, or was dropped."""
        self._newcomers.pop(self, None)

    def report(self, reason: str) -> None:
        """Report why it was dropped."""
        self._reports.report(f"dropped a connection from {self.address or 'this machine'} to the IMPI host: {reason}")


class HostAgent:
    """One host with its channels to other hosts and its links to ranks.

    Args:
        universe: the job.
        rank: host rank.
        listener: socket to which hosts of other clients connect; closed once all have.
        observer: receives messages and failures.
        settings: select the encrypted channels and their certificates, and say whether hosts may connect from addresses
            that they have not published.
        credentials: authentication methods that the user enabled.
        heartbeat: seconds after which the machine of another host counts as cut off; 0 for never.
    """

    def __init__(
        self,
        universe: Universe,
        rank: int,
        listener: socket.socket,
        observer: HostObserver,
        *,
        settings: Settings,
        credentials: Credentials,
        heartbeat: float = 0.0,
    ) -> None:
        self._core = Host(universe, rank)
        self._universe = universe
        self._listener = listener
        self._observer = observer
        self._settings = settings
        self._credentials = credentials
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        self._channels: dict[int, PacketStream] = {}
        self._links: dict[int, PacketStream] = {}
        self._silent: set[int] = set()  # ranks that have sent FINI
        self._gone: set[int] = set()  # ranks whose link has ended
        self._early: dict[int, list[list[Chunk]]] = {}  # packets for ranks that have not connected yet
        self._held: dict[int, list[PacketStream]] = {}  # paused links by the channel that they wait for
        self._strangers = StrangerReports(observer.say)
        self._new_ranks: dict[_Newcomer, None] = {}  # a set in order
        self._new_hosts: dict[_Newcomer, None] = {}
        self._accept_loops: list[AcceptLoop] = []
        self._changed = asyncio.Event()
        self._error = ""

    def serve(self, listener: socket.socket, key: bytes) -> None:
        """Accept ranks.

        Args:
            listener: Unix socket to which they connect.
            key: of the job; each rank must prove its `hello.rank_key`, which is derived from the key.
        """
        self._enter(listener, self._new_ranks, lambda newcomer: self._greet_rank(newcomer, key))

    # Connecting the hosts (section 2.3.8).

    async def connect(self, timeout: float) -> None:
        """Connect with all hosts of other clients, to the lower ones first.

        Args:
            timeout: seconds for all connections.

        Raises:
            RendezvousError: a connection was not possible.
        """
        core = self._core
        try:
            async with asyncio.timeout(timeout):
                for rank in core.dials:
                    await self._dial(rank)
                if core.awaited:
                    with contextlib.closing(self._enter(self._listener, self._new_hosts, self._greet_host)):
                        await self._until(lambda: not core.awaited)
        except TimeoutError:
            missing = [rank for rank, state in core.channels.items() if state is ChannelState.AWAITED]
            names = ", ".join(map(core.name, missing))
            raise RendezvousError(f"no connection with {names} within {timeout:g} s") from None
        finally:
            self._listener.close()
            for newcomer in self._new_hosts:
                newcomer.task.cancel()

    async def _dial(self, rank: int) -> None:
        port = self._universe.hosts[rank].port
        try:
            sock = await self._reach(rank)
        except (OSError, MPIError) as error:
            cause = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
            raise RendezvousError(f"{self._core.name(rank)}, port {port}: {cause}") from None
        self._open_channel(rank, sock)

    async def _reach(self, rank: int) -> socket.socket:
        address, port = self._universe.hosts[rank].address, self._universe.hosts[rank].port
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            # Other hosts may check that this host connects from its published address.
            sock.bind((self._universe.hosts[self._core.rank].address, 0))
            await self._loop.sock_connect(sock, (address, port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._encrypts(rank):
                sock = await self._secure(sock, server=False)
            sock.sendall(_RANK.pack(self._core.rank))  # a new connection has room for it
        except BaseException:
            sock.close()
            raise
        return sock

    def _encrypts(self, rank: int) -> bool:
        """Return True if the channel to a host must be encrypted: both clients have announced this to their server.

        Raises:
            RemoteProtocolError: the settings require it, and the other client cannot encrypt.
        """
        universe = self._universe
        clients = [universe.clients[universe.hosts[each].client] for each in (rank, self._core.rank)]
        able = all(TLS_VERSION in client.versions for client in clients)
        if not able and self._settings.tls == "on":
            raise RemoteProtocolError(f"{self._core.name(rank)} does not encrypt its channels, and AIOMPI_TLS=on")
        return able

    async def _secure(self, sock: socket.socket, *, server: bool) -> SecureSocket:
        """Return a connection over TLS, on which both hosts have proven the key, in place of an unused one."""
        from aiompi.net import tls  # most jobs do not need it

        secured = tls.secure(sock, server, self._settings)
        try:
            await _when_ready(secured, secured.do_handshake)
            binding = tls.binding(secured)
            own, other = (b"acceptor", b"connector") if server else (b"connector", b"acceptor")
            if not server:
                secured.send(self._credentials.proof(own, binding))
            proof = await _when_ready(secured, lambda: secured.recv(auth.PROOF_BYTES))
            if not self._credentials.is_proof(proof, other, binding):
                raise AuthenticationError("it could not prove that it has IMPI_AUTH_KEY")
            if server:
                secured.send(self._credentials.proof(own, binding))
            return secured
        except BaseException as error:
            secured.close()
            if isinstance(error, OSError):
                raise RemoteProtocolError(tls.explain(error)) from None
            raise

    async def _greet_host(self, newcomer: _Newcomer) -> None:
        newcomer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await readable(newcomer.socket)
        encrypted = newcomer.socket.recv(1, socket.MSG_PEEK) == _HANDSHAKE
        if encrypted:
            if not self._credentials.encrypts:
                raise RemoteProtocolError("it began a TLS handshake: AIOMPI_TLS must suit on all hosts")
            newcomer.socket = await self._secure(newcomer.socket, server=True)
        data = b""
        while len(data) < _RANK.size:
            piece = await newcomer.receive(_RANK.size - len(data))
            if not piece:
                raise RemoteProtocolError("it closed the connection without its host rank")
            data += piece
        (rank,) = _RANK.unpack(data)
        published = self._core.admit(rank, newcomer.address)
        if not encrypted and self._encrypts(rank):
            raise RemoteProtocolError(f"host {rank} did not encrypt its channel: AIOMPI_TLS must suit on all hosts")
        if published and not self._settings.impi_any_source:
            raise RemoteProtocolError(
                f"host {rank} should connect from the address that it has published, {published}; "
                "AIOMPI_IMPI_ANY_SOURCE=1 accepts it nevertheless"
            )
        self._open_channel(rank, newcomer.socket)

    def _open_channel(self, rank: int, sock: socket.socket) -> None:
        liveness.keep_alive(sock, self._heartbeat)
        self._core.connected(rank)
        splitter = PacketSplitter(
            self._universe.datalen, lambda packet, chunks: self._from_channel(rank, packet, chunks), self._place
        )
        self._channels[rank] = stream = PacketStream(sock, splitter, lambda error: self._channel_ended(rank, error))
        stream.on_drained = lambda: self._release(rank)
        if self._heartbeat:
            self._look(rank, sock)
        self._changed.set()

    def _look(self, rank: int, sock: socket.socket) -> None:
        """Look from time to time whether the machine of another host answers."""
        if rank not in self._channels:
            return
        if liveness.is_cut_off(sock, self._heartbeat):
            self._fail(f"{self._core.name(rank)} did not answer for {self._heartbeat:g} s (AIOMPI_HEARTBEAT)")
        else:
            self._loop.call_later(self._heartbeat / liveness.LOOKS, self._look, rank, sock)

    # Newcomers on both listeners.

    def _enter(
        self,
        listener: socket.socket,
        newcomers: dict[_Newcomer, None],
        greet: Callable[[_Newcomer], Coroutine[Any, Any, None]],
    ) -> AcceptLoop:
        def admit(sock: socket.socket, peer: Any) -> None:
            newcomer = _Newcomer(sock, peer[0] if isinstance(peer, tuple) else "", newcomers, self._strangers)
            newcomer.task = self._loop.create_task(self._greet(newcomer, greet))
            newcomer.task.add_done_callback(lambda _: self._greeted(newcomer))

        self._accept_loops.append(AcceptLoop(listener, admit, lambda: newcomers, MAX_NEWCOMERS))
        return self._accept_loops[-1]

    async def _greet(self, newcomer: _Newcomer, greet: Callable[[_Newcomer], Coroutine[Any, Any, None]]) -> None:
        try:
            async with asyncio.timeout(_GREETING):
                await greet(newcomer)
        except (OSError, MPIError) as error:
            newcomer.socket.close()
            newcomer.report("it did not identify itself in time" if isinstance(error, TimeoutError) else str(error))
        except BaseException:
            newcomer.socket.close()
            raise

    def _greeted(self, newcomer: _Newcomer) -> None:
        newcomer.forget()
        if newcomer.task.cancelled():
            newcomer.socket.close()  # also if it was dropped before its task began
        self._changed.set()
        rethrow(newcomer.task)

    async def _greet_rank(self, newcomer: _Newcomer, key: bytes) -> None:
        sock = newcomer.socket
        handshake = hello.Acceptor.alone(
            key,
            role=hello.ROLE_HOST,
            rank=hello.RANK_AGENT,
            channel=channel_of(sock, self._settings),
            launched=True,
        )
        greeter = Greeter(sock, handshake, self._settings)
        while not greeter.advance():
            await readable(sock)
            newcomer.heard = True
        shared = await self._take_memory(sock)
        rank = handshake.peer_rank
        if rank not in self._core.procs or rank in self._links or rank in self._gone:
            raise RemoteProtocolError(f"it says that it is rank {rank}, which does not connect to this host")
        self._open_link(rank, sock, shared)

    async def _take_memory(self, sock: socket.socket) -> SharedPackets | None:
        """Receive the memory for long packets that a rank passes, if any."""
        datalen = self._universe.datalen
        if not slots.nbytes(datalen):
            return None
        await readable(sock)
        data, descriptors, _, _ = socket.recv_fds(sock, 1, 1)
        try:
            if data == slots.SHARED and descriptors:
                return SharedPackets(memory.accept(descriptors[0], slots.nbytes(datalen)), datalen, rank=False)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if data != slots.NOT_SHARED:
            raise RemoteProtocolError("it did not say whether it has memory for long packets")
        return None

    def _open_link(self, rank: int, sock: socket.socket, shared: SharedPackets | None) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        splitter = PacketSplitter(
            self._universe.datalen,
            lambda packet, chunks: self._from_rank(rank, packet, chunks),
            slots=None if shared is None else shared.inbound,
        )
        self._links[rank] = stream = PacketStream(sock, splitter, lambda error: self._link_ended(rank, error), shared)
        for chunks in self._early.pop(rank, ()):
            stream.send(chunks)

    # Traffic.

    def _from_rank(self, rank: int, packet: Packet, chunks: list[Chunk]) -> None:
        if packet.pk_type == PacketType.FINI:
            discard(chunks)
            self._silent.add(rank)
            self._changed.set()
            return
        peer = self._core.outgoing(packet, rank)
        channel = self._channels.get(peer)
        if channel is None:  # the channel has ended; `_channel_ended` reports it if this was an error
            discard(chunks)
            return
        channel.send(chunks)
        if channel.backlog > CONGESTION:
            self._links[rank].pause()
            self._held.setdefault(peer, []).append(self._links[rank])

    def _release(self, peer: int) -> None:
        for link in self._held.pop(peer, ()):
            link.resume()

    def _from_channel(self, peer: int, packet: Packet, chunks: list[Chunk]) -> None:
        if packet.pk_type == PacketType.FINI:
            discard(chunks)
            self._core.hear_fini(peer)
            self._check_channel(peer)
            return
        rank = self._core.incoming(packet, peer)
        link = self._links.get(rank)
        if link is not None:
            link.send(chunks)
        elif rank in self._gone:
            discard(chunks)
            self._acknowledge(rank)
        else:
            self._early.setdefault(rank, []).append(copied(chunks))

    def _place(self, packet: Packet) -> Slot | None:
        """Return a slot of the rank to which a long packet goes, or None."""
        rank = self._core.addressee(packet)
        link = None if rank is None else self._links.get(rank)
        return None if link is None else link.slot()

    def _acknowledge(self, rank: int) -> None:
        for peer, ack in self._core.overdue(rank):
            if peer in self._channels:
                self._channels[peer].send([Chunk(ack)])

    def _link_ended(self, rank: int, error: Exception | None) -> None:
        del self._links[rank]
        self._gone.add(rank)
        if isinstance(error, RemoteProtocolError):
            self._fail(f"rank {rank} broke the protocol towards its IMPI host: {error}")
        self._acknowledge(rank)
        self._changed.set()

    def _channel_ended(self, peer: int, error: Exception | None) -> None:
        del self._channels[peer]
        self._release(peer)
        in_order = self._core.ended(peer)
        name = self._core.name(peer)
        if isinstance(error, RemoteProtocolError):
            self._fail(f"{name} broke the protocol: {error}")
        elif not in_order:
            cause = liveness.describe(error) if isinstance(error, OSError) else "it closed the connection without FINI"
            self._fail(f"{name} has died: {cause}")
        self._changed.set()

    def _fail(self, reason: str) -> None:
        self._error = self._error or reason
        self._changed.set()
        self._observer.fail(reason)

    # The end (section 2.4).

    async def finish(self) -> None:
        """Send FINI once all ranks have, and wait for FINI of the other hosts.

        Raises:
            RendezvousError: a host has died before.
        """
        procs = self._core.procs
        await self._until(lambda: not self._new_ranks and all(r not in self._links or r in self._silent for r in procs))
        for peer in self._core.say_fini():
            self._channels[peer].send([Chunk(_FINI)])
            self._check_channel(peer)
        await self._until(lambda: self._core.closed)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await self._until(lambda: not self._channels)

    def _check_channel(self, peer: int) -> None:
        if self._core.channels[peer] is ChannelState.CLOSED:
            self._channels[peer].shut_down()
        self._changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not self._error and not condition():
            self._changed.clear()
            await self._changed.wait()
        if self._error:
            raise RendezvousError(self._error)

    def close(self) -> None:
        """Close everything at once; without `finish` before, the other hosts report a failure."""
        for newcomer in (*self._new_ranks, *self._new_hosts):
            newcomer.task.cancel()
        for stream in (*self._links.values(), *self._channels.values()):
            stream.close()
        for accept_loop in self._accept_loops:
            accept_loop.close()
        self._listener.close()
        self._strangers.close()


async def _when_ready(sock: socket.socket, call: Callable[[], _T]) -> _T:
    """Wait until a call on a socket does not block, and return its result."""
    while True:
        try:
            return call()
        except BlockingIOError:
            await readable(sock)


async def readable(sock: socket.socket) -> None:
    """Wait until a socket is readable or has ended."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)
