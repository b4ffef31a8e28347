"""Jobs of several IMPI clients, all of them aiompi's, as processes (IMPI 0.0, sections 2.2 to 2.4)."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiompi.impi import auth
from support.limits import expires
from support.middle import Middle, as_environ, certificates

FULL = ["join", "card", "cards", "finalize", "finalized"]
UP = FULL[:3]
KEY = {"IMPI_AUTH_KEY": "5678"}


class Clients:
    """Starts the server and the clients of one job, in any order."""

    def __init__(self, launch: Any, count: int, **env: str) -> None:
        self._launch = launch
        self.server = launch.start("--server", str(count), env=KEY | env)
        self.address = self.server.line()

    def start(self, rank: int, *words: str, env: dict[str, str] | None = None, **options: Any) -> Any:
        bind = [] if "--bind" in words else ["--bind", f"127.0.0.{rank + 1}"]
        line = ["--client", str(rank), self.address, *bind, *words]
        return self._launch.start(*line, env=KEY | (env or {}), **options)

    def end(self) -> subprocess.CompletedProcess[str]:
        """Wait for the end of the server."""
        result: subprocess.CompletedProcess[str] = self.server.end()
        return result


@pytest.fixture
def clients(launch: Any) -> Callable[..., Clients]:
    return lambda count, **env: Clients(launch, count, **env)


def outcome(running: Any) -> tuple[int, list[str], str]:
    """Exit status, sorted lines of output, errors."""
    result = running.end()
    return result.returncode, sorted(result.stdout.splitlines()), result.stderr


@pytest.mark.spec(
    "I1.1-3", "I2.2.2-4", "I2.3.1-2", "I2.3.5-23", "I2.3.5-24", "I2.3.5-25", "I2.3.8-1", "I2.4-6", "I2.4-7"
)
@pytest.mark.parametrize(("order", "native"), [((2, 0, 1), "1"), ((1, 2, 0), "0")])
def test_three_clients_are_one_world(
    clients: Callable[[int], Clients], rank: str, order: tuple[int, ...], native: str
) -> None:
    """The ranks follow the client ranks, in any order of arrival; the rank program checks that it gets all cards.

    Clients have several hosts, and each its own input and output. A rank leaves Finalize when all have called it.
    """
    job = clients(3)
    numbers = {0: (0, 1), 1: (2,), 2: (3, 4, 5)}
    binds = ("127.0.0.2,127.0.0.3", "127.0.0.4", "127.0.0.5,127.0.0.6")
    prints = [f"{number}:print=I am {number}" for number in range(6)]
    running = {}
    for client in order:
        hosts = ["--hosts-per-client", "2"] if "," in binds[client] else []
        words = ["--bind", binds[client], *hosts, "--tag-output", "-n", str(len(numbers[client]))]
        steps = [*UP, *prints, "2:read", *FULL[3:], "print=over"]
        env = {"AIOMPI_IMPI_NATIVE": native}
        running[client] = job.start(client, *words, rank, *steps, env=env, stdin=subprocess.PIPE)
    for client, those in numbers.items():
        assert sorted(running[client].line() for _ in those) == [f"[{number}] I am {number}" for number in those]
    assert [client.process.poll() for client in running.values()] == [None] * 3, "rank 2 has not called Finalize"
    running[1].process.stdin.write("\n")
    running[1].process.stdin.flush()
    for client, those in numbers.items():
        assert outcome(running[client]) == (0, [f"[{number}] over" for number in those], "")
    result = job.end()
    assert (result.returncode, result.stderr) == (0, "")


class Relay:
    """Passes the connections of two clients on to the server, and keeps what crosses them."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self.seen = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with self._listener:
            for _ in range(2):
                self._relay()

    def _relay(self) -> None:
        client, server = self._listener.accept()[0], socket.create_connection(self._server)
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=self._pass_on, args=(one, other.dup()), daemon=True).start()

    def _pass_on(self, source: socket.socket, dest: socket.socket) -> None:
        with source, dest, contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.seen += data
                dest.sendall(data)
            dest.shutdown(socket.SHUT_WR)


#: sends a long message to a rank of another client
EXCHANGE = """
from aiompi import MPI
world = MPI.COMM_WORLD
data = bytearray(300_000)
world.Sendrecv(bytes([world.rank]) * len(data), 1 - world.rank, recvbuf=data, source=1 - world.rank)
print(set(data), world.allreduce(1))
"""


