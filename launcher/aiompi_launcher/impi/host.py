"""An IMPI host in the launcher: its sockets around `aiompi.impi.host`.

Ranks connect over a Unix socket, prove the key of the job, pass memory for long packets, and then exchange packets in
the format that hosts use among themselves. Hosts of other clients connect over TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
from collections.abc import Callable
from typing import Final, Protocol

from aiompi.errors import MPIError, RemoteProtocolError
from aiompi.impi.auth import Credentials
from aiompi.impi.host import ChannelState, Host
from aiompi.impi.packet import Packet, PacketType
from aiompi.impi.slots import SharedPackets, Slot
from aiompi.impi.universe import Universe
from aiompi.settings import Settings
from aiompi.wire import liveness
from aiompi_launcher.impi.buffers import Chunk, copied, discard
from aiompi_launcher.impi.introductions import HostIntroduction, greet_rank
from aiompi_launcher.impi.newcomers import ImpiNewcomer, Newcomers
from aiompi_launcher.impi.splitter import PacketSplitter
from aiompi_launcher.impi.stream import PacketStream
from aiompi_launcher.job.rendezvous import RendezvousError
from aiompi_launcher.net.listen import StrangerReports

#: bytes that may wait for a channel before the host stops reading from the rank that sends them
CONGESTION: Final = 4 * 2**20
_FAREWELL: Final = 5.0  # seconds for a peer to close its end of a channel after FINI
_SEND_BUFFER: Final = 2**20  # bytes; the larger the buffer, the less often a slow rank wakes the launcher
_FINI: Final = Packet(PacketType.FINI).pack()


class HostObserver(Protocol):
    """Receives messages and failures of a host."""

    def say(self, text: str) -> None:
        """Print a message for the user."""

    def fail(self, reason: str) -> None:
        """End the job, which cannot go on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostContext:
    """The properties of the job that the hosts use.

    Attributes:
        directory: directory for the sockets to which the ranks of the hosts connect.
        key: key that the ranks prove.
        observer: receives messages and failures.
        heartbeat: seconds after which the machine of another host counts as cut off; 0 for never.
        credentials: authentication methods that the user enabled.
    """

    directory: str
    key: bytes
    observer: HostObserver
    heartbeat: float = 0.0
    credentials: Credentials = dataclasses.field(default_factory=Credentials)


class HostAgent:
    """One host with its channels to other hosts and its links to ranks.

    Args:
        universe: the job.
        rank: host rank.
        listener: socket to which hosts of other clients connect; closed once all of them have connected.
        settings: say which channels are encrypted, with which certificates, and whether hosts may connect from
            addresses that they have not published.
        context: properties of the job.
    """

    def __init__(
        self, universe: Universe, rank: int, listener: socket.socket, settings: Settings, context: HostContext
    ) -> None:
        self._core = Host(universe, rank)
        self._introduction = HostIntroduction(self._core, universe, settings, context.credentials)
        self._universe = universe
        self._listener = listener
        self._observer = context.observer
        self._settings = settings
        self._heartbeat = context.heartbeat
        self._loop = asyncio.get_running_loop()
        self._channels: dict[int, PacketStream] = {}
        self._links: dict[int, PacketStream] = {}
        self._silent: set[int] = set()  # ranks that have sent FINI
        self._gone: set[int] = set()  # ranks whose link has ended
        self._early: dict[int, list[list[Chunk]]] = {}  # packets for ranks that have not connected yet
        self._held: dict[int, list[PacketStream]] = {}  # paused links by the channel that they wait for
        self._strangers = StrangerReports(context.observer.say)
        self._new_ranks: Newcomers | None = None
        self._new_hosts: Newcomers | None = None
        self._changed = asyncio.Event()
        self._error = ""

    def serve(self, listener: socket.socket, key: bytes) -> None:
        """Accept ranks.

        Args:
            listener: Unix socket to which the ranks connect.
            key: key of the job; each rank must prove its `hello.rank_key`, which is derived from this key.
        """
        self._new_ranks = Newcomers(
            listener, lambda newcomer: self._greet_rank(newcomer, key), self._strangers, self._changed.set
        )

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
                    self._new_hosts = Newcomers(self._listener, self._greet_host, self._strangers, self._changed.set)
                    with contextlib.closing(self._new_hosts):
                        await self._until(lambda: not core.awaited)
        except TimeoutError:
            missing = [rank for rank, state in core.channels.items() if state is ChannelState.AWAITED]
            names = ", ".join(map(core.name, missing))
            raise RendezvousError(f"no connection with {names} within {timeout:g} s") from None
        finally:
            self._listener.close()
            if self._new_hosts is not None:
                self._new_hosts.cancel()

    async def _dial(self, rank: int) -> None:
        port = self._universe.hosts[rank].port
        try:
            sock = await self._introduction.reach(rank)
        except (OSError, MPIError) as error:
            cause = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
            raise RendezvousError(f"{self._core.name(rank)}, port {port}: {cause}") from None
        self._open_channel(rank, sock)

    async def _greet_host(self, newcomer: ImpiNewcomer) -> None:
        rank = await self._introduction.greet(newcomer)
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

    # Connecting the ranks.

    async def _greet_rank(self, newcomer: ImpiNewcomer, key: bytes) -> None:
        rank, shared = await greet_rank(newcomer, key, self._settings, self._universe.datalen)
        if rank not in self._core.procs or rank in self._links or rank in self._gone:
            raise RemoteProtocolError(f"it says that it is rank {rank}, which does not connect to this host")
        self._open_link(rank, newcomer.socket, shared)

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
        """Return a slot of the rank to which a long packet goes; None if there is no slot."""
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
        """Send FINI once all ranks have sent FINI, and wait for FINI of the other hosts.

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
        """Close everything at once; if `finish` has not been called before, the other hosts report a failure."""
        for newcomers in (self._new_ranks, self._new_hosts):
            if newcomers is not None:
                newcomers.cancel()
                newcomers.close()
        for stream in (*self._links.values(), *self._channels.values()):
            stream.close()
        self._listener.close()
        self._strangers.close()
