"""The works over a bare Unix socket: the floor for blocking calls in Python."""

from __future__ import annotations

import pickle
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from aiompi.bench.measure.turns import timed

_LENGTH: Final = struct.Struct("<Q")

#: sends or receives all bytes of a buffer
Mover: TypeAlias = Callable[[socket.socket, memoryview], None]


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


def send_polled(sock: socket.socket, view: memoryview) -> None:
    """Send all bytes through a non-blocking socket."""
    writable = select.poll()
    writable.register(sock, select.POLLOUT)
    while view:
        try:
            view = view[sock.sendmsg([view]) :]
        except BlockingIOError:
            writable.poll()


def receive_polled(sock: socket.socket, view: memoryview) -> None:
    """Fill the buffer from a non-blocking socket."""
    readable = select.poll()
    readable.register(sock, select.POLLIN)
    while view:
        try:
            nbytes = sock.recv_into(view)
        except BlockingIOError:
            readable.poll()
            continue
        if not nbytes:
            raise EOFError("the other process has ended")
        view = view[nbytes:]


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
    return _bandwidth(sock, rank, nbytes, window, iterations, blocks, send, receive)


def bandwidth_polled(
    sock: socket.socket, rank: int, nbytes: int, window: int, iterations: int, blocks: int
) -> list[float]:
    """The same with non-blocking system calls."""
    sock.setblocking(False)
    try:
        return _bandwidth(sock, rank, nbytes, window, iterations, blocks, send_polled, receive_polled)
    finally:
        sock.setblocking(True)


def _bandwidth(
    sock: socket.socket,
    rank: int,
    nbytes: int,
    window: int,
    iterations: int,
    blocks: int,
    put: Mover,
    get: Mover,
) -> list[float]:
    view = memoryview(bytearray(b"\1") * nbytes)
    token = memoryview(bytearray(1))

    def lead(n: int) -> None:
        for _ in range(n):
            for _ in range(window):
                put(sock, view)
            get(sock, token)

    def follow(n: int) -> None:
        for _ in range(n):
            for _ in range(window):
                get(sock, view)
            put(sock, token)

    return timed(follow if rank else lead, iterations, blocks)


def objects(
    sock: socket.socket, rank: int, payload: str, iterations: int, blocks: int, nbytes: int = 2**20
) -> list[float]:
    """Seconds per round trip of a pickled object."""
    from aiompi.bench.measure import payloads

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


def memory(sock: socket.socket, rank: int, nbytes: int) -> int:
    """Bytes by which a transfer raises the peak of resident memory above its buffer."""
    from aiompi.bench.measure import payloads

    view = payloads.touched(nbytes).data
    before = payloads.peak_memory()
    if rank == 0:
        send(sock, view)
    else:
        receive(sock, view)
    return payloads.peak_memory() - before


WORKS: Final = {work.__name__: work for work in (latency, bandwidth, bandwidth_polled, objects, idle, memory)}
