from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.errors import InvalidArgumentError, RemoteProtocolError
from aiompi.impi import label
from aiompi.impi.command import Broadcast, decode_broadcast, encode_coll
from aiompi.impi.label import (
    LABELS,
    NATIVE_VERSION,
    ClientPart,
    HostPart,
    Per,
    ProcPart,
    encode_private,
    join,
    split_private,
)
from aiompi.impi.universe import Universe
from support.cases import cases

HOST = bytes.fromhex("00000000 00000000 0000ffff 7f000001")


def part(pids: tuple[tuple[int, ...], ...] = ((1,),), port: int = 5000, **values: Any) -> ClientPart:
    """A client with one host per tuple of pids."""
    hosts = tuple(HostPart(HOST, port + i, procs=tuple(ProcPart(HOST, pid) for pid in on)) for i, on in enumerate(pids))
    return ClientPart(hosts=hosts, **values)


def joined(*parts: ClientPart) -> dict[int, Broadcast]:
    """What a server makes of the labels of some clients."""
    everything = [dict(one.encode()) for one in parts]
    mask = (1 << len(parts)) - 1
    return {v: Broadcast(v, mask, b"".join(one[v] for one in everything)) for v in (row.value for row in LABELS)}


def universe(*parts: ClientPart) -> Universe:
    return join(len(parts), joined(*parts))


def without(arrays: dict[int, Broadcast], row: label.Label, rank: int, parts: tuple[ClientPart, ...]) -> None:
    """Take the part of one client out of the joint array of a label."""
    data = b"".join(dict(one.encode())[row.value] for at, one in enumerate(parts) if at != rank)
    arrays[row.value] = Broadcast(row.value, arrays[row.value].mask & ~(1 << rank), data)


def test_the_table_has_the_names_values_and_sizes_of_the_standard() -> None:
    assert [(row.name, row.value, row.per, row.size) for row in LABELS] == [
        ("C_VERSION", 0x1000, Per.CLIENT, 8),
        ("C_NHOSTS", 0x1100, Per.CLIENT, 4),
        ("C_NPROCS", 0x1200, Per.CLIENT, 4),
        ("C_DATALEN", 0x1300, Per.CLIENT, 4),
        ("C_TAGUB", 0x1400, Per.CLIENT, 4),
        ("C_COLL_XSIZE", 0x1500, Per.CLIENT, 4),
        ("C_COLL_MAXLINEAR", 0x1600, Per.CLIENT, 4),
        ("H_IPV6", 0x2000, Per.HOST, 16),
        ("H_PORT", 0x2100, Per.HOST, 4),
        ("H_NPROCS", 0x2200, Per.HOST, 4),
        ("H_ACKMARK", 0x2300, Per.HOST, 4),
        ("H_HIWATER", 0x2400, Per.HOST, 4),
        ("P_IPV6", 0x3000, Per.PROC, 16),
        ("P_PID", 0x3100, Per.PROC, 8),
    ]


@pytest.mark.spec("I1.2.1-1", "I1.2.1-2", "I2.3.5-1", "I2.3.5-17")
def test_a_client_encodes_the_known_bytes(conversation: Any) -> None:
    for one, submitted in zip(conversation.parts, conversation.submitted, strict=True):
        assert [encode_coll(*item) for item in one.encode()] == submitted


@pytest.mark.spec("I2.3.5-14", "I2.3.5-13", "I2.3.5-22")
def test_all_labels_are_encoded_in_ascending_order() -> None:
    values = [value for value, _ in part().encode()]
    assert values == sorted(row.value for row in LABELS)
    assert label.NO_LABEL not in values


@pytest.mark.spec("I2.3.5-17")
def test_the_version_is_eight_zero_bytes_unless_clients_look_for_their_own_kind() -> None:
    assert dict(part().encode())[0x1000] == bytes(8)
    native = dict(part(native=True).encode())[0x1000]
    assert native == bytes(8) + b"aiompi\0\1"


