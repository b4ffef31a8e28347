from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.errors import RemoteProtocolError
from aiompi.impi.packet import (
    COUNTED,
    FIELDS,
    HEADER_BYTES,
    WITH_DATA,
    Packet,
    PacketReader,
    PacketType,
    describe,
    pack_proc,
    unpack,
)
from support.cases import cases
from support.recordings import CHANNELS
from support.worlds import pour

RANK_0 = "00000000 00000000 0000ffff c000020a 00000000 00000fa1"  # pid 4001 of 192.0.2.10
RANK_2 = "00000000 00000000 0000ffff c0000214 00000000 00001b59"  # pid 7001 of 192.0.2.20
HERE, THERE = (pack_proc(bytes.fromhex(proc)[:16], pid) for proc, pid in ((RANK_0, 4001), (RANK_2, 7001)))
NO_PROC = "00000000 00000000 00000000 00000000 00000000 00000000"

# Written by hand from section 3.5: type, len; src; dest; srqid; drqid; msglen; lsrank, tag; cid; seqnum; count; dtype;
# reserved.
GOLDEN = {
    "short message": (
        Packet(PacketType.DATA, 4, HERE, THERE, 1, 0, 4, pk_lsrank=0, pk_tag=7, pk_cid=0, pk_seqnum=1, pk_count=1),
        f"00000000 00000004 {RANK_0} {RANK_2} 0000000000000001 0000000000000000 0000000000000004"
        "00000000 00000007 0000000000000000 0000000000000001 0000000000000001 0000000000000000 0000000000000000",
    ),
    "empty message in a collective": (
        Packet(PacketType.DATA, 0, THERE, HERE, 9, 0, 0, pk_lsrank=2, pk_tag=110, pk_cid=1, pk_seqnum=5),
        f"00000000 00000000 {RANK_2} {RANK_0} 0000000000000009 0000000000000000 0000000000000000"
        "00000002 0000006e 0000000000000001 0000000000000005 0000000000000000 0000000000000000 0000000000000000",
    ),
    "beginning of a long message": (
        Packet(PacketType.DATASYNC, 4000, HERE, THERE, 2, 0, 10000, 0, 8, 0, pk_seqnum=2, pk_count=2500),
        f"00000001 00000fa0 {RANK_0} {RANK_2} 0000000000000002 0000000000000000 0000000000002710"
        "00000000 00000008 0000000000000000 0000000000000002 00000000000009c4 0000000000000000 0000000000000000",
    ),
    "its acknowledgement": (
        Packet(PacketType.SYNCACK, 0, THERE, HERE, 2, 0x55),
        f"00000003 00000000 {RANK_2} {RANK_0} 0000000000000002 0000000000000055 0000000000000000"
        "00000000 00000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
    ),
    "its end": (
        Packet(PacketType.DATA, 2000, HERE, THERE, 2, 0x55, 10000, 0, 8, 0, pk_seqnum=4, pk_count=2500),
        f"00000000 000007d0 {RANK_0} {RANK_2} 0000000000000002 0000000000000055 0000000000002710"
        "00000000 00000008 0000000000000000 0000000000000004 00000000000009c4 0000000000000000 0000000000000000",
    ),
    "acknowledgement of packets": (
        Packet(PacketType.PROTOACK, 0, THERE, HERE),
        f"00000002 00000000 {RANK_2} {RANK_0} 0000000000000000 0000000000000000 0000000000000000"
        "00000000 00000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
    ),
    "request to cancel": (
        Packet(PacketType.CANCEL, 0, HERE, THERE, 1),
        f"00000004 00000000 {RANK_0} {RANK_2} 0000000000000001 0000000000000000 0000000000000000"
        "00000000 00000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
    ),
    "cancelled": (
        Packet(PacketType.CANCELYES, 0, THERE, HERE, 1),
        f"00000005 00000000 {RANK_2} {RANK_0} 0000000000000001 0000000000000000 0000000000000000"
        "00000000 00000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
    ),
    "not cancelled": (
        Packet(PacketType.CANCELNO, 0, THERE, HERE, 1),
        f"00000006 00000000 {RANK_2} {RANK_0} 0000000000000001 0000000000000000 0000000000000000"
        "00000000 00000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
    ),
    "end of a host": (
        Packet(PacketType.FINI),
        f"00000007 00000000 {NO_PROC} {NO_PROC} 0000000000000000 0000000000000000 0000000000000000"
        "00000000 00000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
    ),
    "extreme values": (
        Packet(
            PacketType.DATA,
            2**32 - 1,
            pack_proc(b"\xfe" * 16, -1),
            pack_proc(b"\x00" * 16, -(2**63)),
            2**64 - 1,
            2**64 - 2,
            2**64 - 3,
            -1,
            2**31 - 1,
            2**64 - 16,
            2**64 - 5,
            -2,
            2**64 - 6,
            2**64 - 7,
        ),
        "00000000 ffffffff fefefefefefefefefefefefefefefefe ffffffffffffffff"
        "00000000000000000000000000000000 8000000000000000 ffffffffffffffff fffffffffffffffe fffffffffffffffd"
        "ffffffff 7fffffff fffffffffffffff0 fffffffffffffffb fffffffffffffffe fffffffffffffffa fffffffffffffff9",
    ),
}


