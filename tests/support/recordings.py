"""Traffic of another IMPI implementation, as recorded in `impi/recorded`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "impi" / "recorded"
SERVER_PORTS = ("9283", "9290")


@dataclasses.dataclass(frozen=True)
class Connection:
    """Both directions of a TCP connection.

    Attributes:
        job: folder of the recording.
        connector, acceptor: the two ends, as "address_port".
        sent, answered: what the connector sent, and what the acceptor did.
    """

    job: str
    connector: str
    acceptor: str
    sent: bytes
    answered: bytes

    @property
    def between_hosts(self) -> bool:
        """True if it is a channel, and not a client's connection to the server."""
        return not self.acceptor.endswith(SERVER_PORTS)


def connections(job: str) -> list[Connection]:
    """The connections of a recorded job, in the order in which they opened."""
    paths = sorted((FOLDER / job).glob("*.bin"))
    found = []
    for sent, answered in zip(paths[::2], paths[1::2], strict=True):
        connector, acceptor = sent.stem.split("_", 1)[1].split("-")
        found.append(Connection(job, connector, acceptor, sent.read_bytes(), answered.read_bytes()))
    return found


JOBS = ("authkey", "showcase", "showcase_fixed", "three_fixed")
EVERY = [connection for job in JOBS for connection in connections(job)]
CHANNELS = [connection for connection in EVERY if connection.between_hosts]