@pytest.mark.spec("I2.3.5-2", "I2.3.5-19", "I2.3.5-24", "I2.3.5-25")
def test_the_worked_example_is_read_as_the_specification_says(example: Any) -> None:
    arrays = [decode_broadcast(one[8:]) for one in example.broadcasts]
    found = join(2, {array.label: array for array in arrays})
    assert (found.version, found.size, found.datalen, found.tagub) == ((0, 0), 3, 4000, 32767)
    assert (found.xsize, found.maxlinear, found.ackmark, found.hiwater) == (1024, 4, 8, 16)
    assert [(host.address, host.port, host.client, host.procs) for host in found.hosts] == [
        ("192.0.2.10", 5001, 0, range(2)),
        ("192.0.2.20", 6001, 1, range(2, 3)),
    ]
    assert [(proc.pid, proc.host) for proc in found.procs] == [(4001, 0), (4002, 0), (7001, 1)]
    assert [(client.hosts, client.procs) for client in found.clients] == [
        (range(1), range(2)),
        (range(1, 2), range(2, 3)),
    ]


@pytest.mark.spec("I2.3.1-2", "I2.3.5-23", "I2.3.5-24", "I2.3.5-25")
def test_hosts_and_procs_are_numbered_through_all_clients() -> None:
    found = universe(part(((10, 11), (12,), (13,)), port=100), part(((20,), (21, 22)), port=200), part(((30,),), 300))
    assert [host.port for host in found.hosts] == [100, 101, 102, 200, 201, 300]
    assert [host.client for host in found.hosts] == [0, 0, 0, 1, 1, 2]
    assert [proc.pid for proc in found.procs] == [10, 11, 12, 13, 20, 21, 22, 30]
    assert [proc.host for proc in found.procs] == [0, 0, 1, 2, 3, 4, 4, 5]
    assert [client.procs.start for client in found.clients] == [0, 4, 7]
    assert [client.hosts for client in found.clients] == [range(3), range(3, 5), range(5, 6)]
    for rank, host in enumerate(found.hosts):
        assert [found.procs[proc].host for proc in host.procs] == [rank] * len(host.procs)


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=8))
def test_every_proc_has_one_host_and_every_host_one_client(shape: list[list[int]]) -> None:
    pids = iter(range(1000))
    found = universe(*(part(tuple(tuple(next(pids) for _ in range(n)) for n in hosts)) for hosts in shape))
    assert [[len(found.hosts[host].procs) for host in client.hosts] for client in found.clients] == shape
    assert [proc.pid for proc in found.procs] == list(range(found.size))
    assert [rank for host in found.hosts for rank in host.procs] == list(range(found.size))
    assert [rank for client in found.clients for rank in client.procs] == list(range(found.size))


@pytest.mark.spec("I1.2.3-4")
def test_identifiers_stay_as_their_owner_wrote_them() -> None:
    mapped = bytes(10) + b"\xff\xff\x7f\0\0\1"
    compatible = bytes(12) + b"\x7f\0\0\1"
    found = universe(
        ClientPart(hosts=(HostPart(mapped, 1, procs=(ProcPart(mapped, 1),)),)),
        ClientPart(hosts=(HostPart(compatible, 1, procs=(ProcPart(compatible, 1),)),)),
    )
    assert [proc.ipv6 for proc in found.procs] == [mapped, compatible]
    assert [host.ipv6 for host in found.hosts] == [mapped, compatible]


@pytest.mark.spec("I2.3.5-18", "I2.3.5-19")
@cases(
    ("minors", "chosen"),
    [
        ([[(0, 0), (0, 1)], [(0, 0), (0, 1), (0, 2)], [(0, 0), (0, 1), (0, 2)]], (0, 1)),
        ([[(0, 0)], [(0, 0), (0, 2)], [(0, 0), (0, 2)]], (0, 0)),
        ([[(0, 0), (0, 9), (1, 0)], [(0, 0), (0, 9), (1, 0)], [(0, 0), (0, 9), (1, 0), (1, 1)]], (1, 0)),
        ([[(0, 0), (0, 1), (0, 3)], [(0, 0), (0, 2), (0, 3)], [(0, 0), (0, 3), (4, 0)]], (0, 3)),
    ],
)
def test_the_highest_version_that_all_list_is_chosen(
    minors: list[list[tuple[int, int]]], chosen: tuple[int, int]
) -> None:
    parts = [part(((pid,),), versions=tuple(versions)) for pid, versions in enumerate(minors)]
    found = universe(*parts)
    assert found.version == chosen
    assert [list(client.versions) for client in found.clients] == minors


