# The base of a rank's driver: the check of the calling thread, and brief polling before a wait.
# `aiompi.core.pure.driver` has the same class in Python.

cdef extern from *:
    """
    #include <pythread.h>
    """
    unsigned long PyThread_get_thread_ident()
    int PyErr_CheckSignals() except -1

#: seconds for which a task polls before it waits for a request, about as long as another rank takes to answer
cdef double BRIEF_LOOK = 8e-6
#: seconds for which a blocking call looks before the driver looks for other work as well
cdef double SHORT_LOOK = 10e-6
# polls of a poller that is not native
cdef object _BRIEF_LOOKS = range(16)
cdef object _ONE_LOOK = range(1)


cdef class DriverBase:
    """The base of a rank's driver: checks the calling thread, and polls briefly; see `aiompi.engine.seams.Driver`."""

    cdef public unsigned long owner
    cdef public object loop_runs
    cdef public list _pollers
    cdef public double _brief_until
    cdef public bint _busy

    def __init__(self, thread, clock):
        self._pollers = []

    cdef bint allows(self) except -1:
        return PyThread_get_thread_ident() == self.owner and (self.loop_runs is None or self.loop_runs())

    def admits(self):
        """Return True if the calling thread owns the rank, and the event loop, if there is one, runs."""
        return self.allows()

    cdef bint may_look(self) noexcept:
        """Return True if this thread may poll for messages first, before other work that may be due."""
        return self._brief_until and PyThread_get_thread_ident() == self.owner and seconds_now() < self._brief_until

    cdef bint look_briefly(self, bint single) except -1:
        """Poll once for the message of a blocking call, if no other work is due; return True if anything came."""
        return self.may_look() and look_at(self._pollers, _ONE_LOOK, SHORT_LOOK, single)

    def finish_soon(self, list pending not None):
        """Poll for messages, and remove operations from the end of a list as long as the last one has succeeded."""
        while pending:
            engine = (<Request?>pending[len(pending) - 1])._engine
            if not isinstance(engine, ProgressBase) or engine.stepping or (<ProgressBase>engine).recorder is not None:
                return
            if not self.look_briefly(False):
                return
            PyErr_CheckSignals()
            drop_done(pending)

    def completes_soon(self, Request request not None):
        """Poll before a task waits for a request, if the loop spins; return True if the poll completes the request."""
        if not self.may_look():
            return False
        if look_at(self._pollers, _BRIEF_LOOKS, BRIEF_LOOK, True):
            self._busy = True
            if request._done:
                return True
        # Nothing arrived, or only other work, of which there may be more.
        self._brief_until = 0
        return False
