# Slots: collectives of short blocks among ranks that share memory. slots.h has the layout, and the reasons why it is
# correct.

cdef extern from "slots.h" nogil:
    enum:
        SLOTS_HEAD
        PLACES
    ctypedef struct cell_t:
        uint64_t note, claim
    ctypedef struct shown_t:
        pass
    ctypedef struct slots_t:
        shown_t **shown
        uint64_t room, number, steps
        uint32_t rank, size
    ctypedef struct meeting_t:
        uint64_t number, note, claim, length, target
        uint32_t first, last, seen
        bint posted
    cell_t *cell_of(slots_t *, uint32_t, uint64_t)
    bint has_posted(slots_t *, uint32_t, uint64_t)
    bint have_posted(slots_t *, uint32_t, uint32_t, uint64_t)
    bint have_come(slots_t *, uint32_t, uint32_t, uint64_t, uint64_t)
    uint64_t slots_bar(slots_t *, meeting_t *)
    void slots_step(slots_t *)
    char *slots_place(slots_t *, uint32_t, uint64_t)
    void slots_post(slots_t *, meeting_t *, const char *)
    uint32_t slots_sleeper(slots_t *, uint32_t, uint64_t, uint64_t)
    uint64_t slots_wanted(slots_t *, meeting_t *, uint32_t *, uint32_t *)
    bint slots_sleep(slots_t *, meeting_t *)
    bint slots_spin(slots_t *, meeting_t *, bint, double)
    const char *slots_content(slots_t *, uint32_t, uint64_t, uint64_t *)

cdef extern from "combine.h" nogil:
    ctypedef void combine_t(void *, const void *, size_t)
cdef extern from "combine.h":
    combine_t *combine_array(object, int, size_t *)
    bint same_type(object, object)

cdef enum:
    NUMBER_BITS = 48      # a claim has the bytes of a block in its low bits, and the number of the call above them
    NUMBERS = 32768       # modulo this

cdef double SPIN = 50e-6  # seconds for which a blocking call polls for the other ranks before it does anything else

# What is done with the contributions.
cdef enum:
    NOTHING
    ENTRIES               # they are the result, as a list
    FROM_ONE              # a block of one of them is copied
    FROM_ALL              # a block of each of them is copied
    COMBINED              # a block of each of them is combined, the last one first

SLOTS_PREFIX = SLOTS_HEAD
LONG_PLACES = PLACES


@cython.final
cdef class SlotExchanges:
    """The calls in which this rank waits for others. All are polled before it sleeps, before all links."""

    cdef object _driver
    cdef list _open
    cdef bint _lingering

    def __init__(self, driver, list exchanges not None):
        self._driver = driver
        self._open = exchanges

    cdef int add(self, SlotExchange exchange) except -1:
        self._open.append(exchange)
        if not self._lingering:
            self._lingering = self._driver.start_polling(self, first=True)
            if not self._lingering:
                self.poll()
        return 0

    def poll(self, looks=None):
        """Advance the calls that can advance; return True if any call has advanced or ended."""
        cdef bint found = False
        cdef Py_ssize_t look
        if not self._open:
            return False  # the usual case: this object stays among the pollers for a while
        for look in range(1 if looks is None else len(looks)):
            for exchange in self._open[:]:
                if (<SlotExchange?>exchange).advance() or not (self._lingering or (<SlotExchange>exchange).watch()):
                    found = True
                elif (<SlotExchange>exchange).moved:
                    (<SlotExchange>exchange).moved = False
                    found = True
                    if (<SlotExchange>exchange).hurries and not self._lingering:
                        self._driver.call_soon(self.poll)
            if found:
                break
        return found

    def stale(self):
        """Return True if no call is in progress (see `aiompi.engine.seams.Poller`)."""
        return not self._open

    def rest(self):
        """Be woken from now on (see `aiompi.engine.seams.Poller`)."""
        self._lingering = False
        self._lingering = self.poll()
        return not self._lingering


