"""The page on a port of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import ClientSession, CookieJar

from aiompi_launcher.conformance.web.app import Tool, opened


@contextlib.asynccontextmanager
async def serving(tool: Tool) -> AsyncIterator[str]:
    """The address of a running tool, with the token."""
    async with opened(tool, "127.0.0.1", 0) as url:
        yield url


@contextlib.asynccontextmanager
async def visiting(tool: Tool) -> AsyncIterator[tuple[str, ClientSession]]:
    """The address of a running tool, and a client that has opened its page with the token."""
    async with serving(tool) as url, ClientSession(cookie_jar=CookieJar(unsafe=True)) as client:
        async with client.get(url) as response:
            response.raise_for_status()
        yield url.partition("/?")[0], client
