"""How an IMPI host and another host, or a rank, introduce themselves to each other over a new connection."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import TYPE_CHECKING, Final

from aiompi.errors import AuthenticationError, RemoteProtocolError
from aiompi.impi import auth, slots
from aiompi.impi.auth import Credentials
from aiompi.impi.host import Host
from aiompi.impi.label import TLS_VERSION
from aiompi.impi.slots import SharedPackets
from aiompi.impi.universe import Universe
from aiompi.net.handshake import Greeter, protection_of
from aiompi.settings import Settings
from aiompi.wire import hello, memory
from aiompi_launcher.impi.newcomers import ImpiNewcomer, readable, when_ready

if TYPE_CHECKING:
    from aiompi.net.tls import SecureSocket

_RANK: Final = struct.Struct(">I")
_HANDSHAKE: Final = b"\x16"  # first byte of a TLS handshake, and of no host rank


class HostIntroduction:
    """Introduces a host and a host of another client to each other (section 2.3.8).

    Args:
        core: state of the host.
        universe: the job.
        settings: say which channels are encrypted, with which certificates, and whether hosts may connect from
            addresses that they have not published.
        credentials: authentication methods that the user enabled.
    """

    def __init__(self, core: Host, universe: Universe, settings: Settings, credentials: Credentials) -> None:
        self._core = core
        self._universe = universe
        self._settings = settings
        self._credentials = credentials

    async def reach(self, rank: int) -> socket.socket:
        """Connect to a host, and tell it the rank of this host; return the connection.

        Raises:
            OSError: the host cannot be reached.
            MPIError: the connection cannot be encrypted as both hosts want.
        """
        address, port = self._universe.hosts[rank].address, self._universe.hosts[rank].port
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.settimeout(0)
            # Other hosts may check that this host connects from its published address.
            sock.bind((self._universe.hosts[self._core.rank].address, 0))
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._encrypts(rank):
                sock = await self._secure(sock, server=False)
            sock.sendall(_RANK.pack(self._core.rank))  # a new connection has room for it
        except BaseException:
            sock.close()
            raise
        return sock

    def _encrypts(self, rank: int) -> bool:
        """Return True if the channel to a host must be encrypted, as both clients have announced to the server.

        Raises:
            RemoteProtocolError: the settings require encryption, and the other client cannot encrypt.
        """
        universe = self._universe
        clients = [universe.clients[universe.hosts[each].client] for each in (rank, self._core.rank)]
        able = all(TLS_VERSION in client.versions for client in clients)
        if not able and self._settings.tls == "on":
            raise RemoteProtocolError(f"{self._core.name(rank)} does not encrypt its channels, and AIOMPI_TLS=on")
        return able

    async def _secure(self, sock: socket.socket, *, server: bool) -> SecureSocket:
        """Encrypt a connection that has carried no data; return it encrypted, once both hosts have proven the key."""
        from aiompi.net import tls  # most jobs do not need it

        secured = tls.secure(sock, server, self._settings)
        try:
            await when_ready(secured, secured.do_handshake)
            binding = tls.binding(secured)
            own, other = (b"acceptor", b"connector") if server else (b"connector", b"acceptor")
            if not server:
                secured.send(self._credentials.proof(own, binding))
            proof = await when_ready(secured, lambda: secured.recv(auth.PROOF_BYTES))
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

    async def greet(self, newcomer: ImpiNewcomer) -> int:
        """Receive the host rank that a connecting host sends, after a TLS handshake if it begins one; return the rank.

        Raises:
            OSError: the connection has failed.
            MPIError: the host is none of the awaited hosts, or the connection breaks the protocol.
        """
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
        host_rank: int = rank
        return host_rank


async def greet_rank(
    newcomer: ImpiNewcomer, key: bytes, settings: Settings, datalen: int
) -> tuple[int, SharedPackets | None]:
    """Let a connection prove that it is a rank.

    Args:
        newcomer: the connection.
        key: of the job; the rank must prove its `hello.rank_key`, which is derived from the key.
        settings: say how the connection is encrypted.
        datalen: most bytes of data in a packet.

    Returns:
        The rank, and its memory for long packets (None if it has no such memory).

    Raises:
        OSError: the connection has failed.
        MPIError: the rank does not have the key, or breaks the protocol.
    """
    sock = newcomer.socket
    handshake = hello.Acceptor.alone(
        key, role=hello.ROLE_HOST, rank=hello.RANK_AGENT, channel=protection_of(sock, settings), launched=True
    )
    greeter = Greeter(sock, handshake, settings)
    while not greeter.advance():
        await readable(sock)
        newcomer.heard = True
    return handshake.peer_rank, await _take_memory(sock, datalen)


async def _take_memory(sock: socket.socket, datalen: int) -> SharedPackets | None:
    """Receive the memory for long packets that a rank passes, if any."""
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
