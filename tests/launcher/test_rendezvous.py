"""The IMPI server and client as processes (IMPI 0.0, chapter 2)."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from aiompi.impi import auth
from aiompi_launcher.impi.server import MAX_NEWCOMERS
from aiompi_launcher.net import listen
from support.limits import LIMIT, expires

FULL = ["join", "card", "cards", "finalize", "finalized"]
KEY = {"IMPI_AUTH_KEY": "18446744073709551615"}
NONE = {"IMPI_AUTH_NONE": ""}
AUTH, IMPI, COLL, DONE, FINI = (int.from_bytes(word) for word in (b"AUTH", b"IMPI", b"COLL", b"DONE", b"FINI"))


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT)


def command(code: int, payload: bytes = b"") -> bytes:
    return struct.pack(">ii", code, len(payload)) + payload


def read(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := sock.recv(count - len(data))):
        data += piece
    return data


def read_to_end(sock: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(4096):
            data += piece
    return data


@pytest.fixture
def server(launch):
    return lambda *words, env=KEY: launch.start("--server", *words, env=env)


@pytest.mark.spec("I2.2.1-2", "I2.2.1-6", "I2.2.2-2", "I2.3.7-3")
def test_server_and_client_in_two_processes(launch, server, rank):
    running = server("1")
    address = running.line()
    assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+:\d+", address)
    result = launch("--client", "0", address, "-n", "2", rank, *FULL, "1:print=done", env=KEY)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
    served = running.end()
    assert (served.returncode, served.stdout, served.stderr) == (0, "", "")


@pytest.mark.spec("I2.1-2", "I2.2.2-2")
@pytest.mark.parametrize("env", [NONE, KEY | NONE], ids=["none", "both"])
def test_a_host_name_in_place_of_the_number_and_a_weaker_method(launch, server, env: dict[str, str]):
    running = server("1", env=env)
    port = running.line().rpartition(":")[2]
    result = launch("--client", "0", f"localhost:{port}", "true", env=env)
    assert (result.returncode, result.stderr) == (0, "")
    served = running.end()
    assert (served.returncode, served.stdout) == (0, "")
    assert ("IMPI_AUTH_NONE" in served.stderr) is (env == NONE)


@pytest.mark.spec("I2.2.1-1", "I2.2.2-1")
def test_the_spelling_of_the_specification(launch, rank):
    impirun = "-c import sys; from aiompi_launcher.cli import impirun; sys.exit(impirun())"
    running = launch.start("-server", "1", "-auth", "1-0", program=impirun, env=KEY)
    line = ["-client", "0", running.line(), "-np", "2", "echo", "-server", "3", "-port", "x"]
    result = launch(*line, program=impirun, env=KEY)
    assert (result.returncode, result.stdout) == (0, "-server 3 -port x\n" * 2)
    assert running.end().returncode == 0


@pytest.mark.spec("I2.2.1-9")
def test_an_ipv6_address(launch, server):
    running = server("1", "--bind", "::1")
    address = running.line()
    if not address:  # this machine has no IPv6
        assert "cannot listen on ::1" in running.end().stderr
        return
    assert re.fullmatch(r"\[::1\]:\d+", address)
    assert launch("--client", "0", address, "true", env=KEY).returncode == 0
    assert running.end().returncode == 0


def test_time_limits_of_a_server(launch, server):
    """A client that does not come is named, and both limits end the server."""

    def one_comes(seconds: float) -> bool:
        running = server("3", "--start-timeout", str(seconds))
        client = launch.start("--client", "1", running.line(), "true", env=KEY)
        result = running.end()
        assert (result.returncode, client.end().returncode) == (124, 1)
        return f"clients that have not come within {seconds:g} s (--start-timeout): 0, 2" in result.stderr

    assert expires(one_comes)
    result = server("1", "--timeout", "0.5").end()
    assert result.returncode == 124
    assert "longer than 0.5 s (--timeout)" in result.stderr


def test_a_flood_of_strangers(launch, server):
    """They keep no client out, need a limited number of descriptors, and get few lines on standard error."""
    began = time.monotonic()
    running = server("2")
    address = running.line()
    host, _, port = address.rpartition(":")
    descriptors, count, ended = Path(f"/proc/{running.process.pid}/fd"), 0, threading.Event()
    most = 0

    def flood() -> None:
        nonlocal count, most
        with contextlib.ExitStack() as stack:
            while not ended.is_set() and count < 20_000:
                with contextlib.suppress(OSError):
                    sock = stack.enter_context(socket.socket())
                    sock.connect((host, int(port)))
                    if count % 2:
                        sock.send(b"GET / HTTP/1.1\r\n\r\n")
                    count += 1
                if count % 100 == 0:
                    most = max(most, len(list(descriptors.iterdir())))
                    if count % 500 == 0:
                        stack.pop_all().close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        while count < 500:
            time.sleep(0.01)
        clients = [launch.start("--client", str(n), address, "true", env=KEY) for n in range(2)]
        assert [client.end().returncode for client in clients] == [0, 0]
    finally:
        ended.set()
        thread.join()
    result = running.end()
    assert result.returncode == 0
    # Those that wait for room keep theirs, also after they have ended. On a busy machine there may be many.
    assert most < MAX_NEWCOMERS + listen._MOST_WAITING + 50
    assert "more connections; the last: dropped the connection from" in result.stderr
    periods = (time.monotonic() - began) / listen._PERIOD + 1
    assert len(result.stderr.splitlines()) < (listen._LINES + 1) * periods + 10


@pytest.mark.spec("I2.3.3-10", "I2.3.3-21", "I2.3.3-22", "I2.3.3-23", "I2.3.3-24", "I2.3.3-25")
def test_no_common_method_and_a_wrong_key_then_the_right_one(launch, server):
    running = server("1")
    address = running.line()
    unlike = launch("--client", "0", address, "echo", "started", env=NONE)
    assert (unlike.returncode, unlike.stdout) == (1, "")
    assert "accepts none of IMPI_AUTH_NONE" in unlike.stderr
    assert "no common authentication method" in running.error_line()
    wrong = launch("--client", "0", address, "echo", "started", env={"IMPI_AUTH_KEY": "4294967295"})
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert f"IMPI server {address}: " in wrong.stderr
    assert "wrong key" in wrong.stderr
    assert launch("--client", "0", address, "true", env=KEY).returncode == 0
    result = running.end()
    assert result.returncode == 0
    assert "wrong key" in result.stderr
    assert not {"4294967295", KEY["IMPI_AUTH_KEY"]} & set(re.findall(r"\d+", result.stderr + wrong.stderr))


@pytest.mark.spec("I2.3.3-5", "I2.3.3-6", "I2.3.3-13")
@pytest.mark.parametrize(
    ("line", "env", "message"),
    [
        (["--server", "1"], {"IMPI_AUTH_KEY": ""}, "no authentication method available"),
        (["--server", "1", "--auth", "0"], KEY, "no authentication method available"),
        (["--client", "0", "127.0.0.1:1", "true"], {}, "no authentication method available"),
        (["--client", "0", "127.0.0.1:1", "true"], {"IMPI_AUTH_KEY": "secret"}, "IMPI_AUTH_KEY must be a decimal"),
    ],
    ids=["empty key", "preference that leaves none", "none", "no number"],
)
def test_no_method_at_all(launch, line: list[str], env: dict[str, str], message: str):
    result = launch(*line, env=env)
    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.spec("I2.3.3-19")
def test_what_comes_in_without_authentication_is_named(server):
    running = server("1", env=NONE)
    with connect(running.line()) as client:
        client.sendall(command(AUTH, struct.pack(">I", 1)))
        assert read(client, 8) == bytes(8)
        host, port = client.getsockname()
        warning = running.error_line()
    assert f"{host}:{port}" in warning
    assert "IMPI_AUTH_NONE" in warning


@pytest.mark.spec("I2.2.2-6")
def test_no_server(launch, rank):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # nothing else listens there meanwhile
        port = nobody.getsockname()[1]
        result = launch("--client", "0", f"127.0.0.1:{port}", rank, "print=started", env=KEY)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"IMPI server 127.0.0.1:{port}: Connection refused; is the server running" in result.stderr


def test_no_such_host(launch):
    result = launch("--client", "0", "no.such.host.invalid:1", "true", env=KEY)
    assert result.returncode == 1
    assert "IMPI server no.such.host.invalid:1: " in result.stderr


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\xff" * 100], ids=["ssh", "noise"])
def test_the_port_of_something_else(launch, answer: bytes):
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(LIMIT)
        running = launch.start("--client", "0", f"127.0.0.1:{other.getsockname()[1]}", "echo", "started", env=KEY)
        connection, _ = other.accept()
        with connection:
            connection.sendall(answer)
            result = running.end()
    assert (result.returncode, result.stdout) == (1, "")
    assert "Is there an IMPI server at this address?" in result.stderr


def test_the_port_of_something_silent(launch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = launch("--client", "0", address, "true", env=KEY | {"AIOMPI_CONNECT_TIMEOUT": "0.1"})
    assert result.returncode == 1
    assert "no answer within 0.1 s" in result.stderr


@pytest.fixture
def securing(launch):
    """Starts a client, and returns it with a server's end of its connection, which waits for the TLS handshake."""
    with contextlib.ExitStack() as stack:

        def start(**env: str):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listener.settimeout(LIMIT)
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            client = launch.start("--client", "0", address, "true", env=KEY | {"AIOMPI_TLS": "on"} | env)
            connection = stack.enter_context(listener.accept()[0])
            connection.settimeout(LIMIT)
            assert read(connection, 12)[:4] == b"AUTH"
            connection.sendall(auth.encode_server_auth(auth.TLS, auth.GREETING))
            return client, connection

        yield start


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_server_that_ends_in_the_tls_handshake(securing, end: str):
    client, connection = securing()
    assert connection.recv(1, socket.MSG_PEEK) == b"\x16"
    if end == "reset":
        connection.close()  # with bytes that it has not read
    else:
        connection.shutdown(socket.SHUT_WR)
    result = client.end()
    assert (result.returncode, result.stdout) == (1, "")
    assert "it closed the connection during the TLS handshake" in result.stderr
    assert "it has ended, or AIOMPI_TLS and its certificates do not suit" in result.stderr