cdef class SlotExchange(Request):
    """A call of a collective through slots, which is complete when the members that this rank waits for have posted."""

    cdef Slots group
    cdef meeting_t call
    cdef readonly object comm, name
    cdef readonly long long tag
    cdef object content, place     # the owners of the memory of the contribution and of the result
    cdef const char *data
    cdef char *to
    cdef int action
    cdef uint64_t offset, length   # of the block in each contribution
    cdef combine_t *combine
    cdef size_t count
    cdef bint listens
    cdef uint64_t asleep_for       # 1 while this rank waits to post, 2 for others to post, beyond that for their steps
    cdef bint moved, hurries       # it has come further since the last poll; it could at once come still further

    @property
    def __name__(self):
        return _in_words(self.name, self.comm, None, None)

    @property
    def context(self):
        """The id of the communicator."""
        return self.group.context

    @property
    def note(self):
        """The number that all ranks post, the same for all; see `aiompi.coll.signature`."""
        return self.call.note

    @property
    def nbytes(self):
        """The bytes that a rank contributes, if it contributes any; 0 for objects."""
        return self.claimed()

    cdef uint64_t claimed(self) noexcept:
        return self.call.claim & ((<uint64_t>1 << NUMBER_BITS) - 1)

    def attend(self):
        if self._done:
            return
        if self.listens:
            self.poll()
            return
        engine = self._engine
        if engine.degraded:
            error = engine.failure.error_among(self.absent())
            if error is not None:
                self.fail(error)
                return
        self.listens = True
        self.group.sync.listen(self)  # a rank that makes another call may send a message instead of posting
        if not self._done:
            self.group.exchanges.add(self)

    def spin(self):
        cdef Slots group = self.group
        cdef bint found
        cdef Recorder recorder = recorder_of(self._engine)
        if recorder is not None:
            recorder.waits_for(self)
        if not self._done and group.spins:
            while not group.closed:
                group.busy += 1
                with nogil:
                    found = slots_spin(&group.slots, &self.call, group.yields, SPIN)
                group.rest()
                if not found or self.advance():
                    break
                try:
                    PyErr_CheckSignals()  # a long call advances many times
                except BaseException:
                    self.attend()  # the other ranks need further steps of this rank
                    raise
        if not self._done:
            self.attend()
        return self._done

    def poll(self):
        """Advance the call if possible. If the call advances but does not end, ask again to be woken."""
        if self.listens:
            self.group.exchanges.poll()
        else:
            self.advance()

    def posted(self, uint32_t member):
        """Return True if a member has posted in this call."""
        return not self.group.closed and member < self.group.slots.size and has_posted(&self.group.slots, member, self.call.number)

    def absent(self):
        """Return the world ranks for which the call waits."""
        cdef uint32_t first, last, member
        cdef uint64_t number
        if self._done or self.group.closed:
            return []
        number = slots_wanted(&self.group.slots, &self.call, &first, &last)
        missing = []
        for member in range(first, last):
            if not self.group.closed and not have_come(&self.group.slots, member, member + 1, number, self.call.target):
                missing.append(self.group.ranks[member])
        return missing

    def cancel(self):
        """Do nothing: others may have seen what this rank has posted."""
        return False

    def withdraw(self):
        """Do nothing: the call runs to its end."""

    def fail(self, error):
        """End the call with an error; do nothing if it is complete."""
        if not self._done:
            gone = self.leave()
            Request.fail(self, error)

    cdef bint watch(self) except -1:
        """Ask to be woken, unless this rank has asked already. Return False if the call is complete instead."""
        while self.asleep_for != 1 + self.call.posted + self.call.target and not self.group.closed and not self.hurries:
            self.asleep_for = 1 + self.call.posted + self.call.target
            if not slots_sleep(&self.group.slots, &self.call) and self.advance():
                return False
        return True

    cdef int advance(self) except -1:
        """Go on as far as possible; return 1 if the call is complete."""
        cdef Slots group = self.group
        cdef slots_t *slots = &group.slots
        cdef meeting_t *call = &self.call
        cdef uint64_t bar, note, claim
        cdef uint32_t member
        if self._done or group.closed:
            return self._done
        if not call.posted:
            bar = slots_bar(slots, call)
            if bar and not have_posted(slots, 0, slots.size, bar):
                return 0
            group.post(self)
        while call.seen < call.last and not call.target:
            member = call.seen
            if not has_posted(slots, member, call.number):
                return 0
            note, claim = cell_of(slots, member, call.number).note, cell_of(slots, member, call.number).claim
            if note != call.note or claim != call.claim:
                error = group.sync.blame(self, member, note, claim)
                if error is not None:
                    self.fail(error)
                    return 1
                if group.closed:  # meanwhile
                    return 0
            call.seen += 1
        group.busy += 1
        try:
            self.hurries = False
            if not self.go_on():
                return 0
            error = self.unlike() or self.take()
        except RemoteProtocolError as lie:
            error = lie
        finally:
            group.rest()
        if error is not None:
            self.fail(error)
            return 1
        gone = self.leave()
        self.finish()
        return 1

    cdef int go_on(self) except -1:
        """Do what remains after all members have posted; return 1 once the result can be taken."""
        return 1

    cdef object unlike(self):
        """Return an error if the length of a contribution is not as claimed; objects claim no length."""
        cdef uint64_t length, expected = self.claimed()
        cdef uint32_t member
        if expected and self.action != NOTHING:
            for member in range(self.call.first, self.call.last):
                slots_content(&self.group.slots, member, self.call.number, &length)
                if length != expected:
                    return self.group.sync.blame(self, member, self.call.note, self.call.claim - expected + length) or \
                        RemoteProtocolError(f"rank {self.group.ranks[member]} shows {length} bytes, not {expected}")
        return None

    cdef object take(self):
        """Make the result of this rank from the contributions."""
        cdef uint32_t member, last
        cdef char *to = self.to
        if to == NULL and self.length:
            raise InternalError("a call of slots ends twice")
        if self.action == ENTRIES:
            self._value = [self.group.entry(member, self.call.number) for member in range(self.call.first, self.call.last)]
        elif self.action == FROM_ONE:
            memcpy(to, self.block(self.call.first), self.length)
        elif self.action == FROM_ALL:
            for member in range(self.call.first, self.call.last):
                memcpy(to + member * self.length, self.block(member), self.length)
        elif self.action == COMBINED:
            last = self.call.last - 1
            memcpy(to, self.block(last), self.length)
            for member in range(last, 0, -1):
                self.combine(to, self.block(member - 1), self.count)

    cdef const char *block(self, uint32_t member) except NULL:
        """Find the block of a contribution."""
        cdef uint64_t length
        cdef const char *content = slots_content(&self.group.slots, member, self.call.number, &length)
        if length < self.offset + self.length:
            raise RemoteProtocolError(
                f"rank {self.group.ranks[member]} shows {length} bytes where {self.offset + self.length} are expected"
            )
        return content + self.offset

    cdef tuple leave(self):
        """Return the objects that only a call in progress needs.

        The caller drops them once the call is complete. Code that runs when an object is freed may look at the call.
        """
        sync = self.group.sync
        if self.listens:
            sync.hush()  # a signal handler may raise here: the call is then complete at the next look
            self.listens = False
        if sync.latest is self:
            sync.latest = None  # its error would keep other objects alive
        if self in self._engine.slot_exchanges:
            self._engine.slot_exchanges.remove(self)
        gone = self.comm, self.content, self.place
        self.data = self.to = NULL
        self.comm = self.content = self.place = None
        return gone


