"""A web application whose workers are a team: its answer counts the requests, and has the processes of all workers."""

from __future__ import annotations

from typing import Final

#: the application is `app`; JOB is the address of the job unless the workers are to find each other
PROGRAM: Final = """
import asyncio, os, socket
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
import aiompi

team = aiompi.Team(os.environ.get("JOB"))
requests = team.shared_dict("requests")

@team.handler
def process():
    return f"{socket.gethostname()} {os.getpid()}"

async def answer(request):
    calls = [team.call(rank, "process", timeout=5) for rank in range(team.size)]
    return JSONResponse([await requests.add("all"), await asyncio.gather(*calls)])

app = Starlette(lifespan=team.lifespan, routes=[Route("/", answer)])
"""
