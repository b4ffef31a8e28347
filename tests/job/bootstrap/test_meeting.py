"""Passing the address and the key of a job through the store of a process manager, and the connection to the agent."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from aiompi.base import release
from aiompi.errors import InvalidArgumentError, JobAbortedError, MPIError
from aiompi.impi.key_exchange import KeyExchange
from aiompi.job import bootstrap
from aiompi.job.bootstrap import meeting
from aiompi.job.bootstrap.meeting import Store
from aiompi.settings import Settings
from aiompi.wire.hello import RANK_AGENT, ROLE_CONTROL, Acceptor, Protection
from support.limits import LIMIT

KEY = bytes(range(32))
HERE = Settings(bind="127.0.0.1", tls="off")
#: what rank 0 says of its agent
WHERE = json.dumps([release.PROTOCOL, release.VERSION, ["127.0.0.1"], 1])


class Memory(Store):
    """A store of threads that notices what is got before it can be there."""

    def __init__(self, rank: int, size: int, shared: dict[str, tuple[int, str]], barrier: threading.Barrier) -> None:
        self.name, self.rank, self.size = "memory", rank, size
        self._mine: dict[str, tuple[int, str]] = {}
        self._shared, self._barrier = shared, barrier

    def put(self, key: str, value: str) -> None:
        assert len(key) <= 32
        assert len(value) < 1024
        assert not set(value) & set(" =\n")
        self._mine[key] = self.rank, value

    def get(self, key: str, rank: int) -> str:
        owner, value = self._shared[key]
        assert owner == rank
        return value

    def fence(self) -> None:
        self._barrier.wait(LIMIT)
        self._shared.update(self._mine)
        self._barrier.wait(LIMIT)

    def abort(self, code: int, reason: str) -> None: ...

    def finalize(self) -> None: ...


@pytest.mark.parametrize("size", [2, 33, 34, 70])
def test_every_process_gets_the_key_which_the_store_never_has(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: dict[str, tuple[int, str]] = {}
    barrier = threading.Barrier(size)
    stores = [Memory(rank, size, shared, barrier) for rank in range(size)]

    def share(store: Memory) -> tuple[str, bytes]:
        return meeting._share(store, "here" if store.rank == 0 else "", KEY if store.rank == 0 else b"")

    with ThreadPoolExecutor(size) as threads:
        assert set(threads.map(share, stores)) == {("here", KEY)}
    assert not any(KEY.hex() in value for _, value in shared.values())


class Garbled(Memory):
    """A store in which rank 0 has put something else."""

    def __init__(self, **values: str) -> None:
        super().__init__(1, 2, {}, threading.Barrier(1))
        public = KeyExchange(0).public.hex()
        self._values = {"aiompi-agent": WHERE, "aiompi-public-0": public, "aiompi-key-1": "00" * 64} | values

    def get(self, key: str, rank: int) -> str:
        return self._values[key]


@pytest.mark.parametrize(
    "values",
    [
        *({"aiompi-agent": text} for text in ("", "x", "[1", "[]", "{}", f"[{release.PROTOCOL},1]", "[[],[]]")),
        *({"aiompi-public-0": text} for text in ("", "xyz", "00")),
        *({"aiompi-key-1": text} for text in ("", "xyz", "00")),
    ],
)
def test_a_rank_0_that_makes_no_sense(values: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_manager", lambda *_: Garbled(**values))
    with pytest.raises(MPIError, match=r"cannot be understood|half of a key exchange|changed on its way"):
        bootstrap.join("pmi", {}, HERE)


def test_a_rank_0_of_another_version() -> None:
    where = json.dumps([release.PROTOCOL + 1, "9.9.9", "what", "ever", "else"])
    own = rf"aiompi {release.VERSION} \(protocol {release.PROTOCOL}\)"
    with pytest.raises(
        JobAbortedError, match=rf"rank 1 refuses rank 0: it is aiompi 9\.9\.9 .*this process is {own}: "
    ):
        Garbled(**{"aiompi-agent": where})._introduced(where)


def test_a_tree_of_more_than_two_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_FANOUT", 2)
    test_every_process_gets_the_key_which_the_store_never_has(12, monkeypatch)


def test_a_connection_proves_the_key_and_tries_each_address() -> None:
    with meeting.listen(HERE, [0]) as listener, ThreadPoolExecutor(1) as thread:
        port = listener.getsockname()[1]
        connecting = thread.submit(meeting.connect, ["127.0.0.2", "127.0.0.1"], port, KEY, 3, HERE, 5.0)
        assert _accept(listener, KEY) == 3
        connecting.result(10).close()


def test_a_wrong_key_is_an_error_that_says_so() -> None:
    with meeting.listen(HERE, [0]) as listener, ThreadPoolExecutor(1) as thread:
        connecting = thread.submit(meeting.connect, ["127.0.0.1"], listener.getsockname()[1], KEY, 3, HERE, 5.0)
        _accept(listener, bytes(32))
        with pytest.raises(JobAbortedError, match=r"rank 3.*right key"):
            connecting.result(10)


def test_an_address_at_which_nothing_listens_is_named() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # so that nobody else listens there
        port = sock.getsockname()[1]
        with pytest.raises(JobAbortedError, match=rf"127\.0\.0\.1 port {port} within 0\.1 s: .*refused"):
            meeting.connect(["127.0.0.1"], port, KEY, 1, HERE, 0.1)


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(InvalidArgumentError, match=r"192\.0\.2\.77"):
        meeting.listen(Settings(bind="192.0.2.77"), [0])


def _accept(listener: socket.socket, key: bytes) -> int:
    sock, _ = listener.accept()
    with sock:
        handshake = Acceptor.alone(key, role=ROLE_CONTROL, rank=RANK_AGENT, channel=Protection.PLAIN)
        while not handshake.done and (data := sock.recv(handshake.needed)):
            handshake.receive_data(data)
            sock.sendall(handshake.data_to_send())
    return handshake.peer_rank
