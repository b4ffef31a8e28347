"""The web application: the page over HTTP, and its events over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from socket import create_server
from typing import Final

from aiohttp import WSMsgType, web

from aiompi_launcher.conformance import archive, results
from aiompi_launcher.conformance.catalogue import MANUAL
from aiompi_launcher.conformance.session import Limits
from aiompi_launcher.conformance.web.bench import Bench, BenchError, Event
from aiompi_launcher.conformance.web.listener import RequestListener

_FILES: Final = Path(__file__).parent / "files"
_INACTIVE: Final = 60 * 60.0  # seconds after which a live connection is closed
_LONGEST: Final = 2**20  # bytes of a request
_KEPT: Final = 15.0  # seconds for which a connection without a request is kept
_SHUTDOWN: Final = 2.0  # seconds for requests at the end
_COOKIE: Final = "aiompi-impi-tester"
_PAGES: Final = {"/": "page.html", "/style.css": "style.css", "/page.js": "page.js", "/icon.svg": "icon.svg"}
_DOWNLOAD: Final = "attachment; filename="
_FORMATS: Final = {
    "txt": (results.as_text, "text/plain"),
    "json": (results.as_json, "application/json"),
    "xml": (results.as_junit, "application/xml"),
}
#: nothing from elsewhere, and no frames
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
#: time limits while the user starts a command by hand
PATIENT: Final = Limits(startup=15 * 60.0, quiet=15.0)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Tool:
    """The web application.

    Args:
        address: address on which the application and the simulated hosts listen.
        scripts: folder of the scripts.
        limits: how long tests wait.

    Attributes:
        token: secret that each request must contain. Even on loopback a secret is needed, because other users of the
            machine can connect.
    """

    def __init__(self, address: str, scripts: Path, limits: Limits = PATIENT) -> None:
        self.token = secrets.token_urlsafe()
        self._cookie = f"{_COOKIE}-{secrets.token_hex(4)}"  # browsers send cookies to all ports of a host
        self._address = address
        self._sockets: dict[web.WebSocketResponse, asyncio.Queue[Event]] = {}
        self._bench = Bench(address, scripts, limits, self._tell)

    def application(self) -> web.Application:
        """Return the application for aiohttp."""
        app = web.Application(middlewares=[self._guard], client_max_size=_LONGEST)
        app.router.add_get("/live", self._live)
        app.router.add_get("/script/{group}/{name}", self._script)
        app.router.add_get("/results.{format}", self._results)
        app.router.add_get("/manual", self._manual)
        app.router.add_get(f"/{archive.NAME}", self._interpreter)
        for path in _PAGES:
            app.router.add_get(path, self._page)
        app.cleanup_ctx.append(self._life)
        return app

    async def _life(self, app: web.Application) -> AsyncIterator[None]:
        yield
        for socket in list(self._sockets):
            await socket.close()
        await self._bench.close()

    # Access control.

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._check(request)
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
            if request.path == "/":
                response.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict")
        return response

    def _check(self, request: web.Request) -> None:
        """Refuse a request that lacks the token or comes from the page of another site, and close its connection."""
        given = request.query.get("token") or request.cookies.get(self._cookie) or ""
        origin = request.headers.get("Origin")
        refusal = ""
        if not hmac.compare_digest(given.encode(errors="replace"), self.token.encode()):
            refusal = "This page needs the token that the tester has printed.\n"
        elif origin is not None and origin.partition("://")[2] != request.host:
            refusal = "Requests come from the page itself.\n"
        if refusal:
            error = web.HTTPForbidden(text=refusal)
            error.force_close()
            raise error

    # Pages.

    async def _page(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(_FILES / _PAGES[request.path])

    async def _script(self, request: web.Request) -> web.StreamResponse:
        name = "{group}/{name}".format(**request.match_info)
        for script in self._bench.scripts():
            if script.name == name:
                return web.Response(text=script.source)
        raise web.HTTPNotFound(text=f"there is no script {name}\n")

    async def _results(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["format"] not in _FORMATS:
            raise web.HTTPNotFound(text=f"results are there as {', '.join(_FORMATS)}\n")
        write, kind = _FORMATS[request.match_info["format"]]
        name = f"impi-results.{request.match_info['format']}"
        headers = {"Content-Disposition": _DOWNLOAD + name}
        return web.Response(text=write(list(self._bench.results)), content_type=kind, headers=headers)

    async def _manual(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=MANUAL.read_text(encoding="utf8"))

    async def _interpreter(self, request: web.Request) -> web.StreamResponse:
        headers = {"Content-Disposition": _DOWNLOAD + archive.NAME}
        return web.Response(body=archive.interpreter(), content_type="application/zip", headers=headers)

    # The live connection.

    async def _live(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=30, receive_timeout=_INACTIVE, max_msg_size=_LONGEST)
        await socket.prepare(request)
        queue: asyncio.Queue[Event] = asyncio.Queue()
        for event in self._bench.snapshot():
            queue.put_nowait(event)
        self._sockets[socket] = queue
        writer = asyncio.create_task(self._write(socket, queue))
        try:
            await self._listen(socket, queue)
        finally:
            del self._sockets[socket]
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writer
        return socket

    async def _listen(self, socket: web.WebSocketResponse, queue: asyncio.Queue[Event]) -> None:
        with contextlib.suppress(TimeoutError):
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    continue
                try:
                    request = json.loads(message.data)
                    self._bench.act(request if isinstance(request, dict) else {})
                except (BenchError, ValueError, RecursionError) as error:
                    queue.put_nowait({"event": "error", "text": str(error)})

    async def _write(self, socket: web.WebSocketResponse, queue: asyncio.Queue[Event]) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await socket.send_str(json.dumps(await queue.get()))

    def _tell(self, event: Event) -> None:
        for queue in self._sockets.values():
            queue.put_nowait(event)


@contextlib.asynccontextmanager
async def opened(tool: Tool, address: str, port: int) -> AsyncIterator[str]:
    """Serve the page until the context ends; yield the URL of the page, which includes the token."""
    runner = web.AppRunner(tool.application(), keepalive_timeout=_KEPT, lingering_time=0.0, shutdown_timeout=_SHUTDOWN)
    await runner.setup()
    serve = runner.server
    assert serve is not None
    listener = create_server((address, port))
    url = f"http://{address}:{listener.getsockname()[1]}/?token={tool.token}"
    requests = RequestListener(listener, serve)
    try:
        yield url
    finally:
        requests.close()
        await runner.cleanup()


def serve(address: str, port: int, scripts: Path) -> int:
    """Serve the page until it is interrupted. Return the exit status."""

    async def run() -> None:
        over = asyncio.Event()
        for signum in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signum, over.set)
        async with opened(Tool(address, scripts), address, port) as url:
            print(f"aiompi-impi-tester: {url}", file=sys.stderr, flush=True)
            await over.wait()

    asyncio.run(run())
    return 0
