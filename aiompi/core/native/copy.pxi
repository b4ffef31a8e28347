# Copies by the kernel between the memory of two ranks; copy.h says how both ends share them.

cdef void _warn(str text) noexcept:
    """Issue a warning that raises in no call, even where warnings are errors."""
    warn(text, RuntimeWarning)


#: seconds between two looks of a receiver that can do nothing else
cdef double _LOOK_PAUSE = 100e-6
#: most seconds for which a withdrawn receive waits until the sender no longer writes: no process can hold this one
cdef double _LONGEST = 2.0


def name_tracer(int pid):
    """Allow a process and its descendants to access this process's memory, as Yama requires; 0 allows none.

    This is PR_SET_PTRACER of prctl(2).

    Raises:
        OSError: there is no such process, or no Yama.
    """
    cdef int error
    if pid < 0:
        raise InternalError("a tracer is one process")  # -1 would be all
    error = process_tracer(pid)
    if error:
        raise OSError(error, strerror(error))


@cython.final
cdef class PeerProcess:
    """The process at the other end of a connection."""

    cdef readonly int pid
    cdef public bint reachable
    cdef readonly bint invites
    cdef readonly uint64_t copied
    cdef int _fd
    cdef uint32_t _number
    cdef bint _inviting

    def __cinit__(self, int pid, bint invites=True):
        self.pid = pid
        self.invites = invites
        self._fd = process_open(pid) if pid > 0 else -1
        self.reachable = self._fd >= 0 and process_probe(pid) == EFAULT

    def __dealloc__(self):
        if self._fd >= 0:
            close(self._fd)

    def same(self):
        """Return True if this rank can access the process's memory, and the process id has not been reused."""
        if self.reachable and (self._fd < 0 or process_signal(self._fd) != 0):
            self.reachable = False
        return self.reachable

    def alive(self):
        """Return True if the process has not ended. A stopped process has not: it may be in the middle of a write."""
        if self._fd < 0 or process_signal(self._fd) == ESRCH:
            return False
        return process_probe(self.pid) != ESRCH

    cdef int failed(self, int error) except -1:
        self.reachable = error == EFAULT  # this error says that the memory is gone, not the process
        return 0

    def close(self):
        """Reach the process no more."""
        self.reachable = False
        if self._fd >= 0:
            close(self._fd)
            self._fd = -1


