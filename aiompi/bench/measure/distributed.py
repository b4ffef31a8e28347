"""The works in the comms of Dask's distributed, over TCP; see `pair`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any, Final

from distributed.comm import connect as connect_to
from distributed.comm import listen
from distributed.protocol import to_serialize

from aiompi.bench.measure import channels

#: bytes from which distributed is faster with a separate frame for them; a few bytes take twice as long in one
_APART: Final = 256 * 2**10


class Channel:
    """A comm; bytes and objects travel in messages, which are dicts."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm

    async def put(self, data: bytes) -> None:
        """Send bytes."""
        await self._comm.write({"data": data if len(data) < _APART else to_serialize(data)})

    async def put_object(self, obj: Any) -> None:
        """Send any object."""
        await self._comm.write({"data": to_serialize(obj)})

    async def get(self) -> Any:
        """Receive bytes or an object."""
        return (await self._comm.read())["data"]

    get_object = get


@contextlib.asynccontextmanager
async def connect(sock: socket.socket, rank: int) -> AsyncIterator[Channel]:
    """Connect at an address that rank 0 sends."""
    if rank:
        with sock.makefile() as lines:
            comm = await connect_to(lines.readline().strip())
        yield Channel(comm)
        await comm.close()
        return
    accepted: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def accept(comm: Any) -> None:
        accepted.set_result(comm)

    async with listen("tcp://127.0.0.1:0", accept) as listener:
        sock.sendall(listener.contact_address.encode() + b"\n")
        comm = await accepted
        yield Channel(comm)
        await comm.close()


WORKS: Final = channels.works(connect)
