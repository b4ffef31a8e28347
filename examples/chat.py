"""A chat with WebSockets over all workers of a web server, which find each other by themselves.

    uvicorn --workers 4 --app-dir examples chat:app      runs examples/chat.py
    python -m websockets ws://127.0.0.1:8000/chat      in several terminals; each may reach another worker

All clients get the text that one client sends. The answer {"sent": text} comes when every worker has the text. Kill a
worker with kill -9: the clients of the others lose nothing, and uvicorn starts another worker, which joins. It needs
more packages: pip install fastapi uvicorn websockets
"""

import asyncio
import contextlib
import os

from fastapi import FastAPI, WebSocket

import aiompi

team = aiompi.Team()  # the workers of this server
app = FastAPI(lifespan=team.lifespan)


@team.handler
def process() -> int:
    return os.getpid()


@app.get("/workers")
async def workers() -> list[int]:
    """Ask all workers for their processes."""
    return [*await asyncio.gather(*(team.call(rank, "process", timeout=5) for rank in range(team.size)))]


@app.websocket("/chat")
async def chat(socket: WebSocket) -> None:
    texts = team.subscribe("chat", when_full="fail")  # so that a browser that does not read does not delay publishers
    await socket.accept()
    await socket.send_json({"worker": os.getpid()})

    async def show() -> None:
        try:
            async for text in texts:
                await socket.send_json({"said": text})
        except asyncio.QueueFull:  # 1,000 texts wait
            await socket.close()

    showing = asyncio.create_task(show())
    try:
        async for text in socket.iter_text():
            await team.publish("chat", text, confirm=True)
            await socket.send_json({"sent": text})
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await showing
