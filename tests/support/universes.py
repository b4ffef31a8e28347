"""Universes of IMPI clients for tests, without any start-up exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.impi.universe import Universe, host_identifier, place_clients, place_hosts, place_procs


def universe(*hosts: Sequence[int] | int, **values: Any) -> Universe:
    """Return a universe of clients that have only IMPI in common.

    Args:
        hosts: for each client how many procs each of its hosts has, or how many its only host has.
        values: fields of Universe other than the defaults.
    """
    shape = [[client] if isinstance(client, int) else list(client) for client in hosts]
    numbers = [nprocs for client in shape for nprocs in client]
    rows = [(host_identifier(f"192.0.2.{rank + 1}"), 5000 + rank, nprocs) for rank, nprocs in enumerate(numbers)]
    placed = place_hosts([len(client) for client in shape], rows)
    identities = [(placed[host].ipv6, 1000 + rank) for host, info in enumerate(placed) for rank in info.procs]
    fields: dict[str, Any] = {
        "version": (0, 0), "native": False, "datalen": 65536, "tagub": 2**31 - 1, "xsize": 1024, "maxlinear": 4,
        "ackmark": 10, "hiwater": 20,
    }  # fmt: skip
    return Universe(
        clients=place_clients(placed, [((0, 0),)] * len(shape)),
        hosts=placed,
        procs=place_procs(placed, identities),
        **{**fields, **values},
    )
