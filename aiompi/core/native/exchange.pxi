# Alltoallw among ranks that share memory. Each rank packs its blocks into the rings of their destinations, and unpacks
# the blocks that it receives from the rings of their sources.

cdef enum:
    ALLTOALLW = 11           # its number in `aiompi.coll.signature`
    MOST_APART = 256

cdef struct part_t:
    uint64_t kind            # the serial number of its items
    int64_t count, offset, nbytes

cdef set _apart = set()      # places without a shared byte, each set of places as bytes
cdef object _places_of = None
cdef object _disagreement = None


def know_blocks(places_of, disagreement):
    """Store the functions in Python that handle rare cases.

    Args:
        places_of: takes a receive-buffer specification, its name and the number of ranks, and raises an error if the
            specification is wrong.
        disagreement: takes an exchange, a rank, the note of that rank's message, and the received and the expected
            number of bytes. It returns the error of the message, None if there is no error.
    """
    global _places_of, _disagreement
    _places_of, _disagreement = places_of, disagreement


@cython.final
cdef class _Parts:
    """The blocks of [memory, (counts, displs), types] or [memory, counts, displs, types]."""

    cdef object spec, memory
    cdef _Area area
    cdef list kinds
    cdef part_t *parts
    cdef Py_ssize_t size

    def __dealloc__(self):
        PyMem_Free(self.parts)

    cdef bint of(self, spec, Py_ssize_t size, int64_t most, bint writable) except -1:
        """Find the blocks of all ranks; return False if a block has more than `most` bytes, is unusual, or wrong."""
        cdef Py_ssize_t i
        cdef part_t *part
        cdef Items items
        counts = displs = types = None
        if type(spec) is not list and type(spec) is not tuple:
            return False
        if len(spec) == 4:
            self.memory, counts, displs, types = spec
        elif len(spec) == 3 and type(spec[1]) is tuple and len(<tuple>spec[1]) == 2:
            self.memory, (counts, displs), types = spec
        if type(counts) is not list or type(displs) is not list or type(types) is not list:
            return False
        self.spec, self.kinds, self.area, self.size = spec, list(types), _Area.__new__(_Area), size
        self.parts = <part_t *>PyMem_Calloc(size, sizeof(part_t))
        if self.parts == NULL:
            raise MemoryError
        if not len(self.kinds) == len(<list>counts) == len(<list>displs) == size:
            return False
        if not self.area.of(self.memory, writable):
            return False
        for i in range(size):
            part = &self.parts[i]
            part.count, part.offset = small((<list>counts)[i]), small((<list>displs)[i])
            found = getattr(self.kinds[i], "usable_items", None)
            if type(found) is not Items or part.count < 0 or not 0 <= part.offset <= self.area.memory.nbytes:
                return False
            items = self.kinds[i] = found
            if not items.fit(part.count, self.area.memory.nbytes - part.offset) or part.count > most // items.size:
                return False
            part.kind, part.nbytes = items.serial, part.count * items.size
        return True

    cdef char *at(self, Py_ssize_t rank) noexcept:
        return self.area.memory.data + self.parts[rank].offset

    cdef bint shares(self, _Parts other) noexcept:
        """Return True if both memories have a byte in common."""
        cdef memory_t one = self.area.memory, two = other.area.memory
        return one.data < two.data + two.nbytes and two.data < one.data + one.nbytes

    cdef bint apart(self) except -1:
        """Return True if no two blocks share a byte.

        The answer is kept, because programs repeat an exchange with the same types.
        """
        key = PyBytes_FromStringAndSize(<char *>self.parts, self.size * sizeof(part_t))
        if key not in _apart:
            try:
                _places_of(self.spec, "recvbuf", self.size)
            except Exception:
                return False
            if len(_apart) >= MOST_APART:
                _apart.clear()
            _apart.add(key)
        return True


def exchange_blocks(comm, sendspec, recvspec):
    """Start an Alltoallw with common arguments; return None if the general path must handle the call."""
    cdef BlockExchange made
    cdef CommunicatorBase core
    cdef ProgressBase engine
    cdef _Parts sources = _Parts.__new__(_Parts)
    cdef _Parts places = _Parts.__new__(_Parts)
    cdef long long tag
    if not isinstance(comm, CommunicatorBase) or not isinstance(comm.engine, ProgressBase):
        return None
    core, engine = comm, comm.engine
    if not comm.shares_memory and (core._reach != 1 or comm.remote is not None or not comm.native):
        return None
    if not engine.calm() or engine.stepping or engine.recorder is not None or comm._refusal is not None or engine.settings.coll:
        return None
    limit = engine.brief_limit
    if not sources.of(sendspec, core._reach, limit, False) or not places.of(recvspec, core._reach, limit, True):
        return None
    if sources.parts[core.rank].nbytes != places.parts[core.rank].nbytes or sources.shares(places) or not places.apart():
        return None
    tag = comm.collectives
    comm.collectives = (tag + 1) % TAG_LIMIT
    made = BlockExchange.__new__(BlockExchange)
    made._engine, made.comm, made.sources, made.places, made.tag = engine, core, sources, places, tag
    made.say("Alltoallw", core, ABSENT, ABSENT)
    made.begin(engine, core)
    return made


