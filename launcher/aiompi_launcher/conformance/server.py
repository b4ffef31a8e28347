"""The tester's own IMPI server, which checks each command of the clients (sections 2.2 and 2.3)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

from aiompi_launcher.conformance.journal import Deviation, Journal, Severity
from aiompi_launcher.conformance.wire import startup
from aiompi_launcher.conformance.wire.listener import Listener, settle
from aiompi_launcher.conformance.wire.startup import COMMAND_NAMES, LABELS, broadcast, command, label_name

_PATIENCE = 30.0  # seconds for authentication


class _Drop(Exception):
    """A client has broken the protocol; its connection is closed."""

    def __init__(self, rule: str, problem: str, expected: bytes | None = None, actual: bytes | None = None) -> None:
        super().__init__(problem)
        self.deviation = Deviation(rule, problem, expected, actual)


class _Connection:
    """The connection of one client."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer
        self.name = "client at {}:{}".format(*writer.get_extra_info("peername")[:2])
        self.rank = -1
        self.labels: dict[int, bytes] = {}
        self.done = False

    def passed(self, label: int) -> bool:
        """Return True if the client has submitted a label, or will never submit it."""
        return self.done or (bool(self.labels) and max(self.labels) >= label)

    def note(self, text: str, data: bytes = b"", *deviations: Deviation) -> None:
        self.server.journal.write(f"{self.name} {text}", data, deviations)

    def send(self, text: str, data: bytes) -> None:
        self.note(f"< {text}", data)
        self.writer.write(data)

    async def _read(self, count: int, what: str) -> bytes:
        try:
            return await self.reader.readexactly(count)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            partial = getattr(error, "partial", b"")
            raise _Drop("I2.3.7-4", f"{self.name} closed its connection before {what}", None, partial) from None

    async def _command(self, what: str) -> tuple[int, bytes, bytes]:
        """Return code, payload and all bytes of the next known command."""
        while True:
            header = await self._read(8, what)
            code, length = struct.unpack(">II", header)
            if length > startup.LONGEST:
                raise _Drop("I2.3.2-6", f"{self.name} sends a command of {length} bytes", None, header)
            payload = await self._read(length, f"the end of {what}")
            if code in COMMAND_NAMES:
                return code, payload, header + payload
            self.note(f"> unknown command {code:#x}, skipped", header + payload)

    def _expect(self, wanted: int, code: int, data: bytes, rule: str) -> None:
        if code != wanted:
            problem = f"{self.name} sends {COMMAND_NAMES[code]} where {COMMAND_NAMES[wanted]} is due"
            raise _Drop(rule, problem, None, data)

    # Steps of the start-up.

    async def hold(self) -> None:
        async with asyncio.timeout(_PATIENCE):
            await self._authenticate()
        await self._introduce()
        await self._submit()
        await self._finish()

    async def _authenticate(self) -> None:
        code, payload, data = await self._command("AUTH")
        self._expect(startup.AUTH, code, data, "I2.3.2-7")
        if not payload or len(payload) % 4:
            raise _Drop("I2.3.2-6", f"AUTH has {len(payload)} bytes, not a multiple of 4", None, data)
        mask = int.from_bytes(payload[:4])
        self.note(f"> AUTH, mask {mask:#x}", data)
        method = startup.NONE if self.server.key is None else startup.KEY
        if not mask >> method & 1:
            problem = f"{self.name} does not offer {startup.METHOD_NAMES[method]}, the method of this tester"
            raise _Drop("I2.3.3-10", problem, command(startup.AUTH, (mask | 1 << method).to_bytes(4)), data)
        self.send(f"method {method}", struct.pack(">II", method, 0))
        if method == startup.KEY:
            await self._check_key()

    async def _check_key(self) -> None:
        data = await self._read(8, "its key")
        self.note("> key", b"")
        if int.from_bytes(data) != self.server.key:
            raise _Drop("I2.3.3-21", f"{self.name} has another IMPI_AUTH_KEY than this tester")

    async def _introduce(self) -> None:
        code, payload, data = await self._command("IMPI")
        self._expect(startup.IMPI, code, data, "I2.3.2-7")
        if len(payload) != 4:
            raise _Drop("I2.3.4-1", f"IMPI has {len(payload)} bytes, not 4", None, data)
        rank = int.from_bytes(payload, signed=True)
        self.note(f"> IMPI, rank {rank}", data)
        problem = self.server.refuses(rank)
        if problem:
            raise _Drop("I2.3.4-5", f"{self.name}: {problem}", None, data)
        self.rank = rank
        self.name = f"client {rank}"
        self.server.join(self)

    async def _submit(self) -> None:
        while not self.done:
            code, payload, data = await self._command("its labels and DONE")
            if code == startup.DONE:
                self.note("> DONE", data, *self._check_done(payload, data))
                self.done = True
            else:
                self._expect(startup.COLL, code, data, "I2.3.2-8")
                self._label(payload, data)
            self.server.distribute()

    def _label(self, payload: bytes, data: bytes) -> None:
        if len(payload) < 4:
            raise _Drop("I2.3.2-6", f"COLL has {len(payload)} bytes, too few for a label", None, data)
        number, value = int.from_bytes(payload[:4]), payload[4:]
        early = []
        if not self.server.joined:
            problem = f"{self.name} submits labels before the answer to IMPI"
            early.append(Deviation("I2.3.4-2", problem, None, data, Severity.NOTE))
        if number == 0:
            raise _Drop("I2.3.5-13", f"{self.name} submits IMPI_NO_LABEL", None, data)
        if self.labels and number <= max(self.labels):
            problem = f"{self.name} submits {label_name(number)} after {label_name(max(self.labels))}"
            raise _Drop("I2.3.5-5", problem, None, data)
        self.labels[number] = value
        self.note(f"> COLL {label_name(number)}", data, *early, *self._check_label(number, value, data))

    def _check_label(self, number: int, value: bytes, data: bytes) -> Iterator[Deviation]:
        label = LABELS.get(number)
        if label is None:
            yield Deviation("I2.3.5-15", f"{self.name} submits a private label, {number:#x}", None, data, Severity.NOTE)
            return
        wanted = label.size * self._elements(label.per)
        wrong = not value if label.name == "C_VERSION" else len(value) != wanted
        if wrong or len(value) % label.size:
            problem = f"{label.name} of {self.name} has {len(value)} bytes, {wanted} are due"
            yield Deviation("I2.3.5-16", problem, None, data)
            return
        if label.code == "16s":
            yield from self._check_identifiers(label.name, value, data)
            return
        for element in startup.unpack(label, value):
            if not label.least <= element <= label.most:
                problem = f"{label.name} of {self.name} is {element}, not within {label.least}..{label.most}"
                yield Deviation("I2.3.5-31", problem, None, data)
        if label.name == "C_VERSION" and value[:8] != bytes(8):
            yield Deviation("I2.3.5-17", "C_VERSION begins with 0.0", bytes(8), value[:8])

    def _check_identifiers(self, name: str, value: bytes, data: bytes) -> Iterator[Deviation]:
        identifiers = [value[start : start + 16] for start in range(0, len(value), 16)]
        for identifier in identifiers:
            if name == "H_IPV6" and startup.address_of(identifier) is None:
                problem = f"{name} {identifier.hex()} of {self.name} is no IPv4 address, which this tester needs"
                yield Deviation("I1.2.3-2", problem, None, data, Severity.NOTE)
            elif identifier[10:12] == b"\0\0":
                right = startup.identifier_of(startup.address_of(identifier) or "0.0.0.0")
                problem = f"{name} of {self.name} is in IPv4-compatible form; the mapped form is recommended"
                yield Deviation("I1.2.3-2", problem, right, identifier, Severity.NOTE)

    def _elements(self, per: str) -> int:
        """Return how many elements a label of this client must have, according to its C_NHOSTS or C_NPROCS."""
        if per == "client":
            return 1
        count = self.labels.get(0x1100 if per == "host" else 0x1200, b"")
        return int.from_bytes(count[:4])

    def _check_done(self, payload: bytes, data: bytes) -> Iterator[Deviation]:
        if payload:
            yield Deviation("I2.3.6-1", "DONE has no payload", command(startup.DONE), data)
        missing = [label.name for number, label in LABELS.items() if number not in self.labels]
        if missing:
            problem = f"{self.name} has not submitted {', '.join(missing)}"
            yield Deviation("I2.3.5-14", problem)
        hosts = self.labels.get(0x2200, b"")
        total = sum(struct.unpack(f">{len(hosts) // 4}I", hosts[: len(hosts) // 4 * 4]))
        if not missing and total != int.from_bytes(self.labels[0x1200]):
            yield Deviation(
                "I2.3.5-16", f"H_NPROCS of {self.name} add up to {total}, which is not C_NPROCS", None, hosts
            )

    async def _finish(self) -> None:
        code, payload, data = await self._command("FINI")
        self._expect(startup.FINI, code, data, "I2.3.2-8")
        deviations = []
        if payload:
            deviations.append(Deviation("I2.3.7-1", "FINI has no payload", command(startup.FINI), data))
        if not self.server.may_finish:
            deviations.append(Deviation("I2.4-6", f"{self.name} sends FINI before the job is over", None, data))
        self.note("> FINI", data, *deviations)
        await self.server.started.wait()  # other clients may still be joining


class Server:
    """An IMPI server for one job.

    Args:
        clients: number of clients.
        journal: for steps and deviations.
        key: IMPI_AUTH_KEY, None for IMPI_AUTH_NONE.

    Attributes:
        started: set once DONE has been sent to all.
        failed: set to the reason if a client that has joined ends early.
        may_finish: True if clients may send FINI.
    """

    def __init__(self, clients: int, journal: Journal, key: int | None = None) -> None:
        self.clients = clients
        self.journal = journal
        self.key = key
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.started = asyncio.Event()
        self.may_finish = False
        self.address = ("", 0)
        self._listener = Listener(self._accept)
        self._ranks: dict[int, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent: set[int] = set()

    async def start(self, host: str, port: int = 0) -> None:
        """Listen on `address`."""
        self.address = await self._listener.start(host, port)

    def close(self) -> None:
        """Close everything at once."""
        self._listener.close()
        for task in self._tasks:
            task.cancel()

    async def closed(self) -> None:
        """Wait until everything is closed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await settle()

    async def ended(self) -> None:
        """Wait until all clients have sent FINI or disconnected."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(_Connection(self, reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: _Connection) -> None:
        try:
            await connection.hold()
        except _Drop as drop:
            connection.note("is dropped", drop.deviation.actual or b"", drop.deviation)
            self._lose(connection, str(drop))
        except TimeoutError:
            problem = f"{connection.name} has not authenticated itself within {_PATIENCE:g} s"
            connection.note("is dropped", b"", Deviation("I2.3.3-1", problem))
        finally:
            connection.writer.close()

    def _lose(self, connection: _Connection, why: str) -> None:
        """Free the rank of a client that disconnects before all clients have joined."""
        if connection.rank < 0:
            return
        if not self.joined and not connection.labels:
            del self._ranks[connection.rank]
        elif not self.failed.done():
            self.failed.set_result(why)

    def refuses(self, rank: int) -> str:
        """Return why a client rank cannot be taken; empty if it can."""
        if not 0 <= rank < self.clients:
            return f"there is no client rank {rank} among {self.clients} clients"
        return f"client rank {rank} is taken" if rank in self._ranks else ""

    @property
    def joined(self) -> bool:
        return len(self._ranks) == self.clients

    def join(self, connection: _Connection) -> None:
        """Register a client; once all have joined, send them their number."""
        self._ranks[connection.rank] = connection
        if self.joined:
            answer = command(startup.IMPI, struct.pack(">I", self.clients))
            for member in self._members():
                member.send(f"IMPI, {self.clients} clients", answer)

    def _members(self) -> list[_Connection]:
        return [self._ranks[rank] for rank in sorted(self._ranks)]

    def distribute(self) -> None:
        """Send each label to all clients once every client has submitted it, or will not submit it (section 2.3.5)."""
        if not self.joined:
            return
        members = self._members()
        for label in sorted({label for member in members for label in member.labels} - self._sent):
            if not all(member.passed(label) for member in members):
                return
            self._sent.add(label)
            mask = sum(1 << member.rank for member in members if label in member.labels)
            data = b"".join(member.labels.get(label, b"") for member in members)
            for member in members:
                member.send(f"COLL {label_name(label)}, client_mask {mask:#x}", broadcast(label, mask, data))
        if all(member.done for member in members) and not self.started.is_set():
            self.started.set()
            for member in members:
                member.send("DONE", command(startup.DONE))
