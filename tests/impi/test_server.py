"""The server against scripted clients."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.errors import InvalidArgumentError
from aiompi.impi import auth
from aiompi.impi.auth import Credentials
from aiompi.impi.command import Code, encode, encode_coll, encode_impi
from aiompi.impi.server import (
    ALLOWED,
    AllStarted,
    Authenticated,
    ClientFinished,
    ClientLost,
    ConnectionState,
    Dropped,
    Event,
    JobFinished,
    Joined,
    Notice,
    Server,
    ServerConnection,
)
from support.cases import cases

NONE = Credentials(none=True)
BOTH = Credentials(none=True, key=5678)
AUTH_NONE = bytes.fromhex("41555448 00000004 00000001")
AUTH_KEY = bytes.fromhex("41555448 00000004 00000002")
AUTH_BOTH = bytes.fromhex("41555448 00000004 00000003")
DONE = encode(Code.DONE)
FINI = encode(Code.FINI)


def connect(server: Server, data: bytes = b"", peer: str = "192.0.2.1:1") -> ServerConnection:
    connection = server.add_connection(peer, now=0.0)
    connection.receive_data(data)
    return connection


def join(server: Server, rank: int) -> ServerConnection:
    return connect(server, AUTH_NONE + encode_impi(rank), peer=f"192.0.2.{rank}:{rank}")


def job(count: int) -> tuple[Server, list[ServerConnection]]:
    """A server all of whose clients have joined; what was said until then is forgotten."""
    server = Server(count, NONE)
    clients = [join(server, rank) for rank in range(count)]
    for client in clients:
        assert client.data_to_send() == bytes(8) + encode_impi(count)
    server.events()
    return server, clients


def running(count: int) -> tuple[Server, list[ServerConnection]]:
    server, clients = job(count)
    for client in clients:
        client.receive_data(DONE)
    for client in clients:
        assert client.data_to_send() == DONE
    server.events()
    return server, clients


def kinds(events: list[Event]) -> list[type]:
    return [type(event) for event in events]


def sent(clients: list[ServerConnection]) -> bytes:
    """What the server sent to every one of the clients, the same to all."""
    data = {client.data_to_send() for client in clients}
    assert len(data) == 1
    return data.pop()


@pytest.mark.spec("I2.3.3-8", "I2.3.3-18", "I2.3.3-20", "I2.3.4-2", "I2.3.5-2", "I2.3.5-6", "I2.3.6-2", "I2.3.7-1")
def test_the_known_conversation(conversation: Any) -> None:
    server = Server(2, BOTH, preference=(1, 0))
    first, second = connect(server, AUTH_BOTH), connect(server, AUTH_NONE)
    assert first.data_to_send() == bytes.fromhex("00000001 00000000")
    assert second.data_to_send() == bytes.fromhex("00000000 00000000")
    first.receive_data(bytes.fromhex("00000000 0000162e 494d5049 00000004 00000000"))
    assert first.data_to_send() == b""
    second.receive_data(bytes.fromhex("494d5049 00000004 00000001"))
    assert sent([first, second]) == bytes.fromhex("494d5049 00000004 00000002")
    for ours, theirs, broadcast in zip(*conversation.submitted, conversation.broadcasts, strict=True):
        second.receive_data(theirs)
        assert sent([first, second]) == b""
        first.receive_data(ours)
        assert sent([first, second]) == broadcast
    first.receive_data(DONE)
    assert sent([first, second]) == b""
    second.receive_data(DONE)
    assert sent([first, second]) == bytes.fromhex("444f4e45 00000000")
    first.receive_data(FINI)
    second.receive_data(FINI)
    assert sent([first, second]) == b""
    assert server.finished


@pytest.mark.spec("I2.3.2-5")
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_clients_may_send_all_labels_in_one_go_and_cut_anywhere(conversation: Any, step: int) -> None:
    server = Server(2, BOTH)
    streams = [
        AUTH_KEY + BOTH.encode_key() + encode_impi(rank) + b"".join(conversation.submitted[rank]) + DONE
        for rank in range(2)
    ]
    clients = [connect(server), connect(server)]
    for at in range(0, max(map(len, streams)), step):
        for client, stream in zip(clients, streams, strict=True):
            client.receive_data(stream[at : at + step])
    golden = bytes.fromhex("00000001 00000000") + encode_impi(2) + b"".join(conversation.broadcasts) + DONE
    assert sent(clients) == golden
    assert kinds(server.events())[-1] is AllStarted


@pytest.mark.spec("I2.3.4-2")
def test_nobody_is_answered_before_all_ranks_are_known() -> None:
    server = Server(3, NONE)
    clients = [join(server, rank) for rank in (2, 0)]
    assert sent(clients) == bytes(8)
    assert [event.missing for event in server.events() if isinstance(event, Joined)] == [2, 1]
    clients.append(join(server, 1))
    assert clients[2].data_to_send() == bytes(8) + encode_impi(3)
    assert sent(clients[:2]) == encode_impi(3)


@pytest.mark.spec("I2.3.5-4")
def test_parts_are_joined_in_rank_order_whoever_sends_first() -> None:
    _, clients = job(3)
    for rank in (2, 0, 1):
        clients[rank].receive_data(encode_coll(0x1300, bytes([rank]) * 4))
    assert sent(clients) == bytes.fromhex("434f4c4c 00000014 00001300 00000007 00000000 01010101 02020202")


@pytest.mark.spec("I2.3.5-7", "I2.3.5-8", "I2.3.5-9")
def test_a_client_that_skips_a_label_gets_it_too() -> None:
    _, clients = job(3)
    clients[0].receive_data(encode_coll(0x1300, bytes.fromhex("00001f40")))
    clients[2].receive_data(encode_coll(0x1300, bytes.fromhex("00000fa0")))
    assert sent(clients) == b""
    clients[1].receive_data(encode_coll(0x1400, b""))
    assert sent(clients) == bytes.fromhex("434f4c4c 00000010 00001300 00000005 00001f40 00000fa0")


@pytest.mark.spec("I2.3.1-1", "I2.3.5-11")
@pytest.mark.parametrize("label", [-7, 1, 0x4711, 2**31 - 1])
@pytest.mark.parametrize("data", [b"", b"x", bytes(70000)])
def test_labels_are_opaque(label: int, data: bytes) -> None:
    _, clients = job(2)
    for client in clients:
        client.receive_data(encode_coll(label, data))
    assert sent(clients) == encode(Code.COLL, struct.pack(">iI", label, 3) + data + data)


@pytest.mark.spec("I2.3.2-3")
def test_unknown_commands_are_skipped_and_the_conversation_goes_on() -> None:
    _, [client] = job(1)
    unknown = bytes.fromhex("54455354 00000005") + b"COLL!"
    client.receive_data(unknown + encode_coll(1, b"a") + unknown + encode_coll(2, b"b") + unknown + DONE + unknown)
    assert client.data_to_send() == bytes.fromhex(
        "434f4c4c 00000009 00000001 00000001 61 434f4c4c 00000009 00000002 00000001 62 444f4e45 00000000"
    )
    client.receive_data(unknown + FINI)
    assert client.state is ConnectionState.FINISHED


# What a client says, and what another one says before it, to bring the first into a state.
PROLOGUES = {
    ConnectionState.AUTH: (b"", b""),
    ConnectionState.RANK: (AUTH_NONE, b""),
    ConnectionState.LABELS: (AUTH_NONE + encode_impi(0), b""),
    ConnectionState.WAITING: (AUTH_NONE + encode_impi(0) + encode_coll(1, b"") + DONE, AUTH_NONE + encode_impi(1)),
    ConnectionState.RUNNING: (AUTH_NONE + encode_impi(0) + DONE, AUTH_NONE + encode_impi(1) + DONE),
}
IN_ORDER = [(state, code) for state in PROLOGUES for code in ALLOWED[state]]
OUT_OF_ORDER = [(state, code) for state in PROLOGUES for code in Code if code not in ALLOWED[state]]
PAYLOADS = {
    Code.AUTH: b"\0\0\0\1",
    Code.IMPI: b"\0\0\0\0",
    Code.COLL: b"\0\0\x47\x11",
    Code.DONE: b"",
    Code.FINI: b"",
    Code.NOTE: b"a word",
}


def in_state(state: ConnectionState) -> tuple[Server, ServerConnection]:
    server = Server(2, BOTH)
    ours, theirs = PROLOGUES[state]
    connect(server, theirs)
    client = connect(server, ours)
    assert client.state is state
    return server, client


@pytest.mark.spec("I2.3.2-7")
def test_the_order_of_commands_is_the_one_of_the_specification() -> None:
    assert IN_ORDER == [
        (ConnectionState.AUTH, Code.AUTH),
        (ConnectionState.RANK, Code.IMPI),
        (ConnectionState.LABELS, Code.COLL),
        (ConnectionState.LABELS, Code.DONE),
        (ConnectionState.RUNNING, Code.FINI),
    ]
    for state, code in IN_ORDER:
        _, client = in_state(state)
        client.receive_data(encode(code, PAYLOADS[code]))
        assert client.state is not ConnectionState.CLOSED


@pytest.mark.spec("I2.3.2-8")
@cases(("state", "code"), OUT_OF_ORDER)
def test_commands_out_of_order_drop_the_connection(state: ConnectionState, code: Code) -> None:
    server, client = in_state(state)
    client.receive_data(encode(code, PAYLOADS[code]))
    assert client.closing
    assert server.failed == (state in {ConnectionState.LABELS, ConnectionState.WAITING, ConnectionState.RUNNING})
    reasons = [event.reason for event in server.events() if isinstance(event, Dropped | ClientLost)]
    assert f"{code.name} is out of order" in reasons[0]


@pytest.mark.spec("I2.3.2-6")
@cases(
    ("prologue", "header"),
    [
        (b"", "41555448 00000000"),
        (b"", "41555448 00000006"),
        (b"", "41555448 ffffffff"),
        (b"", "41555448 7ffffffc"),
        (AUTH_NONE, "494d5049 00000000"),
        (AUTH_NONE, "494d5049 00000008"),
        (AUTH_NONE, "54455354 80000000"),
        (AUTH_NONE + encode_impi(0), "434f4c4c 00000003"),
        (AUTH_NONE + encode_impi(0), "434f4c4c 7fffffff"),
        (AUTH_NONE + encode_impi(0), "434f4c4c ffffffff"),
        (AUTH_NONE + encode_impi(0), "444f4e45 ffffffff"),
    ],
)
def test_impossible_lengths_drop_the_connection(prologue: bytes, header: str) -> None:
    server = Server(2, NONE)
    client = connect(server, prologue + bytes.fromhex(header))
    assert client.closing
    assert kinds(server.events())[-1] in {Dropped, ClientLost}


@pytest.mark.spec("I2.2.4-1", "I2.3.3-17")
@cases("first", [b"GET / HTTP/1.1\r\n", encode_impi(0), encode_coll(1, b""), b"TEST\0\0\0\4"])
def test_what_does_not_begin_with_auth_is_dropped(first: bytes) -> None:
    server = Server(1, NONE)
    stranger = connect(server, first)
    assert stranger.closing
    assert stranger.data_to_send() == b""
    assert kinds(server.events()) == [Dropped]
    assert join(server, 0).state is ConnectionState.LABELS


@pytest.mark.spec("I2.3.3-9")
def test_the_method_is_chosen_for_each_client() -> None:
    server = Server(3, BOTH)
    clients = [connect(server, mask) for mask in (AUTH_NONE, AUTH_KEY, AUTH_BOTH)]
    assert [client.data_to_send() for client in clients] == [bytes(8), *[b"\0\0\0\1\0\0\0\0"] * 2]
    assert [event.method for event in server.events() if isinstance(event, Authenticated)] == [auth.NONE]


@pytest.mark.spec("I2.3.3-9", "I2.3.3-12", "I2.3.3-13")
@cases(
    ("credentials", "preference", "which"),
    [(BOTH, "0-1", 0), (BOTH, "3,1-0", 1), (BOTH, "0", 0), (NONE, "3,1-0", 0), (BOTH, None, 1)],
)
def test_the_preference_of_the_server_decides(credentials: Credentials, preference: str | None, which: int) -> None:
    wanted = {"preference": auth.parse_preference(preference)} if preference else {}
    server = Server(1, credentials, **wanted)  # type: ignore[arg-type]
    assert connect(server, AUTH_BOTH).data_to_send() == struct.pack(">ii", which, 0)


@pytest.mark.spec("I2.3.3-2", "I2.3.3-3", "I2.3.3-10")
@pytest.mark.parametrize(
    ("credentials", "mask"), [(NONE, AUTH_KEY), (Credentials(key=1), AUTH_NONE), (NONE, b"AUTH\0\0\0\4\0\0\0\0")]
)
def test_without_a_common_method_the_connection_is_closed_without_an_answer(
    credentials: Credentials, mask: bytes
) -> None:
    server = Server(1, credentials)
    client = connect(server, mask)
    assert client.closing
    assert client.data_to_send() == b""
    [event] = server.events()
    assert isinstance(event, Dropped)
    offered = {AUTH_KEY: "IMPI_AUTH_KEY", AUTH_NONE: "IMPI_AUTH_NONE"}.get(mask, "none")
    ours = "IMPI_AUTH_KEY" if credentials.key else "IMPI_AUTH_NONE"
    assert f"no common authentication method: the client has {offered} available, the server {ours}" in event.reason


@pytest.mark.spec("I2.3.3-7")
@pytest.mark.parametrize("words", ["bffffffd ffffffff", "00000001 00000000 00000000"])
def test_masks_of_later_clients_have_more_words(words: str) -> None:
    server = Server(1, NONE)
    mask = bytes.fromhex(words)
    client = connect(server, encode(Code.AUTH, mask) + encode_impi(0))
    assert client.data_to_send() == bytes(8) + encode_impi(1)


@pytest.mark.spec("I2.2.4-3")
def test_bits_of_unknown_methods_do_not_matter() -> None:
    server = Server(1, NONE)
    assert connect(server, bytes.fromhex("41555448 00000004 bffffff0")).closing
    assert connect(server, bytes.fromhex("41555448 00000004 bffffff1")).data_to_send() == bytes(8)


def test_a_client_of_aiompi_learns_that_the_server_is_one() -> None:
    server = Server(1, NONE)
    assert connect(server, bytes.fromhex("41555448 00000004 40000001")).data_to_send() == (
        bytes.fromhex("00000000 0000000d") + b"aiompi server"
    )


def test_clients_of_aiompi_are_told_what_the_server_has_to_say_while_they_wait() -> None:
    server = Server(3, NONE)
    known = bytes.fromhex("41555448 00000004 40000001")
    early = connect(server, known + encode_impi(0))
    foreign = connect(server, AUTH_NONE + encode_impi(1))
    for client in (early, foreign):
        client.data_to_send()
    server.tell("dropped a connection: \u20ac")
    note = encode(Code.NOTE, b"dropped a connection: ?")
    assert (early.data_to_send(), foreign.data_to_send()) == (note, b"")
    last = connect(server, known)
    last.data_to_send()
    last.receive_data(encode_impi(2))
    assert last.data_to_send() == encode_impi(3), "it does not wait"
    server.tell("too late")
    assert early.data_to_send() == encode_impi(3)


def test_a_client_that_comes_later_is_told_the_last_words() -> None:
    server = Server(2, NONE)
    for number in range(6):
        server.tell(f"note {number}")
    late = connect(server, bytes.fromhex("41555448 00000004 40000001") + encode_impi(0))
    assert late.data_to_send().endswith(b"".join(encode(Code.NOTE, b"note %d" % number) for number in (2, 3, 4, 5)))


@pytest.mark.spec("I2.3.3-19")
def test_a_client_without_authentication_is_announced_with_its_address() -> None:
    server = Server(2, BOTH)
    connect(server, AUTH_NONE, peer="192.0.2.20:4711")
    connect(server, AUTH_KEY + BOTH.encode_key(), peer="192.0.2.10:4712")
    [notice] = [event for event in server.events() if isinstance(event, Notice)]
    assert "192.0.2.20:4711" in notice.text
    assert "IMPI_AUTH_NONE" in notice.text


@pytest.mark.spec("I2.2.4-1", "I2.3.3-21", "I2.3.3-23", "I2.3.3-24")
@cases("wrong", [0, 5679, 5678 + 2**32, 2**64 - 1])
def test_after_a_wrong_key_the_rank_is_still_free(wrong: int) -> None:
    server = Server(2, Credentials(key=5678))
    first = connect(server, AUTH_KEY + struct.pack(">Q", 5678) + encode_impi(0))
    imposter = connect(server, AUTH_KEY + struct.pack(">Q", wrong) + encode_impi(1) + encode_coll(1, b"evil"))
    assert imposter.closing
    assert imposter.data_to_send() == b"\0\0\0\1\0\0\0\0"
    assert [event.reason for event in server.events() if isinstance(event, Dropped)] == [
        "wrong key: IMPI_AUTH_KEY of the client is not the one of the server"
    ]
    second = connect(server, AUTH_KEY + struct.pack(">Q", 5678) + encode_impi(1))
    for client in (first, second):
        client.receive_data(DONE)
    assert sent([first, second]) == b"\0\0\0\1\0\0\0\0" + encode_impi(2) + DONE
    assert kinds(server.events())[-1] is AllStarted


@pytest.mark.spec("I2.3.4-5")
@cases("rank", [-1, 0, 2, 2**31 - 1])
def test_a_rank_that_is_taken_or_out_of_range_drops_the_newcomer(rank: int) -> None:
    server = Server(2, NONE)
    first = join(server, 0)
    newcomer = connect(server, AUTH_NONE + encode_impi(rank))
    assert newcomer.closing
    assert newcomer.data_to_send() == bytes(8)
    assert not first.closing
    assert not server.failed
    join(server, 1)
    assert first.data_to_send() == bytes(8) + encode_impi(2)


@pytest.mark.spec("I2.3.4-6")
def test_surplus_connections_are_refused() -> None:
    server = Server(1, NONE)
    early = connect(server, AUTH_NONE)
    join(server, 0)
    late = connect(server)
    assert early.closing
    assert late.closing
    reasons = [event.reason for event in server.events() if isinstance(event, Dropped)]
    assert reasons == ["all clients of the job have joined already"] * 2
    assert not server.failed


@pytest.mark.spec("I2.3.5-5", "I2.3.5-13")
@cases("label", [0, 0x1300, 0x1200, -1])
def test_labels_that_do_not_ascend_end_the_job(label: int) -> None:
    server, clients = job(2)
    clients[1].receive_data(encode_coll(0x1300, b"") + encode_coll(label, b""))
    assert server.failed
    assert [client.closing for client in clients] == [True, True]
    [event] = server.events()
    assert isinstance(event, ClientLost)
    assert event.rank == 1
    assert "client 1 at 192.0.2.1:1: label" in event.reason


@pytest.mark.spec("I2.3.6-3", "I2.3.7-1", "I2.4-7")
def test_the_job_ends_with_the_last_fini() -> None:
    assert not Server(3, NONE).finished
    server, clients = running(3)
    for rank in (1, 2):
        clients[rank].receive_data(FINI)
        assert clients[rank].closing
        clients[rank].receive_eof()
    assert [event.rank for event in server.events() if isinstance(event, ClientFinished)] == [1, 2]
    assert (server.finished, clients[0].closing) == (False, False)
    clients[0].receive_data(FINI)
    assert kinds(server.events()) == [ClientFinished, JobFinished]
    assert (server.finished, clients[0].closing) == (True, True)
    assert sent(clients) == b""


@pytest.mark.spec("I2.3.7-4")
@pytest.mark.parametrize("phase", ["joining", "labels", "running"])
def test_an_end_before_fini_is_reported_with_the_rank_and_ends_the_job(phase: str) -> None:
    server, clients = running(2) if phase == "running" else job(2)
    if phase == "joining":
        server = Server(3, NONE)
        clients = [join(server, rank) for rank in range(2)]
        server.events()
    newcomers = [connect(server, AUTH_NONE)] if phase == "joining" else []
    server.events()
    clients[1].receive_eof()
    events = server.events()
    assert isinstance(events[0], ClientLost)
    assert events[0].rank == 1
    assert events[0].reason == "client 1 at 192.0.2.1:1: the connection ended before FINI"
    assert all(connection.closing for connection in clients + newcomers)
    assert server.failed
    assert not server.finished
    assert connect(server, AUTH_NONE).closing


def test_after_its_fini_a_client_may_go_while_others_fail() -> None:
    server, clients = running(2)
    clients[0].receive_data(FINI)
    clients[0].receive_eof()
    assert server.events() == [ClientFinished(0)]
    clients[1].receive_eof()
    assert kinds(server.events()) == [ClientLost]
    assert (server.failed, server.finished) == (True, False)


@pytest.mark.spec("I2.2.4-2")
def test_silent_connections_have_a_time_limit_and_block_nobody() -> None:
    server = Server(2, BOTH, auth_timeout=10.0)
    deadlines = [server.deadline]
    peers = [server.add_connection(f"192.0.2.66:{at}", now=100.0 + at) for at in range(4)]
    for peer, data in zip(peers, (b"", AUTH_KEY, AUTH_NONE, AUTH_NONE + encode_impi(0)), strict=True):
        peer.receive_data(data)
    dropped = []
    for now in (109.9, 111.0, 1000.0):
        deadlines.append(server.deadline)
        server.handle_timer(now)
        dropped.append([peer.closing for peer in peers])
    assert deadlines == [None, 110.0, 110.0, 112.0]
    assert dropped == [[False] * 4, [True, True, False, False], [True, True, True, False]]
    assert [server.deadline, *(peer.deadline for peer in peers)] == [None] * 5
    assert kinds(server.events()).count(Dropped) == 3


def test_a_connection_that_ends_early_is_no_harm() -> None:
    server = Server(1, BOTH)
    for data in (b"", AUTH_NONE[:5], AUTH_NONE, AUTH_KEY):
        connection = connect(server, data)
        connection.receive_eof()
        connection.receive_eof()
        connection.receive_data(encode_impi(0))
        assert connection.closing
    assert not server.failed
    assert kinds(server.events()).count(Dropped) == 4


def test_labels_that_wait_for_others_are_bounded() -> None:
    server = Server(2, NONE, max_label_bytes=10_000)
    hasty, slow = join(server, 0), join(server, 1)
    server.events()
    hasty.receive_data(encode_coll(1, bytes(9_000)))
    assert server.events() == []
    hasty.receive_data(encode_coll(2, bytes(9_000)))
    [event] = server.events()
    assert isinstance(event, ClientLost)
    assert "more than 10000 bytes" in event.reason
    assert [hasty.closing, slow.closing] == [True, True]


@pytest.mark.spec("I2.2.1-8")
@pytest.mark.parametrize("count", [-1, 0, 33])
def test_a_job_has_1_to_32_clients(count: int) -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 32"):
        Server(count, NONE)


def test_32_clients_fill_the_mask() -> None:
    _, clients = job(32)
    for client in clients:
        client.receive_data(encode_coll(1, b""))
    assert sent(clients) == bytes.fromhex("434f4c4c 00000008 00000001 ffffffff")


@pytest.mark.spec("I2.3.3-6")
@pytest.mark.parametrize(("credentials", "preference"), [(Credentials(), (1, 0)), (NONE, (1,)), (NONE, (3, 7))])
def test_without_a_usable_method_there_is_no_server(credentials: Credentials, preference: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match="no authentication method available"):
        Server(1, credentials, preference=preference)


@pytest.mark.parametrize("limit", [0, 2**30])
def test_the_limit_of_labels_has_a_limit(limit: int) -> None:
    with pytest.raises(InvalidArgumentError, match="max_label_bytes"):
        Server(1, NONE, max_label_bytes=limit)


GOOD = [AUTH_KEY, BOTH.encode_key(), encode_impi(0), encode_coll(0x1000, bytes(8)), encode_coll(0x1100, b"abc"), DONE]
PIECES = st.one_of(
    st.sampled_from([AUTH_NONE, AUTH_BOTH, *GOOD, encode_impi(1), FINI, b"TEST\0\0\0\3abc", b"COLL\x7f\xff\xff\xff"]),
    st.binary(max_size=12),
)


@given(
    st.lists(st.tuples(st.integers(0, 3), PIECES), max_size=30),
    st.booleans(),
    st.sets(st.integers(0, 3)),
)
def test_no_input_crashes_the_server(script: list[tuple[int, bytes]], bytewise: bool, ends: set[int]) -> None:
    server = Server(2, BOTH)
    connections = [connect(server) for _ in range(4)]
    for index, data in script:
        for piece in [data[at : at + 1] for at in range(len(data))] if bytewise else [data]:
            connections[index].receive_data(piece)
        connections[index].data_to_send()
    for index in ends:
        connections[index].receive_eof()
    server.handle_timer(1e9)
    assert len([event for event in server.events() if isinstance(event, Joined)]) <= 2
    assert all(connection.closing or connection.rank is not None for connection in connections)


@given(st.data())
def test_a_mutated_conversation_never_crashes_the_server_nor_lets_in_what_lacks_the_key(data: st.DataObject) -> None:
    server = Server(1, Credentials(key=5678))
    stream = bytearray(b"".join(GOOD) + FINI)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    client = connect(server)
    for byte in bytes(stream):
        client.receive_data(bytes([byte]))
    client.receive_eof()
    events = server.events()
    assert any(isinstance(event, Dropped | ClientLost | JobFinished) for event in events)
    proven = BOTH.encode_key() in stream
    assert proven or not any(isinstance(event, Authenticated) for event in events)
