"""Packets in memory that a rank and its host share."""

from __future__ import annotations

import mmap

import pytest

from aiompi.errors import RemoteProtocolError
from aiompi.impi import slots
from aiompi.impi.packet import HEADER_BYTES, Packet, PacketReader, PacketType
from aiompi.impi.slots import SharedPackets
from support.worlds import pour

DATALEN = 100_000


def packet(data: bytes) -> bytes:
    return Packet(PacketType.DATA, len(data), pk_msglen=len(data)).pack() + data


@pytest.fixture
def sides() -> tuple[SharedPackets, SharedPackets]:
    """Of the rank, and of the host."""
    memory = mmap.mmap(-1, slots.nbytes(DATALEN))
    return SharedPackets(memory, DATALEN, rank=True), SharedPackets(memory, DATALEN, rank=False)


@pytest.mark.parametrize("datalen", [slots.LONG, 65536, 65537, 2**18, 2**20, 5_000_000, 2**23])
def test_each_slot_has_room_for_the_longest_packet_and_is_nobody_elses(datalen: int) -> None:
    memory = mmap.mmap(-1, slots.nbytes(datalen))
    rank, host = (SharedPackets(memory, datalen, rank=rank) for rank in (True, False))
    taken = [slot for side in (rank, host) for slot in iter(side.outbound.take, None)]
    assert 2 <= len(taken) // 2 <= 16
    whole = [packet(bytes([number]) * datalen) for number in range(len(taken))]
    for slot, data in zip(taken, whole, strict=True):
        slot.write([data[:HEADER_BYTES], data[HEADER_BYTES:]])
    for slot, data in zip(taken, whole, strict=True):
        assert slot.view[: len(data)] == data
    assert rank.outbound.take() is None
    assert host.outbound.take() is None


def test_short_packets_need_none_and_huge_ones_get_none() -> None:
    assert slots.nbytes(slots.LONG - 1) == 0
    assert slots.nbytes(2**23 + 1) == 0
    assert max(slots.nbytes(datalen) for datalen in range(slots.LONG, 2**23 + 1, 4096)) < 2**26


def test_a_slot_is_free_again_when_the_other_side_has_released_it(
    sides: tuple[SharedPackets, SharedPackets],
) -> None:
    rank, host = sides
    first, second = rank.outbound.take(), rank.outbound.take()
    assert first is not None
    assert second is not None
    found = host.inbound.referred(first.reference, 0)
    assert found is not None
    found.release()
    assert rank.outbound.take() is first
    assert rank.outbound.take() not in (first, second)


def test_packets_come_in_the_order_of_the_stream(sides: tuple[SharedPackets, SharedPackets]) -> None:
    rank, host = sides
    stream, sent = b"", []
    for number, length in enumerate((5, DATALEN, 0, DATALEN, 50_000, 7)):
        sent.append(packet(bytes([number]) * length))
        slot = host.outbound.take() if length > slots.LONG else None
        if slot is not None:
            slot.write([sent[-1]])
        stream += sent[-1] if slot is None else slot.reference
    for size in (1, 100, len(stream)):
        found: list[bytes] = []
        reader = PacketReader(DATALEN, lambda packet, whole, found=found: found.append(bytes(whole)))
        reader.slots = rank.inbound
        for start in range(0, len(stream), size):
            pour(reader, stream[start : start + size])
        assert found == sent
        assert reader.between_packets


@pytest.mark.parametrize(
    ("header", "cause"),
    [
        (Packet(PacketType.DATA, DATALEN + 1, pk_msglen=DATALEN + 1), f"{DATALEN} were agreed upon"),
        (Packet(PacketType.DATA, 2, pk_msglen=1), "brings 2 bytes"),
        (Packet(77), "there is no such type"),
    ],
)
def test_what_is_no_packet(sides: tuple[SharedPackets, SharedPackets], header: Packet, cause: str) -> None:
    rank, host = sides
    slot = host.outbound.take()
    assert slot is not None
    slot.write([header.pack()])
    reader = PacketReader(DATALEN, lambda packet, whole: None)
    reader.slots = rank.inbound
    with pytest.raises(RemoteProtocolError, match=cause):
        pour(reader, slot.reference)


def test_references_mean_nothing_where_nothing_is_shared(sides: tuple[SharedPackets, SharedPackets]) -> None:
    slot = sides[0].outbound.take()
    assert slot is not None
    with pytest.raises(RemoteProtocolError, match="there is no such type"):
        pour(PacketReader(DATALEN, lambda packet, whole: None), slot.reference)


def test_a_handler_that_raises_leaves_the_stream_in_step(sides: tuple[SharedPackets, SharedPackets]) -> None:
    rank, host = sides
    slot = host.outbound.take()
    assert slot is not None
    slot.write([packet(bytes(DATALEN))])
    found: list[int] = []

    def handler(header: Packet, whole: memoryview) -> None:
        found.append(header.pk_len)
        if len(found) == 1:
            raise KeyboardInterrupt

    reader = PacketReader(DATALEN, handler)
    reader.slots = rank.inbound
    with pytest.raises(KeyboardInterrupt):
        pour(reader, slot.reference + packet(b"next"))
    pour(reader, packet(b"last"))
    assert found == [DATALEN, 4, 4]
    assert host.outbound.take() is slot