def test_a_server_that_stops_in_the_tls_handshake(securing):
    def stops(seconds: float) -> bool:
        client, _ = securing(AIOMPI_CONNECT_TIMEOUT=str(seconds))
        result = client.end()
        assert result.returncode == 1
        return f"no answer to the TLS handshake within {seconds:g} s" in result.stderr

    assert expires(stops)


def test_a_signal_in_the_tls_handshake(securing):
    client, connection = securing()
    assert connection.recv(1, socket.MSG_PEEK) == b"\x16"
    client.signal(signal.SIGTERM)
    assert client.end().returncode == 143
    assert read_to_end(connection), "the server learns of the end"


def test_a_stranger_that_stops_in_the_tls_handshake(server):
    """It is dropped, and the server goes on."""

    def stops(seconds: float) -> bool:
        env = KEY | {"AIOMPI_TLS": "on", "AIOMPI_CONNECT_TIMEOUT": str(seconds)}
        running = server("1", env=env)
        with connect(running.line()) as stranger:
            stranger.sendall(auth.encode_auth((auth.TLS, auth.AIOMPI)))
            answer = read_to_end(stranger)
        running.signal(signal.SIGTERM)
        result = running.end()
        assert (result.returncode, len(result.stderr.splitlines())) == (143, 1)
        assert "it did not become a client" in result.stderr
        return answer == auth.encode_server_auth(auth.TLS, auth.GREETING)

    assert expires(stops)


