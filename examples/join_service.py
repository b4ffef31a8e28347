"""Replicas of a web service that tell each other what they are told. No launcher starts them: they join a job.

    aiompi-launch --serve 2        starts nothing; prints the address, and AIOMPI_KEY_FILE=... on standard error
    export AIOMPI_KEY_FILE=...     in each other terminal, as printed
    python examples/join_service.py ADDRESS --port 8081
    python examples/join_service.py ADDRESS --port 8082
    curl -d 'hello' localhost:8081/notes
    curl localhost:8082/notes

The web framework owns the event loop, and joining is one more thing that it does at start-up. A replica that is
stopped waits for the others to be stopped, too (finalizing is collective). When one is killed, the others go on.
It needs aiohttp: pip install 'aiompi[examples]'
"""

import argparse
import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

from aiohttp import web

import aiompi


class Board:
    """The notes that this replica knows of."""

    def __init__(self, world: aiompi.World) -> None:
        self._world = world
        self.notes: list[dict[str, str | int]] = []

    async def post(self, text: str) -> None:
        """Keep a note here, and send it to the other replicas."""
        self.notes.append({"replica": self._world.rank, "text": text})
        others = set(range(self._world.size)) - {self._world.rank}
        sends = [self._world.isend(text, dest=rank) for rank in others]
        await asyncio.gather(*sends, return_exceptions=True)  # some may have failed

    async def listen(self) -> None:
        """Keep the notes that others send."""
        status = aiompi.Status()
        while True:
            try:
                text = await self._world.recv(source=aiompi.ANY_SOURCE, status=status)
            except aiompi.ProcessFailedError:
                self._world.Ack_failed()  # go on with the others
            else:
                self.notes.append({"replica": status.source, "text": text})


ADDRESS = web.AppKey("address", str)
BOARD = web.AppKey("board", Board)


async def take_part(app: web.Application) -> AsyncIterator[None]:
    """Be a rank of the job from the start of the service to its end. When the job fails, so does the service."""
    async with aiompi.join(app[ADDRESS]) as world:
        board = app[BOARD] = Board(world)
        listener = asyncio.create_task(board.listen())
        listener.add_done_callback(stop)
        yield
        listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listener


def stop(listener: asyncio.Task[None]) -> None:
    """End the service as a signal would, when there is nothing more to listen to."""
    if not listener.cancelled():
        signal.raise_signal(signal.SIGTERM)


async def get_notes(request: web.Request) -> web.Response:
    return web.json_response(request.app[BOARD].notes)


async def post_note(request: web.Request) -> web.Response:
    await request.app[BOARD].post(await request.text())
    return web.Response(status=201)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve notes, as one of several replicas.")
    parser.add_argument("address", metavar="HOST:PORT", help="as printed by aiompi-launch --serve")
    parser.add_argument("--port", type=int, default=8080, help="for HTTP; 0 for any free one")
    args = parser.parse_args()
    app = web.Application()
    app[ADDRESS] = args.address
    app.cleanup_ctx.append(take_part)
    app.add_routes([web.get("/notes", get_notes), web.post("/notes", post_note)])
    web.run_app(app, host="127.0.0.1", port=args.port)


if __name__ == "__main__":
    main()