@cython.final
cdef class Exposed:
    """A message that its sender has exposed (see `aiompi.wire.frame.Offer`)."""

    cdef PeerProcess _process
    cdef Ring _ring
    cdef piece_t pieces[PIECES]
    cdef int count
    cdef uint64_t _retracted, _length, _own  # `_length`: bytes of the invitation; `_own`: parts that this rank claimed
    cdef uint32_t _number                    # of the invitation, 0 for none
    cdef bint _complete

    def __cinit__(self, PeerProcess process not None, list pieces not None, Ring ring not None, uint64_t retracted):
        self._process = process
        self._ring = ring
        self._retracted = retracted
        self._complete = True
        for address, nbytes in pieces:
            if self.count == PIECES:
                raise InternalError("an exposed message has too many pieces")
            self.pieces[self.count].address = address
            self.pieces[self.count].length = nbytes
            self.count += 1

    cpdef bint land(
        self, PeerBase peer, PostedReceive receive, int source, int tag, uint64_t length, uint64_t srqid
    ) except -1:
        """Match a receive and copy all or part of its message; return False if it must be fetched another way."""
        cdef uint64_t filled
        cdef char *target
        if peer is None or receive is None:
            raise TypeError("a message lands for a receive, from a peer")
        target, memory = receive.target, receive._memory
        if receive.unpacks or not self._process.reachable:
            return False
        if memory is None:
            try:
                memory = allocate(length)
            except MemoryError:
                return False
            target = <char *>buffer_of(memory).buf
        elif length > <uint64_t>receive.capacity or (type(memory) is not Span and view_released(memory)):
            return False
        receive.source, receive.tag, receive.length = source, tag, length
        if peer.place_to_say() != NULL and self.begin_invitation(length):
            peer.say(INVITE, self._number, length, srqid, <uint64_t>target)
        filled = self.fill(target, length, 0, AT_ONCE, length)
        if filled < length or not self.close(False):
            peer.copy_on(receive, PyMemoryView_FromObject(memory), srqid, self, filled)
        elif not self.stands():
            peer.fetch(receive, source, tag, length, srqid, None)
        else:
            try:
                peer.say(SYNCACK, 0, 0, srqid, 0)
            finally:  # after the answer the memory belongs to the sender's program again
                if receive._memory is None:
                    receive.data = memory
                    receive.taken()
                else:
                    receive.finish()
        return True

    cdef uint32_t begin_invitation(self, uint64_t length) except? 0:
        """Let the sender claim parts of the message from now on; return the invitation's number, 0 if there is none."""
        cdef PeerProcess process = self._process
        if process._inviting or not process.invites or length < 2 * PART or not process.same():
            return 0
        process._inviting = True
        process._number = process._number % 0x7FFFFFFF + 1
        self._number = process._number
        self._length = length
        self._own = 0
        STORE_RELEASE(&self._ring.inn.words.claims, <uint64_t>self._number << 32)
        return self._number

    def invite(self, memory):
        """Invite the sender to write parts of the message into `memory` as well, until `close`.

        Returns:
            The number of the invitation and the address of `memory`, both for the sender; None if the sender is not
            invited.
        """
        cdef Py_buffer view
        cdef uint64_t address
        if not self.begin_invitation(len(memory)):
            return None
        PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE)
        address = <uint64_t>view.buf
        PyBuffer_Release(&view)
        return self._number, address

    def copy(self, memory, uint64_t start, uint64_t most, uint64_t length):
        """Copy up to `most` bytes of a message of `length` bytes, beginning at byte `start`.

        Returns:
            The offset up to which the message has been copied, or is being copied by the sender. If no more can be
            copied, the offset is `length`, and `stands` returns False.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE)
        try:
            return self.fill(<char *>view.buf, view.len, start, most, length)
        finally:
            PyBuffer_Release(&view)

    cdef uint64_t fill(self, char *to, uint64_t room, uint64_t start, uint64_t most, uint64_t length) except? -1:
        """Do what `copy` does, into memory with room for `room` bytes."""
        cdef uint64_t until = length if most > length - start else start + most
        cdef uint64_t stop, whole = length
        if length > room:
            length = room
        if self._number and not self._length and not self.close(False):
            return start  # `close` has been called; this rank goes on alone once the sender writes no more
        while start < until and start < length and self._complete:
            if self._number:
                start = self.claim()
                if start == NO_PART:
                    return whole
                stop = length if start > length or length - start < PART else start + PART
            else:
                stop = length if length < until else until
            if start < stop:
                self.read(to, start, stop)
            start = stop
        return start if self._complete and start < length else whole  # bytes beyond the room are dropped

    cdef uint64_t claim(self) except? 0:
        """Claim the next part; return where it begins, NO_PART if all are claimed."""
        cdef uint64_t part = claim_part(&self._ring.inn.words[0], self._number, (self._length + PART - 1) // PART)
        if part == NO_PART:
            return NO_PART
        self._own += 1
        return part * PART

    cdef int read(self, char *to, uint64_t start, uint64_t stop) except -1:
        cdef int error
        if not self._process.reachable:  # `stands` finds out afterwards whether the bytes are those of the peer
            self._complete = False
            return 0
        if stop - start < GIL_FREE:
            error = copy_part(0, self._process.pid, self.pieces, self.count, <uint64_t>to, start, stop)
        else:
            with nogil:
                error = copy_part(0, self._process.pid, self.pieces, self.count, <uint64_t>to, start, stop)
        if error:
            self._complete = False
            self._process.failed(error)
        else:
            self._process.copied += stop - start
        return 0

    def stands(self):
        """Return True if the copy is the message as it was sent. If not, the receiver must ask for it (CTS)."""
        FENCE()
        unchanged = LOAD_RELAXED(&self._ring.inn.words.retracted) == self._retracted
        return self._complete and unchanged and self._process.same()

    def close(self, bint wait=True):
        """End the invitation; return False if the sender still writes into the memory and `wait` is False."""
        cdef words_t *words = self._ring.inn.words
        cdef uint64_t claimed
        cdef int settled
        cdef double until = monotonic() + _LONGEST
        if not self._number:
            return True
        if self._length:
            # No part can be claimed from here on.
            claimed = EXCHANGE(&words.claims, 0)
            claimed = self.claimed_there(claimed)
            self._own, self._length = claimed, 0
        while True:
            with nogil:
                settled = await_assisted(words, self._number, self._own)
            if not settled and self._process.alive():
                if not wait:
                    return False
                if monotonic() < until:
                    sleep(_LOOK_PAUSE)
                    continue
                _warn(
                    f"process {self._process.pid} has not finished writing into memory of this one for {_LONGEST:g} s; "
                    "the memory is given back all the same"
                )
            if settled != 1:
                self._complete = False
            self._number = 0
            self._process._inviting = False
            return True

    cdef uint64_t claimed_there(self, uint64_t word) except? -1:
        """Return how many parts the sender has claimed, according to the last value of `claims`."""
        cdef uint64_t parts = (self._length + PART - 1) // PART
        cdef uint64_t claimed = word & 0xFFFFFFFF
        if word >> 32 != self._number or claimed < self._own or claimed > parts:
            self._complete = False  # the word is forged, so nothing is known of the memory
            return 0
        return claimed - self._own


@cython.final
cdef class Assistance:
    """The sender of a message, which writes parts of it for its receiver."""

    cdef PeerProcess _process
    cdef Ring _ring
    cdef list _held  # the pieces
    cdef uint64_t _address, _length
    cdef uint32_t _number, _written

    def __cinit__(self, PeerProcess process not None, payload, uint64_t wanted, uint64_t address, uint32_t number,
                 Ring ring not None):
        self._process = process
        self._held = list(payload)
        self._length = wanted
        self._address = address
        self._number = number
        self._ring = ring
        STORE_RELEASE(&ring.out.words.done, <uint64_t>number << 32)

    cpdef bint write(self, uint64_t most) except -1:
        """Write at most `most` bytes; return True if there is more to do."""
        cdef piece_t pieces[PIECES]
        cdef Py_buffer views[PIECES]
        cdef int count = 0, more = 0
        cdef uint64_t copied = 0
        if len(self._held) > PIECES or not self._process.same():
            return False
        try:
            for piece in self._held:
                PyObject_GetBuffer(piece, &views[count], PyBUF_SIMPLE)
                pieces[count].address = <uint64_t>views[count].buf
                pieces[count].length = views[count].len
                count += 1
            with nogil:
                more = assist(self._ring.out.words, self._number, self._process.pid, pieces, count, self._address,
                              self._length, most, &self._written, &copied)
        finally:
            while count:
                count -= 1
                PyBuffer_Release(&views[count])
        self._process.copied += copied
        return more == 1
