"""Measures only how fast one process wakes another by a word in shared memory; see `pair`.

A message to a sleeping process cannot take less time than this wake-up.
"""

from __future__ import annotations

import mmap
import os
import select
import socket

from aiompi.bench.measure.turns import timed


def latency(sock: socket.socket, rank: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a word in shared memory. The writer signals an eventfd, the reader waits in epoll."""
    bell, memory = os.eventfd(0, os.EFD_NONBLOCK), os.memfd_create("word")
    os.ftruncate(memory, mmap.PAGESIZE)
    socket.send_fds(sock, [b"!"], [bell, memory])
    _, (other_bell, other_memory), _, _ = socket.recv_fds(sock, 1, 2)
    incoming = memoryview(mmap.mmap(memory, mmap.PAGESIZE)).cast("Q")
    outgoing = memoryview(mmap.mmap(other_memory, mmap.PAGESIZE)).cast("Q")
    bells = select.epoll()
    bells.register(bell, select.EPOLLIN | select.EPOLLET)  # epoll reports each write, so that no read is needed
    number = 0

    def send() -> None:
        outgoing[0] = number
        os.eventfd_write(other_bell, 1)

    def receive() -> None:
        while incoming[0] != number:
            bells.poll(None, 1)

    first, second = (receive, send) if rank else (send, receive)

    def loop(n: int) -> None:
        nonlocal number
        for _ in range(n):
            number += 1
            first()
            second()

    try:
        return timed(loop, iterations, blocks)
    finally:
        bells.close()
        for descriptor in (bell, memory, other_bell, other_memory):
            os.close(descriptor)


WORKS = {work.__name__: work for work in (latency,)}
