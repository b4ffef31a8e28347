# Packing and unpacking. `aiompi.datatype.layout.copies` has the same class in Python.

from libc.stdlib cimport calloc, free
from libc.string cimport strchr

cdef extern from "strided.h" nogil:
    ctypedef struct dim_t:
        int64_t count, memory, packed
    ctypedef struct block_t:
        int64_t memory, packed, run, low, high, end, places, dims
        const int64_t *offsets
        const int64_t *starts
        const int64_t *runs
        int word
        dim_t *dim
    void copy_block(const block_t *, int64_t, int64_t, int64_t, char *, char *, int)

#: dims of a block, as many as NumPy's arrays have at most
cdef Py_ssize_t MOST_DIMS = 64
#: bytes from which other threads may run during a copy
cdef int64_t LONG_COPY = 64 * 1024


def _in_message(dim):
    return -abs(dim[2])


def _in_memory(dim):
    return -abs(dim[1])


cdef class Copies:
    """The copies between memory and a message that the parts of a layout describe.

    Args:
        parts: strided blocks and scattered runs.
        words: for each part, the size in bytes (2, 4 or 8) of the words whose byte order is reversed, or 0 for no
            reversal; by default 0 for all parts.

    Raises:
        ValueError: a part has more dims than an array of NumPy.
    """

    cdef list arrays  # of places, to which blocks refer
    cdef block_t **blocks
    cdef Py_ssize_t number
    cdef int64_t low, high, end

    def __init__(self, parts, words=None):
        cdef Py_ssize_t i
        parts = tuple(parts)
        if self.blocks != NULL:
            raise InternalError("copies are made once")
        self.arrays = []
        self.blocks = <block_t **>calloc(len(parts) or 1, sizeof(void *))
        if self.blocks == NULL:
            raise MemoryError
        for i, part in enumerate(parts):
            self.add(part, words[i] if words is not None else 0)

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.number):
            free(self.blocks[i])
        free(self.blocks)

    cdef int add(self, part, int word) except -1:
        cdef tuple dims = part.dims
        cdef block_t *block
        if len(dims) > MOST_DIMS:
            raise ValueError(f"{len(dims)} dims: the most are {MOST_DIMS}")
        block = <block_t *>calloc(1, sizeof(block_t) + 2 * len(dims) * sizeof(dim_t))
        if block == NULL:
            raise MemoryError
        block.word = word
        try:
            self.describe(block, part, dims)
        except BaseException:
            free(block)
            raise
        # Only now, so that no copy uses an incomplete block.
        self.blocks[self.number] = block
        self.number += 1
        self.low = block.low if self.number == 1 or block.low < self.low else self.low
        self.high = block.high if self.number == 1 or block.high > self.high else self.high
        self.end = block.end if block.end > self.end else self.end
        return 0

    cdef int describe(self, block_t *block, part, tuple dims) except -1:
        cdef Py_ssize_t i = 0
        block.dims = len(dims)
        ordered = [*sorted(dims, key=_in_message), *sorted(dims, key=_in_memory)]
        for i, (count, memory, packed) in enumerate(ordered):
            block.dim[i].count, block.dim[i].memory, block.dim[i].packed = count, memory, packed
        offsets = getattr(part, "offsets", None)
        if offsets is None:
            block.memory, block.packed, block.run = part.memory, part.packed, part.run
        else:
            block.places = len(offsets)
            if not block.places:
                raise InternalError("there are no places")
            block.offsets, block.starts = self.numbers(offsets, block.places), self.numbers(part.packed, block.places)
            if isinstance(part.runs, int):
                block.run = part.runs
            else:
                block.runs = self.numbers(part.runs, block.places)
        block.low, block.high = part.span()
        block.end = part.packed_end()
        return 0

    cdef const int64_t *numbers(self, array, Py_ssize_t number) except NULL:
        cdef memory_t memory
        array = array.astype("=i8", order="C", copy=False)
        self.arrays.append(array)
        if not is_array(array) or not array_memory(array, &memory) or memory.nbytes != 8 * number:
            raise InternalError(f"{number} places are expected, not {array!r}")
        return <const int64_t *>memory.data

    def move(self, memory, base, message, bint unpacking):
        """Copy between memory and a message.

        Args:
            memory: contiguous bytes.
            base: position in it of address 0 of the layout.
            message: contiguous bytes.
            unpacking: True to copy from the message into memory, False for the other direction.

        Returns:
            False if a byte is outside of the memory or of the message, or the destination is read-only. Then nothing
            has been copied.
        """
        cdef _Area inside = _Area.__new__(_Area)
        cdef _Area outside = _Area.__new__(_Area)
        cdef int64_t at
        try:
            at = base
        except OverflowError:
            return not self.number
        if not self.number:
            return True
        if not (inside.of(memory, unpacking) and outside.of(message, not unpacking) and -MOST // 2 < at < MOST // 2):
            return False
        if self.low < -at or self.high > inside.memory.nbytes - at or self.end > outside.memory.nbytes:
            return False
        self.copy(1, 0, 0, inside.memory.data + at, outside.memory.data, unpacking)
        return True

    cdef void copy(self, int64_t count, int64_t extent, int64_t size, char *memory, char *packed, bint unpacking):
        if count * self.end >= LONG_COPY:
            with nogil:
                self.copy_all(count, extent, size, memory, packed, unpacking)
        else:
            self.copy_all(count, extent, size, memory, packed, unpacking)

    cdef void copy_all(
        self, int64_t count, int64_t extent, int64_t size, char *memory, char *packed, bint unpacking
    ) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.number):
            copy_block(self.blocks[i], count, extent, size, memory, packed, unpacking)


