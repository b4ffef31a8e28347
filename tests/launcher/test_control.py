"""The launcher's agent: which processes may connect, and which messages it passes on."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from aiompi.errors import JobAbortedError
from aiompi.job.bootstrap import meeting
from aiompi.settings import Settings
from aiompi.wire import control, hello, version
from aiompi_launcher.net import control as control_server
from aiompi_launcher.net import listen
from aiompi_launcher.net.control import ControlServer, Link, MessageObserver
from aiompi_launcher.net.listen import listen_tcp
from support.descriptors import no_more_descriptors
from support.limits import LIMIT
from support.middle import HELLO, Middle, certificates

KEY = bytes(range(32))


class Observer(MessageObserver):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.joined: list[tuple[Link, int, int]] = []
        self.messages: list[tuple[int, control.Message]] = []
        self.closed: list[tuple[int, str]] = []
        self.strangers: list[str] = []
        self.shortages = 0

    def on_join(self, link: Link, wanted: int, join: control.Join) -> None:
        link.rank = wanted
        self.joined.append((link, wanted, join.pid))

    def on_message(self, link: Link, message: control.Message) -> None:
        self.messages.append((link.rank, message))

    def on_closed(self, link: Link, error: str) -> None:
        self.closed.append((link.rank, error))

    def on_stranger(self, address: str, error: str) -> None:
        assert address.startswith("127.0.0.")
        self.strangers.append(error)

    def on_shortage(self) -> None:
        self.shortages += 1


class Rank:
    """The other end."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
        self.socket.setblocking(False)

    async def read(self, count: int) -> bytes:
        """So many bytes, fewer at the end."""
        loop, data = asyncio.get_running_loop(), b""
        async with asyncio.timeout(LIMIT):
            while len(data) < count:
                piece = await loop.sock_recv(self.socket, count - len(data))
                if not piece:
                    break
                data += piece
        return data

    async def write(self, data: bytes, *, piece: int = 65536) -> None:
        for start in range(0, len(data), piece):
            await asyncio.get_running_loop().sock_sendall(self.socket, data[start : start + piece])
            if piece == 1:
                await asyncio.sleep(0)

    async def prove(self, rank: int = 0, key: bytes = KEY, *, piece: int = 65536, then: bytes = b"") -> None:
        """The handshake, with what follows it directly behind."""
        handshake = hello.Connector(
            key, role=hello.ROLE_CONTROL, rank=rank, target=hello.RANK_AGENT, channel=hello.Protection.PLAIN
        )
        await self.write(handshake.data_to_send(), piece=piece)
        handshake.receive_data(await self.read(handshake.needed))
        await self.write(handshake.data_to_send() + then, piece=piece)

    async def is_dropped(self) -> bool:
        try:
            return await self.read(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def listener() -> socket.socket:
    return listen_tcp("127.0.0.1")


@pytest.fixture
def port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


@pytest_asyncio.fixture
async def server(
    observer: Observer, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ControlServer]:
    monkeypatch.setattr(control_server, "MAX_STRANGERS", 3)
    server = ControlServer(observer, KEY, listener, hello_timeout=LIMIT, settings=Settings(tls="off"))
    yield server
    server.close()
    for link, _, _ in observer.joined:
        link.drop("end of the test")


@pytest.fixture
def ranks(server: ControlServer, port: int) -> Iterator[list[Rank]]:
    ranks = [Rank(port) for _ in range(3)]
    yield ranks
    for rank in ranks:
        rank.socket.close()


async def until(condition) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0)


JOIN = control.encode(control.Join(4711))


@pytest.mark.asyncio
@pytest.mark.parametrize("piece", [65536, 1])
async def test_join_and_talk(observer: Observer, ranks: list[Rank], piece: int):
    finalize = control.encode(control.Finalize())
    await ranks[0].prove(2, piece=piece, then=JOIN + finalize)
    await until(lambda: observer.messages)
    ((link, wanted, pid),) = observer.joined
    assert (wanted, pid) == (2, 4711)
    assert observer.messages == [(2, control.Finalize())]
    answer = control.encode(control.Left(1))
    link.send(control.encode(control.Left(1)))
    assert await ranks[0].read(len(answer)) == answer
    ranks[0].socket.close()
    await until(lambda: observer.closed)
    assert observer.closed == [(2, "")]


