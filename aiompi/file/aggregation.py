"""Writing and reading the pieces of all ranks at an aggregator of a collective access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from aiompi.base.lazy import np
from aiompi.core.allocation import allocate
from aiompi.datatype.layout import move
from aiompi.datatype.layout.blocks import IntArray
from aiompi.file.transfer import Stop, Stream, gather, head, layout_of, read_span, write

#: offsets in the file and lengths of pieces, ascending
Pieces: TypeAlias = tuple[IntArray, IntArray]

#: bytes between two pieces that are read together
_GAP: Final = 16 * 2**10


class Part(NamedTuple):
    """The pieces of one rank in a range of the file.

    Attributes:
        pieces: the pieces.
        start: where the data of the pieces begin in the stream of the rank.
        nbytes: bytes of all pieces.
    """

    pieces: Pieces
    start: int
    nbytes: int


def total(lengths: IntArray) -> int:
    """Return the number of bytes of all pieces."""
    return int(lengths.sum())


def cut(pieces: Pieces, low: int, high: int) -> Part:
    """Return the part of pieces in a range of the file."""
    offsets, lengths = pieces
    first = int(np.searchsorted(offsets + lengths, low, "right"))
    last = int(np.searchsorted(offsets, high, "left"))
    start = total(lengths[:first])
    if first >= last:
        return Part((offsets[:0], lengths[:0]), start, 0)
    offsets, lengths = offsets[first:last].copy(), lengths[first:last].copy()
    lengths[-1] = min(int(lengths[-1]), high - int(offsets[-1]))
    ahead = max(0, low - int(offsets[0]))
    offsets[0] += ahead
    lengths[0] -= ahead
    return Part((offsets, lengths), start + ahead, total(lengths))


def write_window(fd: int, parts: Sequence[tuple[Pieces, memoryview]]) -> None:
    """Write the pieces of all ranks, and nothing between them.

    Args:
        fd: the file.
        parts: the pieces of each rank, and the data of these pieces one after the other.

    Raises:
        OSError: the system cannot write them.
    """
    stop = Stop()
    if all(len(pieces[0]) == 1 for pieces, _ in parts):
        for pieces, data in parts:
            write(fd, pieces, Stream(data), stop)
        return
    low = min(int(pieces[0][0]) for pieces, _ in parts)
    high = max(int(pieces[0][-1] + pieces[1][-1]) for pieces, _ in parts)
    memory = allocate(high - low)
    for pieces, data in parts:
        move.unpack(layout_of(pieces, low), data, memory, 0)
    for first, last in _runs([pieces for pieces, _ in parts], 0):
        write(fd, (np.array([first]), np.array([last - first])), Stream(memory[first - low : last - low]), stop)


def read_window(fd: int, wanted: Sequence[Pieces]) -> tuple[list[memoryview], int | None]:
    """Read the pieces of all ranks.

    Args:
        fd: the file.
        wanted: the pieces of each rank.

    Returns:
        (the data of each rank, up to the end of the file; the offset of the first requested byte behind the end of the
        file, None if the file has all requested bytes).

    Raises:
        OSError: the system cannot read them.
    """
    low = min(int(offsets[0]) for offsets, _ in wanted)
    high = max(int(offsets[-1] + lengths[-1]) for offsets, lengths in wanted)
    memory, end = allocate(high - low), None
    for first, last in _runs(wanted, _GAP):
        there = read_span(fd, first, memory[first - low : last - low])
        if there < last - first:
            end = first + there
            break
    found = []
    for pieces in wanted:
        offsets, lengths = pieces if end is None else head(pieces, end)
        if len(offsets) == 1:
            start = int(offsets[0]) - low
            found.append(memory[start : start + int(lengths[0])])
        else:
            out = allocate(total(lengths))
            gather(memory, low, (offsets, lengths), out)
            found.append(out)
    return found, end


def _runs(all_pieces: Sequence[Pieces], gap: int) -> list[tuple[int, int]]:
    """Return the ranges of the file that pieces cover, ascending; ranges at most `gap` bytes apart are joined."""
    offsets = np.concatenate([offsets for offsets, _ in all_pieces])
    ends = np.concatenate([offsets + lengths for offsets, lengths in all_pieces])
    order = np.argsort(offsets, kind="stable")
    offsets, ends = offsets[order], np.maximum.accumulate(ends[order])
    apart = np.flatnonzero(offsets[1:] > ends[:-1] + gap)
    firsts = offsets[np.concatenate(([0], apart + 1))]
    lasts = ends[np.concatenate((apart, [len(ends) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
