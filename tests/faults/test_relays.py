"""Something without the key that passes on the hello between two ends, whatever their addresses are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi.errors import JobAbortedError, RemoteProtocolError
from aiompi.net.handshake import Greeter, protection_of
from aiompi.settings import Settings
from aiompi.wire import control, frame
from aiompi.wire.frame import HEADER
from aiompi.wire.hello import RANK_AGENT, ROLE_CONTROL, Acceptor, Connector
from support.cases import cases
from support.frames import Header
from support.jobs import Site
from support.limits import LIMIT
from support.middle import certificates, is_told_nothing, relay_words
from support.worlds import STREAMS, PolledWorld, irecv, isend

KEY = bytes(range(32))
#: a message that something in between says it has
FORGED = HEADER.pack(*Header(frame.EAGER, source=1, length=6, tag=3)) + b"forged"
JOIN = control.encode(control.Join(1))
ENTER = control.encode(control.Enter(1, "", "evil", {}))


@contextlib.contextmanager
def relay(target: Any, said: bytes) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run something in between; its port, and itself."""
    words = [sys.executable, *relay_words(target, said)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


@pytest.fixture(params=["no certificates", "certificates"])
def site_has(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return certificates(tmp_path) if request.param == "certificates" else {}


def test_a_relay_between_ranks_on_one_host(site_has: dict[str, str]) -> None:
    """Both ends see addresses of loopback."""
    with PolledWorld("tcp", 2, "", tls="auto", **site_has) as w, relay(w.addresses[0], FORGED) as (port, process):
        w.addresses[0] = ["127.0.0.1", port]
        received = irecv(w.comms[0], 1, 3)
        isend(w.comms[1], b"what only rank 0 may read", 0)
        w.until(lambda: process.poll() is not None)
        assert process.stdout is not None
        assert is_told_nothing(process.stdout.read())
        assert not received.done()
        assert not w.transports[0].links


def test_a_relay_beside_the_agent_of_an_open_job(
    run: Callable[[Coroutine[Any, Any, Any]], Any], site_has: dict[str, str]
) -> None:
    """It is on the host of the agent, which sees its own address at the other end."""
    settings = Settings(**site_has)  # type: ignore[arg-type]

    async def main() -> None:
        async with aiompi.serve(key=KEY, settings=settings) as job:
            host, _, port = job.address.rpartition(":")
            with relay((host, port), ENTER) as (own, process):
                with pytest.raises(JobAbortedError):
                    await aiompi.join(f"127.0.0.1:{own}", KEY, settings=settings)
                out, _ = await asyncio.to_thread(process.communicate, timeout=LIMIT)
            assert is_told_nothing(out)
            assert job.members() == ()

    run(main())


def test_what_a_relay_gets_without_encryption(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    """This is what the tests above look for, and why AIOMPI_TLS=off is for networks in which nobody else is."""
    settings = Settings(tls="off")

    async def main() -> None:
        async with aiompi.serve(key=KEY, settings=settings) as job:
            host, _, port = job.address.rpartition(":")
            with relay((host, port), ENTER) as (own, process):
                with pytest.raises(JobAbortedError):
                    await aiompi.join(f"127.0.0.1:{own}", KEY, settings=settings)
                while not job.members():
                    await asyncio.sleep(0)
                process.kill()

    run(main())


#: joins the job whose address it is given
RANK = """
import asyncio, sys, aiompi
async def main():
    async with aiompi.init(sys.argv[1]) as world:
        print(await world.allreduce(1))
asyncio.run(main())
"""


def test_a_relay_beside_the_agent_of_a_job(site: Site) -> None:
    """What it says costs the job nothing."""
    env = {"AIOMPI_KEY": KEY.hex()}
    serving = site.launch("--serve", "2", env=env)
    serving.expect("\n")
    address, program = serving.out.strip(), site.program(RANK)
    with relay(address.split(":"), JOIN) as (port, process):
        rank = site.start(sys.executable, program, f"127.0.0.1:{port}", env=env)
        assert "cannot be joined" in rank.finish().err
        assert is_told_nothing(process.communicate(timeout=LIMIT)[0])
    ranks = [site.start(sys.executable, program, address, env=env) for _ in range(2)]
    assert [rank.finish().lines for rank in ranks] == [["2"], ["2"]]
    assert serving.finish().code == 0


# Two ends that differ.


def converse(ends: tuple[Greeter, Greeter]) -> list[str]:
    """Let two ends greet each other; return why each ended the connection, or that it did not."""
    said = ["", ""]
    while "" in said:
        for number, end in enumerate(ends):
            if not said[number]:
                try:
                    said[number] = "greeted" if end.advance() else ""
                except RemoteProtocolError as error:
                    said[number] = str(error)
                    end.socket.close()
    return said


def ends_of(connector: socket.socket, acceptor: socket.socket, *tls: str) -> tuple[Greeter, Greeter]:
    begins, answers = (Settings(tls=each) for each in tls)
    for sock in (connector, acceptor):
        sock.setblocking(False)
    channel = protection_of(connector, begins)
    hello = Connector(KEY, role=ROLE_CONTROL, rank=0, target=RANK_AGENT, channel=channel)
    other = Acceptor.alone(KEY, role=ROLE_CONTROL, rank=RANK_AGENT, channel=protection_of(acceptor, answers))
    return Greeter(connector, hello, begins), Greeter(acceptor, other, answers)


def tcp() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return socket.create_connection(listener.getsockname()), listener.accept()[0]


@cases(
    ("tls", "differ"),
    [(("auto", "auto"), False), (("auto", "on"), False), (("off", "off"), False), (("off", "auto"), True),
     (("on", "off"), True)],
)  # fmt: skip
def test_both_ends_encrypt_or_none(tls: tuple[str, str], differ: bool) -> None:
    ends = ends_of(*tcp(), *tls)
    said = converse(ends)
    for end in ends:
        end.socket.close()
    if not differ:
        assert said == ["greeted", "greeted"]
    for own, other, text in zip(tls, tls[::-1], said, strict=True):
        words = "(AIOMPI_TLS=off)", "(AIOMPI_TLS is not off)"
        assert not differ or f"its end of the connection is TCP that is {'not ' if other == 'off' else ''}" in text
        assert not differ or text.index(words[other != "off"]) < text.index(words[own != "off"])
        assert not differ or text.endswith("set AIOMPI_TLS alike at both ends")


@pytest.mark.parametrize("tls", ["auto", "off"])
@pytest.mark.parametrize("local", ["the connector", "the acceptor"])
def test_a_relay_between_a_unix_socket_and_tcp(tls: str, local: str) -> None:
    """One end believes that nothing leaves its host."""
    far, near = tcp()
    own, other = socket.socketpair()
    pair = (own, near) if local == "the connector" else (near, own)
    ends = ends_of(*pair, tls, tls)
    said = ["", ""]
    for sock in (far, other):
        sock.setblocking(False)
    while "" in said:
        for source, dest in ((far, other), (other, far)):
            with contextlib.suppress(OSError):
                dest.send(source.recv(4096))
        for number, end in enumerate(ends):
            if not said[number]:
                with contextlib.suppress(BlockingIOError):
                    try:
                        said[number] = "greeted" if end.advance() else ""
                    except RemoteProtocolError as error:
                        said[number] = str(error)
    for sock in (far, other, *(end.socket for end in ends)):
        sock.close()
    assert all(text.endswith("something in between passes on what they say") for text in said)


NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
@pytest.mark.parametrize("other", ["connector", "acceptor"])
def test_a_process_of_another_user_gets_no_word_over_a_unix_socket(other: str) -> None:
    """The name is abstract, so that nothing but the look at the user keeps it out."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as dialled:
        listener.bind(b"\0aiompi-test-" + os.urandom(8).hex().encode())
        with as_nobody() if other == "acceptor" else contextlib.nullcontext():
            listener.listen()
        with as_nobody() if other == "connector" else contextlib.nullcontext():
            dialled.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            ends = ends_of(dialled, accepted, "auto", "auto")
            end, stranger = ends if other == "acceptor" else ends[::-1]
            with pytest.raises(RemoteProtocolError, match=f"belongs to user {NOBODY}, and this process to user 0"):
                end.advance()
            assert not end.silent, "it is not tried again"
            with pytest.raises(BlockingIOError):
                stranger.socket.recv(1)


@pytest.mark.parametrize("kind", sorted({"unix", "shared_memory"} & STREAMS.keys()))
def test_ranks_of_different_users_do_not_use_unix_sockets(kind: str) -> None:
    with PolledWorld(kind, 2, "") as w:
        name, identity, *rest = w.addresses[1]
        place, _, user = identity.rpartition(":")
        peer = w.engines[0].peer(1)
        assert w.transports[0].reaches(peer, [name, identity, *rest])  # type: ignore[arg-type]
        assert not w.transports[0].reaches(peer, [name, f"{place}:{int(user) + 1}", *rest])  # type: ignore[arg-type]


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_forward_is_no_relay(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    """It passes on everything, and neither end notices."""

    async def main() -> None:
        seen = bytearray()

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            host, _, port = job.address.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))

            async def pump(source: asyncio.StreamReader, dest: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    seen.extend(data)
                    dest.write(data)
                dest.close()

            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

        async with aiompi.serve() as job:
            server = await asyncio.start_server(forward, "127.0.0.1", 0)
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with aiompi.join(address, job.key, attributes={"word": "attack at dawn"}) as member:
                world = await member.assemble()
                assert (world.size, job.members()[0].attributes) == (1, {"word": "attack at dawn"})
            server.close()
        assert seen
        assert b"attack at dawn" not in seen

    run(main())


def test_a_rank_and_an_agent_that_differ(site: Site) -> None:
    """Both say so, and name the setting."""
    serving = site.launch("--serve", "1", env={"AIOMPI_KEY": KEY.hex(), "AIOMPI_TLS": "auto"})
    serving.expect("\n")
    env = {"AIOMPI_KEY": KEY.hex(), "AIOMPI_TLS": "off"}
    rank = site.start(sys.executable, site.program(RANK), serving.out.strip(), env=env).finish()
    assert rank.code == 1
    assert "set AIOMPI_TLS alike at both ends" in rank.err
    serving.expect("set AIOMPI_TLS alike at both ends")
    serving.signal(signal.SIGTERM)
    serving.finish()