def test_a_server_that_is_to_end_in_a_tls_handshake(server):
    running = server("1", env=KEY | {"AIOMPI_TLS": "on"})
    with connect(running.line()) as stranger:
        stranger.sendall(auth.encode_auth((auth.TLS, auth.AIOMPI)))
        greeting = auth.encode_server_auth(auth.TLS, auth.GREETING)
        assert read(stranger, len(greeting)) == greeting
        running.signal(signal.SIGTERM)
        result = running.end()
    assert (result.returncode, result.stderr) == (143, "")


def test_a_server_killed_before_all_clients_are_there(launch, server):
    running = server("2", "-v")
    client = launch.start("--client", "0", running.line(), "echo", "started", env=KEY)
    assert "client 0 has joined" in running.error_line()
    running.signal(signal.SIGKILL)
    result = client.end()
    assert (result.returncode, result.stdout) == (1, "")
    assert "closed the connection" in result.stderr


def test_a_server_killed_while_the_job_runs(launch, server, rank):
    running = server("1")
    client = launch.start("--client", "0", running.line(), rank, *FULL[:3], "print=up", "aborted", env=KEY)
    assert client.line() == "up"
    running.signal(signal.SIGKILL)
    result = client.end()
    assert result.returncode == 1
    assert "before the end of the job" in result.stderr


