"""The web application: the page over HTTP, and its events over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import WSMsgType, web

from aiompi_launcher.conformance import archive, results
from aiompi_launcher.conformance.catalogue import MANUAL
from aiompi_launcher.conformance.session import Limits
from aiompi_launcher.conformance.web.bench import Bench, BenchError, Event

_FILES: Final = Path(__file__).parent / "files"
_INACTIVE: Final = 60 * 60.0  # seconds after which a live connection is closed
_LONGEST: Final = 2**20  # bytes of a request
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
        address: on which it listens, and on which simulated hosts do.
        scripts: folder of the scripts.
        limits: how long tests wait.

    Attributes:
        token: that requests must have, beyond loopback; empty on loopback.
    """

    def __init__(self, address: str, scripts: Path, limits: Limits = PATIENT) -> None:
        self.token = "" if ipaddress.ip_address(address).is_loopback else secrets.token_urlsafe()
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
            if self.token and request.path == "/":
                response.set_cookie(_COOKIE, self.token, httponly=True, samesite="Strict")
        return response

    def _check(self, request: web.Request) -> None:
        """Check requests: beyond loopback they need the token, on loopback one of its names, against foreign pages."""
        if self.token:
            given = request.query.get("token") or request.cookies.get(_COOKIE) or ""
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                raise web.HTTPForbidden(text="This page needs the token that the tester has printed.\n")
        elif _name(request.host) not in ("localhost", self._address):
            raise web.HTTPForbidden(text=f"This tester is at http://{self._address}.\n")
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.host:
            raise web.HTTPForbidden(text="Requests come from the page itself.\n")

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
                except (BenchError, json.JSONDecodeError) as error:
                    queue.put_nowait({"event": "error", "text": str(error)})

    async def _write(self, socket: web.WebSocketResponse, queue: asyncio.Queue[Event]) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await socket.send_str(json.dumps(await queue.get()))

    def _tell(self, event: Event) -> None:
        for queue in self._sockets.values():
            queue.put_nowait(event)


def _name(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def serve(address: str, port: int, scripts: Path) -> int:
    """Serve the page until it is interrupted. Return the exit status."""
    tool = Tool(address, scripts)
    token = f"?token={tool.token}" if tool.token else ""

    def announce(*_: object) -> None:
        print(f"aiompi-impi-tester: http://{address}:{port}/{token}", file=sys.stderr, flush=True)

    web.run_app(tool.application(), host=address, port=port, print=announce)
    return 0
