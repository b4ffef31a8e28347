"""Listeners end without losing connections."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket

import pytest

from aiompi_launcher.conformance.wire.listener import Listener, settle
from support.limits import LIMIT


@pytest.mark.asyncio
async def test_connections_of_the_last_moment_are_closed():
    """Also those that the loop has accepted in the round in which the listener is closed."""
    taken: list[asyncio.StreamWriter] = []
    for rounds in range(6):
        listener = Listener(lambda reader, writer: taken.append(writer))
        address = await listener.start("127.0.0.1")
        strangers = [socket.create_connection(address) for _ in range(5)]
        for _ in range(rounds):
            await asyncio.sleep(0)
        listener.close()
        await settle()
        for stranger in strangers:
            stranger.settimeout(LIMIT)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
            stranger.close()
    assert all(writer.is_closing() for writer in taken)
    gc.collect()  # what is not closed warns, which is an error


@pytest.mark.asyncio
async def test_what_has_come_stays_when_no_more_is_accepted():
    taken: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    listener = Listener(lambda reader, writer: taken.put_nowait(writer))
    address = await listener.start("127.0.0.1")
    reader, writer = await asyncio.open_connection(*address)
    (await taken.get()).write(b"here")
    listener.stop()
    await settle()
    assert await reader.readexactly(4) == b"here"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)
    listener.close()
    await settle()
    writer.close()
    await writer.wait_closed()


@pytest.mark.asyncio
async def test_listeners_that_are_cancelled_while_they_start_are_closed():
    for rounds in range(12):
        listener = Listener(lambda reader, writer: None)
        task = asyncio.create_task(listener.start("127.0.0.1"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        listener.close()
        await settle()
    del listener, task
    gc.collect()  # what is not closed warns, which is an error
