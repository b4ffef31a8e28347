"""Messages that stay where their writer has put them, as long as anything of their reader refers to them.

A message that becomes an object needs no memory of the program's: its arrays may lie in the pool of the writer. Then
it is copied once, by the writer, and the reader does not touch it before the program does. A word in front of the
message is 1 from when the reader decides that it stays until nothing refers to it, also when the two have parted
meanwhile. The writer uses the block again when it has been given back, as all others, and this word is 0; or when the
process of the reader has ended.

Memory ordering. The word becomes 1 before the block is given back, and 0 after all that was done with the message:
stores in program order, or after the lock of the interpreter had changed hands. The writer loads whether the block was
given back first; and clears the word before the frame that tells of the next message there.

The copy of a process by a fork shares such memory, while it has all other memory for itself. So before a fork each
message that stays gets private memory, with the same content at the same address. When nothing refers to it any more,
in the process that was copied, what was there before comes back.
"""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any, Final

import numpy as np

from aiompi.datatype.buffer import process

#: the words in front of a message that is read while it is written: how many of its bytes are there, whether it stays
THERE: Final = 0
STAYS: Final = 1
#: bytes in front of it, for these words
PREFACE: Final = 64

#: by id, since arrays have no hash
_stays: Final[dict[int, weakref.ref[_Stay]]] = {}


class _Stay(np.ndarray[Any, np.dtype[np.uint8]]):
    """A message for as long as anything refers to it, directly or through views.

    As of a block of `aiompi.datatype.buffer.allocation`, arrays that are made of its memory refer to it.

    Attributes:
        words: those in front of the message; None of a view.
        shared: address of the memory in which it was, if it has private memory now.
    """

    words: memoryview | None = None
    shared = 0

    def __del__(self, stays: dict[int, weakref.ref[_Stay]] = _stays) -> None:
        # In the copy of a fork it is none of them any more.
        if self.words is None or stays.pop(id(self), None) is None:
            return
        if self.shared:
            process.restore(self.shared, *_pages(self))
        self.words[STAYS] = 0

    def depart(self) -> None:
        """Have private memory, if the message is whole; what still arrives nobody has yet."""
        if self.words is not None and not self.shared and self.words[THERE] == len(self):
            self.shared = process.separate(*_pages(self))


def _pages(stay: _Stay) -> tuple[int, int]:
    """Address and length of the pages that it is in, with the words."""
    assert stay.words is not None
    nbytes = PREFACE + len(stay)
    return process.address_of(stay.words.cast("B")), -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE


def stay(memory: memoryview) -> memoryview:
    """Let a message stay where it is.

    Args:
        memory: bytes, of the words and of the message, from the beginning of a page on; all these pages are its own.

    Returns:
        The bytes of the message. It has ended its stay when nothing refers to them any more.
    """
    message = _Stay(len(memory) - PREFACE, np.uint8, memory, PREFACE)
    message.words = memory[:PREFACE].cast("Q")
    _stays[id(message)] = weakref.ref(message)
    message.words[STAYS] = 1
    return message.data


def _depart() -> None:
    # First all of them are referred to, so that none ends its stay in the meantime.
    for message in [message for reference in [*_stays.values()] if (message := reference()) is not None]:
        message.depart()


os.register_at_fork(before=_depart, after_in_child=_stays.clear)