def read(data: bytes, cuts: list[int] | tuple[int, ...] = (), maxdatalen: int = 2**16) -> list[tuple[Packet, bytes]]:
    """The packets of a stream that ends with a whole one, each as it is in the stream."""
    found: list[tuple[Packet, bytes]] = []
    reader = PacketReader(maxdatalen, lambda packet, whole: found.append((packet, bytes(whole))))
    turns = iter(cuts)
    pour(reader, data, (next(turns, cuts[-1] if cuts else len(data)) for _ in range(len(data))))
    assert reader.between_packets
    return found


HOST_RANK_BYTES = 4
STREAMS = {
    f"{channel.job} {sender}-{receiver}": stream
    for channel in CHANNELS
    for sender, receiver, stream in (
        (channel.connector, channel.acceptor, channel.sent[HOST_RANK_BYTES:]),
        (channel.acceptor, channel.connector, channel.answered),
    )
}


@pytest.mark.spec("I1.2.1-1", "I1.2.1-2", "I1.2.1-4", "I1.2.3-1", "I3.2-1", "I3.4-1", "I3.5-5", "I3.5-6", "I3.5-9")
@cases("name", GOLDEN)
def test_headers_byte_by_byte(name: str) -> None:
    packet, golden = GOLDEN[name]
    assert packet.pack() == bytes.fromhex(golden)
    assert len(packet.pack()) == HEADER_BYTES == 128
    if name != "extreme values":
        assert unpack(bytes.fromhex(golden)) == packet


def test_every_type_has_golden_bytes_and_fields() -> None:
    assert {packet.pk_type for packet, _ in GOLDEN.values()} == set(PacketType) == set(FIELDS)


@pytest.mark.spec("I3.5-5", "I3.5-6", "I3.5-7")
def test_the_table_is_the_one_of_the_standard() -> None:
    assert [(kind.name, kind.value) for kind in PacketType] == [
        ("DATA", 0), ("DATASYNC", 1), ("PROTOACK", 2), ("SYNCACK", 3),
        ("CANCEL", 4), ("CANCELYES", 5), ("CANCELNO", 6), ("FINI", 7),
    ]  # fmt: skip
    every = (
        "pk_type pk_len pk_src pk_dest pk_srqid pk_drqid pk_msglen pk_lsrank pk_tag pk_cid pk_seqnum pk_count pk_dtype "
        "pk_reserved"
    )
    assert {PacketType(kind).name: " ".join(fields) for kind, fields in FIELDS.items()} == {
        "DATA": every,
        "DATASYNC": every,
        "PROTOACK": "pk_type pk_src pk_dest",
        "SYNCACK": "pk_type pk_src pk_dest pk_srqid pk_drqid",
        "CANCEL": "pk_type pk_src pk_dest pk_srqid",
        "CANCELYES": "pk_type pk_src pk_dest pk_srqid",
        "CANCELNO": "pk_type pk_src pk_dest pk_srqid",
        "FINI": "pk_type",
    }
    assert {kind.name for kind in WITH_DATA} == {"DATA", "DATASYNC"}
    assert {kind.name for kind in COUNTED} == {"DATA", "DATASYNC", "SYNCACK", "CANCEL", "CANCELYES", "CANCELNO"}


@pytest.mark.spec("I3.5-2", "I3.5-8")
@pytest.mark.parametrize("kind", sorted(set(PacketType) - WITH_DATA))
@pytest.mark.parametrize("junk", [0x00, 0x80, 0xFF])
def test_fields_that_do_not_count_are_ignored(kind: PacketType, junk: int) -> None:
    """In particular pk_len: the next packet begins directly behind the header."""
    filled = unpack(bytes([0, 0, 0, PacketType.DATA]) + b"\0\0\0\0" + bytes([junk]) * 120)
    sent = filled._replace(pk_type=kind, pk_len=int.from_bytes(bytes([junk]) * 4, "big"))
    follower = Packet(PacketType.DATA, 1, HERE, THERE, pk_msglen=1).pack() + b"x"
    (packet, whole), (_, next_one) = read(sent.pack() + follower)
    assert whole == sent.pack()
    assert next_one == follower
    counting = FIELDS[kind]
    assert packet == Packet(0)._replace(**{name: getattr(sent, name) for name in counting})


