"""Makes the processes of a process manager the ranks of one job.

Rank 0 listens and starts the agent of the job, which inherits the socket. The store of the process manager carries the
address of the socket and the key to the other processes. A Diffie-Hellman exchange between each process and its parent
in a tree encrypts the key. Each process then connects to the agent and proves that it has the key.

    rank 0                        store                                others
    listen, start the agent
    public half, address     -->                                 <--   public half
    fence                                                              fence
    key sealed for children  -->  for each level of the tree     -->   open it, seal it for the own children
    hello to the agent                                                 hello to the agent
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sys
import time
from abc import abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from aiompi.errors import InvalidArgumentError, JobAbortedError, RemoteProtocolError
from aiompi.impi.key_exchange import KeyExchange
from aiompi.job.bootstrap.manager import Place, ProcessManager
from aiompi.net import interfaces
from aiompi.net.handshake import Greeter, protection_of
from aiompi.settings import Settings
from aiompi.wire import liveness, version
from aiompi.wire.hello import RANK_AGENT, ROLE_CONTROL, Connector, new_key

#: number of processes for which one process encrypts the key; each takes some milliseconds
_FANOUT: Final = 32
#: descriptor by which the shell gets the standard input of the agent; one digit, and unused at the start of the agent
_SPEC: Final = 9
#: most addresses of rank 0 in the store, because a value of PMI has 1023 bytes
_ADDRESSES: Final = 16
#: seconds for a TCP connection to one address, and between attempts
_DIAL: Final = 5.0
_PAUSE: Final = (0.02, 1.0)


class Store(ProcessManager):
    """A process manager with a key-value store, through which the processes exchange addresses and keys."""

    def meet(self, settings: Settings) -> Place:
        key, where = b"", ""
        if self.rank == 0:
            key = new_key()
            listener = listen(settings, settings.ports)
            where = json.dumps([*version.own, published(listener), listener.getsockname()[1]], separators=(",", ":"))
            start_agent(listener, key, self.size, settings)
        where, key = _share(self, where, key)
        hosts, port = self._introduced(where)
        return Place(self, key, connect(hosts, port, key, self.rank, settings, settings.connect_timeout))

    def _introduced(self, where: str) -> tuple[list[str], int]:
        """Return the addresses and the port of the agent, which rank 0 has put into the store.

        Raises:
            JobAbortedError: rank 0 has another version of aiompi.
        """
        protocol, release, *address = json.loads(where)
        try:
            version.own.refuse(version.Release(protocol, release))
        except version.OtherVersionError as error:
            raise JobAbortedError(f"rank {self.rank} refuses rank 0: {error}") from None
        hosts, port = address
        return hosts, port

    @abstractmethod
    def put(self, key: str, value: str) -> None:
        """Store a value, which other processes can get after the next fence.

        Args:
            key: at most 32 letters, digits, dots and hyphens.
            value: at most 1023 characters: these, and colons, commas and brackets.
        """

    @abstractmethod
    def get(self, key: str, rank: int) -> str:
        """Return the value that a rank has put before the last fence."""

    @abstractmethod
    def fence(self) -> None:
        """Wait until all processes call this."""


def _share(store: Store, where: str, key: bytes) -> tuple[str, bytes]:
    """Send the address of the agent in clear, and the key encrypted, from rank 0 to all others."""
    rank, parent = store.rank, (store.rank - 1) // _FANOUT
    children = range(_FANOUT * rank + 1, min(_FANOUT * (rank + 1) + 1, store.size))
    exchange = KeyExchange(1)
    store.put(f"aiompi-public-{rank}", exchange.public.hex())
    if rank == 0:
        store.put("aiompi-agent", where)
    store.fence()
    where = where or store.get("aiompi-agent", 0)
    for level in range(_level(store.size - 1)):
        if level == _level(rank):
            for child in children:
                public = bytes.fromhex(store.get(f"aiompi-public-{child}", child))
                store.put(f"aiompi-key-{child}", exchange.seal(key, {0: public}).hex())
        store.fence()
        if level + 1 == _level(rank):
            sealed = bytes.fromhex(store.get(f"aiompi-key-{rank}", parent))
            public = bytes.fromhex(store.get(f"aiompi-public-{parent}", parent))
            key = exchange.open(sealed, {0: public, 1: exchange.public})
    return where, key


def _level(rank: int) -> int:
    level = 0
    while rank > 0:
        rank, level = (rank - 1) // _FANOUT, level + 1
    return level


def listen(settings: Settings, ports: Sequence[int]) -> socket.socket:
    """Return a socket that listens on the first of these ports that is free.

    The socket listens on the address of the setting `bind`, or else on the first address of `interface`, or else on all
    addresses.

    Raises:
        InvalidArgumentError: the socket cannot listen on this address.
    """
    bind = settings.bind or (interfaces.select(settings.interface)[0] if settings.interface else "0.0.0.0")
    if (
        bind in interfaces.LOOPBACK
        and not settings.bind
        and all(":" in address or interfaces.is_loopback(address) for _, address in interfaces.own_addresses())
    ):
        bind = "::"  # takes connections of IPv4 as well
    try:
        family, _, _, _, address = socket.getaddrinfo(interfaces.encoded(bind), 0, type=socket.SOCK_STREAM)[0]
        return interfaces.listen(family, address, ports)
    except OSError as error:
        raise InvalidArgumentError(f"rank 0 cannot listen at {bind!r}: {error.strerror}") from None


def published(listener: socket.socket) -> list[str]:
    """Return the numeric addresses by which other processes may reach a listening socket."""
    own: str = listener.getsockname()[0]
    if own not in interfaces.LOOPBACK:
        return [own]
    return list(interfaces.published(own))[:_ADDRESSES]


def start_agent(
    listener: socket.socket,
    key: bytes,
    size: int,
    settings: Settings,
    credential_listener: socket.socket | None = None,
    credential: str = "",
) -> None:
    """Start the agent process of the job, which ends with the job, and close this process's copies of its sockets.

    The agent is a separate process, because it must work while rank 0 computes, and must end the job when rank 0 is
    killed. The agent has its own session, so that signals of the terminal reach only the ranks. The agent is not a
    child of this process, because the program may wait for any child (`os.wait`). The agent prints errors on the
    standard error of rank 0.

    Args:
        listener: socket at which ranks join.
        key: of the job.
        size: number of ranks.
        settings: of rank 0.
        credential_listener: socket at which the agent sends a credential of munge to every process that connects.
        credential: the credential.
    """
    sockets = [listener] if credential_listener is None else [listener, credential_listener]
    descriptors = [fcntl.fcntl(sock, fcntl.F_DUPFD, _SPEC + 1) for sock in sockets]
    for sock in sockets:
        sock.close()
    job = {
        "listener": descriptors[0],
        "credential_listener": None if credential_listener is None else descriptors[1],
        "credential": credential,
        "key": key.hex(),
        "size": size,
        "on_failure": settings.on_failure or "abort",
        "start_timeout": settings.start_timeout,
        "heartbeat": settings.heartbeat,
    }
    _spawn(json.dumps(job).encode() + b"\n")
    for descriptor in descriptors:
        os.close(descriptor)


def _spawn(job: bytes) -> None:
    """Start the process of an agent, with `job` on its standard input."""
    reader, writer = os.pipe()
    roots = [os.path.dirname(os.path.dirname(spec.origin)) for spec in map(find_spec, ("aiompi", "aiompi_launcher"))
             if spec is not None and spec.origin]  # fmt: skip
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AIOMPI_KEY")}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*roots, environ.get("PYTHONPATH")]))
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", f'"$@" <&{_SPEC} {_SPEC}<&- &', "sh", sys.executable, "-m", "aiompi_launcher.engine_agent"],
        environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, reader, _SPEC),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ],
        setsid=True,
    )
    os.waitpid(pid, 0)
    os.close(reader)
    os.write(writer, job)  # the pipe closes when this process ends, in whatever way


def connect(hosts: list[str], port: int, key: bytes, rank: int, settings: Settings, timeout: float) -> socket.socket:
    """Return a connection to the agent on which both sides have proven the key.

    Args:
        hosts: addresses or names of the agent's machine, which are tried in turn, repeatedly.
        port: port at which the agent listens.
        key: of the job.
        rank: of this process.
        settings: say how connections are encrypted.
        timeout: seconds within which a connection must be made. The agent may take longer to answer.

    Raises:
        JobAbortedError: the agent cannot be reached, or has another key.
    """
    where = f"{', '.join(hosts)} port {port}"
    deadline, pause = time.monotonic() + timeout, _PAUSE[0]
    causes: dict[str, str] = {}
    while True:
        for host in hosts:
            try:
                sock = socket.create_connection((interfaces.encoded(host), port), _DIAL)
            except OSError as error:
                causes[host] = f"{host}: {error.strerror or error}"
                continue
            channel = protection_of(sock, settings)
            handshake = Connector(key, role=ROLE_CONTROL, rank=rank, target=RANK_AGENT, channel=channel)
            greeter = Greeter(sock, handshake, settings)
            try:
                silence = round(liveness.interval(settings.heartbeat)) or liveness.LONG_SILENCE
                return _greet(greeter, silence, settings.start_timeout)
            except (OSError, RemoteProtocolError) as error:
                greeter.socket.close()
                if greeter.silent:  # for example a proxy in front of an agent that has not started yet
                    causes[host] = f"{host}: {error}"
                    continue
                raise JobAbortedError(
                    f"rank {rank}: the agent of rank 0 at {where} refuses this process: {error}"
                ) from None
        if time.monotonic() > deadline:
            text = "; ".join(causes.values())
            raise JobAbortedError(f"rank {rank} cannot reach rank 0 at {where} within {timeout:g} s: {text}")
        time.sleep(pause)
        pause = min(2 * pause, _PAUSE[1])


def _greet(greeter: Greeter, silence: int, timeout: float) -> socket.socket:
    """Perform the hello. `timeout` limits the whole hello, not each read: a stranger could send one byte at a time."""
    liveness.end_if_silent(greeter.socket, silence)
    greeter.socket.settimeout(0)
    readable, deadline = select.poll(), time.monotonic() + timeout
    readable.register(greeter.socket, select.POLLIN)
    while not greeter.advance():
        if not readable.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            raise TimeoutError(f"it has not proven the key within {timeout:g} s")
    greeter.socket.settimeout(None)
    return greeter.socket
