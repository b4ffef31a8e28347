# The base of a peer: it matches arriving eager messages, and counts credit (flow control). `aiompi.core.pure.peer` has
# the same class in Python.

cdef int64_t OVERHEAD = 128  # bytes of credit beyond the payload of a message, so that empty messages are bounded, too
cdef int64_t MOST = 2**62  # more credit than any peer grants

cdef extern from *:
    """
    /* Make an object of `type` by the constructor of `base`; the class's own __new__ and __init__ are not called. */
    static PyObject *new_by(PyObject *base, PyObject *type, PyObject *arguments) {
      return ((PyTypeObject *)base)->tp_new((PyTypeObject *)type, arguments, NULL);
    }

    /* Make an object without a call of __init__. */
    static PyObject *new_of(PyObject *type, PyObject *arguments) {
      if (!PyType_Check(type) || !((PyTypeObject *)type)->tp_new) return PyErr_Format(PyExc_TypeError, "a class is expected");
      return ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, arguments, NULL);
    }
    """
    object new_of(object, tuple)
    object new_by(object, object, tuple)

cdef tuple _NO_ARGUMENTS = ()

cdef enum:
    PARTS = 8  # pieces of a message that is published in parts

cdef enum:  # kinds of frames (see aiompi.wire.frame)
    EAGER = 1
    RTS = 4
    SYNCACK = 8
    INVITE = 15

cdef class Ring
cdef class Assistance