@pytest.mark.parametrize("native", ["1", "0"])
def test_what_clients_say_to_their_server(clients: Callable[..., Clients], native: str) -> None:
    """With TLS neither the key nor a command crosses the network in clear, and hosts that encrypt find each other."""
    job = clients(2, AIOMPI_TLS="on")
    relay = Relay(job.address)
    job.address = relay.address
    env = {"AIOMPI_TLS": "on", "AIOMPI_IMPI_NATIVE": native}
    running = [job.start(number, sys.executable, "-c", EXCHANGE, env=env) for number in range(2)]
    assert [outcome(client) for client in running] == [(0, ["{1} 2"], ""), (0, ["{0} 2"], "")]
    assert (job.end().returncode, job.end().stderr) == (0, "")
    assert b"AUTH" in relay.seen
    for word in (b"COLL", auth.Credentials(key=5678).encode_key()):
        assert word not in relay.seen


@pytest.mark.parametrize(
    ("server", "client", "cause"),
    [
        ({"AIOMPI_TLS": "off"}, {"AIOMPI_TLS": "on"}, "no common authentication method"),
        ({"AIOMPI_TLS": "on"}, {"AIOMPI_TLS": "off"}, "no common authentication method"),
        ({"AIOMPI_TLS": "on"}, {"AIOMPI_TLS": "on", "IMPI_AUTH_KEY": "5679"}, "wrong key"),
    ],
    ids=["only the client", "only the server", "another key"],
)
def test_a_client_that_cannot_encrypt(
    clients: Callable[..., Clients], server: dict[str, str], client: dict[str, str], cause: str
) -> None:
    job = clients(1, **server)
    code, _, err = outcome(job.start(0, "true", env=client))
    assert code == 1
    assert "IMPI server 127.0.0.1:" in err
    job.server.process.terminate()
    assert cause in job.end().stderr


def test_a_client_that_waits_is_told_which_was_refused(clients: Callable[..., Clients]) -> None:
    """A client of another implementation knows no encryption, so that it never joins. Programs need not use MPI."""
    job = clients(2, AIOMPI_TLS="on")
    host, _, port = job.address.rpartition(":")
    with socket.create_connection((host, int(port))) as foreign:
        foreign.sendall(auth.encode_auth((auth.KEY,)))
        assert foreign.recv(1) == b""
    running = [job.start(number, "true", env={"AIOMPI_TLS": "on"}) for number in range(2)]
    said = [outcome(client) for client in running]
    assert [code for code, _, _ in said] == [0, 0]
    told = "no common authentication method: the client has IMPI_AUTH_KEY available, the server AIOMPI_TLS"
    assert [told in err for _, _, err in said].count(True) == 1, "the second one does not wait"
    result = job.end()
    assert (result.returncode, told in result.stderr) == (0, True)


@pytest.mark.parametrize("site_has", ["no certificates", "certificates"])
def test_nothing_without_the_key_is_in_between(clients: Callable[..., Clients], tmp_path: Path, site_has: str) -> None:
    """A server, or what passes on the connection to it, gets no key because it has a certificate of the site."""
    files = certificates(tmp_path) if site_has == "certificates" else {}
    env = {"AIOMPI_TLS": "on"} | as_environ(files)
    job = clients(1, **env)
    host, _, port = job.address.rpartition(":")
    with Middle((host, int(port)), (12, -8 - len(auth.GREETING)), files) as middle:
        job.address = f"127.0.0.1:{middle.address[1]}"
        code, _, err = outcome(job.start(0, "true", env=env))
        assert middle.secured.is_set()
    assert (code, "IMPI_AUTH_KEY" in err) == (1, True)
    assert (5678).to_bytes(8) not in middle.seen
    job.server.process.terminate()
    assert "wrong key" in job.end().stderr


def test_encryption_needs_a_key(launch: Any) -> None:
    result = launch("--server", "1", env={"IMPI_AUTH_NONE": "1", "AIOMPI_TLS": "on"})
    assert result.returncode == 1
    assert "AIOMPI_TLS=on needs IMPI_AUTH_KEY" in result.stderr


