"""What each of a few ranks tells all the others, without a message: every rank has a slots that the others see.

Ranks that tell each other such things in rounds are an assembly, which has a place on the slots of each member. There a
rank posts in each round, and looks whether the others have. The last one sees that all have, and wakes the others; so
n ranks need n - 1 wake-ups, and none of them one after the other.

A place has two cells, for the odd rounds and for the even ones. A rank posts in a round after it has taken what was
posted in the round before, and all have posted there. So nobody still needs the cell that it overwrites, which is that
of the round before the last one. It also tells there, by the number of the round, that it sleeps until all have posted.

What is too long for a cell a rank exposes: it writes it into its pool, and posts where it is. The others look there in
this round and in later ones, until they retire, which each tells by a word of its place: the number of the last round
that it has posted in. So nobody waits for that, and memory which all have read is free, also if there is no round any
more.

A place belongs to a communicator, by its context id, for ever: a member may look late, when the others have long freed
the communicator. So the first `PLACES` communicators of a job have one, of which the `FIRST_COMMUNICATORS` have large
cells: every member reserves addresses for the slots of all.

Memory ordering. A cell is written before its stamp, and read after it; plain stores and loads keep that order (see
`ring`). Nobody sleeps while all have posted: a rank stores its stamp and loads those of the others, with a fence in
between, so that the last one to store sees them all. It then loads whether each of the others sleeps; a rank that is
about to stores that it does, and loads the stamps once more after a fence. Memory that is exposed is written before
the stamp, too, and a rank's loads from that of others come before the store of the word by which it retires.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aiompi.engine import FIRST_COMMUNICATORS, LITTLE_ROOM, ROOM, SlotEntry, SlotExchange, WindowBlock, ordinal
from aiompi.errors import LocalProtocolError, RemoteProtocolError
from aiompi.transport.shared_memory.export import SLOTS, Export, Import

if TYPE_CHECKING:
    from aiompi.engine import Engine, Peer
    from aiompi.transport.shared_memory.link import RingLink
    from aiompi.transport.shared_memory.pool import Pool, PoolBlock

#: assemblies for which a slots has a place
PLACES: Final = 1024
#: bytes of the words of a cell; behind them, in cache lines of its own, is what is posted
_HEAD: Final = 64
#: words that a cell takes, of the first places and of the others
_CELL: Final = (_HEAD + ROOM) // 8
_LITTLE_CELL: Final = (_HEAD + LITTLE_ROOM) // 8
#: the words of a cell, of which the first one is its stamp: a number that all must post alike
_NOTE: Final = 1
#: bytes of what is posted
_LENGTH: Final = 2
_CLAIM: Final = 3
#: in the first cell of a place: the number of the last round in which its owner has read what others have exposed
_READ: Final = 4
#: the number of the round for whose end its owner sleeps
_ASLEEP: Final = 5
SIZE: Final = 8 * 2 * (FIRST_COMMUNICATORS * _CELL + (PLACES - FIRST_COMMUNICATORS) * _LITTLE_CELL)

_NOTHING: Final = memoryview(b"")


class SlotArea(Export):
    """That of this rank.

    Raises:
        OSError: there is no memory.
    """

    def __init__(self) -> None:
        super().__init__(SLOTS, SIZE)
        self._cells = self._memory.cast("Q")
        self._lock = threading.Lock()  # to be taken and released as a fence

    def post(self, first: int, stamp: int, note: int, claim: int, content: bytes | memoryview) -> None:
        """Write a cell, which begins at a word, its stamp last: the number of the round."""
        words = self._cells
        length = len(content)
        if length:
            begin = 8 * first + _HEAD
            self._memory[begin : begin + length] = content
        words[first + _NOTE] = note
        words[first + _LENGTH] = length
        words[first + _CLAIM] = claim
        words[first] = stamp
        with self._lock:
            pass

    def sleep(self, first: int, stamp: int) -> None:
        """Tell in a cell that this rank sleeps until all have posted."""
        self._cells[first + _ASLEEP] = stamp
        with self._lock:
            pass

    def retire(self, first: int, number: int) -> None:
        """Tell in the first cell of a place the last round in which this rank has read what others have exposed."""
        self._cells[first + _READ] = number


class PeerSlots:
    """The slots of another rank, as one sees it.

    Attributes:
        memory: it, in bytes.
        words: the same, in words.

    Raises:
        RemoteProtocolError: it is none.
    """

    def __init__(self, imported: Import) -> None:
        self.memory = imported.read(0, SIZE)
        self.words = self.memory.cast("Q")


class SlotPeer:
    """Another member of an assembly.

    Args:
        peer: it.
        link: to it.
        peer_slots: its slots.
        cells: the words at which those of the assembly begin.
        pools: by rank, those that this rank reads by now.

    Attributes:
        memory, words: of its slots.
        room: bytes behind the words of a cell.
    """

    __slots__ = ("_first", "_peer", "_pools", "link", "memory", "rank", "room", "words")

    def __init__(
        self, peer: Peer, link: RingLink, peer_slots: PeerSlots, cells: tuple[int, int], pools: Mapping[int, Import]
    ) -> None:
        self.rank = peer.rank
        self.link = link
        self._peer = peer
        self._pools = pools
        self._first, second = cells
        self.room = 8 * (second - self._first) - _HEAD
        self.memory = peer_slots.memory
        self.words = peer_slots.words

    def leave(self) -> None:
        """Post nothing any more, and have no memory."""
        self.memory, self.words = _NOTHING, _NOTHING

    def returned(self, number: int) -> bool:
        """Whether it has read what was exposed in the round of this number, or will not."""
        return self.words[self._first + _READ] >= number or self.link.closed

    def read(self, place: int, nbytes: int) -> memoryview:
        """What it has exposed."""
        pool = self._pools.get(self.rank)
        if pool is None:
            raise self._peer.error or RemoteProtocolError(f"rank {self.rank} told of memory that this rank has not got")
        return pool.read(place, nbytes)


class _Round(SlotExchange):
    """A round on slots.

    Args:
        sleep: tells the others, by that number, that this rank sleeps until all have posted.
        others: whose slots are looked at.
        first: word at which the cell begins in which all post, the same on each slots.
        number: of the round.
    """

    __slots__ = ("_number", "_others", "_present", "_sleep", "first")

    def __init__(
        self, engine: Engine, sleep: Callable[[int, int], None], others: Sequence[SlotPeer], first: int, number: int
    ) -> None:
        # Spelled out instead of super().__init__: there is one of these per short call of a collective.
        self._engine = engine
        self._done = self._cancelled = self._told = False
        self._error = self._value = self._callbacks = self._waiter = None
        self._sleep = sleep
        self._others = others
        self._present = 0  # how many of the others are known to have posted, the first ones
        self._number = number
        self.first = first

    def ready(self) -> bool:
        first, number, others, present = self.first, self._number, self._others, self._present
        while present < len(others):
            if others[present].words[first] != number:
                self._present = present  # a number, not one more: a signal handler may have looked meanwhile
                return False
            present += 1
        self._present = present
        return True

    def absent(self) -> list[int]:
        others = self._others[self._present :]
        return [other.rank for other in others if other.words[self.first] != self._number]

    def watch(self) -> bool:
        self._sleep(self.first, self._number)
        return not self.ready()

    def wake(self) -> None:
        """Wake the members that sleep: this rank was the last one."""
        asleep = self.first + _ASLEEP
        for other in self._others:
            if other.words[asleep] == self._number:
                other.link.rouse()

    def end(self) -> None:
        first = self.first
        note, claim, length, begin = first + _NOTE, first + _CLAIM, first + _LENGTH, 8 * first + _HEAD
        postings: list[SlotEntry] = []
        for other in self._others:
            words = other.words
            size = words[length]
            # Never more than a cell, whatever it says.
            content = bytes(other.memory[begin : begin + (size if size < other.room else other.room)]) if size else b""
            postings.append((words[note], words[claim], content))
        self.complete(postings)
        self._others = ()

    def fail(self, error: BaseException) -> None:
        self._others = ()
        super().fail(error)


class SlotGroup:
    """The members of a communicator, as one of them (protocol `aiompi.engine.SlotGroup`).

    Args:
        cells: the words at which those of its place begin, for the even rounds and for the odd ones.
        others: all members but this rank.
        pool: that of this rank, None if there is no memory.
    """

    def __init__(
        self,
        engine: Engine,
        slots: SlotArea,
        cells: tuple[int, int],
        others: Sequence[SlotPeer],
        pool: Callable[[], Pool | None],
    ) -> None:
        self._engine = engine
        self._slots: SlotArea | None = slots
        self._pool = pool
        self._cells = cells
        self._block: PoolBlock | None = None  # what this rank exposes
        self._others: Sequence[SlotPeer] = others
        self._number = 0

    def post(self, content: bytes | memoryview, note: int, claim: int) -> SlotExchange:
        slots = self._slots
        if slots is None:
            raise LocalProtocolError(f"rank {self._engine.rank} has left the job")
        self._number = number = self._number + 1
        first = self._cells[number & 1]
        current = _Round(self._engine, self._sleep, self._others, first, number)
        error = self._engine.error
        if error is not None:  # most of all in the copy of a fork: the others would take its posting for its parent's
            current.fail(error)
            return current
        slots.post(first, number, note, claim, content)
        if current.ready():
            current.wake()
            current.end()
        else:
            self._engine.convene(current)
        return current

    def _sleep(self, first: int, number: int) -> None:
        if self._slots is not None:
            self._slots.sleep(first, number)

    def exhibit(self, nbytes: int) -> WindowBlock | None:
        if self._slots is None or self._engine.error is not None:
            return None  # in the copy of a fork it is the memory of its parent
        pool = self._pool()
        if pool is None:
            return None
        # each, so that all can have it by the next time
        able = [other.link.opened_to(pool) for other in self._others]
        found = pool.exhibit(nbytes) if all(able) else None
        if found is None:
            return None
        self._block, memory = found
        self._block.lent = [(other, self._number + 1) for other in self._others]
        return WindowBlock(self._block.start, memory)

    def read(self, member: int, place: int, nbytes: int) -> memoryview:
        return self._others[member].read(place, nbytes)

    def retire(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.open = False
        slots = self._slots
        if slots is not None and self._engine.error is None:
            slots.retire(self._cells[0], self._number)

    def dissolve(self) -> None:
        """Let go of all memory, also for a round that never ends."""
        for other in self._others:
            other.leave()
        self._slots, self._others = None, ()


def cells_of(context: int) -> tuple[int, int] | None:
    """The words at which the cells of a communicator begin on the slots, None if it has no place there."""
    place = ordinal(context)
    if place >= PLACES:
        return None
    words = _CELL if place < FIRST_COMMUNICATORS else _LITTLE_CELL
    first = 2 * (min(place, FIRST_COMMUNICATORS) * _CELL + max(place - FIRST_COMMUNICATORS, 0) * _LITTLE_CELL)
    return first, first + words
