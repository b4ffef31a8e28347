# The base of a rank's engine: the state that every operation uses. `aiompi.core.pure.progress` has the same class in
# Python.

cdef class ProgressBase:
    """The base of a rank's engine: the state that every operation uses."""

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
        """Return True if a receive can be posted without further checks of the state of this rank."""
        return not (self.error is not None or self.degraded or self.withholding or self._dropped)

    def turn_due(self):
        """Return True if a task that awaits a complete operation must first give the event loop a turn."""
        if needs_no_turn(self) or self.stepping or not self.driver.background:
            return False
        self.awaits = 0
        return True


cdef bint needs_no_turn(object engine) except -1:
    """Return True if a task may go on at once with a complete operation. If this returns False, `turn_due` decides."""
    if not isinstance(engine, ProgressBase) or (<ProgressBase>engine).stepping:
        return False
    if (<ProgressBase>engine).awaits >= AWAITS_PER_TURN or not (<ProgressBase>engine).driver.background:
        return False
    (<ProgressBase>engine).awaits += 1
    return True
