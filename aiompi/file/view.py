"""Views: the bytes of a file that a process sees (MPI-4.1, section 14.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi.base.lazy import np
from aiompi.base.unsupported_errors import ERR_CONVERSION, ERR_DUP_DATAREP, ERR_UNSUPPORTED_DATAREP
from aiompi.datatype.buffer.buffer import Buffer, is_gapless
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.layout.blocks import IntArray
from aiompi.datatype.predefined import BYTE
from aiompi.errors import FileError, InvalidArgumentError, InvalidCountError
from aiompi.file.modes import LARGEST

#: representations of data in files
_EXTERNAL: Final = "external32"
_DATAREPS: Final = ["native", "internal", _EXTERNAL]  # and the names that the program has registered
#: number of pieces whose places are in memory at a time
_PIECES: Final = 2**18


class View:
    """A displacement, an elementary type, a file type and a representation of data.

    Copies of the file type cover the file from the displacement on. The data of these copies, without the gaps, are the
    *stream* of the process; offsets count elementary types of the stream. A file type without data, such as that of a
    rank that has no part of an array, makes a stream that is empty.

    Args:
        disp: bytes before the first file type.
        etype: elementary type.
        filetype: file type, which consists of elementary types.
        datarep: "native", "internal" (the same as "native"), "external32", or a registered name.

    Attributes:
        disp, etype, filetype, datarep: as above.
        unit: bytes of an elementary type in the file.
        external: True if data are converted to external32.

    Raises:
        InvalidArgumentError: the displacement is negative or above 2**63 - 1, or the file type does not fit a file.
        InvalidTypeError: a type is null, or not committed.
        FileError: ERR_UNSUPPORTED_DATAREP: the representation is unknown, or gives elements of the file type another
            size.
    """

    __slots__ = (
        "_ends", "_extent", "_lengths", "_offsets", "_size", "_starts", "datarep", "disp", "etype", "external",
        "filetype", "unit",
    )  # fmt: skip

    def __init__(
        self, disp: int = 0, etype: Datatype = BYTE, filetype: Datatype = BYTE, datarep: str = "native"
    ) -> None:
        etype.check_usable("etype")
        filetype.check_usable("filetype")
        if not 0 <= disp <= LARGEST:
            raise InvalidArgumentError(f"disp is {disp}: expected a number of bytes, 0 to 2**63 - 1")
        if datarep not in _DATAREPS:
            raise FileError(
                f"datarep is {datarep!r}: the representations of data are {', '.join(_DATAREPS)}",
                ERR_UNSUPPORTED_DATAREP,
            )
        self.disp, self.etype, self.filetype, self.datarep = disp, etype, filetype, datarep
        self.external = datarep == _EXTERNAL
        self.unit = etype.external.size if self.external else etype.size
        if etype.size == 0 or filetype.size % etype.size:
            raise InvalidArgumentError(
                f"a file type of {filetype.size} bytes does not consist of elementary types of {etype.size} bytes"
            )
        self._extent, self._size = filetype.extent, filetype.size
        self._offsets: IntArray | None = None
        self._lengths = self._starts = self._ends = np.empty(0, np.int64)
        if filetype.size and not is_gapless(filetype):
            if self.external:
                _check_sizes(filetype)
            self._flatten()

    @property
    def contiguous(self) -> bool:
        """True if the stream is contiguous in the file."""
        return self._offsets is None

    def _flatten(self) -> None:
        """Compute the runs of one file type: offsets in the file type, lengths, and offsets in the stream."""
        offsets, starts, lengths = self.filetype.layout.runs()
        ends = offsets + lengths
        if offsets[0] < 0 or (offsets[1:] < ends[:-1]).any():
            raise InvalidArgumentError(
                f"{self.filetype} cannot be a file type: its displacements are not ascending from 0 on, or overlap"
            )
        if int(ends[-1]) - int(offsets[0]) > self._extent:
            raise InvalidArgumentError(
                f"{self.filetype} cannot be a file type: its data reach over more than its extent of {self._extent} "
                "bytes, so that one item overlaps with the next"
            )
        self._offsets, self._lengths, self._starts, self._ends = offsets, lengths, starts, starts + lengths

    def nbytes(self, buffer: Buffer) -> int:
        """Return the number of bytes of the stream that the items of a buffer take.

        Raises:
            InvalidCountError: the bytes are not a whole number of elementary types, or the stream is empty.
        """
        nbytes = buffer.external_nbytes if self.external else buffer.nbytes
        if nbytes and not self._size:
            raise InvalidCountError(f"{nbytes} bytes have no place in a view whose file type has 0 bytes")
        if nbytes % self.unit:
            raise InvalidCountError(
                f"{nbytes} bytes are no whole number of elementary types of the view, of {self.unit} bytes each"
            )
        return nbytes

    def pieces(self, start: int, nbytes: int) -> tuple[IntArray, IntArray]:
        """Return the pieces of the file that hold a part of the stream: offsets and lengths in bytes, ascending."""
        if nbytes == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if self._offsets is None:
            return np.array([self.disp + start], np.int64), np.array([nbytes], np.int64)
        number, (first, skip), (last, stop) = len(self._offsets), self._run(start), self._run(start + nbytes - 1)
        index = np.arange(first, last + 1)
        tiles, runs = np.divmod(index, number)
        offsets = self.disp + tiles * self._extent + self._offsets[runs]
        lengths = self._lengths[runs]
        lengths[-1] = stop + 1
        offsets[0] += skip
        lengths[0] -= skip
        return _joined(offsets, lengths)

    def count(self, start: int, nbytes: int) -> int:
        """Return the approximate number of pieces of a part of the stream; the part has at least 1 byte."""
        if self._offsets is None:
            return 1
        return self._run(start + nbytes - 1)[0] - self._run(start)[0] + 1

    def batches(self, nbytes: int) -> Iterator[int]:
        """Yield the lengths of parts of the stream. The pieces of a part are few enough to keep them in memory."""
        step = nbytes
        if self._offsets is not None:
            step = max(1, _PIECES * self._size // len(self._offsets))
        for first in range(0, nbytes, step or 1):
            yield min(step, nbytes - first)

    def _run(self, at: int) -> tuple[int, int]:
        """Return the index (over all tiles) of the run that holds a stream byte, and the byte's offset in this run."""
        tile, within = divmod(at, self._size)
        run = int(np.searchsorted(self._starts, within, "right")) - 1
        return tile * len(self._starts) + run, within - int(self._starts[run])

    def position(self, at: int) -> int:
        """Return where a byte of the stream is in the file."""
        if self._offsets is None:
            return self.disp + at
        run, skip = self._run(at)
        tile, run = divmod(run, len(self._offsets))
        return self.disp + tile * self._extent + int(self._offsets[run]) + skip

    def before(self, end: int) -> int:
        """Return the number of bytes of the stream that lie before a byte of the file."""
        if not self._size:
            return 0
        if self._offsets is None:
            return max(0, end - self.disp)
        origin = int(self._offsets[0])
        if end <= self.disp + origin:
            return 0
        tile, within = divmod(end - self.disp - origin, self._extent)
        run = int(np.searchsorted(self._offsets, within + origin, "right")) - 1
        inside = min(within + origin - int(self._offsets[run]), int(self._lengths[run]))
        return tile * self._size + int(self._starts[run]) + inside

    def extent_of(self, datatype: Datatype) -> int:
        """Return the extent of a type in the file (MPI_File_get_type_extent).

        Raises:
            FileError: ERR_UNSUPPORTED_DATAREP: the type has gaps, and elements whose size in external32 differs.
        """
        if not self.external:
            return datatype.Get_extent()[1]
        if is_gapless(datatype):
            return datatype.external.size
        _check_sizes(datatype)
        return datatype.extent


