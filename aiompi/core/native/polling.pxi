# Looking for frames before a rank sleeps. `aiompi.core.pure.polling` has the same functions in Python.

cdef enum:
    WATCHED = 64  # rings that are polled without the lock of the interpreter; for more rings the lock is kept

#: budget of a wait for one request. The wait ends with the first frame. The next frames stay in the ring until receives
#: are posted for them, because keeping them as unexpected messages takes more time.
cdef int64_t SINGLE = 1
#: budget of any other poll, so that one busy peer does not starve the others
cdef int64_t POLLED = 256 * 1024


cdef class RingPoller:
    """A link whose ring is looked at."""

    cdef public Ring _ring
    cdef public PeerBase peer

    cdef bint serve(self, int64_t budget) except -1:
        """Do pending work of the link, within the budget; return True if any work was done."""
        cdef Ring ring = self._ring
        cdef bint found
        if ring is None or ring._busy:
            return False
        try:
            if reader_pending(&ring.inn):
                found = ring.read(self.peer, budget) < budget
            else:
                found = reader_answer(&ring.inn)
        except Exception as error:
            self.failed(error)
            return True
        if ring.queued and self._ring is ring and writer_moved(&ring.out):
            self.write_on()
            return True
        return found

    def poll(self, looks):
        """Look once, whatever `looks` is; only the function `look` looks repeatedly."""
        return self.serve(POLLED)

    def failed(self, error):
        """Break the connection."""
        raise NotImplementedError

    def write_on(self):
        """Write the frames that wait for room."""
        raise NotImplementedError


def look(list pollers not None, looks, double seconds, bint single=False):
    """Poll all pollers in turn until one has work, and move this poller to the end of the list.

    Args:
        looks: number of looks of each poller that is not native.
        seconds: duration of the polling, if all pollers are native.
        single: True if the caller waits for one request.

    Returns:
        True if there was something to do.
    """
    return look_at(pollers, looks, seconds, single)


cdef bint look_at(list pollers, looks, double seconds, bint single) except -1:
    cdef int64_t budget = SINGLE if single else POLLED
    cdef Py_ssize_t i = 0
    cdef int found
    cdef bint native = True
    cdef watched_t watched[WATCHED]
    cdef list rings
    while i < len(pollers):
        poller = pollers[i]
        i += 1
        if isinstance(poller, RingPoller):
            if not (<RingPoller>poller).serve(budget):
                continue
        else:
            native = False
            if not poller.poll(looks):
                continue
        return _served(pollers, poller)
    if seconds <= 0 or not native or not 0 < len(pollers) <= WATCHED:
        return False
    rings = []  # keeps the rings alive
    for poller in pollers:
        if not isinstance(poller, RingPoller) or len(rings) == WATCHED:
            return False  # a finalizer has added this poller meanwhile
        ring = (<RingPoller>poller)._ring
        if ring is not None and not (<Ring>ring)._busy:
            watched[len(rings)].reader = &(<Ring>ring).inn
            watched[len(rings)].writer = &(<Ring>ring).out if (<Ring>ring).queued else NULL
            rings.append(ring)
    i = len(rings)
    with nogil:
        found = rings_watch(watched, i, seconds)
    if not found:
        return False
    for poller in [*pollers]:
        if isinstance(poller, RingPoller) and (<RingPoller>poller).serve(budget):
            return _served(pollers, poller)
    return False


cdef bint _served(list pollers, poller) except -1:
    if len(pollers) > 1 and poller in pollers:
        pollers.remove(poller)
        pollers.append(poller)
    return True
