"""Control messages: golden bytes, any segmentation, limits, and bytes that are none."""

from __future__ import annotations

import struct
from types import GenericAlias
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.errors import RemoteProtocolError
from aiompi.settings import MAX_WINDOW
from aiompi.wire import control
from aiompi.wire.control import MAX_DEPTH, MAX_MESSAGE, MAX_TEXT, MESSAGES, BusinessCard, Decoder, encode
from support.cases import cases

GOLDEN: list[tuple[Any, str]] = [
    (control.Join(pid=1234), "00000007 94 01 cd04d2 a0 00"),
    (control.Join(1, "here", 1), "00000009 94 01 01 a468657265 01"),
    (
        control.Welcome(rank=1, size=4, directory="/d"),
        "0000002a 9d 02 01 04 a22f64 c400 a0 a0 80 c2 cb0000000000000000 c410" + "00" * 16 + "00 a0",
    ),
    (
        control.Welcome(1, 4, "/d", b"k", "::1", "unix:/h", {"native": True}, True, 1.0, b"j" * 16, 5, "ns"),
        "0000003f 9d 02 01 04 a22f64 c4016b a33a3a31 a7756e69783a2f68 81 a66e6174697665 c3 c3 cb3ff0000000000000 c410"
        + "6a" * 16
        + "05 a26e73",
    ),
    (control.Card({"host": "h"}), "0000000a 92 03 81 a4686f7374 a168"),
    (control.Cards([{"window": 1}, {}]), "0000000d 92 04 92 81 a677696e646f77 01 80"),
    (control.Abort(code=3, reason="why"), "00000007 93 05 03 a3776879"),
    (control.Left(process=2), "00000003 92 06 02"),
    (control.Finalize(), "00000002 91 07"),
    (control.Finalized(), "00000002 91 08"),
    (control.Leave(), "00000002 91 09"),
    (control.ReportRequest(3), "00000003 92 0a 03"),
    (control.Report(3, {"last": "x"}), "0000000b 93 0b 03 81 a46c617374 a178"),
    (control.Failed(2, "why"), "00000007 93 0c 02 a3776879"),
    (control.Revoke(4, 1), "00000004 93 0d 04 01"),
    (control.Agree(4, 1, [0, 2], -1, 6, [2]), "0000000b 97 0e 04 01 920002 ff 06 9102"),
    (control.Agreed(4, 1, 0, 6, [2], True), "00000009 97 0f 04 01 00 06 9102 c3"),
    (control.Suspect(2, "why"), "00000007 93 10 02 a3776879"),
    (control.Enter(1, "ns", "h", {"a": 1}), "0000000c 95 11 01 a26e73 a168 81 a16101"),
    (
        control.Entered(2, [{"member": 2}], 1.0, "ns"),
        "00000019 95 12 02 91 81 a66d656d626572 02 cb3ff0000000000000 a26e73",
    ),
    (control.MembershipChange("left", {"member": 2}, ""), "00000011 94 13 a46c656674 81 a66d656d626572 02 a0"),
    (control.Assemble(1, 2, 0.5), "0000000d 94 14 01 02 cb3fe0000000000000"),
    (control.Withdraw(3), "00000003 92 15 03"),
    (control.Assembled(1, 2, 0, [2, 5], "why"), "0000000c 96 16 01 02 00 920205 a3776879"),
    (control.Outdated(2, "why"), "00000007 93 17 02 a3776879"),
    (control.Inquire(3), "00000003 92 18 03"),
    (control.Awaiting(3, "why", True), "00000008 94 19 03 a3776879 c3"),
    (control.Obituary(b"j", True, 3, "why", 1), "0000000c 96 1a c4016a c3 03 a3776879 01"),
    (control.LookRequest(3), "00000003 92 1b 03"),
    (control.Looked(3, [0, "h", None]), "00000008 93 1c 03 93 00 a168 c0"),
]


def packed(*fields: Any) -> bytes:
    body = msgpack.packb(fields)
    return struct.pack("!I", len(body)) + body


@pytest.mark.parametrize(("message", "golden"), GOLDEN, ids=lambda value: type(value).__name__)
def test_golden_bytes(message: Any, golden: str) -> None:
    data = bytes.fromhex(golden)
    assert encode(message) == data
    assert Decoder().receive_data(data) == [message]


def test_every_message_is_in_the_table() -> None:
    assert [message for message, _ in MESSAGES.values()] == list(dict.fromkeys(type(m) for m, _ in GOLDEN))
    for message, types in MESSAGES.values():
        assert len(message._fields) == len(types)


