"""The client against a scripted server."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.errors import (
    AuthenticationError,
    InvalidArgumentError,
    LocalProtocolError,
    ProcessFailedError,
    RemoteProtocolError,
)
from aiompi.impi.auth import Credentials
from aiompi.impi.client import TRANSITIONS, Accepted, Client, ClientState, Described, Event, Note, PrivateLabel, Started
from aiompi.impi.command import Broadcast, Code, decode_broadcast, encode, encode_broadcast, encode_impi
from aiompi.impi.label import FIRST_PRIVATE, LAST_PRIVATE, ClientPart, HostPart, ProcPart, encode_private, join
from support.cases import cases

HOST = bytes(12) + b"\x7f\0\0\1"
NONE = Credentials(none=True)
BOTH = Credentials(none=True, key=5678)
CHOSE_NONE = bytes(8)
CHOSE_KEY = b"\0\0\0\1\0\0\0\0"
DONE = encode(Code.DONE)


def part(pid: int = 1, **values: Any) -> ClientPart:
    return ClientPart(hosts=(HostPart(HOST, 5000, procs=(ProcPart(HOST, pid),)),), **values)


def broadcasts(*parts: ClientPart) -> bytes:
    """The joint arrays that a server sends."""
    rows = zip(*(one.encode() for one in parts), strict=True)
    mask = (1 << len(parts)) - 1
    return b"".join(
        encode_broadcast(Broadcast(row[0][0], mask, b"".join(data for _, data in row))) for row in map(list, rows)
    )


def joined(*parts: ClientPart, credentials: Credentials = NONE, rank: int = 0) -> Client:
    """A client whose labels have been sent."""
    client = Client(rank, credentials, parts[rank])
    client.receive_data(CHOSE_KEY if credentials.key is not None else CHOSE_NONE)
    client.receive_data(encode_impi(len(parts)))
    client.data_to_send()
    return client


def started(*parts: ClientPart) -> Client:
    client = joined(*parts)
    client.receive_data(broadcasts(*parts) + DONE)
    return client


@pytest.mark.spec("I2.3.3-1", "I2.3.3-8", "I2.3.3-20", "I2.3.4-1", "I2.3.6-1", "I2.3.7-1")
def test_the_known_conversation_with_a_key(conversation: Any) -> None:
    client = Client(0, BOTH, conversation.parts[0])
    assert client.data_to_send() == bytes.fromhex("41555448 00000004 40000003")  # and a bit that others ignore
    assert client.receive_data(CHOSE_KEY) == []
    assert client.data_to_send() == bytes.fromhex("00000000 0000162e 494d5049 00000004 00000000")
    assert client.receive_data(bytes.fromhex("494d5049 00000004 00000002")) == [Accepted(2)]
    assert client.data_to_send() == b"".join(conversation.submitted[0])
    events = [event for message in conversation.broadcasts for event in client.receive_data(message)]
    arrays = [decode_broadcast(message[8:]) for message in conversation.broadcasts]
    universe = join(2, {array.label: array for array in arrays})
    assert events == [Described(universe)]
    assert client.data_to_send() == bytes.fromhex("444f4e45 00000000")
    assert client.receive_data(bytes.fromhex("444f4e45 00000000")) == [Started(universe)]
    assert client.data_to_send() == b""
    client.finish()
    assert client.data_to_send() == bytes.fromhex("46494e49 00000000")
    client.receive_eof()


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (bytes(8), False),
        (bytes(7) + b"\x0daiompi server", True),
        (bytes(7) + b"\x0dother  server", False),
        (bytes(7) + b"\x03abc", False),
    ],
    ids=["nothing", "aiompi", "as long", "other bytes"],
)
@pytest.mark.parametrize("step", [1, 100])
def test_what_a_server_says_behind_its_choice(answer: bytes, known: bool, step: int) -> None:
    client = Client(0, NONE, part())
    client.data_to_send()
    sent = b""
    for at in range(0, len(answer), step):
        client.receive_data(answer[at : at + step])
        sent += client.data_to_send()
    assert sent == encode_impi(0)
    assert client.server_known == known


def test_what_a_server_tells_a_client_that_waits() -> None:
    client = Client(0, NONE, part())
    client.receive_data(CHOSE_NONE)
    assert client.receive_data(encode(Code.NOTE, b"a \x1b[31mstranger\n \xff")) == [Note("a ?[31mstranger? ÿ")]
    assert client.state is ClientState.JOINING


@pytest.mark.spec("I2.3.3-18")
def test_the_known_conversation_without_authentication(example: Any) -> None:
    client = Client(1, NONE, example.parts[1])
    assert client.data_to_send() == bytes.fromhex("41555448 00000004 40000001")
    client.receive_data(CHOSE_NONE)
    assert client.data_to_send() == bytes.fromhex("494d5049 00000004 00000001")
    client.receive_data(bytes.fromhex("494d5049 00000004 00000002"))
    assert client.data_to_send() == b"".join(example.submitted[1])
    for message in example.broadcasts:
        assert client.data_to_send() == b""  # some servers forget the labels of a client that has sent DONE
        client.receive_data(message)
    assert client.data_to_send() == DONE


@pytest.mark.spec("I2.3.3-2")
@pytest.mark.parametrize(("chosen", "answer"), [(CHOSE_NONE, encode_impi(0)), (CHOSE_KEY, None)])
def test_the_client_follows_the_choice_of_the_server(chosen: bytes, answer: bytes | None) -> None:
    client = Client(0, BOTH, part())
    client.data_to_send()
    client.receive_data(chosen)
    assert client.data_to_send() == (answer or bytes.fromhex("000000000000162e") + encode_impi(0))


@pytest.mark.spec("I2.3.2-5")
@given(st.lists(st.integers(1, 30), min_size=1))
def test_the_answers_of_the_server_may_be_cut_anywhere(cuts: list[int]) -> None:
    parts = (part(1), part(2))
    stream = CHOSE_NONE + encode_impi(2) + broadcasts(*parts) + DONE
    whole, pieces = Client(1, NONE, parts[1]), Client(1, NONE, parts[1])
    events: list[Event] = []
    at = turn = 0
    while at < len(stream):
        cut = cuts[turn % len(cuts)]
        events += pieces.receive_data(stream[at : at + cut])
        at, turn = at + cut, turn + 1
    whole_events = whole.receive_data(CHOSE_NONE) + whole.receive_data(encode_impi(2))
    whole_events += whole.receive_data(broadcasts(*parts)) + whole.receive_data(DONE)
    assert events == whole_events
    assert pieces.data_to_send() == whole.data_to_send()
    assert pieces.state is ClientState.RUNNING


@pytest.mark.spec("I2.3.2-4")
@cases("place", range(4))
def test_unknown_commands_of_the_server_are_skipped(place: int) -> None:
    unknown = struct.pack(">ii", 0x54455354, 5) + b"COLL!"
    one = part()
    messages = [encode_impi(1), broadcasts(one)[:24], broadcasts(one)[24:], DONE]
    messages.insert(place, unknown)
    client = Client(0, NONE, one)
    client.receive_data(CHOSE_NONE)
    for message in messages:
        client.receive_data(message)
    assert client.state is ClientState.RUNNING


@pytest.mark.spec("I2.3.5-9", "I2.3.5-10")
def test_labels_that_are_unknown_or_that_nobody_submitted_are_ignored() -> None:
    parts = (part(1), part(2))
    client = joined(*parts)
    stranger = encode_broadcast(Broadcast(0x0800, 2, b"?"))
    nobody = [encode_broadcast(Broadcast(label, 0, b"")) for label in (0x1300, 0x4711, FIRST_PRIVATE)]
    theirs = encode_broadcast(Broadcast(FIRST_PRIVATE, 2, b"not in our format"))
    events = client.receive_data(stranger + broadcasts(*parts) + theirs + b"".join(nobody) + DONE)
    assert [type(event) for event in events] == [Described, Started]


@pytest.mark.spec("I2.3.4-4")
@pytest.mark.parametrize(("rank", "size"), [(0, 1), (1, 2), (31, 32)])
def test_the_size_of_the_job_comes_from_the_server(rank: int, size: int) -> None:
    client = Client(rank, NONE, part())
    client.receive_data(CHOSE_NONE)
    assert client.receive_data(encode_impi(size)) == [Accepted(size)]
    assert client.size == size


@pytest.mark.spec("I2.3.4-4")
@cases(("rank", "size"), [(2, 2), (5, 2), (0, 0), (0, -1), (0, 33)])
def test_a_size_that_our_rank_does_not_fit_is_refused(rank: int, size: int) -> None:
    client = Client(rank, NONE, part())
    client.receive_data(CHOSE_NONE)
    with pytest.raises(RemoteProtocolError, match=f"{size} clients.* has rank {rank}"):
        client.receive_data(encode_impi(size))


def test_no_label_is_sent_before_the_answer_to_impi() -> None:
    client = Client(0, NONE, part())
    client.receive_data(CHOSE_NONE)
    assert b"COLL" not in client.data_to_send()
    client.receive_data(encode_impi(2)[:11])
    assert client.data_to_send() == b""
    client.receive_data(encode_impi(2)[11:])
    assert client.data_to_send().startswith(b"COLL")


@pytest.mark.spec("I2.3.3-15")
@pytest.mark.parametrize("answer", [CHOSE_KEY, b"\0\0\0\5" + bytes(4), b"HTTP/1.1 400 Bad Request\r\n"])
def test_a_method_that_was_not_offered_is_refused(answer: bytes) -> None:
    client = Client(0, NONE, part())
    with pytest.raises(RemoteProtocolError, match="offered were IMPI_AUTH_NONE"):
        client.receive_data(answer)


@pytest.mark.spec("I2.3.3-16")
@pytest.mark.parametrize("method", [0, 1])
def test_bytes_after_the_choice_are_read_and_ignored(method: int) -> None:
    client = Client(0, BOTH, part())
    for byte in struct.pack(">ii", method, 6) + b"IMPI??" + encode_impi(1):
        client.receive_data(bytes([byte]))
    assert client.size == 1


@pytest.mark.spec("I2.3.3-22")
def test_an_end_directly_after_the_key_points_to_the_key() -> None:
    client = Client(0, BOTH, part())
    client.receive_data(CHOSE_KEY)
    with pytest.raises(AuthenticationError, match="possibly a wrong key") as caught:
        client.receive_eof()
    assert "5678" not in str(caught.value)


@pytest.mark.spec("I2.3.3-10")
def test_an_end_without_an_answer_points_to_the_methods() -> None:
    client = Client(0, BOTH, part())
    with pytest.raises(AuthenticationError, match="accepts none of IMPI_AUTH_KEY, IMPI_AUTH_NONE"):
        client.receive_eof()


def test_an_end_instead_of_the_size_points_to_the_rank() -> None:
    client = Client(7, NONE, part())
    client.receive_data(CHOSE_NONE)
    with pytest.raises(RemoteProtocolError, match="client rank 7 is taken") as caught:
        client.receive_eof()
    assert not isinstance(caught.value, AuthenticationError)


@pytest.mark.parametrize("when", ["labels", "running"])
def test_an_end_before_fini_is_a_dead_server(when: str) -> None:
    client = joined(part()) if when == "labels" else started(part())
    with pytest.raises(ProcessFailedError, match="before the end of the job"):
        client.receive_eof()
    client.receive_eof()


OUT_OF_ORDER = [
    (state, code)
    for state in (ClientState.JOINING, ClientState.WAITING, ClientState.RUNNING)
    for code in Code
    if code not in TRANSITIONS[state]
]


@cases(("state", "code"), OUT_OF_ORDER)
def test_commands_out_of_order_end_the_conversation(state: ClientState, code: Code) -> None:
    if state is ClientState.JOINING:
        client = Client(0, NONE, part())
        client.receive_data(CHOSE_NONE)
    else:
        client = joined(part()) if state is ClientState.WAITING else started(part())
        if state is ClientState.WAITING:
            client.receive_data(broadcasts(part()))
    assert client.state is state
    with pytest.raises(RemoteProtocolError, match=f"{code.name} is out of order"):
        client.receive_data(struct.pack(">ii", code, 4))
    assert client.state is ClientState.BROKEN
    with pytest.raises(LocalProtocolError, match="make a new one"):
        client.receive_data(b"")


def test_no_label_comes_twice() -> None:
    client = joined(part())
    with pytest.raises(RemoteProtocolError, match="0x1000 twice"):
        client.receive_data(broadcasts(part())[:24] * 2)
    late = joined(part())
    with pytest.raises(RemoteProtocolError, match="0x1000 twice"):
        late.receive_data(broadcasts(part()) + broadcasts(part())[:24])


@pytest.mark.spec("I2.3.5-14")
def test_done_before_all_mandatory_labels_is_an_error() -> None:
    client = joined(part(1), part(2))
    with pytest.raises(RemoteProtocolError, match="DONE is out of order"):
        client.receive_data(broadcasts(part(1), part(2))[:-32] + DONE)


@pytest.mark.spec("I2.3.5-30")
def test_clients_that_disagree_stop_each_client() -> None:
    parts = (part(1), part(2, xsize=2048))
    for rank in range(2):
        client = joined(*parts, rank=rank)
        with pytest.raises(RemoteProtocolError, match="C_COLL_XSIZE"):
            client.receive_data(broadcasts(*parts))


def test_fini_is_sent_once_and_only_while_running() -> None:
    client = joined(part())
    client.receive_data(broadcasts(part()))
    with pytest.raises(LocalProtocolError, match="WAITING"):
        client.finish()
    client.receive_data(DONE)
    client.finish()
    with pytest.raises(LocalProtocolError, match="FINISHED"):
        client.finish()
    assert client.receive_data(b"whatever the server says now") == []


@pytest.mark.parametrize("rank", [-1, 32])
def test_ranks_are_below_32(rank: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"0\.\.31"):
        Client(rank, NONE, part())


@pytest.mark.spec("I2.3.3-6")
def test_without_a_method_there_is_no_client() -> None:
    with pytest.raises(InvalidArgumentError, match="no authentication method available"):
        Client(0, Credentials(), part())


def test_among_aiompi_clients_private_labels_come_before_done() -> None:
    parts = (part(1, native=True), part(2, native=True))
    client = joined(*parts)
    events = client.receive_data(broadcasts(*parts)[:-1])
    assert (events, client.may_submit) == ([], False)
    events = client.receive_data(broadcasts(*parts)[-1:])
    assert [type(event) for event in events] == [Described]
    assert (client.data_to_send(), client.may_submit) == (b"", True)
    client.submit(FIRST_PRIVATE, b"card")
    client.submit(LAST_PRIVATE, b"")
    client.done()
    assert client.data_to_send() == bytes.fromhex(
        "434f4c4c 0000000c 61690000 00000004 63617264 434f4c4c 00000008 6169ffff 00000000 444f4e45 00000000"
    )
    with pytest.raises(LocalProtocolError, match="WAITING"):
        client.done()
    cards = Broadcast(FIRST_PRIVATE, 3, encode_private(b"card") + encode_private(b"another"))
    others = Broadcast(LAST_PRIVATE, 2, encode_private(b""))
    events = client.receive_data(encode_broadcast(cards) + encode_broadcast(others) + DONE)
    assert events[:2] == [
        PrivateLabel(FIRST_PRIVATE, {0: b"card", 1: b"another"}),
        PrivateLabel(LAST_PRIVATE, {1: b""}),
    ]
    assert isinstance(events[2], Started)


def test_a_server_that_drops_private_labels_does_no_harm() -> None:
    parts = (part(1, native=True), part(2, native=True))
    client = joined(*parts)
    client.receive_data(broadcasts(*parts))
    client.submit(FIRST_PRIVATE, b"card")
    client.done()
    assert [type(event) for event in client.receive_data(DONE)] == [Started]


def test_with_a_foreign_client_nothing_private_is_sent() -> None:
    parts = (part(1, native=True), part(2))
    client = joined(*parts)
    client.receive_data(broadcasts(*parts))
    assert client.data_to_send() == DONE
    with pytest.raises(LocalProtocolError, match="may_submit"):
        client.submit(FIRST_PRIVATE, b"card")
    with pytest.raises(LocalProtocolError, match="may_submit"):
        client.done()
    theirs = encode_broadcast(Broadcast(FIRST_PRIVATE, 2, b"whatever it means"))
    assert [type(event) for event in client.receive_data(theirs + DONE)] == [Started]


def test_private_labels_are_checked() -> None:
    client = joined(part(native=True))
    client.receive_data(broadcasts(part(native=True)))
    for label in (0x3200, FIRST_PRIVATE - 1, LAST_PRIVATE + 1):
        with pytest.raises(InvalidArgumentError, match="private labels are"):
            client.submit(label, b"")
    client.submit(FIRST_PRIVATE + 1, b"")
    for label in (FIRST_PRIVATE, FIRST_PRIVATE + 1):
        with pytest.raises(LocalProtocolError, match="must ascend"):
            client.submit(label, b"")
    with pytest.raises(InvalidArgumentError, match="at most"):
        client.submit(LAST_PRIVATE, bytes(2**24))


@given(st.integers(0, 600), st.binary(max_size=40), st.booleans())
def test_a_server_that_sends_garbage_is_a_protocol_error_at_worst(at: int, garbage: bytes, replace: bool) -> None:
    parts = (part(1, native=True), part(2, native=True))
    stream = CHOSE_NONE + encode_impi(2) + broadcasts(*parts) + DONE
    stream = stream[:at] + garbage + stream[at + len(garbage) * replace :]
    client = Client(0, NONE, parts[0])
    with contextlib.suppress(RemoteProtocolError):
        for byte in stream:
            client.receive_data(bytes([byte]))
            if client.may_submit:
                client.done()
