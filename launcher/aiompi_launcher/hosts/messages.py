"""Messages between the launcher and the agents of hosts.

The messages have the form of messages between ranks and their agent (`aiompi.wire.control`). A line feed follows each
one, because srun forwards whole lines. Both sides begin with their banner (`aiompi.wire.version`), which distinguishes
an agent from the output of a login shell, and shows its version.

    launcher                                      agent of a host
    banner, Launch(plan), Files(data) ...    -->
                                             <--  banner
                                             <--  Ready(host, ...), RankStarted(rank, pid) ... or Trouble(text, code)
      ... a rank of the host connects: <-- Joined(connection, ...), <-- Said(connection, data),
      <-- ConnectionClosed(connection), Post(connections, data) -->, HangUp(connection) --> ...
      ... <-- OutputData(rank, stream, data), Grant(rank, stream, size) -->, InputData(rank, data) -->,
      <-- Taken(rank, size), SignalRanks(ranks, signum) -->, <-- RankExited(rank, status), <-- RankStuck(rank, cause),
      <-- HostsLost(hosts, cause) ...
    EndJob()                                 -->  it ends all processes, and closes its output

A connection is numbered by `host << HOST_SHIFT | number`. Both sides send a Ping from time to time.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from aiompi.wire import control, version

BANNER_BYTES: Final = version.BANNER_BYTES + 1
HOST_SHIFT: Final = 32
STDOUT: Final = 1
STDERR: Final = 2


class Launch(NamedTuple):
    """The first message to an agent: its `Plan`, packed."""

    plan: dict[str, Any]


class Files(NamedTuple):
    """The next part of the archive of files for the working directory; empty at the end of the archive."""

    data: bytes


class Post(NamedTuple):
    """Bytes for connections of ranks."""

    connections: list[int]
    data: bytes


class HangUp(NamedTuple):
    """Close a connection once everything is sent."""

    connection: int


class SignalRanks(NamedTuple):
    """Send a signal to the process groups of ranks."""

    ranks: list[int]
    signum: int


class InputData(NamedTuple):
    """Standard input for a rank; empty at its end."""

    rank: int
    data: bytes


class Taken(NamedTuple):
    """Flow control: a rank has read `size` bytes of its input."""

    rank: int
    size: int


class OutputData(NamedTuple):
    """Output of a rank; empty at its end."""

    rank: int
    stream: int
    data: bytes


class Grant(NamedTuple):
    """Flow control: the agent may send `size` more bytes of a rank's output."""

    rank: int
    stream: int
    size: int


class EndJob(NamedTuple):
    """End all processes of the job."""


class Pause(NamedTuple):
    """The sender is about to be stopped, by Ctrl-Z for example, and sends no Ping until it goes on."""


class Ping(NamedTuple):
    """The sender is alive."""


class Ready(NamedTuple):
    """An agent runs.

    Attributes:
        host: index of the host among the hosts of the job.
        directory: for sockets of its ranks.
        address: address of the host for other hosts; empty if the host is the launcher's machine.
        launcher: address of the launcher's machine, as this host sees it; empty if unknown.
    """

    host: int
    directory: str
    address: str
    launcher: str


class RankStarted(NamedTuple):
    """The process of a rank runs."""

    rank: int
    pid: int


class Trouble(NamedTuple):
    """A host has failed to start its ranks, so the job ends with the exit code `code`."""

    host: int
    text: str
    code: int


class Joined(NamedTuple):
    """A process has proven the key and wants to be a rank."""

    connection: int
    wanted: int
    pid: int
    namespace: str  # pid namespace of the pid (`aiompi.wire.liveness.namespace`)


class Said(NamedTuple):
    """Bytes of messages of a connection that has joined, split anywhere."""

    connection: int
    data: bytes


class ConnectionClosed(NamedTuple):
    """A connection that had joined is closed, possibly because of an error."""

    connection: int
    error: str


