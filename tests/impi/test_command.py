from __future__ import annotations

import contextlib
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.errors import RemoteProtocolError
from aiompi.impi.command import (
    LENGTHS,
    Broadcast,
    Code,
    Command,
    CommandReader,
    decode_broadcast,
    decode_coll,
    decode_impi,
    encode,
    encode_broadcast,
    encode_coll,
    encode_impi,
)
from aiompi.impi.label import C_NHOSTS, C_TAGUB, H_PORT, ClientPart, HostPart, ProcPart, join
from aiompi.impi.packet import Packet, PacketReader
from support.cases import cases

ALL = tuple(Code)
UNKNOWN = 0x54455354


def pull(reader: CommandReader) -> list[Command]:
    """All commands that have arrived."""
    commands = []
    while (command := reader.next_command(ALL)) is not None:
        commands.append(command)
    return commands


@pytest.mark.spec("I2.3.2-2")
def test_codes_are_the_ascii_letters_of_their_names() -> None:
    assert {code.name: code.value.to_bytes(4, "big") for code in Code} == {
        "AUTH": b"AUTH",
        "IMPI": b"IMPI",
        "COLL": b"COLL",
        "DONE": b"DONE",
        "FINI": b"FINI",
        "NOTE": b"NOTE",
    }


@pytest.mark.spec("I1.2.1-2", "I2.3.2-1")
@cases(
    ("encoded", "golden"),
    [
        (encode(Code.AUTH, b"\0\0\0\3"), "41555448 00000004 00000003"),
        (encode_impi(1), "494d5049 00000004 00000001"),
        (encode_coll(0x1300, b"\0\0\x1f\x40"), "434f4c4c 00000008 00001300 00001f40"),
        (encode_broadcast(Broadcast(0x1300, 3, b"abcd")), "434f4c4c 0000000c 00001300 00000003 61626364"),
        (encode(Code.DONE), "444f4e45 00000000"),
        (encode(Code.FINI), "46494e49 00000000"),
    ],
)
def test_commands_have_a_header_of_two_big_endian_words(encoded: bytes, golden: str) -> None:
    assert encoded == bytes.fromhex(golden)


@pytest.mark.spec("I2.3.4-3")
@cases("word", [0, 1, 31, -1, 2**31 - 1])
def test_the_payload_of_impi_is_one_word(word: int) -> None:
    assert decode_impi(encode_impi(word)[8:]) == word
    assert len(encode_impi(word)) == 12


@pytest.mark.spec("I2.3.5-1")
@given(label=st.integers(-(2**31), 2**31 - 1), data=st.binary())
def test_coll_of_a_client_is_label_and_data(label: int, data: bytes) -> None:
    assert decode_coll(encode_coll(label, data)[8:]) == (label, data)


@pytest.mark.spec("I2.3.5-3")
def test_the_client_mask_is_unsigned() -> None:
    encoded = encode_broadcast(Broadcast(0x1300, 1 << 31, b"x"))
    assert encoded[12:16] == b"\x80\0\0\0"
    assert decode_broadcast(encoded[8:]) == Broadcast(0x1300, 0x80000000, b"x")


def test_a_broadcast_without_a_mask_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="client mask"):
        decode_broadcast(b"\0\0\x13\0\0\0\0")


COMMANDS = st.one_of(
    st.builds(Command, st.just(Code.AUTH), st.integers(1, 32).map(lambda words: bytes(4 * words))),
    st.builds(Command, st.just(Code.IMPI), st.binary(min_size=4, max_size=4)),
    st.builds(Command, st.just(Code.COLL), st.binary(min_size=4)),
    st.builds(Command, st.sampled_from([Code.DONE, Code.FINI]), st.just(b"")),
)


@pytest.mark.spec("I2.3.2-5")
@given(commands=st.lists(COMMANDS), cuts=st.lists(st.integers(1, 20), min_size=1))
def test_commands_are_understood_however_the_stream_is_cut(commands: list[Command], cuts: list[int]) -> None:
    stream = b"".join(encode(*command) for command in commands)
    reader, received = CommandReader(), []
    at = turn = 0
    while at < len(stream):
        cut = cuts[turn % len(cuts)]
        reader.receive_data(stream[at : at + cut])
        received += pull(reader)
        at, turn = at + cut, turn + 1
    assert received == commands


@given(stream=st.binary(max_size=200), skip_unknown=st.booleans())
def test_random_bytes_are_commands_or_a_protocol_error(stream: bytes, skip_unknown: bool) -> None:
    reader = CommandReader(max_coll=64)
    with contextlib.suppress(RemoteProtocolError):
        for byte in stream:
            reader.receive_data(bytes([byte]))
            reader.next_command(ALL, skip_unknown=skip_unknown)


