# The two rings of a pair of ranks, in one segment of shared memory. ring.h has the layout, and the reasons why it is
# correct.

# cost of a frame beside its payload: the number of bytes that are read in the same time
cdef enum:
    FRAME_COST = 4096
    FIRST_PAYLOAD = 1     # kinds of frames that have a payload: these and DATA (see aiompi.wire.frame)
    LAST_PAYLOAD = 3
    DATA = 7
    GIL_FREE = 131072     # bytes of a copy for which the lock of the interpreter is released
    LONG_PIECE = 8192     # least average bytes of the pieces of an exposed message: each piece takes system calls
    AT_ONCE = 4194304     # bytes that are copied between processes before the event loop gets a turn
    RING_PREFIX = 4096    # bytes of a segment before its rings
    RING_LAYOUT = 4       # number of this layout: ranks with another one do not share memory


PREFIX = RING_PREFIX
LAYOUT = RING_LAYOUT


@cython.final
cdef class Outgoing:
    """A frame that is not in a ring yet, or only in part."""

    cdef readonly bytes header
    cdef readonly list pieces
    cdef public object owner
    cdef readonly bint done
    cdef bint begun
    cdef size_t index, offset
    cdef uint64_t rest  # bytes of the payload that are still to be written

    def __init__(self, bytes header not None, payload, owner=None):
        if len(header) != HEADER:
            raise InternalError("a frame without a header")
        if self.header is not None:
            raise InternalError("a frame is made once")
        self.header = header
        self.pieces = [piece for piece in payload if len(piece)]
        self.owner = owner
        for piece in self.pieces:
            self.rest += len(piece)

    @property
    def nbytes(self):
        return self.rest

    def copy(self):
        """Copy the bytes that are not written yet, so that the program may change its memory."""
        cdef list kept = self.pieces[:self.index]
        self.pieces = kept + [bytes(piece) for piece in self.pieces[self.index:]]


cdef struct exposed_t:
    uint64_t nbytes
    uint64_t words[2 + 2 * PIECES]  # how many pieces, what `retracted` was, and address and length of each piece


cdef class PeerProcess