class RankExited(NamedTuple):
    """The process of a rank has ended."""

    rank: int
    status: int


class RankStuck(NamedTuple):
    """The process of a rank has not run for a heartbeat interval of the job."""

    rank: int
    cause: str


class HostsLost(NamedTuple):
    """An agent has ended or cannot be reached, so the agents that it has started are lost as well."""

    hosts: list[int]
    cause: str


Message: TypeAlias = (
    Launch | Files | Post | HangUp | SignalRanks | InputData | Taken | OutputData | Grant | EndJob | Pause | Ping
    | Ready | RankStarted | Trouble | Joined | Said | ConnectionClosed | RankExited | HostsLost | RankStuck
)  # fmt: skip

_FIELDS: Final[control.Table] = {
    1: (Launch, (dict,)),
    2: (Files, (bytes,)),
    3: (Post, (list[int], bytes)),
    4: (HangUp, (int,)),
    5: (SignalRanks, (list[int], int)),
    6: (InputData, (int, bytes)),
    7: (Taken, (int, int)),
    8: (OutputData, (int, int, bytes)),
    9: (Grant, (int, int, int)),
    10: (EndJob, ()),
    11: (Pause, ()),
    12: (Ping, ()),
    20: (Ready, (int, str, str, str)),
    21: (RankStarted, (int, int)),
    22: (Trouble, (int, str, int)),
    23: (Joined, (int, int, int, str)),
    24: (Said, (int, bytes)),
    25: (ConnectionClosed, (int, str)),
    26: (RankExited, (int, int)),
    27: (HostsLost, (list[int], str)),
    28: (RankStuck, (int, str)),
}
_CODES: Final = {message: code for code, (message, _) in _FIELDS.items()}


def banner() -> bytes:
    """Return the banner, which each side sends first."""
    return version.banner() + b"\n"


def encode(message: Message) -> bytes:
    """Return a message as bytes."""
    return control.encode(message, _CODES, b"\n")


def decoder() -> control.Decoder:
    """Return a decoder of these messages."""
    return control.Decoder(_FIELDS, b"\n")


class Part(NamedTuple):
    """A host of a plan.

    Attributes:
        host: index of the host among the hosts of the job.
        name: of the host.
        ranks: ranks of the host.
        programs: for each of these ranks, the index of its program.
    """

    host: int
    name: str
    ranks: list[int]
    programs: list[int]


class Plan(NamedTuple):
    """The plan of an agent.

    Attributes:
        name: of the launcher, for messages.
        key: of the job.
        size: number of ranks of the job.
        parts: the host of the agent, and the hosts that the agent reaches through further agents.
        programs: arguments, directory, environment and `mpi4py` of each program.
        directory: working directory.
        environ: variables of the launcher.
        prefork: as in `RunSpec`.
        bind_to: as in `RunSpec`.
        stdin: rank that reads standard input, -1 for none.
        files: True if Files follow.
        starter: the words of `--starter`.
        width: most agents that one process starts.
        patience: seconds that an agent has to start.
        heartbeat: seconds after which a stopped rank counts as stuck; 0 for never.
        silence: seconds of silence after which a host is given up; 0 for never.
    """

    name: str
    key: bytes
    size: int
    parts: list[Part]
    programs: list[list[Any]]
    directory: str
    environ: dict[str, str]
    prefork: bool
    bind_to: str
    stdin: int
    files: bool
    starter: list[str]
    width: int
    patience: float
    heartbeat: float
    silence: float

    def pack(self) -> dict[str, Any]:
        """Return it in types of msgpack."""
        return {**self._asdict(), "parts": [part._asdict() for part in self.parts]}

    @classmethod
    def unpack(cls, fields: dict[str, Any]) -> Plan:
        """Return the plan that `pack` has packed."""
        return cls(**{**fields, "parts": [Part(**part) for part in fields["parts"]]})
