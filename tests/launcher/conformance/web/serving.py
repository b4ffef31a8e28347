"""The page on a port of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from aiompi_launcher.conformance.web.app import Tool


@contextlib.asynccontextmanager
async def serving(tool: Tool) -> AsyncIterator[str]:
    """The address of a running tool."""
    runner = web.AppRunner(tool.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
