"""Memory of the program that other ranks read (MPI_Alloc_mem): a long message in it is copied once, by its receiver.

The sender announces such a message with its place. The receiver copies it when it has matched it, and answers that it
has. Until then the memory is the message's, unless the sender takes it back, as it must for a program that does not
wait any longer: it raises the number in its word of the area. A receiver that finds another number than was announced,
after it has copied, asks for the message instead, as for any other.

Memory ordering. The program writes the message before the frame that tells of it. The receiver's loads from the message
come before its load of the number, so that what it has copied was not overwritten if the number is the old one.
"""

from __future__ import annotations

import bisect
import functools
import mmap
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aiompi.datatype.buffer.process import address_of
from aiompi.transport.shared_memory.area import ARENA, PREFIX, Area, Loan

#: bytes at most; addresses and no memory, until it is used
MOST: Final = 2**36
_GRAIN: Final = mmap.PAGESIZE


class Arena(Area):
    """The owner's side: as much of it as this machine has memory.

    Attributes:
        epoch: changes whenever the memory of messages under way has been taken back.

    Raises:
        OSError: there are no addresses for it.
    """

    def __init__(self) -> None:
        pages = min(MOST, os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE) // _GRAIN
        super().__init__(ARENA, pages * _GRAIN)
        self._mapped: Any = self._memory.obj
        self._address = address_of(self._memory)
        self._free = [(0, self._nbytes)]  # start and end, ascending, never adjacent
        self._returned: deque[tuple[int, int]] = deque()  # what is free too, but not yet there
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.epoch = 0

    def allocate(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
        """Memory, given back when nothing refers to it any more; None if there is no room, or in the copy of a fork."""
        if os.getpid() != self._process:
            return None
        size = -(-max(nbytes, 1) // _GRAIN) * _GRAIN
        with self._lock:
            start = self._take(size)
        if start is None:
            return None
        room = _Room(size, np.uint8, self._memory[start : start + size])
        room.give_back = functools.partial(self._give_back, start, start + size)
        return room[:nbytes]

    def _take(self, size: int) -> int | None:
        """The place of memory that is free from now on no more; None if there is no room."""
        self._gather()
        for index, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[index : index + 1] = [(start + size, end)] if start + size < end else []
                return start
        return None

    def _give_back(self, start: int, end: int) -> None:
        """Called whenever the last reference goes: in any thread, and in the midst of anything."""
        if os.getpid() == self._process:  # what a fork has copied is still the memory of its parent
            self._mapped.madvise(mmap.MADV_REMOVE, PREFIX + start, end - start)
            self._returned.append((start, end))

    def _gather(self) -> None:
        """Join what has been given back with what is free beside it."""
        while self._returned:
            start, end = self._returned.popleft()
            index = bisect.bisect(self._free, (start, end))
            if index < len(self._free) and self._free[index][0] == end:
                end = self._free.pop(index)[1]
            if index and self._free[index - 1][1] == start:
                start = self._free.pop(index - 1)[0]
                index -= 1
            self._free.insert(index, (start, end))

    def locate(self, piece: bytes | memoryview) -> int | None:
        """The place of memory in the area, None if it is elsewhere."""
        place = address_of(piece) - self._address
        return place if 0 <= place < self._nbytes else None

    def take_back(self) -> None:
        """The memory of messages under way belongs to the program again."""
        self.epoch += 1
        self._words[0] = self.epoch


class _Room(np.ndarray[Any, np.dtype[np.uint8]]):
    """A piece of the arena, for as long as anything refers to it, directly or through views of it.

    It is made over memory that is no array: for the sake of an array NumPy would forget this one in views of it.
    """

    give_back: Callable[[], object] | None = None

    def __del__(self) -> None:
        if self.give_back is not None:
            self.give_back()


class Lying:
    """A message that lies in the arena of the writer."""

    __slots__ = ("_epoch", "_loan", "_memory")

    def __init__(self, loan: Loan, memory: memoryview, epoch: int) -> None:
        self._loan = loan
        self._memory = memory
        self._epoch = epoch

    def invite(self, memory: memoryview) -> None:
        """The sender does something else meanwhile."""

    def copy(self, memory: memoryview, start: int, most: int, length: int) -> int:
        stop = min(start + most, length)
        room = memory[start:stop]
        room[:] = self._memory[start : start + len(room)]
        return stop

    def stands(self) -> bool:
        """Whether its sender has not taken the memory back."""
        return self._loan.epoch == self._epoch

    def close(self, wait: bool = True) -> bool:
        return True