@pytest.mark.spec("I2.3.5-30")
def test_clients_that_disagree(clients: Callable[[int], Clients]) -> None:
    job = clients(2)
    running = [job.start(client, "true", env={"AIOMPI_IMPI_XSIZE": size}) for client, size in ((0, "-1"), (1, "2048"))]
    for client in running:
        code, _, err = outcome(client)
        assert code == 1
        assert "C_COLL_XSIZE: the clients must agree, but have [1024, 2048]" in err
    assert job.end().returncode == 1


def test_settings_that_no_client_may_have(clients: Callable[[int], Clients]) -> None:
    code, _, err = outcome(clients(2).start(0, "true", env={"AIOMPI_IMPI_XSIZE": "-2"}))
    assert code == 1
    assert "C_COLL_XSIZE: client 0 sent -2, legal are -1 to 2147483647" in err


def test_a_client_whose_ranks_never_join(clients: Callable[[int], Clients], rank: str) -> None:
    job = clients(2)
    waiting = job.start(0, rank, *FULL)
    absent = job.start(1, "true")
    code, _, err = outcome(waiting)
    assert code == 1
    assert "the ranks of client 1 have ended without ever joining the job, while ours wait" in err
    assert outcome(absent)[0] == 1
    assert job.end().returncode == 1


@pytest.mark.spec("I2.4-8", "I2.3.7-4")
def test_a_rank_that_fails_ends_the_job_everywhere(clients: Callable[[int], Clients], rank: str) -> None:
    job = clients(2)
    failing = job.start(0, "-n", "2", rank, *UP, "1:exit=3", "pause")
    other = job.start(1, rank, *UP, "pause")
    assert outcome(failing)[0] == 3
    status, _, err = outcome(other)
    assert status == 1
    assert "client 0" in err or "closed the connection of client 1" in err
    served = job.end()
    assert served.returncode == 1
    assert re.search(r"client [01] at 127\.0\.0\.1:\d+: the connection ended before FINI", served.stderr)


@pytest.mark.spec("I2.4-8", "I2.3.7-4")
def test_a_client_that_is_killed(clients: Callable[[int], Clients], rank: str) -> None:
    job = clients(2)
    running = [job.start(client, rank, *UP, "print=up", "pause") for client in (0, 1)]
    assert [client.line() for client in running] == ["up"] * 2
    running[1].signal(signal.SIGKILL)
    code, _, err = outcome(running[0])
    assert code == 1
    assert "has died" in err or "closed the connection" in err
    assert re.search(r"client \d at 127\.0\.0\.1:\d+: the connection ended before FINI", job.end().stderr)


def test_a_server_that_is_killed(clients: Callable[[int], Clients], rank: str) -> None:
    job = clients(2)
    running = [job.start(client, rank, *UP, "print=up", "pause") for client in (0, 1)]
    assert [client.line() for client in running] == ["up"] * 2
    job.server.signal(signal.SIGKILL)
    for client in running:
        code, _, err = outcome(client)
        assert code == 1
        assert f"IMPI server {job.address}" in err or "has died" in err


def test_a_signal_while_ranks_of_others_are_awaited(clients: Callable[[int], Clients], rank: str) -> None:
    job = clients(2)
    waiting = job.start(0, rank, "join", "card", "print=waiting", "pause")
    other = job.start(1, "sh", "-c", "echo started; exec sleep 100")
    assert (waiting.line(), other.line()) == ("waiting", "started")
    other.signal(signal.SIGTERM)
    assert outcome(other)[0] == 143
    assert outcome(waiting)[0] == 1
    assert job.end().returncode == 1


@pytest.mark.parametrize("limited", [True, False], ids=["timeout", "Ctrl-C"])
def test_a_client_that_waits_only_for_others(clients: Callable[[int], Clients], limited: bool) -> None:
    """Its own ranks have ended; the user need not wait for those of the other client."""

    def waits(seconds: float) -> bool:
        job = clients(2)
        other = job.start(1, "sleep", "100")
        waiting = job.start(0, *(["--timeout", str(seconds)] if limited else []), "-v", "true")
        if not limited:
            while "has ended with status 0" not in waiting.error_line():
                pass
            waiting.signal(signal.SIGINT)
        result = waiting.end()
        assert result.returncode == (124 if limited else 130)
        if limited and "has ended with status 0" not in result.stderr:
            return False
        assert outcome(other)[0] == 1
        assert job.end().returncode == 1
        return True

    assert expires(waits) if limited else waits(0)
