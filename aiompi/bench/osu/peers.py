"""The peers that can run the micro-benchmarks: the faces of aiompi, and the libraries that they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from aiompi.bench import contender
from aiompi.bench.contender import Contender
from aiompi.bench.osu.benchmarks import Benchmark


class Peer(NamedTuple):
    """A library or face that is measured.

    Attributes:
        start: returns the contender for a number of ranks; raises BenchError if the peer is not installed.
        works: names of the two-process measurements that the peer can run; None if it can run all measurements.
        stream: True if the peer is a byte stream, which cannot send an empty message.
    """

    start: Callable[[int], Contender]
    works: frozenset[str] | None = None
    stream: bool = False

    def can(self, benchmark: Benchmark) -> bool:
        """Return True if the peer can run a benchmark."""
        return self.works is None or (benchmark.ranks == 2 and benchmark.work["work"] in self.works)

    def sends(self, benchmark: Benchmark, nbytes: int | None) -> bool:
        """Return True if the peer can send a message of this size. Objects and calls are never empty."""
        return not (self.stream and benchmark.work["work"] == "latency" and nbytes == 0)


_MESSAGES: Final = frozenset({"latency", "bandwidth", "objects"})
_CHANNELS: Final = _MESSAGES | {"bandwidth_both_ways"}

#: always measured; all other peers are compared with the first one
OURS: Final[Mapping[str, Peer]] = {
    "aiompi": Peer(contender.aiompi_job),
    "asyncio": Peer(lambda ranks: contender.aiompi_job(ranks, face="native")),
}
#: measured if --compare names them
PEERS: Final[Mapping[str, Peer]] = {
    "mpi4py": Peer(contender.mpich_job),
    "pkl5": Peer(lambda ranks: contender.mpich_job(ranks, "pkl5"), frozenset({"objects"})),
    "openmpi": Peer(contender.openmpi_job),
    "socket": Peer(lambda _: contender.SOCKET, _MESSAGES, stream=True),
    "uvloop": Peer(lambda _: contender.uvloop_pair(), _MESSAGES, stream=True),
    "distributed": Peer(lambda _: contender.distributed_pair(), _CHANNELS),
    "pyzmq": Peer(lambda _: contender.zmq_pair(), _CHANNELS),
}
