"""An IMPI host without sockets: which hosts may connect, which packets pass, and how channels end."""

from __future__ import annotations

import pytest

from aiompi.errors import RemoteProtocolError
from aiompi.impi.host import PATIENCE, PATIENCE_DATA, ChannelState, Host
from aiompi.impi.label import VERSION_0_0
from aiompi.impi.packet import COUNTED, Packet, PacketType, pack_proc, unpack
from aiompi.impi.universe import Universe, host_identifier, place_clients, place_hosts, place_procs
from support.cases import cases

SYNCACK, PROTOACK, DATA = PacketType.SYNCACK, PacketType.PROTOACK, PacketType.DATA


def universe(*, ackmark: int = 2, hiwater: int = 3) -> Universe:
    """Client 0: host 0 with rank 0, host 1 with the ranks 1, 2. Client 1: host 2, rank 3. Client 2: host 3, rank 4."""
    rows = [(host_identifier(f"192.0.2.{rank}"), 5000 + rank, nprocs) for rank, nprocs in enumerate((1, 2, 1, 1))]
    hosts = place_hosts([2, 1, 1], rows)
    return Universe(
        clients=place_clients(hosts, [(VERSION_0_0,)] * 3),
        hosts=hosts,
        procs=place_procs(hosts, [(host_identifier("192.0.2.9"), 70 + rank) for rank in range(5)]),
        version=VERSION_0_0,
        native=False,
        datalen=16,
        tagub=32767,
        xsize=1024,
        maxlinear=4,
        ackmark=ackmark,
        hiwater=hiwater,
    )


def proc(rank: int) -> bytes:
    return pack_proc(host_identifier("192.0.2.9"), 70 + rank)


def packet(kind: PacketType, source: int, dest: int, nbytes: int = 0) -> Packet:
    return Packet(kind, nbytes, proc(source), proc(dest), pk_msglen=nbytes)


@pytest.fixture
def host() -> Host:
    """Host 1, connected with the hosts 2 and 3 of other clients."""
    host = Host(universe(), 1)
    host.connected(2)
    host.connected(3)
    return host


# The dance.


@pytest.mark.spec("I2.3.8-1", "I2.3.8-2")
@cases(("rank", "dials", "awaited"), [(0, [], [2, 3]), (1, [], [2, 3]), (2, [0, 1], [3]), (3, [0, 1, 2], [])])
def test_the_higher_host_connects_to_hosts_of_other_clients(rank: int, dials: list[int], awaited: list[int]) -> None:
    host = Host(universe(), rank)
    assert (host.dials, host.awaited) == (dials, awaited)


@pytest.mark.spec("I2.3.8-4")
def test_hosts_come_in_any_order() -> None:
    host = Host(universe(), 0)
    assert host.admit(3, "192.0.2.3") == ""
    host.connected(3)
    assert host.awaited == [2]
    assert host.admit(2, "192.0.2.2") == ""


@pytest.mark.spec("I2.3.8-6")
@cases("rank", [0, 1, 2, 4, 2**32 - 1])
def test_a_host_rank_that_may_not_connect(rank: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"host rank {rank} is not one of those"):
        Host(universe(), 2).admit(rank, "192.0.2.3")


@pytest.mark.spec("I2.3.8-6")
def test_a_host_rank_that_is_taken(host: Host) -> None:
    with pytest.raises(RemoteProtocolError, match="host 3 has connected already"):
        host.admit(3, "192.0.2.3")


@pytest.mark.spec("I2.3.8-7")
@cases(
    ("address", "answer"),
    [("192.0.2.3", ""), ("::ffff:192.0.2.3", ""), ("192.0.2.2", "192.0.2.3"), ("fe80::1%eth0", "192.0.2.3")],
)
def test_the_address_is_compared_with_the_published_one(address: str, answer: str) -> None:
    assert Host(universe(), 0).admit(3, address) == answer


# Packets.


@pytest.mark.spec("I3.2-2")
def test_packets_find_their_way(host: Host) -> None:
    assert [host.outgoing(packet(DATA, 1, dest), 1) for dest in (3, 4)] == [2, 3]
    assert [host.incoming(packet(DATA, 4, dest), 3) for dest in (1, 2)] == [1, 2]


@pytest.mark.spec("I3.2-3")
@pytest.mark.parametrize(("source", "dest"), [(4, 1), (0, 1), (9, 1)])
def test_a_source_that_the_far_host_does_not_serve(host: Host, source: int, dest: int) -> None:
    with pytest.raises(RemoteProtocolError, match="does not come from one of its processes"):
        host.incoming(packet(DATA, source, dest), 2)


@pytest.mark.spec("I3.2-3")
@pytest.mark.parametrize("dest", [0, 3, 4, 9])
def test_a_destination_that_this_host_does_not_serve(host: Host, dest: int) -> None:
    with pytest.raises(RemoteProtocolError, match="is not for a process of host 1"):
        host.incoming(packet(DATA, 3, dest), 2)


