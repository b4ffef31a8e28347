"""Messages between clients: the engine over packets, which arrive in small pieces and in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi import Intracomm, Status, errors
from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from aiompi.datatype import BYTE, CHAR, DOUBLE, INT, LONG, PACKED, SHORT, Datatype
from aiompi.datatype.buffer.bufspec import resolve_recv
from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import Mode
from aiompi.engine.gateway import Gateway
from aiompi.errors import JobAbortedError, RemoteProtocolError, TruncationError
from aiompi.face.native.job import world_of
from aiompi.impi.packet import HEADER_BYTES, Packet, PacketReader, PacketType, pack_proc
from support.cases import cases
from support.impi_worlds import ImpiWorld, impi_world
from support.spmd import Run
from support.universes import universe
from support.worlds import irecv, irecv_into, isend, pattern, pour

LIMITS = {"datalen": 100, "ackmark": 2, "hiwater": 3}
CUTS = [1, 7, 2**30]


@pytest.mark.spec("I3.1-2", "I3.5-15", "I3.7.2-9")
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("shape", [[1, 1], [2, 1], [1, 2, 3], [[1, 2], 1]])
def test_messages_of_every_rank_to_every_rank(shape: list[int], cut: int) -> None:
    world = ImpiWorld(shape, cut=cut, seed=cut, limits=LIMITS)
    ranks = range(world.universe.size)
    sizes = (0, 1, 100, 101, 350)
    sends = [
        isend(world.comms[source], pattern(nbytes, source), dest, tag=dest)
        for nbytes in sizes for source in ranks for dest in ranks
    ]  # fmt: skip
    receives = [[irecv(world.comms[dest], source) for source in ranks for _ in sizes] for dest in ranks]
    world.run()
    for own in receives:
        expected = [pattern(nbytes, source) for source in ranks for nbytes in sizes]
        assert [request.result() for request in own] == expected
    for send in sends:
        send.result()
    assert all(not engine.sends for engine in world.engines)


@pytest.mark.spec("I1.1-5", "I3.5-18")
def test_messages_within_a_client_are_no_packets() -> None:
    world = ImpiWorld([2, 1], limits=LIMITS)
    requests = [irecv(world.comms[dest], 0) for dest in (0, 1)]
    for dest in (0, 1):
        isend(world.comms[0], b"near", dest)
    isend(world.comms[0], b"nothing", PROC_NULL)
    world.run()
    assert [request.result() for request in requests] == [b"near", b"near"]
    assert world.relay.packets == []


def seen(*clients: int, **arguments: Any) -> tuple[ImpiWorld, list[Intracomm]]:
    """Return communicators of the native face, and the world that carries their packets."""
    driver = AsyncioDriver()
    made = ImpiWorld(clients, lambda: driver, patient=False, **arguments)
    return made, [world_of(Intracomm, runtime) for runtime in made.runtimes]


# User data (section 1.2.2).

TWO = Datatype.Create_struct([1, 1], [0, 8], [SHORT, DOUBLE]).Create_resized(0, 24).Commit()


@pytest.mark.spec("I1.2.2-1", "I1.2.2-2", "I1.2.2-5", "I3.5-12")
@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        ([np.array([1], "i4"), INT], "00000001"),
        ([np.array([1, -2], "l"), LONG], "00000001 fffffffe"),
        ([np.array([1.0]), DOUBLE], "3ff0000000000000"),
        ([np.array([1, 2, 3, 4], "i2")[::2], SHORT], "0001 0003"),
        ([b"A", CHAR], "41"),
        ([b"\x00\xff", BYTE], "00ff"),
        ([b"\x01\x02", PACKED], "0102"),
        ([np.zeros(6), 2, TWO], "0000 0000000000000000 0000 0000000000000000"),
    ],
)
def test_user_data_crosses_in_external32(run: Run, spec: Any, golden: str) -> None:
    async def main() -> None:
        made, (sender, receiver) = seen(1, 1)
        buffer = bytearray(64)
        receive = receiver.Irecv([buffer, BYTE])
        await sender.Send(spec, 1)
        await receive
        ((packet, data),) = made.relay.packets
        assert data == bytes.fromhex(golden)
        assert packet.pk_msglen == packet.pk_len == len(data)

    run(main())


@pytest.mark.parametrize(("datatype", "direct"), [(BYTE, True), (INT, False)])
def test_memory_in_external32_is_received_in_place(datatype: Datatype, direct: bool) -> None:
    """Such a message arrives packet by packet without a copy. Others are converted when they are complete."""
    world = ImpiWorld([1, 1], limits=LIMITS)
    place = bytearray(352)
    receive = world.comms[1].irecv(resolve_recv([place, 352 // datatype.size, datatype]), 0, 0)
    isend(world.comms[0], b"\7" * 352, 1)
    filled = set()
    while world.step() and not receive.done():
        filled.add(place.count(7))
    assert filled > {0, 100} if direct else filled == {0}
    receive.result()
    assert place == b"\7" * 352


@pytest.mark.parametrize("datatype", [BYTE, INT])
@pytest.mark.parametrize("when", ["posted", "in the midst", "too short"])
def test_a_receive_that_ends_without_a_message_gives_its_memory_back(datatype: Datatype, when: str) -> None:
    world = ImpiWorld([1, 1], limits=LIMITS)
    place = bytearray(352 if when != "too short" else 4)
    receive = world.comms[1].irecv(resolve_recv([place, len(place) // datatype.size, datatype]), 0, 0)
    if when != "posted":
        isend(world.comms[0], b"\7" * 352, 1)
    if when == "too short":
        world.run()
        assert isinstance(receive.exception(), TruncationError)
    else:
        for _ in range(5 if when == "in the midst" else 0):
            world.step()
        receive.withdraw()
    place.append(1)
    world.run()
    assert receive.cancelled() or when == "too short"
    assert when != "in the midst" or irecv(world.comms[1], 0).result() == b"\7" * 352


def test_a_message_that_is_still_arriving_can_be_taken() -> None:
    world = ImpiWorld([1, 1], limits=LIMITS)
    first = irecv_into(world.comms[1], bytearray(352))
    isend(world.comms[0], b"\7" * 352, 1)
    for _ in range(5):
        world.step()
    first.withdraw()
    _, message = world.comms[1].improbe(0, 0)
    receive = world.comms[1].imrecv(message, resolve_recv([memory := bytearray(352), BYTE]))
    assert not receive.done()
    world.run()
    receive.result()
    assert memory == b"\7" * 352
    memory.append(1)  # possible although the message may still exist


@cases("steps", range(0, 12, 3))
def test_a_withdrawn_send_leaves_the_memory_to_its_owner(steps: int) -> None:
    world = ImpiWorld([1, 1], limits=LIMITS)
    memory = bytearray(b"\7" * 352)
    receive = irecv(world.comms[1], 0)
    send = isend(world.comms[0], memory, 1)
    for _ in range(steps):
        world.step()
    assert not send.done()
    send.withdraw()
    memory[:] = bytes(352)
    memory.append(1)
    world.run()
    assert receive.result() == b"\7" * 352


@pytest.mark.parametrize("recalled", ["", "queued", "unmatched", "too late"])
@pytest.mark.parametrize("nbytes", [5, 352])
def test_a_complete_send_gives_its_memory_back(nbytes: int, recalled: str) -> None:
    """The memory is free at once, even if the answer to a CANCEL is still to come."""
    world = ImpiWorld([1, 1], limits=LIMITS)
    for _ in range(LIMITS["hiwater"] if recalled == "queued" else 0):
        isend(world.comms[0], b"", 1)
    memory = bytearray(nbytes)
    send = isend(world.comms[0], memory, 1, sync=True)
    if recalled != "queued":
        world.run()
    if recalled in ("", "too late"):
        irecv(world.comms[1])
    if recalled:
        send.cancel()
    while not send.done():
        assert world.step()
    memory.append(1)


@pytest.mark.spec("I1.2.2-6")
def test_a_long_that_does_not_fit_loses_its_upper_half(run: Run) -> None:
    async def main() -> None:
        _, (sender, receiver) = seen(1, 1)
        received = np.zeros(2, "l")
        receive = receiver.Irecv([received, LONG])
        await sender.Send([np.array([2**40 + 5, -(2**40) - 5], "l"), LONG], 1)
        await receive
        assert received.tolist() == [5, -5]

    run(main())


@pytest.mark.spec("I1.2.2-3", "I1.2.2-4", "I3.7.2-11")
@pytest.mark.parametrize("count", [3, 300])
def test_local_and_global_messages_count_alike(run: Run, count: int) -> None:
    """The longs of rank 1 come from the same client, those of rank 2 from another. `count` fit, `count - 1` do not."""

    async def main() -> None:
        _, world = seen(2, 1, limits=LIMITS)
        longs, place = np.arange(count, dtype="l"), np.zeros(count, "l")
        for source in (1, 2):
            sends = [world[source].Isend([longs, LONG], 0) for _ in range(2)]
            probed, status = await world[0].probe(source), Status()
            await world[0].Recv([place, LONG], source, status=status)
            for found in (probed, status):
                assert (found.Get_count(LONG), found.Get_elements(LONG)) == (count, count)
            assert (place == longs).all()
            place[:] = -1
            with pytest.raises(errors.TruncationError):
                await world[0].Recv([place, count - 1, LONG], source)
            assert place.tolist() == [*range(count - 1), -1]
            for send in sends:
                await send

    run(main())


def test_packing_units_are_external32_on_communicators_that_span_clients(run: Run) -> None:
    async def main() -> None:
        world = impi_world([2, 1])
        alone = world[0].COMM_SELF
        unit, value, position = bytearray(8), np.zeros(1, "l"), 0
        position = LONG.Pack(np.array([258], "l"), unit, position, world[0])
        assert (position, unit[:4].hex(), LONG.Pack_size(2, world[0])) == (4, "00000102", 8)
        receive = world[2].Irecv([received := bytearray(4), PACKED])
        await world[0].Send([unit, position, PACKED], 2)
        await receive
        assert LONG.Unpack(received, 0, value, world[2]) == 4
        assert value == 258
        assert LONG.Pack(value, unit, 0, alone) == 8

    run(main())


@pytest.mark.parametrize("listed", ["0", "1"])
def test_native_order_towards_listed_clients(run: Run, listed: str) -> None:
    """Both directions use native order, and statuses count in the sizes of this machine."""

    async def main() -> None:
        made, world = seen(1, 1, impi_native_order=("0", "1") if listed == "1" else ("0",))
        longs, place = np.array([1, 2**40], "l"), np.zeros(2, "l")
        receive = world[1].Irecv([place, LONG])
        await world[0].Send([longs, LONG], 1)
        status = await receive
        ((_, data),) = made.relay.packets
        if listed == "1":
            assert data == longs.tobytes()
            assert place.tolist() == [1, 2**40]
            assert status.Get_count(LONG) == 2
        else:  # rank 1 uses native order and rank 0 does not, so the data make no sense
            assert data == bytes.fromhex("00000001 00000000")

    run(main())


# Contexts and tags (sections 3.3 and 3.4).


@pytest.mark.spec("I3.3-1", "I3.5-13", "I3.5-15")
def test_communicators_do_not_meet(run: Run) -> None:
    async def main() -> None:
        made, world = seen(1, 1)
        copies = await all_of(*(comm.Dup() for comm in world))
        made.relay.packets.clear()
        receives = [comms[1].irecv(source=0, tag=3) for comms in (copies, world)]
        await world[0].send("world", 1, 3)
        await copies[0].send("copy", 1, 3)
        assert [await receive for receive in receives] == ["copy", "world"]
        assert [packet.pk_cid for packet, _ in made.relay.packets] == [0, copies[0]._core.context_id]

    run(main())


async def all_of(*requests: Any) -> list[Any]:
    return [await request for request in [*requests]]


@pytest.mark.spec("I2.3.5-27", "I3.4-1")
def test_tags_up_to_the_agreed_bound(run: Run) -> None:
    """The bound holds on every communicator, also between ranks of one client."""

    async def main() -> None:
        world = impi_world([2, 1], limits={"tagub": 40000})
        assert world[0].Get_attr(aiompi.MPI.TAG_UB) == 40000
        for tag in (0, 32767, 40000):
            receive = world[2].irecv(source=0, tag=tag)
            await world[0].send(tag, 2, tag)
            assert await receive == tag
        for call in (
            lambda: world[0].isend(None, 2, 40001),
            lambda: world[0].isend(None, 1, 40001),
            lambda: world[0].irecv(tag=40001),
            lambda: world[0].COMM_SELF.isend(None, 0, 40001),
        ):
            with pytest.raises(errors.InvalidTagError, match=r"40001 .* is not in 0\.\.40000"):
                call()

    run(main())


# Modes, probe and cancel (section 3.7).


@pytest.mark.spec("I3.7.1-2", "I3.7.2-1")
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("nbytes", [100, 101])
def test_the_first_packet_of_each_mode(mode: Mode, nbytes: int) -> None:
    world = ImpiWorld([1, 1], limits=LIMITS)
    world.engines[0].attachment.attach(None, None)
    data = pattern(nbytes)
    send = world.comms[0].isend((memoryview(data),), nbytes, 1, 3, mode)
    world.run()
    synchronous = nbytes > 100 or mode is Mode.SYNCHRONOUS
    assert world.relay.kinds() == ["DATASYNC" if synchronous else "DATA"]
    assert send.done() is (mode is Mode.BUFFERED or not synchronous)
    receive = irecv(world.comms[1])
    world.run()
    assert receive.result() == data
    assert send.done()


@pytest.mark.spec("I3.7.3-1", "I3.7.3-3", "I3.7.3-4")
@pytest.mark.parametrize("nbytes", [5, 350])
def test_a_probe_says_nothing(nbytes: int) -> None:
    world = ImpiWorld([1, 1], limits=LIMITS)
    waiting = world.comms[1].probe(ANY_SOURCE, ANY_TAG)
    send = isend(world.comms[0], pattern(nbytes), 1, tag=4, sync=True)
    world.run()
    found = world.comms[1].iprobe(0, 4)
    assert waiting.result() == found
    assert (found.source, found.tag, found.nbytes) == (0, 4, nbytes)
    assert world.relay.kinds(1) == []
    assert not send.done()
    _, message = world.comms[1].improbe(0, 4)
    world.run()
    assert world.relay.kinds(1) == []
    receive = world.comms[1].imrecv(message, None, bytes)
    world.run()
    assert receive.result() == pattern(nbytes)
    assert world.relay.kinds(1)[0] == "SYNCACK"
    assert send.done()


@pytest.mark.spec("I3.7.3-2")
def test_a_message_is_there_with_the_data_of_its_first_packet() -> None:
    world = ImpiWorld([1, 1], cut=1)
    isend(world.comms[0], b"x", 1)
    while not world.relay.packets:
        world.step()
    for _ in range(HEADER_BYTES):
        assert world.comms[1].iprobe(0, 0) is None
        world.step()
    world.step()
    assert world.comms[1].iprobe(0, 0) is not None


@pytest.mark.spec("I3.7.4-4", "I3.7.4-9")
@pytest.mark.parametrize("nbytes", [5, 350])
@pytest.mark.parametrize("cut", CUTS)
def test_a_recalled_message_is_gone(nbytes: int, cut: int) -> None:
    world = ImpiWorld([1, 1], cut=cut, limits={"datalen": 100})
    send = isend(world.comms[0], pattern(nbytes), 1, sync=True)
    world.run()
    assert world.comms[1].iprobe(0, 0) is not None
    assert send.cancel()
    assert not send.done()
    world.run()
    assert send.cancelled()
    assert world.comms[1].iprobe(0, 0) is None
    assert world.relay.kinds() == ["DATASYNC", "CANCEL", "CANCELYES"]


@pytest.mark.spec("I3.7.4-3", "I3.7.4-5", "I3.7.4-9")
@pytest.mark.parametrize("nbytes", [5, 350])
def test_a_message_of_a_matched_probe_is_not_recalled(nbytes: int) -> None:
    world = ImpiWorld([1, 1], limits={"datalen": 100})
    send = isend(world.comms[0], pattern(nbytes), 1, sync=True)
    world.run()
    _, message = world.comms[1].improbe(0, 0)
    assert send.cancel()
    world.run()
    assert not send.done()
    assert world.relay.kinds(1) == ["CANCELNO"]
    receive = world.comms[1].imrecv(message, None, bytes)
    world.run()
    assert receive.result() == pattern(nbytes)
    assert send.done()
    assert not send.cancelled()


@pytest.mark.spec("I3.7.2-11")
@cases("capacity", [0, 99, 100, 349])
def test_a_long_message_that_does_not_fit_is_consumed(capacity: int) -> None:
    world = ImpiWorld([1, 1], limits=LIMITS)
    send, after = isend(world.comms[0], pattern(350), 1), isend(world.comms[0], b"after", 1)
    memory = bytearray(capacity)
    receive, other = irecv_into(world.comms[1], memory), irecv(world.comms[1])
    world.run()
    assert isinstance(receive.exception(), errors.TruncationError)
    assert memory == pattern(350)[:capacity]
    assert other.result() == b"after"
    assert send.done()
    assert after.done()
    assert world.balanced(0, 1)


@pytest.mark.spec("I3.6-1", "I3.1-4")
def test_a_pair_at_its_mark_does_not_stop_others() -> None:
    """Rank 1 acknowledges nothing, since nothing reaches it. Rank 2 of the same host is served."""
    world = ImpiWorld([1, [2]], limits=LIMITS)
    for number in range(10):
        isend(world.comms[0], bytes([number]), 1)
    assert world.pair(0, 1).unacknowledged == LIMITS["hiwater"]
    del world.relay.down[1].bytes[:]
    send, receive = isend(world.comms[0], pattern(350), 2), irecv(world.comms[2])
    stuck = world.relay.down[1]
    stuck.reader = PacketReader(100, lambda packet, whole: None)
    world.run()
    assert receive.result() == pattern(350)
    assert send.done()
    assert not world.pair(0, 1).idle


# What goes wrong.


def test_a_memory_that_cannot_be_had_fails_the_receive_only() -> None:
    world = ImpiWorld([1, 1], limits=LIMITS)
    here, there = (pack_proc(proc.ipv6, proc.pid) for proc in world.universe.procs)
    receive = irecv(world.comms[1])
    header = Packet(PacketType.DATASYNC, 1, here, there, 5, pk_msglen=2**62)
    pour(world.relay.down[1].reader, header.pack() + b"x")
    with pytest.raises(errors.OtherError, match="no memory for a message of 4611686018427387904 bytes from rank 0"):
        receive.result()


def test_a_connection_that_drops_leaves_operations_to_the_end_of_the_job() -> None:
    """Operations in progress then fail with the job, and nothing is left of them."""
    world = ImpiWorld([1, 1], limits=LIMITS)
    sends = [isend(world.comms[0], pattern(350), 1), isend(world.comms[0], b"x", 1, sync=True)]
    receives = [irecv(world.comms[1]), irecv(world.comms[1], tag=9)]
    for _ in range(4):
        world.step()
    world.relay.dropped = True
    for engine in world.engines:
        engine.failure.abort(JobAbortedError("the host is gone"))
    for request in (*sends, *receives):
        with pytest.raises(JobAbortedError):
            request.result()
    assert all(not engine.sends for engine in world.engines)


@pytest.mark.spec("I2.4-2", "I3.8-2", "I3.8-3")
def test_messages_that_are_not_received_do_not_keep_a_rank_from_finalizing(run: Run) -> None:
    """Sends that wait for an answer fail. Other messages are dropped."""

    async def main() -> None:
        made, (sender, _) = seen(1, 1, limits=LIMITS)
        sends = [sender.Isend(pattern(nbytes), 1, 3) for nbytes in (5, 350)] + [sender.issend("unmatched", 1)]
        ends = [runtime.finalize() for runtime in made.runtimes]
        for end in ends:
            await end
        await sends[0]
        for send in sends[1:]:
            with pytest.raises(errors.ProcessFailedError, match="rank 1 has finalized"):
                await send
        assert made.relay.kinds(0).count("DATASYNC") == 2

    run(main())


def test_a_peer_that_counts_differently_causes_a_warning() -> None:
    world = ImpiWorld([1, 1], limits=LIMITS)
    here, there = (pack_proc(proc.ipv6, proc.pid) for proc in world.universe.procs)
    world.relay.put(world.relay.down[1], Packet(PacketType.PROTOACK, 0, here, there).pack())
    with pytest.warns(RuntimeWarning, match="rank 1, IMPI: packet PROTOACK .* counts differently"):
        world.run()


@pytest.mark.spec("I3.2-3")
def test_packets_of_strangers_are_refused() -> None:
    engine = ImpiWorld([2, 1]).engines[0]
    gateway: Any = engine.gateway
    here, neighbour, there = (pack_proc(proc.ipv6, proc.pid) for proc in engine.universe.procs)  # type: ignore[union-attr]
    wrong: list[tuple[bytes, bytes]] = [(bytes(24), here), (neighbour, here), (there, neighbour), (there, bytes(24))]
    for source, dest in wrong:
        packet = Packet(PacketType.DATA, 0, source, dest)
        with pytest.raises(RemoteProtocolError, match=r"no process of another client|is not for rank 0"):
            gateway.packet(packet, memoryview(packet.pack()))


@pytest.mark.spec("I3.2-2", "I1.2.3-4")
def test_identities_are_compared_as_they_were_published() -> None:
    """The same address in another form names another process."""
    world = ImpiWorld([1, 1])
    gateway: Any = world.engines[0].gateway
    here, there = world.universe.procs
    compatible = bytes(12) + there.ipv6[12:]
    assert compatible != there.ipv6
    packet = Packet(PacketType.DATA, 0, pack_proc(compatible, there.pid), pack_proc(here.ipv6, here.pid))
    with pytest.raises(RemoteProtocolError, match="no process of another client"):
        gateway.packet(packet, memoryview(packet.pack()))


# Recorded bytes of historic peers: each irregularity of theirs that concerns a rank.

JUNK = (
    "{kind:08x} 00000080 {src} {dest} {srqid:016x} {drqid:016x} 0000000000000080 ffffffff ffffffff 4900000000000000"
    "0000000000000002 ffffffffffffffff 0000000000000000 0000000000000000"
)


@pytest.mark.spec("I3.5-7", "I3.5-8")
@cases("kind", [PacketType.SYNCACK, PacketType.PROTOACK, PacketType.CANCELYES, PacketType.CANCELNO])
def test_headers_full_of_junk(kind: PacketType) -> None:
    """The recorded headers have pk_len and pk_msglen 128 without data, -1 as rank and tag, and 73 in the context."""
    world = ImpiWorld([1, 1], limits=LIMITS)
    send = isend(world.comms[0], b"x", 1, sync=True)
    if kind in (PacketType.CANCELYES, PacketType.CANCELNO):
        send.cancel()
    here, there = (pack_proc(proc.ipv6, proc.pid) for proc in world.universe.procs)
    fields = {"kind": kind, "src": there.hex(), "dest": here.hex(), "srqid": send.srqid, "drqid": 0}  # type: ignore[attr-defined]
    follower = Packet(PacketType.DATA, 2, there, here, pk_msglen=2, pk_lsrank=1).pack() + b"hi"
    receive = irecv(world.comms[0], 1)
    isend(world.comms[0], b"y", 1)
    under_way = world.pair(0, 1).unacknowledged
    pour(world.relay.down[0].reader, bytes.fromhex(JUNK.format(**fields)) + follower)
    assert receive.result() == b"hi"
    assert under_way - world.pair(0, 1).unacknowledged == (LIMITS["ackmark"] if kind is PacketType.PROTOACK else 0)
    assert send.done() is (kind in (PacketType.SYNCACK, PacketType.CANCELYES))
    assert send.cancelled() is (kind is PacketType.CANCELYES)


def test_a_fini_names_no_process() -> None:
    """Zero host identifiers and pids of -1 are not looked up."""
    engine = ImpiWorld([1, 1]).engines[0]
    none = "00" * 16 + "ff" * 8
    fini = bytes.fromhex(JUNK.format(kind=7, src=none, dest=none, srqid=0, drqid=0))
    gateway: Any = engine.gateway
    reader = PacketReader(100, gateway.packet)
    pour(reader, fini)
    assert reader.between_packets


def test_limits_are_those_of_the_universe() -> None:
    described = universe(1, 1, datalen=7, ackmark=3, hiwater=9)
    engine = ImpiWorld(described).engines[0]
    assert Gateway(engine, described).limits == (7, 3, 9)
