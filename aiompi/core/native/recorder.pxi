# What a rank records while it is traced. `aiompi.core.pure.recorder` has the same class in Python.

cdef extern from "recorder.h":
    ctypedef struct record_t:
        uint64_t begin, wait, end, context, nbytes
        int32_t peer, tag
        uint32_t place, wait_place
        unsigned char kind, way
        unsigned short word
    ctypedef struct site_t:
        PyObject *called
        PyObject *code
        PyObject *caller
        int instruction
        int caller_instruction "from"
        uint32_t number
    ctypedef struct code_t:
        PyObject *code
        int kind
    uint64_t recorder_now() noexcept
    size_t recorder_hash(const void *, size_t) noexcept
    size_t recorder_place(const site_t *, size_t) noexcept
    bint recorder_same(const site_t *, const site_t *) noexcept
    PyObject *recorder_frame() noexcept
    PyObject *recorder_back(PyObject *) noexcept
    PyObject *recorder_code(PyObject *) noexcept
    int recorder_instruction(PyObject *) noexcept

cdef enum:
    SITES = 4096
    CODES = 1024
    UNKNOWN_CODE = 0  # kinds of code
    PROGRAM_CODE = 1
    LIBRARY_CODE = 2
    WRAPPER_CODE = 3
    LOOP_CODE = 4

cdef uint64_t RECORD_HEAD = _RECORD_HEAD  # where the header of the file has the number of records
cdef uint64_t RECORDS = _RECORDS          # where the records begin
cdef int REC_SEND = _REC_SEND
cdef int REC_RECV = _REC_RECV
cdef int REC_COLLECTIVE = _REC_COLLECTIVE
cdef int REC_PUT = _REC_PUT
cdef int REC_GET = _REC_GET
cdef int REC_WAIT = _REC_WAIT
cdef int WAY_RING = _WAY_RING
cdef int WAY_COPY = _WAY_COPY
cdef int WAY_SLOTS = _WAY_SLOTS
cdef int WAY_DIRECT = _WAY_DIRECT
cdef int WAY_FAILED = _WAY_FAILED


