"""The hello: both sides prove the key, and learn nothing and read nothing beyond it."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiompi.errors import AuthenticationError, RemoteProtocolError
from aiompi.wire import hello, version
from aiompi.wire.hello import (
    KEY_BYTES,
    NONCE_BYTES,
    PAIR_KEY_BYTES,
    RANK_AGENT,
    RANK_ANY,
    ROLE_CONTROL,
    ROLE_PEER,
    Acceptor,
    Connector,
    Handshake,
    Namespace,
    Protection,
    new_key,
    pair_keys,
    parse_key,
)
from aiompi.wire.version import BANNER_BYTES, MAGIC, Release, banner
from support.cases import cases

KEY = bytes(range(100, 132))
OTHER = bytes(range(32))
LOCAL = Protection.LOCAL


def pair(
    connector_key: bytes = KEY,
    acceptor_key: bytes = KEY,
    role: int = ROLE_PEER,
    target: int = 1,
    accept_role: int = ROLE_PEER,
    channels: tuple[Protection, Protection] = (LOCAL, LOCAL),
) -> tuple[Connector, Acceptor]:
    return Connector(connector_key, role=role, rank=5, target=target, channel=channels[0]), Acceptor.alone(
        acceptor_key, role=accept_role, rank=1, channel=channels[1]
    )


def give(to: Handshake, data: bytes, step: int = 2**30) -> None:
    """Hand over all bytes as a socket would: never more than are asked for."""
    while data:
        assert to.needed > 0, "nothing more is read once the hello is over"
        nbytes = min(step, to.needed)
        to.receive_data(data[:nbytes])
        data = data[nbytes:]


@pytest.mark.parametrize("step", [2**30, 1, 7])
def test_both_sides_prove_the_key(step: int) -> None:
    connector, acceptor = pair()
    sizes = []
    for sender, receiver in ((connector, acceptor), (acceptor, connector), (connector, acceptor)):
        assert not acceptor.done
        data = sender.data_to_send()
        sizes.append(len(data))
        give(receiver, data, step)
        assert sender.data_to_send() == b""
    assert connector.done
    assert acceptor.done
    assert sizes == [93, 97, 32]
    assert (connector.needed, acceptor.needed) == (0, 0)
    assert (acceptor.peer_rank, connector.peer_rank) == (5, 1)
    assert acceptor.data_to_send() == b""


def test_connector_is_done_only_after_the_proof_of_the_acceptor() -> None:
    connector, acceptor = pair()
    give(acceptor, connector.data_to_send())
    reply = acceptor.data_to_send()
    give(connector, reply[:-1])
    assert not connector.done
    assert connector.data_to_send() == b""
    give(connector, reply[-1:])
    assert connector.done


def test_golden_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    nonces = [b"N" * NONCE_BYTES, b"M" * NONCE_BYTES]
    monkeypatch.setattr(hello.os, "urandom", lambda n: nonces.pop(0))
    connector = Connector(KEY, role=2, rank=-2, target=-1, channel=Protection.ENCRYPTED)
    acceptor = Acceptor.alone(KEY, role=2, rank=-1, channel=Protection.ENCRYPTED)
    first = connector.data_to_send()
    assert first == banner() + struct.pack("!Bi16sii", 2, 2, bytes(16), -2, -1) + b"N" * 32
    give(acceptor, first)
    reply = acceptor.data_to_send()
    head = banner() + b"\x02" + b"M" * 32
    assert reply == head + hmac.new(KEY, b"acceptor" + first + head, hashlib.sha256).digest()
    give(connector, reply)
    assert connector.data_to_send() == hmac.new(KEY, b"connector" + first + reply, hashlib.sha256).digest()


def test_key_is_never_sent_and_nothing_repeats() -> None:
    seen = set()
    for _ in range(3):
        connector, acceptor = pair()
        messages = []
        for sender, receiver in ((connector, acceptor), (acceptor, connector), (connector, acceptor)):
            messages.append(sender.data_to_send())
            give(receiver, messages[-1])
        for message in messages:
            assert KEY not in message
            assert KEY.hex().encode() not in message
            assert all(KEY[i : i + 8] not in message for i in range(len(KEY) - 7))
        seen.update(messages)
    assert len(seen) == 9


def test_wrong_key_at_the_acceptor() -> None:
    connector, acceptor = pair(acceptor_key=OTHER)
    give(acceptor, connector.data_to_send())
    with pytest.raises(AuthenticationError, match="key"):
        give(connector, acceptor.data_to_send())
    assert not connector.done
    assert connector.data_to_send() == b"", "an acceptor that cannot prove the key gets no proof"


def test_wrong_key_at_the_connector() -> None:
    connector, acceptor = pair()
    give(acceptor, connector.data_to_send())
    give(connector, acceptor.data_to_send())
    connector.data_to_send()
    with pytest.raises(AuthenticationError, match="key"):
        give(acceptor, hmac.digest(OTHER, b"connector", hashlib.sha256))
    assert not acceptor.done


@cases("garbage", [b"GET / HTTP/1.1\r\n", b"\x00" * 60, b"aiompi\x00\x02" + bytes(60), b"\xff"])
def test_garbage_is_refused_at_its_first_wrong_byte(garbage: bytes) -> None:
    for side in pair():
        side.data_to_send()
        right = len([1 for i in range(len(garbage)) if garbage[: i + 1] == MAGIC[: i + 1]])
        give(side, garbage[:right], 1)
        with pytest.raises(RemoteProtocolError, match="stranger"):
            give(side, garbage[right:], 1)
        assert not side.done
        assert side.data_to_send() == b""


@pytest.mark.parametrize("step", [2**30, 1, 31])
@pytest.mark.parametrize("other", [Release(2, "0.2.0"), Release(0, "0.0.9")])
def test_another_protocol_is_refused_at_once_and_both_sides_name_both(
    monkeypatch: pytest.MonkeyPatch, step: int, other: Release
) -> None:
    _, acceptor = pair()
    with monkeypatch.context() as patched:
        patched.setattr(version, "own", other)
        first = Connector(KEY, role=9, rank=5, target=1, channel=LOCAL).data_to_send()  # whatever follows the banner
    named = rf"it is aiompi {other.version} \(protocol {other.protocol}\), and this process is aiompi "
    with pytest.raises(version.OtherVersionError, match=named + r"\S+ \(protocol 1\)"):
        give(acceptor, first, step)
    assert acceptor.refusal
    answer = acceptor.data_to_send()
    monkeypatch.setattr(version, "own", other)
    with pytest.raises(
        version.OtherVersionError, match=rf"\(protocol 1\), and this process is aiompi {other.version} "
    ):
        give(Connector(KEY, role=ROLE_PEER, rank=5, target=1, channel=LOCAL), answer, step)


def test_another_version_with_the_same_protocol_is_welcome(monkeypatch: pytest.MonkeyPatch) -> None:
    connector, acceptor = pair()
    monkeypatch.setattr(version, "own", version.own._replace(version="0.1.7"))
    give(acceptor, connector.data_to_send())
    give(connector, acceptor.data_to_send())
    give(acceptor, connector.data_to_send())
    assert connector.done
    assert acceptor.done


@cases("text", [b"\x1b[2J" + b"x" * 16, b"\xff" * 20, b"1.0 or\nso", b"\0" * 20])
def test_a_version_of_a_stranger_is_printed_harmlessly(text: bytes) -> None:
    hello = struct.pack("!8sI20s", MAGIC, 7, text)
    with pytest.raises(version.OtherVersionError) as caught:
        version.check(hello)
    assert str(caught.value).isprintable()


@cases(("role", "target"), [(ROLE_CONTROL, 1), (ROLE_PEER, 2), (ROLE_PEER, RANK_AGENT), (ROLE_PEER, RANK_ANY), (0, 1)])
def test_wrong_role_or_target_is_refused_without_a_proof(role: int, target: int) -> None:
    connector, acceptor = pair(role=role, target=target)
    with pytest.raises(RemoteProtocolError, match=f"role {role} and rank {target} reached role 1 and rank 1"):
        give(acceptor, connector.data_to_send())
    assert acceptor.data_to_send() == b""


def test_own_hello_reflected_to_the_connector() -> None:
    connector, _ = pair()
    first = connector.data_to_send()
    with pytest.raises(AuthenticationError):
        give(connector, (first + bytes(100))[: connector.needed])


def test_reply_reflected_to_the_acceptor_as_its_proof() -> None:
    connector, acceptor = pair()
    give(acceptor, connector.data_to_send())
    reply = acceptor.data_to_send()
    with pytest.raises(AuthenticationError):
        give(acceptor, reply[-32:])
    assert not acceptor.done


def test_acceptor_used_as_an_oracle_against_itself() -> None:
    """A stranger passes the challenge of one connection on as its own on another."""
    _, victim = pair()
    stranger = Connector(OTHER, role=ROLE_PEER, rank=5, target=1, channel=LOCAL).data_to_send()
    give(victim, stranger)
    challenge = victim.data_to_send()
    _, oracle = pair()
    give(oracle, stranger[:61] + challenge[33:65])
    answer = oracle.data_to_send()
    with pytest.raises(AuthenticationError):
        give(victim, answer[-32:])


def test_proof_of_another_conversation_is_worth_nothing() -> None:
    connector, acceptor = pair()
    first = connector.data_to_send()
    give(acceptor, first)
    give(connector, acceptor.data_to_send())
    proof = connector.data_to_send()
    give(acceptor, proof)
    assert acceptor.done
    _, again = pair()
    give(again, first)
    again.data_to_send()
    with pytest.raises(AuthenticationError):
        give(again, proof)


@given(st.integers(0, 2), st.integers(0, 96), st.integers(1, 255))
def test_one_changed_byte_is_noticed(message: int, position: int, change: int) -> None:
    assume(position < (93, 97, 32)[message])
    connector, acceptor = pair()
    with pytest.raises(RemoteProtocolError):
        converse_with_a_fault(connector, acceptor, message, position, change)
    assert not acceptor.done


def converse_with_a_fault(connector: Connector, acceptor: Acceptor, message: int, position: int, change: int) -> None:
    """The whole conversation, in which one byte of one message is changed."""
    for number, (sender, receiver) in enumerate(((connector, acceptor), (acceptor, connector), (connector, acceptor))):
        data = bytearray(sender.data_to_send())
        if number == message:
            data[position] ^= change
        give(receiver, bytes(data))


@given(st.binary(max_size=200), st.integers(1, 80))
def test_fuzz(data: bytes, step: int) -> None:
    for side in pair():
        side.data_to_send()
        try:
            while data and side.needed:
                nbytes = min(step, side.needed)
                side.receive_data(data[:nbytes])
                data = data[nbytes:]
        except RemoteProtocolError:
            pass
        assert not side.done


# Keys.


def test_new_keys() -> None:
    keys = {new_key() for _ in range(10)}
    assert len(keys) == 10
    assert {len(key) for key in keys} == {KEY_BYTES}


def test_key_from_text() -> None:
    assert parse_key(f"  {KEY.hex().upper()}\n") == KEY
    assert parse_key("00" * 16) == bytes(16)


@cases("text", ["", "00" * 15, "secret-but-not-hex-and-long-enough-for-128-bits", "0" * 31, "gg" * 16])
def test_bad_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(AuthenticationError, match="128 bits") as caught:
        parse_key(text)
    assert not text or text not in str(caught.value)
    assert caught.value.__cause__ is None


# Channels.


def bound(
    connector_binding: bytes = b"a channel", acceptor_binding: bytes = b"a channel"
) -> tuple[Handshake, Handshake]:
    """Return both sides after the proofs in clear, and after their TLS handshake."""
    connector, acceptor = pair()
    give(acceptor, connector.data_to_send())
    give(connector, acceptor.data_to_send())
    give(acceptor, connector.data_to_send())
    connector.bind(connector_binding)
    acceptor.bind(acceptor_binding)
    return connector, acceptor


@pytest.mark.parametrize("step", [2**30, 1])
def test_both_sides_prove_the_key_over_their_channel(step: int) -> None:
    connector, acceptor = bound()
    assert not connector.done
    assert not acceptor.done
    assert acceptor.data_to_send() == b"", "the acceptor proves it to none that has not"
    give(acceptor, connector.data_to_send(), step)
    assert acceptor.done
    give(connector, acceptor.data_to_send(), step)
    assert connector.done
    assert (connector.needed, acceptor.needed) == (0, 0)


def test_a_proof_is_for_one_channel_and_one_side() -> None:
    connector, acceptor = bound(b"a channel", b"another one")
    proof = connector.data_to_send()
    with pytest.raises(AuthenticationError):
        give(acceptor, proof)
    assert not acceptor.done
    assert acceptor.data_to_send() == b""
    with pytest.raises(AuthenticationError):
        give(connector, proof)
    assert not connector.done


@cases("channels", list(itertools.permutations(Protection, 2)))
def test_both_ends_must_protect_the_connection_alike(channels: tuple[Protection, Protection]) -> None:
    """Each end proves the key first, so that each knows that this was said by the other end and not in between."""
    connector, acceptor = pair(channels=channels)
    give(acceptor, connector.data_to_send())
    cause = "in between passes on" if LOCAL in channels else "AIOMPI_TLS alike at both ends"
    with pytest.raises(RemoteProtocolError, match=cause) as caught:
        give(connector, acceptor.data_to_send())
    assert not isinstance(caught.value, AuthenticationError)
    with pytest.raises(RemoteProtocolError, match=cause) as caught:
        give(acceptor, connector.data_to_send())
    assert not isinstance(caught.value, AuthenticationError)
    assert not connector.done
    assert not acceptor.done


@pytest.mark.parametrize("message", [0, 1])
@pytest.mark.parametrize("channels", list(itertools.product(Protection, repeat=2)))
def test_what_an_end_says_of_its_channel_cannot_be_changed_on_the_way(
    channels: tuple[Protection, Protection], message: int
) -> None:
    """Something in between tells the other end what that wants to hear, or anything else."""
    for told in (*Protection, 0, 255):
        connector, acceptor = pair(channels=channels)
        if channels[message] != told:
            with pytest.raises(RemoteProtocolError):
                converse_with_a_fault(connector, acceptor, message, BANNER_BYTES, channels[message] ^ told)
            assert not acceptor.done


# Namespaces.


def a_job(size: int, rank: int, master: bytes = KEY) -> Namespace:
    return Namespace(b"j" * 16, b"", rank, pairs=pair_keys(master, rank, range(size)))


def test_each_two_ranks_have_a_key_of_their_own() -> None:
    spaces = [a_job(4, rank) for rank in range(4)]
    keys = {frozenset((own, other)): spaces[own].key_for(other) for own in range(4) for other in range(4)}
    assert all(spaces[own].key_for(other) == spaces[other].key_for(own) for own in range(4) for other in range(4))
    assert len(set(keys.values())) == len(keys) == 10
    assert {len(key) for key in keys.values()} == {PAIR_KEY_BYTES}
    assert a_job(4, 0, OTHER).key_for(1) != spaces[0].key_for(1)
    part = Namespace(b"m" * 16, b"", 1, pairs=pair_keys(KEY, 1, range(2, 4)), first=2)
    assert [part.key_for(2), part.key_for(3)] == [spaces[1].key_for(2), spaces[1].key_for(3)]
    for absent in (-1, 0, 1, 4, 2**31 - 1):
        with pytest.raises(RemoteProtocolError, match=f"no process {absent}"):
            part.key_for(absent)


@cases("claimed", [0, 2, 3, -1, 4])
def test_a_rank_is_believed_only_for_its_own_number(claimed: int) -> None:
    """Rank 2 connects to rank 1 with each key that it has."""
    liar, honest = a_job(4, 2), a_job(4, 1)
    for other in range(4):
        acceptor = Acceptor({honest.id: honest}, role=ROLE_PEER, channel=LOCAL)
        connector = Connector(
            liar.key_for(other), role=ROLE_PEER, rank=claimed, target=1, channel=LOCAL, namespace=liar.id
        )
        right = (claimed, other) == (2, 1)
        with contextlib.nullcontext() if right else pytest.raises(RemoteProtocolError):
            give(acceptor, connector.data_to_send())
            give(connector, acceptor.data_to_send())
            give(acceptor, connector.data_to_send())
        assert acceptor.done == right


def test_acceptor_answers_with_the_key_of_the_namespace_that_the_connector_names() -> None:
    spaces = [Namespace(bytes([n]) * 16, bytes([n]) * 32, own=n) for n in (1, 2)]
    for space in spaces:
        acceptor = Acceptor({space.id: space for space in spaces}, role=ROLE_PEER, channel=LOCAL)
        connector = Connector(space.key, role=ROLE_PEER, rank=9, target=space.own, channel=LOCAL, namespace=space.id)
        for sender, receiver in ((connector, acceptor), (acceptor, connector), (connector, acceptor)):
            give(receiver, sender.data_to_send())
        assert acceptor.done
        assert (acceptor.namespace, acceptor.peer_rank) == (space, 9)


def test_unknown_namespace_is_refused_without_a_word() -> None:
    acceptor = Acceptor({}, role=ROLE_PEER, channel=LOCAL)
    with pytest.raises(RemoteProtocolError, match="namespace is unknown"):
        give(
            acceptor,
            Connector(KEY, role=ROLE_PEER, rank=0, target=1, channel=LOCAL, namespace=b"x" * 16).data_to_send(),
        )
    assert acceptor.data_to_send() == b""


def test_key_of_one_namespace_proves_nothing_in_another() -> None:
    one, two = Namespace.new(1), Namespace.new(1)
    acceptor = Acceptor({one.id: one, two.id: two}, role=ROLE_PEER, channel=LOCAL)
    connector = Connector(one.key, role=ROLE_PEER, rank=0, target=1, channel=LOCAL, namespace=two.id)
    give(acceptor, connector.data_to_send())
    with pytest.raises(AuthenticationError):
        give(connector, acceptor.data_to_send())
