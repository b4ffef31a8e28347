"""The works in pyzmq's asyncio face, over ipc; see `pair`."""

from __future__ import annotations

import contextlib
import pickle
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import zmq
import zmq.asyncio

from aiompi.bench.measure import channels

#: bytes from which pyzmq sends memory without a copy; for fewer bytes a copy costs less
_UNCOPIED: Final = 64 * 2**10


class Channel:
    """A socket of type PAIR."""

    def __init__(self, sock: zmq.asyncio.Socket) -> None:
        self._sock = sock

    async def put(self, data: bytes) -> None:
        """Send bytes."""
        await self._sock.send(data, copy=len(data) < _UNCOPIED)

    async def get(self) -> Any:
        """Receive bytes."""
        return await self._sock.recv(copy=False)

    async def put_object(self, obj: Any) -> None:
        """Send any object, its arrays as frames of their own."""
        arrays: list[pickle.PickleBuffer] = []
        data = pickle.dumps(obj, pickle.HIGHEST_PROTOCOL, buffer_callback=arrays.append)
        await self._sock.send_multipart([data, *arrays], copy=False)

    async def get_object(self) -> Any:
        """Receive any object."""
        data, *arrays = await self._sock.recv_multipart(copy=False)
        return pickle.loads(data.buffer, buffers=[array.buffer for array in arrays])


@contextlib.asynccontextmanager
async def connect(sock: socket.socket, rank: int) -> AsyncIterator[Channel]:
    """Connect at a socket in the file system, whose path rank 0 sends."""
    with (
        tempfile.TemporaryDirectory() as directory,
        zmq.asyncio.Context() as context,
        context.socket(zmq.PAIR) as way,
    ):
        if rank == 0:
            address = f"ipc://{Path(directory) / 'zmq'}"
            way.bind(address)
            sock.sendall(address.encode() + b"\n")
        else:
            with sock.makefile() as lines:
                way.connect(lines.readline().strip())
        yield Channel(way)


WORKS: Final = channels.works(connect)
