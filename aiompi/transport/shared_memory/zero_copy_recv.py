"""Messages that stay where their writer has put them, as long as anything of their reader refers to them.

A message that becomes an object needs no memory of the program's: its arrays may lie in the pool of the writer. Then
it is copied once, by the writer, and the reader does not touch it before the program does. A word in front of the
message is 1 from when the reader decides that it stays until nothing refers to it, also when the two have parted
meanwhile. The writer uses the block again when it has been given back, as all others, and this word is 0; or when the
process of the reader has ended.

Memory ordering. The word becomes 1 before the block is given back, and 0 after all that was done with the message:
stores in program order, or after the lock of the interpreter had changed hands. The writer loads whether the block was
given back first; and clears the word before the frame that tells of the next message there.

The copy of a process by a fork would share such memory, while it has all other memory for itself. So each message that
stays is copied before a fork, and the child puts the copies in place of the shared memory, of which it knows nothing
from then on.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import weakref
from typing import Any, Final

import numpy as np

from aiompi.datatype.buffer import process

#: the words in front of a message that is read while it is written: how many of its bytes are there, whether it stays
THERE: Final = 0
KEPT: Final = 1
#: bytes in front of it, for these words
PREFACE: Final = 64

#: by id, since arrays have no hash
_kept: Final[dict[int, weakref.ref[_KeptMessage]]] = {}


class _KeptMessage(np.ndarray[Any, np.dtype[np.uint8]]):
    """A message for as long as anything refers to it, directly or through views.

    As of a block of `aiompi.datatype.buffer.allocation`, arrays that are made of its memory refer to it.

    Attributes:
        words: those in front of the message; None of a view.
    """

    words: memoryview | None = None

    def __del__(self, stays: dict[int, weakref.ref[_KeptMessage]] = _kept, word: int = KEPT) -> None:
        # In the copy of a fork it is none of them any more.
        if self.words is not None and stays.pop(id(self), None) is not None:
            self.words[word] = 0


def keep_in_place(memory: memoryview) -> memoryview:
    """Let a message stay where it is.

    Args:
        memory: bytes, of the words and of the message, from the beginning of a page on; all these pages are its own.

    Returns:
        The bytes of the message. It has ended its stay when nothing refers to them any more.
    """
    message = _KeptMessage(len(memory) - PREFACE, np.uint8, memory, PREFACE)
    message.words = memory[:PREFACE].cast("Q")
    _kept[id(message)] = weakref.ref(message)
    message.words[KEPT] = 1
    # Through a plain array, which the garbage collector does not look into: of a cycle that refers to the message it
    # would call `__del__` first, and a finalizer behind that may still use the message, or save it.
    return message.view(np.ndarray).data


# Forks.


class _Fork(threading.local):
    """A fork of this thread.

    Attributes:
        copies: of messages by their id, with what keeps each of them.
    """

    def __init__(self) -> None:
        self.copies: dict[int, tuple[_KeptMessage, mmap.mmap]] = {}


_fork: Final = _Fork()


def _whole() -> list[_KeptMessage]:
    """Messages that are; what still arrives nobody has yet."""
    found = [message for reference in [*_kept.values()] if (message := reference()) is not None]
    return [message for message in found if message.words is not None and message.words[THERE] == len(message)]


def _before() -> None:
    copies = _fork.copies = {}
    for message in _whole():
        with contextlib.suppress(OSError):
            copies[id(message)] = message, _copy(message)


def _copy(message: _KeptMessage) -> mmap.mmap:
    copy = mmap.mmap(-1, len(message))
    copy[:] = message.data
    return copy


def _in_parent() -> None:
    _fork.copies = {}


def _in_child() -> None:
    copies, messages = _fork.copies, _whole()
    _fork.copies = {}
    _kept.clear()
    lost = 0
    for message in messages:
        assert message.words is not None
        address = process.address_of(message.words.cast("B"))
        nbytes = -(-(PREFACE + len(message)) // mmap.PAGESIZE) * mmap.PAGESIZE
        copy = copies[id(message)][1] if id(message) in copies else _late(message)
        process.blank(address, nbytes, copy is not None)
        if copy is None:
            lost += len(message)
        else:
            message[:] = np.frombuffer(copy, np.uint8)
    if lost:
        raise MemoryError(f"{lost} bytes of objects that were received are not in the copy of this process")


def _late(message: _KeptMessage) -> mmap.mmap | None:
    """The copy of one that became whole after the others were copied, or for which there was no memory then."""
    with contextlib.suppress(OSError):
        return _copy(message)
    return None  # a process that touches it will be killed, but nothing is shared unnoticed


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
