# What operations need of their rank. `aiompi.core.pure.progress` has the same class in Python.

cdef class ProgressBase:
    """The progress of one rank, as far as the common case of an operation needs it."""

    cdef public object driver, error, withholding, _dropped
    cdef public dict sends, assisted
    cdef public Recorder recorder
    cdef public bint stepping, degraded
    cdef public long long failures, awaits

    def __init__(self, driver):
        self.driver = driver
        self.withholding = set()
        self._dropped = ()
        self.sends = {}
        self.assisted = {}

    cdef bint calm(self) except -1:
        """Return True if a receive has only to be posted, as far as this rank is concerned."""
        return not (self.error is not None or self.degraded or self.withholding or self._dropped)

    def turn_due(self):
        """Return True if a task that awaits a complete operation must first give the event loop a turn."""
        if needs_no_turn(self) or self.stepping or not self.driver.background:
            return False
        self.awaits = 0
        return True


cdef bint needs_no_turn(object engine) except -1:
    """Return True if a task may go on at once with a complete operation, in the usual case; else `turn_due` says it."""
    if not isinstance(engine, ProgressBase) or (<ProgressBase>engine).stepping:
        return False
    if (<ProgressBase>engine).awaits >= AWAITS_PER_TURN or not (<ProgressBase>engine).driver.background:
        return False
    (<ProgressBase>engine).awaits += 1
    return True