FIELDS = {
    int: st.integers(-(2**31), 2**31),
    bool: st.booleans(),
    float: st.floats(0, 100),
    str: st.text(max_size=30),
    bytes: st.binary(max_size=8),
    dict: st.dictionaries(st.text(max_size=5), st.one_of(st.integers(0, 100), st.text(max_size=5)), max_size=3),
    list: st.lists(st.one_of(st.integers(0, 100), st.text(max_size=5), st.none()), max_size=3),
    BusinessCard: st.fixed_dictionaries(
        {},
        optional={"window": st.integers(0, MAX_WINDOW), "host": st.text(), "transports": st.just({"tcp": ["::1", 1]})},
    ),
}


def field(kind: Any) -> st.SearchStrategy[Any]:
    return st.lists(FIELDS[kind.__args__[0]], max_size=3) if isinstance(kind, GenericAlias) else FIELDS[kind]


ANY_MESSAGE = st.one_of(*(st.builds(message, *map(field, types)) for message, types in MESSAGES.values()))


@settings(max_examples=50, deadline=None)
@given(st.lists(ANY_MESSAGE, max_size=5), st.data())
def test_messages_survive_any_segmentation(messages: list[Any], data: st.DataObject) -> None:
    stream = b"".join(map(encode, messages))
    decoder, got = Decoder(), []
    while stream:
        nbytes = data.draw(st.integers(1, len(stream)))
        got += decoder.receive_data(stream[:nbytes])
        stream = stream[nbytes:]
    assert got == messages


def test_messages_survive_one_byte_at_a_time() -> None:
    decoder, got = Decoder(), []
    for message, _ in GOLDEN:
        for byte in encode(message):
            got += decoder.receive_data(bytes([byte]))
    assert got == [message for message, _ in GOLDEN]


def test_enormous_length_is_refused_at_once() -> None:
    for length in (MAX_MESSAGE + 1, 2**32 - 1):
        with pytest.raises(RemoteProtocolError, match=f"{length} bytes; at most {MAX_MESSAGE}"):
            Decoder().receive_data(struct.pack("!I", length))


def test_longest_message_is_allowed() -> None:
    assert Decoder().receive_data(struct.pack("!I", MAX_MESSAGE)) == []


@cases("transports", [{b"tcp": ["::1", 1]}, {1: 2}, [], None])
def test_a_card_has_names_of_transports(transports: Any) -> None:
    with pytest.raises(RemoteProtocolError, match=r"Card has wrong fields|cannot be read"):
        Decoder().receive_data(encode(control.Card({"transports": transports})))


def test_what_ranks_may_send_is_shorter() -> None:
    decoder = Decoder(most=control.MAX_FROM_RANK)
    assert decoder.receive_data(struct.pack("!I", control.MAX_FROM_RANK)) == []
    with pytest.raises(RemoteProtocolError, match=f"at most {control.MAX_FROM_RANK}"):
        Decoder(most=control.MAX_FROM_RANK).receive_data(struct.pack("!I", control.MAX_FROM_RANK + 1))
    everybody = list(range(10**9, 10**9 + 10**5))
    agree = encode(control.Agree(2**31, 2**31, everybody, -(2**63), 2**63, everybody))
    assert Decoder(most=control.MAX_FROM_RANK).receive_data(agree)


@pytest.mark.parametrize(
    ("longest", "too_long"),
    [
        (control.Card({"host": "h" * 65_000}), control.Card({"host": "h" * 65_000, "transports": {"a": "b" * 1000}})),
        (
            control.Enter(1, "", "", {"a": b"b" * (control.MAX_ATTRIBUTES - 100)}),
            control.Enter(1, "", "", {"a": b"b" * (control.MAX_ATTRIBUTES + 2**10)}),
        ),
    ],
)
def test_what_the_agent_keeps_is_shorter_still(longest: Any, too_long: Any) -> None:
    assert Decoder().receive_data(encode(longest)) == [longest]
    with pytest.raises(RemoteProtocolError, match="at most 6"):
        Decoder().receive_data(encode(too_long))


