# The base of a communicator: the start of sends and receives. `aiompi.core.pure.communicator` has the same class in
# Python.

cdef object _STANDARD = Mode.STANDARD
cdef object _SEND = _SENDS[Mode.STANDARD]
cdef object _RECV = "recv from"


cdef class CommunicatorBase:
    """The base of a communicator, which starts sends and receives; see `aiompi.comm.communicator.Communicator`."""

    cdef public object engine, matcher, targets
    cdef public list _peers
    cdef public uint64_t context_id
    cdef public int rank, _reach
    cdef public long long tag_ub

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    cdef int admit(self) except -1:
        engine = self.engine
        driver = (<ProgressBase>engine).driver if isinstance(engine, ProgressBase) else engine.driver
        if not ((<DriverBase>driver).allows() if isinstance(driver, DriverBase) else driver.admits()):
            driver.check_thread()
        return 0

    def admitted(self):
        """Return this communicator for a call, if the calling thread may make one."""
        self.admit()
        return self

    cdef bint usual(self, rank, tag, int *r, int *t) except -1:
        """Convert a rank and a tag, if they are valid integers; return False if the general path must check them."""
        cdef int overflow = 0
        cdef long long number
        if not isinstance(rank, int) or not isinstance(tag, int):
            return False
        number = PyLong_AsLongLongAndOverflow(rank, &overflow)
        if overflow or not ANY <= number < self._reach or not self._reach:
            return False
        r[0] = <int>number
        number = PyLong_AsLongLongAndOverflow(tag, &overflow)
        if overflow or not ANY <= number <= self.tag_ub:
            return False
        t[0] = <int>number
        return True

    cdef PeerBase ready(self, dest, tag, int *t):
        """Return the peer that gets a message; None if it has no ring, or the general path must send the message."""
        cdef int r
        if not self.usual(dest, tag, &r, t) or r < 0 or t[0] < 0:
            return None
        peer = self._peers[r]
        return <PeerBase>peer if isinstance(peer, PeerBase) and (<PeerBase>peer).ring is not None else None

    cpdef int process_of(self, int rank) except? -1:
        """Return the process number of a rank of the peer group; -1 for no such rank, or one of another job."""
        return shown(self.targets[rank]) if 0 <= rank < len(self.targets) else -1

    cdef Request start(self, payload, Py_ssize_t nbytes, dest, tag, mode):
        cdef Recorder recorder = recorder_of(self.engine)
        cdef Request request
        cdef uint64_t handle
        cdef int to
        if recorder is None:
            return self.begin_send(payload, nbytes, dest, tag, mode)
        to = shown(dest)
        handle = recorder.begin(REC_SEND, self.context_id, self.process_of(to), shown(tag), nbytes)
        try:
            request = self.begin_send(payload, nbytes, dest, tag, mode)
        except BaseException:
            recorder.end(handle, WAY_FAILED)
            raise
        recorder.was_sent(handle, request, self._peers[to] if 0 <= to < len(self._peers) else None)
        return request

    cdef Request begin_send(self, payload, Py_ssize_t nbytes, dest, tag, mode):
        cdef int t
        cdef PeerBase peer
        cdef SendBase send
        if mode is _STANDARD:
            peer = self.ready(dest, tag, &t)
            if peer is not None:
                if peer.put(self.context_id, self.rank, t, payload, nbytes):
                    return self.engine.completed_send
                send = peer.expose(self._send_class, self.context_id, self.rank, t, payload, nbytes)
                if send is not None:
                    return send
        return self._start_send(payload, nbytes, dest, tag, mode)

    def send(self, payload, Py_ssize_t nbytes, dest, tag, mode=_STANDARD):
        """Start a send and return an internal request. All messages that have left at once share one request."""
        return self.start(payload, nbytes, dest, tag, mode)

    def isend(self, payload, Py_ssize_t nbytes, dest, tag, mode=_STANDARD):
        """Start a send and return a request for the user, which no other send shares."""
        # before the start: no Python code runs between the start and the return
        name = _SEND if mode is _STANDARD else _SENDS[mode]
        cdef int to = shown(dest), number = shown(tag)
        cdef Request request = self.start(payload, nbytes, dest, tag, mode)
        if request is self.engine.completed_send:
            request = Request(self.engine)
            request._done = True  # without `complete`: nothing waits for it yet
        request.say(name, self, to, number)
        return request

    def own_send(self, payload, Py_ssize_t nbytes, dest, tag, mode=_STANDARD):
        """Start a send; return the request to await."""
        name = _SEND if mode is _STANDARD else _SENDS[mode]
        cdef int to = shown(dest), number = shown(tag)
        cdef AwaitableCall made = awaitable_of(self.start(payload, nbytes, dest, tag, mode))
        made.say(name, self, to, number)
        return made

    cdef bint put_now(self, dest, tag, const char *data, Py_ssize_t nbytes) except -1:
        """Send a short message at once; return False if the general path must send it."""
        cdef int t
        cdef Recorder recorder
        cdef uint64_t handle
        cdef PeerBase peer = self.ready(dest, tag, &t)
        if peer is None:
            return False
        recorder = recorder_of(self.engine)
        if recorder is None:
            return peer.put_bytes(self.context_id, self.rank, t, data, nbytes)
        handle = recorder.begin(REC_SEND, self.context_id, <int>peer.rank if peer.rank == <int>peer.rank else -1, t, nbytes)
        if not peer.put_bytes(self.context_id, self.rank, t, data, nbytes):
            recorder.forget(handle)  # the general path makes a record of its own
            return False
        recorder.was_sent(handle, self.engine.completed_send, peer)
        return True

    cdef bint put_short(self, spec, dest, tag) except -1:
        cdef memory_t memory
        return is_array(spec) and array_memory(spec, &memory) and self.put_now(dest, tag, memory.data, memory.nbytes)

    cdef bint put_object(self, codec, obj, dest, tag) except -1:
        cdef unsigned char message[PLAIN]
        cdef Py_ssize_t nbytes = (<PlainCodec>codec).pack(obj, message) if isinstance(codec, PlainCodec) else 0
        return nbytes > 0 and self.put_now(dest, tag, <char *>message, nbytes)

    cdef AwaitableCall own_sent(self, dest, tag):
        """Return the request to await for a message that has left."""
        cdef AwaitableCall made = awaitable_of(self.engine.completed_send)
        made.say(_SEND, self, dest, tag)
        return made

    def send_short(self, spec, dest, tag):
        """Check the thread (see `admitted`), and send an array of numbers at once; return False if impossible."""
        self.admit()
        return self.put_short(spec, dest, tag)

    def send_object(self, codec, obj, dest, tag):
        """Check the thread (see `admitted`), and send a small plain object at once; return False if impossible."""
        self.admit()
        return self.put_object(codec, obj, dest, tag)

    def own_send_short(self, spec, dest, tag):
        """Do what `send_short` does, but return the request to await instead of True, and None instead of False."""
        self.admit()
        return self.own_sent(dest, tag) if self.put_short(spec, dest, tag) else None

    def own_send_object(self, codec, obj, dest, tag):
        """Do what `send_object` does, but return the request to await instead of True, and None instead of False."""
        self.admit()
        return self.own_sent(dest, tag) if self.put_object(codec, obj, dest, tag) else None

    def isend_short(self, spec, dest, tag, kind=None):
        """Do what `send_short` does, but return a request that no other send shares, or None instead of False."""
        cdef Request request
        self.admit()
        if not self.put_short(spec, dest, tag):
            return None
        request = Request.__new__(Request)
        request._engine = self.engine
        request._done = True
        request.say(_SEND, self, dest, tag)
        return handle_of(kind, request)

    def irecv(self, memory, source, tag, decode=None, status=None):
        """Start a receive."""
        return self.receive(memory, source, tag, decode, status)

    def own_recv(self, memory, source, tag, decode=None, status=None):
        """Start a receive; return the request to await."""
        return awaitable_of(self.receive(memory, source, tag, decode, status))

    cdef Request receive_short(self, spec, source, tag, status):
        """Receive into an array of numbers, or items without gaps; return None if the general path must do it."""
        memory = incoming(spec)
        return None if memory is None else self.receive(memory, source, tag, None, status)

    cdef Request soon(self, Request request):
        """Poll for the message of a receive for a moment; return the receive."""
        cdef ProgressBase engine
        if request._done or not isinstance(self.engine, ProgressBase):
            return request
        engine = <ProgressBase>self.engine
        if not engine.stepping and engine.recorder is None and isinstance(engine.driver, DriverBase):
            try:
                (<DriverBase>engine.driver).look_briefly(True)
            except BaseException:
                request.withdraw()
                raise
        return request

    def recv_short(self, spec, source, tag, status):
        """Receive into an array of numbers, and poll for its message; return None if the general path must do it."""
        self.admit()
        cdef Request request = self.receive_short(spec, source, tag, status)
        return None if request is None else self.soon(request)

    def recv_object(self, decode, source, tag, status):
        """Start to receive an object, and poll for its message for a moment."""
        self.admit()
        return self.soon(self.receive(None, source, tag, decode, status))

    def irecv_short(self, spec, source, tag, kind=None):
        """Start a receive into an array of numbers, if this thread may; return None if the general path must do it."""
        self.admit()
        cdef Request request = self.receive_short(spec, source, tag, None)
        if request is None:
            return None
        if isinstance(request, PostedReceive) and (<PostedReceive>request).entry.source == ANY:
            request.stay()
        return handle_of(kind, request)

    def own_recv_short(self, spec, source, tag, status):
        """Start a receive as `irecv_short` does, but return an `AwaitableCall`; it fails if a possible sender fails."""
        self.admit()
        cdef Request request = self.receive_short(spec, source, tag, status)
        return None if request is None else awaitable_of(request)

    def own_recv_object(self, codec, source, tag, status):
        """Check the thread (see `admitted`), and start to receive an object; return the request to await."""
        self.admit()
        return awaitable_of(self.receive(None, source, tag, codec, status))

    cdef Request receive(self, memory, source, tag, decode, status):
        cdef Recorder recorder = recorder_of(self.engine)
        cdef Request request
        cdef uint64_t handle
        if recorder is None:
            return self.begin_receive(memory, source, tag, decode, status)
        handle = recorder.begin(REC_RECV, self.context_id, self.process_of(shown(source)), shown(tag), 0)
        try:
            request = self.begin_receive(memory, source, tag, decode, status)
        except BaseException:
            recorder.end(handle, WAY_FAILED)
            raise
        request.traced = handle
        if request._done:
            recorder.has_ended(request)
        return request

    cdef Request begin_receive(self, memory, source, tag, decode, status):
        cdef int s, t
        cdef PostedReceive receive
        cdef bint simple = memory is None or type(memory) is Span or PyMemoryView_Check(memory)
        if not simple or not (status is None or isinstance(status, Status)) or not self.usual(source, tag, &s, &t):
            return self._start_receive(memory, source, tag, decode, status)
        receive = <PostedReceive?>new_of(self._receive_class, _NO_ARGUMENTS)
        receive.prepare(self.engine, self.matcher, memory, s, t, ANY if s < 0 else self.targets[s], decode, status)
        receive.say(_RECV, self, s, t)
        if not (
            isinstance(self.engine, ProgressBase) and (<ProgressBase>self.engine).calm()
            and isinstance(self.matcher, MatchQueues) and (<MatchQueues>self.matcher).meet(receive)
        ):
            self.engine.receive(receive)
        return receive

    def _start_send(self, payload, nbytes, dest, tag, mode):
        """Start a send that is not as simple as most."""
        raise NotImplementedError

    def _start_receive(self, memory, source, tag, decode, status):
        """Start a receive that is not as simple as most."""
        raise NotImplementedError

