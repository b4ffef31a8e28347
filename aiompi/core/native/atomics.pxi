# Words in memory that processes share, for one-sided communication.

cdef extern from "atomics.h":
    enum:
        ATOMIC_LOAD
        ATOMIC_STORE
        ATOMIC_ADD
        ATOMIC_EXCHANGE
        ATOMIC_COMPARE
    uint64_t atomic_do(int, void *, int, uint64_t, uint64_t)

cdef extern from "fetch.h":
    enum:
        FETCH_REPLACE
        FETCH_ONLY
    combine_t *combine_of(int, int, size_t)
    void fetch_and_combine(combine_t *, int, void *, const void *, void *, size_t, size_t) nogil
    void combine_alone(combine_t *, int, void *, const void *, void *, size_t, size_t) nogil
    void fetch_and_swap(void *, const void *, const void *, void *, size_t)
    bint fetch_serves(object)
    bint fetch_whole(object)


@cython.final
@cython.no_gc_clear  # to clear the object would release the memory without its exporter's knowledge
cdef class Atomics:
    """Unsigned words of 1, 2, 4 or 8 bytes in memory; each word is read and written atomically.

    Args:
        memory: memory that can be written to. It is kept as long as this object lives.
    """

    cdef Py_buffer _view

    def __cinit__(self, memory):
        PyObject_GetBuffer(memory, &self._view, PyBUF_WRITABLE)

    def __dealloc__(self):
        PyBuffer_Release(&self._view)

    cdef char *place(self, Py_ssize_t offset, int size) except NULL:
        if size != 1 and size != 2 and size != 4 and size != 8:
            raise InternalError(f"a word has 1, 2, 4 or 8 bytes, not {size}")
        if offset < 0 or self._view.len < size or offset > self._view.len - size or \
                (<uint64_t>self._view.buf + <uint64_t>offset) % size:
            raise InternalError(f"there is no word of {size} bytes at {offset} in {self._view.len} bytes of memory")
        return <char *>self._view.buf + offset

    def load(self, Py_ssize_t offset, int size):
        """Return a word."""
        return atomic_do(ATOMIC_LOAD, self.place(offset, size), size, 0, 0)

    def store(self, Py_ssize_t offset, int size, value):
        """Set a word to the lowest bytes of a value."""
        atomic_do(ATOMIC_STORE, self.place(offset, size), size, lowest(value), 0)

    def add(self, Py_ssize_t offset, int size, value):
        """Add to a word, which wraps around; return its former value."""
        return atomic_do(ATOMIC_ADD, self.place(offset, size), size, lowest(value), 0)

    def exchange(self, Py_ssize_t offset, int size, value):
        """Set a word to a value; return its former value."""
        return atomic_do(ATOMIC_EXCHANGE, self.place(offset, size), size, lowest(value), 0)

    def compare_and_swap(self, Py_ssize_t offset, int size, expected, value):
        """Set a word to `value` if the word equals `expected`; return its former value."""
        return atomic_do(ATOMIC_COMPARE, self.place(offset, size), size, lowest(value), lowest(expected))

    def combine(self, Py_ssize_t offset, elements, int operation, before=None):
        """Combine elements atomically with elements in memory; return False if only the memory's owner can do this.

        Args:
            elements: array of the operands of the lower ranks.
            operation: number of a predefined operation, `FETCH_REPLACE` or `FETCH_ONLY`.
            before: array of the same length, which gets the former values of the elements; None to drop these values.
        """
        cdef memory_t source, kept
        cdef combine_t *function
        cdef int size = operands(elements, operation, &source, &function)
        if not size or (<uint64_t>self._view.buf + <uint64_t>offset) % size:
            return False
        kept.data = NULL
        if before is not None and not (is_array(before) and array_memory(before, &kept) and not kept.readonly
                                       and kept.nbytes == source.nbytes):
            raise InternalError("what is fetched has no room")
        if not source.nbytes:
            return True
        self.place(offset, size)
        if source.nbytes > self._view.len - offset:
            raise InternalError(f"{source.nbytes} bytes at {offset} are not within {self._view.len} bytes of memory")
        with nogil:
            fetch_and_combine(
                function, operation, <char *>self._view.buf + offset, source.data, kept.data, source.nbytes / size, size
            )
        return True


cdef int operands(elements, int operation, memory_t *memory, combine_t **function) except -1:
    """Find the memory of an array of operands, and the function that combines two elements.

    Returns:
        The bytes of an element; 0 if the processor cannot combine such elements atomically.
    """
    cdef int size
    if not is_array(elements) or not array_memory(elements, memory) or not fetch_serves(elements):
        return 0
    size = <int>array_itemsize(elements)
    function[0] = NULL
    if operation < FETCH_REPLACE:
        function[0] = combine_of(operation, array_number(elements), size)
        if function[0] == NULL:
            return 0
    return size


cdef uint64_t lowest(value) except? 0:
    """Return the lowest 8 bytes of an integer."""
    return value & 0xFFFFFFFFFFFFFFFF