@pytest.mark.parametrize(
    ("source", "dest", "message"),
    [
        (2, 3, "has another source"),
        (3, 4, "has another source"),
        (1, 9, "no destination"),
        (1, 0, "no channel"),
        (1, 2, "no channel"),
    ],
)
def test_a_rank_speaks_for_itself_and_to_others(host: Host, source: int, dest: int, message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        host.outgoing(packet(DATA, source, dest), 1)


def test_there_is_no_channel_before_the_dance() -> None:
    with pytest.raises(RemoteProtocolError, match="no channel"):
        Host(universe(), 1).outgoing(packet(DATA, 1, 3), 1)


# Bounds.


@pytest.mark.parametrize("kind", sorted(COUNTED))
def test_a_peer_that_knows_no_flow_control(host: Host, kind: PacketType) -> None:
    for _ in range(PATIENCE * 3):
        host.incoming(packet(kind, 3, 1), 2)
    host.incoming(packet(kind, 3, 2), 2)  # pairs are apart
    with pytest.raises(RemoteProtocolError, match="is one too many: hiwater is 3"):
        host.incoming(packet(kind, 3, 1), 2)


def test_a_peer_whose_packets_would_take_too_much_memory(host: Host) -> None:
    """Acknowledged are the first ones."""
    host.incoming(packet(DATA, 3, 1), 2)
    for nbytes in (10, *[16] * (PATIENCE_DATA * 3 - 1)):
        host.incoming(packet(DATA, 3, 1, nbytes), 2)
    with pytest.raises(RemoteProtocolError, match="is one too many: hiwater is 3"):
        host.incoming(packet(DATA, 3, 1, 7), 2)
    host.incoming(packet(DATA, 3, 2, 16), 2)  # pairs are apart


def test_memory_of_acknowledged_packets_does_not_count(host: Host) -> None:
    for nbytes in (16, 10, *[16] * (PATIENCE_DATA * 3 - 2)):
        host.incoming(packet(DATA, 3, 1, nbytes), 2)
    host.outgoing(packet(PROTOACK, 1, 3), 1)
    host.incoming(packet(DATA, 3, 1, 16), 2)
    host.incoming(packet(DATA, 3, 1, 16), 2)
    with pytest.raises(RemoteProtocolError, match="is one too many"):
        host.incoming(packet(DATA, 3, 1, 1), 2)


def test_a_peer_that_acknowledges_what_was_never_sent(host: Host) -> None:
    for _ in range(4):
        host.outgoing(packet(DATA, 1, 3), 1)
    for _ in range((PATIENCE * 3 + 4) // 2):
        host.incoming(packet(PROTOACK, 3, 1), 2)
    with pytest.raises(RemoteProtocolError, match="is one too many"):
        host.incoming(packet(PROTOACK, 3, 1), 2)


def test_acknowledged_packets_are_forgotten(host: Host) -> None:
    for _ in range(100):
        host.incoming(packet(DATA, 3, 1), 2)
        host.incoming(packet(SYNCACK, 3, 1), 2)
        host.outgoing(packet(PROTOACK, 1, 3), 1)


# Procs that have ended.


@pytest.mark.spec("I2.4-5", "I3.8-3")
def test_a_host_acknowledges_for_procs_that_have_ended(host: Host) -> None:
    """The third packet of rank 3 is the first that rank 1 had not acknowledged when it ended."""
    host.incoming(packet(DATA, 3, 1), 2)
    host.incoming(packet(DATA, 3, 1), 2)
    host.outgoing(packet(PROTOACK, 1, 3), 1)
    host.incoming(packet(DATA, 3, 1), 2)
    host.incoming(packet(DATA, 4, 1), 3)
    host.incoming(packet(DATA, 3, 2), 2)
    host.incoming(packet(DATA, 3, 2), 2)
    assert host.overdue(1) == []
    host.incoming(packet(DATA, 3, 1), 2)
    ((peer, ack),) = host.overdue(1)
    assert peer == 2
    assert unpack(ack) == packet(PROTOACK, 1, 3)
    assert host.overdue(1) == []


# The end.


@pytest.mark.spec("I2.4-4", "I3.8-5")
@pytest.mark.parametrize("first", [True, False])
def test_a_channel_is_closed_after_both_have_said_fini(host: Host, first: bool) -> None:
    if first:
        assert host.say_fini() == [2, 3]
        assert host.channels[2] is ChannelState.SAID
    host.hear_fini(2)
    if not first:
        assert host.channels[2] is ChannelState.HEARD
        assert host.say_fini() == [2, 3]
    assert host.channels == {2: ChannelState.CLOSED, 3: ChannelState.SAID}
    assert not host.closed
    host.hear_fini(3)
    assert host.closed
    assert host.say_fini() == [], "FINI is said once"


@pytest.mark.spec("I3.8-1")
@pytest.mark.parametrize("kind", [kind for kind in PacketType if kind is not PacketType.FINI])
@pytest.mark.parametrize("said", [True, False])
def test_only_acknowledgements_come_after_fini(host: Host, kind: PacketType, said: bool) -> None:
    if said:
        host.say_fini()
    host.hear_fini(2)
    if kind in (PacketType.DATA, PacketType.DATASYNC, PacketType.CANCEL):
        with pytest.raises(RemoteProtocolError, match="came after FINI"):
            host.incoming(packet(kind, 3, 1), 2)
    else:
        host.incoming(packet(kind, 3, 1), 2)


@pytest.mark.parametrize("said", [True, False])
def test_fini_twice(host: Host, said: bool) -> None:
    if said:
        host.say_fini()
    host.hear_fini(2)
    with pytest.raises(RemoteProtocolError, match="FINI came twice"):
        host.hear_fini(2)


@pytest.mark.spec("I2.4-8")
def test_an_end_without_fini_is_none(host: Host) -> None:
    assert not host.ended(2)
    host.hear_fini(3)
    assert host.ended(3)
    assert host.name(3) == "host 3 of client 2 at 192.0.2.3"
