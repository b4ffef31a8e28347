"""Listening sockets, their addresses, and how connections are accepted."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from aiompi.net import interfaces
from aiompi_launcher.net import listen
from aiompi_launcher.net.listen import AcceptLoop
from support.cases import cases
from support.descriptors import no_more_descriptors
from support.limits import LIMIT


@pytest.mark.spec("I2.2.1-3")
def test_address_is_numeric():
    with listen.listen_tcp("localhost") as listener:
        host, _, port = listen.address_of(listener).rpartition(":")
        assert host == "127.0.0.1"
        socket.create_connection((host, int(port))).close()


def test_address_of_all_interfaces_can_be_connected_to():
    with listen.listen_tcp("0.0.0.0") as listener:
        host, _, port = listen.address_of(listener).rpartition(":")
        assert host != "0.0.0.0"
        socket.create_connection((host, int(port))).close()


def test_ipv6():
    try:
        listener = listen.listen_tcp("::1")
    except OSError:
        pytest.skip("no IPv6 here")
    with listener:
        assert listen.address_of(listener) == f"[::1]:{listener.getsockname()[1]}"


@pytest.mark.spec("I2.2.1-4")
def test_a_taken_port_is_an_error():
    with listen.listen_tcp("127.0.0.1") as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use") as caught:
            listen.listen_tcp("127.0.0.1", [port])
        assert caught.value.strerror is not None


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_somebody_else(host: str):
    with pytest.raises(OSError, match=f"cannot listen on {host}:0"):
        listen.listen_tcp(host)


def test_after_the_announcement_standard_output_is_at_its_end():
    script = "from aiompi_launcher.net.listen import announce; announce('h:1'); input(); print('unheard', flush=True)"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], env=environ, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "h:1\n"  # returns although the process goes on
        process.communicate("\n")
    assert process.returncode == 0


@cases(
    ("peer", "source"),
    [
        ("", ""),
        (("192.0.2.1", 5), "192.0.2.1"),
        (("::ffff:192.0.2.1", 5, 0, 0), "192.0.2.1"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "20010db800010002"),
        (("2001:db8:1:2::1", 5, 0, 0), "20010db800010002"),
        (("fe80::1%eth0", 5, 0, 2), "fe80000000000000"),
    ],
)
def test_sources_of_connections(peer: object, source: str) -> None:
    assert listen.source_of(peer) == source


class Porter:
    """Records connections, and closes none."""

    def __init__(self, listener: socket.socket) -> None:
        self.admitted: list[socket.socket] = []
        self.shortages = 0
        self.came = asyncio.Event()
        self.accept_loop = AcceptLoop(listener, self.admit, tuple, 1, self.on_shortage)

    def admit(self, sock: socket.socket, peer: object) -> None:
        self.admitted.append(sock)
        self.came.set()

    def on_shortage(self) -> None:
        self.shortages += 1

    def close(self) -> None:
        self.accept_loop.close()
        for sock in self.admitted:
            sock.close()


@pytest.mark.asyncio
async def test_while_there_are_no_descriptors_it_asks_only_now_and_then(monkeypatch, home: Path):
    monkeypatch.setattr(listen, "BREATHER", 0.05)
    porter = Porter(interfaces.listen_unix(str(home / "socket")))
    start = time.monotonic()
    with socket.socket(socket.AF_UNIX) as client:
        with no_more_descriptors():
            client.connect(str(home / "socket"))
            while not porter.shortages or time.monotonic() < start + 0.2:
                await asyncio.sleep(0)
        assert 1 <= porter.shortages <= 1 + (time.monotonic() - start) / listen.BREATHER
        assert not porter.admitted
        async with asyncio.timeout(LIMIT):
            await porter.came.wait()
        assert not porter.admitted[0].getblocking()
    porter.close()


@pytest.mark.asyncio
async def test_closing_while_there_are_no_descriptors(monkeypatch, home: Path):
    monkeypatch.setattr(listen, "BREATHER", 0.01)
    raised: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    porter = Porter(interfaces.listen_unix(str(home / "socket")))
    with socket.socket(socket.AF_UNIX) as client:
        with no_more_descriptors():
            client.connect(str(home / "socket"))
            while not porter.shortages:
                await asyncio.sleep(0)
            porter.close()
        await asyncio.sleep(3 * listen.BREATHER)
    assert raised == []


def test_names_are_resolved_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that does not answer delays neither the loop, nor a time-out, nor the end of `asyncio.run`."""
    answer = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: answer.wait(LIMIT) and [])

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await listen.connect_tcp("name", 1)

    asyncio.run(main())
    assert not answer.is_set()
    answer.set()


def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.2", "127.0.0.1")]
            with monkeypatch.context() as patch:
                patch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
                _, writer = await listen.connect_tcp("name", port)
            writer.close()
            await writer.wait_closed()

    asyncio.run(main())


@pytest.mark.parametrize(("name", "cause"), [("nosuch.invalid", "not known"), ("a" * 70, "is no host name")])
def test_a_name_without_an_address(name: str, cause: str) -> None:
    with pytest.raises(OSError, match=cause):
        asyncio.run(listen.connect_tcp(name, 1))
    with pytest.raises(OSError, match=f"cannot listen on {name}:0"):
        listen.listen_tcp(name)
