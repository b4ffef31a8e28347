# The memory of messages as bytes. `aiompi.core.pure.buffers` has the same functions in Python.
#
# NumPy's header declares the structure of an array, so the core finds an array's memory without importing NumPy and
# without exporting a buffer.

cdef object _ndarray = None  # NumPy's class, once NumPy has been imported


#: bytes up to which an array is copied to be sent, because a copy takes less time than a view of its memory
cdef Py_ssize_t COPIED = 1024


@cython.final
@cython.freelist(64)
cdef class Span:
    """The memory of an array as bytes. A span keeps the array, and makes a memoryview only for callers that need it."""

    cdef object array
    cdef memory_t memory

    def __len__(self):
        return self.memory.nbytes

    def __getbuffer__(self, Py_buffer *view, int flags):
        memory_export(self, &self.memory, view, flags)


cdef class Exporter:
    """An object with the buffer protocol, which exports the memory that its method `tomemory` returns."""

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyObject_GetBuffer(self.tomemory(), view, flags)


cdef bint is_array(object spec):
    global _ndarray
    if <object>Py_TYPE(spec) is _ndarray:
        return True
    if _ndarray is None and "numpy" in _modules:
        found = getattr(_modules["numpy"], "ndarray", None)  # not while it is being imported
        if array_class(found):
            _ndarray = found
        return <object>Py_TYPE(spec) is _ndarray
    return False


def plain_bytes(array):
    """Return the memory of a NumPy array of plain numbers without gaps, in the order of memory.

    Returns:
        None for all other objects.
    """
    cdef memory_t memory
    if not is_array(array) or not array_memory(array, &memory):
        return None
    return PyMemoryView_FromObject(span_of(array, memory))


cdef Py_buffer *buffer_of(view) except NULL:
    """Return the buffer of a memoryview."""
    if not PyMemoryView_Check(view):
        raise TypeError(f"a memoryview is expected, not {view!r}")
    if view_released(view):
        raise ValueError("operation forbidden on released memoryview object")
    return PyMemoryView_GET_BUFFER(view)


def overlap(one, other):
    """Return True if two memoryviews of contiguous bytes share a byte."""
    cdef Py_buffer *a = buffer_of(one)
    cdef Py_buffer *b = buffer_of(other)
    return a.len > 0 and b.len > 0 and <char *>a.buf < <char *>b.buf + b.len and <char *>b.buf < <char *>a.buf + a.len


def outgoing(spec):
    """Return the bytes to send for a buffer specification of a common kind, as a copy if they are few.

    The common kinds are NumPy arrays of plain numbers. An array without gaps is sent in the order of memory, a short
    array with gaps in the order of the indices. [memory, type] and [memory, count, type] are common too, if the memory
    is contiguous and either the message is short or the memory is an array.

    Returns:
        None for all other specifications, and for wrong ones.
    """
    cdef memory_t memory
    if is_array(spec):
        if not array_memory(spec, &memory):  # NumPy copies an array with gaps, in the order of the indices
            return spec.tobytes() if array_plain(spec) and spec.nbytes <= SHORT else None
        if memory.nbytes <= COPIED:
            return PyBytes_FromStringAndSize(memory.data, memory.nbytes)
        return PyMemoryView_FromObject(span_of(spec, memory))
    return items_of(spec, False)


def incoming(spec):
    """Return the memory of a buffer specification as the destination of a message, in the order of memory.

    Returns:
        None if `outgoing` returns None for the specification, if the memory is read-only, or if the message must be
        unpacked into the memory.
    """
    cdef memory_t memory
    if is_array(spec):
        return span_of(spec, memory) if array_memory(spec, &memory) and not memory.readonly else None
    return items_of(spec, True)


cdef object items_of(spec, bint writable):
    """Return the message or the destination of [memory, type] or [memory, count, type]."""
    cdef Py_ssize_t number = len(spec) if type(spec) is list or type(spec) is tuple else 0
    cdef int64_t count
    cdef Items items
    cdef _Area area
    if number != 2 and number != 3:
        return None
    found = getattr(spec[number - 1], "usable_items", None)
    if type(found) is not Items:
        return None
    items = <Items>found
    memory = spec[0]
    area = _Area.__new__(_Area)
    if items.extent <= 0 or not area.of(memory, writable):
        return None
    count = small(spec[1]) if number == 3 else area.memory.nbytes // items.extent
    if not items.fit(count, area.memory.nbytes) or (number == 2 and area.memory.nbytes % items.extent):
        return None
    if count and items.size > MOST // count:
        return None  # no memory has room for so much
    if items.dense and is_array(memory) and (writable or count * items.size > COPIED):
        area.memory.nbytes = count * items.size
        span = span_of(memory, area.memory)
        return span if writable else PyMemoryView_FromObject(span)
    if writable or count * items.size > SHORT:
        return None
    message = PyBytes_FromStringAndSize(NULL, count * items.size)
    items.copy(count, items.extent, items.size, area.memory.data, <char *>message, False)
    return message


cdef object plain_of(object spec, memory_t *memory):
    """Find the memory of the array in a specification, and return the array.

    The specification is the array itself, or [array, type] or [array, count, type] with dense items.
    """
    if is_array(spec):
        return spec if array_memory(spec, memory) else None
    found = items_of(spec, True)
    if type(found) is not Span:
        return None
    memory[0] = (<Span>found).memory
    return (<Span>found).array


cdef Span span_of(spec, memory_t memory):
    cdef Span span = Span.__new__(Span)
    span.array = spec
    span.memory = memory
    return span