@pytest.mark.spec("I2.3.7-4")
def test_a_killed_client(launch, server, rank):
    running = server("1")
    client = launch.start("--client", "0", running.line(), rank, *FULL[:3], "print=up", "pause", env=KEY)
    assert client.line() == "up"
    client.signal(signal.SIGKILL)
    served = running.end()
    assert served.returncode == 1
    assert re.search(r"client 0 at 127\.0\.0\.1:\d+: the connection ended before FINI", served.stderr)


def test_a_signal_while_clients_are_missing(launch, server):
    running = server("2", "-v")
    client = launch.start("--client", "0", running.line(), "echo", "started", env=KEY)
    assert "client 0 has joined" in running.error_line()
    client.signal(signal.SIGINT)
    result = client.end()
    assert (result.returncode, result.stdout) == (130, "")
    assert running.end().returncode == 1


def test_a_signal_to_the_server(launch, server):
    running = server("2", "-v")
    client = launch.start("--client", "0", running.line(), "echo", "started", env=KEY)
    assert "client 0 has joined" in running.error_line()
    running.signal(signal.SIGTERM)
    result = running.end()
    assert result.returncode == 143
    assert "has failed" not in result.stderr, "no client is to blame"
    refused = client.end()
    assert refused.returncode == 1
    assert "the server or another client ended before all had joined" in refused.stderr


@pytest.mark.spec("I2.2.2-5")
def test_a_client_rank_that_does_not_exist(launch, server):
    running = server("1")
    address = running.line()
    for client_rank in ("1", "32"):
        result = launch("--client", client_rank, address, "true", env=KEY)
        assert (result.returncode, "rank" in result.stderr) == (1, True), client_rank
        assert running.process.poll() is None


@pytest.mark.spec("I2.2.1-4")
def test_a_taken_port(launch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = launch("--server", "1", "--port", str(port), env=KEY)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in result.stderr


STRANGERS = {
    "http": b"GET / HTTP/1.0\r\n\r\n",
    "no method": command(AUTH, bytes(4)),
    "enormous": struct.pack(">ii", AUTH, 2**31 - 1) + b"x" * 100_000,
}


@pytest.mark.spec("I2.2.1-6", "I2.2.4-1", "I2.2.4-2")
def test_strangers_do_not_disturb_the_job_of_which_nobody_reads_more_than_the_address(launch, server, rank):
    running = server("1")
    address = running.line()
    running.process.stdout.close()
    running.process.stdout = None
    reports = []
    with connect(address) as silent:
        for name, data in STRANGERS.items():
            with connect(address) as stranger:
                reports.append(f"dropped the connection from 127.0.0.1:{stranger.getsockname()[1]}: ")
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    stranger.sendall(data)
                assert read_to_end(stranger) == b"", name
        assert launch("--client", "0", address, rank, *FULL, env=KEY).returncode == 0
        result = running.end()
        assert (result.returncode, [each for each in reports if each not in result.stderr]) == (0, [])
        assert read_to_end(silent) == b""


@pytest.mark.spec("I2.2.4-2")
def test_silence_ends(server, launch):
    running = server("1", env=KEY | {"AIOMPI_CONNECT_TIMEOUT": "0.05"})
    with connect(running.line()) as stranger:
        assert read_to_end(stranger) == b""
    assert "did not become a client within 0.05 seconds" in running.error_line()


def test_a_client_that_takes_its_rank_and_says_nothing_ends_the_job(server):
    running = server("1", env=NONE | {"AIOMPI_IMPI_START_TIMEOUT": "0.05"})
    with connect(running.line()) as client:
        client.sendall(command(AUTH, struct.pack(">i", 1)) + command(IMPI, struct.pack(">i", 0)))
        read_to_end(client)
    result = running.end()
    assert result.returncode == 1
    assert "the job has failed: client 0 at 127.0.0.1:" in result.stderr
    assert "nothing has come from it for 0.05 s while the job starts (AIOMPI_IMPI_START_TIMEOUT)" in result.stderr


def test_too_many_strangers_push_out_the_oldest(server, launch):
    running = server("1")
    address = running.line()
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(connect(address)) for _ in range(130)]
        assert read_to_end(strangers[0]) == b""
        assert launch("--client", "0", address, "true", env=KEY).returncode == 0
    assert running.end().returncode == 0
