"""The connection of a rank to its IMPI host, whose part the test plays."""

from __future__ import annotations

import dataclasses
import errno
import mmap
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiompi.comm import Communicator, Group, make_communicator
from aiompi.driver.blocking import BlockingDriver
from aiompi.engine import Engine
from aiompi.engine.gateway import Gateway
from aiompi.errors import JobAbortedError
from aiompi.impi import slots
from aiompi.impi.packet import HEADER_BYTES, Packet, PacketType, pack_proc, unpack
from aiompi.impi.slots import SharedPackets
from aiompi.impi.universe import Universe
from aiompi.settings import Settings
from aiompi.transport.impi_host import ImpiHost
from aiompi.wire import memory
from aiompi.wire.hello import RANK_AGENT, ROLE_HOST, Acceptor, Protection
from support.limits import LIMIT
from support.universes import universe
from support.worlds import KEY, irecv, isend, pattern

UNIVERSE = universe(1, 2, ackmark=2, hiwater=3)
PROCS = [pack_proc(proc.ipv6, proc.pid) for proc in UNIVERSE.procs]
DATALEN = UNIVERSE.datalen


class Rank:
    """Rank 0 of the universe, and the socket of its host.

    Attributes:
        causes: reports of `on_lost`.
        shared: the host's view of the memory that the rank has handed over.
    """

    def __init__(
        self,
        directory: Path,
        universe: Universe = UNIVERSE,
        transports: tuple[str, ...] = (),
        *,
        background: bool = False,
    ) -> None:
        self._path = path = str(directory / "host")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self.driver = BlockingDriver()
        self.driver.background = background
        self.engine = Engine(0, 3, Settings(transports=transports), self.driver)
        self.engine.join_world(0, 3, universe)
        self.engine.gateway = Gateway(self.engine, universe)
        self.causes: list[str] = []
        self.host = ImpiHost(self.engine, f"unix:{path}", KEY, self.causes.append)
        self.engine.environment.connect = lambda peer: self.host.link
        self.comm: Communicator = make_communicator(self.engine, Group.of(range(3), 0), 0, "WORLD")
        self.socket: socket.socket | None = None
        self.shared: SharedPackets | None = None

    def greet(self, key: bytes = KEY) -> socket.socket:
        """Accept the connection of the rank and its memory."""
        self.until(lambda: bool(select.select([self._listener], [], [], 0)[0]))
        self.socket, _ = self._listener.accept()
        self.socket.setblocking(False)
        handshake = Acceptor.alone(key, role=ROLE_HOST, rank=RANK_AGENT, channel=Protection.LOCAL)
        while not handshake.done:
            handshake.receive_data(self.receive(handshake.needed))
            self.socket.sendall(handshake.data_to_send())
        assert handshake.peer_rank == 0
        self.until(self.host.connected.done)
        said, descriptors, _, _ = socket.recv_fds(self.socket, 1, 1)
        assert said == (slots.SHARED if descriptors else slots.NOT_SHARED)
        for descriptor in descriptors:
            self.shared = SharedPackets(memory.accept(descriptor, slots.nbytes(DATALEN)), DATALEN, rank=False)
            os.close(descriptor)
        return self.socket

    def until(self, satisfied: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT
        while not satisfied():
            assert time.monotonic() < deadline, "the rank stands still"
            self.driver.poll()

    def receive(self, nbytes: int) -> bytes:
        """Return the next `nbytes` bytes that the rank sends."""
        assert self.socket is not None
        data = b""
        while len(data) < nbytes:
            self.until(lambda: bool(select.select([self.socket], [], [], 0)[0]))
            data += self.socket.recv(nbytes - len(data))
        return data

    def packet(self) -> tuple[Packet, bytes]:
        """Return the next packet that the rank sends, and its data."""
        header = self.receive(HEADER_BYTES)
        slot = self.shared.inbound.referred(header, 0) if self.shared else None
        if slot is None:
            packet = unpack(header)
            return packet, self.receive(packet.pk_len)
        packet = unpack(slot.view)
        data = bytes(slot.view[HEADER_BYTES : HEADER_BYTES + packet.pk_len])
        slot.release()
        return packet, data

    def close(self) -> None:
        self.shared = None
        self.host.close()
        self.driver.close()
        self._listener.close()
        os.unlink(self._path)
        if self.socket is not None:
            self.socket.close()


@pytest.fixture
def rank(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rank]:
    """Rank 0, which may use the transports of the parameter."""
    made = Rank(tmp_path, transports=getattr(request, "param", ()))
    yield made
    made.close()


@pytest.fixture
def eager(tmp_path: Path) -> Iterator[Rank]:
    """Rank 0 with so much credit that a socket does not take all that it may send."""
    made = Rank(tmp_path, dataclasses.replace(UNIVERSE, hiwater=1000))
    yield made
    made.close()


def message(source: int, data: bytes, **fields: int) -> bytes:
    """Return a short message for rank 0."""
    header = Packet(PacketType.DATA, len(data), PROCS[source], PROCS[0], pk_msglen=len(data), pk_lsrank=source)
    return header._replace(**fields).pack() + data


@pytest.mark.spec("I3.5-2", "I3.7.1-1")
def test_what_was_sent_before_the_connection_stands_waits_for_it(rank: Rank) -> None:
    send = isend(rank.comm, b"early", 2, tag=4)
    rank.greet()
    packet, data = rank.packet()
    assert (packet.pk_src, packet.pk_dest, packet.pk_tag, data) == (PROCS[0], PROCS[2], 4, b"early")
    rank.until(send.done)


@pytest.mark.spec("I3.2-2", "I3.5-11", "I3.5-15")
def test_packets_in_the_smallest_pieces(rank: Rank) -> None:
    host = rank.greet()
    requests = [irecv(rank.comm, source) for source in (1, 2, 2)]
    for byte in message(2, b"one") + message(1, b"two") + message(2, b""):
        host.send(bytes([byte]))
        rank.driver.poll()
    rank.until(lambda: all(request.done() for request in requests))
    assert [request.result() for request in requests] == [b"two", b"one", b""]


@pytest.mark.spec("I3.1-2", "I3.1-3")
def test_packets_come_in_while_none_can_go_out(eager: Rank) -> None:
    """The host reads nothing, so the socket is full. The rank still reads."""
    host = eager.greet()
    host.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    data = pattern(60000)
    sends = [isend(eager.comm, data, dest) for dest in (1, 2) * 30]
    for _ in range(3):
        host.send(Packet(PacketType.PROTOACK, 0, PROCS[1], PROCS[0]).pack())
        host.send(message(1, b"in"))
    requests = [irecv(eager.comm, 1) for _ in range(3)]
    eager.until(lambda: all(request.done() for request in requests))
    assert not sends[-1].done()
    assert not eager.host.idle()


@pytest.mark.parametrize(
    ("rank", "sharing"), [((), True), (("shared_memory", "tcp"), True), (("tcp",), False)], indirect=["rank"]
)
def test_long_messages(rank: Rank, sharing: bool) -> None:
    """They pass through memory if it is allowed: a packet that waits for its receive, and one more."""
    host = rank.greet()
    assert (rank.shared is not None) == sharing
    data = pattern(DATALEN + 50_000)
    send, receive = isend(rank.comm, data, 1, tag=4), irecv(rank.comm, 1)
    packet, first = rank.packet()
    assert (packet.pk_type, packet.pk_msglen, first) == (PacketType.DATASYNC, len(data), data[:DATALEN])
    host.send(Packet(PacketType.SYNCACK, 0, PROCS[1], PROCS[0], packet.pk_srqid, 9).pack())
    _, rest = rank.packet()
    while not rest:  # which answers ours
        _, rest = rank.packet()
    assert first + rest == data
    rank.until(send.done)
    for whole in (
        message(1, data[:DATALEN], pk_type=PacketType.DATASYNC, pk_msglen=len(data)),
        message(1, data[DATALEN:], pk_msglen=len(data), pk_drqid=1),
    ):
        slot = rank.shared.outbound.take() if rank.shared else None
        if slot is not None:
            slot.write([whole])
        host.sendall(whole if slot is None else slot.reference)
        rank.driver.poll()
    rank.until(receive.done)
    assert receive.result() == data
    if rank.shared:
        assert len(list(iter(rank.shared.outbound.take, None))) == slots_of_a_direction(), "they are free again"


@pytest.mark.parametrize("tail", [slots.LONG, DATALEN])
def test_the_rest_of_a_long_message_is_in_its_place_before_it_may_leave(rank: Rank, tail: int) -> None:
    """It is not copied then: its slot gets the header, and the memory of the message is not read any more."""
    host = rank.greet()
    data = bytearray(pattern(2 * DATALEN + tail))
    sent = bytes(data)
    send = isend(rank.comm, memoryview(data), 1, tag=4)
    packet, first = rank.packet()
    assert free_slots(rank) == slots_of_a_direction() - 2
    data[:] = bytes(len(data))
    host.send(Packet(PacketType.SYNCACK, 0, PROCS[1], PROCS[0], packet.pk_srqid, 9).pack())
    packets = [rank.packet() for _ in range(2)]
    assert first + b"".join(rest for _, rest in packets) == sent
    assert [(it.pk_type, it.pk_drqid, it.pk_tag, it.pk_seqnum) for it, _ in packets] == [
        (PacketType.DATA, 9, 4, 2),
        (PacketType.DATA, 9, 4, 3),
    ]
    rank.until(send.done)
    assert free_slots(rank) == slots_of_a_direction()


def test_messages_that_wait_for_their_receives_have_half_of_the_slots(eager: Rank) -> None:
    host = eager.greet()
    count = slots_of_a_direction()
    sends = [isend(eager.comm, pattern(4 * DATALEN, number), 1) for number in range(count)]
    firsts = [eager.packet() for _ in range(count)]
    assert free_slots(eager) == count - count // 2
    for packet, _ in reversed(firsts):
        host.send(Packet(PacketType.SYNCACK, 0, PROCS[1], PROCS[0], packet.pk_srqid, packet.pk_srqid).pack())
    received = {packet.pk_srqid: data for packet, data in firsts}
    while len(received[firsts[0][0].pk_srqid]) < 4 * DATALEN:
        packet, data = counted(eager)
        received[packet.pk_drqid] += data
    assert list(received.values()) == [pattern(4 * DATALEN, number) for number in range(count)]
    eager.until(lambda: all(send.done() for send in sends))
    assert free_slots(eager) == count


@pytest.mark.spec("I3.7.4-4")
def test_slots_of_a_message_that_is_taken_back_are_free_again(rank: Rank) -> None:
    host = rank.greet()
    for _ in range(slots_of_a_direction()):
        send = isend(rank.comm, pattern(2 * DATALEN), 1)
        packet, _ = counted(rank)
        assert free_slots(rank) == slots_of_a_direction() - 1
        send.cancel()
        assert counted(rank)[0].pk_type == PacketType.CANCEL
        host.send(Packet(PacketType.CANCELYES, 0, PROCS[1], PROCS[0], packet.pk_srqid).pack())
        host.send(Packet(PacketType.PROTOACK, 0, PROCS[1], PROCS[0]).pack())
        rank.until(send.done)
        assert free_slots(rank) == slots_of_a_direction()


def counted(rank: Rank) -> tuple[Packet, bytes]:
    """Return the next packet that the rank sends, without acknowledgements."""
    while (found := rank.packet())[0].pk_type == PacketType.PROTOACK:
        pass
    return found


def free_slots(rank: Rank) -> int:
    """Return the number of slots that the rank could fill."""
    assert rank.shared is not None
    taken = list(iter(rank.shared.inbound.take, None))
    for slot in taken:
        slot.release()
    return len(taken)


def slots_of_a_direction() -> int:
    fresh = SharedPackets(mmap.mmap(-1, slots.nbytes(DATALEN)), DATALEN, rank=True)
    return len(list(iter(fresh.outbound.take, None)))


def test_packets_that_find_no_slot_pass_through_the_socket(eager: Rank) -> None:
    host = eager.greet()
    count = slots_of_a_direction() + 3
    sends = [isend(eager.comm, bytes([number]) * 20_000, 1) for number in range(count)]
    assert eager.socket is not None
    found = [eager.packet()[1] for _ in range(count)]
    assert found == [bytes([number]) * 20_000 for number in range(count)]
    eager.until(lambda: all(send.done() for send in sends))
    send = isend(eager.comm, pattern(2 * DATALEN), 1)
    packet, first = counted(eager)
    assert free_slots(eager) == slots_of_a_direction() - 1, "the rest of it has been written ahead"
    host.send(Packet(PacketType.SYNCACK, 0, PROCS[1], PROCS[0], packet.pk_srqid, packet.pk_srqid).pack())
    assert first + counted(eager)[1] == pattern(2 * DATALEN)
    eager.until(send.done)


@pytest.mark.parametrize("tail", [100, 65536])
def test_a_long_message_is_sent_when_all_of_it_is(tmp_path: Path, tail: int) -> None:
    """With progress in the background small payloads are copied, but the last packet of a long message is not."""
    rank = Rank(tmp_path, dataclasses.replace(UNIVERSE, hiwater=1000), background=True)
    try:
        host = rank.greet()
        data = bytearray(pattern(100 * DATALEN + tail))
        send = isend(rank.comm, memoryview(data), 1)
        packet, first = rank.packet()
        host.send(Packet(PacketType.SYNCACK, 0, PROCS[1], PROCS[0], packet.pk_srqid, 9).pack())
        rank.until(lambda: not rank.host.link.idle)
        rest = []
        while not send.done():
            rest.append(rank.packet()[1])
        sent = bytes(data)
        data[:] = bytes(len(data))
        while sum(map(len, rest)) < len(sent) - len(first):
            rest.append(rank.packet()[1])
        assert first + b"".join(rest) == sent
    finally:
        rank.close()


def test_no_memory_to_be_had(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(nbytes: int) -> None:
        raise OSError(errno.ENOSYS, "no such system call")

    monkeypatch.setattr(memory, "create", create)
    rank.greet()
    assert rank.shared is None
    isend(rank.comm, bytes(50_000), 1)
    assert rank.packet()[1] == bytes(50_000)


@pytest.mark.spec("I3.8-1", "I3.8-2", "I3.8-4")
def test_fini_is_last(rank: Rank) -> None:
    """It follows the packets that flow control holds back, and needs no credit itself."""
    host = rank.greet()
    for number in range(5):
        isend(rank.comm, bytes([number]), 1)
    drained = []
    rank.host.drained = lambda: drained.append(rank.host.idle())
    assert [rank.packet()[1] for _ in range(3)] == [b"\0", b"\1", b"\2"]
    assert not rank.host.idle()
    host.send(Packet(PacketType.PROTOACK, 0, PROCS[1], PROCS[0]).pack())
    rank.until(lambda: True in drained)
    rank.host.finish()
    assert [rank.packet()[1] for _ in range(2)] == [b"\3", b"\4"]
    packet, _ = rank.packet()
    assert packet == Packet(PacketType.FINI)
    assert rank.engine.peer(1).pair.unacknowledged == 3  # type: ignore[attr-defined]


@pytest.mark.spec("I3.8-3")
def test_after_fini_packets_are_acknowledged_and_messages_dropped(rank: Rank) -> None:
    host = rank.greet()
    rank.host.finish()
    assert rank.packet()[0].pk_type == PacketType.FINI
    host.send(message(1, b"late") + message(1, b"synchronous", pk_type=PacketType.DATASYNC, pk_srqid=5))
    assert rank.packet()[0] == Packet(PacketType.PROTOACK, 0, PROCS[0], PROCS[1])
    host.send(Packet(PacketType.CANCEL, 0, PROCS[1], PROCS[0], 5).pack())
    assert rank.packet()[0] == Packet(PacketType.CANCELNO, 0, PROCS[0], PROCS[1], 5)
    assert rank.comm.iprobe(1, 0) is None
    host.close()
    rank.driver.poll()
    assert rank.causes == []


@pytest.mark.spec("I3.2-3", "I3.5-17", "I3.7.2-12")
@pytest.mark.parametrize(
    ("stream", "cause"),
    [
        (message(1, b"x", pk_src=bytes(24)), "its sender is no process of another client"),
        (message(1, b"x", pk_src=PROCS[0]), "its sender is no process of another client"),
        (message(1, b"x", pk_dest=PROCS[1]), "is not for rank 0"),
        (message(1, b"", pk_type=99), "there is no such type"),
        (b"\xa1\x0a\0\0" + b"\xff" * 124, "it refers to slot 4294967295 of 16"),
        (message(1, b"", pk_len=2**31, pk_msglen=2**31), "bytes of data; 65536 were agreed upon"),
        (message(1, b"x", pk_msglen=9, pk_drqid=3), "continues message 3, which is not arriving here"),
    ],
)
def test_packets_that_make_no_sense_end_the_job(rank: Rank, stream: bytes, cause: str) -> None:
    rank.greet().send(stream)
    rank.until(lambda: bool(rank.causes))
    (found,) = rank.causes
    assert found.startswith("rank 0 has lost its IMPI host: ")
    assert cause in found


@pytest.mark.parametrize("ending", ["between packets", "within one"])
def test_a_host_that_goes_ends_the_job(rank: Rank, ending: str) -> None:
    host = rank.greet()
    if ending == "within one":
        host.send(message(1, b"cut short")[:-1])
    host.close()
    rank.until(lambda: bool(rank.causes))
    assert rank.causes == ["rank 0 has lost its IMPI host: its connection closed"]


def test_sends_that_had_not_left_fail_with_the_connection(eager: Rank) -> None:
    host = eager.greet()
    sends = [isend(eager.comm, pattern(65536), dest) for dest in (1, 2) * 40]
    eager.until(lambda: not eager.host.link.idle)
    host.close()
    eager.until(lambda: bool(eager.causes))
    eager.engine.failure.abort(JobAbortedError("over"))
    assert all(send.done() for send in sends)
    assert isinstance(sends[-1].exception(), JobAbortedError)


@pytest.mark.parametrize("key", [bytes(32)])
def test_a_stranger_in_place_of_the_host(rank: Rank, key: bytes) -> None:
    rank.until(lambda: bool(select.select([rank._listener], [], [], 0)[0]))
    rank.socket, _ = rank._listener.accept()
    handshake = Acceptor.alone(key, role=ROLE_HOST, rank=RANK_AGENT, channel=Protection.LOCAL)
    handshake.receive_data(rank.receive(handshake.needed))
    rank.socket.sendall(handshake.data_to_send())
    rank.until(rank.host.connected.done)
    with pytest.raises(JobAbortedError, match=r"IMPI host at unix:.*host cannot be reached"):
        rank.host.connected.result()


def test_no_host_listens(tmp_path: Path) -> None:
    driver = BlockingDriver()
    engine = Engine(0, 3, Settings(), driver)
    engine.gateway = Gateway(engine, UNIVERSE)
    path = tmp_path / "nobody"
    host = ImpiHost(engine, f"unix:{path}", KEY, lambda cause: None)
    while not host.connected.done():
        driver.poll()
    with pytest.raises(JobAbortedError, match=rf"{path} cannot be reached: .*{os.strerror(2)}"):
        host.connected.result()
    host.close()
    driver.close()