@pytest.mark.asyncio
async def test_messages_leave_at_once(observer: Observer, ranks: list[Rank]):
    """Also those that follow another one, which TCP would keep until that was acknowledged, for 40 ms."""
    await ranks[0].prove(0, then=JOIN)
    await until(lambda: observer.joined)
    assert observer.joined[0][0]._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.asyncio
async def test_last_words_are_heard_although_nobody_hears_the_answer(observer: Observer, ranks: list[Rank]):
    await ranks[0].prove(0, then=JOIN)
    await until(lambda: observer.joined)
    link = observer.joined[0][0]
    link.send(control.encode(control.Left(1)))  # never read, so that closing resets the connection
    await ranks[0].write(control.encode(control.Leave()))
    ranks[0].socket.close()
    for _ in range(3):
        link.send(control.encode(control.Left(2)))
    await until(lambda: observer.closed)
    assert observer.messages == [(0, control.Leave())]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.0\r\n\r\n", b"\0", b"\xff" * 1_000_000, version.banner() + b"\xff" * 61, b"aiompi\0\2"]
)
async def test_garbage_instead_of_hello(observer: Observer, ranks: list[Rank], data: bytes):
    with contextlib.suppress(ConnectionError):
        await ranks[0].write(data)
    assert await ranks[0].is_dropped()
    assert len(observer.strangers) == 1
    await ranks[1].prove(0, then=JOIN)
    await until(lambda: observer.joined)


@pytest.mark.asyncio
async def test_a_rank_of_another_version(observer: Observer, ranks: list[Rank], monkeypatch: pytest.MonkeyPatch):
    ours = version.banner()
    with monkeypatch.context() as patched:
        patched.setattr(version, "own", version.Release(7, "0.7.1"))
        await ranks[0].write(
            hello.Connector(KEY, role=7, rank=0, target=7, channel=hello.Protection.PLAIN).data_to_send()
        )
    assert await ranks[0].read(len(ours)) == ours
    assert await ranks[0].is_dropped()
    (text,) = observer.strangers
    assert "it is aiompi 0.7.1 (protocol 7), and this process is aiompi" in text
    await ranks[1].prove(0, then=JOIN)
    await until(lambda: observer.joined)


@pytest.mark.asyncio
async def test_a_connection_that_is_reset_after_its_proof(observer: Observer, ranks: list[Rank]):
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    handshake = hello.Connector(
        KEY, role=hello.ROLE_CONTROL, rank=0, target=hello.RANK_AGENT, channel=hello.Protection.PLAIN
    )
    await ranks[0].write(handshake.data_to_send())
    handshake.receive_data(await ranks[0].read(handshake.needed))
    ranks[0].socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ranks[0].socket.send(handshake.data_to_send())
    ranks[0].socket.close()
    await until(lambda: observer.strangers)
    assert observer.strangers[0] in (
        "it ended before it had proven the key of the job",
        "it ended before it had joined",
    )
    assert not failures
    await ranks[1].prove(0, then=JOIN)
    await until(lambda: observer.joined)


@pytest.mark.asyncio
async def test_only_a_rank_that_has_read_the_answer_may_have_another_key(observer: Observer, ranks: list[Rank]):
    """One that is killed has not read it, or has proven the key."""
    begins = [
        hello.Connector(KEY, role=hello.ROLE_CONTROL, rank=0, target=hello.RANK_AGENT, channel=hello.Protection.PLAIN)
        for _ in ranks
    ]
    for rank, begin in zip(ranks, begins, strict=True):
        await rank.write(begin.data_to_send())
    for rank, begin in zip(ranks[1:], begins[1:], strict=True):
        begin.receive_data(await rank.read(begin.needed))
    await ranks[2].write(begins[2].data_to_send())
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, select.select, [ranks[0].socket], [], [], LIMIT) != ([], [], [])
    said = [
        "it ended before it had proven the key of the job",
        "it ended at the proof of the key of the job: is its key the right one?",
        "it ended before it had joined",
    ]
    for number, rank in enumerate(ranks):
        rank.socket.close()
        await until(lambda: len(observer.strangers) > number)
    assert observer.strangers == said


