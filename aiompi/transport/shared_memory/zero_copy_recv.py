"""Zero-copy receive: a message stays in the pool of its writer as long as an object of the reader refers to it.

The arrays of an object that is received may lie in the pool of the writer. Then the message is copied once, by the
writer, and the reader does not touch it before the program does. A word in front of the message is 1 from when the
reader decides that it stays until nothing refers to it, even if the link between the two was closed meanwhile. The
writer uses the block again when it has been given back, as all others, and this word is 0; or when the process of the
reader has ended.

Memory ordering. The word becomes 1 before the block is given back, and 0 after all that was done with the message:
stores in program order, or after the lock of the interpreter had changed hands. The writer loads whether the block was
given back first; and clears the word before the frame that announces the next message there.

The child of a fork would share such memory, while it has all other memory for itself. So each message that stays is
copied before a fork, and the child puts the copies in the place of the shared memory.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Final

from aiompi.datatype.buffer import process
from aiompi.lazy import np

if TYPE_CHECKING:
    from aiompi.datatype.buffer.watched import Watched

#: the words in front of a message in a pool: how many of its bytes are there, and whether it stays
THERE: Final = 0
KEPT: Final = 1
#: bytes in front of a message, for these words
PREFACE: Final = 64

#: messages that stay, by id, since arrays have no hash, each with the words in front of it
_kept: Final[dict[int, tuple[weakref.ref[Watched], memoryview]]] = {}


def _release(number: int, kept: dict[int, tuple[weakref.ref[Watched], memoryview]] = _kept, word: int = KEPT) -> None:
    """Give the message of an id back to its writer."""
    # In the child of a fork the message is no longer among those that stay.
    if (found := kept.pop(number, None)) is not None:
        found[1][word] = 0


def keep_in_place(memory: memoryview) -> memoryview:
    """Let a message stay until nothing refers to it any more.

    Args:
        memory: the words and the message, from the beginning of a page on; no other message has a part of these pages.

    Returns:
        The bytes of the message.
    """
    from aiompi.datatype.buffer.watched import Watched

    words = memory[:PREFACE].cast("Q")
    message = Watched(len(memory) - PREFACE, np.uint8, memory, PREFACE)
    message.on_end = partial(_release, id(message))
    _kept[id(message)] = weakref.ref(message), words
    words[KEPT] = 1
    # Through a plain array, into which the garbage collector does not look: in a cycle that refers to the message it
    # would call `__del__` first, and then a finalizer that may still use or save the message.
    return message.view(np.ndarray).data


class _Fork(threading.local):
    """The copies of messages that a fork of this thread needs, by id, each with its message, which it keeps."""

    def __init__(self) -> None:
        self.copies: dict[int, tuple[Watched, mmap.mmap | None]] = {}


_fork: Final = _Fork()


def _whole() -> list[tuple[Watched, memoryview]]:
    """Return the messages that have arrived as a whole, with their words: the program has no others yet."""
    found = [(message, words) for reference, words in [*_kept.values()] if (message := reference()) is not None]
    return [(message, words) for message, words in found if words[THERE] == len(message)]


def _before() -> None:
    copies = _fork.copies = {}
    for message, _ in _whole():
        copies[id(message)] = message, _copy(message)


def _copy(message: Watched) -> mmap.mmap | None:
    """Return a copy of a message, None if there is no memory."""
    with contextlib.suppress(OSError):
        copy = mmap.mmap(-1, len(message))
        copy[:] = message.data
        return copy
    return None


def _in_parent() -> None:
    _fork.copies = {}


def _in_child() -> None:
    copies, messages = _fork.copies, _whole()
    _fork.copies = {}
    _kept.clear()
    lost = 0
    for message, words in messages:
        address = process.address_of(words.cast("B"))
        nbytes = -(-(PREFACE + len(message)) // mmap.PAGESIZE) * mmap.PAGESIZE
        # A message may have become whole after the others were copied, or there was no memory then.
        copy = copies.get(id(message), (message, None))[1] or _copy(message)
        process.blank(address, nbytes, copy is not None)  # without a copy, a process that uses the memory is killed
        if copy is None:
            lost += len(message)
        else:
            message[:] = np.frombuffer(copy, np.uint8)
    if lost:
        raise MemoryError(f"{lost} bytes of objects that were received are not in the copy of this process")


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
