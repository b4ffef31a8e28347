"""Jobs whose environment says where rank 0 is: indexed jobs, and steps of Slurm without PMI."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiompi.errors import AuthenticationError, JobAbortedError
from aiompi.job import bootstrap
from aiompi.job.bootstrap import fixed, munge
from aiompi.settings import Settings
from aiompi.wire.hello import parse_key
from aiompi.wire.version import banner
from support.cases import cases
from support.jobs import KEY, Site
from support.limits import LIMIT, expires

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
STEP = {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_STEP_NODELIST": "n[2-4]"}  # fmt: skip
HELLO = """
from aiompi import MPI
comm = MPI.COMM_WORLD
print(comm.rank, comm.size, comm.allreduce(comm.rank))
"""


@pytest.fixture
def port() -> Iterator[str]:
    """A port for MASTER_PORT: the next one, at which rank 0 listens, is kept for it."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield str(sock.getsockname()[1] - 1)


def test_which_engine_is_found() -> None:
    assert bootstrap.find(TORCHRUN) == bootstrap.find({"JOB_COMPLETION_INDEX": "0"}) == "indexed"
    assert bootstrap.find(STEP | TORCHRUN) == "slurm"
    assert bootstrap.find(STEP | {"PMI_FD": "5", "PMI_RANK": "1", "PMI_SIZE": "2"}) == "pmi"
    batch_script = {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}
    assert bootstrap.find(batch_script) == bootstrap.find({"RANK": "1"}) == ""


def test_ranks_of_kubernetes_and_of_torchrun() -> None:
    pod = fixed.Indexed({"JOB_COMPLETION_INDEX": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "job-0.svc"})
    assert (pod.rank, pod.size, pod.host, pod.ports) == (3, 4, "job-0.svc", [29501])
    assert fixed.Indexed(TORCHRUN | {"MASTER_PORT": "1234"}).ports == [1235]


@pytest.mark.parametrize("missing", ["WORLD_SIZE", "MASTER_ADDR"])
def test_a_variable_that_is_missing_is_named(missing: str) -> None:
    environ = TORCHRUN | {"JOB_COMPLETION_INDEX": "0"}
    del environ[missing]
    with pytest.raises(JobAbortedError, match=f"{missing}.*AIOMPI_ENGINE=none.*{missing}"):
        bootstrap.join("indexed", environ, Settings())


@cases("wrong", [{"RANK": "2"}, {"WORLD_SIZE": "0"}, {"RANK": "-1"}, {"MASTER_PORT": "65535"}])
def test_numbers_that_are_impossible(wrong: dict[str, str]) -> None:
    with pytest.raises(JobAbortedError, match=r"one of an indexed job.*(no rank|impossible)"):
        bootstrap.join("indexed", TORCHRUN | {"AIOMPI_KEY": KEY} | wrong, Settings())


def test_without_a_key_no_port_is_opened() -> None:
    with pytest.raises(AuthenticationError, match=r"rank 0 of 2.*AIOMPI_KEY.*Secret"):
        bootstrap.join("indexed", TORCHRUN | {"RANK": "0"}, Settings())


def test_the_key_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    assert fixed._given_key({"AIOMPI_KEY_FILE": str(path)}) == parse_key(KEY)
    with pytest.raises(AuthenticationError, match="nowhere"):
        fixed._given_key({"AIOMPI_KEY_FILE": "/nowhere"})


def test_an_indexed_job_of_one_process_is_alone() -> None:
    assert bootstrap.join("indexed", TORCHRUN | {"RANK": "0", "WORLD_SIZE": "1"}, Settings()) is None


def test_a_rank_0_that_does_not_come_is_named() -> None:
    environ = TORCHRUN | {"MASTER_PORT": "1", "AIOMPI_KEY": KEY}
    with pytest.raises(JobAbortedError, match=r"rank 1 cannot reach rank 0 at 127\.0\.0\.1 port 2 within 0\.1 s"):
        bootstrap.join("indexed", environ, Settings(start_timeout=0.1))