@pytest.mark.spec("I2.3.5-18")
def test_the_joint_version_array_of_the_specification_has_72_bytes() -> None:
    lists = [((0, 0), (0, 1)), ((0, 0), (0, 1), (0, 2)), ((0, 0), (0, 1), (0, 2))]
    array = joined(*(part(((pid,),), versions=versions) for pid, versions in enumerate(lists)))[0x1000]
    assert 8 + len(array.data) == 72
    assert array.mask == 7


@cases(
    "data",
    [
        "",
        "00000000",
        "0000000000000001",
        "0000000000000000 0000000000000000 0000000000000000",
        "0000000000000000 0000000000000002 0000000000000001 0000000000000000",
        "0000000000000000 0000000000000001 0000000000000001 0000000000000000",
    ],
)
def test_version_lists_begin_with_0_0_and_ascend(data: str) -> None:
    arrays = joined(part(((1,),)), part(((2,),)))
    arrays[0x1000] = Broadcast(0x1000, 3, bytes.fromhex(data))
    with pytest.raises(RemoteProtocolError, match="C_VERSION"):
        join(2, arrays)


@pytest.mark.spec("I2.3.5-20")
def test_clients_of_aiompi_recognise_each_other_only_when_all_are() -> None:
    one, two, foreign = part(((1,),), native=True), part(((2,),), native=True), part(((3,),), versions=((0, 0), (0, 1)))
    assert universe(one, two).native
    assert universe(one, two).version == NATIVE_VERSION
    mixed = universe(one, foreign, two)
    assert not mixed.native
    assert mixed.version == (0, 0)


def test_limits_are_the_minimum_of_the_clients() -> None:
    found = universe(part(((1,),), datalen=7, tagub=2**31 - 1), part(((2,),), datalen=65536, tagub=40000))
    assert (found.datalen, found.tagub) == (7, 40000)


@pytest.mark.spec("I3.6-6")
def test_flow_control_is_the_minimum_of_all_hosts() -> None:
    def hosts(pid: int, *marks: tuple[int, int]) -> ClientPart:
        return ClientPart(
            hosts=tuple(
                HostPart(HOST, 1, procs=(ProcPart(HOST, pid + at),), ackmark=ackmark, hiwater=hiwater)
                for at, (ackmark, hiwater) in enumerate(marks)
            )
        )

    found = universe(hosts(0, (10, 20), (9, 30)), hosts(10, (12, 15)))
    assert (found.ackmark, found.hiwater) == (9, 15)


@pytest.mark.spec("I2.3.5-29", "I2.3.5-30")
@cases(("ours", "theirs", "agreed"), [(-1, -1, 1024), (-1, 1024, 1024), (2048, 2048, 2048), (0, 0, 0)])
def test_crossover_values_that_agree(ours: int, theirs: int, agreed: int) -> None:
    assert dict(part(xsize=ours).encode())[0x1500] == struct.pack(">i", ours)
    assert universe(part(((1,),), xsize=ours), part(((2,),), xsize=theirs)).xsize == agreed


@pytest.mark.spec("I2.3.5-29", "I2.3.5-30")
@pytest.mark.parametrize(("ours", "theirs", "agreed"), [(-1, -1, 4), (4, -1, 4), (2, 2, 2)])
def test_linear_bounds_that_agree(ours: int, theirs: int, agreed: int) -> None:
    assert dict(part(maxlinear=ours).encode())[0x1600] == struct.pack(">i", ours)
    assert universe(part(((1,),), maxlinear=ours), part(((2,),), maxlinear=theirs)).maxlinear == agreed


