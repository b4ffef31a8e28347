"""Jobs whose ranks are started by others: `--serve N`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiompi.wire.variables import ENV_CONTROL, ENV_KEY, ENV_RANK
from support.limits import LIMIT, expires

FULL = ["join", "card", "cards", "finalize", "finalized"]
KEY = "ab" * 32


class Joiner:
    """Starts ranks that join a served job."""

    def __init__(self, address: str, program: str, path: str) -> None:
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("AIOMPI")}
        self._environ |= {"PYTHONPATH": path, ENV_CONTROL: f"tcp:{address}"}
        self._program = program
        self.processes: list[subprocess.Popen[str]] = []

    def __call__(self, *steps: str, rank: int | None = None, key: str = KEY) -> subprocess.Popen[str]:
        environ = self._environ | {ENV_KEY: key}
        if rank is not None:
            environ[ENV_RANK] = str(rank)
        process = subprocess.Popen(
            [sys.executable, self._program, *steps],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process


@pytest.fixture
def joiner(rank: str) -> Iterator[Callable[[str], Joiner]]:
    made: list[Joiner] = []

    def make(address: str) -> Joiner:
        made.append(Joiner(address, rank, os.pathsep.join(sys.path)))
        return made[-1]

    yield make
    for process in (process for joiner in made for process in joiner.processes):
        with process:
            process.kill()


@pytest.fixture
def serve(launch):
    return lambda *words, **env: launch.start("--serve", *words, env={"AIOMPI_KEY": KEY, **env})


def test_ranks_join_in_order_of_arrival_and_leave(serve, joiner):
    running = serve("3")
    join = joiner(running.line())
    first = join("join", "print=in", *FULL[1:])
    assert first.stdout.readline() == "in\n"
    others = [join(*FULL), join(*FULL)]
    assert [process.wait(LIMIT) for process in (first, *others)] == [0, 0, 0]
    result = running.end()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_ranks_that_do_not_join_in_time(serve, joiner):
    """The launcher names them."""

    def one_joins(seconds: float) -> bool:
        running = serve("3", "--start-timeout", str(seconds))
        first = joiner(running.line())("join", "aborted", rank=1)
        result = running.end()
        said = f"ranks that have not joined within {seconds:g} s (AIOMPI_START_TIMEOUT, --start-timeout): "
        assert (result.returncode, said in result.stderr) == (124, True)
        told = first.communicate(timeout=LIMIT)[0]
        return f"{said}0, 2" in result.stderr and "have not joined" in told

    assert expires(one_joins)


def test_the_limit_for_joining_ends_nothing_once_all_have_joined(serve, joiner):
    def in_time(seconds: float) -> bool:
        running = serve("1", "--start-timeout", str(seconds))
        last = joiner(running.line())(*FULL[:3], "print=up", "read", *FULL[3:])
        joined = last.stdout.readline() == "up\n"
        if joined:
            time.sleep(seconds)
        last.communicate("\n", timeout=LIMIT)
        return running.end().returncode == 0 and joined

    assert expires(in_time)


def test_wanted_ranks_and_ranks_too_many(serve, joiner):
    running = serve("2")
    join = joiner(running.line())
    wanted = join("join", "1:print=one", *FULL[1:], rank=1)
    assert wanted.stdout.readline() == "one\n"
    refused = join("refused", rank=1)
    assert "rank 1 has joined already" in refused.communicate(timeout=LIMIT)[0]
    other = join("join", "0:print=zero", *FULL[1:3], "read", "leave")
    assert other.stdout.readline() == "zero\n"
    assert "the job is complete" in join("refused").communicate(timeout=LIMIT)[0]
    other.communicate("\n", timeout=LIMIT)
    assert [wanted.wait(LIMIT), other.wait(LIMIT), running.end().returncode] == [0, 0, 0]


def test_a_rank_that_dies(serve, joiner):
    running = serve("2", "--on-failure=abort")
    join = joiner(running.line())
    survivor = join(*FULL[:3], "aborted", rank=0)
    join(*FULL[:3], "kill=9", rank=1)
    out, _ = survivor.communicate(timeout=LIMIT)
    assert "rank 1 closed its connection to the launcher without calling Finalize" in out
    result = running.end()
    assert result.returncode == 1
    assert "rank 1 closed its connection" in result.stderr


def test_abort_becomes_the_exit_code(serve, joiner):
    running = serve("1")
    joiner(running.line())(*FULL[:3], "abort=9,enough")
    result = running.end()
    assert (result.returncode, result.stderr) == (9, "aiompi-launch: enough\n")


def test_a_new_key_is_kept_in_a_private_file_and_no_other_lets_in(launch, joiner, home: Path):
    running = launch.start("--serve", "1")
    found = re.fullmatch(r"aiompi-launch: AIOMPI_KEY_FILE=(.*)", running.error_line())
    assert found
    path = Path(found[1])
    assert path.is_relative_to(home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    join = joiner(running.line())
    assert join("join", key="cd" * 32).wait(LIMIT) != 0
    assert "is its key the right one?" in running.error_line()
    assert join(*FULL, key=path.read_text().strip()).wait(LIMIT) == 0
    assert running.end().returncode == 0
    assert not path.exists()


@pytest.mark.parametrize("key", ["", "ab"])
def test_a_key_that_is_none(launch, key: str):
    result = launch("--serve", "1", env={"AIOMPI_KEY": key})
    assert (result.returncode, result.stdout) == (1, "")
    assert "hexadecimal and at least 128 bits" in result.stderr
    assert not key or f"'{key}'" not in result.stderr


def test_strangers(serve, joiner):
    running = serve("1")
    host, _, port = (address := running.line()).rpartition(":")
    with socket.create_connection((host, int(port))) as silent:
        for data in (b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 1_000_000, b"aiompi\0\1" + b"\xff" * 500):
            with socket.create_connection((host, int(port))) as loud:
                loud.settimeout(LIMIT)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    loud.sendall(data)
                    while loud.recv(4096):
                        pass
            assert "dropped a connection from 127.0.0.1" in running.error_line(), data[:10]
        assert joiner(address)(*FULL).wait(LIMIT) == 0
        assert running.end().returncode == 0
        assert silent.recv(1) == b""


def test_the_time_for_the_proof_of_the_key_is_limited(serve):
    running = serve("1", AIOMPI_CONNECT_TIMEOUT="0.05")
    host, _, port = running.line().rpartition(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.settimeout(LIMIT)
        assert stranger.recv(1) == b""
    assert "did not prove the key of the job in time" in running.error_line()


def test_a_signal(serve, joiner):
    running = serve("2")
    rank = joiner(running.line())("join", "print=in", "aborted")
    assert rank.stdout.readline() == "in\n"
    running.signal(signal.SIGTERM)
    assert running.end().returncode == 143
    assert "ended" in rank.communicate(timeout=LIMIT)[0] or rank.returncode == 0


def test_timeout(serve):
    result = serve("2", "--timeout", "0.1").end()
    assert (result.returncode, "--timeout" in result.stderr) == (124, True)


def test_a_killed_server_leaves_no_key_behind(launch, home: Path, wait_until):
    running = launch.start("--serve", "1")
    assert running.line()
    running.signal(signal.SIGKILL)
    running.process.wait(LIMIT)
    wait_until(lambda: not list(home.iterdir()), "the directory with the key is gone")


def test_a_taken_port(launch, home: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = launch("--serve", "1", "--port", str(port))
    assert (result.returncode, result.stdout) == (1, "")
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in result.stderr
