"""What each of a few ranks tells all the others, without a message: every rank has a board that the others see.

Ranks that tell each other such things in rounds are an assembly, which has a place on the board of each member. There a
rank posts in each round, and looks whether the others have. Who comes last sees that all have, and wakes the others; so
n ranks need n - 1 wake-ups, and none of them one after the other.

A place has two cells, for the odd rounds and for the even ones. A rank posts in a round after it has taken what was
posted in the round before, and all have posted there. So nobody still needs the cell that it overwrites, which is that
of the round before the last one.

A place belongs to a communicator, by its context id, for ever: a member may look late, when the others have long freed
the communicator. So the first `PLACES` communicators of a job have one.

Memory ordering. A cell is written before its stamp, and read after it; plain stores and loads keep that order (see
`ring`). Nobody sleeps while all have posted: a rank stores its stamp and loads those of the others, with a fence in
between, so that the last one to store sees them all. It then loads whether each of the others watches; a rank that goes
to sleep stores that it watches, and loads the stamps once more after a fence.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aiompi.engine import Posting, Round
from aiompi.errors import LocalProtocolError
from aiompi.transport.shared_memory.area import BOARD, Area, Loan

if TYPE_CHECKING:
    from aiompi.engine import Engine
    from aiompi.transport.shared_memory.link import RingLink

#: assemblies for which a board has a place
PLACES: Final = 1024
#: bytes of a cell: its stamp, the note and the length of what is posted, which follows in the next cache line
_CELL: Final = 2048
_HEAD: Final = 64
_WORDS: Final = _CELL // 8
_NOTE: Final = 1
_LENGTH: Final = 2
#: bytes that can be posted
ROOM: Final = _CELL - _HEAD
SIZE: Final = PLACES * 2 * _CELL

_NOTHING: Final = memoryview(b"")


class Board(Area):
    """That of this rank.

    Raises:
        OSError: there is no memory.
    """

    def __init__(self) -> None:
        super().__init__(BOARD, SIZE)
        self._cells = self._memory.cast("Q")

    def post(self, cell: int, stamp: int, note: int, content: bytes | memoryview) -> None:
        """Write a cell, its stamp last: the number of the round."""
        words, first = self._cells, cell * _WORDS
        nbytes = len(content)
        if nbytes:
            begin = cell * _CELL + _HEAD
            self._memory[begin : begin + nbytes] = content
        words[first + _NOTE] = note
        words[first + _LENGTH] = nbytes
        words[first] = stamp


class Poster:
    """The board of another rank, as one sees it.

    Attributes:
        memory: it, in bytes.
        words: the same, in words.

    Raises:
        RemoteProtocolError: it is none.
    """

    def __init__(self, loan: Loan) -> None:
        self.memory = loan.read(0, SIZE)
        self.words = self.memory.cast("Q")


class Attendee:
    """Another member of an assembly.

    Args:
        rank: in the world.
        link: to it.
        poster: its board.
        place: of the assembly.
    """

    __slots__ = ("_first", "_memory", "_words", "link", "rank")

    def __init__(self, rank: int, link: RingLink, poster: Poster, place: int) -> None:
        self.rank = rank
        self.link = link
        self._memory = poster.memory
        self._words = poster.words
        self._first = 2 * place * _WORDS

    def has_posted(self, number: int) -> bool:
        return self._words[self._first + (number & 1) * _WORDS] == number

    def leave(self) -> None:
        """Post nothing any more, and have no memory."""
        self._memory, self._words = _NOTHING, _NOTHING

    def posting(self, number: int) -> Posting:
        words, first = self._words, self._first + (number & 1) * _WORDS
        nbytes = words[first + _LENGTH]
        if not nbytes:
            return words[first + _NOTE], b""
        begin = first * 8 + _HEAD
        return words[first + _NOTE], bytes(self._memory[begin : begin + min(nbytes, ROOM)])


class Assembly:
    """The members of a communicator, as one of them.

    Args:
        place: on the boards.
        others: all members but this rank.
    """

    room: Final = ROOM

    def __init__(self, engine: Engine, board: Board, place: int, others: Sequence[Attendee]) -> None:
        self._engine = engine
        self._board: Board | None = board
        self._cell = 2 * place
        self._others: Sequence[Attendee] = others
        self._number = 0
        lock = threading.Lock()
        self._acquire, self._release = lock.acquire, lock.release

    def post(self, content: bytes | memoryview, note: int) -> Round:
        board = self._board
        if board is None:
            raise LocalProtocolError(f"rank {self._engine.rank} has left the job")
        self._number = number = self._number + 1
        current = Round(self._engine, self._others, number)
        error = self._engine.error
        if error is not None:  # most of all in the copy of a fork: the others would take its posting for its parent's
            current.fail(error)
            return current
        board.post(self._cell + (number & 1), number, note, content)
        self._acquire()
        self._release()
        if current.ready():
            for other in self._others:
                other.link.rouse()
            current.end()
        else:
            self._engine.convene(current)
        return current

    def dissolve(self) -> None:
        """Let go of all memory, also for a round that never ends."""
        for other in self._others:
            other.leave()
        self._board, self._others = None, ()


def place_of(context: int) -> int | None:
    """The place of a communicator on the boards, None if it has none."""
    place = context // 2  # a communicator has two contexts
    return place if place < PLACES else None
