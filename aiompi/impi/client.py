"""The client side of the start-up protocol (IMPI 0.0, sections 2.3 and 2.4). Sans I/O.

    state      meaning                                           expects            sends on entering
    CHOOSING   the server has not chosen a method yet            Server_auth        AUTH
    SECURING   the method is TLS; a TLS handshake is due         nothing
    PROVING    the server has not proven the key                 its proof          the own proof
    JOINING    the server has not answered with the job's size   IMPI, NOTE         Auth_key for KEY, IMPI
    LABELS     we have not sent DONE yet                         COLL               the fourteen labels
    WAITING    other clients may still submit labels             COLL, DONE         DONE
    RUNNING    the programs run
    FINISHED   all our procs have ended                          end of file        FINI
    BROKEN     an exception ended the conversation

The state LABELS lasts until all standard labels have arrived. The state lasts longer only if every client of the job is
aiompi and this client submits private labels.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias

from aiompi.errors import (
    AuthenticationError,
    InvalidArgumentError,
    LocalProtocolError,
    ProcessFailedError,
    RemoteProtocolError,
)
from aiompi.impi import auth
from aiompi.impi.auth import Credentials
from aiompi.impi.command import (
    MAX_BROADCAST_BYTES,
    MAX_CLIENTS,
    MAX_LABEL_BYTES,
    Broadcast,
    Code,
    Command,
    CommandReader,
    decode_broadcast,
    decode_impi,
    decode_note,
    encode,
    encode_coll,
    encode_impi,
)
from aiompi.impi.label import (
    FIRST_PRIVATE,
    LABEL_VALUES,
    LAST_PRIVATE,
    ClientPart,
    encode_private,
    join,
    split_private,
)
from aiompi.impi.universe import Universe

_PRIVATE: Final = range(FIRST_PRIVATE, LAST_PRIVATE + 1)


class ClientState(enum.Enum):
    """State of a client; see the table at the top of the module."""

    CHOOSING = enum.auto()
    SECURING = enum.auto()
    PROVING = enum.auto()
    JOINING = enum.auto()
    LABELS = enum.auto()
    WAITING = enum.auto()
    RUNNING = enum.auto()
    FINISHED = enum.auto()
    BROKEN = enum.auto()


#: state -> command of the server -> next state. Server_auth and the proof of the server are no commands.
TRANSITIONS: Final[dict[ClientState, dict[Code, ClientState]]] = {
    ClientState.CHOOSING: {},
    ClientState.SECURING: {},
    ClientState.PROVING: {},
    ClientState.JOINING: {Code.IMPI: ClientState.LABELS, Code.NOTE: ClientState.JOINING},
    ClientState.LABELS: {Code.COLL: ClientState.LABELS},
    ClientState.WAITING: {Code.COLL: ClientState.WAITING, Code.DONE: ClientState.RUNNING},
    ClientState.RUNNING: {},
    ClientState.FINISHED: {},
    ClientState.BROKEN: {},
}


@dataclasses.dataclass(frozen=True, slots=True)
class Accepted:
    """The server has accepted our rank; the job has `size` clients."""

    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """All standard labels have arrived and describe the job. If `Client.may_submit`, call `submit` and `done` now."""

    universe: Universe


@dataclasses.dataclass(frozen=True, slots=True)
class PrivateLabel:
    """A private label of aiompi clients has arrived; `parts` maps the rank of each submitting client to its data."""

    label: int
    parts: dict[int, bytes]


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """The server has sent DONE: hosts may connect, and the programs of the job may run."""

    universe: Universe


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """The server tells why it still waits, in one line."""

    text: str


Event: TypeAlias = Note | Accepted | Described | PrivateLabel | Started


class Client:
    """One client's connection to the server.

    Send the bytes that `data_to_send` returns after construction, and after each call of another method. In the state
    SECURING perform a TLS handshake, and call `secured`. Call `receive_eof` when the connection ends, for whatever
    reason.

    Args:
        rank: of this client, 0..31, unique in the job.
        credentials: authentication methods that the user enabled.
        part: how this client describes itself. If `part.native` is True and every client of the job is aiompi, the
            client pauses after `Described` for private labels: call `submit` any number of times, then `done`.

    Raises:
        InvalidArgumentError: the rank is out of range, or no authentication method is available.

    Attributes:
        state: see the table at the top of the module.
        server_known: True if the server is aiompi, and therefore passes on private labels.
        size: number of clients, 0 until the server has sent it.
        universe: the job, None until all labels have arrived.
    """

    def __init__(self, rank: int, credentials: Credentials, part: ClientPart) -> None:
        if not 0 <= rank < MAX_CLIENTS:
            raise InvalidArgumentError(f"client rank {rank} is not in 0..{MAX_CLIENTS - 1}")
        credentials.require()
        self.rank = rank
        self.state = ClientState.CHOOSING
        self.server_known = False
        self.size = 0
        self.universe: Universe | None = None
        self._credentials = credentials
        self._part = part
        self._method = auth.NONE
        self._greeting_due = False
        self._binding = b""
        self._reader = CommandReader(MAX_BROADCAST_BYTES)
        self._arrays: dict[int, Broadcast] = {}
        self._last_private = FIRST_PRIVATE - 1
        self._events: list[Event] = []
        self._out = [auth.encode_auth((*credentials.methods, auth.AIOMPI))]

    @property
    def may_submit(self) -> bool:
        """True if all clients are aiompi and the state is LABELS: `submit` may be called, and `done` must be called."""
        return self.state is ClientState.LABELS and self.universe is not None

    @property
    def midway(self) -> bool:
        """True if some of the standard labels have arrived and others have not. All clients have joined then."""
        return bool(self._arrays)

    def data_to_send(self) -> bytes:
        """Return bytes for the server, each once."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def receive_data(self, data: bytes) -> list[Event]:
        """Handle bytes from the server, which may be split anywhere; return the events.

        Raises:
            RemoteProtocolError: the server or a label of another client breaks the protocol; the job cannot start.
            LocalProtocolError: an exception has ended this connection before.
        """
        if self.state is ClientState.BROKEN:
            raise LocalProtocolError("this IMPI client has failed; make a new one for a new connection")
        if self.state is ClientState.FINISHED:
            return []
        self._reader.receive_data(data)
        try:
            while self._step():
                pass
        except RemoteProtocolError:
            self.state = ClientState.BROKEN
            raise
        events, self._events = self._events, []
        return events

    def secured(self, binding: bytes) -> None:
        """Go on after the TLS handshake: all further data is encrypted.

        Args:
            binding: bytes that identify this channel (`aiompi.net.tls.binding`).

        Raises:
            LocalProtocolError: the state is not SECURING.
            RemoteProtocolError: the server has sent more than Server_auth in clear.
        """
        if self.state is not ClientState.SECURING:
            raise LocalProtocolError(f"secured() in state {self.state.name}")
        if self._reader.next_bytes(1) is not None:
            self.state = ClientState.BROKEN
            raise RemoteProtocolError("the server chose TLS and went on in clear")
        self._binding = binding
        self._out.append(self._credentials.proof(b"client", binding))
        self.state = ClientState.PROVING

    def receive_eof(self) -> None:
        """Handle the end of the connection, which is in order only after FINI.

        Raises:
            AuthenticationError: the server rejected our authentication.
            RemoteProtocolError: the server rejected our rank.
            ProcessFailedError: the server ended before the job.
        """
        state = self.state
        if state in {ClientState.FINISHED, ClientState.BROKEN}:
            return
        self.state = ClientState.BROKEN
        if state is ClientState.CHOOSING:
            self._refused_methods()
        if state is ClientState.SECURING:
            raise AuthenticationError("the IMPI server closed the connection during the TLS handshake")
        if state in {ClientState.PROVING, ClientState.JOINING}:
            self._refused_rank()
        raise ProcessFailedError(
            f"the IMPI server closed the connection of client {self.rank} before the end of the job:"
            " it died, or another client failed; see its messages"
        )

    def submit(self, label: int, data: bytes) -> None:
        """Submit this client's part of a private label, while `may_submit`.

        Args:
            label: FIRST_PRIVATE..LAST_PRIVATE, larger than the previous one.
            data: any bytes.

        Raises:
            LocalProtocolError: `may_submit` is False, or the labels do not ascend.
            InvalidArgumentError: the label is not private, or the data are too long.
        """
        self._require_turn("submit")
        if label not in _PRIVATE:
            raise InvalidArgumentError(f"private labels are {FIRST_PRIVATE:#x} to {LAST_PRIVATE:#x}, not {label:#x}")
        if label <= self._last_private:
            raise LocalProtocolError(f"label {label:#x} after {self._last_private:#x}: labels must ascend")
        if len(data) > MAX_LABEL_BYTES // 2:
            raise InvalidArgumentError(f"{len(data)} bytes of a private label; at most {MAX_LABEL_BYTES // 2}")
        self._last_private = label
        self._out.append(encode_coll(label, encode_private(data)))

    def done(self) -> None:
        """Tell the server that no more labels follow. Needed only if `may_submit`.

        Raises:
            LocalProtocolError: `may_submit` is False.
        """
        self._require_turn("done")
        self._done()

    def finish(self) -> None:
        """Send FINI: all procs of this client have ended, all its channels are closed (section 2.3.7).

        Raises:
            LocalProtocolError: the job has not started, or FINI has been sent.
        """
        if self.state is not ClientState.RUNNING:
            raise LocalProtocolError(f"finish() in state {self.state.name}; FINI is sent once, after Started")
        self._out.append(encode(Code.FINI))
        self.state = ClientState.FINISHED

    def _require_turn(self, verb: str) -> None:
        if not self.may_submit:
            raise LocalProtocolError(
                f"{verb}() in state {self.state.name}; it is due after Described, when may_submit is true"
            )

    def _step(self) -> bool:
        if self.state is ClientState.CHOOSING:
            data = self._reader.next_bytes(len(auth.GREETING) if self._greeting_due else auth.SERVER_AUTH_BYTES)
            if data is not None:
                self._chosen(data)
            return data is not None
        if self.state is ClientState.PROVING:
            data = self._reader.next_bytes(auth.PROOF_BYTES)
            if data is not None:
                self._check_proof(data)
            return data is not None
        transitions = TRANSITIONS[self.state]
        command = self._reader.next_command(transitions)
        if command is None:
            return False
        self.state = transitions[command.code]
        _HANDLERS[command.code](self, command)
        return True

    def _chosen(self, data: bytes) -> None:
        if self._greeting_due:
            self._greeting_due, self.server_known = False, data == auth.GREETING
        else:
            self._method, extra = auth.decode_server_auth(data, self._credentials.methods)
            if extra == len(auth.GREETING):
                self._greeting_due = True
                return
            self._reader.skip(extra)
        if self._method == auth.TLS:
            self.state = ClientState.SECURING
        else:
            self._authenticate()

    def _check_proof(self, proof: bytes) -> None:
        if not self._credentials.is_proof(proof, b"server", self._binding):
            raise AuthenticationError("the IMPI server could not prove that it has IMPI_AUTH_KEY")
        self._authenticate()

    def _authenticate(self) -> None:
        if self._method == auth.KEY:
            self._out.append(self._credentials.encode_key())
        self._out.append(encode_impi(self.rank))
        self.state = ClientState.JOINING

    def _noted(self, command: Command) -> None:
        self._events.append(Note(decode_note(command.payload)))

    def _joined(self, command: Command) -> None:
        size = decode_impi(command.payload)
        if not self.rank < size <= MAX_CLIENTS:
            raise RemoteProtocolError(
                f"the server counts {size} clients, which have the ranks 0..{size - 1}; this one has rank {self.rank}"
            )
        self.size = size
        self._events.append(Accepted(size))
        # DONE is sent after the broadcasts, because some servers forget the labels of a client that has sent DONE.
        self._out.extend(encode_coll(label, data) for label, data in self._part.encode())

    def _label(self, command: Command) -> None:
        array = decode_broadcast(command.payload)
        if not array.mask:
            return  # a label that no client submitted: some servers broadcast it
        if array.label in LABEL_VALUES:
            self._standard_label(array)
        # For other clients the number of a private label may mean anything.
        elif self._part.native and self.universe and self.universe.native and array.label in _PRIVATE:
            self._events.append(PrivateLabel(array.label, split_private(array)))

    def _standard_label(self, array: Broadcast) -> None:
        if self.universe is not None or array.label in self._arrays:
            raise RemoteProtocolError(f"the server sent label {array.label:#x} twice")
        self._arrays[array.label] = array
        if len(self._arrays) == len(LABEL_VALUES):
            self._describe()

    def _describe(self) -> Universe:
        self.universe = universe = join(self.size, self._arrays)
        self._arrays.clear()
        self._events.append(Described(universe))
        if self.state is ClientState.LABELS and not universe.native:
            self._done()
        return universe

    def _started(self, _: Command) -> None:
        self._events.append(Started(self.universe or self._describe()))

    def _done(self) -> None:
        self._out.append(encode(Code.DONE))
        self.state = ClientState.WAITING

    def _refused_methods(self) -> NoReturn:
        methods = ", ".join(auth.METHODS[method] for method in self._credentials.methods)
        raise AuthenticationError(
            f"the IMPI server closed the connection without an answer: it accepts none of {methods},"
            " all clients of its job have joined already, or there is no IMPI server at this address"
        )

    def _refused_rank(self) -> NoReturn:
        rank = (
            f"client rank {self.rank} is taken or not below the server's number of clients, or the server or another"
            " client ended before all had joined; see the messages of the server"
        )
        if self._method != auth.NONE:
            raise AuthenticationError(
                "the IMPI server closed the connection after IMPI_AUTH_KEY: possibly a wrong key, so compare the"
                f" variable at both sides; or {rank}"
            )
        raise RemoteProtocolError(
            f"the IMPI server closed the connection of client {self.rank} instead of accepting it: {rank}"
        )


_HANDLERS: Final[dict[Code, Callable[[Client, Command], None]]] = {
    Code.IMPI: Client._joined,
    Code.COLL: Client._label,
    Code.DONE: Client._started,
    Code.NOTE: Client._noted,
}
