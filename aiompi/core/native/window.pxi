# The base of a window: direct accesses to other ranks' memory. `aiompi.core.pure.window` has the same class in Python.

# What this rank may do with the memory of another one.
cdef enum:
    OPEN = 1    # an epoch is open
    LOCKED = 2  # it is one of a lock, so that a flush is allowed
    ALONE = 4   # no other rank accesses this memory meanwhile

#: ranks of a window, at most
cdef Py_ssize_t MOST_RANKS = 2**20

#: flushes after which one goes the usual way, so that a program that only flushes makes progress
cdef uint32_t FLUSHES = 64

ctypedef struct place_t:
    char *here      # the memory of a rank; NULL if it is not mapped in this process
    uint64_t there  # the address of that memory in the rank's process; 0 if it is not known
    int64_t nbytes, unit
    int rights


cdef class WindowBase:
    """The base of a window, for direct accesses to other ranks' memory; see `aiompi.window.window.Window`.

    Either the memory of another rank is mapped in this process, or the kernel copies between the two processes. An
    address that another rank has announced is used only for copies from or to that rank's process, whose identity the
    transport has verified.
    """

    cdef public object comm
    cdef public set unflushed
    cdef public dict pending
    cdef public bint accessed
    cdef place_t *_places
    cdef Py_ssize_t _size
    cdef list _kept
    cdef tuple _operations
    cdef uint32_t _flushes

    def __dealloc__(self):
        PyMem_Free(self._places)

    def prepare(self, Py_ssize_t size, operations):
        """Make the tables for `size` ranks; the operations are in the order of fetch.h."""
        if self._places != NULL:
            raise InternalError("a window is prepared once")
        if not 0 < size <= MOST_RANKS:
            raise InternalError(f"a window has 1 to {MOST_RANKS} ranks, not {size}")
        self._places = <place_t *>PyMem_Calloc(size, sizeof(place_t))
        if self._places == NULL:
            raise MemoryError
        self._kept = [None] * size
        self._operations = tuple(operations)
        self._size = size
        self.withdraw()  # until a place is known

    cdef place_t *known(self, Py_ssize_t rank) except NULL:
        if not 0 <= rank < self._size:
            raise InternalError(f"a window has no rank {rank}")
        return &self._places[rank]

    def place(self, Py_ssize_t rank, memory, uint64_t address, int64_t nbytes, int64_t unit):
        """Note where the memory of a rank is.

        Args:
            memory: a memoryview of it; None if it is not mapped here.
            address: address of the memory in the process of that rank; 0 if the kernel must not copy.
            nbytes, unit: bytes of it, and of a displacement.
        """
        cdef place_t *place = self.known(rank)
        cdef Py_buffer *view
        place.here = NULL
        if nbytes < 0 or unit <= 0:
            raise InternalError("this is no memory of a window")
        if memory is not None:
            view = buffer_of(memory)
            if view.readonly or view.len < nbytes:
                raise InternalError("this is not the memory of a window")
            self._kept[rank] = memory
            place.here = <char *>view.buf
        place.there, place.nbytes, place.unit = address, nbytes, unit

    def permit(self, Py_ssize_t rank, int rights):
        """Set the rights of this rank on the memory of a rank: a sum of OPEN, LOCKED and ALONE."""
        self.known(rank).rights = rights

    def withdraw(self):
        """Send every access by the general path from now on: the window is freed or revoked, or a rank has failed."""
        cdef Py_ssize_t rank
        for rank in range(self._size):
            self._places[rank].nbytes = -1

    # The accesses. Each returns False, without an error, if the general path must make the access. Its record begins
    # before its arguments are looked at, because that may call Python.

    cdef uint64_t begins(self, int kind) except? 0:
        """Write the record of an access, if this rank is traced; return the handle, otherwise 0."""
        cdef Recorder recorder
        if not isinstance(self.comm, CommunicatorBase):
            return 0
        recorder = recorder_of((<CommunicatorBase>self.comm).engine)
        return 0 if recorder is None else recorder.begin(kind, (<CommunicatorBase>self.comm).context_id, -1, 0, 0)

    cdef bint ends(self, uint64_t handle, rank, int64_t nbytes, bint made) except -1:
        """Complete the record of an access if the access was made, otherwise remove the record; return `made`."""
        cdef Recorder recorder
        cdef record_t *record
        cdef int process
        if not handle:
            return made
        recorder = recorder_of((<CommunicatorBase?>self.comm).engine)
        if recorder is None:
            return made
        if not made:
            recorder.forget(handle)
            return False
        process = (<CommunicatorBase?>self.comm).process_of(rank)
        record = recorder.find(handle)
        if record != NULL:
            record.peer, record.nbytes, record.way = process, <uint64_t>nbytes, <unsigned char>WAY_DIRECT
            record.end = recorder_now()
        return True

    cdef place_t *target(self, rank, target, int64_t nbytes, int64_t *offset) except? NULL:
        """Find the part of the memory of a rank that a call names."""
        cdef int overflow = 0
        cdef long long number
        cdef place_t *place
        if type(rank) is not int:
            return NULL
        number = PyLong_AsLongLongAndOverflow(rank, &overflow)
        if overflow or not 0 <= number < self._size:
            return NULL
        place = &self._places[number]
        number = 0
        if target is not None:
            if type(target) is not int:
                return NULL
            number = PyLong_AsLongLongAndOverflow(target, &overflow)
        if overflow or not place.rights & OPEN or number < 0 or nbytes > place.nbytes:
            return NULL
        if number > (place.nbytes - nbytes) // place.unit:
            return NULL
        offset[0] = number * place.unit
        self.accessed = True
        return place

    def put_at_once(self, origin, rank, target):
        """Write an array to the memory of a rank."""
        cdef int64_t nbytes = 0
        cdef uint64_t handle = self.begins(REC_PUT)
        cdef bint made = self.write(origin, rank, target, &nbytes)
        return self.ends(handle, rank, nbytes, made)

    cdef bint write(self, origin, rank, target, int64_t *nbytes) except -1:
        cdef memory_t memory
        cdef int64_t offset
        cdef place_t *place
        array = plain_of(origin, &memory)
        if array is None:
            return False
        place = self.target(rank, target, memory.nbytes, &offset)
        if place == NULL:
            return False
        nbytes[0] = memory.nbytes
        if place.here == NULL:
            return self.copy(1, rank, place.there, memory, offset)
        move_bytes(place.here + offset, memory.data, memory.nbytes)
        return True

    def get_at_once(self, origin, rank, target):
        """Read from the memory of a rank into an array."""
        cdef int64_t nbytes = 0
        cdef uint64_t handle = self.begins(REC_GET)
        cdef bint made = self.read(origin, rank, target, &nbytes)
        return self.ends(handle, rank, nbytes, made)

    cdef bint read(self, origin, rank, target, int64_t *nbytes) except -1:
        cdef memory_t memory
        cdef int64_t offset
        cdef place_t *place
        array = plain_of(origin, &memory)
        if array is None or memory.readonly:
            return False
        place = self.target(rank, target, memory.nbytes, &offset)
        if place == NULL:
            return False
        nbytes[0] = memory.nbytes
        if place.here == NULL:
            return self.copy(0, rank, place.there, memory, offset)
        move_bytes(memory.data, place.here + offset, memory.nbytes)
        return True

    cdef bint copy(self, int write, Py_ssize_t rank, uint64_t there, memory_t memory, int64_t offset) except -1:
        """Let the kernel copy between an array and the memory of another process."""
        cdef PeerProcess process
        cdef int error
        cdef uint64_t here = <uint64_t>memory.data
        peer = (<CommunicatorBase?>self.comm)._peers[rank] if there else None
        if not isinstance(peer, PeerBase) or (<PeerBase>peer).ring is None or rank in self.unflushed:
            return False
        process = (<PeerBase>peer).ring.process
        if process is None or not process.same():
            return False
        if memory.nbytes < GIL_FREE:
            error = kernel_copy(write, process.pid, here, there + offset, memory.nbytes)
        else:
            with nogil:
                error = kernel_copy(write, process.pid, here, there + offset, memory.nbytes)
        if error:
            process.failed(error)
        return not error

    def accumulate_at_once(self, origin, result, rank, target, op):
        """Combine an array with elements of a rank's memory. `result`, unless None, gets the elements as they were."""
        return self.recorded(origin, result, rank, target, op, False)

    def fetch_at_once(self, origin, result, rank, target, op):
        """Do what `accumulate_at_once` does, with one element."""
        return self.recorded(origin, result, rank, target, op, True)

    cdef bint recorded(self, origin, result, rank, target, op, bint single) except -1:
        cdef int64_t nbytes = 0
        cdef uint64_t handle = self.begins(REC_PUT if result is None else REC_GET)
        cdef bint made = self.combine(origin, result, rank, target, op, single, &nbytes)
        return self.ends(handle, rank, nbytes, made)

    cdef bint combine(self, origin, result, rank, target, op, bint single, int64_t *nbytes) except -1:
        cdef memory_t memory, kept
        cdef int64_t offset
        cdef size_t size, count
        cdef int operation = 1
        cdef combine_t *function
        cdef place_t *place
        for known in self._operations:
            if known is op:
                break
            operation += 1
        else:
            return False
        kept.data = NULL
        if result is not None and not (is_array(result) and array_memory(result, &kept) and not kept.readonly):
            return False
        if operation == FETCH_ONLY:
            origin = result
        size = operands(origin, operation, &memory, &function)
        if not size or (result is not None and not (same_type(origin, result) and kept.nbytes == memory.nbytes)):
            return False
        count = memory.nbytes // size
        place = self.target(rank, target, memory.nbytes, &offset)
        if place == NULL or place.here == NULL or <uint64_t>(place.here + offset) % size or (single and count != 1):
            return False
        nbytes[0] = memory.nbytes
        if place.rights & ALONE:
            combine_alone(function, operation, place.here + offset, memory.data, kept.data, count, size)
        elif memory.nbytes < COPIED:
            fetch_and_combine(function, operation, place.here + offset, memory.data, kept.data, count, size)
        else:
            with nogil:
                fetch_and_combine(function, operation, place.here + offset, memory.data, kept.data, count, size)
        return True

    def swap_at_once(self, origin, compare, result, rank, target):
        """Set one element of a rank's memory if the element equals the expected value, and fetch its old value."""
        cdef int64_t nbytes = 0
        cdef uint64_t handle = self.begins(REC_GET)
        cdef bint made = self.exchange(origin, compare, result, rank, target, &nbytes)
        return self.ends(handle, rank, nbytes, made)

    cdef bint exchange(self, origin, compare, result, rank, target, int64_t *nbytes) except -1:
        cdef memory_t memory, expected, kept
        cdef int64_t offset
        cdef place_t *place
        cdef size_t size
        if not (is_array(origin) and is_array(compare) and is_array(result)):
            return False
        if not (array_memory(origin, &memory) and array_memory(compare, &expected) and array_memory(result, &kept)):
            return False
        size = array_itemsize(origin)
        if kept.readonly or not same_type(origin, compare) or not same_type(origin, result) or not fetch_whole(origin):
            return False
        if <size_t>memory.nbytes != size or <size_t>expected.nbytes != size or <size_t>kept.nbytes != size:
            return False
        place = self.target(rank, target, size, &offset)
        if place == NULL or place.here == NULL or <uint64_t>(place.here + offset) % size:
            return False
        nbytes[0] = size
        fetch_and_swap(place.here + offset, memory.data, expected.data, kept.data, size)
        return True

    def flush_at_once(self, rank):
        """Complete the accesses to the memory of a rank, if that is possible without waiting."""
        cdef int overflow = 0
        cdef long long number
        if type(rank) is not int:
            return False
        number = PyLong_AsLongLongAndOverflow(rank, &overflow)
        if overflow or not 0 <= number < self._size or not self._places[number].rights & LOCKED:
            return False
        self._flushes += 1
        if self._flushes % FLUSHES == 0 or self._places[number].nbytes < 0:
            return False
        if rank in self.unflushed or self.pending.get(rank):
            return False
        FENCE()
        return True


cdef int move_bytes(char *to, const char *source, Py_ssize_t nbytes) except -1:
    """Copy between the program's memory and a window's memory; the source and the destination may overlap."""
    if nbytes < GIL_FREE:
        memmove(to, source, nbytes)
    else:
        with nogil:
            memmove(to, source, nbytes)
    return 0
