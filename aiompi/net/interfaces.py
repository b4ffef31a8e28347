"""Addresses of this host, and listening sockets. Ranks and the launcher use this module.

Addresses are numbers everywhere. No function asks a name server about this host.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aiompi.errors import InvalidArgumentError

#: maximum of connections that wait to be accepted
BACKLOG: Final = 4096
#: wildcard addresses -> loopback addresses; a socket can listen on a wildcard address, and cannot connect to it
LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: process, user, group


def loopback() -> str:
    """Return the loopback address of this machine: the IPv4 address, or the IPv6 address if there is no IPv4."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((LOOPBACK["0.0.0.0"], 0))
    except OSError:
        return LOOPBACK["::"]
    return LOOPBACK["0.0.0.0"]


# Netlink: the message that asks for all addresses, and the numbers in its answers.
_RTM_GETADDR, _NLM_F_REQUEST_DUMP, _NLMSG_DONE = 22, 0x301, 3
_ASK: Final = struct.pack("=IHHIIBBBBi", 24, _RTM_GETADDR, _NLM_F_REQUEST_DUMP, 1, 0, socket.AF_UNSPEC, 0, 0, 0, 0)
_HEADER: Final = struct.Struct("=IHHII")
_ADDRESS: Final = struct.Struct("=BBBBI")  # family, bits of the network, flags, scope, number of the interface
_ATTRIBUTE: Final = struct.Struct("=HH")
_IFA_ADDRESS, _IFA_LOCAL, _SCOPE_LINK = 1, 2, 253


def own_addresses() -> list[tuple[str, str]]:
    """Return the configured interfaces of this host, as pairs of name and numeric address.

    Link-local addresses are left out, because another host would have to add the number of its own interface (scope
    id).
    """
    found: list[tuple[str, str]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as sock:
        sock.send(_ASK)
        done = False
        while not done:
            data = sock.recv(2**17)
            while data:
                nbytes, kind, *_ = _HEADER.unpack_from(data)
                done = done or kind == _NLMSG_DONE
                if not done:
                    found += _read_address(data[_HEADER.size : nbytes])
                data = data[(nbytes + 3) & ~3 :]
    return found


def encoded(host: str) -> Any:
    """Return a host name in the form for look-ups by `socket`.

    An ASCII name becomes bytes: for a `str`, `socket` imports the IDNA codec, which takes longer than the rest of a
    connection. A name with an empty or too long label stays a `str`, so that the codec reports the error.
    """
    valid = host.isascii() and all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))
    return host.encode() if valid else host


def own_address_towards(host: str, port: int) -> str:
    """Return the local address of this host in connections to the host `host`; empty if `host` cannot be resolved.

    The call resolves names, which takes time. It sends no data to the other host.
    """
    with contextlib.suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(encoded(host), port, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind) as sock, contextlib.suppress(OSError):
                sock.connect(address)
                return str(sock.getsockname()[0])
    return ""


def _read_address(message: bytes) -> Iterator[tuple[str, str]]:
    family, _, _, scope, index = _ADDRESS.unpack_from(message)
    attributes, rest = {}, message[_ADDRESS.size :]
    while len(rest) >= _ATTRIBUTE.size:
        nbytes, kind = _ATTRIBUTE.unpack_from(rest)
        attributes[kind] = rest[_ATTRIBUTE.size : nbytes]
        rest = rest[(nbytes + 3) & ~3 :]
    packed = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
    if family in (socket.AF_INET, socket.AF_INET6) and scope != _SCOPE_LINK and packed:
        with contextlib.suppress(OSError):  # the interface has just been removed
            yield socket.if_indextoname(index), socket.inet_ntop(family, packed)


def select(interface: str) -> tuple[str, ...]:
    """Return the addresses of this host that a list of interfaces selects, in the order of the list.

    Args:
        interface: names of interfaces, numeric addresses and networks, separated by commas: "ib0,10.0.0.0/8".

    Raises:
        InvalidArgumentError: this host has no such interface, or a network cannot be read.
    """
    own = own_addresses()
    chosen: dict[str, None] = {}
    for word in filter(None, map(str.strip, interface.split(","))):
        matching = [address for name, address in own if name == word] or [
            address for _, address in own if _is_in(address, word)
        ]
        chosen.update(dict.fromkeys(matching))
    if not chosen:
        have = ", ".join(f"{name} {address}" for name, address in own) or "none"
        raise InvalidArgumentError(
            f"this host has no interface {interface!r} (AIOMPI_INTERFACE, --interface); it has {have}"
        )
    return tuple(chosen)


def _is_in(address: str, network: str) -> bool:
    import ipaddress  # seldom needed

    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:  # the name of an interface that this host does not have
        return False


def published(wildcard: str) -> tuple[str, ...]:
    """Return the addresses by which other hosts may reach a socket of this host that listens on a wildcard address.

    The address that this host uses for connections to others comes first. Loopback is included only if there is no
    other.
    """
    family = socket.AF_INET if wildcard == "0.0.0.0" else socket.AF_INET6
    addresses: dict[str, None] = {}
    with socket.socket(family, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):  # there may be no route
        probe.connect(("192.0.2.1" if family == socket.AF_INET else "2001:db8::1", 9))  # sends nothing
        addresses[probe.getsockname()[0]] = None
    for _, address in own_addresses():
        if not is_loopback(address) and (family == socket.AF_INET6 or ":" not in address):
            addresses[address] = None
    return tuple(addresses) or (LOOPBACK[wildcard],)


def is_loopback(address: str) -> bool:
    """Return True for a numeric address that only this host can reach."""
    return plain(address).startswith("127.") or address == "::1"


def plain(address: str) -> str:
    """Return a numeric address without the prefix `::ffff:`, which IPv6 sockets add to the address of an IPv4 peer."""
    return address.removeprefix("::ffff:") if "." in address else address


def join_address(host: str, port: int) -> str:
    """Return `HOST:PORT`, or `[HOST]:PORT` for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def credentials(sock: socket.socket) -> tuple[int, int]:
    """Return the process id and the user id of the other end of a Unix socket, as the kernel reports them.

    The process id is that of the process that called `connect` or `listen`; 0 if this process is in another pid
    namespace.
    """
    process, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return process, user


def listen_unix(path: str) -> socket.socket:
    """Return a listening Unix socket.

    Raises:
        OSError: it cannot be created. The error names the path.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen(BACKLOG)
    except BaseException as error:
        listener.close()
        if isinstance(error, OSError):
            error.filename = path
        raise
    return listener


def listen(family: int, address: Any, ports: Sequence[int] = (0,)) -> socket.socket:
    """Return a TCP socket that listens on the first port that is free.

    Args:
        family: of the socket.
        address: as for `bind`; its port is not used.
        ports: to try; 0 is any free port.

    Raises:
        OSError: the address is of another host, no port is free, or the port is not permitted. The message names both.
    """
    for port in ports:
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:  # "::" takes connections of IPv4 as well, whatever net.ipv6.bindv6only says
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((address[0], port, *address[2:]))
            listener.listen(BACKLOG)
            return listener
        except BaseException as error:
            listener.close()
            if not isinstance(error, OSError):
                raise
            failure = error
            if error.errno != errno.EADDRINUSE:
                break
    several = f"-{ports[-1]}" if len(ports) > 1 and failure.errno == errno.EADDRINUSE else ""
    where = join_address(address[0], ports[0] if several else port) + several
    raise OSError(failure.errno, f"cannot listen on {where}: {os.strerror(failure.errno or 0)}")
