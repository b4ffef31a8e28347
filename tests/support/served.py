"""Web applications whose workers are a team: the answer counts the requests, and has the processes of all workers."""

from __future__ import annotations

from typing import Final

_TEAM: Final = """
import asyncio, os, socket
import aiompi

team = aiompi.Team(os.environ.get("JOB"))
requests = team.shared_dict("requests")

@team.handler
def process():
    return f"{socket.gethostname()} {os.getpid()}"

async def answer():
    calls = [team.call(rank, "process", timeout=5) for rank in range(team.size)]
    return [await requests.add("all"), await asyncio.gather(*calls)]

async def while_serving(app=None):
    async with team:
        yield
"""

#: the application is `app`; JOB is the address of the job unless the workers are to find each other
PROGRAM: Final = f"""{_TEAM}
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def respond(request):
    return JSONResponse(await answer())

app = Starlette(lifespan=team.lifespan, routes=[Route("/", respond)])
"""

AIOHTTP: Final = f"""{_TEAM}
from aiohttp import web

async def respond(request):
    return web.json_response(await answer())

app = web.Application()
app.add_routes([web.get("/", respond)])
app.cleanup_ctx.append(while_serving)
"""

LITESTAR: Final = f"""{_TEAM}
from litestar import Litestar, get

@get("/")
async def respond() -> list:
    return await answer()

app = Litestar([respond], lifespan=[team.lifespan])
"""

QUART: Final = f"""{_TEAM}
from quart import Quart, jsonify

app = Quart(__name__)
app.while_serving(while_serving)

@app.get("/")
async def respond():
    return jsonify(await answer())
"""