@pytest.mark.spec("I3.5-2", "I3.5-8")
@cases("name", STREAMS)
def test_recorded_channels_are_read_to_their_end(name: str) -> None:
    packets = read(STREAMS[name])
    assert b"".join(whole for _, whole in packets) == STREAMS[name]
    assert [packet.pk_type for packet, _ in packets].count(PacketType.FINI) == 1
    assert packets[-1][0] == Packet(PacketType.FINI)
    data = [(packet, len(whole) - 128) for packet, whole in packets if packet.pk_type in WITH_DATA]
    assert all(packet.pk_len == nbytes for packet, nbytes in data)


def test_recorded_channels_are_there() -> None:
    """Of four jobs, with one channel each and three between three clients."""
    assert len(STREAMS) == 10


@pytest.mark.spec("I3.5-2", "I3.7.3-2")
@given(
    lengths=st.lists(st.one_of(st.none(), st.integers(0, 300)), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 400), min_size=1),
)
def test_packets_are_understood_however_the_stream_is_cut(lengths: list[int | None], cuts: list[int]) -> None:
    packets: list[tuple[Packet, bytes]] = []
    for number, length in enumerate(lengths):
        if length is None:
            packets.append(((p := Packet(PacketType.SYNCACK, 0, HERE, THERE, number)), p.pack()))
        else:
            header = Packet(PacketType.DATA, length, HERE, THERE, number, 0, length)
            packets.append((header, header.pack() + bytes([number]) * length))
    assert read(b"".join(whole for _, whole in packets), cuts, maxdatalen=300) == packets


@pytest.mark.spec("I3.6-7", "I3.7.3-2")
def test_a_packet_is_there_when_its_last_byte_is() -> None:
    stream = Packet(PacketType.DATA, 3, HERE, THERE, pk_msglen=3).pack() + b"abc"
    found: list[bytes] = []
    reader = PacketReader(2**16, lambda packet, whole: found.append(bytes(whole[HEADER_BYTES:])))
    for byte in stream[:-1]:
        pour(reader, bytes([byte]))
        assert not found
        assert not reader.between_packets
    pour(reader, stream[-1:])
    assert found == [b"abc"]
    assert reader.between_packets


@pytest.mark.spec("I3.5-3")
@cases("maxdatalen", [1, 7, 4000, 2**16, 2**18])
def test_data_up_to_the_agreed_length(maxdatalen: int) -> None:
    header = Packet(PacketType.DATASYNC, maxdatalen, HERE, THERE, pk_msglen=2**40)
    stream = 3 * (header.pack() + bytes(maxdatalen))
    assert [len(whole) for _, whole in read(stream, maxdatalen=maxdatalen)] == [128 + maxdatalen] * 3
    longer = header._replace(pk_len=maxdatalen + 1)
    with pytest.raises(RemoteProtocolError, match=rf"{maxdatalen + 1} bytes of data; {maxdatalen} were agreed"):
        read(longer.pack(), maxdatalen=maxdatalen)


@pytest.mark.spec("I3.5-17")
@cases(
    ("packet", "message"),
    [
        (
            Packet(8, 0, HERE, THERE),
            "of type 8 from process 4001@00000000000000000000ffffc000020a to 7001@.*no such type",
        ),
        (Packet(2**32 - 1), "of type 4294967295 .*no such type"),
        (Packet(PacketType.DATA, 5, HERE, THERE, pk_msglen=4), "DATA .* brings 5 bytes of a message that has 4"),
        (Packet(PacketType.DATASYNC, 1, HERE, THERE), "DATASYNC .* brings 1 bytes of a message that has 0"),
    ],
)
def test_impossible_packets_are_refused_at_their_header(packet: Packet, message: str) -> None:
    assert packet.pack()[:4] == packet.pk_type.to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match=message):
        read(packet.pack())


@given(stream=st.binary(max_size=600), cut=st.integers(1, 200))
def test_random_bytes_are_packets_or_a_protocol_error(stream: bytes, cut: int) -> None:
    reader = PacketReader(64, lambda packet, whole: None)
    with contextlib.suppress(RemoteProtocolError):
        for at in range(0, len(stream), cut):
            pour(reader, stream[at : at + cut])


def test_a_handler_that_raises_leaves_the_stream_in_step() -> None:
    seen: list[Any] = []

    def handler(packet: Packet, whole: memoryview) -> None:
        seen.append(packet.pk_srqid)
        if packet.pk_srqid == 1:
            raise KeyboardInterrupt

    stream = b"".join(Packet(PacketType.CANCEL, 0, HERE, THERE, number).pack() for number in range(4))
    reader = PacketReader(64, handler)
    with pytest.raises(KeyboardInterrupt):
        pour(reader, stream)
    pour(reader, stream[:128])
    assert seen == [0, 1, 2, 3, 0]


def test_packets_in_words() -> None:
    assert describe(Packet(PacketType.FINI)) == f"packet FINI from process 0@{'00' * 16} to 0@{'00' * 16}"