cdef class PeerBase:
    """The base of a peer (a process), which matches its eager messages; see `aiompi.engine.endpoint.Endpoint`."""

    cdef public object engine, link, error, finalize_error, landings, orphans, _withheld
    cdef public dict _contexts
    cdef public long long rank
    cdef public int64_t credit, most_credit, _owed, _held, _hiwater, _ackmark, _unanswered, _max_announced
    cdef public Ring ring  # the one of `link`, once it is in use
    cdef public int64_t brief  # bytes of the longest message that may enter the ring as a whole

    def __init__(self, engine, long long rank):
        self.engine = engine
        self.rank = rank
        self._contexts = engine.contexts
        self.landings = set()
        self.orphans = []
        self.brief = engine.brief_limit

    cdef char *room(self, int64_t nbytes) except? NULL:
        """Return the place in the ring for a message that may be sent now; NULL if the general path must send it."""
        cdef Ring ring = self.ring
        cdef char *place
        if ring is None or ring.queued or ring._busy or nbytes > self.brief or nbytes + OVERHEAD > self.credit:
            return NULL
        if <uint64_t>nbytes > ring.out.whole or writer_reserve(&ring.out, HEADER + nbytes, &place) <= 0:
            return NULL  # the general path also finds what is wrong with the ring
        return place

    cdef int publish(
        self, char *place, uint64_t context, int source, int tag, int64_t nbytes, uint64_t note=0
    ) except -1:
        """Send the message whose payload is in its place."""
        cdef header_t header
        self.describe(&header, context, source, tag, nbytes)
        header.drqid = note
        header_write(place, &header)
        writer_publish(&self.ring.out, place, EAGER, HEADER + nbytes)
        return self.ring.wake()

    cdef void describe(self, header_t *header, uint64_t context, int source, int tag, int64_t nbytes) noexcept:
        """Write the header of a message, and pay for the message."""
        header.tag, header.source, header.credit = tag, source, <uint32_t>self._owed
        header.context, header.length, header.srqid, header.drqid = context, nbytes, 0, 0
        self.credit -= nbytes + OVERHEAD
        self._owed = 0

    cdef bint put_bytes(self, uint64_t context, int source, int tag, const char *data, int64_t nbytes) except -1:
        """Send a short message at once; return False if the general path must send it."""
        cdef Py_buffer part
        cdef char *place = self.room(nbytes)
        if place == NULL:
            return False
        if nbytes > STEP:
            part.buf, part.len = <void *>data, nbytes
            self.publish_in_parts(&part, 1, context, source, tag, nbytes)
            return True
        memcpy(place + HEADER, data, nbytes)
        self.publish(place, context, source, tag, nbytes)
        return True

    cdef bint put(self, uint64_t context, int source, int tag, payload, int64_t nbytes) except -1:
        """Do what `put_bytes` does for memory in pieces."""
        if nbytes > STEP and len(payload) <= PARTS:
            return self.put_in_parts(context, source, tag, payload, nbytes)
        cdef Ring ring = self.ring  # the reference keeps the memory of the ring, whatever code the pieces run
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

    cdef bint put_in_parts(self, uint64_t context, int source, int tag, payload, int64_t nbytes) except -1:
        cdef Py_buffer parts[PARTS]
        cdef int count = 0
        cdef int64_t total = 0
        try:
            for piece in payload:
                if count == PARTS:
                    raise InternalError(f"a message has more than its {len(payload)} pieces")
                PyObject_GetBuffer(piece, &parts[count], PyBUF_SIMPLE)
                total += parts[count].len
                count += 1
            if total != nbytes:
                raise InternalError(f"the pieces of a message of {nbytes} bytes have {total}")
            if self.room(nbytes) == NULL:
                return False
            self.publish_in_parts(parts, count, context, source, tag, nbytes)
        finally:
            for i in range(count):
                PyBuffer_Release(&parts[i])
        return True

    cdef int publish_in_parts(
        self, const Py_buffer *parts, int count, uint64_t context, int source, int tag, int64_t nbytes
    ) except -1:
        """Send a message, for which the ring has room, in parts: the peer can read before all parts are written."""
        cdef header_t header
        cdef Ring ring = self.ring
        cdef int64_t rest = nbytes
        self.describe(&header, context, source, tag, nbytes)
        writer_begin(&ring.out, &header)
        for i in range(count):
            rest -= parts[i].len
            writer_piece(&ring.out, EAGER, <const char *>parts[i].buf, parts[i].len, rest == 0)
        return ring.wake()

    cdef bint put_items(self, uint64_t context, int source, int tag, uint64_t note, Items items, int64_t count, char *memory) except -1:
        """Do what `put_bytes` does for items, which are packed into the ring."""
        cdef char *place = self.room(count * items.size)
        if place == NULL:
            return False
        items.move_all(count, memory, place + HEADER, False)
        self.publish(place, context, source, tag, count * items.size, note)
        return True

    cdef SendBase expose(self, send_class, uint64_t context, int source, int tag, payload, int64_t nbytes):
        """Announce a long message that the peer is to copy; return None if the general path must send it."""
        cdef Ring ring = self.ring
        cdef ProgressBase engine
        cdef SendBase send
        cdef exposed_t table
        cdef header_t header
        if ring is None or ring.queued or ring._busy or self._unanswered >= self._max_announced:
            return None
        if self.error is not None or self.finalize_error is not None or not isinstance(self.engine, ProgressBase):
            return None
        engine = <ProgressBase>self.engine
        if engine.error is not None or not ring.exposes(len(payload), nbytes) or not ring.describe(payload, &table):
            return None
        send = <SendBase?>new_of(send_class, _NO_ARGUMENTS)
        send.begin(engine, self, payload, nbytes)
        send.acknowledged = False
        send.released = True
        send.context = context
        send.srqid = engine.next_id()
        send.expendable = engine.lenient and nbytes <= engine.eager_limit
        engine.sends[send.srqid] = send
        header.kind, header.tag, header.source, header.credit = RTS, tag, source, <uint32_t>self._owed
        header.context, header.length, header.srqid, header.drqid = context, nbytes, send.srqid, 0
        if ring.put_exposed(&header, &table) <= 0:
            del engine.sends[send.srqid]
            return None  # the general path also finds what is wrong with the ring
        self._owed = 0
        self._unanswered += 1
        return send

    cdef SendBase sending(self, uint64_t srqid):
        """Return the send that the peer must still answer; None if there is no such send."""
        cdef PyObject *found
        if not isinstance(self.engine, ProgressBase):
            return None
        found = PyDict_GetItemWithError((<ProgressBase>self.engine).sends, srqid)
        if found == NULL or not isinstance(<object>found, SendBase) or (<SendBase>found).peer is not self:
            return None
        return <SendBase>found

    cdef SendBase answered(self, uint64_t srqid):
        """Take the send that the peer has answered; None if the general path must do or check more."""
        cdef SendBase send = self.sending(srqid)
        if send is None or send.unsent or self._withheld is not None or srqid in (<ProgressBase>self.engine).assisted:
            return None
        del (<ProgressBase>self.engine).sends[srqid]
        self._unanswered -= 1
        return send

    cdef SendBase invited(self, header_t *h):
        """Return the send whose message the peer has invited this rank to write; None if the frame is invalid."""
        cdef SendBase send = self.sending(h.srqid)
        if send is None or send.invited or self.ring is None or self.ring.process is None:
            return None
        if h.length > send.nbytes or h.tag <= 0 or h.drqid + h.length < h.length:
            return None
        return send

    cdef int assist(self, SendBase send, header_t *h) except -1:
        """Write parts of a send's message into the memory of the peer."""
        cdef Ring ring = self.ring  # the ring of the message; the invitation may have come through another one
        cdef Assistance assistance = Assistance(ring.process, send.payload, h.length, h.drqid, h.tag, ring)
        send.invited = True
        if assistance.write(AT_ONCE):
            self.assist_on(send, assistance.write)
        return 0

    cdef char *place_to_say(self) noexcept:
        """Return the place in the ring for a frame without payload; NULL if the general path must send the frame."""
        cdef Ring ring = self.ring
        cdef char *place
        if ring is None or ring.queued or ring._busy or writer_reserve(&ring.out, HEADER, &place) <= 0:
            return NULL
        return place

    cdef int say(self, uint32_t kind, int tag, uint64_t length, uint64_t srqid, uint64_t drqid) except -1:
        """Send a frame without payload."""
        cdef header_t header
        cdef char *place = self.place_to_say()
        if self.error is not None:
            return 0
        if place == NULL:
            self.emit(kind, tag, length=length, srqid=srqid, drqid=drqid)
            return 0
        header.tag, header.source, header.credit = tag, 0, <uint32_t>self._owed
        header.context, header.length, header.srqid, header.drqid = 0, length, srqid, drqid
        header_write(place, &header)
        self._owed = 0
        writer_publish(&self.ring.out, place, kind, HEADER)
        return self.ring.wake()

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
        """Take the receive that gets an eager message; None if there is none, or the general path must check more.

        No Python code may run here. A signal handler would read the same frame again, since it is still in the ring.
        """
        cdef PyObject *found = PyDict_GetItemWithError(self._contexts, context)
        if found == NULL:
            return None
        cdef MatchQueues queues = <MatchQueues?><object>found
        if not queues.comes_from(self.rank, source):
            return None
        return queues.match(source, tag)

    cdef bint keep(self, MessageBase message, header_t *h, const char *payload, int64_t nbytes) except -1:
        """Keep an eager message that no receive matches; return False if the general path must do it.

        No Python code may run here, as in `matched`.

        Args:
            message: a new object for it.
        """
        cdef PyObject *found = PyDict_GetItemWithError(self._contexts, h.context)
        cdef MatchQueues queues
        if message.kept:
            raise InternalError("a message that is kept is not made anew")
        if found == NULL or h.srqid or nbytes >= LARGE or not self.may_hold(nbytes):
            return False
        queues = <MatchQueues?><object>found
        if not queues.comes_from(self.rank, h.source) or not queues.keeps():
            return False
        try:
            message._data = PyByteArray_FromStringAndSize(payload, nbytes)
        except MemoryError:
            return False  # the general path keeps it without its bytes
        message.peer, message.matcher = self, queues
        message.entry.source, message.entry.tag = h.source, h.tag
        message.length, message.note, message.eager = nbytes, h.drqid, nbytes + OVERHEAD
        message.plain = True
        queues.keep(message)
        self._held += message.eager
        return True

    cdef int hand_over(self, MessageBase message, PostedReceive receive) except -1:
        """Give a message that is `plain` to the receive that matches it."""
        cdef bytearray data = <bytearray?>message._data
        cdef int64_t eager = message.eager
        (<MatchQueues?>message.matcher).remove_unexpected(message)
        message._data = None
        message.eager = 0
        receive.entry.order = message.entry.order
        receive.note = message.note
        self._held -= eager
        self._owed += eager
        receive.take_own(message.entry.source, message.entry.tag, data)
        if self._owed >= self._ackmark:
            self._acknowledge()
        return 0

    cdef bint below_mark(self, int64_t length) noexcept:
        """Add an eager message to the credit that this rank owes; if credit is due now, only return False."""
        if self._owed + length + OVERHEAD >= self._ackmark:
            return False
        self._owed += length + OVERHEAD
        return True

    cdef bint may_hold(self, int64_t length) noexcept:
        """Return True if the credit of an eager message is granted."""
        return self._held + length + OVERHEAD <= self._hiwater

    def land_at(self, receive, header):
        """Return the landing of the rest of a message that is matched."""
        raise NotImplementedError

    cdef int spend(self, int64_t length) except -1:
        """Return the credit of an eager message to its sender, with the next frame or in a frame of its own."""
        self._owed += length + OVERHEAD
        if self._owed >= self._ackmark:
            self._acknowledge()
        return 0

    def handle(self, header, payload):
        """Handle any frame but an eager message with a posted receive. The credit of the frame has been noted."""
        raise NotImplementedError

    def emit(self, kind, tag=0, source=0, context=0, length=0, srqid=0, drqid=0):
        """Send a frame without payload."""
        raise NotImplementedError

    def fetch(self, receive, source, tag, length, srqid, offer):
        """Get a long message for its receive: copy it, or ask for it."""
        raise NotImplementedError

    def assist_on(self, send, write):
        """Write the rest of a message into memory of the peer; this copy takes turns with other copies."""
        raise NotImplementedError

    def copy_on(self, receive, memory, srqid, offer, filled):
        """Copy the rest of a message that the peer offers; this copy takes turns with other copies."""
        raise NotImplementedError

    def _acknowledge(self):
        """Return credit, in a separate frame if necessary."""
        raise NotImplementedError
