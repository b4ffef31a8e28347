"""Slots: what each of a few ranks shows all the others without a message.

The members of a communicator exchange such contents in rounds. Each rank has slots, which the others see, with a place
for the communicator. A rank posts there in each round, and looks whether the others have. The last rank sees that all
have posted and wakes the others, so n ranks need n - 1 wake-ups, none of them one after the other.

A place has two cells, for the odd rounds and for the even ones. A rank posts in a round after it has taken what was
posted in the round before, in which all have posted. So no rank still needs the cell that it overwrites, which is that
of the round before the last one. A rank that sleeps until all have posted stores the number of the round there, too.

A rank exposes what is too long for a cell: it writes that into its pool, and posts where it is. The others read there
in this round and in later ones, until they retire: they store the number of the last round in which they have posted.
So no rank waits for that, and memory that all have read is free even if there is no further round.

A place belongs to a communicator, by its context id, for ever: a member may look late, when the others have long freed
the communicator. So the first `PLACES` communicators of a job have one, of which the `FIRST_COMMUNICATORS` have large
cells: every member reserves addresses for the slots of all.

Memory ordering. A cell is written before its stamp, and read after it; plain stores and loads keep that order (see
`ring`). No rank sleeps once all have posted: a rank stores its stamp and loads those of the others, with a fence in
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
from aiompi.transport.shared_memory.export import SLOTS, Export
from aiompi.transport.shared_memory.ring import fence

if TYPE_CHECKING:
    from aiompi.engine import Engine, Peer
    from aiompi.transport.shared_memory.export import Import
    from aiompi.transport.shared_memory.link import RingLink
    from aiompi.transport.shared_memory.pool import Pool, PoolBlock

#: communicators that have a place
PLACES: Final = 1024
#: bytes of the words of a cell; the content follows in cache lines of its own
_HEAD: Final = 64
#: words of a cell in the first places, and in the others
_CELL: Final = (_HEAD + ROOM) // 8
_LITTLE_CELL: Final = (_HEAD + LITTLE_ROOM) // 8
#: the words of a cell behind its stamp, the number of the round: a number that all must publish alike, bytes of
#: content, and another number to compare
_NOTE: Final = 1
_LENGTH: Final = 2
_CLAIM: Final = 3
#: in the first cell of a place: the last round in which its owner has read what others have exposed
_READ: Final = 4
#: the round for whose end the owner sleeps
_ASLEEP: Final = 5
SIZE: Final = 8 * 2 * (FIRST_COMMUNICATORS * _CELL + (PLACES - FIRST_COMMUNICATORS) * _LITTLE_CELL)

_NOTHING: Final = memoryview(b"")


class SlotArea(Export):
    """The slots of this rank. Raises OSError if there is no memory."""

    def __init__(self) -> None:
        super().__init__(SLOTS, SIZE)
        self._cells = self._memory.cast("Q")
        self._lock = threading.Lock()  # of `fence`

    def publish(self, first: int, stamp: int, note: int, claim: int, content: bytes | memoryview) -> None:
        """Write the cell that begins at the word `first`, its stamp last."""
        words = self._cells
        length = len(content)
        if length:
            begin = 8 * first + _HEAD
            self._memory[begin : begin + length] = content
        words[first + _NOTE] = note
        words[first + _LENGTH] = length
        words[first + _CLAIM] = claim
        words[first] = stamp
        fence(self._lock)

    def sleep(self, first: int, stamp: int) -> None:
        """Store in a cell that this rank sleeps until all have posted."""
        self._cells[first + _ASLEEP] = stamp
        fence(self._lock)

    def retire(self, first: int, number: int) -> None:
        """Store in the first cell of a place that this rank has read what was exposed up to the round `number`."""
        self._cells[first + _READ] = number


class SlotPeer:
    """Another member of a group.

    Args:
        memory: its slots.
        cells: the words at which the cells of the group begin.
        pools: the pools that this rank reads, by rank.

    Attributes:
        memory, words: its slots, in bytes and in words.
        room: bytes of content that a cell can have.
    """

    __slots__ = ("_first", "_peer", "_pools", "link", "memory", "rank", "room", "words")

    def __init__(
        self, peer: Peer, link: RingLink, memory: memoryview, cells: tuple[int, int], pools: Mapping[int, Import]
    ) -> None:
        self.rank = peer.rank
        self.link = link
        self._peer = peer
        self._pools = pools
        self._first, second = cells
        self.room = 8 * (second - self._first) - _HEAD
        self.memory = memory
        self.words = memory.cast("Q")

    def leave(self) -> None:
        """Let go of the slots."""
        self.memory, self.words = _NOTHING, _NOTHING

    def returned(self, number: int) -> bool:
        """Return True if the peer has read what was exposed in a round, or never will."""
        return self.words[self._first + _READ] >= number or self.link.reads_no_more()

    def read(self, place: int, nbytes: int) -> memoryview:
        """Return what the peer has exposed."""
        pool = self._pools.get(self.rank)
        if pool is None:
            raise self._peer.error or RemoteProtocolError(f"rank {self.rank} announced memory that is not here")
        return pool.read(place, nbytes)


class _Round(SlotExchange):
    """A round.

    Args:
        sleep: stores in the cell of this rank that it sleeps until all have posted.
        others: the other members.
        first: word at which the cell begins in which all publish, the same in the slots of all.
        number: of the round.
    """

    __slots__ = ("_number", "_others", "_present", "_sleep", "first")

    def __init__(
        self,
        engine: Engine,
        context: int,
        sleep: Callable[[int, int], None],
        others: Sequence[SlotPeer],
        first: int,
        number: int,
    ) -> None:
        # Spelled out instead of super().__init__: there is one of these per short call of a collective.
        self._engine = engine
        self._done = self._cancelled = self._error_seen = False
        self._error = self._value = self._callbacks = self._waiter = None
        self.context = context
        self._sleep = sleep
        self._others = others
        self._present = 0  # how many of the others, from the first one on, are known to have posted
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
        """Wake the members that sleep, since this rank was the last to publish."""
        asleep = self.first + _ASLEEP
        for other in self._others:
            if other.words[asleep] == self._number:
                other.link.rouse()

    def end(self) -> None:
        first = self.first
        note, claim, length, begin = first + _NOTE, first + _CLAIM, first + _LENGTH, 8 * first + _HEAD
        entries: list[SlotEntry] = []
        for other in self._others:
            words = other.words
            size = words[length]
            # Never more than a cell, whatever it says.
            content = bytes(other.memory[begin : begin + (size if size < other.room else other.room)]) if size else b""
            entries.append((words[note], words[claim], content))
        self.complete(entries)
        self._others = ()

    def fail(self, error: BaseException) -> None:
        self._others = ()
        super().fail(error)


class SlotGroup:
    """The members of a communicator (protocol `aiompi.engine.SlotGroup`).

    Args:
        context: id of the communicator.
        slots: those of this rank.
        cells: the words at which the cells of the communicator begin, for the even rounds and for the odd ones.
        others: all members but this rank.
        pool: returns the pool of this rank, or None if there is no memory.
    """

    def __init__(
        self,
        engine: Engine,
        context: int,
        slots: SlotArea,
        cells: tuple[int, int],
        others: Sequence[SlotPeer],
        pool: Callable[[], Pool | None],
    ) -> None:
        self._engine = engine
        self._context = context
        self._slots: SlotArea | None = slots
        self._pool = pool
        self._cells = cells
        self._block: PoolBlock | None = None  # what this rank exposes
        self._others: Sequence[SlotPeer] = others
        self._number = 0

    def publish(self, content: bytes | memoryview, note: int, claim: int) -> SlotExchange:
        slots, error = self._slots, self._engine.error
        if slots is None:
            raise error or LocalProtocolError(f"rank {self._engine.rank} has left the job")
        self._number = number = self._number + 1
        first = self._cells[number & 1]
        current = _Round(self._engine, self._context, self._sleep, self._others, first, number)
        if error is not None:  # as in the child of a fork, whose entry would be taken for its parent's
            current.fail(error)
            return current
        slots.publish(first, number, note, claim, content)
        if current.ready():
            current.wake()
            current.end()
        else:
            self._engine.start_exchange(current)
        return current

    def _sleep(self, first: int, number: int) -> None:
        if self._slots is not None:
            self._slots.sleep(first, number)

    def allocate(self, nbytes: int) -> WindowBlock | None:
        if self._slots is None or self._engine.error is not None:
            return None  # in the child of a fork it is the memory of the parent
        pool = self._pool()
        if pool is None:
            return None
        able = [other.link.opened_to(pool) for other in self._others]  # each, so that all may be able the next time
        found = pool.allocate_window(nbytes) if all(able) else None
        if found is None:
            return None
        block, memory = found
        others, number = self._others, self._number + 1
        block.returned = lambda: all(other.returned(number) for other in others)
        self._block = block
        return block.start, memory

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
        """Let go of all memory, even if a round never ends."""
        for other in self._others:
            other.leave()
        self._slots, self._others = None, ()


def cells_of(context: int) -> tuple[int, int] | None:
    """Return the words at which the cells of a communicator begin, or None if it has no place."""
    place = ordinal(context)
    if place >= PLACES:
        return None
    words = _CELL if place < FIRST_COMMUNICATORS else _LITTLE_CELL
    first = 2 * (min(place, FIRST_COMMUNICATORS) * _CELL + max(place - FIRST_COMMUNICATORS, 0) * _LITTLE_CELL)
    return first, first + words
