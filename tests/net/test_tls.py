"""TLS: channels that are told apart, streams of records, and jobs whose connections are encrypted."""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiompi.errors import InvalidArgumentError
from aiompi.net import tls
from aiompi.net.handshake import protection_of
from aiompi.settings import Settings
from aiompi.wire.hello import Protection
from support.jobs import Site
from support.middle import HELLO, Middle, as_environ, certificates
from support.worlds import PolledWorld, isend

#: everything that the two ranks of a job exchange: short and long, both ways at once, in memory and as objects
PROGRAM = """
import numpy as np
from aiompi import MPI

world = MPI.COMM_WORLD
other = 1 - world.rank
for count in (0, 1, 100, 2_000, 2_048, 2_049, 100_000, 1_000_000):
    got = np.empty(count)
    world.Sendrecv(np.arange(count, dtype=float) + world.rank, other, recvbuf=got)
    assert (got == np.arange(count) + other).all()
requests = [world.isend((number, bytes(number * 37)), other) for number in range(300)]
assert [world.recv(source=other)[0] for _ in range(300)] == list(range(300))
MPI.Request.waitall(requests)
print(world.allreduce(1))
"""


def handshake(*pair: tls.SecureSocket) -> None:
    for sock in pair:
        sock.setblocking(False)
    waiting = list(pair)
    while waiting:
        for sock in list(waiting):
            try:
                sock.do_handshake()
                waiting.remove(sock)
            except BlockingIOError:
                pass


def wrap(**settings: str) -> tuple[tls.SecureSocket, tls.SecureSocket]:
    one, other = socket.socketpair()
    return tls.secure(one, False, Settings(**settings)), tls.secure(other, True, Settings(**settings))


@pytest.fixture
def pair() -> Iterator[tuple[tls.SecureSocket, tls.SecureSocket]]:
    made = wrap()
    handshake(*made)
    yield made
    for sock in made:
        sock.close()


def test_the_public_key_and_the_signature_are_those_of_the_standard() -> None:
    """RFC 8032, section 7.1, test 2."""
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    public = tls._encode(tls._times(tls._scalar(seed)[0], tls._BASE))
    assert public.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert tls._sign(seed, public, b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )


def test_a_stream_arrives_whatever_the_sizes_of_its_pieces(pair: tuple[tls.SecureSocket, tls.SecureSocket]) -> None:
    """The sender offers what is left, as a queue does; the receiver takes any number of bytes."""
    one, other = pair
    dice = random.Random(5)
    data = dice.randbytes(3_000_000)
    sent, got, blocked = 0, bytearray(), 0
    room = bytearray(300_000)
    while len(got) < len(data):
        left = memoryview(data)[sent:]
        cut = dice.randrange(len(left) + 1) if len(left) > 40_000 else 0
        try:
            sent += one.sendmsg((left[:100], left[100:cut], left[max(cut, 100) :])) if left else 0
        except BlockingIOError:
            blocked += 1
        for _ in range(dice.randrange(3)):
            try:
                got += room[: other.recv_into(memoryview(room)[: dice.choice((1, 64, 20_000, 300_000))])]
            except BlockingIOError:
                break
    assert bytes(got) == data
    assert blocked
    one.shutdown(socket.SHUT_WR)
    other.send(b"after")
    assert (one.recv(10), other.recv(10)) == (b"after", b""), "the end of one direction leaves the other"


def test_an_end_without_tls_is_refused() -> None:
    one, other = socket.socketpair()
    secured = tls.secure(one, True, Settings())
    with secured, other:
        other.send(b"a frame that is not encrypted")
        with pytest.raises(OSError) as caught:
            secured.do_handshake()
    assert "AIOMPI_TLS" in tls.explain(caught.value)


@pytest.mark.parametrize(
    ("tls", "channel"), [("auto", Protection.ENCRYPTED), ("on", Protection.ENCRYPTED), ("off", Protection.PLAIN)]
)
def test_which_connections_are_encrypted(tls: str, channel: Protection) -> None:
    """The addresses of the ends say nothing, because something in between can choose them."""
    settings = Settings(tls=tls)
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(family) as sock:
            assert protection_of(sock, settings) is channel
    with socket.socket(socket.AF_UNIX) as sock:
        assert protection_of(sock, settings) is Protection.LOCAL


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return certificates(tmp_path)


def test_a_certificate_of_the_site(files: dict[str, str]) -> None:
    made = wrap(**files)
    handshake(*made)
    assert made[0].send(b"x") == 1
    assert made[1].recv(1) == b"x"
    for sock in made:
        sock.close()
    with pytest.raises(InvalidArgumentError, match=r"nosuch\.pem"):
        tls.check(Settings(tls_cert="/nosuch.pem"))


def test_both_ends_tell_a_channel_from_others(pair: tuple[tls.SecureSocket, tls.SecureSocket]) -> None:
    assert tls.binding(pair[0]) == tls.binding(pair[1])
    others = wrap()
    with pytest.raises(OSError, match="gives its TLS channels no binding"):
        tls.binding(others[0])
    handshake(*others)
    assert tls.binding(others[0]) != tls.binding(pair[0])
    for sock in others:
        sock.close()


@pytest.mark.parametrize("site_has", ["no certificates", "certificates"])
def test_nothing_that_passes_on_the_hello_is_in_between_ranks(files: dict[str, str], site_has: str) -> None:
    settings = files if site_has == "certificates" else {}
    with PolledWorld("tcp", 2, "", tls="on", **settings) as w, Middle(w.addresses[0], HELLO, settings) as middle:
        w.addresses[0] = middle.address
        isend(w.comms[1], b"what only rank 0 may read", 0)
        w.until(lambda: middle.over.is_set() or b"what only" in middle.seen)
        assert middle.secured.is_set()
        assert b"what only" not in middle.seen


def test_a_key_that_needs_a_passphrase(files: dict[str, str]) -> None:
    encrypted = files["tls_key"] + ".encrypted"
    words = ["openssl", "pkey", "-in", files["tls_key"], "-aes256", "-passout", "pass:secret", "-out", encrypted]
    subprocess.run(words, check=True, capture_output=True)
    with pytest.raises(InvalidArgumentError, match=r"encrypted.*needs a passphrase"):
        tls.check(Settings(**files | {"tls_key": encrypted}))


def test_a_job_over_tls(site: Site, files: dict[str, str]) -> None:
    env = {"AIOMPI_TRANSPORTS": "tcp,loopback", "AIOMPI_TLS": "on"}
    assert site.ok(2, PROGRAM, env=env).lines == ["2", "2"]
    own = as_environ(files)
    assert site.ok(2, PROGRAM, env=env | own).lines == ["2", "2"]
    result = site.run(2, PROGRAM, env=env | own | {"AIOMPI_TLS_KEY": "/nosuch.key"})
    assert result.code == 1
    assert "/nosuch.key" in result.err