cdef class Slots:
    """The slots of the members of a communicator."""

    cdef slots_t slots
    cdef Py_buffer *_views
    cdef uint32_t _held
    cdef int busy
    cdef bint spins, yields, closed
    cdef ProgressBase engine
    cdef public object sync
    cdef SlotExchanges exchanges
    cdef tuple rings, ranks
    cdef readonly long long context

    def __cinit__(self, ProgressBase engine not None, SlotExchanges exchanges not None, long long context, uint32_t rank, uint64_t room,
                  memories, rings, ranks):
        memories, rings, ranks = tuple(memories), tuple(rings), tuple(ranks)
        cdef uint32_t size = len(memories)
        if room % 64 or room > 1 << 30 or not rank < size or len(rings) != size or len(ranks) != size:
            raise InternalError("there are no such slots")
        self.slots.shown = <shown_t **>PyMem_Calloc(size, sizeof(shown_t *))
        self._views = <Py_buffer *>PyMem_Calloc(size, sizeof(Py_buffer))
        if not self.slots.shown or not self._views:
            raise MemoryError
        for memory in memories:
            PyObject_GetBuffer(memory, &self._views[self._held], PyBUF_WRITABLE if self._held == rank else PyBUF_SIMPLE)
            self.slots.shown[self._held] = <shown_t *>self._views[self._held].buf
            self._held += 1
            if <uint64_t>self._views[self._held - 1].buf % LINE:
                raise InternalError(f"the memory of slots begins at a multiple of {LINE}")
            if <uint64_t>self._views[self._held - 1].len < SLOTS_HEAD + PLACES * room:
                raise InternalError("the memory of slots is too small")
        self.slots.rank, self.slots.size, self.slots.room = rank, size, room
        self.engine, self.exchanges, self.context = engine, exchanges, context
        self.rings, self.ranks = rings, ranks
        for ring in self.rings:
            if ring is not None and not isinstance(ring, Ring):
                raise TypeError("a ring is expected")

    def __dealloc__(self):
        self.release()
        PyMem_Free(self.slots.shown)
        PyMem_Free(self._views)

    cdef int rest(self) except -1:
        """Note the end of a look at the slots. Their memory may go once no look is in progress."""
        self.busy -= 1
        if self.closed and not self.busy:
            self.release()
        return 0

    cdef void release(self) noexcept:
        while self._held:
            self._held -= 1
            PyBuffer_Release(&self._views[self._held])

    @property
    def number(self):
        """The number of calls so far."""
        return self.slots.number

    def use(self, sync, bint spins, bint yields):
        """Serve calls.

        Args:
            sync: the `ShmSync` of the communicator, which knows the previous call and reports ranks that make a
                different call.
            spins: True if a blocking call polls for the other ranks for a while before it sleeps.
            yields: True if the blocking call yields its CPU core to other processes while it polls.
        """
        self.sync = sync
        self.spins, self.yields = spins, yields

    def dissolve(self):
        """Let go of all memory, even if a call never ends."""
        self.closed = True
        self.rings = ()
        if not self.busy:
            self.release()

    cdef int post(self, SlotExchange exchange) except -1:
        """Post, and wake the members that have waited only for this post."""
        slots_post(&self.slots, &exchange.call, exchange.data)
        return self.wake(exchange.call.number, 0)

    cdef int wake(self, uint64_t number, uint64_t steps) except -1:
        """Wake the members that have waited only for this post or step of this rank."""
        cdef uint32_t member = 0
        cdef Ring ring
        while True:
            member = slots_sleeper(&self.slots, member, number, steps)
            if member >= self.slots.size:
                return 0
            ring = <Ring>self.rings[member]
            if ring is not None:
                ring_bell(ring.out.bell)
                ring.rings += 1
            member += 1

    cdef bytes entry(self, uint32_t member, uint64_t number):
        cdef uint64_t length
        cdef const char *content = slots_content(&self.slots, member, number, &length)
        return PyBytes_FromStringAndSize(content, length)

    cdef SlotExchange made(self, comm, name, long long tag, uint64_t note, uint64_t nbytes, int action):
        """Return the next call, which waits for all."""
        return self.numbered(SlotExchange.__new__(SlotExchange), comm, name, tag, note, nbytes, action)

    cdef SlotExchange numbered(
        self, SlotExchange exchange, comm, name, long long tag, uint64_t note, uint64_t nbytes, int action
    ):
        """Make a new object the next call."""
        self.slots.number += 1
        exchange._engine = self.engine
        exchange.group, exchange.comm, exchange.name, exchange.tag = self, comm, name, tag
        exchange.call.number = self.slots.number
        exchange.call.note = note
        exchange.call.claim = nbytes | <uint64_t>(tag % NUMBERS) << NUMBER_BITS
        exchange.call.last = self.slots.size
        exchange.action = action
        return exchange

    def publish(self, channel, bytes content not None, uint64_t nbytes, uint32_t first, uint32_t last):
        """Start a call whose result is the contributions of some members. The previous call must be complete.

        Args:
            channel: the channel of the call.
            content: the contribution, at most `room` bytes.
            nbytes: bytes that each rank contributes; all must give the same number.
            first, last: the members whose contributions are the result: `first` to `last` - 1.
        """
        cdef SlotExchange exchange
        cdef uint64_t length = len(content)
        if self.closed:
            raise self.engine.error or LocalProtocolError(f"rank {self.engine.rank} has left the job")
        if length > self.slots.room or last > self.slots.size:
            raise InternalError("a slot has no room for so much")
        exchange = self.made(channel.comm, channel.operation, channel.tag, channel.note, nbytes, ENTRIES)
        exchange.call.first = exchange.call.seen = first
        exchange.call.last = last
        exchange.call.length = length
        exchange.content, exchange.data = content, <const char *>content
        if self.engine.error is not None:  # for example in a forked child: its posts would pass for those of its parent
            exchange.fail(self.engine.error)
        else:
            exchange.advance()
        return exchange
