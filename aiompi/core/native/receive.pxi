# The base of a receive: its matching, and the delivery of a message that arrives whole. `aiompi.core.pure.receive` has
# the same class in Python.

cdef size_t SHORT = 16 * 1024  # bytes up to which a message is never decoded in steps


cdef class PostedReceive(Request):
    """The base of a receive: its matching, and the delivery of a message that arrives whole."""

    cdef entry_t entry
    cdef bint posted, plain
    cdef object _memory
    cdef char *target
    cdef Py_ssize_t capacity
    cdef public object matcher, decode, status_out, data, landing, _decoding
    cdef public long long peer_rank
    cdef public uint64_t length, note
    cdef public int source, tag
    # the items into which a message of exactly the right length is unpacked, if it comes in one piece
    cdef Items items
    cdef int64_t count
    cdef public bint stays, unpacks

    def __init__(self, engine, matcher, memory, int source, int tag, long long peer_rank, decode=None, status=None):
        self.prepare(engine, matcher, memory, source, tag, peer_rank, decode, status)

    cdef int prepare(
        self, engine, matcher, memory, int source, int tag, long long peer_rank, decode, status
    ) except -1:
        if self.posted:
            raise InternalError("a receive that is posted is not made anew")
        self._engine = engine
        self.matcher = matcher
        self.go_into(memory)
        self.entry.source = source
        self.entry.tag = tag
        self.peer_rank = peer_rank
        self.decode = decode
        self.status_out = status
        self.plain = type(memory) is Span and decode is None and status is None
        self.source = self.tag = ANY
        return 0

    @property
    def memory(self):
        if type(self._memory) is Span:
            self._memory = PyMemoryView_FromObject(self._memory)
        return self._memory

    @memory.setter
    def memory(self, memory):
        self.go_into(memory)

    cdef int go_into(self, memory) except -1:
        cdef Py_buffer *target
        if type(memory) is Span:
            self.target, self.capacity = (<Span>memory).memory.data, (<Span>memory).memory.nbytes
        elif memory is not None:
            target = buffer_of(memory)
            if target.readonly or target.itemsize != 1 or not PyBuffer_IsContiguous(target, b"C"):
                raise TypeError("a receive goes into writable bytes that are one piece of memory")
            self.target, self.capacity = <char *>target.buf, target.len
        self._memory = memory
        return 0

    @property
    def want_source(self):
        return self.entry.source

    @property
    def want_tag(self):
        return self.entry.tag

    @property
    def order(self):
        return self.entry.order

    @order.setter
    def order(self, uint64_t order):
        self.entry.order = order

    @property
    def status(self):
        return Status.of(self.source, self.tag, self.length, self._cancelled)

    def result(self):
        value = self.outcome()
        return value if self.decode is not None else self.status

    def outcome(self):
        if self._done and self.status_out is not None:
            self.status_out.assign(self.status)
        if self._error is not None or not self._done:
            if self._done and type(self._error) is not ProcessFailedPendingError:
                self._let_go()
            return self.plain_result()
        self._memory = None  # an exporter such as bytearray may be resized from now on
        data, decode = self.data, self.decode
        if data is not None and decode is not None:
            self.data = None
            try:
                self._value = decode(data) if self._decoding is None else self._decoding.result()
                self._decoding = None
            except Exception as error:
                self._error = error
                raise
            except BaseException:
                self.data = data  # so that the next call can decode it
                raise
        return self._value

    def outlives_await(self):
        return False

    def take(self, int source, int tag, payload, bint own=False):
        """Take a whole message.

        Args:
            own: True if `payload` is memory that now belongs to the receive.
        """
        cdef Py_buffer *view = buffer_of(payload)
        if own and self._memory is None:
            self.take_data(source, tag, payload, view.len)
        else:
            self.fill(source, tag, <const char *>view.buf, view.len)

    cdef int take_own(self, int source, int tag, bytearray data) except -1:
        """Do what `take` does with memory that now belongs to the receive."""
        if self._memory is None:
            return self.take_data(source, tag, data, len(data))
        return self.fill(source, tag, PyByteArray_AS_STRING(data), len(data))

    cdef int take_data(self, int source, int tag, data, uint64_t nbytes) except -1:
        self.source, self.tag, self.length = source, tag, nbytes
        self.data = data
        return self.taken()

    cdef int comes(self, int source, int tag, uint64_t note, payload) except -1:
        """Take a whole message, after `MatchQueues.match`."""
        if self._done:
            self.resume()
        self.note = note
        self.take(source, tag, payload)
        return 0

    cdef int fill(self, int source, int tag, const char *data, Py_ssize_t nbytes) except -1:
        """Take a whole message into memory without gaps. The bytes of `data` are valid only during the call."""
        self.source, self.tag, self.length = source, tag, nbytes
        if self._memory is not None and type(self._memory) is not Span and view_released(self._memory):
            raise ValueError("the memory of a receive was released")
        if self._memory is None:
            if self.items is not None and nbytes == self.count * self.items.size:
                self.items.move_all(self.count, self.target, <char *>data, True)
                return self.finish()
            try:
                if nbytes < LARGE:
                    self.data = PyByteArray_FromStringAndSize(data, nbytes)
                else:
                    self.data = copied(PyMemoryView_FromMemory(<char *>data, nbytes, PyBUF_READ))
            except MemoryError:
                self.out_of_memory(source, tag, nbytes)
                return 0
            return self.taken()
        if nbytes > self.capacity:
            memmove(self.target, data, self.capacity)
            self._truncated(self.capacity)
            return 0
        memmove(self.target, data, nbytes)  # a message to oneself may lie in the same memory
        return self.finish()

    cdef int taken(self) except -1:
        """Complete the receive, which has the bytes of its message."""
        if self.length > SHORT and self._decodes_in_steps(self.data):
            return 0
        return self.finish()

    # What is rare; see `aiompi.engine.receive.Receive`.

    def resume(self):
        """Make this receive incomplete again: a failure had interrupted it, and now its message has come."""
        raise NotImplementedError

    def out_of_memory(self, source, tag, length):
        """Match a message for which this rank has no memory, and fail."""
        raise NotImplementedError

    def _let_go(self):
        raise NotImplementedError

    def _truncated(self, capacity):
        raise NotImplementedError

    def _decodes_in_steps(self, data):
        raise NotImplementedError