def register_datarep(name: str, read: object, write: object) -> None:
    """Give another name to the native representation, in this process (MPI_Register_datarep).

    Args:
        name: the name.
        read, write: functions that convert data; both must be None.

    Raises:
        FileError: ERR_DUP_DATAREP: the name is taken. ERR_CONVERSION: a function was given.
    """
    if name in _DATAREPS:
        raise FileError(f"Register_datarep: there is a representation of data {name!r} already", ERR_DUP_DATAREP)
    if read is not None or write is not None:
        raise FileError(
            f"Register_datarep: {name!r} has functions that convert data, which are not called: convert the buffer "
            "before it is written, and after it was read",
            ERR_CONVERSION,
        )
    _DATAREPS.append(name)


def _check_sizes(datatype: Datatype) -> None:
    for basic, _ in datatype.signature:
        if basic.external.size != basic.size:
            raise FileError(
                f"{datatype} has gaps, and elements of {basic}, which take {basic.external.size} bytes in external32 "
                f"and {basic.size} here: use a type of fixed size, such as INT64_T",
                ERR_UNSUPPORTED_DATAREP,
            )


def _joined(offsets: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Merge pieces that are adjacent."""
    apart = offsets[1:] != offsets[:-1] + lengths[:-1]
    if apart.all():
        return offsets, lengths
    starts = np.concatenate(([0], np.flatnonzero(apart) + 1))
    return offsets[starts], np.add.reduceat(lengths, starts)