cdef uint64_t _items_made = 0


@cython.final
cdef class Items(Copies):
    """The items of a datatype in one representation, for calls with arguments of the common kinds.

    Args:
        parts, words: see `Copies`.
        size: bytes of an item in a message.
        extent: bytes from an item to the next in memory.
        overlapping: function that returns True if an item contains a byte of memory twice.
    """

    cdef int64_t size, extent
    cdef uint64_t serial  # no other items have it
    cdef object overlapping
    cdef bint dense

    def __init__(self, parts, words, int64_t size, int64_t extent, overlapping):
        global _items_made
        Copies.__init__(self, parts, words)
        _items_made += 1
        self.serial = _items_made
        if self.number and (size <= 0 or self.end > size):
            raise InternalError(f"an item of {size} bytes ends at {self.end}")
        self.size = size
        self.extent = extent
        self.overlapping = overlapping
        self.dense = self.number == 1 and not self.blocks[0].dims and not self.blocks[0].places and \
            not self.blocks[0].word and self.low == 0 and self.high == size == extent

    def pack(self, spec, unit, position):
        """Append items to a packing unit.

        Args:
            spec: memory of as many whole items as it holds, or [memory, count].
            unit: memory of the packing unit.
            position: bytes of it that are in use.

        Returns:
            The new position; -1 if the arguments are of other kinds, or wrong. Then nothing has been copied.
        """
        return self.move_items(spec, unit, position, False)

    def unpack(self, unit, position, spec):
        """Take items out of a packing unit. The arguments and the result are those of `pack`."""
        if self.extent < self.high - self.low or (self.overlapping is not None and self.overlapping()):
            return -1
        self.overlapping = None
        return self.move_items(spec, unit, position, True)

    cdef void move_all(self, int64_t count, char *memory, char *packed, bint unpacking) noexcept:
        """Copy items; the caller has made sure of their places."""
        self.copy_all(count, self.extent, self.size, memory, packed, unpacking)

    cdef bint fit(self, int64_t count, int64_t nbytes) noexcept:
        """Return True if `count` is not negative, and `count` items lie within memory of `nbytes` bytes."""
        if self.extent <= 0 or not self.number or count < 0:
            return False
        return count == 0 or (self.low >= 0 and self.high <= nbytes and count - 1 <= (nbytes - self.high) // self.extent)

    cdef int64_t move_items(self, spec, unit, position, bint unpacking) except -2:
        cdef _Area inside = _Area.__new__(_Area)
        cdef _Area outside = _Area.__new__(_Area)
        cdef int64_t start = small(position), count = -1, nbytes
        if type(spec) is list and len(<list>spec) == 2:
            count = small((<list>spec)[1])
            spec = (<list>spec)[0]
            if count < 0:
                return -1
        if start < 0 or self.extent <= 0:
            return -1
        if not inside.of(spec, unpacking) or not outside.of(unit, not unpacking):
            return -1
        nbytes = inside.memory.nbytes
        if count < 0:  # an item may reach beyond its extent, into its successors
            count = max(<int64_t>0, min(nbytes // self.extent, (nbytes - self.high) // self.extent + 1))
        if not self.fit(count, nbytes) or start > outside.memory.nbytes:
            return -1
        if count > (outside.memory.nbytes - start) // self.size:
            return -1
        self.copy(count, self.extent, self.size, inside.memory.data, outside.memory.data + start, unpacking)
        return start + count * self.size


cdef int64_t small(number):
    """Return a number that is at least 0 and fits in 63 bits; -1 for anything else."""
    if type(number) is not int:
        return -1
    try:
        return max(<int64_t>-1, <int64_t>number)
    except OverflowError:
        return -1


@cython.final
@cython.freelist(8)
@cython.no_gc
cdef class _Area:
    """The memory of an argument, exported as long as this object lives."""

    cdef memory_t memory
    cdef Py_buffer view
    cdef bint exported

    def __dealloc__(self):
        if self.exported:
            PyBuffer_Release(&self.view)

    cdef bint of(self, spec, bint writable) except -1:
        """Find the memory; return False if it has gaps or holds references, or is read-only but must be writable."""
        if is_array(spec):
            return array_memory(spec, &self.memory) and not (writable and self.memory.readonly)
        if not PyObject_CheckBuffer(spec):
            return False
        PyObject_GetBuffer(spec, &self.view, PyBUF_FULL_RO)
        self.exported = True
        if not PyBuffer_IsContiguous(&self.view, b"C") or (writable and self.view.readonly):
            return False
        if self.view.format != NULL and strchr(self.view.format, b"O") != NULL:
            return False
        self.memory.data, self.memory.nbytes = <char *>self.view.buf, self.view.len
        return True