@cython.final
@cython.no_gc_clear  # to clear the object would release the segment without its exporter's knowledge
cdef class Ring:
    """Both directions between this rank and a peer."""

    cdef writer_t out
    cdef reader_t inn
    cdef Py_buffer _segment
    cdef bint _held, _busy
    cdef object _landing
    cdef bytearray _early  # bytes of a payload that a signal handler read before the landing was known
    cdef readonly uint64_t size
    cdef readonly bint stopped
    cdef public PeerProcess process  # the peer's
    cdef public bint queued  # True while frames wait for room: none may overtake them
    cdef public uint64_t exposed_from  # bytes beyond which the peer copies a message from the memory of this rank
    cdef bint _exposing  # True if the peer has ever been allowed such copies
    cdef readonly uint64_t rings  # how often the peer was woken

    def __cinit__(self, segment, uint64_t size, int bell, bint first):
        if size < 4096 or size & (size - 1) or size > <uint64_t>1 << 30:
            raise InternalError("a ring has no such size")
        PyObject_GetBuffer(segment, &self._segment, PyBUF_WRITABLE)
        self._held = True
        if <uint64_t>self._segment.buf % LINE:
            raise InternalError(f"the memory of rings begins at a multiple of {LINE}")
        if <uint64_t>self._segment.len < RING_PREFIX + 2 * size:
            raise InternalError("the memory of two rings is too small")
        self.size = size
        self.exposed_from = LONGEST
        ring_init(&self.out, &self.inn, <char *>self._segment.buf, RING_PREFIX, size, bell, first)

    def __dealloc__(self):
        if self._held:
            PyBuffer_Release(&self._segment)

    cdef object wrong_reader(self):
        return RemoteProtocolError(
            f"the reader of a ring says that it is at {LOAD_RELAXED(&self.out.words.tail)}; "
            f"its writer is at {self.out.head}"
        )

    cdef object wrong_writer(self):
        return RemoteProtocolError(
            f"the writer of a ring says that it is at {LOAD_RELAXED(&self.inn.words.written)}; "
            f"its reader is at {self.inn.tail}"
        )

    def stop(self):
        """Hand out nothing and wake nobody any more: the doorbells are closed."""
        self.stopped = True
        self.out.bell = self.inn.bell = -1

    # Writing.

    cdef int wake(self) except -1:
        self.rings += writer_wake(&self.out)
        return 0

    cdef int write_whole(self, header_t *header, uint32_t kind, payload, uint64_t nbytes) except -1:
        """Write a frame in one piece; return 0 if there is no room."""
        cdef char *place
        cdef char *to
        cdef Py_buffer view
        cdef int found = writer_reserve(&self.out, HEADER + nbytes, &place)
        if found <= 0:
            if found < 0:
                raise self.wrong_reader()
            return 0
        header_write(place, header)
        to = place + HEADER
        for piece in payload:
            PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
            if <uint64_t>view.len > nbytes:
                PyBuffer_Release(&view)
                raise InternalError("a payload grows while it is sent")
            memcpy(to, view.buf, view.len)
            to += view.len
            nbytes -= view.len
            PyBuffer_Release(&view)
        writer_publish(&self.out, place, kind, to - place)
        self.wake()
        return 1

    def put(self, bytes header not None, payload):
        """Write a short frame as a whole, and wake the peer if it sleeps; return False if there is no room now.

        Raises:
            RemoteProtocolError: the peer has written nonsense; the connection must be closed. So do the methods below.
        """
        cdef header_t h
        cdef uint64_t nbytes = 0
        for piece in payload:
            nbytes += len(piece)
        if self._busy or nbytes > self.out.whole or len(header) != HEADER:
            return False
        memcpy(&h, <char *>header, HEADER)
        return self.write_whole(&h, h.kind, payload, nbytes) == 1

    cpdef bint exposes(self, uint64_t pieces, uint64_t nbytes) noexcept:
        """Return True if the peer is to copy a message of this size from the memory of this rank."""
        return nbytes > self.exposed_from and pieces <= PIECES and nbytes >= pieces * LONG_PIECE and self.peer_copies

    def expose(self, bytes header not None, payload):
        """Write the frame of a message whose pieces the peer is to copy; return False if that is impossible.

        The pieces must stay where they are until `retract`, or until the peer has answered.
        """
        cdef header_t h
        cdef exposed_t table
        cdef int found
        if self._busy or len(header) != HEADER or not self.describe(payload, &table):
            return False
        memcpy(&h, <char *>header, HEADER)
        found = self.put_exposed(&h, &table)
        if found < 0:
            raise self.wrong_reader()
        return found == 1

    cdef bint describe(self, payload, exposed_t *table) except -1:
        """Store the addresses of a message's pieces in `table`; return False if there are too many pieces, or none."""
        cdef Py_buffer view
        cdef size_t count = 0
        for piece in payload:
            PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
            if view.len and count < PIECES:
                table.words[2 + 2 * count] = <uint64_t>view.buf
                table.words[3 + 2 * count] = view.len
            count += view.len > 0
            PyBuffer_Release(&view)
        table.nbytes = 16 + 16 * count
        table.words[0] = count
        table.words[1] = LOAD_RELAXED(&self.out.words.retracted)
        return 0 < count <= PIECES and table.nbytes <= self.out.whole

    cdef int put_exposed(self, header_t *header, exposed_t *table) except? -1:
        """Write the frame of an exposed message; return 0 if there is no room, -1 if the peer has broken the ring."""
        cdef char *place
        cdef int found = writer_reserve(&self.out, HEADER + table.nbytes, &place)
        if found <= 0:
            return found
        self._exposing = True
        header_write(place, header)
        memcpy(place + HEADER, table.words, table.nbytes)
        writer_publish(&self.out, place, header.kind | EXPOSED, HEADER + table.nbytes)
        self.wake()
        return 1

    def write(self, Outgoing frame not None, int64_t budget):
        """Write as much of a frame as there is room for, and at most `budget` bytes; return the bytes written."""
        cdef header_t h
        cdef int found
        cdef int64_t nbytes
        cdef uint64_t before
        if self._busy or frame.done:
            return 0
        memcpy(&h, <char *>frame.header, HEADER)
        if not frame.begun:
            if frame.rest <= self.out.whole:
                nbytes = HEADER + frame.rest
                frame.done = self.write_whole(&h, h.kind, frame.pieces, frame.rest)
                return nbytes if frame.done else 0
            found = writer_begin(&self.out, &h)
            if found < 0:
                raise self.wrong_reader()
            if not found:
                return 0
            frame.begun = True
        before = frame.rest
        while budget > 0 and frame.rest:
            nbytes = self.stream(frame, h.kind, budget)
            if nbytes < 0:
                raise self.wrong_reader()
            if not nbytes:
                break
            budget -= nbytes
        if before != frame.rest:
            self.wake()
        frame.done = not frame.rest
        return before - frame.rest

    cdef int64_t stream(self, Outgoing frame, uint32_t kind, uint64_t most) except? -2:
        """Write a part of the current piece of a streamed frame."""
        cdef Py_buffer view
        cdef int64_t nbytes
        cdef const char *start
        cdef uint64_t rest
        cdef bint last
        PyObject_GetBuffer(frame.pieces[frame.index], &view, PyBUF_SIMPLE)
        try:
            if <size_t>view.len <= frame.offset:
                raise InternalError("a payload shrinks while it is sent")
            start = <const char *>view.buf + frame.offset
            rest = view.len - frame.offset
            if rest > frame.rest:
                raise InternalError("a payload grows while it is sent")
            last = rest == frame.rest and rest <= most
            if most < rest:
                rest = most
            if rest >= GIL_FREE:
                self._busy = True
                try:
                    with nogil:
                        nbytes = writer_stream(&self.out, kind, start, rest, last)
                finally:
                    self._busy = False
            else:
                nbytes = writer_stream(&self.out, kind, start, rest, last)
            if nbytes > 0:
                frame.rest -= nbytes
                frame.offset += nbytes
                if frame.offset == <size_t>view.len:
                    frame.index += 1
                    frame.offset = 0
        finally:
            PyBuffer_Release(&view)
        return nbytes

    def want(self):
        """Begin to wait for room; return False if the peer has given back room meanwhile."""
        cdef int waits = writer_want(&self.out)
        if waits < 0:
            raise self.wrong_reader()
        return waits == 1

    @property
    def moved(self):
        """True if the peer has made room since it was last looked for."""
        return writer_moved(&self.out) == 1

    @property
    def written(self):
        """The position up to which this rank has written."""
        return self.out.head

    @property
    def peer_copies(self):
        """True if the peer says that it can copy from the memory of this process."""
        return LOAD_RELAXED(&self.out.words.reads) == 1

    def granted(self):
        """Return the bytes of credit that the peer has granted since the last call."""
        cdef uint64_t now = LOAD_ACQUIRE(&self.out.words.granted), before = self.out.granted
        if now < before:
            raise RemoteProtocolError(f"the reader of a ring has granted {now} bytes, and before {before}")
        self.out.granted = now
        return now - before

    def retract(self):
        """Tell the peer that the memory of all messages which it may copy is about to change."""
        if not self._exposing:
            return
        STORE_RELAXED(&self.out.words.retracted, self.out.words.retracted + 1)
        FENCE()

    # Reading.

    @property
    def between_frames(self):
        """True if the peer may close here."""
        return not self.inn.missing

    @property
    def position(self):
        """The position up to which this rank has read."""
        return self.inn.tail

    @property
    def pending(self):
        """True if there is something to read."""
        return reader_pending(&self.inn) == 1

    def grant(self, uint64_t nbytes):
        """Grant the peer more bytes of credit. The peer is not woken, but finds the credit when it looks."""
        self.inn.granted += nbytes
        STORE_RELEASE(&self.inn.words.granted, self.inn.granted)

    def copies(self):
        """Tell the peer that this rank can copy from the peer's memory."""
        STORE_RELAXED(&self.inn.words.reads, 1)

    def watch(self):
        """Begin to sleep; return False if there is something to read first."""
        return reader_watch(&self.inn) == 1

    cpdef int64_t read(self, sink, int64_t budget) except? -1:
        """Hand out what is there, as long as the budget lasts.

        Args:
            sink: see `aiompi.wire.frame.Sink`.
            budget: bytes to read. Each frame costs FRAME_COST more than its bytes, and so does each part of a frame
                that is read separately.

        Returns:
            The rest of the budget. The rest is more than 0 if all frames that were there at the beginning have been
            read.
        """
        cdef header_t header
        cdef const char *payload
        cdef uint64_t nbytes
        cdef int found
        if self._busy:
            return budget
        reader_wake(&self.inn)
        while budget > 0 and not self.stopped:
            if self.inn.missing:
                nbytes = self.fill(sink, budget if budget > GIL_FREE else GIL_FREE)
                if not nbytes:
                    break
                budget -= FRAME_COST + nbytes
                continue
            found = reader_next(&self.inn, &header, &payload)
            if found <= 0:
                if found < 0:
                    raise RemoteProtocolError("the writer of a ring goes round it without a frame")
                break
            budget -= self.hand_out(sink, &header, payload)
        reader_answer(&self.inn)
        return budget

    cdef int64_t hand_out(self, sink, header_t *h, const char *payload) except -1:
        """Hand out the next frame, or begin to; return its cost."""
        cdef uint32_t kind = h.kind
        cdef uint32_t plain = kind & 0xFF
        cdef uint64_t nbytes = 0
        if FIRST_PAYLOAD <= plain <= LAST_PAYLOAD or plain == DATA:
            nbytes = h.length
        h.kind = plain
        if kind == plain:
            if not reader_holds(&self.inn, nbytes):
                raise RemoteProtocolError(f"a frame of kind {kind} with {nbytes} bytes does not fit its ring")
            return FRAME_COST + self.deliver(sink, h, payload, nbytes)
        if kind == RTS | EXPOSED:
            return FRAME_COST + self.offer(sink, h, payload)
        if kind != plain | STREAMED or not nbytes or nbytes > LONGEST:
            raise RemoteProtocolError(f"a frame of unknown kind {kind:#x} with {h.length} bytes")
        # Before the sink runs: whatever it raises, the next bytes are payload. Without a landing they are dropped.
        self.inn.missing = nbytes
        self.inn.tail += HEADER
        if plain == EAGER and nbytes <= self.inn.whole and isinstance(sink, PeerBase):
            return self.receive_parts(<PeerBase>sink, h, nbytes)
        self.begin(sink, None, h, bytearray(), 0)
        return FRAME_COST

    cdef int64_t receive_parts(self, PeerBase peer, header_t *h, int64_t nbytes) except -1:
        """Copy a short streamed message to its matching receive while the parts arrive; return the cost.

        No Python code runs until the message is complete.
        """
        cdef PostedReceive receive = peer.matched(h.context, h.source, h.tag) if peer.may_hold(nbytes) else None
        cdef bytearray data = None
        cdef char *to = NULL
        cdef int64_t done = 0
        if receive is None:
            self.begin(peer, None, h, bytearray(), 0)
            return FRAME_COST
        peer.gain(h.credit)
        receive.note = h.drqid
        if not (receive.unpacks or receive._done):
            if receive._memory is None and nbytes < LARGE:  # Python code finds memory for longer payloads
                try:
                    data = PyByteArray_FromStringAndSize(NULL, nbytes)
                    to = PyByteArray_AS_STRING(data)
                except MemoryError:
                    pass  # the landing reports the error
            elif receive._memory is None or nbytes > receive.capacity:
                pass
            elif type(receive._memory) is Span or not view_released(receive._memory):
                to = receive.target
        if to != NULL:
            done = reader_stream(&self.inn, to, nbytes)
        if done < nbytes:
            early = bytearray() if data is None else data[: max(done, 0)]
            self.begin(peer, receive, h, early, max(done, 0) if data is None else 0)
            if done < 0:
                raise self.wrong_writer()
            return FRAME_COST + done
        peer.spend(nbytes)
        receive.source, receive.tag, receive.length = h.source, h.tag, nbytes
        if receive._memory is None:
            receive.data = data
            receive.taken()
        else:
            receive.finish()
        return FRAME_COST + nbytes

    cdef int begin(self, sink, PostedReceive receive, header_t *h, bytearray early, int64_t filled) except -1:
        """Get the landing (destination) of a streamed payload, and move the bytes that have been read meanwhile to it.

        Args:
            receive: the receive that is matched; None if the landing depends on matching.
            early: bytes that have been read and are to be copied to the landing.
            filled: number of bytes that have already been read into the memory of the receive.
        """
        self._early = early
        try:
            landing = sink.land(fields(h)) if receive is None else sink.land_at(receive, fields(h))
            if filled:
                landing.filled += filled
            while early:
                room = landing.room()
                done = min(len(room), len(early))
                if not done:
                    raise InternalError("a landing without room")
                room[:done] = early[:done]
                landing.filled += done
                del early[:done]
            if self._early is early:
                self._landing = landing
        finally:
            complete = self._early is not early
            if not complete:
                self._early = None
        if complete:
            landing.advance(0)
        return 0

    cdef uint64_t fill_early(self, uint64_t most) except? -1:
        """Read a part of a payload whose landing is not known yet."""
        cdef bytearray early = self._early
        cdef bytearray part = bytearray(min(self.inn.missing, most))
        cdef int64_t done = reader_stream(&self.inn, <char *>part, len(part))
        if done < 0:
            raise self.wrong_writer()
        early += part[:done]
        if not self.inn.missing:
            self._early = None
        return done

    cdef int64_t deliver(self, sink, header_t *h, const char *payload, uint64_t nbytes) except -1:
        """Hand out a whole frame."""
        cdef uint64_t before = self.inn.tail, after = UP(before + HEADER + nbytes)
        cdef PeerBase peer = <PeerBase>sink if isinstance(sink, PeerBase) else None
        cdef PostedReceive receive = None
        cdef MessageBase message = None
        cdef SendBase send
        cdef bytes content
        if peer is not None:
            if h.kind == EAGER:
                receive = peer.matched(h.context, h.source, h.tag)
                if receive is None:
                    message = <MessageBase?>new_of(peer._message_class, _NO_ARGUMENTS)
                    if self.inn.tail != before or self.stopped:
                        return 0  # a finalizer has read the frame meanwhile, or has closed the connection
                    receive = peer.matched(h.context, h.source, h.tag)  # one may have posted a receive
            peer.gain(h.credit)
            if message is not None and receive is None and peer.keep(message, h, payload, nbytes):
                reader_advance(&self.inn, after)
                return nbytes
            if receive is not None and not (receive.unpacks or receive._done) and peer.below_mark(nbytes):
                # The payload is copied from the ring before anything else runs. Only then is its room given back.
                self.inn.tail = after
                receive.note = h.drqid
                receive.fill(h.source, h.tag, payload, nbytes)
                reader_advance(&self.inn, self.inn.tail)
                return nbytes
            if h.kind == SYNCACK:
                send = peer.answered(h.srqid)
                if send is not None:
                    reader_advance(&self.inn, after)
                    send.matched()
                    return 0
            if h.kind == INVITE:
                send = peer.invited(h)
                if send is not None:
                    reader_advance(&self.inn, after)
                    peer.assist(send, h)
                    return h.length if h.length < AT_ONCE else AT_ONCE
        # Others get a copy, since a signal handler may read on meanwhile.
        content = PyBytes_FromStringAndSize(payload, nbytes)
        reader_advance(&self.inn, after)
        if receive is not None:
            peer.spend(nbytes)
            receive.comes(h.source, h.tag, h.drqid, memoryview(content))
        elif peer is not None:
            peer.handle(fields(h), memoryview(content))
        else:
            sink.frame(fields(h), memoryview(content))
        return nbytes

    cdef int64_t offer(self, sink, header_t *h, const char *table) except -1:
        """Offer a message that is in memory of the peer's process."""
        cdef uint64_t words[2 + 2 * PIECES]
        cdef uint64_t count, total = 0
        cdef Exposed exposed
        cdef PeerBase peer = <PeerBase>sink if isinstance(sink, PeerBase) else None
        cdef PostedReceive receive = None
        if self.process is None:
            raise RemoteProtocolError("it exposed a message before it was known")
        if not reader_holds(&self.inn, 16):
            raise RemoteProtocolError("an exposed message does not fit its ring")
        memcpy(words, table, 16)
        count = words[0]
        if not 0 < count <= PIECES or not reader_holds(&self.inn, 16 + 16 * count):
            raise RemoteProtocolError(f"it exposed a message in {count} pieces")
        memcpy(&words[2], table + 16, 16 * count)
        for i in range(count):
            if words[3 + 2 * i] > LONGEST or total > LONGEST:
                raise RemoteProtocolError(f"it exposed a piece of {words[3 + 2 * i]} bytes")
            total += words[3 + 2 * i]
        if total != h.length or not total:
            raise RemoteProtocolError(f"{count} pieces that it exposed are no message of {h.length} bytes")
        reader_advance(&self.inn, UP(self.inn.tail + HEADER + 16 + 16 * count))
        exposed = Exposed(self.process, [], self, words[1])
        exposed.count = count
        memcpy(exposed.pieces, &words[2], 16 * count)
        if peer is not None and h.kind == RTS:
            receive = peer.matched(h.context, h.source, h.tag)
        if receive is None:
            sink.offer(fields(h), exposed)
        else:
            peer.gain(h.credit)
            if receive._done:
                receive.resume()
            receive.note = h.drqid
            if not exposed.land(peer, receive, h.source, h.tag, h.length, h.srqid):
                peer.fetch(receive, h.source, h.tag, h.length, h.srqid, exposed)
        return h.length if h.length < 1 << 30 else 1 << 30  # it may have been copied at once

    cdef uint64_t fill(self, sink, uint64_t most) except? -1:
        """Copy a part of a streamed payload to its place; return the number of bytes copied."""
        cdef Py_buffer view
        cdef uint64_t nbytes
        cdef int64_t done
        cdef char *to
        landing = self._landing
        if self._early is not None:
            return self.fill_early(most)
        if landing is None:
            done = reader_stream(&self.inn, NULL, self.inn.missing if self.inn.missing < most else most)
            if done < 0:
                raise self.wrong_writer()
            return done
        PyObject_GetBuffer(landing.room(), &view, PyBUF_WRITABLE)
        try:
            if self._landing is not landing:
                return 0  # a signal handler has read on, and another frame is next
            nbytes = view.len
            if nbytes > self.inn.missing:
                nbytes = self.inn.missing
            if nbytes > most:
                nbytes = most
            to = <char *>view.buf
            if nbytes >= GIL_FREE:
                self._busy = True
                try:
                    with nogil:
                        done = reader_stream(&self.inn, to, nbytes)
                finally:
                    self._busy = False
            else:
                done = reader_stream(&self.inn, to, nbytes)
        finally:
            PyBuffer_Release(&view)
        if done < 0:
            raise self.wrong_writer()
        if done:
            landing.filled += done  # no Python function runs here: a signal handler could read on or raise in it
        if done and not self.inn.missing:
            self._landing = None
            landing.advance(0)
        return done


cdef tuple fields(header_t *h):
    return (h.kind, h.tag, h.source, h.credit, h.context, h.length, h.srqid, h.drqid)