@pytest.mark.spec("I2.3.2-6")
@cases(
    ("code", "length"),
    [
        *((code, -1) for code in Code),
        *((code, 2**31 - 1) for code in Code),
        (Code.AUTH, 0),
        (Code.AUTH, 6),
        (Code.AUTH, 132),
        (Code.IMPI, 0),
        (Code.IMPI, 8),
        (Code.COLL, 3),
        (Code.COLL, 1001),
    ],
)
def test_a_wrong_length_is_refused_before_its_bytes_come(code: Code, length: int) -> None:
    reader = CommandReader(max_coll=1000)
    reader.receive_data(struct.pack(">ii", code, length))
    with pytest.raises(RemoteProtocolError, match=f"{code.name} of {length} bytes"):
        reader.next_command(ALL)


@cases("code", LENGTHS)
def test_the_limits_themselves_are_legal(code: Code) -> None:
    least, most, _ = LENGTHS[code]
    reader = CommandReader(max_coll=1000)
    for length in (least, 1000 if most is None else most):
        reader.receive_data(encode(code, bytes(length)))
        assert pull(reader) == [Command(code, bytes(length))]


@pytest.mark.parametrize("nbytes", [0, 5, 2**20])
def test_unknown_commands_are_passed_over_with_their_bytes(nbytes: int) -> None:
    reader = CommandReader()
    stream = encode(Code.DONE) + struct.pack(">ii", UNKNOWN, nbytes) + bytes(nbytes) + encode(Code.FINI)
    received = []
    for at in range(0, len(stream), 4093):
        reader.receive_data(stream[at : at + 4093])
        received += pull(reader)
    assert [command.code for command in received] == [Code.DONE, Code.FINI]


def test_an_enormous_unknown_command_takes_no_memory() -> None:
    reader = CommandReader()
    chunk = bytes(2**16)
    tracemalloc.start()
    try:
        reader.receive_data(struct.pack(">ii", UNKNOWN, 2**31 - 1))
        assert pull(reader) == []
        for _ in range(256):
            reader.receive_data(chunk)
            assert pull(reader) == []
        assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
    finally:
        tracemalloc.stop()


def test_unknown_commands_need_a_length_and_may_be_forbidden() -> None:
    negative = CommandReader()
    negative.receive_data(struct.pack(">ii", UNKNOWN, -8))
    with pytest.raises(RemoteProtocolError, match="negative"):
        negative.next_command(ALL)
    strict = CommandReader()
    strict.receive_data(b"GET / HTTP/1.1\r\n")
    with pytest.raises(RemoteProtocolError, match="0x47455420, expected AUTH"):
        strict.next_command([Code.AUTH], skip_unknown=False)


def test_a_command_out_of_order_is_refused_at_its_header() -> None:
    reader = CommandReader()
    reader.receive_data(struct.pack(">ii", Code.COLL, 100))
    with pytest.raises(RemoteProtocolError, match="COLL is out of order, expected IMPI"):
        reader.next_command([Code.IMPI])


def test_messages_without_a_header_and_skipped_bytes() -> None:
    reader = CommandReader()
    reader.receive_data(b"1234567")
    assert reader.next_bytes(8) is None
    reader.skip(3)
    reader.receive_data(b"89")
    assert reader.next_bytes(4) == b"4567"
    reader.skip(5)
    reader.receive_data(b"abcde")
    assert reader.next_bytes(2) == b"de"


SWAPPED = "with its bytes swapped: integers of IMPI are big-endian"


@pytest.mark.parametrize("stream", [b"IPMI\4\0\0\0\1\0\0\0", b"IMPI\4\0\0\0\1\0\0\0"], ids=["code", "length"])
def test_a_command_in_the_other_byte_order_is_called_so(stream: bytes) -> None:
    reader = CommandReader()
    reader.receive_data(stream)
    with pytest.raises(RemoteProtocolError, match=SWAPPED):
        reader.next_command({Code.IMPI})


def test_labels_in_the_other_byte_order_are_called_so() -> None:
    for label in (C_TAGUB, H_PORT, C_NHOSTS):
        arrays = {
            value: Broadcast(value, 1, data)
            for value, data in ClientPart((HostPart(bytes(16), 4001, (ProcPart(bytes(16), 1),)),)).encode()
        }
        arrays[label.value] = Broadcast(label.value, 1, arrays[label.value].data[::-1])
        with pytest.raises(RemoteProtocolError, match=SWAPPED):
            join(1, arrays)


@pytest.mark.parametrize("changes", [{"pk_type": 1 << 24}, {"pk_type": 0, "pk_len": 8 << 24, "pk_msglen": 8 << 56}])
def test_a_packet_in_the_other_byte_order_is_called_so(changes: dict[str, int]) -> None:
    reader = PacketReader(1000, lambda packet, data: None)
    header = Packet(0)._replace(**changes).pack()
    reader.get_buffer()[: len(header)] = header
    with pytest.raises(RemoteProtocolError, match=SWAPPED):
        reader.buffer_updated(len(header))
