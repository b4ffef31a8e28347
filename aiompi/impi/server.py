"""The server side of the start-up protocol (IMPI 0.0, sections 2.3 and 2.4). Sans I/O.

`Server` accepts clients, joins their labels, and waits for their end. States of a `ServerConnection`:

    state      meaning                                        expects       answers
    AUTH       nothing has arrived yet                        AUTH          Server_auth
    SECURING   the method is TLS; a TLS handshake is due      nothing
    PROOF      the client has not proven the key              its proof     its own proof; a wrong proof closes
    KEY        the key has not arrived yet                    Auth_key      nothing; a wrong key closes
    RANK       authenticated                                  IMPI          IMPI, when all clients have joined
    LABELS     the client submits labels                      COLL, DONE    COLL for each complete label
    WAITING    other clients submit labels                                  DONE, when all clients have sent it
    RUNNING    the programs run                               FINI          nothing
    FINISHED   the client has ended, the socket may close
    CLOSED     dropped, or the connection has ended

Before a client has a rank, an error affects only its connection: the server drops the connection and goes on waiting.
After a client has got a rank, its error ends the job: the server reports the error, and closes all connections.

Clients may join at any time. Once all clients have joined, and while a standard label is missing, the server fails the
job if no label arrives for `start_timeout`: the other clients wait for the missing label. Later labels have no time
limit: clients may wait for their programs.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from aiompi.errors import AuthenticationError, InvalidArgumentError, RemoteProtocolError
from aiompi.impi import auth
from aiompi.impi.auth import Credentials
from aiompi.impi.collation import Collation
from aiompi.impi.command import (
    MAX_CLIENTS,
    MAX_LABEL_BYTES,
    Code,
    CommandReader,
    decode_coll,
    decode_impi,
    encode,
    encode_broadcast,
    encode_impi,
    encode_note,
    swap_hint,
)
from aiompi.impi.label import FIRST_PRIVATE


class ConnectionState(enum.Enum):
    """State of a connection; see the table at the top of the module."""

    AUTH = enum.auto()
    SECURING = enum.auto()
    PROOF = enum.auto()
    KEY = enum.auto()
    RANK = enum.auto()
    LABELS = enum.auto()
    WAITING = enum.auto()
    RUNNING = enum.auto()
    FINISHED = enum.auto()
    CLOSED = enum.auto()


#: state -> legal commands. Auth_key and the proof, the only messages in KEY and PROOF, are no commands.
ALLOWED: Final[dict[ConnectionState, tuple[Code, ...]]] = {
    ConnectionState.AUTH: (Code.AUTH,),
    ConnectionState.SECURING: (),
    ConnectionState.PROOF: (),
    ConnectionState.KEY: (),
    ConnectionState.RANK: (Code.IMPI,),
    ConnectionState.LABELS: (Code.COLL, Code.DONE),
    ConnectionState.WAITING: (),
    ConnectionState.RUNNING: (Code.FINI,),
    ConnectionState.FINISHED: (),
    ConnectionState.CLOSED: (),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Authenticated:
    """A client was authenticated, by the method auth.TLS, auth.KEY or auth.NONE."""

    connection: ServerConnection
    method: int


@dataclasses.dataclass(frozen=True, slots=True)
class Notice:
    """A message for the user, one line on standard error."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Joined:
    """A client has taken its rank, `connection.rank`; `missing` clients have not joined yet."""

    connection: ServerConnection
    missing: int


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """The server closed a connection before its client had a rank; `reason` is one line. The job is not affected."""

    connection: ServerConnection
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class AllStarted:
    """All clients have been sent DONE: the programs run."""


@dataclasses.dataclass(frozen=True, slots=True)
class ClientFinished:
    """The client with this rank has sent FINI."""

    rank: int


@dataclasses.dataclass(frozen=True, slots=True)
class JobFinished:
    """All clients have sent FINI: the server may exit with status 0."""


@dataclasses.dataclass(frozen=True, slots=True)
class ClientLost:
    """A client ended before FINI or broke the protocol; all connections are being closed. Exit with a nonzero status.

    Attributes:
        rank: its client rank.
        reason: one line that names client and address.
    """

    rank: int
    reason: str


Event: TypeAlias = Authenticated | Notice | Joined | Dropped | AllStarted | ClientFinished | JobFinished | ClientLost