@pytest.mark.parametrize("silent", [False, True])
def test_something_else_at_the_port_of_rank_0(silent: bool) -> None:
    """It closes each connection, as a proxy does in front of a pod that has not started, or says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as held:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = server.accept()
                    held.enter_context(sock) if silent else sock.close()

        thread = threading.Thread(target=serve)
        thread.start()
        environ = TORCHRUN | {"AIOMPI_KEY": KEY, "MASTER_PORT": str(server.getsockname()[1] - 1)}
        with pytest.raises(JobAbortedError, match=r"rank 1 cannot reach rank 0 .* within 0\.5 s"):
            bootstrap.join("indexed", environ, Settings(start_timeout=0.5))
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_something_that_answers_very_slowly_at_the_port_of_rank_0() -> None:
    """It begins as an agent does."""

    def gives_up(seconds: float) -> bool:
        with serving(banner(), pause=seconds / 2, piece=1) as (port,), pytest.raises(JobAbortedError) as raised:
            environ = TORCHRUN | {"AIOMPI_KEY": KEY, "MASTER_PORT": str(port - 1)}
            bootstrap.join("indexed", environ, Settings(start_timeout=seconds))
        return f"refuses this process: it has not proven the key within {seconds:g} s" in str(raised.value)

    assert any(gives_up(seconds) for seconds in (0.5, 2.0, 8.0, 32.0)), "only a slow machine needs more than the first"


def test_ranks_come_in_any_order(site: Site, port: str) -> None:
    environ = TORCHRUN | {"WORLD_SIZE": "3", "MASTER_PORT": port, "AIOMPI_KEY": KEY}
    program = site.program(HELLO)
    ranks = [site.start(sys.executable, program, env=environ | {"RANK": str(rank)}) for rank in (2, 1, 0)]
    results = [rank.finish(LIMIT) for rank in ranks]
    assert sorted(result.out for result in results) == ["0 3 3\n", "1 3 3\n", "2 3 3\n"]
    assert [(result.code, result.err) for result in results] == [(0, "")] * 3


def test_a_rank_with_another_key_is_refused(site: Site, port: str) -> None:
    environ = TORCHRUN | {"MASTER_PORT": port}
    program = site.program(HELLO)

    def one_is_refused(seconds: float) -> bool:
        limited = environ | {"AIOMPI_START_TIMEOUT": str(seconds)}  # of both: either may start when the other has ended
        wrong = site.start(sys.executable, program, env=limited | {"RANK": "1", "AIOMPI_KEY": "77" * 16})
        first = site.start(sys.executable, program, env=limited | {"RANK": "0", "AIOMPI_KEY": KEY})
        second, ended = wrong.finish(), first.finish()
        assert (second.code, ended.code) == (1, 1)
        refused = "is its key the right one" in second.err or "does it have the right key" in second.err
        late = f"ranks that have not joined within {seconds:g} s" in ended.err
        return refused and late and "right one" in ended.err

    assert expires(one_is_refused)


def test_ports_of_a_step() -> None:
    assert fixed.Slurm(STEP | {"SLURM_STEP_RESV_PORTS": "20000-20002,20007"}).ports == [20000, 20001, 20002, 20007]
    ports = fixed.Slurm(STEP).ports
    assert ports == fixed.Slurm(STEP | {"SLURM_PROCID": "2"}).ports
    assert set(ports).isdisjoint(fixed.Slurm(STEP | {"SLURM_STEP_ID": "1"}).ports)
    assert all(61440 <= port < 2**16 for port in ports)


def test_rank_0_of_a_step_that_hands_out_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = fixed.Slurm(STEP | {"SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_STEP_RESV_PORTS": "1-2"})
    with pytest.raises(
        JobAbortedError, match=r"3 processes.*rank 1 .* on 127\.0\.0\.1; try --mpi=pmi2: port 1: .*refused"
    ):
        manager.meet(Settings(start_timeout=0.1))


@contextlib.contextmanager
def serving(*words: bytes, piece: int = 100, pause: float = 0.05) -> Iterator[list[int]]:
    """Give servers that say these words to whatever connects, in pieces of so many bytes; yield their ports."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in words]

        def serve(server: socket.socket, said: bytes) -> None:
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as sock, contextlib.suppress(OSError):
                        for start in range(0, len(said), piece):
                            sock.sendall(said[start : start + piece])
                            over.wait(pause)

        over = threading.Event()
        threads = [threading.Thread(target=serve, args=pair) for pair in zip(servers, words, strict=True)]
        for thread in threads:
            thread.start()
        yield [server.getsockname()[1] for server in servers]
        over.set()
        for server in servers:
            server.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def test_ports_of_a_step_that_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """One speaks for another user, one speaks without an end; the third is rank 0."""

    def decode(credential: bytes) -> bytes:
        if credential == b"of another user":
            raise AuthenticationError("the credential of rank 0 is from user 1")
        return credential

    monkeypatch.setattr(fixed, "_DIAL", 0.3)
    monkeypatch.setattr(munge, "decode", decode)
    secret = b'{"step": "7.0", "key": "00", "hosts": ["right"], "port": 5}'
    with serving(b"of another user", bytes(fixed._CREDENTIAL), secret) as ports:
        manager = fixed.Slurm(STEP | {"SLURM_STEP_NODELIST": "127.0.0.1"})
        manager.ports = ports
        assert manager._ask(time.monotonic() + LIMIT)["hosts"] == ["right"]


def test_munge_that_does_not_run_is_an_error() -> None:
    with pytest.raises(JobAbortedError, match="munge"):
        munge.decode(b"MUNGE:nonsense:")
