"""A simulated client: its start-up, its hosts, its end (sections 2.3 and 2.4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from aiompi_launcher.conformance.model.collective import barrier
from aiompi_launcher.conformance.model.comm import Comm
from aiompi_launcher.conformance.model.host import Host, Observer
from aiompi_launcher.conformance.model.universe import Joint, Universe, combine
from aiompi_launcher.conformance.wire import startup
from aiompi_launcher.conformance.wire.listener import Listener, settle
from aiompi_launcher.conformance.wire.packet import Packet
from aiompi_launcher.conformance.wire.startup import LABELS, command, submission


class ServerError(Exception):
    """The server has broken the IMPI protocol, or did not answer.

    Attributes:
        rule: of the specification.
        actual: the bytes that came.
    """

    def __init__(self, rule: str, text: str, actual: bytes = b"") -> None:
        super().__init__(text)
        self.rule = rule
        self.actual = actual


class ClientMischief(Protocol):
    """Base class of faults of a simulated client."""

    def words(self, step: str, data: bytes) -> bytes:
        """Return the bytes to send to the server instead of these."""

    def packets(self, packet: Packet) -> Iterable[Packet]: ...

    def has(self, quirk: str) -> bool: ...


class Honest:
    """A client without faults."""

    def words(self, step: str, data: bytes) -> bytes:
        return data

    def packets(self, packet: Packet) -> Iterable[Packet]:
        return (packet,)

    def has(self, quirk: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Part:
    """Properties of a simulated client.

    Attributes:
        addresses: IPv4 addresses of its hosts.
        procs: number of processes of each host.
        key: IMPI_AUTH_KEY; None: IMPI_AUTH_NONE.
        crossover, max_linear: -1: the default.
    """

    rank: int
    addresses: tuple[str, ...]
    procs: int
    key: int | None = None
    maxdatalen: int = 65536
    tag_ub: int = 2**31 - 1
    crossover: int = -1
    max_linear: int = -1
    ackmark: int = 10
    hiwater: int = 20


class Client:
    """A simulated client.

    Args:
        part: what it is.
        observer: looks at its packets.
        mischief: makes it wrong.

    Attributes:
        hosts: after `start`.
    """

    def __init__(self, part: Part, observer: Observer, mischief: ClientMischief | None = None) -> None:
        self.part = part
        self.mischief = mischief or Honest()
        self.universe: Universe
        self.hosts: list[Host] = []
        self._observer = observer
        self._listeners: list[Listener] = []
        self._early: list[asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def start(self, address: str, port: int) -> None:
        """Run the start-up with a server, and connect to all other hosts.

        Raises:
            ServerError, StartupProblem, OSError: it fails.
        """
        ports = [await self._listen(index) for index in range(len(self.part.addresses))]
        self._reader, self._writer = await asyncio.open_connection(address, port)
        await self._authenticate()
        size = await self._introduce()
        joints = await self._labels(ports)
        self.universe = combine(size, joints)
        infos = [info for info in self.universe.hosts if info.client == self.part.rank]
        self.hosts = [Host(info, self.universe, self._observer, self.mischief) for info in infos]
        procs = {rank: proc for host in self.hosts for rank, proc in host.procs.items()}
        for index, host in enumerate(self.hosts):
            host.neighbours = procs
            self._keep(asyncio.create_task(self._accept(index, host)))
        await asyncio.gather(*(host.connect() for host in self.hosts))
        for listener in self._listeners:
            listener.stop()

    # Towards the server.

    async def _authenticate(self) -> None:
        method = startup.NONE if self.part.key is None else startup.KEY
        self._send("auth", command(startup.AUTH, struct.pack(">I", 1 << method)))
        which, length = struct.unpack(">II", await self._read(8, "I2.3.3-8", "the answer to AUTH"))
        await self._read(min(length, startup.LONGEST), "I2.3.3-8", "the data of Server_auth")
        if which != method:
            raise ServerError("I2.3.3-15", f"the server chose method {which}, which was not offered")
        if self.part.key is not None:
            self._send("key", struct.pack(">Q", self.part.key))

    async def _introduce(self) -> int:
        self._send("impi", command(startup.IMPI, struct.pack(">I", self.part.rank)))
        code, payload = await self._command("I2.3.4-2")
        if code != startup.IMPI or len(payload) != 4:
            raise ServerError("I2.3.4-2", "the answer to IMPI is {IMPI, 4} and the number of clients", payload)
        size = int.from_bytes(payload)
        if not self.part.rank < size <= startup.MOST_CLIENTS:
            raise ServerError("I2.3.4-4", f"the server counts {size} clients, this one has rank {self.part.rank}")
        return size

    async def _labels(self, ports: list[int]) -> dict[int, Joint]:
        for number, data in self._values(ports).items():
            self._send(LABELS[number].name, submission(number, data))
        self._send("done", command(startup.DONE))
        joints: dict[int, Joint] = {}
        while True:
            code, payload = await self._command("I2.3.6-2")
            if code == startup.DONE:
                return joints
            if code != startup.COLL:
                continue  # unknown commands are skipped
            if len(payload) < 8:
                raise ServerError("I2.3.5-2", "COLL of the server has less than a label and a client_mask", payload)
            label, mask = struct.unpack_from(">II", payload)
            if joints and label <= max(joints):
                raise ServerError("I2.3.5-9", f"label {label:#x} after {max(joints):#x}", payload)
            joints[label] = Joint(mask, payload[8:])

    def _values(self, ports: list[int]) -> dict[int, bytes]:
        part = self.part
        hosts = len(part.addresses)
        identifiers = [startup.identifier_of(address) for address in part.addresses]
        first = os.getpid() << 32 | part.rank << 16
        values: dict[str, list[int] | list[bytes]] = {
            "C_VERSION": [0],
            "C_NHOSTS": [hosts],
            "C_NPROCS": [hosts * part.procs],
            "C_DATALEN": [part.maxdatalen],
            "C_TAGUB": [part.tag_ub],
            "C_COLL_XSIZE": [part.crossover],
            "C_COLL_MAXLINEAR": [part.max_linear],
            "H_IPV6": identifiers,
            "H_PORT": ports,
            "H_NPROCS": [part.procs] * hosts,
            "H_ACKMARK": [part.ackmark] * hosts,
            "H_HIWATER": [part.hiwater] * hosts,
            "P_IPV6": [identifier for identifier in identifiers for _ in range(part.procs)],
            "P_PID": [first + index for index in range(hosts * part.procs)],
        }
        return {number: startup.pack(label, values[label.name]) for number, label in LABELS.items()}

    def _send(self, step: str, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(self.mischief.words(step, data))

    async def _read(self, count: int, rule: str, what: str) -> bytes:
        try:
            return await self._reader.readexactly(count)
        except asyncio.IncompleteReadError as error:
            hint = "; is the key right?" if self.part.key is not None else ""
            raise ServerError(rule, f"the server closed the connection before {what}{hint}", error.partial) from None
        except ConnectionError as error:
            raise ServerError(rule, f"the connection to the server broke before {what}: {error}") from None

    async def _command(self, rule: str) -> tuple[int, bytes]:
        code, length = struct.unpack(">II", await self._read(8, rule, "the next command"))
        if length > startup.LONGEST:
            raise ServerError("I2.3.2-6", f"a command of the server has {length} bytes")
        return code, await self._read(length, "I2.3.2-1", "the end of a command")

    # Hosts.

    async def _listen(self, index: int) -> int:
        queue: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._early.append(queue)
        listener = Listener(lambda reader, writer: queue.put_nowait((reader, writer)))
        self._listeners.append(listener)
        _, port = await listener.start(self.part.addresses[index])
        return port

    async def _accept(self, index: int, host: Host) -> None:
        """Accept other hosts. Connections that come before the start-up is complete wait in the queue."""
        while True:
            self._keep(asyncio.create_task(host.accept(*await self._early[index].get())))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The end.

    async def finalize(self) -> None:
        """Finalize all processes, send FINI to all hosts, and then FINI to the server (section 2.4)."""
        world = [info.rank for info in self.universe.procs]
        procs = [proc for host in self.hosts for proc in host.procs.values()]
        if not self.mischief.has("fini-before-barrier"):
            await asyncio.gather(*(barrier(Comm(proc, 0, world)) for proc in procs))
        await asyncio.gather(*(host.finish() for host in self.hosts))
        self._send("fini", command(startup.FINI))
        assert self._writer is not None
        with contextlib.suppress(OSError):
            await self._writer.drain()
        self.close()
        await self.closed()

    def close(self) -> None:
        """Close all connections at once."""
        for task in self._tasks:
            task.cancel()
        if self._writer is not None:
            self._writer.close()
        for listener in self._listeners:
            listener.close()
        for host in self.hosts:
            host.close()

    async def closed(self) -> None:
        """Wait until all connections are closed."""
        await asyncio.gather(*self._tasks, *(host.closed() for host in self.hosts), return_exceptions=True)
        if self._writer is not None:
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        await settle()
