"""The tester's own codec against the worked examples of the specification and recorded traffic."""

from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi_launcher.conformance.model.universe import Joint, StartupProblem, combine
from aiompi_launcher.conformance.wire import startup
from aiompi_launcher.conformance.wire.external32 import BASICS
from aiompi_launcher.conformance.wire.packet import HEADER, WITH_DATA, Identity, Kind, Packet, decode
from support.cases import cases
from support.recordings import connections

ONE = Identity(bytes.fromhex("00000000 00000000 0000ffff c000020a"), 4001)
TWO = Identity(bytes.fromhex("00000000 00000000 0000ffff c0000214"), 7001)
ENDS = "00000000 00000000 0000ffff c000020a 00000000 00000fa1 00000000 00000000 0000ffff c0000214 00000000 00001b59"
BACK = "00000000 00000000 0000ffff c0000214 00000000 00001b59 00000000 00000000 0000ffff c000020a 00000000 00000fa1"

GOLDEN = {
    "eager": (
        Packet(Kind.DATA, ONE, TWO, srqid=1, msglen=4, tag=7, seqnum=1, count=1, data=b"\0\0\0\1"),
        f"00000000 00000004 {ENDS} 00000000 00000001 00000000 00000000 00000000 00000004 00000000 00000007"
        " 00000000 00000000 00000000 00000001 00000000 00000001 00000000 00000000 00000000 00000000 00000001",
    ),
    "barrier": (
        Packet(Kind.DATA, TWO, ONE, srqid=9, lsrank=2, tag=110, cid=1, seqnum=5),
        f"00000000 00000000 {BACK} 00000000 00000009 00000000 00000000 00000000 00000000 00000002 0000006e"
        " 00000000 00000001 00000000 00000005 00000000 00000000 00000000 00000000 00000000 00000000",
    ),
    "long": (
        Packet(Kind.DATASYNC, ONE, TWO, srqid=2, msglen=10000, tag=8, seqnum=2, count=2500, data=bytes(4000)),
        f"00000001 00000fa0 {ENDS} 00000000 00000002 00000000 00000000 00000000 00002710 00000000 00000008"
        " 00000000 00000000 00000000 00000002 00000000 000009c4 00000000 00000000 00000000 00000000" + " 00" * 4000,
    ),
    "syncack": (
        Packet(Kind.SYNCACK, TWO, ONE, srqid=2, drqid=0x55),
        f"00000003 00000000 {BACK} 00000000 00000002 00000000 00000055" + " 00" * 56,
    ),
    "protoack": (Packet(Kind.PROTOACK, TWO, ONE), f"00000002 00000000 {BACK}" + " 00" * 72),
    "cancel": (Packet(Kind.CANCEL, ONE, TWO, srqid=1), f"00000004 00000000 {ENDS} 00000000 00000001" + " 00" * 64),
    "cancelyes": (
        Packet(Kind.CANCELYES, TWO, ONE, srqid=1),
        f"00000005 00000000 {BACK} 00000000 00000001" + " 00" * 64,
    ),
    "fini": (Packet(Kind.FINI), "00000007" + " 00" * 124),
}


@pytest.mark.spec("I3.5-5", "I3.5-6", "I1.2.1-2")
@pytest.mark.parametrize(("packet", "text"), GOLDEN.values(), ids=list(GOLDEN))
def test_packets_have_the_bytes_of_the_examples(packet: Packet, text: str):
    data = bytes.fromhex(text)
    assert packet.encode() == data
    assert decode(data[:HEADER], data[HEADER:]) == packet


@given(st.binary(min_size=HEADER, max_size=HEADER))
def test_any_header_survives(header: bytes):
    assert decode(header).header() == header


@pytest.mark.spec("I3.5-8")
@pytest.mark.parametrize("job", ["showcase", "showcase_fixed", "three_fixed"])
def test_recorded_channels_are_understood(job: str):
    """Packet after packet to the last byte, and again the same bytes."""
    kinds = set()
    for connection in connections(job):
        if not connection.between_hosts:
            continue
        for stream in (connection.sent[4:], connection.answered):  # the one that connects says its host rank first
            position = 0
            while position < len(stream):
                packet = decode(stream[position : position + HEADER])
                data = stream[position + HEADER :][: packet.len if packet.type in WITH_DATA else 0]
                assert packet.header() + data == stream[position : position + HEADER + len(data)]
                position += HEADER + len(data)
                kinds.add(Kind(packet.type))
            assert position == len(stream)
    assert {Kind.DATA, Kind.FINI} <= kinds


@pytest.mark.spec("I2.3.2-1", "I2.3.2-2", "I2.3.5-1", "I2.3.5-2")
def test_commands_have_the_bytes_of_the_examples():
    assert startup.command(startup.AUTH, b"\0\0\0\3").hex() == "415554480000000400000003"
    assert startup.command(startup.IMPI, b"\0\0\0\1").hex() == "494d50490000000400000001"
    assert startup.submission(0x1300, b"\0\0\x1f\x40").hex() == "434f4c4c000000080000130000001f40"
    joint = startup.broadcast(0x1300, 3, bytes.fromhex("00001f4000000fa0"))
    assert joint.hex() == "434f4c4c00000010000013000000000300001f4000000fa0"
    assert startup.command(startup.DONE).hex() == "444f4e4500000000"
    assert startup.command(startup.FINI).hex() == "46494e4900000000"