@pytest.mark.asyncio
async def test_a_crowd_of_one_source_holds_up_no_other(
    observer: Observer, listener: socket.socket, port: int, monkeypatch: pytest.MonkeyPatch
):
    """What has sent a byte is given time, whatever else comes; it has three quarters of the room."""
    monkeypatch.setattr(control_server, "MAX_STRANGERS", 8)
    monkeypatch.setattr(listen, "_BEGUN", LIMIT)
    server = ControlServer(observer, KEY, listener, hello_timeout=LIMIT, settings=Settings(tls="off"))
    first = hello.Connector(
        KEY, role=hello.ROLE_CONTROL, rank=0, target=hello.RANK_AGENT, channel=hello.Protection.PLAIN
    ).data_to_send()
    crowd = [Rank(port, "127.0.0.2") for _ in range(60)]
    for each in crowd:
        await each.write(first[:1])
    rank = Rank(port)
    await rank.prove(0, then=JOIN)
    await until(lambda: observer.joined)
    assert (observer.strangers, len(server._strangers)) == ([], 6)
    server.close()
    for each in (*crowd, rank):
        each.socket.close()
    observer.joined[0][0].drop("end of the test")


@pytest.mark.asyncio
async def test_many_ranks_of_one_source_all_join(
    observer: Observer, server: ControlServer, port: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listen, "_BEGUN", LIMIT)
    ranks = [Rank(port) for _ in range(60)]
    await asyncio.gather(*(rank.prove(number, then=JOIN) for number, rank in enumerate(ranks)))
    await until(lambda: len(observer.joined) == 60)
    assert observer.strangers == []
    for rank in ranks:
        rank.socket.close()


@pytest.mark.asyncio
async def test_of_too_many_that_wait_the_last_of_the_largest_crowd_are_closed(
    observer: Observer, listener: socket.socket, port: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(control_server, "MAX_STRANGERS", 2)
    monkeypatch.setattr(listen, "_MOST_WAITING", 4)
    monkeypatch.setattr(listen, "_SILENT", LIMIT)
    monkeypatch.setattr(listen, "_BEGUN", LIMIT)
    server = ControlServer(observer, KEY, listener, hello_timeout=LIMIT, settings=Settings(tls="off"))
    crowd = [Rank(port, "127.0.0.2") for _ in range(7)]
    other = Rank(port)
    assert all([await each.is_dropped() for each in crowd[5:]])
    server.close()
    assert all([await each.is_dropped() for each in (*crowd[:5], other)])
    for each in (*crowd, other):
        each.socket.close()


@pytest.mark.asyncio
async def test_wrong_key(observer: Observer, ranks: list[Rank]):
    handshake = hello.Connector(
        b"x" * 32, role=hello.ROLE_CONTROL, rank=0, target=hello.RANK_AGENT, channel=hello.Protection.PLAIN
    )
    await ranks[0].write(handshake.data_to_send())
    await ranks[0].read(handshake.needed)
    await ranks[0].write(b"\0" * hello.PROOF_BYTES + JOIN)
    assert await ranks[0].is_dropped()
    assert "could not prove the key" in observer.strangers[0]
    assert not observer.joined


@pytest.mark.asyncio
@pytest.mark.parametrize("then", [control.encode(control.Finalize()), b"\xff" * 4, b"\0\0\0\1\xc1", b"\0\0\0\2\x92\1"])
async def test_a_rank_that_does_not_join_properly(observer: Observer, ranks: list[Rank], then: bytes):
    await ranks[0].prove(0, then=then)
    assert await ranks[0].is_dropped()
    assert len(observer.strangers) == 1
    assert not observer.joined


@pytest.mark.asyncio
async def test_a_rank_that_breaks_the_protocol(observer: Observer, ranks: list[Rank]):
    await ranks[0].prove(1, then=JOIN)
    await until(lambda: observer.joined)
    await ranks[0].write(b"\xff\xff\xff\xff")
    assert await ranks[0].is_dropped()
    ((rank, error),) = observer.closed
    assert (rank, "4294967295 bytes" in error) == (1, True)


@pytest.mark.asyncio
async def test_silence(observer: Observer, server: ControlServer, port: int):
    server.hello_timeout = 0.01
    rank = Rank(port)
    assert await rank.is_dropped()
    assert observer.strangers == ["it did not prove the key of the job in time"]
    rank.socket.close()


@pytest.mark.asyncio
async def test_a_rank_that_has_joined_has_time(
    observer: Observer, server: ControlServer, port: int, monkeypatch: pytest.MonkeyPatch
):
    rank, idle = Rank(port), Rank(port)
    await rank.prove(0, then=JOIN)
    await until(lambda: observer.joined and server._strangers)
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + LIMIT)
    assert await idle.is_dropped()
    assert observer.strangers == ["it did not prove the key of the job in time"]
    assert not observer.closed
    for end in (rank, idle):
        end.socket.close()


