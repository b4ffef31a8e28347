"""Only the wake-up of a sleeping process, the minimum cost of a message to a sleeping process; see `pair`."""

from __future__ import annotations

import os
import socket

from aiompi.bench.measure.turns import timed


def latency(sock: socket.socket, rank: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of two eventfds."""
    own = os.eventfd(0)
    socket.send_fds(sock, [b"!"], [own])
    _, (other,), _, _ = socket.recv_fds(sock, 1, 1)

    def lead(n: int) -> None:
        for _ in range(n):
            os.eventfd_write(other, 1)
            os.eventfd_read(own)

    def follow(n: int) -> None:
        for _ in range(n):
            os.eventfd_read(own)
            os.eventfd_write(other, 1)

    try:
        return timed(follow if rank else lead, iterations, blocks)
    finally:
        os.close(own)
        os.close(other)


WORKS = {work.__name__: work for work in (latency,)}