def test_long_texts_are_shortened_and_longer_ones_refused() -> None:
    (message,) = Decoder().receive_data(encode(control.Abort(1, "x" * 10**6)))
    assert message.reason == "x" * (MAX_TEXT - 3) + "..."
    with pytest.raises(RemoteProtocolError, match="Abort has wrong fields"):
        Decoder().receive_data(packed(5, 1, "x" * (MAX_TEXT + 1)))


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 500, 1000, 10**5])
@pytest.mark.parametrize("end", [b"\xc0", b"\x93"])
@pytest.mark.parametrize("code", [3, 11, 17])
def test_nothing_is_nested_deeply(levels: int, end: bytes, code: int) -> None:
    before = {3: b"\x92\x03", 11: b"\x93\x0b\x00", 17: b"\x95\x11\x01\xa0\xa0"}[code]
    for level in (b"\x81\xa1a", b"\x91"):
        body = before + b"\x81\xaatransports" + level * levels + end
        with pytest.raises(
            RemoteProtocolError, match=r"^control message (cannot be read: .{,200}|\w+ is nested deeper .*)$"
        ):
            Decoder().receive_data(struct.pack("!I", len(body)) + body)


def test_what_is_nested_a_little_may_be() -> None:
    attributes: dict[str, Any] = {}
    for _ in range(MAX_DEPTH - 1):
        attributes = {"a": attributes}
    enter = control.Enter(1, "", "", attributes)
    assert Decoder().receive_data(encode(enter)) == [enter]
    with pytest.raises(RemoteProtocolError, match="Enter is nested deeper than 32 levels"):
        Decoder().receive_data(encode(enter._replace(attributes={"a": attributes})))


def test_what_is_nested_as_deeply_as_possible_can_be_passed_on() -> None:
    """What a rank or a member says reaches all others, which would otherwise refuse what comes from their agent."""
    inner: dict[str, Any] = {}
    for _ in range(MAX_DEPTH - 2):
        inner = {"a": inner}
    (card,) = Decoder().receive_data(encode(control.Card({"transports": inner})))
    (enter,) = Decoder().receive_data(encode(control.Enter(1, "", "", {"a": inner})))
    member = control.MemberCard(id=1, host="", since=0.0, attributes=enter.attributes)
    for message in (
        control.Cards([card.card]),
        control.Entered(1, [member]),
        control.MembershipChange("joined", member, ""),
    ):
        assert Decoder().receive_data(encode(message)) == [message]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!I", 0),
        struct.pack("!I", 1) + b"\xc1",
        struct.pack("!I", 4) + b"\x07\x07\x07\x07",
        packed(),
        packed(0),
        packed(max(MESSAGES) + 1),
        packed("Join", 1),
        packed([1], 1),
        packed(None, 1),
        packed(True, 1),
        packed(1.0, 1),
        packed(1),
        packed(1, 2, 3),
        packed(1, "2"),
        packed(1, True),
        packed(1, 2.0),
        packed(1, None),
        packed(2, 0, 1, b"directory", b"", "", "", {}),
        packed(2, 0, 1),
        packed(3, [1]),
        packed(3, {"window": "64"}),
        packed(3, {"window": -1}),
        packed(3, {"window": 2**63}),
        packed(3, {"window": True}),
        packed(3, {"host": ["here"]}),
        packed(3, {"appnum": "0"}),
        packed(3, {"transports": 7}),
        packed(3, {"more": 1}),
        packed(3, {1: 1}),
        packed(4, {}),
        packed(4, [{}, 7]),
        packed(5, 1, None),
        packed(7, 0),
    ],
    ids=lambda data: data.hex(),
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="control message"):
        Decoder().receive_data(data)


@given(st.binary(max_size=100))
def test_fuzz(data: bytes) -> None:
    for stream in (data, struct.pack("!I", len(data)) + data):
        try:
            messages = Decoder().receive_data(stream)
        except RemoteProtocolError:
            continue
        assert all(type(message) in {kind for kind, _ in MESSAGES.values()} for message in messages)


ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-100, 100), st.floats(), st.text(max_size=4), st.binary(max_size=4)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.integers(-9, 9), inner, max_size=3)),
    max_leaves=8,
)


@given(ANYTHING, st.lists(ANYTHING, max_size=5))
def test_fuzz_with_well_formed_msgpack(code: Any, fields: list[Any]) -> None:
    for first in (code, 1, 2, 3, 4, 5):
        try:
            (message,) = Decoder().receive_data(packed(first, *fields))
        except RemoteProtocolError:
            continue
        assert type(first) is int
        kind, types = MESSAGES[first]
        assert type(message) is kind
        assert [type(field) for field in fields] == [
            dict if kind is BusinessCard else getattr(kind, "__origin__", kind) for kind in types
        ]