@pytest.mark.asyncio
async def test_too_many_strangers_push_out_the_oldest(
    observer: Observer, server: ControlServer, port: int, ranks: list[Rank]
):
    await until(lambda: len(server._strangers) == 3)
    late = Rank(port)
    assert await ranks[0].is_dropped()
    assert observer.strangers == ["too many connections that have not identified themselves"]
    await late.prove(0, then=JOIN)
    await until(lambda: observer.joined)
    late.socket.close()


@pytest.mark.asyncio
async def test_launched_ranks_are_not_pushed_out(
    observer: Observer, server: ControlServer, port: int, ranks: list[Rank]
):
    server.hello_timeout = None
    late = Rank(port)
    await until(lambda: len(server._strangers) == 4)
    last = Rank(port)
    with no_more_descriptors():
        await until(lambda: observer.shortages)
    assert not observer.strangers
    for rank in (late, last):
        rank.socket.close()


@pytest.mark.asyncio
async def test_a_crowd_of_strangers_pushes_out_no_rank_that_has_begun(
    observer: Observer, server: ControlServer, port: int, ranks: list[Rank], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listen, "_BEGUN", LIMIT)
    await until(lambda: len(server._strangers) == 3)
    handshake = hello.Connector(
        KEY, role=hello.ROLE_CONTROL, rank=0, target=hello.RANK_AGENT, channel=hello.Protection.PLAIN
    )
    whole = handshake.data_to_send()
    await ranks[0].write(whole[:10])
    late = [Rank(port) for _ in range(3)]
    for silent in (ranks[1], ranks[2], late[0]):
        assert await silent.is_dropped()
    await ranks[0].write(whole[10:])
    handshake.receive_data(await ranks[0].read(handshake.needed))
    await ranks[0].write(handshake.data_to_send() + JOIN)
    await late[2].prove(1, then=JOIN)
    await until(lambda: len(observer.joined) == 2)
    for rank in late:
        rank.socket.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("site_has", ["no certificates", "certificates"])
async def test_nothing_that_passes_on_the_hello_is_in_between(
    observer: Observer, listener: socket.socket, tmp_path: Path, site_has: str
):
    files = certificates(tmp_path) if site_has == "certificates" else {}
    settings = Settings(tls="on", **files)
    server = ControlServer(observer, KEY, listener, hello_timeout=LIMIT, settings=settings)

    def join(port: int) -> None:
        with meeting.connect(["127.0.0.1"], port, KEY, 0, settings, LIMIT) as sock:
            sock.sendall(JOIN)

    with contextlib.closing(server):
        await asyncio.to_thread(join, listener.getsockname()[1])
        await until(lambda: observer.joined)
        with Middle(listener.getsockname(), HELLO, files) as middle:
            with pytest.raises(JobAbortedError, match="refuses this process"):
                await asyncio.to_thread(join, middle.address[1])
            assert middle.secured.is_set()
            await until(lambda: observer.strangers)
        assert "could not prove the key" in observer.strangers[0]
        assert len(observer.joined) == 1
        await until(lambda: observer.closed)