@pytest.mark.spec("I2.3.5-30")
@pytest.mark.parametrize(("name", "value"), [("xsize", 2048), ("xsize", 0), ("maxlinear", 5)])
def test_values_that_do_not_agree_with_the_default_are_an_error(name: str, value: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{name.upper()}: the clients must agree"):
        universe(part(((1,),)), part(((2,),), **{name: value}))


@pytest.mark.spec("I2.3.5-36")
def test_worked_lengths() -> None:
    assert [len(data) + 4 for value, data in part().encode() if value == 0x1100] == [8]
    one = joined(part(((1,),)), part(((2,),)), part(((3,),)))
    assert 8 + len(one[0x1100].data) == 20
    shapes = [((1,), (2,), (3,)), ((4,), (5,)), ((6,), (7,))]
    assert [len(dict(part(shape).encode())[0x2100]) + 4 for shape in shapes] == [16, 12, 12]
    assert 8 + len(joined(*map(part, shapes))[0x2100].data) == 36


@pytest.mark.spec("I2.3.5-14")
@pytest.mark.parametrize("row", [row for row in LABELS if row.missing is None], ids=lambda row: row.name)
def test_a_mandatory_label_that_is_missing_names_the_client(row: label.Label) -> None:
    parts = (part(((1,),)), part(((2,),)))
    arrays = joined(*parts)
    without(arrays, row, 1, parts)
    with pytest.raises(RemoteProtocolError, match=f"{row.name}: client 1 has omitted"):
        join(2, arrays)
    del arrays[row.value]
    with pytest.raises(RemoteProtocolError, match=f"{row.name}: client 0 has omitted"):
        join(2, arrays)


@pytest.mark.spec("I2.3.5-14")
def test_unfinished_peers_may_leave_out_three_labels() -> None:
    parts = (part(((1,), (2,))), part(((3,),)))
    arrays = joined(*parts)
    for row in (label.C_TAGUB, label.H_ACKMARK, label.H_HIWATER):
        without(arrays, row, 0, parts)
    found = join(2, arrays)
    assert (found.tagub, found.ackmark, found.hiwater) == (32767, 10, 20)


@pytest.mark.spec("I2.3.5-10")
def test_labels_that_are_not_known_are_ignored() -> None:
    arrays = joined(part())
    assert join(1, arrays | {0x4711: Broadcast(0x4711, 1, b"?")}) == join(1, arrays)


@pytest.mark.spec("I2.3.5-16")
@pytest.mark.parametrize("row", LABELS, ids=lambda row: row.name)
@pytest.mark.parametrize("change", [lambda data: data + b"\0", lambda data: data[:-1], lambda data: data * 2])
def test_data_of_a_wrong_length_is_refused(row: label.Label, change: Any) -> None:
    arrays = joined(part(((1,),)), part(((2,), (3,))))
    arrays[row.value] = Broadcast(row.value, 3, change(arrays[row.value].data))
    with pytest.raises(RemoteProtocolError, match=row.name):
        join(2, arrays)


def test_a_mask_beyond_the_size_of_the_job_is_refused() -> None:
    arrays = joined(part())
    arrays[0x1300] = Broadcast(0x1300, 3, bytes.fromhex("00000001 00000001"))
    with pytest.raises(RemoteProtocolError, match="more than 1 clients"):
        join(1, arrays)


ILLEGAL = [
    (label.C_NHOSTS, 0),
    (label.C_NPROCS, 0),
    (label.C_DATALEN, 0),
    (label.C_TAGUB, 32766),
    (label.C_TAGUB, -1),
    (label.C_COLL_XSIZE, -2),
    (label.C_COLL_MAXLINEAR, -2),
    (label.H_PORT, 0),
    (label.H_PORT, 65536),
    (label.H_NPROCS, 0),
    (label.H_ACKMARK, 0),
    (label.H_HIWATER, 0),
]


@pytest.mark.spec("I2.3.5-31", "I3.9-2")
@pytest.mark.parametrize(("row", "value"), ILLEGAL, ids=lambda item: getattr(item, "name", item))
def test_illegal_values_of_others_are_refused(row: label.Label, value: int) -> None:
    arrays = joined(part(((1,),)), part(((2,),)))
    good = arrays[row.value].data
    arrays[row.value] = Broadcast(row.value, 3, good[: row.size] + struct.pack(row.format, value))
    with pytest.raises(RemoteProtocolError, match=f"{row.name}: client 1 sent {value}"):
        join(2, arrays)


@pytest.mark.spec("I2.3.5-31", "I3.9-2")
def test_ackmark_above_hiwater_is_refused() -> None:
    arrays = joined(part(((1,),)), part(((2,),)))
    arrays[0x2300] = Broadcast(0x2300, 3, struct.pack(">II", 10, 21))
    with pytest.raises(RemoteProtocolError, match="client 1 has a host with ackmark 21 above hiwater 20"):
        join(2, arrays)


@pytest.mark.spec("I2.3.5-16")
@cases("counts", [(1, 1), (3, 1), (2, 2), (2, 2**32 - 1)])
def test_procs_on_hosts_must_add_up(counts: tuple[int, int]) -> None:
    arrays = joined(part(((1, 2),)), part(((3,),)))
    arrays[0x2200] = Broadcast(0x2200, 3, struct.pack(">II", *counts))
    with pytest.raises(RemoteProtocolError, match=r"client \d has \d procs, but"):
        join(2, arrays)


def test_enormous_counts_are_compared_before_memory_is_taken() -> None:
    arrays = joined(part(((1,),)), part(((2,),)))
    arrays[0x1100] = Broadcast(0x1100, 3, struct.pack(">II", 1, 2**32 - 1))
    with pytest.raises(RemoteProtocolError, match="H_IPV6: 32 bytes, expected 68719476736"):
        join(2, arrays)


@pytest.mark.spec("I2.3.5-35")
def test_two_procs_with_one_identity_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="ranks 1 and 2 have the same identity, pid 7"):
        universe(part(((6, 7),)), part(((7,),)))


