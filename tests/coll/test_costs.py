"""The messages and bytes in the docstrings of algorithms, compared with what is sent."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.coll.accumulator import VectorAccumulator
from aiompi.coll.algorithms import bcast
from aiompi.coll.registry import COLLECTIVES
from aiompi.coll.select import select
from aiompi.datatype import resolve_send
from aiompi.op import SUM
from support.cases import cases

ROOT = 1
SEGMENT = 1000


def reduction(comm, name, m, *args):
    accumulator = VectorAccumulator(resolve_send(np.zeros(m, "B")), None, SUM)
    algorithm = select(comm, COLLECTIVES[name], m)
    return comm.start(lambda channel: algorithm(channel, accumulator, *args), name)


# With blocks or vectors of m bytes.
CALLS = {
    "barrier": lambda comm, m: buffers.barrier(comm),
    "bcast": lambda comm, m: buffers.bcast(comm, np.zeros(m, "B"), ROOT),
    "gather": lambda comm, m: buffers.gather(comm, np.zeros(m, "B"), np.zeros(m * comm.size, "B"), ROOT),
    "scatter": lambda comm, m: buffers.scatter(comm, np.zeros(m * comm.size, "B"), np.zeros(m, "B"), ROOT),
    "allgather": lambda comm, m: buffers.allgather(comm, np.zeros(m, "B"), np.zeros(m * comm.size, "B")),
    "alltoall": lambda comm, m: buffers.alltoall(comm, np.zeros(m * comm.size, "B"), np.zeros(m * comm.size, "B")),
    "reduce": lambda comm, m: buffers.reduce(comm, np.zeros(m, "B"), np.zeros(m, "B"), SUM, ROOT),
    "allreduce": lambda comm, m: buffers.allreduce(comm, np.zeros(m, "B"), np.zeros(m, "B"), SUM),
    "reduce_scatter": lambda comm, m: reduction(comm, "reduce_scatter", m, [m // comm.size] * comm.size),
    "scan": lambda comm, m: reduction(comm, "scan", m),
    "exscan": lambda comm, m: reduction(comm, "exscan", m),
}


def log2(n):
    """Return the logarithm, rounded up."""
    return (n - 1).bit_length()


def below(place, n):
    """Return the bits that lead from a place in a binomial tree to its children, and the number of places below it."""
    lowest = place & -place or 1 << log2(n)
    bits = [1 << i for i in range(log2(n)) if 1 << i < lowest and place + (1 << i) < n]
    return bits, min(lowest, n - place) - 1


def places(n):
    """Of all ranks, counted from the root."""
    return [(rank - ROOT) % n for rank in range(n)]


def everyone(n, messages, nbytes):
    return [(messages, nbytes)] * n


def tree(n, block, total=None):
    """Return what is sent down a binomial tree of n ranks; each gets its block and those of all ranks below it."""
    found = [below(place, n) if place < n else ([], 0) for place in places(total or n)]
    return [(len(bits), following * block) for bits, following in found]


def both(*sent):
    """Sum of what one rank sends in parts of an algorithm."""
    return tuple(map(sum, zip(*sent, strict=True)))


def plus(*parts):
    """Sum of what each rank sends in parts of an algorithm."""
    return [both(*rank) for rank in zip(*parts, strict=True)]


def power_of(n):
    return 1 << (n.bit_length() - 1)


def folded(n, m, inner, after):
    """Of pairs the odd rank sends m bytes first, and `after` are sent back.

    Args:
        inner: what is sent in between, by position.
    """
    pairs, sent = n - power_of(n), []
    for position, exchanged in enumerate(inner):
        sent += [both(exchanged, (1, after)), (1, m)] if position < pairs else [exchanged]
    return sent


def weights(n):
    """Return the number of ranks that a position represents."""
    pairs = n - power_of(n)
    return [2] * pairs + [1] * (power_of(n) - pairs)


def scatter_doubling(n, m):
    p = power_of(n)
    exchange = [(log2(p), (p - 1) * m // p) if place < p else (0, 0) for place in places(n)]
    return plus(tree(p, m // p, n), exchange, [(1, m) if place + p < n else (0, 0) for place in places(n)])


def chain(n, m):
    return [(-(-m // SEGMENT) or 1, m) if place != n - 1 else (0, 0) for place in places(n)]


def allgather_doubling(n, m):
    """The blocks of pairs travel together."""
    steps, inner = log2(power_of(n)), []
    for position in range(power_of(n)):
        held = [weights(n)[position & -(1 << i) :][: 1 << i] for i in range(steps)]
        inner.append((steps, m * sum(map(sum, held))))
    return folded(n, m, inner, (n - 1) * m)


def allreduce(n, m, rounds, nbytes):
    return folded(n, m, everyone(power_of(n), rounds * log2(power_of(n)), nbytes), m)


def reduce_rabenseifner(n, m):
    """All ranks but the root send their piece once, doubled in the steps before; in the pair of the root, 0 sends."""
    p, sent = power_of(n), []
    pairs = n - p
    target = ROOT // 2 if pairs else ROOT
    for position in range(p):
        apart = position ^ target
        # The highest bit in which it differs from the root decides in which step it sends.
        gathered = (1, m >> apart.bit_length()) if apart else (0, 0)
        survivor = both((log2(p), (p - 1) * m // p), gathered)
        pair = [(1, m), survivor] if position == 0 else [survivor, (1, m)]
        sent += pair if position < pairs else [survivor]
    return sent


def halving(n, m):
    """A rank gives away the segments of the other half, which has more of them where there are pairs."""
    steps, inner = log2(power_of(n)), []
    for position in range(power_of(n)):
        given = [weights(n)[(position & -(1 << i)) ^ (1 << i) :][: 1 << i] for i in range(steps)]
        inner.append((steps, m // n * sum(map(sum, given))))
    return folded(n, m, inner, m // n)


def doubling(n, m, first=0):
    """A scan of the ranks from `first` on."""
    steps = [[rank >= first and rank + (1 << i) < n for i in range(log2(n - first))] for rank in range(n)]
    return [(sum(sends), m * sum(sends)) for sends in steps]


def chain_up(n, m):
    return [*everyone(n - 1, 1, m), (0, 0)]


def exscan_doubling(n, m):
    return plus(chain_up(n, m), doubling(n, m, 1))


# (collective, algorithm) -> number of ranks n, bytes m -> messages and bytes that each rank sends, to ranks with which
# it shares no memory.
SENT = {
    ("barrier", "shm"): lambda n, m: everyone(n, log2(n), 0),
    ("barrier", "dissemination"): lambda n, m: everyone(n, log2(n), 0),
    ("bcast", "binomial"): lambda n, m: [(len(below(p, n)[0]), m * len(below(p, n)[0])) for p in places(n)],
    ("bcast", "linear"): lambda n, m: [(0, 0) if place else (n - 1, (n - 1) * m) for place in places(n)],
    ("bcast", "shm"): lambda n, m: [(0, 0) if place else (n - 1, (n - 1) * m) for place in places(n)],
    ("bcast", "scatter_ring"): lambda n, m: plus(tree(n, m // n), everyone(n, n - 1, (n - 1) * m // n)),
    ("bcast", "scatter_recursive_doubling"): scatter_doubling,
    ("bcast", "pipelined_chain"): chain,
    ("gather", "binomial"): lambda n, m: [(1, m * (1 + below(p, n)[1])) if p else (0, 0) for p in places(n)],
    ("gather", "linear"): lambda n, m: [(1, m) if place else (0, 0) for place in places(n)],
    ("gather", "shm"): lambda n, m: [(1, m) if place else (0, 0) for place in places(n)],
    ("scatter", "binomial"): tree,
    ("scatter", "linear"): lambda n, m: [(0, 0) if place else (n - 1, (n - 1) * m) for place in places(n)],
    ("scatter", "shm"): lambda n, m: [(0, 0) if place else (n - 1, (n - 1) * m) for place in places(n)],
    ("allgather", "bruck"): lambda n, m: everyone(n, log2(n), (n - 1) * m),
    ("allgather", "shm"): lambda n, m: everyone(n, log2(n), (n - 1) * m),
    ("allgather", "linear"): lambda n, m: everyone(n, n - 1, (n - 1) * m),
    ("allgather", "recursive_doubling"): allgather_doubling,
    ("allgather", "ring"): lambda n, m: everyone(n, n - 1, (n - 1) * m),
    ("alltoall", "shm"): lambda n, m: everyone(n, n - 1, (n - 1) * m),
    ("alltoall", "bruck"): lambda n, m: everyone(n, log2(n), m * sum(i.bit_count() for i in range(n))),
    ("alltoall", "linear"): lambda n, m: everyone(n, n - 1, (n - 1) * m),
    ("alltoall", "pairwise"): lambda n, m: everyone(n, n - 1, (n - 1) * m),
    ("reduce", "binomial"): lambda n, m: [(1, m) if place else (0, 0) for place in places(n)],
    ("reduce", "shm"): lambda n, m: [(1, m) if place else (0, 0) for place in places(n)],
    ("reduce", "linear"): lambda n, m: [(1, m) if place else (0, 0) for place in places(n)],
    ("reduce", "rabenseifner"): reduce_rabenseifner,
    ("allreduce", "shm"): lambda n, m: allreduce(n, m, 1, m * log2(power_of(n))),
    ("allreduce", "linear"): lambda n, m: everyone(n, 2 * (n - 1), 2 * (n - 1) * m // n),
    ("allreduce", "recursive_doubling"): lambda n, m: allreduce(n, m, 1, m * log2(power_of(n))),
    ("allreduce", "rabenseifner"): lambda n, m: allreduce(n, m, 2, 2 * (power_of(n) - 1) * m // power_of(n)),
    ("allreduce", "ring"): lambda n, m: everyone(n, 2 * (n - 1), 2 * (n - 1) * m // n),
    ("reduce_scatter", "recursive_halving"): halving,
    ("reduce_scatter", "pairwise"): lambda n, m: everyone(n, n - 1, (n - 1) * m // n),
    ("reduce_scatter", "shm"): lambda n, m: everyone(n, n - 1, (n - 1) * m // n),
    ("scan", "shm"): doubling,
    ("scan", "recursive_doubling"): doubling,
    ("scan", "linear"): chain_up,
    ("exscan", "shm"): exscan_doubling,
    ("exscan", "recursive_doubling"): exscan_doubling,
}  # fmt: skip
# Where no ranks share memory, each is a host of its own; for others see test_two_level.py.
SENT |= {
    (name, "two_level"): SENT[name, algorithm]
    for name, algorithm in {
        "barrier": "dissemination", "bcast": "binomial", "gather": "linear", "scatter": "linear", "allgather": "ring",
        "alltoall": "linear", "reduce": "binomial", "allreduce": "recursive_doubling",
    }.items()
}  # fmt: skip


@cases("size", [2, 3, 4, 5, 6, 7, 8, 9])
@pytest.mark.parametrize(
    ("name", "algorithm"), [(name, algorithm) for name in COLLECTIVES for algorithm in COLLECTIVES[name].algorithms]
)
@cases("nbytes", [0, 2520])  # what all sizes can cut into equal pieces
def test_messages_and_bytes_of_each_rank(name, algorithm, size, nbytes, world, monkeypatch):
    monkeypatch.setattr(bcast, "SEGMENT", SEGMENT)
    ranks = world(size, coll={name: algorithm})
    ranks.results(lambda comm: CALLS[name](comm, nbytes))
    assert [(counter["messages"], counter["bytes"]) for counter in ranks.sent] == SENT[name, algorithm](size, nbytes)