#: the job of the worked example, as the server broadcasts it
EXAMPLE = {
    0x1000: "0000000000000000 0000000000000000 0000000000000001",
    0x1100: "00000001 00000001",
    0x1200: "00000002 00000001",
    0x1300: "00001f40 00000fa0",
    0x1400: "7fffffff 00007fff",
    0x1500: "ffffffff ffffffff",
    0x1600: "ffffffff ffffffff",
    0x2000: "00000000000000000000ffffc000020a 00000000000000000000ffffc0000214",
    0x2100: "00001389 00001771",
    0x2200: "00000002 00000001",
    0x2300: "0000000a 00000008",
    0x2400: "00000014 00000010",
    0x3000: "00000000000000000000ffffc000020a" * 2 + "00000000000000000000ffffc0000214",
    0x3100: "0000000000000fa1 0000000000000fa2 0000000000001b59",
}


def joints(**changes: str) -> dict[int, Joint]:
    numbers = {label.name: number for number, label in startup.LABELS.items()}
    texts = EXAMPLE | {numbers[name]: text for name, text in changes.items()}
    return {number: Joint(3, bytes.fromhex(text)) for number, text in texts.items()}


@pytest.mark.spec("I2.3.5-18", "I2.3.5-19", "I2.3.5-24", "I2.3.5-26", "I2.3.5-27", "I3.6-6")
def test_the_job_of_the_example():
    universe = combine(2, joints())
    assert universe.version == (0, 0)
    assert [proc.identity for proc in universe.procs] == [ONE, Identity(ONE.host, 4002), TWO]
    assert [(host.client, host.port) for host in universe.hosts] == [(0, 5001), (1, 6001)]
    assert (universe.maxdatalen, universe.tag_ub) == (4000, 32767)
    assert (universe.crossover, universe.max_linear, universe.ackmark, universe.hiwater) == (1024, 4, 8, 16)


@cases(
    ("changes", "rule"),
    [
        ({"C_COLL_XSIZE": "ffffffff 00000800"}, "I2.3.5-30"),
        ({"C_TAGUB": "7fffffff 00000001"}, "I2.3.5-31"),
        ({"C_DATALEN": "00000000 00000001"}, "I2.3.5-31"),
        ({"H_ACKMARK": "0000000a 00000011"}, "I2.3.5-31"),
        ({"H_PORT": "00000001"}, "I2.3.5-16"),
        ({"H_PORT": "000001"}, "I2.3.5-16"),
        ({"C_NPROCS": "00000001 00000001"}, "I2.3.5-16"),
        ({"C_VERSION": "0000000000000001 0000000000000000"}, "I2.3.5-17"),
        ({"C_VERSION": "0000000000000000"}, "I2.3.5-18"),
        ({"P_PID": "0000000000000fa1 0000000000000fa1 0000000000001b59"}, "I2.3.5-35"),
    ],
)
def test_jobs_that_are_none(changes: dict[str, str], rule: str):
    with pytest.raises(StartupProblem) as caught:
        combine(2, joints(**changes))
    assert caught.value.rule == rule


@pytest.mark.spec("I2.3.5-30")
def test_the_default_is_a_value():
    assert combine(2, joints(C_COLL_XSIZE="ffffffff 00000400")).crossover == 1024


@pytest.mark.spec("I1.2.2-1")
@cases(
    ("name", "value", "text"),
    [
        ("MPI_INT", 1, "00000001"),
        ("MPI_LONG", 1, "00000001"),
        ("MPI_LONG", -1, "ffffffff"),
        ("MPI_DOUBLE", 1.0, "3ff0000000000000"),
        ("MPI_CHAR", 65, "41"),
        ("MPI_UNSIGNED_SHORT", 65535, "ffff"),
        ("MPI_FLOAT", -2.0, "c0000000"),
        ("MPI_LONG_LONG_INT", -2, "fffffffffffffffe"),
        ("MPI_LONG_DOUBLE", 1.0, "3fff0000000000000000000000000000"),
        ("MPI_LONG_DOUBLE", -0.5, "bffe0000000000000000000000000000"),
        ("MPI_LONG_DOUBLE", 0.0, "00000000000000000000000000000000"),
        ("MPI_LONG_DOUBLE", float("inf"), "7fff0000000000000000000000000000"),
    ],
)
def test_user_data(name: str, value: float, text: str):
    basic = BASICS[name]
    memory = bytearray(basic.size)
    basic.from_wire(bytes.fromhex(text), memory, 0)
    stored = (
        ctypes.c_longdouble.from_buffer(memory).value if basic.native == "g" else struct.unpack(basic.native, memory)[0]
    )
    assert stored == value
    assert basic.to_wire(memory, 0).hex() == text
    assert basic.encode(value).hex() == text
    assert basic.decode(bytes.fromhex(text)) == value


@given(st.floats(allow_nan=False))
def test_long_doubles_keep_what_a_double_has(value: float):
    basic = BASICS["MPI_LONG_DOUBLE"]
    assert basic.decode(basic.encode(value)) == value


@pytest.mark.spec("I1.2.3-2", "I1.2.3-3")
def test_host_identifiers():
    assert startup.identifier_of("192.0.2.10").hex() == "00000000000000000000ffffc000020a"
    assert startup.address_of(bytes(12) + bytes((127, 0, 0, 1))) == "127.0.0.1"
    assert startup.address_of(bytes.fromhex("fe80" + "00" * 14)) is None