class ServerConnection:
    """One connection of the server; made by `Server.add_connection`.

    Attributes:
        peer: network address of the client, for messages.
        state: see the table at the top of the module.
        known: True if the client is aiompi.
        rank: client rank, None until the client has taken one.
        deadline: time at which the server drops the connection if its client has not joined; None once the client has
            joined or the connection is dropped.
    """

    def __init__(self, server: Server, peer: str, deadline: float) -> None:
        self.peer = peer
        self.state = ConnectionState.AUTH
        self.known = False
        self.rank: int | None = None
        self.deadline: float | None = deadline
        self._server = server
        self._reader = CommandReader(server.max_label_bytes)
        self._method = auth.NONE
        self._binding = b""
        self._out: list[bytes] = []

    @property
    def closing(self) -> bool:
        """True if the caller should send the rest of `data_to_send`, and close the socket."""
        return self.state in {ConnectionState.FINISHED, ConnectionState.CLOSED}

    def data_to_send(self) -> bytes:
        """Return bytes for the client, each once."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def receive_data(self, data: bytes) -> None:
        """Handle bytes from the client, which may be split anywhere. Never raises; look at `Server.events`."""
        if self.closing:
            return
        self._reader.receive_data(data)
        try:
            while not self.closing and self._step():
                pass
        except RemoteProtocolError as error:
            self._server._drop(self, str(error))

    def secured(self) -> None:
        """From now on, treat the bytes that `receive_data` gets as decrypted.

        The caller performs a TLS handshake in the state SECURING. The caller calls this method when the handshake
        begins, and `bind` when the handshake has ended.
        """
        if self.state is not ConnectionState.SECURING:
            return
        if self._reader.next_bytes(1) is not None:
            self._server._drop(self, "it offered TLS and went on in clear")
            return
        self.state = ConnectionState.PROOF

    def bind(self, binding: bytes) -> None:
        """Go on after the TLS handshake.

        Args:
            binding: bytes that identify this channel (`aiompi.net.tls.binding`).
        """
        self._binding = binding
        self.receive_data(b"")  # handle bytes that arrived before this call

    def receive_eof(self) -> None:
        """Handle the end of the connection, which is in order only after FINI."""
        if not self.closing:
            self._server._drop(self, "the connection ended before FINI" if self.rank is not None else _LEFT_EARLY)

    def drop(self, reason: str) -> None:
        """Close the connection, unless it is closing already; `reason` says why the caller does this."""
        if not self.closing:
            self._server._drop(self, reason)

    def _step(self) -> bool:
        if self.state is ConnectionState.SECURING or (self.state is ConnectionState.PROOF and not self._binding):
            return False
        if self.state is ConnectionState.PROOF:
            proof = self._reader.next_bytes(auth.PROOF_BYTES)
            if proof is not None:
                self._check_proof(proof)
            return proof is not None
        if self.state is ConnectionState.KEY:
            key = self._reader.next_bytes(auth.KEY_BYTES)
            if key is not None:
                self._check_key(key)
            return key is not None
        # Unknown commands are skipped only after AUTH, so that a stranger cannot keep the server reading.
        command = self._reader.next_command(ALLOWED[self.state], skip_unknown=self.state is not ConnectionState.AUTH)
        if command is None:
            return False
        _HANDLERS[command.code](self, command.payload)
        return True

    def _send(self, data: bytes) -> None:
        self._out.append(data)

    def _auth(self, payload: bytes) -> None:
        offered = auth.decode_auth(payload)
        self.known = auth.AIOMPI in offered
        offered -= {auth.AIOMPI}
        method = auth.choose(self._server.preference, self._server.credentials.methods, offered)
        if method is None:
            raise AuthenticationError(
                f"no common authentication method: the client has {auth.names(sorted(offered))} available, "
                f"the server {auth.names(self._server.credentials.methods)}"
            )
        self._send(auth.encode_server_auth(method, auth.GREETING if self.known else b""))
        self._method = method
        if method == auth.NONE:
            self._authenticated()
        else:
            self.state = ConnectionState.SECURING if method == auth.TLS else ConnectionState.KEY

    def _check_proof(self, proof: bytes) -> None:
        credentials = self._server.credentials
        if not credentials.is_proof(proof, b"client", self._binding):
            raise AuthenticationError(_WRONG_KEY)
        self._send(credentials.proof(b"server", self._binding))
        self._authenticated()

    def _check_key(self, key: bytes) -> None:
        if not self._server.credentials.matches(key):
            raise AuthenticationError(_WRONG_KEY)
        self._authenticated()

    def _authenticated(self) -> None:
        self.state = ConnectionState.RANK
        self._server._authenticated(self, self._method)

    def _done(self, _: bytes) -> None:
        self.state = ConnectionState.WAITING
        self._server._client_done(self)

    def _fini(self, _: bytes) -> None:
        self.state = ConnectionState.FINISHED
        self._server._client_finished(self)


_WRONG_KEY: Final = "wrong key: IMPI_AUTH_KEY of the client is not the one of the server"
_LEFT_EARLY: Final = "the connection ended before it became a client"

_HANDLERS: Final[dict[Code, Callable[[ServerConnection, bytes], None]]] = {
    Code.AUTH: ServerConnection._auth,
    Code.IMPI: lambda connection, payload: connection._server._join(connection, decode_impi(payload)),
    Code.COLL: lambda connection, payload: connection._server._submit(connection, *decode_coll(payload)),
    Code.DONE: ServerConnection._done,
    Code.FINI: ServerConnection._fini,
}


class Server:
    """The rendezvous of one job.

    Bytes that one connection receives may produce bytes for all others. So after each call, send the result of
    `data_to_send` of every open connection, then close the connections that are `closing`.

    Args:
        count: number of clients to wait for, 1..32.
        credentials: authentication methods that the user enabled.
        preference: methods that may be used, most preferred first; see `auth.parse_preference`.
        auth_timeout: seconds within which a connection must join.
        start_timeout: seconds after which the server fails the job if a standard label is missing and no label arrives,
            0 for no limit; the failure may come after up to twice this time.
        max_label_bytes: most bytes of one client's labels that wait for other clients.

    Raises:
        InvalidArgumentError: count or max_label_bytes is out of range, or no authentication method is available.

    Attributes:
        count: number of clients of the job.
        failed: True if a client was lost.
        finished: True if all clients have sent FINI.
    """

    def __init__(
        self,
        count: int,
        credentials: Credentials,
        *,
        preference: Sequence[int] = tuple(auth.METHODS),
        auth_timeout: float = 30.0,
        start_timeout: float = 300.0,
        max_label_bytes: int = MAX_LABEL_BYTES,
    ) -> None:
        if not 1 <= count <= MAX_CLIENTS:
            raise InvalidArgumentError(f"{count} clients: an IMPI job has 1 to {MAX_CLIENTS}")
        if not 0 < max_label_bytes <= MAX_LABEL_BYTES:
            raise InvalidArgumentError(f"max_label_bytes {max_label_bytes} is not in 1..{MAX_LABEL_BYTES}")
        credentials.require(preference)
        self.count = count
        self.credentials = credentials
        self.preference = tuple(preference)
        self.max_label_bytes = max_label_bytes
        self.failed = False
        self._auth_timeout = auth_timeout
        self._start_timeout = start_timeout
        self._now = 0.0  # latest time that a caller has passed
        self._check: float | None = None  # when to check whether labels have arrived
        self._moved = False  # True if labels have arrived since the last check
        self._collation = Collation(count, max_label_bytes)
        self._clients: dict[int, ServerConnection] = {}
        self._newcomers: list[ServerConnection] = []
        self._notes: deque[bytes] = deque(maxlen=_NOTES)
        self._events: list[Event] = []

    @property
    def finished(self) -> bool:
        """True if all clients have sent FINI."""
        return self._full and all(c.state is ConnectionState.FINISHED for c in self._clients.values())

    @property
    def missing(self) -> list[int]:
        """Client ranks that no client has taken yet."""
        return [rank for rank in range(self.count) if rank not in self._clients]

    @property
    def deadline(self) -> float | None:
        """Time at which to call `handle_timer` next, None for never."""
        due = [connection.deadline for connection in self._newcomers] + [self._check]
        return min((deadline for deadline in due if deadline is not None), default=None)

    def add_connection(self, peer: str, now: float) -> ServerConnection:
        """Add an accepted connection.

        Args:
            peer: its network address, for messages.
            now: seconds, on the clock of `handle_timer`.

        Returns:
            The connection. It is already `closing` if no client can join any more.
        """
        self._now = now
        connection = ServerConnection(self, peer, now + self._auth_timeout)
        self._newcomers.append(connection)
        if self.failed:
            self._drop(connection, "the job has failed")
        elif self._full:
            self._drop(connection, _FULL)
        return connection

    def handle_timer(self, now: float) -> None:
        """Drop connections whose `deadline` has passed, and check whether labels still arrive.

        Args:
            now: seconds, on the clock of `add_connection`.
        """
        self._now = now
        for connection in list(self._newcomers):
            if connection.deadline is not None and connection.deadline <= now:
                self._drop(connection, f"it did not become a client within {self._auth_timeout:g} seconds")
        if self._check is not None and self._check <= now:
            self._check_start()

    def tell(self, text: str) -> None:
        """Send a note that says why other clients have not joined to all aiompi clients, also if they join later."""
        self._notes.append(encode_note(text))
        for client in self._clients.values():
            if client.known and not self._full:
                client._send(self._notes[-1])

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    @property
    def _full(self) -> bool:
        return len(self._clients) == self.count

    def _authenticated(self, connection: ServerConnection, method: int) -> None:
        self._events.append(Authenticated(connection, method))
        if method == auth.NONE:
            self._events.append(
                Notice(f"warning: the client at {connection.peer} was accepted without authentication (IMPI_AUTH_NONE)")
            )

    def _join(self, connection: ServerConnection, rank: int) -> None:
        if not 0 <= rank < self.count:
            hint = swap_hint(rank, range(self.count))
            raise RemoteProtocolError(f"client rank {rank} is not in 0..{self.count - 1}{hint}")
        if rank in self._clients:
            raise RemoteProtocolError(f"client rank {rank} is taken by the client at {self._clients[rank].peer}")
        self._newcomers.remove(connection)
        self._clients[rank] = connection
        connection.rank, connection.deadline, connection.state = rank, None, ConnectionState.LABELS
        self._events.append(Joined(connection, self.count - len(self._clients)))
        if self._full:
            self._send_all(encode_impi(self.count))
            self._await_labels()
            for newcomer in list(self._newcomers):
                self._drop(newcomer, _FULL)
        elif connection.known:
            for note in self._notes:
                connection._send(note)

    def _check_start(self) -> None:
        if self._moved:
            self._await_labels()
            return
        self._drop(
            self._clients[self._collation.hindmost],
            f"nothing has come from it for {self._start_timeout:g} s while the job starts (AIOMPI_IMPI_START_TIMEOUT)",
        )

    def _await_labels(self) -> None:
        """Schedule the next check for labels, if labels are missing."""
        missing = self._start_timeout and self._collation.frontier < FIRST_PRIVATE
        self._check = self._now + self._start_timeout if missing else None
        self._moved = False

    def _submit(self, connection: ServerConnection, label: int, data: bytes) -> None:
        assert connection.rank is not None
        self._collation.submit(connection.rank, label, data)
        self._moved = True
        self._send_ready()

    def _client_done(self, connection: ServerConnection) -> None:
        assert connection.rank is not None
        self._collation.done(connection.rank)
        self._moved = True
        self._send_ready()
        if self._collation.complete:
            self._send_all(encode(Code.DONE))
            for client in self._clients.values():
                client.state = ConnectionState.RUNNING
            self._events.append(AllStarted())

    def _client_finished(self, connection: ServerConnection) -> None:
        assert connection.rank is not None
        self._events.append(ClientFinished(connection.rank))
        if self.finished:
            self._events.append(JobFinished())

    def _send_ready(self) -> None:
        for broadcast in self._collation.ready():
            self._send_all(encode_broadcast(broadcast))

    def _send_all(self, data: bytes) -> None:
        for client in self._clients.values():
            client._send(data)

    def _drop(self, connection: ServerConnection, reason: str) -> None:
        connection.state = ConnectionState.CLOSED
        connection.deadline = None
        if connection.rank is None:
            self._newcomers.remove(connection)
            self._events.append(Dropped(connection, reason))
            return
        self.failed = True
        self._check = None
        self._events.append(ClientLost(connection.rank, f"client {connection.rank} at {connection.peer}: {reason}"))
        for client in self._clients.values():
            client.state = ConnectionState.CLOSED
        for newcomer in list(self._newcomers):
            self._drop(newcomer, "the job has failed")


_NOTES: Final = 4  # number of notes, the last ones, that a client gets when it joins
_FULL: Final = "all clients of the job have joined already"
