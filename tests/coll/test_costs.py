"""What the docstrings say about messages and bytes, held against what is sent."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.coll.registry import COLLECTIVES
from aiompi.op import SUM

CALLS = {
    "barrier": lambda comm, m: buffers.barrier(comm),
    "bcast": lambda comm, m: buffers.bcast(comm, np.zeros(m, "B"), 1),
    "gather": lambda comm, m: buffers.gather(comm, np.zeros(m, "B"), np.zeros(m * comm.size, "B"), 1),
    "scatter": lambda comm, m: buffers.scatter(comm, np.zeros(m * comm.size, "B"), np.zeros(m, "B"), 1),
    "allgather": lambda comm, m: buffers.allgather(comm, np.zeros(m, "B"), np.zeros(m * comm.size, "B")),
    "alltoall": lambda comm, m: buffers.alltoall(comm, np.zeros(m * comm.size, "B"), np.zeros(m * comm.size, "B")),
    "reduce": lambda comm, m: buffers.reduce(comm, np.zeros(m, "B"), np.zeros(m, "B"), SUM, 1),
    "allreduce": lambda comm, m: buffers.allreduce(comm, np.zeros(m, "B"), np.zeros(m, "B"), SUM),
}


def log2(n):
    """Rounded up."""
    return (n - 1).bit_length()


def allreduce_doubling(n):
    power = 1 << (n.bit_length() - 1)
    folded = n - power
    return power.bit_length() - 1 + (1 if folded else 0), power * (power.bit_length() - 1) + 2 * folded


# (collective, algorithm) -> number of ranks -> blocks sent by the busiest rank, by all ranks together.
# A message carries one block of m bytes; those of a barrier carry none.
BLOCKS = {
    ("barrier", "dissemination"): lambda n: (log2(n), n * log2(n)),
    ("bcast", "binomial"): lambda n: (log2(n), n - 1),
    ("gather", "linear"): lambda n: (1, n - 1),
    ("scatter", "linear"): lambda n: (n - 1, n - 1),
    ("allgather", "ring"): lambda n: (n - 1, n * (n - 1)),
    ("alltoall", "linear"): lambda n: (n - 1, n * (n - 1)),
    ("reduce", "binomial"): lambda n: (1, n - 1),
    ("allreduce", "recursive_doubling"): allreduce_doubling,
}


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize(
    ("name", "algorithm"), [(name, algorithm) for name in COLLECTIVES for algorithm in COLLECTIVES[name].algorithms]
)
def test_messages_and_bytes(name, algorithm, size, world):
    ranks = world(size, coll={name: algorithm})
    ranks.results(lambda comm: CALLS[name](comm, 10))
    busiest, together = BLOCKS[name, algorithm](size)
    sent = [counter["messages"] for counter in ranks.sent]
    assert (max(sent), sum(sent)) == (busiest, together)
    block = 0 if name == "barrier" else 10
    assert [counter["bytes"] for counter in ranks.sent] == [messages * block for messages in sent]
