"""Both ends of a single copy meet anywhere in the message, and nothing is written when it is over."""

from __future__ import annotations

import errno
import itertools
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from aiompi.datatype.buffer import process
from aiompi.transport.shared_memory import cma
from aiompi.transport.shared_memory.cma import NUMBERS, Assistance, Exposed, PeerProcess
from aiompi.transport.shared_memory.ring import CONTROL_BYTES, RETRACTED, WRITING, WRITTEN, Ring

Refuse = Callable[[str, int], None]


class Transfer:
    """A message of this process, and both ends of its copy.

    Args:
        nbytes: length of the message.
        cuts: ends of all its pieces but the last.
    """

    def __init__(self, nbytes: int, *cuts: int) -> None:
        self._cuts = cuts
        self.ring = Ring(memoryview(bytearray(0)), memoryview(bytearray(CONTROL_BYTES)).cast("Q"), bool)
        one, other = socket.socketpair()
        with one, other:
            self.process = PeerProcess(one)
        assert self.process.same()
        self.start(nbytes)

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()

    def start(self, nbytes: int) -> None:
        self.data = memoryview(bytearray(random.randbytes(nbytes)))
        self.place = memoryview(bytearray(nbytes))
        ends = [0, *self._cuts, nbytes]
        self.pieces = [memoryview(bytearray(self.data[a:b])) for a, b in itertools.pairwise(ends)]
        self.exposed = Exposed(self.process, self.places(), self.ring, self.ring.words[RETRACTED])
        invitation = self.exposed.invite(self.place)
        assert invitation is not None
        self.number, self.address = invitation

    def places(self) -> list[tuple[int, int]]:
        return [(process.address_of(piece), len(piece)) for piece in self.pieces]

    def accept(self, late: int = 0) -> Assistance:
        """Accept the invitation, or the one that came `late` invitations before it."""
        return Assistance(self.process, self.pieces, len(self.data), self.address, self.number - late, self.ring)

    def read(self) -> None:
        at, length = 0, len(self.data)
        while at < length:
            at = self.exposed.copy(self.place, at, length, length)
        self.exposed.close()
        assert self.exposed.stands()
        assert self.place == self.data


@pytest.fixture
def transfer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Transfer]:
    """A message of 95 bytes that is copied in pieces of 10 bytes."""
    monkeypatch.setattr(cma, "_PIECE", 10)
    with Transfer(95) as transfer:
        yield transfer


@pytest.mark.parametrize("steps", range(12))
def test_both_ends_meet_anywhere(transfer: Transfer, copied: dict[str, int], steps: int) -> None:
    assistance = transfer.accept()
    assert assistance.write(10 * steps) == (steps < 10)
    transfer.read()
    assert not assistance.write(1000)
    assert copied["read"] + copied["write"] == 95


@pytest.mark.parametrize("steps", range(12))
@pytest.mark.parametrize("cuts", [(1,), (10,), (94,), (33, 34, 35), (5, 50, 51, 90), range(1, 95)], ids=str)
def test_both_ends_meet_anywhere_in_a_message_of_pieces(
    monkeypatch: pytest.MonkeyPatch, copied: dict[str, int], cuts: Sequence[int], steps: int
) -> None:
    monkeypatch.setattr(cma, "_PIECE", 10)
    with Transfer(95, *cuts) as transfer:
        assistance = transfer.accept()
        assert assistance.write(10 * steps) == (steps < 10)
        transfer.read()
    assert copied["read"] + copied["write"] == 95


def test_a_piece_that_cannot_be_copied(copied: dict[str, int]) -> None:
    with Transfer(95, 40, 60) as transfer:
        places = transfer.places()
        places[1] = (0, 20)
        exposed = Exposed(transfer.process, places, transfer.ring, 0)
        transfer.exposed.close()
        assert exposed.copy(transfer.place, 0, 95, 95) == 95
        assert not exposed.stands()
    assert copied["read"] == 40


