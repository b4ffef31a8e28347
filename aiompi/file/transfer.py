"""Transfers: threads of a disk write and read bytes of a file in pieces. A transfer can stop between two pieces."""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Iterator
from typing import Final

from aiompi.base.lazy import np
from aiompi.core.allocation import allocate
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.layout import arrange, move
from aiompi.datatype.layout.blocks import IntArray
from aiompi.datatype.layout.layout import Layout

#: bytes that one system call moves, so that a transfer can be stopped soon
STEP: Final = 8 * 2**20
#: pieces of memory that one system call takes
_IOV_MAX: Final = min(os.sysconf("SC_IOV_MAX"), 1024)
#: average bytes of a run of memory above which the kernel gathers the runs; shorter runs are packed first
_LONG_RUN: Final = 16 * 2**10
#: most bytes that one read takes to serve several pieces
_WINDOW: Final = 4 * 2**20
#: most bytes that such a read takes for each wanted byte
_SPARSE: Final = 8
#: pieces that become Python integers at a time
_BATCH: Final = 4096


class Stop:
    """Asks a transfer to end after its current piece."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = False


class Stream:
    """Memory in the order of a stream, in one piece or in many.

    Args:
        memory: the memory that contains the stream.
        runs: where the pieces lie in the memory, and their lengths; None if the transfer uses the whole memory.
    """

    __slots__ = ("_first", "_memory", "_places", "_starts", "nbytes", "whole")

    def __init__(self, memory: memoryview, runs: tuple[IntArray, IntArray] | None = None) -> None:
        self._memory = memory
        self.whole = memory if runs is None else None
        self.nbytes = len(memory)
        self._first = 0
        if runs is not None:
            places, lengths = runs
            self._places = places
            self._starts = np.concatenate(([0], np.cumsum(lengths)))
            self.nbytes = int(self._starts[-1])

    def part(self, start: int, nbytes: int) -> Stream:
        """Return a part of the stream."""
        if nbytes == self.nbytes:
            return self
        if self.whole is not None:
            return Stream(self.whole[start : start + nbytes])
        part = copy.copy(self)
        part._first, part.nbytes = start, nbytes
        return part

    def views(self, start: int, stop: int) -> list[memoryview]:
        """Return the first pieces of the memory of a part, at most as many as one system call takes."""
        if self.whole is not None:
            return [self.whole[start:stop]]
        start, stop = start + self._first, stop + self._first
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        last = min(int(np.searchsorted(self._starts, stop, "left")), first + _IOV_MAX)
        starts, places = self._starts[first : last + 1].tolist(), self._places[first:last].tolist()
        views = []
        for place, begin, end in zip(places, starts[:-1], starts[1:], strict=True):
            low, high = max(begin, start), min(end, stop)
            views.append(self._memory[place + low - begin : place + high - begin])
        return views


def in_place(buffer: Buffer, external: bool) -> Stream | None:
    """Return the stream of a buffer if it needs no copy, else None."""
    if external and not buffer.lies_external:
        return None
    if buffer.contiguous:
        return Stream(buffer.view)
    if len(buffer.pieces) == 1:
        places, _, lengths = buffer.layout.runs()
        if buffer.nbytes >= _LONG_RUN * len(places):
            return Stream(buffer.memory, (places + buffer.base, lengths))
    return None


def outgoing(buffer: Buffer, external: bool) -> Stream:
    """Return the stream of a buffer that is written to a file."""
    return in_place(buffer, external) or Stream(buffer.to_external32() if external else buffer.packed())


def write(fd: int, pieces: tuple[IntArray, IntArray], stream: Stream, stop: Stop) -> int:
    """Write a stream to pieces of a file.

    Returns:
        The number of bytes that were written: all, unless the transfer was stopped.

    Raises:
        OSError: the system cannot write them.
    """
    done = 0
    for offset, length in _each(pieces):
        moved = write_run(fd, offset, stream, done, length, stop)
        done += moved
        if moved < length:
            break
    return done


def write_run(fd: int, offset: int, stream: Stream, start: int, nbytes: int, stop: Stop) -> int:
    """Write a part of a stream to one piece of a file; see `write`."""
    done, end, shift = start, start + nbytes, offset - start
    while done < end and not stop.asked:
        moved = os.pwritev(fd, stream.views(done, min(end, done + STEP)), done + shift)
        if moved == 0:
            raise OSError(errno.EIO, f"nothing was written at byte {done + shift}")
        done += moved
    return done - start


def read(fd: int, pieces: tuple[IntArray, IntArray], stream: Stream, stop: Stop) -> int:
    """Read pieces of a file into a stream.

    Returns:
        The number of bytes read. Fewer bytes are read than the pieces have if the file ends earlier, or the transfer
        was stopped.

    Raises:
        OSError: the system cannot read the pieces.
    """
    offsets, lengths = pieces
    if stream.whole is None or len(offsets) < 2:
        return _read_each(fd, pieces, stream, 0, stop)
    ends, done, first = offsets + lengths, 0, 0
    while first < len(offsets) and not stop.asked:
        last = max(first + 1, int(np.searchsorted(ends, offsets[first] + _WINDOW, "right")))
        part = offsets[first:last], lengths[first:last]
        wanted, span = int(part[1].sum()), int(ends[last - 1] - offsets[first])
        if last - first > 1 and span <= _SPARSE * wanted:
            moved = _read_window(fd, part, span, stream.whole[done : done + wanted])
        else:
            moved = _read_each(fd, part, stream, done, stop)
        done += moved
        if moved < wanted:
            break
        first = last
    return done


def _read_each(fd: int, pieces: tuple[IntArray, IntArray], stream: Stream, start: int, stop: Stop) -> int:
    done = start
    for offset, length in _each(pieces):
        moved = read_run(fd, offset, stream, done, length, stop)
        done += moved
        if moved < length:
            break
    return done - start


def read_run(fd: int, offset: int, stream: Stream, start: int, nbytes: int, stop: Stop) -> int:
    """Read one piece of a file into a part of a stream; see `read`."""
    done, end, shift = start, start + nbytes, offset - start
    while done < end and not stop.asked:
        moved = os.preadv(fd, stream.views(done, min(end, done + STEP)), done + shift)
        if moved == 0:
            break
        done += moved
    return done - start


def _read_window(fd: int, pieces: tuple[IntArray, IntArray], span: int, out: memoryview) -> int:
    """Read the file from the first piece to the last at once; copy the pieces to `out`, and return their size."""
    offsets, lengths = pieces
    low, memory = int(offsets[0]), allocate(span)
    there = read_span(fd, low, memory)
    if there < span:
        offsets, lengths = head(pieces, low + there)
    return gather(memory, low, (offsets, lengths), out)


def read_span(fd: int, offset: int, memory: memoryview) -> int:
    """Fill memory from a file; return the number of bytes read, which is smaller if the file ends before."""
    done = 0
    while done < len(memory):
        moved = os.preadv(fd, [memory[done : done + STEP]], offset + done)
        if moved == 0:
            break
        done += moved
    return done


def head(pieces: tuple[IntArray, IntArray], end: int) -> tuple[IntArray, IntArray]:
    """Return the part of pieces that is before a byte of the file."""
    offsets, lengths = pieces
    number = int(np.searchsorted(offsets, end, "left"))
    offsets, lengths = offsets[:number], lengths[:number].copy()
    if number:
        lengths[-1] = min(int(lengths[-1]), end - int(offsets[-1]))
    return offsets, lengths


def gather(memory: memoryview, low: int, pieces: tuple[IntArray, IntArray], out: memoryview) -> int:
    """Copy pieces to `out` from memory that holds the file from byte `low` on; return the number of bytes."""
    layout = layout_of(pieces, low)
    move.pack(layout, memory, 0, out)
    return layout.size


def layout_of(pieces: tuple[IntArray, IntArray], low: int) -> Layout:
    """Return the layout that maps a contiguous stream to its pieces in memory that holds the file from byte `low`."""
    offsets, lengths = pieces
    if not len(offsets):
        return Layout.concat(())
    ends = np.cumsum(lengths)
    return Layout.of(int(ends[-1]), tuple(arrange.runs(offsets - low, ends - lengths, lengths)))


def _each(pieces: tuple[IntArray, IntArray]) -> Iterator[tuple[int, int]]:
    """Yield pieces as Python integers, a few at a time, because Python integers take more memory than NumPy's."""
    offsets, lengths = pieces
    for first in range(0, len(offsets), _BATCH):
        yield from zip(offsets[first : first + _BATCH].tolist(), lengths[first : first + _BATCH].tolist(), strict=True)
