# The base of a send: its state, and its completion. `aiompi.core.pure.send` has the same class in Python.

cdef class SendBase(Request):
    """The base of a send: its state, and its completion; see `aiompi.engine.send.Send`."""

    cdef public object peer, payload
    cdef public uint64_t nbytes, srqid, context
    cdef public bint acknowledged, released, recalling, invited, ready, expendable, unsent

    def __init__(self, engine, peer, payload, uint64_t nbytes):
        self.begin(engine, peer, payload, nbytes)

    cdef int begin(self, engine, peer, payload, uint64_t nbytes) except -1:
        self._engine = engine
        self.peer = peer
        self.payload = payload
        self.nbytes = nbytes
        self.acknowledged = True
        return 0

    def spin(self):
        """Look for the answer of the receiver for a moment."""
        cdef ProgressBase engine
        if not self._done and isinstance(self._engine, ProgressBase):
            engine = <ProgressBase>self._engine
            if not engine.stepping and engine.recorder is None and isinstance(engine.driver, DriverBase):
                (<DriverBase>engine.driver).look_briefly(True)
        return self._done

    def sent(self):
        """Note that the memory of the payload is free again."""
        self.released = True
        if self.acknowledged and not self._done:
            self.payload = ()
            self.finish()

    def matched(self):
        """Note that the receiver has matched the message (synchronous and ready mode, section 3.4)."""
        self.acknowledged = True
        if self.released:
            self._complete_once()

    def _complete_once(self):
        if not self._done:
            self.payload = ()
            self.complete()
