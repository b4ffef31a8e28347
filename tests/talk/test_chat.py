"""The chat over the workers of uvicorn: kill -9 under load loses no acknowledged message, and doubles none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import urllib.request
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from support.jobs import Site
from support.limits import LIMIT

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKERS = 4


class Chat:
    """The clients of a chat, and what was acknowledged to any of them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.acknowledged: list[str] = []
        self.over = False

    async def enter(self) -> tuple[ClientConnection, int]:
        """Return a connection, and the process of its worker."""
        while True:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                connection = await connect(f"ws://127.0.0.1:{self._port}/chat")
                with contextlib.suppress(WebSocketException):
                    return connection, json.loads(await connection.recv())["worker"]
                await connection.close()
            await asyncio.sleep(0.05)

    async def write(self, name: str) -> None:
        """Send texts one by one; after the end of a connection go on with another worker."""
        number = 0
        while not self.over:
            connection, _ = await self.enter()
            with contextlib.suppress(WebSocketException):
                while not self.over:
                    number += 1
                    await connection.send(f"{name} {number}")
                    while "sent" not in (message := json.loads(await connection.recv())):
                        pass
                    self.acknowledged.append(message["sent"])
            await connection.close()

    async def listen(self, connection: ClientConnection, heard: list[str]) -> None:
        with contextlib.suppress(WebSocketException):
            async for message in connection:
                heard.extend(json.loads(message).get("said", "").splitlines())

    async def workers(self, others: set[int]) -> list[int]:
        """Return the processes of the workers, once they are complete without some."""
        while True:
            with contextlib.suppress(OSError, ValueError):
                url = f"http://127.0.0.1:{self._port}/workers"
                found = json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=5).read()))
                if len(found) == WORKERS and not others & {*found}:
                    return [int(pid) for pid in found]
            await asyncio.sleep(0.1)


async def play(port: int) -> None:
    chat = Chat(port)
    pids = await chat.workers(set())
    victims = {pids[0], pids[2]}  # the oldest one, and another
    heard: list[str] = []
    connection, worker = await chat.enter()
    while worker != pids[1]:
        await connection.close()
        connection, worker = await chat.enter()
    listening = asyncio.create_task(chat.listen(connection, heard))
    writing = [asyncio.create_task(chat.write(f"writer {n}")) for n in range(4)]
    for victim in victims:
        before = len(chat.acknowledged)
        while len(chat.acknowledged) < before + 100:
            await asyncio.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
    await chat.workers(victims)
    before = len(chat.acknowledged)
    while len(chat.acknowledged) < before + 100:
        await asyncio.sleep(0.01)
    chat.over = True
    await asyncio.gather(*writing)
    while not {*chat.acknowledged} <= {*heard}:
        await asyncio.sleep(0.01)
    await connection.close()
    await listening
    assert len(heard) == len({*heard}), "none twice"
    for n in range(4):
        numbers = [int(text.split()[2]) for text in heard if text.startswith(f"writer {n} ")]
        assert numbers == sorted(numbers)


def test_kill_9_loses_no_acknowledged_message_and_doubles_none(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--workers", str(WORKERS), "--port", str(port), "--app-dir"]
    server = site.start(*command, str(EXAMPLES), "--log-level", "warning", "chat:app")
    asyncio.run(asyncio.wait_for(play(port), 2 * LIMIT))
    server.signal(signal.SIGTERM)
    server.finish()
    site.settle()
