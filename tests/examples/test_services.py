"""The examples that serve HTTP: they answer while other ranks compute, and end in good order."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from support.jobs import Running, Site
from support.limits import LIMIT

EXAMPLES = Path(__file__).parents[2] / "examples"


class Client:
    """A client of one service."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and body of an answer."""
        async with self._session.get(self._url + path) as response:
            return response.status, await response.text()

    async def json(self, path: str) -> Any:
        async with self._session.get(self._url + path, raise_for_status=True) as response:
            return await response.json()


def asked(*services: Running, by: Callable[..., Awaitable[None]]) -> None:
    """Run a coroutine with one client for each service."""

    async def main() -> None:
        async with aiohttp.ClientSession() as session:
            await by(*(Client(session, url_of(service)) for service in services))

    asyncio.run(main())


def url_of(service: Running) -> str:
    service.expect("http://")
    service.expect("\n")
    match = re.search(r"http://127\.0\.0\.1:\d+", service.out)
    assert match is not None, service.out
    return match[0]


def primes_below(n: int) -> list[int]:
    sieve = bytearray([1]) * n
    sieve[:2] = bytes(min(n, 2))
    for i in range(2, n):
        sieve[2 * i :: i] = bytes(len(range(2 * i, n, i)))
    return [i for i in range(n) if sieve[i]]


def webservice(site: Site, size: int, *arguments: str) -> Running:
    return site.launch("-n", str(size), str(EXAMPLES / "webservice.py"), "--port", "0", *arguments)


def test_webservice(site: Site) -> None:
    """The other ranks compute several requests at once; a signal ends the job after they are answered."""

    async def ask(client: Client) -> None:
        answers = await asyncio.gather(*(client.json(f"/sum?n={n}") for n in (0, 2, 3, 1000, 60_001)))
        assert [answer["sum"] for answer in answers] == [sum(primes_below(answer["n"])) for answer in answers]
        assert [answer["n"] for answer in answers] == [0, 2, 3, 1000, 60_001]
        for wrong in ("/sum", "/sum?n=-1", "/sum?n=1e3", "/sum?n=²", "/sum?n=10000001", "/sum?n=" + "9" * 5000):
            assert (await client.get(wrong))[0] == 400
        assert await client.json("/health") == {"status": "ok", "free": 2}
        late = asyncio.create_task(client.json("/sum?n=300000"))
        while not late.done() and (await client.json("/health"))["free"] == 2:
            pass
        service.signal(signal.SIGINT)
        assert await late == {"n": 300_000, "sum": sum(primes_below(300_000))}

    service = webservice(site, 3, "--timeout", str(LIMIT))
    asked(service, by=ask)
    result = service.finish()
    assert (result.code, result.err) == (128 + signal.SIGINT, "")
    assert result.out.endswith("served\n")


def test_webservice_that_takes_too_long(site: Site) -> None:
    """An abandoned request does not affect later ones, and the ranks that worked for it become free."""

    async def ask(client: Client) -> None:
        assert await client.get("/sum?n=10000000") == (504, "this takes too long")
        while (await client.json("/health"))["free"] < 2:
            pass
        answers = await asyncio.gather(*(answered(client, n) for n in (10, 20, 30)))
        assert [answer["sum"] for answer in answers] == [17, 77, 129]

    async def answered(client: Client, n: int) -> Any:
        """Ask until the answer comes in time, as it may not on a machine that is busy."""
        while (answer := await client.get(f"/sum?n={n}"))[0] == 504:
            pass
        return json.loads(answer[1])

    service = webservice(site, 3, "--timeout", "0.3")
    asked(service, by=ask)
    service.signal(signal.SIGTERM)
    result = service.finish()
    assert (result.code, result.err) == (128 + signal.SIGTERM, "")
    assert result.out.endswith("served\n")


def test_webservice_alone(site: Site) -> None:
    result = webservice(site, 1).finish()
    assert result.code == 2
    assert "at least two ranks" in result.err


def replicas(site: Site) -> tuple[Running, Callable[[], Running]]:
    """A launcher that starts nothing, and a function that starts a service which joins its job."""
    launcher = site.launch("--serve")
    launcher.expect("\n", 2)  # the address, and on standard error the key file
    key_file = re.search("AIOMPI_KEY_FILE=(.+)", launcher.err)
    assert key_file is not None
    environ = {"AIOMPI_KEY_FILE": key_file[1]}
    command = [sys.executable, "-u", str(EXAMPLES / "replicas.py"), launcher.out.strip(), "--port", "0"]
    return launcher, lambda: site.start(*command, env=environ)


def test_replicas(site: Site) -> None:
    """They answer each request, whichever is killed or joins meanwhile, and in the end by all that are there."""
    expected = sum(primes_below(10_000))

    async def until(client: Client, size: int) -> None:
        """Ask until the answer comes from so many replicas; each answer is right."""
        answer = {"replicas": 0}
        while answer["replicas"] != size:
            answer = await client.json("/sum?n=10000")
            assert answer["sum"] == expected

    async def ask(*clients: Client) -> None:
        await asyncio.gather(*(until(client, 3) for client in clients))
        asking = [asyncio.create_task(until(client, 2)) for client in clients[1:] for _ in range(2)]
        services[0].signal(signal.SIGKILL)
        await asyncio.gather(*asking)
        services[0] = start()
        await asyncio.gather(*(until(client, 3) for client in clients[1:]))

    launcher, start = replicas(site)
    services = [start() for _ in range(3)]
    asked(*services, by=ask)
    for service in services:
        service.signal(signal.SIGTERM)
        assert service.finish().code == 0
    launcher.signal(signal.SIGTERM)
    result = launcher.finish()
    assert (result.code, result.err.count("has failed")) == (128 + signal.SIGTERM, 1)
    site.settle()
