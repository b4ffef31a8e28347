from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.errors import RemoteProtocolError
from aiompi.impi.collation import Collation
from aiompi.impi.command import Broadcast

LIMIT = 2**20


@pytest.mark.spec("I2.3.5-2", "I2.3.5-4")
def test_parts_are_joined_in_the_order_of_client_ranks() -> None:
    collation = Collation(3, LIMIT)
    for rank in (2, 0, 1):
        assert collation.ready() == []
        collation.submit(rank, 0x1300, b"abc"[rank : rank + 1])
    assert collation.ready() == [Broadcast(0x1300, 7, b"abc")]
    assert collation.ready() == []


@pytest.mark.spec("I2.3.5-6", "I2.3.5-7")
@pytest.mark.parametrize("skip", ["higher label", "done"])
def test_a_client_skips_a_label_by_a_higher_one_or_by_done(skip: str) -> None:
    collation = Collation(3, LIMIT)
    collation.submit(0, 0x1300, bytes.fromhex("00001f40"))
    collation.submit(2, 0x1300, bytes.fromhex("00000fa0"))
    assert collation.ready() == []
    if skip == "done":
        collation.done(1)
    else:
        collation.submit(1, 0x1400, b"later")
    assert collation.ready() == [Broadcast(0x1300, 5, bytes.fromhex("00001f40 00000fa0"))]


@pytest.mark.spec("I2.3.1-1", "I2.3.5-11")
def test_any_label_with_any_data_is_distributed() -> None:
    collation = Collation(1, LIMIT)
    labels = [-(2**31), -1, 1, 0x4711, 2**31 - 1]
    for label in labels:
        collation.submit(0, label, b"")
    assert collation.ready() == [Broadcast(label, 1, b"") for label in labels]


@pytest.mark.spec("I2.3.5-5", "I2.3.5-13")
@pytest.mark.parametrize("label", [0, 0x1200, 0x1300])
def test_labels_ascend_and_are_never_zero(label: int) -> None:
    collation = Collation(1, LIMIT)
    collation.submit(0, 0x1300, b"")
    with pytest.raises(RemoteProtocolError, match="label"):
        collation.submit(0, label, b"")


def test_what_waits_is_bounded_and_given_back() -> None:
    collation = Collation(2, 2000)
    collation.submit(0, 1, bytes(1000))
    with pytest.raises(RemoteProtocolError, match="more than 2000 bytes are waiting"):
        collation.submit(0, 2, bytes(1000))
    patient = Collation(2, 2000)
    for label in range(1, 100):
        for rank in range(2):
            patient.submit(rank, label, bytes(1000))
        assert len(patient.ready()) == 1


def test_many_empty_labels_are_bounded_too() -> None:
    collation = Collation(2, LIMIT)
    for label in range(1, LIMIT // 256 + 1):
        collation.submit(0, label, b"")
    with pytest.raises(RemoteProtocolError, match="waiting"):
        collation.submit(0, LIMIT, b"")


CLIENTS = st.lists(st.dictionaries(st.integers(1, 9), st.binary(max_size=3)), min_size=1, max_size=4)


@pytest.mark.spec("I2.3.5-4", "I2.3.5-6", "I2.3.5-7", "I2.3.5-9")
@given(CLIENTS, st.randoms(use_true_random=False))
def test_in_any_order_of_arrival_every_label_is_joined_once_and_as_early_as_possible(
    clients: list[dict[int, bytes]], random: object
) -> None:
    collation = Collation(len(clients), LIMIT)
    todo: list[list[tuple[int, bytes] | None]] = [[*sorted(client.items()), None] for client in clients]
    reached = [0] * len(clients)
    seen: list[Broadcast] = []
    while any(todo):
        rank = random.choice([rank for rank, items in enumerate(todo) if items])  # type: ignore[attr-defined]
        item = todo[rank].pop(0)
        if item is None:
            collation.done(rank)
        else:
            collation.submit(rank, *item)
        reached[rank] = item[0] if item else 10
        seen += collation.ready()
        due = {label for client in clients for label in client if label <= min(reached)}
        assert [broadcast.label for broadcast in seen] == sorted(due)
        assert collation.complete == (min(reached) == 10)
    for label, mask, data in seen:
        having = [rank for rank, client in enumerate(clients) if label in client]
        assert mask == sum(1 << rank for rank in having)
        assert data == b"".join(clients[rank][label] for rank in having)
