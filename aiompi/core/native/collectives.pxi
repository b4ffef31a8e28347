# Collectives with common arguments: below the method of the face they run without a Python frame.

# The collectives that are called directly, by their numbers in `aiompi.coll.signature`.
cdef enum:
    BARRIER = 1
    BCAST = 2
    GATHER = 3
    SCATTER = 5
    ALLGATHER = 7
    ALLTOALL = 9
    REDUCE = 12
    ALLREDUCE = 13
    REDUCE_SCATTER_BLOCK = 15
    SCAN = 16
    COLLECTIVES = 17

cdef long long TAG_LIMIT = _TAG_UB
cdef tuple _operations = ()   # the predefined operations, in the order of combine.h
cdef object _in_place = None


def know(operations, in_place):
    """Store the predefined operations, in the order of their numbers, and the object IN_PLACE."""
    global _operations, _in_place
    _operations, _in_place = tuple(operations), in_place


def combines(array, op):
    """Return True if the core can combine arrays of the same type as this array with an operation."""
    cdef size_t size = 1
    cdef int operation = 1
    for known in _operations:
        if known is op:
            return is_array(array) and combine_array(array, operation, &size) != NULL
        operation += 1
    return False


@cython.final
cdef class SlotGroup(Slots):
    """The slots of the members of a communicator, and the collectives that start directly through these slots."""

    cdef int64_t limits[COLLECTIVES]

    def __cinit__(self, *args):
        cdef int i
        for i in range(COLLECTIVES):
            self.limits[i] = -1

    def limit(self, dict limits not None):
        """Allow direct calls: `limits` maps the number of a collective to the largest allowed block, in bytes."""
        cdef int number
        cdef int64_t nbytes
        for collective, most in limits.items():
            number, nbytes = collective, most  # converted once: an object of Python may be another number each time
            if not 0 <= number < COLLECTIVES:
                raise InternalError("there is no such collective")
            if self.needs_rounds(number, nbytes) and not self.has_rounds(number):
                raise InternalError(f"slots have no room for blocks of {nbytes} bytes")
            self.limits[number] = nbytes

    cdef bint has_rounds(self, int collective) noexcept:
        """Return True if a collective can go through the slots in rounds."""
        return collective in (BCAST, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE) and self.slots.size * LINE <= self.slots.room

    cdef bint needs_rounds(self, int collective, int64_t nbytes) noexcept:
        """Return True if blocks of `nbytes` bytes are too long for a slot, and must go through the slots in rounds."""
        # In a scatter or alltoall a rank shows a block for each rank; in an allreduce it would combine all vectors.
        cdef bint all_blocks = collective in (SCATTER, ALLTOALL, ALLREDUCE)
        return nbytes > <int64_t>self.slots.room // (self.slots.size if all_blocks else 1)

    # Calls with common arguments. They return None, without an error, if the general path must handle the call. The
    # general path also uses these methods, for calls in rounds: it passes its channel and arrays of common types.

    cdef SlotExchange direct(
        self, comm, int collective, name, uint64_t nbytes, int action, uint64_t operation, root, channel=None
    ):
        """Return the next call, or None if the call cannot be made now. The general path has a channel."""
        cdef uint64_t note = collective
        cdef long long tag
        cdef ProgressBase engine = self.engine
        cdef bint rounds = self.needs_rounds(collective, nbytes)
        if rounds and not self.has_rounds(collective):
            return None
        if channel is None:
            if self.closed or <int64_t>nbytes > self.limits[collective] or engine.stepping or engine.degraded:
                return None
            latest = self.sync.latest
            if latest is not None and not (<Request?>latest)._done:
                return None  # the general path waits for the latest call
            if root is not None:
                note |= <uint64_t>(<long long>root + 1) << 16
            note |= operation << 8
            tag = comm.collectives
            comm.collectives = (tag + 1) % TAG_LIMIT
        else:
            if self.closed or engine.error is not None:
                raise engine.error or LocalProtocolError(f"rank {engine.rank} has left the job")
            note, tag = channel.note, channel.tag
        if collective == SCATTER or collective == ALLTOALL:
            nbytes *= self.slots.size  # a rank shows a block for each
        if not rounds:
            return self.made(comm, name, tag, note, nbytes, action)
        return self.numbered(RoundsExchange.__new__(RoundsExchange), comm, name, tag, note, nbytes, action)

    cdef SlotExchange begun(self, SlotExchange exchange, channel=None):
        """Begin a call whose memory is known. With a channel, the general path records the call and keeps the order."""
        cdef Recorder recorder = recorder_of(self.engine)
        if recorder is not None and channel is None:
            self.record(recorder, exchange)
        if isinstance(exchange, RoundsExchange):
            (<RoundsExchange>exchange).prepare()
        if not exchange.advance() and channel is None:
            self.sync.latest = exchange
        return exchange

    cdef int record(self, Recorder recorder, SlotExchange exchange) except -1:
        """Write the record of a call."""
        cdef int root = <int>(exchange.call.note >> 16 & 0xFFFFFFFF) - 1
        cdef int process = -1 if root < 0 else self.ranks[root]
        exchange.traced = recorder.begin(REC_COLLECTIVE, self.context, process, <int>exchange.tag, exchange.claimed())
        cdef record_t *record = recorder.find(exchange.traced)
        if record != NULL:
            record.way = <unsigned char>WAY_SLOTS
        return 0

    cdef bint is_root(self, object root, bint *right):
        """Set `right` to True if `root` is a member's rank, else to False; return True if `root` is this rank."""
        right[0] = type(root) is int and 0 <= root < self.slots.size
        return right[0] and <uint32_t>root == self.slots.rank

    def barrier(self, comm):
        """Start a barrier."""
        cdef SlotExchange exchange = self.direct(comm, BARRIER, "Barrier", 0, NOTHING, 0, None)
        return None if exchange is None else self.begun(exchange)

    def bcast(self, comm, spec, root, channel=None):
        """Start a broadcast of an array."""
        cdef SlotExchange exchange
        cdef memory_t memory
        cdef bint right, own = self.is_root(root, &right)
        spec = self.outgoing(spec, &memory, channel) if own else self.incoming(spec, &memory, channel)
        if not right or spec is None:
            return None
        exchange = self.direct(comm, BCAST, "Bcast", memory.nbytes, NOTHING if own else FROM_ONE, 0, root, channel)
        if exchange is None:
            return None
        if own:
            self.wants(self.shown(exchange, spec, memory.data, memory.nbytes), 0, 0)
        else:
            self.wants(self.placed(exchange, spec, memory.data, 0, memory.nbytes), root, <uint32_t>root + 1)
        return self.begun(exchange, channel)

    # `outgoing` and `incoming` return the array that owns the memory, or None. The exchange keeps the array, since the
    # program may change the specification before the memory is used.

    cdef object outgoing(self, object spec, memory_t *memory, channel=None):
        """Find the memory that a specification contributes. The general path also passes memoryviews."""
        cdef _Area area
        if channel is None or type(spec) is not memoryview:
            return plain_of(spec, memory)
        area = _Area.__new__(_Area)
        if not area.of(spec, False):
            return None
        memory[0] = area.memory
        memory.readonly = area.view.readonly
        return area

    cdef object incoming(self, object spec, memory_t *memory, channel=None):
        """Find the memory for a result."""
        spec = self.outgoing(spec, memory, channel)
        return None if spec is None or memory.readonly else spec

    cdef SlotExchange shown(self, SlotExchange exchange, array, const char *data, uint64_t nbytes):
        """Contribute memory of an array."""
        exchange.content, exchange.data, exchange.call.length = array, data, nbytes
        return exchange

    cdef SlotExchange placed(self, SlotExchange exchange, array, char *to, uint64_t offset, uint64_t length):
        """Set where the result goes: `length` bytes from byte `offset` of each contribution are copied to `array`."""
        exchange.place, exchange.to, exchange.offset, exchange.length = array, to, offset, length
        return exchange

    cdef SlotExchange wants(self, SlotExchange exchange, uint32_t first, uint32_t last):
        """Wait for these members only."""
        exchange.call.first = exchange.call.seen = first
        exchange.call.last = last
        return exchange

    def gather(self, comm, sendspec, recvspec, root):
        """Start to gather the arrays of all ranks at the root."""
        cdef SlotExchange exchange
        cdef memory_t source, place
        cdef bint right, own = self.is_root(root, &right)
        sendspec = self.outgoing(sendspec, &source)
        recvspec = self.incoming(recvspec, &place) if own else None
        if not right or sendspec is None:
            return None
        if own and (recvspec is None or not self.fits(source, place, self.slots.size)):
            return None
        exchange = self.direct(comm, GATHER, "Gather", source.nbytes, FROM_ALL if own else NOTHING, 0, root)
        if exchange is None:
            return None
        self.shown(exchange, sendspec, source.data, source.nbytes)
        if own:
            self.placed(exchange, recvspec, place.data, 0, source.nbytes)
        else:
            self.wants(exchange, 0, 0)
        return self.begun(exchange)

    def allgather(self, comm, sendspec, recvspec, channel=None):
        """Start to gather the arrays of all ranks everywhere."""
        cdef SlotExchange exchange
        cdef memory_t source, place
        sendspec, recvspec = self.outgoing(sendspec, &source, channel), self.incoming(recvspec, &place, channel)
        if sendspec is None or recvspec is None:
            return None
        if not self.fits(source, place, self.slots.size):
            return None
        exchange = self.direct(comm, ALLGATHER, "Allgather", source.nbytes, FROM_ALL, 0, None, channel)
        if exchange is None:
            return None
        self.shown(exchange, sendspec, source.data, source.nbytes)
        return self.begun(self.placed(exchange, recvspec, place.data, 0, source.nbytes), channel)

    def scatter(self, comm, sendspec, recvspec, root):
        """Start to scatter an array of the root."""
        cdef SlotExchange exchange
        cdef memory_t source, place
        cdef uint64_t rank = self.slots.rank, size = self.slots.size
        cdef bint right, own = self.is_root(root, &right)
        recvspec = self.incoming(recvspec, &place)
        sendspec = self.outgoing(sendspec, &source) if own else None
        if not right or recvspec is None:
            return None
        if own and (sendspec is None or not self.fits(place, source, size)):
            return None
        exchange = self.direct(comm, SCATTER, "Scatter", place.nbytes, FROM_ONE, 0, root)
        if exchange is None:
            return None
        if own:
            self.shown(exchange, sendspec, source.data, source.nbytes)
        self.placed(exchange, recvspec, place.data, rank * place.nbytes, place.nbytes)
        return self.begun(self.wants(exchange, root, <uint32_t>root + 1))

    def alltoall(self, comm, sendspec, recvspec, channel=None):
        """Start to exchange the blocks of the arrays of all ranks."""
        cdef SlotExchange exchange
        cdef memory_t source, place
        cdef uint64_t length, rank = self.slots.rank, size = self.slots.size
        sendspec, recvspec = self.outgoing(sendspec, &source, channel), self.incoming(recvspec, &place, channel)
        if sendspec is None or recvspec is None:
            return None
        if not self.fits(source, place, 1) or source.nbytes % size:
            return None
        length = source.nbytes / size
        exchange = self.direct(comm, ALLTOALL, "Alltoall", length, FROM_ALL, 0, None, channel)
        if exchange is None:
            return None
        self.shown(exchange, sendspec, source.data, source.nbytes)
        return self.begun(self.placed(exchange, recvspec, place.data, rank * length, length), channel)

    cdef bint fits(self, memory_t source, memory_t place, uint64_t number):
        """Return True if `place` has room for `number` blocks as long as `source`, and does not overlap `source`."""
        if <uint64_t>place.nbytes != number * <uint64_t>source.nbytes:
            return False
        return source.data + source.nbytes <= place.data or place.data + place.nbytes <= source.data

    cdef SlotExchange combined(
        self, comm, int collective, name, sendspec, recvspec, op, root, bint wanted, channel=None
    ):
        """Return the next call of a reduction; the caller then chooses the contributions that the call waits for."""
        cdef SlotExchange exchange
        cdef memory_t source, place
        cdef size_t size = 1
        cdef uint64_t length, operation = 1
        cdef combine_t *combine = NULL
        cdef bint in_place = wanted and (sendspec is None or sendspec is _in_place)
        for known in _operations:
            if known is op:
                break
            operation += 1
        if wanted and not (is_array(recvspec) and self.incoming(recvspec, &place) is not None):
            return None
        if in_place:
            if collective == REDUCE_SCATTER_BLOCK:
                return None
            sendspec, source = recvspec, place
        elif not is_array(sendspec) or not array_memory(sendspec, &source):
            return None
        combine = combine_array(recvspec if wanted else sendspec, <int>operation, &size)
        if combine == NULL:
            return None
        length = source.nbytes
        if collective == REDUCE_SCATTER_BLOCK:
            length = place.nbytes
            if not self.fits(place, source, self.slots.size) or not same_type(sendspec, recvspec):
                return None
        elif wanted and not in_place and not (self.fits(source, place, 1) and same_type(sendspec, recvspec)):
            return None
        exchange = self.direct(
            comm, collective, name, source.nbytes, COMBINED if wanted else NOTHING, operation, root, channel
        )
        if exchange is None:
            return None
        self.shown(exchange, sendspec, source.data, source.nbytes)
        exchange.combine, exchange.count = combine, length // size
        if wanted:
            self.placed(exchange, recvspec, place.data, 0, length)
        return exchange

    def reduce(self, comm, sendspec, recvspec, op, root, channel=None):
        """Start to combine arrays at the root."""
        cdef bint right, own = self.is_root(root, &right)
        cdef SlotExchange exchange
        if not right:
            return None
        exchange = self.combined(comm, REDUCE, "Reduce", sendspec, recvspec, op, root, own, channel)
        if exchange is None:
            return None
        return self.begun(exchange if own else self.wants(exchange, 0, 0), channel)

    def allreduce(self, comm, sendspec, recvspec, op, channel=None):
        """Start to combine arrays everywhere."""
        cdef SlotExchange exchange = self.combined(
            comm, ALLREDUCE, "Allreduce", sendspec, recvspec, op, None, True, channel
        )
        return None if exchange is None else self.begun(exchange, channel)

    def reduce_scatter_block(self, comm, sendspec, recvspec, op):
        """Start to combine arrays, each rank its block."""
        cdef SlotExchange exchange = self.combined(
            comm, REDUCE_SCATTER_BLOCK, "Reduce_scatter_block", sendspec, recvspec, op, None, True
        )
        if exchange is None:
            return None
        exchange.offset = self.slots.rank * exchange.length
        return self.begun(exchange)

    def scan(self, comm, sendspec, recvspec, op):
        """Start to combine the arrays of the ranks up to this one."""
        cdef SlotExchange exchange = self.combined(comm, SCAN, "Scan", sendspec, recvspec, op, None, True)
        return None if exchange is None else self.begun(self.wants(exchange, 0, self.slots.rank + 1))
