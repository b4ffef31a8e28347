"""Measurements over a bare Unix socket, the floor (lower bound) for blocking calls in Python."""

from __future__ import annotations

import pickle
import socket
import struct
import time
from typing import Any, Final

from aiompi.bench.measure.turns import timed

_LENGTH: Final = struct.Struct("<Q")


def send(sock: socket.socket, view: memoryview) -> None:
    """Send all bytes."""
    sock.sendall(view)


def receive(sock: socket.socket, view: memoryview) -> None:
    """Fill the buffer."""
    missing = len(view)
    while missing:
        nbytes = sock.recv_into(view[-missing:])
        if not nbytes:
            raise EOFError("the other process has ended")
        missing -= nbytes


def latency(sock: socket.socket, rank: int, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a message."""
    sent, received = (memoryview(bytearray(b"\1") * nbytes) for _ in range(2))

    def lead(n: int) -> None:
        for _ in range(n):
            send(sock, sent)
            receive(sock, received)

    def follow(n: int) -> None:
        for _ in range(n):
            receive(sock, received)
            send(sock, sent)

    return timed(follow if rank else lead, iterations, blocks)


def bandwidth(sock: socket.socket, rank: int, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per window of messages and the answer to them."""
    view = memoryview(bytearray(b"\1") * nbytes)
    token = memoryview(bytearray(1))

    def lead(n: int) -> None:
        for _ in range(n):
            for _ in range(window):
                send(sock, view)
            receive(sock, token)

    def follow(n: int) -> None:
        for _ in range(n):
            for _ in range(window):
                receive(sock, view)
            send(sock, token)

    return timed(follow if rank else lead, iterations, blocks)


def objects(
    sock: socket.socket, rank: int, payload: str, iterations: int, blocks: int, nbytes: int = 2**20
) -> list[float]:
    """Seconds per round trip of a pickled object."""
    from aiompi.bench.measure import payloads  # imports NumPy, which the other measurements do without

    obj = payloads.make(payload, nbytes)
    header = memoryview(bytearray(_LENGTH.size))

    def put(value: Any) -> None:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        sock.sendmsg([_LENGTH.pack(len(data)), data])

    def get() -> Any:
        receive(sock, header)
        data = bytearray(_LENGTH.unpack(header)[0])
        receive(sock, memoryview(data))
        return pickle.loads(data)

    def lead(n: int) -> None:
        for _ in range(n):
            put(obj)
            get()

    def follow(n: int) -> None:
        for _ in range(n):
            put(get())

    return timed(follow if rank else lead, iterations, blocks)


def idle(sock: socket.socket, rank: int, seconds: float) -> float:
    """CPU seconds that a process has used while it waited for a byte."""
    token = memoryview(bytearray(1))
    start = time.process_time()
    if rank == 0:
        time.sleep(seconds)
        send(sock, token)
    else:
        receive(sock, token)
    return time.process_time() - start


WORKS: Final = {work.__name__: work for work in (latency, bandwidth, objects, idle)}
