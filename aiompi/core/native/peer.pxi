# What the common case of a message needs of a peer. `aiompi.core.pure.peer` has the same class in Python.

cdef int64_t OVERHEAD = 128  # bytes that an eager message costs beyond its payload, so that empty ones are bounded too
cdef int64_t MOST = 2**62  # more credit than any peer grants
cdef unsigned int EAGER = 1

cdef class Ring


cdef class PeerBase:
    """One process, as far as the common case of a message needs it."""

    cdef public object engine, link, error, finalize_error, landings, orphans
    cdef public dict _contexts
    cdef public long long rank
    cdef public int64_t credit, most_credit, _owed, _held, _hiwater, _ackmark
    cdef public Ring ring  # the one of `link`, once it is in use
    cdef public int64_t brief  # bytes of a message up to which it may be put into the ring as a whole

    def __init__(self, engine, long long rank):
        self.engine = engine
        self.rank = rank
        self._contexts = engine.contexts
        self.landings = set()
        self.orphans = []
        self.brief = engine.brief_limit

    cdef char *room(self, int64_t nbytes) except? NULL:
        """Return the place in the ring for a message that may be sent at once; NULL if it is to be sent otherwise."""
        cdef Ring ring = self.ring
        cdef char *place
        if ring is None or ring.queued or ring._busy or nbytes > self.brief or nbytes + OVERHEAD > self.credit:
            return NULL
        if <uint64_t>nbytes > ring.out.whole or writer_reserve(&ring.out, HEADER + nbytes, &place) <= 0:
            return NULL  # what is wrong with the ring is found there, too
        return place

    cdef int publish(self, char *place, uint64_t context, int source, int tag, int64_t nbytes) except -1:
        """Send the message whose payload is in its place."""
        cdef header_t header
        header.tag, header.source, header.credit = tag, source, <uint32_t>self._owed
        header.context, header.length, header.srqid, header.drqid = context, nbytes, 0, 0
        header_write(place, &header)
        self.credit -= nbytes + OVERHEAD
        self._owed = 0
        writer_publish(&self.ring.out, place, EAGER, HEADER + nbytes)
        return self.ring.wake()

    cdef bint put_bytes(self, uint64_t context, int source, int tag, const char *data, int64_t nbytes) except -1:
        """Send a short message at once; return False if it is to be sent otherwise."""
        cdef char *place = self.room(nbytes)
        if place == NULL:
            return False
        memcpy(place + HEADER, data, nbytes)
        self.publish(place, context, source, tag, nbytes)
        return True

    cdef bint put(self, uint64_t context, int source, int tag, payload, int64_t nbytes) except -1:
        """Do the same for memory in pieces."""
        cdef Ring ring = self.ring  # so that its memory stays, whatever the pieces do
        cdef char *place = self.room(nbytes)
        cdef char *to
        cdef Py_buffer view
        cdef int64_t rest = nbytes
        if place == NULL:
            return False
        to = place + HEADER
        for piece in payload:
            PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
            if view.len <= rest:
                memcpy(to, view.buf, view.len)
            to += view.len
            rest -= view.len
            PyBuffer_Release(&view)
        if rest:
            raise InternalError(f"the pieces of a message of {nbytes} bytes have {nbytes - rest}")
        self.publish(place, context, source, tag, nbytes)
        return True

    cpdef gain(self, uint64_t credit):
        """Note that the peer has returned credit."""
        cdef int64_t now = self.credit + <int64_t>(credit if credit < <uint64_t>MOST else <uint64_t>MOST)
        self.credit = now if now < self.most_credit else self.most_credit

    def frame(self, tuple header not None, payload):
        """Handle a complete frame. The payload is valid only during the call."""
        cdef Py_ssize_t nbytes = buffer_of(payload).len
        cdef unsigned int kind = header[0]
        cdef PostedReceive receive
        self.gain(header[3])
        if kind == EAGER:
            receive = self.matched(header[4], header[2], header[1])
            if receive is not None:
                self.spend(nbytes)
                receive.comes(header[2], header[1], header[7], payload)
                return
        self.handle(header, payload)

    cdef PostedReceive matched(self, object context, int source, int tag):
        """Take the receive that gets an eager message; None if there is none, or more is to be checked.

        No code of Python runs: while a frame is in its ring, a signal handler would read the same frame.
        """
        cdef PyObject *found = PyDict_GetItemWithError(self._contexts, context)
        if found == NULL:
            return None
        cdef MatchQueues queues = <MatchQueues?>found
        if not queues.comes_from(self.rank, source):
            return None
        return queues.match(source, tag)

    cdef bint below_mark(self, int64_t length) noexcept:
        """Owe the credit of an eager message, if it need not be returned at once; return True if so."""
        if self._owed + length + OVERHEAD >= self._ackmark:
            return False
        self._owed += length + OVERHEAD
        return True

    cdef int spend(self, int64_t length) except -1:
        """Return the credit of an eager message, in the next frame or in one of its own."""
        self._owed += length + OVERHEAD
        if self._owed >= self._ackmark:
            self._acknowledge()
        return 0

    def handle(self, header, payload):
        """Handle a frame that is not an eager message for which a receive is posted. Its credit has been noted."""
        raise NotImplementedError

    def _acknowledge(self):
        """Return credit, in a frame of its own if necessary."""
        raise NotImplementedError
