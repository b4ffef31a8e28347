"""The client of PMI-1, with a process manager that answers as it likes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from aiompi.errors import InvalidArgumentError, JobAbortedError
from aiompi.job import bootstrap
from aiompi.job.bootstrap.pmi import PMI
from aiompi.settings import Settings
from support.cases import cases
from support.limits import LIMIT

INIT = ("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0", "cmd=my_kvsname kvsname=kvs_7")


class Manager:
    """Answers each line with the next of its lines."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self.theirs = theirs.detach()
        self._thread = ThreadPoolExecutor(1)
        self.environ = {"PMI_FD": str(self.theirs), "PMI_RANK": "1", "PMI_SIZE": "3"}

    def client(self, *answers: str) -> PMI:
        self.lines = self._thread.submit(self._answer, [*INIT, *answers])
        return PMI(self.environ)

    def _answer(self, answers: list[str]) -> list[str]:
        lines = []
        with self._ours, self._ours.makefile("rb") as file:
            for answer in answers:
                lines.append(file.readline().decode())
                for piece in (answer[:5], answer[5:] + "\n"):
                    self._ours.sendall(piece.encode())
        return lines

    def close(self) -> None:
        os.close(self.theirs)
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        self._thread.shutdown()
        self._ours.close()


@pytest.fixture
def manager() -> Iterator[Manager]:
    manager = Manager()
    yield manager
    manager.close()


def test_commands(manager: Manager) -> None:
    client = manager.client(
        "cmd=put_result rc=0", "cmd=barrier_out", "cmd=get_result rc=0 value=a:b", "cmd=finalize_ack"
    )
    assert (client.rank, client.size) == (1, 3)
    client.put("k", "v")
    client.fence()
    assert client.get("k", 0) == "a:b"
    client.finalize()
    assert manager.lines.result(10)[2:] == [
        "cmd=put kvsname=kvs_7 key=k value=v\n",
        "cmd=barrier_in\n",
        "cmd=get kvsname=kvs_7 key=k\n",
        "cmd=finalize\n",
    ]


@pytest.mark.parametrize(
    ("answers", "cause"),
    [([], "connection has ended"), (["cmd=get_result rc=-1 msg=no_such_key"], "no_such_key"), (["x" * 2**17], "PMI")],
)
def test_a_manager_that_does_not_answer_is_an_error_that_says_what_to_do(
    manager: Manager, answers: list[str], cause: str
) -> None:
    client = manager.client(*answers)
    with pytest.raises(JobAbortedError, match=rf"mpiexec started 3 processes, but.*{cause}.*AIOMPI_ENGINE=none"):
        client.get("k", 0)


@pytest.mark.parametrize(
    ("init", "answers", "cause"),
    [
        (("cmd=response_to_init rc=0", "cmd=my_kvsname"), [], "its answer 'cmd=my_kvsname' has no kvsname"),
        (("\xff\0=\x1b[2J", "=" * 500), [], r"its answer '=+' has no kvsname"),
        (INIT, ["cmd=get_result rc=0"], "its answer 'cmd=get_result rc=0' has no value"),
        (INIT, [""], "its answer '' has no value"),
    ],
)
def test_answers_that_make_no_sense(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, init: tuple[str, str], answers: list[str], cause: str
) -> None:
    monkeypatch.setitem(globals(), "INIT", init)
    with pytest.raises(JobAbortedError, match=rf"mpiexec started 3 processes, but this one cannot talk to it: {cause}"):
        manager.client(*answers).get("k", 0)


@cases("rank", ["-1", "x", "", "3", "1" * 5000, "0x1", "\u0663"])
def test_a_place_that_makes_no_sense(rank: str) -> None:
    with pytest.raises(JobAbortedError, match=r"it says that this is rank .* of 3"):
        bootstrap.join("pmi", {"PMI_FD": "987", "PMI_RANK": rank, "PMI_SIZE": "3"}, Settings())


def test_a_descriptor_that_is_closed_is_an_error_and_no_job_of_one_rank() -> None:
    with pytest.raises(JobAbortedError, match="PMI_FD is no open socket"):
        bootstrap.join("pmi", {"PMI_FD": "987", "PMI_RANK": "0", "PMI_SIZE": "2"}, Settings())


def test_which_engine_is_found() -> None:
    assert bootstrap.find({}) == bootstrap.find({"PMI_RANK": "1"}) == ""
    assert bootstrap.find({"PMI_FD": "5", "PMI_RANK": "1", "PMI_SIZE": "2"}) == "pmi"
    assert bootstrap.find({"PMI_PORT": "node1:1", "PMI_ID": "0"}) == "pmi"


def test_a_port_in_place_of_a_socket() -> None:
    answers = ("cmd=initack rc=0", "cmd=set size=3", "cmd=set rank=1", "cmd=set debug=0", *INIT)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environ = {"PMI_PORT": f"127.0.0.1:{listener.getsockname()[1]}", "PMI_ID": "7"}

        def answer() -> list[str]:
            sock, _ = listener.accept()
            with sock, sock.makefile("rb") as file:
                lines = [file.readline().decode()]
                sock.sendall("\n".join(answers[:4]).encode() + b"\n")
                for text in INIT:
                    lines.append(file.readline().decode())
                    sock.sendall(text.encode() + b"\n")
            return lines

        with ThreadPoolExecutor(1) as thread:
            said = thread.submit(answer)
            client = PMI(environ)
            assert (client.rank, client.size, said.result(LIMIT)[0]) == (1, 3, "cmd=initack pmiid=7\n")
            assert client._socket is not None
            client._socket.close()
    with pytest.raises(
        JobAbortedError, match=r"mpiexec started several processes, .* PMI_PORT=127.0.0.1:\d+: .*refused"
    ):
        PMI(environ)


@pytest.mark.parametrize("name", ["pmi", "pmix", "slurm"])
def test_an_engine_that_is_named_but_has_not_started_this_process(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"AIOMPI_ENGINE={name}: this engine has not started this process"):
        bootstrap.join(name, {"RANK": "0"}, Settings())


def test_an_engine_that_does_not_exist() -> None:
    with pytest.raises(InvalidArgumentError, match=r"AIOMPI_ENGINE=nix: .* pmi, .*none"):
        bootstrap.join("nix", {}, Settings())