@pytest.mark.asyncio
async def test_a_long_message_to_a_slow_rank(observer: Observer, ranks: list[Rank]):
    await ranks[0].prove(0, then=JOIN)
    await until(lambda: observer.joined)
    link = observer.joined[0][0]
    message = control.Cards([{"host": "x" * 5_000_000}])
    link.send(control.encode(message))
    link.close()
    encoded = control.encode(message)
    assert await ranks[0].read(len(encoded) + 1) == encoded
    assert not observer.closed


@pytest.mark.asyncio
async def test_what_a_rank_does_not_read_is_bounded(
    observer: Observer, ranks: list[Rank], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(control_server, "MAX_UNREAD", 2**20)
    await ranks[0].prove(0, then=JOIN)
    await until(lambda: observer.joined)
    link = observer.joined[0][0]
    message = control.encode(control.Cards([{"host": "x" * 2**16}]))
    for _ in range(1000):
        link.send(message)
        assert link.backlog <= 2**20
    await until(lambda: observer.closed)
    assert observer.closed == [(0, f"does not read what is sent to it: {2**20} bytes")]


@pytest.mark.asyncio
async def test_what_a_rank_sends_is_bounded_before_it_is_kept(observer: Observer, ranks: list[Rank]):
    await ranks[0].prove(0, then=JOIN)
    await until(lambda: observer.joined)
    await ranks[0].write(struct.pack("!I", control.MAX_FROM_RANK + 1))
    await until(lambda: observer.closed)
    ((_, error),) = observer.closed
    assert error.startswith(f"broke the control protocol: control message of {control.MAX_FROM_RANK + 1} bytes")


@pytest.mark.asyncio
async def test_a_rank_is_not_read_for_a_while(observer: Observer, ranks: list[Rank]):
    await ranks[0].prove(0, then=JOIN)
    await until(lambda: observer.joined)
    link = observer.joined[0][0]
    link.hold()
    await ranks[0].write(control.encode(control.Finalize()))
    await ranks[1].prove(1, then=JOIN + control.encode(control.Leave()))
    await until(lambda: observer.messages)
    assert observer.messages == [(1, control.Leave())]
    link.resume()
    await until(lambda: len(observer.messages) == 2)


@pytest.mark.asyncio
async def test_closing_stops_listening(observer: Observer, server: ControlServer, port: int, ranks: list[Rank]):
    await until(lambda: len(server._strangers) == 3)
    server.close()
    assert await ranks[0].is_dropped()
    with pytest.raises(ConnectionRefusedError):
        Rank(port)
    assert observer.strangers == []


@pytest.mark.asyncio
async def test_descriptors_run_out(observer: Observer, server: ControlServer, port: int, ranks: list[Rank]):
    """A connection without proof makes room."""
    await ranks[0].prove(0, then=JOIN)
    await until(lambda: observer.joined and len(server._strangers) == 2)
    late = Rank(port)
    with no_more_descriptors():
        await late.prove(1, then=JOIN)
        await until(lambda: len(observer.joined) == 2)
    assert observer.strangers == ["descriptors ran out"]
    assert not observer.shortages
    late.socket.close()


@pytest.mark.asyncio
async def test_descriptors_run_out_for_ranks(observer: Observer, server: ControlServer, port: int, ranks: list[Rank]):
    """A connection that has joined stays, and the observer is told."""
    for number, rank in enumerate(ranks):
        await rank.prove(number, then=JOIN)
    await until(lambda: len(observer.joined) == 3)
    late = Rank(port)
    with no_more_descriptors():
        await until(lambda: observer.shortages)
    await late.prove(3, then=JOIN)
    await until(lambda: len(observer.joined) == 4)
    assert not observer.strangers
    late.socket.close()


@pytest.mark.asyncio
async def test_a_rank_that_says_much_leaves_turns_to_the_others(
    server: ControlServer, observer: Observer, ranks: list[Rank]
) -> None:
    await ranks[0].prove(0, then=control.encode(control.Join(1)))
    await until(lambda: observer.joined)
    much = control.encode(control.Finalize()) * 8000
    assert ranks[0].socket.send(much) == len(much)
    per_turn = [0]

    def all_is_read() -> bool:
        per_turn.append(len(observer.messages) - sum(per_turn))
        return len(observer.messages) == 8000

    await until(all_is_read)
    assert max(per_turn) <= 3000