@cython.final
@cython.no_gc_clear  # to clear the object would release the memory without its exporter's knowledge
cdef class Recorder:
    """Writes a record of each operation into a ring of records.

    Other processes can map and change the file, so this object keeps the number of records itself. Any Python code may
    close the recorder, so a method looks up a record only after its last call of Python code.
    """

    cdef Py_buffer _view
    cdef bint _open
    cdef record_t *_records
    cdef uint64_t *_shown  # the number of records, for readers
    cdef uint64_t _head, _room, _mask
    cdef site_t *_sites
    cdef code_t *_codes
    cdef dict _kinds  # address of a code -> the code and its kind, for all codes to which the tables refer
    cdef dict _places
    cdef readonly object memory, naming
    cdef public int word
    cdef public uint32_t within

    def __cinit__(self, memory, naming):
        cdef uint64_t capacity
        PyObject_GetBuffer(memory, &self._view, PyBUF_WRITABLE)
        self._open = True
        capacity = (<uint64_t>self._view.len - RECORDS) / sizeof(record_t)
        if <uint64_t>self._view.len <= RECORDS or not capacity or capacity & (capacity - 1):
            raise ValueError("a ring has room for a power of two of records")
        if <uint64_t>self._view.buf % sizeof(uint64_t):
            raise ValueError("a ring of records begins at a multiple of 8 bytes")
        self.memory = memory
        self._shown = <uint64_t *>(<char *>self._view.buf + RECORD_HEAD)
        self._records = <record_t *>(<char *>self._view.buf + RECORDS)
        self._mask = capacity - 1
        self._sites = <site_t *>PyMem_Calloc(SITES, sizeof(site_t))
        self._codes = <code_t *>PyMem_Calloc(CODES, sizeof(code_t))
        if self._sites == NULL or self._codes == NULL:
            raise MemoryError
        self._kinds, self._places = {}, {}
        self.naming = naming

    def __dealloc__(self):
        self.release()
        PyMem_Free(self._sites)
        PyMem_Free(self._codes)

    cdef void release(self) noexcept:
        if self._open:
            self._open = False
            PyBuffer_Release(&self._view)

    def close(self):
        """Write nothing any more."""
        self.release()

    cdef int kind_of(self, PyObject *code) except -1:
        """Return the kind of a code."""
        cdef code_t *known = &self._codes[recorder_hash(code, CODES - 1)]
        if known.code != code:
            found = self._kinds.get(<size_t>code)
            if found is None:
                found = self._kinds[<size_t>code] = <object>code, self.naming.classify(<object>code)
            known.kind = found[1]
            known.code = code
        return known.kind

    cpdef uint32_t place(self) except? 0:
        """Return the number of the place in the program that makes the call."""
        cdef PyObject *frame
        cdef PyObject *code
        cdef int kind
        cdef site_t site
        if self.within:
            return self.within
        site.called = site.caller = NULL
        site.caller_instruction = 0
        frame = recorder_frame()
        try:
            while frame != NULL:
                code = recorder_code(frame)
                kind = self.kind_of(code)
                if kind == PROGRAM_CODE:
                    break
                if kind == LOOP_CODE:
                    return 0
                if kind == LIBRARY_CODE:
                    site.called = code
                frame = recorder_back(frame)
            if frame == NULL:
                return 0
            site.code, site.instruction = code, recorder_instruction(frame)
            frame = recorder_back(frame)
            if frame != NULL:
                code = recorder_code(frame)
                if self.kind_of(code) == PROGRAM_CODE:
                    site.caller, site.caller_instruction = code, recorder_instruction(frame)
            return self.number_of(&site)
        finally:
            if frame != NULL:
                Py_DECREF(<object>frame)

    cdef uint32_t number_of(self, site_t *site) except? 0:
        """Return the number of a place."""
        cdef site_t *known = &self._sites[recorder_place(site, SITES - 1)]
        if not recorder_same(known, site):
            key = <size_t>site.called, <size_t>site.code, site.instruction, <size_t>site.caller, site.caller_instruction
            number = self._places.get(key)
            if number is None:
                called = None if site.called == NULL else <object>site.called
                caller = None if site.caller == NULL else (<object>site.caller, site.caller_instruction)
                number = self.naming.place(called, (<object>site.code, site.instruction), caller)
                self._places[key] = number
            site.number = number
            known[0] = site[0]
        return known.number

    cdef uint64_t begin(self, int kind, uint64_t context, int peer, int tag, uint64_t nbytes) except? 0:
        """Write a record, and return its handle; 0 once the recorder is closed."""
        cdef uint32_t place = self.place()
        cdef uint64_t handle
        cdef record_t *record
        if self._open and self._head >= self._room:
            self._room = self.naming.room(self._head)
            if self._head >= self._room:
                self.release()
        if not self._open:
            return 0
        handle = self._head + 1
        record = &self._records[(handle - 1) & self._mask]
        record.end = record.wait = 0
        record.begin = recorder_now()
        record.context, record.nbytes, record.peer, record.tag = context, nbytes, peer, tag
        record.place, record.wait_place, record.way, record.word = place, 0, 0, 0
        record.kind = <unsigned char>kind
        if kind < REC_WAIT:
            record.word, self.word = <unsigned short>self.word, 0
        self._head = self._shown[0] = handle
        return handle

    cdef record_t *find(self, uint64_t handle) noexcept:
        """Return the record of a handle; NULL if a later record has overwritten it."""
        if not self._open or not handle or self._head - handle > self._mask:
            return NULL
        return &self._records[(handle - 1) & self._mask]

    cdef int forget(self, uint64_t handle) except -1:
        """Take back the last record."""
        if self.find(handle) != NULL and self._head == handle:
            self._head = self._shown[0] = handle - 1
        return 0

    def start(self, int kind, uint64_t context, int peer, int tag, uint64_t nbytes):
        """Write the record of something that begins now, and return its handle."""
        return self.begin(kind, context, peer, tag, nbytes)

    def end(self, uint64_t handle, int way=0):
        """Note that the operation of a record has ended."""
        cdef record_t *record = self.find(handle)
        if record != NULL:
            if not record.end:
                record.end = recorder_now()
            if way:
                record.way = <unsigned char>way

    def awaits(self, uint64_t handle):
        """Note that the program waits from now on for the operation of a record."""
        cdef record_t *record = self.find(handle)
        if record != NULL and not record.wait:
            record.wait = recorder_now()

    def meets(self, uint64_t handle, int peer):
        """Store the peer of an operation in the operation's record, once the peer is known."""
        cdef record_t *record = self.find(handle)
        if record != NULL:
            record.peer = peer

    def past(self, int kind, double seconds, int tag=0, uint64_t nbytes=0):
        """Write the record of something that has just ended after so many seconds."""
        cdef record_t *record = self.find(self.begin(kind, 0, -1, tag, nbytes))
        if record != NULL:
            record.end = record.begin
            record.begin -= <uint64_t>(seconds * 1e9)

    cdef int waits_for(self, Request request, uint32_t place=0) except -1:
        cdef record_t *record
        if request._done:
            return 0
        record = self.find(request.traced)
        if record != NULL and record.wait:
            return 0
        place = place or self.place()
        while self.find(request.traced) == NULL:
            inner = request.follow(place)
            if inner is None:
                request.traced = self.begin(REC_WAIT, 0, -1, 0, 0)
                break
            request = <Request?>inner
        record = self.find(request.traced)
        if record != NULL and not record.wait:
            record.wait_place = place
            record.wait = recorder_now()
        return 0

    def waits(self, request, uint32_t place=0):
        """Note that the program waits for a request from now on."""
        self.waits_for(<Request?>request, place)

    def ended(self, request):
        """Note that a request has ended."""
        self.has_ended(<Request?>request)

    cdef int has_ended(self, Request request) except -1:
        cdef uint64_t handle = request.traced
        cdef record_t *record = self.find(handle)
        cdef PostedReceive receive
        cdef int process
        request.traced = 0
        if record == NULL or record.end:
            return 0
        record.end = recorder_now()
        if request._error is not None or request._cancelled:
            record.way = <unsigned char>WAY_FAILED
        elif record.kind == REC_RECV and isinstance(request, PostedReceive):
            receive = <PostedReceive>request
            record.tag, record.nbytes = receive.tag, receive.length
            if isinstance(receive._comm, CommunicatorBase):
                process = (<CommunicatorBase>receive._comm).process_of(receive.source)
                record = self.find(handle)
                if record != NULL:
                    record.peer = process
        return 0

    def sent(self, uint64_t handle, request, peer):
        """Note how a message is sent to a peer."""
        self.was_sent(handle, <Request?>request, peer)

    cdef int was_sent(self, uint64_t handle, Request request, peer) except -1:
        cdef bint in_ring = isinstance(peer, PeerBase) and (<PeerBase>peer).ring is not None
        cdef int way = WAY_RING if in_ring else self.naming.way(peer)
        cdef record_t *record = self.find(handle)
        if record == NULL:
            return 0
        if request._done:
            record.end = record.begin + 1  # sent at once: to read the clock again would take as long as the rest
        else:
            request.traced = handle
            if in_ring and isinstance(request, SendBase) and (<SendBase>request).released:
                way = WAY_COPY
        record.way = <unsigned char>way
        return 0


cdef Recorder recorder_of(engine):
    """Return the recorder of a rank, None if it is not traced."""
    return (<ProgressBase>engine).recorder if isinstance(engine, ProgressBase) else None


cdef int note_end(Request request) except -1:
    """Note in the record of a request that it has ended."""
    cdef Recorder recorder = recorder_of(request._engine)
    if recorder is not None:
        recorder.has_ended(request)
    return 0


cdef int shown(number) except? -1:
    """Convert a rank or a tag for a record; return -1 for an invalid one, which the call itself reports."""
    cdef int overflow = 0
    cdef long long value
    if not isinstance(number, int):
        try:
            number = index(number)
        except TypeError:
            return -1
    value = PyLong_AsLongLongAndOverflow(number, &overflow)
    return -1 if overflow or value != <int>value else <int>value