@pytest.mark.spec("I2.3.5-31", "I3.9-2")
@cases(
    "values",
    [
        {"datalen": 0},
        {"datalen": 2**32},
        {"tagub": 32766},
        {"tagub": 2**31},
        {"xsize": -2},
        {"maxlinear": -2},
        {"versions": ()},
        {"versions": ((0, 1),)},
        {"versions": ((0, 0), (0, 2), (0, 1))},
        {"pids": ()},
        {"pids": ((),)},
        {"pids": ((1, 1),)},
        {"pids": ((2**63,),)},
        {"port": 0},
        {"port": 65536},
    ],
)
def test_a_client_checks_its_own_values(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot describe itself"):
        part(**values)


@pytest.mark.spec("I3.9-2")
@cases("marks", [{"ackmark": 0}, {"ackmark": 21}, {"hiwater": 9}, {"ackmark": 1, "hiwater": 0}])
def test_a_host_checks_its_own_marks(marks: dict[str, Any]) -> None:
    host = dataclasses.replace(part().hosts[0], **marks)
    with pytest.raises(InvalidArgumentError, match=r"ackmark|H_ACKMARK|H_HIWATER"):
        ClientPart(hosts=(host,))


@pytest.mark.spec("I1.2.3-1")
@cases("length", [0, 4, 15, 17])
def test_host_identifiers_have_16_bytes(length: int) -> None:
    with pytest.raises(InvalidArgumentError, match="16 bytes"):
        ClientPart(hosts=(HostPart(bytes(length), 1, procs=(ProcPart(HOST, 1),)),))
    with pytest.raises(InvalidArgumentError, match="16 bytes"):
        ClientPart(hosts=(HostPart(HOST, 1, procs=(ProcPart(bytes(length), 1),)),))


@given(st.dictionaries(st.integers(0, 31), st.binary(max_size=20)))
def test_parts_of_private_labels_come_back(parts: dict[int, bytes]) -> None:
    data = b"".join(encode_private(parts[rank]) for rank in sorted(parts))
    assert split_private(Broadcast(0x61690000, sum(1 << rank for rank in parts), data)) == parts


@cases("data", ["", "00000001", "00000000 00", "00000005 01020304", "00000000 0000", "ffffffff 00"])
def test_private_labels_that_are_cut_wrongly_are_refused(data: str) -> None:
    with pytest.raises(RemoteProtocolError, match="private label 0x61690001"):
        split_private(Broadcast(0x61690001, 1, bytes.fromhex(data)))


@given(
    st.integers(1, 4),
    st.dictionaries(
        st.sampled_from([row.value for row in LABELS]), st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=80))
    ),
)
def test_any_arrays_are_a_universe_or_a_protocol_error(size: int, changes: dict[int, tuple[int, bytes]]) -> None:
    arrays = joined(*(part(((pid,),)) for pid in range(size)))
    arrays |= {value: Broadcast(value, mask, data) for value, (mask, data) in changes.items()}
    try:
        found = join(size, arrays)
    except RemoteProtocolError:
        return
    assert len(found.clients) == size
    assert found.size == sum(len(host.procs) for host in found.hosts)