def test_a_reader_waits_for_what_the_other_end_is_writing(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    assistance = transfer.accept()
    assistance.write(50)
    places: list[int] = []
    write = process.write

    def late(*args: Any) -> None:
        places.append(transfer.exposed.copy(transfer.place, 0, 1000, 95))
        write(*args)

    monkeypatch.setattr(process, "write", late)
    assert assistance.write(10)
    assert places == [35], "up to where no rank writes"
    assert transfer.exposed.copy(transfer.place, 35, 1000, 95) == 95
    assert transfer.place == transfer.data


def test_a_piece_that_could_not_be_written_is_read(transfer: Transfer, refuse: Refuse) -> None:
    assistance = transfer.accept()
    assistance.write(50)
    refuse("write", errno.EFAULT)
    assert not assistance.write(10)
    transfer.read()


def test_a_handler_that_raises_in_the_midst_of_a_piece(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    assistance, write = transfer.accept(), process.write

    def interrupted(*args: Any) -> None:
        write(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(process, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            assistance.write(10)
    assert transfer.ring.words[WRITING] == transfer.ring.words[WRITTEN]
    assert assistance.write(20)
    transfer.read()


def test_an_earlier_invitation_has_no_effect(transfer: Transfer, copied: dict[str, int]) -> None:
    before = transfer.accept()
    before.write(30)
    transfer.read()
    place = bytes(transfer.place)
    first = transfer.place
    transfer.start(95)
    assert not before.write(10)
    assert bytes(first) == place
    assert not transfer.accept(late=1).write(10)
    transfer.read()


def test_there_is_one_invitation_at_a_time(transfer: Transfer) -> None:
    other = Exposed(transfer.process, transfer.places(), transfer.ring, 0)
    assert other.invite(transfer.place) is None
    transfer.exposed.close()
    assert other.invite(transfer.place) is not None


def test_numbers_of_invitations_begin_again(transfer: Transfer) -> None:
    numbers = [transfer.process.next_invitation() for _ in range(NUMBERS)]
    assert sorted(numbers) == [*range(1, NUMBERS + 1)]


class Naps:
    """Replaces sleeps: something happens during the third."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.count = 0
        self._happens = happens

    def wait(self, seconds: float) -> None:
        self.count += 1
        if self.count == 3:
            self._happens()


def test_memory_is_given_back_only_when_no_rank_writes_any_more(
    transfer: Transfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds however long the sender is stopped in the middle of a piece."""
    words = transfer.ring.words
    transfer.accept()
    words[WRITING] -= 10
    assert not transfer.exposed.close(wait=False)
    naps = Naps(lambda: words.__setitem__(WRITTEN, words[WRITING]))
    monkeypatch.setattr(cma, "_never_set", naps)
    assert transfer.exposed.close()
    assert naps.count == 3


def test_a_dead_sender_writes_no_more(transfer: Transfer, monkeypatch: pytest.MonkeyPatch, refuse: Refuse) -> None:
    transfer.accept()
    transfer.ring.words[WRITING] -= 10
    naps = Naps(lambda: refuse("read", errno.ESRCH))
    monkeypatch.setattr(cma, "_never_set", naps)
    assert transfer.exposed.close()
    assert naps.count == 3


@pytest.mark.parametrize("pieces", [3, 40])
def test_two_threads_meet_again_and_again(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    """Both threads copy what they can of each message, and nothing is written when it is over."""
    monkeypatch.setattr(cma, "_PIECE", 16)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    transfer = Transfer(16 * pieces)
    turns: list[Assistance | None] = []
    there, over = threading.Semaphore(0), threading.Semaphore(0)

    def assist() -> None:
        while there.acquire() and (assistance := turns.pop()) is not None:
            while assistance.write(16):
                pass
            over.release()

    thread = threading.Thread(target=assist)
    thread.start()
    try:
        for _ in range(1500):
            turns.append(transfer.accept())
            there.release()
            transfer.read()
            transfer.place[:] = bytes(len(transfer.place))
            over.acquire()
            assert not any(transfer.place), "written when it was over"
            transfer.start(16 * pieces)
    finally:
        turns.append(None)
        there.release()
        thread.join()
        transfer.process.close()
        sys.setswitchinterval(interval)


def test_a_receiver_that_may_not_read_waits_for_the_sender(transfer: Transfer, refuse: Refuse) -> None:
    words = transfer.ring.words
    transfer.accept()
    words[WRITING] -= 10
    refuse("read", errno.EPERM)
    assert transfer.exposed.copy(transfer.place, 0, 95, 95) == 95
    assert not transfer.exposed.close(wait=False)
    words[WRITTEN] = words[WRITING]
    assert transfer.exposed.close(wait=False)
    assert not transfer.exposed.stands()


def test_what_was_read_from_a_process_that_has_ended_meanwhile_does_not_stand() -> None:
    lives = True
    sender: Any = SimpleNamespace(read=lambda address, memory: True, same=lambda: lives)
    ring = Ring(memoryview(bytearray(64)), memoryview(bytearray(CONTROL_BYTES)).cast("Q"), bool)
    message = Exposed(sender, [(0, 100)], ring, 0)
    assert message.copy(memoryview(bytearray(100)), 0, 100, 100) == 100
    assert message.stands()
    lives = False  # and its number may be that of another one, whose memory was read
    assert not message.stands()