@cython.final
cdef class BlockExchange(Request):
    """An exchange of blocks. The request is complete when this rank has received and sent all of its blocks."""

    cdef readonly object comm
    cdef readonly long long tag
    cdef _Parts sources, places
    cdef list arrivals
    cdef Py_ssize_t left  # messages that are to come, or to leave

    @property
    def name(self):
        """The name of the call."""
        return "Alltoallw"

    @property
    def note(self):
        """The number that every message of this call carries, on all ranks; see `aiompi.coll.signature`."""
        return ALLTOALLW

    cdef int begin(self, ProgressBase engine, CommunicatorBase core) except -1:
        # A message that came before the call may end the exchange at any step, and so may Python code that the engine
        # calls. The exchange then receives no more, but the other ranks still get their blocks.
        cdef _Parts sources = self.sources
        cdef Py_ssize_t size = core._reach, distance
        self.arrivals = []
        self.left = 1
        try:
            engine.schedules.add(self)
            for distance in range(1, size):
                if not self._done:
                    self.post(engine, core, (core.rank - distance + size) % size)
            for distance in range(1, size):
                self.send(engine, core, sources, (core.rank + distance) % size)
            if not self._done:
                self.copy_own(core.rank)
        except Exception as error:
            self.fail(error)
        self.one_less()
        return 0

    cdef int post(self, ProgressBase engine, CommunicatorBase core, int source) except -1:
        """Start to receive the block of a rank."""
        cdef PostedReceive receive = <PostedReceive?>new_of(core._receive_class, _NO_ARGUMENTS)
        cdef MatchQueues matcher = <MatchQueues?>core.route.matcher
        receive.prepare(engine, matcher, None, source, <int>self.tag, core.targets[source], None, None)
        receive.items, receive.count = self.places.kinds[source], self.places.parts[source].count
        receive.target = self.places.at(source)
        receive._callbacks = [self]
        self.arrivals.append(receive)
        self.left += 1
        if not (engine.calm() and matcher.meet(receive)):
            engine.receive(receive)
        return 0

    cdef int send(self, ProgressBase engine, CommunicatorBase core, _Parts sources, int dest) except -1:
        """Send the block for a rank."""
        cdef part_t *part = &sources.parts[dest]
        cdef Items items = sources.kinds[dest]
        cdef Request request
        peer = core._peers[dest]
        if not isinstance(peer, PeerBase):
            peer = engine.peer(core.targets[dest])
        if isinstance(peer, PeerBase) and (<PeerBase>peer).put_items(
            core.context_id + 1, core.rank, <int>self.tag, ALLTOALLW, items, part.count, sources.at(dest)
        ):
            return 0
        message = PyBytes_FromStringAndSize(NULL, part.nbytes)
        items.move_all(part.count, sources.at(dest), <char *>message, False)
        request = <Request?>peer.send(
            (message,), part.nbytes, core.context_id + 1, core.rank, self.tag, _STANDARD, ALLTOALLW
        )
        if not request._done:
            self.left += 1
            request.when_done(self)
        elif request._error is not None:
            raise request._error
        return 0

    cdef int copy_own(self, int rank) except -1:
        """Copy the block of this rank for itself."""
        cdef part_t *source = &self.sources.parts[rank]
        message = PyBytes_FromStringAndSize(NULL, source.nbytes)
        (<Items>self.sources.kinds[rank]).move_all(source.count, self.sources.at(rank), <char *>message, False)
        (<Items>self.places.kinds[rank]).move_all(
            self.places.parts[rank].count, self.places.at(rank), <char *>message, True
        )
        return 0

    def __call__(self, Request ended not None):
        """Note that a message has come or left."""
        if not self._done:
            error = ended._error
            if error is None and isinstance(ended, PostedReceive):
                error = self.unpacked(<PostedReceive>ended)
            if error is not None:
                self.fail(error)
        self.one_less()

    cdef object unpacked(self, PostedReceive receive):
        """Unpack a message that was not unpacked on arrival; return the error if it is not the expected message."""
        cdef int64_t nbytes = self.places.parts[receive.entry.source].nbytes
        cdef _Area area
        if receive.note != ALLTOALLW or <int64_t>receive.length != nbytes:
            error = _disagreement(self, receive.entry.source, receive.note, receive.length, nbytes)
            if error is not None:
                return error
        if receive.data is not None:
            area = _Area.__new__(_Area)
            if not area.of(receive.data, False) or area.memory.nbytes != nbytes:
                raise InternalError(f"a message of {nbytes} bytes is kept as another one")
            receive.items.move_all(receive.count, receive.target, area.memory.data, True)
            receive.data = None
        return None

    cdef int one_less(self) except -1:
        self.left -= 1
        if not self.left and not self._done:
            gone = self.leave()
            self.finish()
        return 0

    cdef tuple leave(self):
        """Return the objects that only an exchange in progress needs. The caller drops them after the completion."""
        gone = self.arrivals, self.sources, self.places
        self._engine.schedules.discard(self)
        self.arrivals = self.sources = self.places = None
        return gone

    def fail(self, error):
        """End the exchange with an error. Messages that come for it from now on are dropped."""
        if not self._done:
            for receive in self.arrivals:
                (<PostedReceive>receive).items = None
            gone = self.leave()
            Request.fail(self, error)

    def spin(self):
        cdef ProgressBase engine = self._engine
        if isinstance(engine.driver, DriverBase):
            while not self._done and (<DriverBase>engine.driver).look_briefly(True):
                PyErr_CheckSignals()
        return self._done

    def cancel(self):
        """Do nothing: other ranks take part (section 3.8)."""
        return False

    def withdraw(self):
        """Do nothing: the exchange runs to its end."""
