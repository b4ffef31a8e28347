# The request of a call that its await owns. `aiompi.core.pure.awaitable` has the same class in Python.
#
# An AwaitableCall is also the iterator of its own await, so that an await allocates no other object. When the operation
# is complete, or will be in a moment, the await takes a single step, which `take_step` makes. `awaits.waiting`
# makes all other steps.

cdef extern from *:
    """
    /* Return how many frames a call records as its origin, as a coroutine does; 0 without asyncio's debug mode. */
    static int origin_depth(void) { return PyThreadState_Get()->coroutine_origin_tracking_depth; }

    /* Make `step` the am_send of a class: as for coroutines, a step then ends without raising StopIteration. */
    static void step_by(PyObject *type, void *step) { ((PyTypeObject *)type)->tp_as_async->am_send = (sendfunc)step; }
    """
    int origin_depth()
    void step_by(object, void *)
    int PyIter_Send(object, object, PyObject **) except -1
    enum:
        PYGEN_RETURN
        PYGEN_NEXT

cdef enum:  # what has become of an operation that is to be awaited
    FRESH
    AWAITED
    STEPPED
    ENDED


cdef class AwaitableCall(Request):
    """The request of a call, owned by the code that awaits the call, as in `await comm.send(obj, dest)`.

    It is awaited once. If the await is cancelled or times out, the operation is withdrawn as far as possible. The
    withdrawal waits until no other process writes into the operation's memory. A warning reports a message that is lost
    in spite of the withdrawal. Another warning reports a call that is never awaited. If this call is a receive, it is
    withdrawn; other operations go on.

    For asyncio an `AwaitableCall` is a coroutine: `create_task` accepts the object itself, and a cancellation before
    the first step reaches the operation. For tools that show coroutines it has a coroutine's attributes.

    The engine refers to the operation only. Nothing but the program refers to this object, so its finalizer runs as
    soon as the program drops the object.
    """

    cdef Request _operation
    cdef object _steps
    cdef int _state
    cdef readonly object cr_origin

    def __init__(self, Request operation not None, call=None, comm=None):
        self.own(operation)
        if call is not None:
            self.say(call, comm, ABSENT, ABSENT)

    cdef int own(self, Request operation) except -1:
        cdef int depth = origin_depth()
        self._engine = operation._engine
        self._operation = operation
        if depth:
            self.cr_origin = _origin(depth)
        return 0

    @property
    def operation(self):
        return self._operation

    @property
    def __name__(self):
        return self._operation.__name__ if self._call is None else self.text()

    def __getattr__(self, name):
        raise _missing(self, name, awaited=self._state != FRESH)

    # Attributes of a coroutine.

    @property
    def cr_await(self):
        """What the operation waits for."""
        return None if self.begun() is None else self._steps.gi_yieldfrom

    @property
    def cr_code(self):
        """The code of the steps in which it waits."""
        return _waiting.__code__

    @property
    def cr_frame(self):
        """The frame of these steps; None once the steps have ended."""
        return None if self.begun() is None else self._steps.gi_frame

    @property
    def cr_running(self):
        """True while a step is made."""
        return self.begun() is not None and self._steps.gi_running

    @property
    def cr_suspended(self):
        """True while it waits."""
        return self.begun() is not None and self._steps.gi_suspended

    cdef object begun(self):
        if self._steps is None and self._state != ENDED:
            self._steps = _waiting(self._operation)
        return self._steps

    def __await__(self):
        if self._state != FRESH:
            raise _awaited_twice(self)
        self._state = AWAITED
        return self

    def __next__(self):
        cdef PyObject *got
        cdef int status = take_step(self, None, &got)
        value = <object>got
        Py_DECREF(value)
        if status == PYGEN_NEXT:
            return value
        if value is None:
            raise StopIteration  # makes no exception object
        raise StopIteration(value)

    cdef bint at_once(self, Request operation) except -1:
        """Poll briefly; return True if the operation is complete, and the event loop needs no turn first."""
        engine = operation._engine
        if operation._done:
            return needs_no_turn(engine)
        return not engine.stepping and engine.driver.completes_soon(operation)

    def send(self, value):
        """Run the first or the next step, like a coroutine."""
        return self.__next__()

    def throw(self, *error):
        """Raise an error where the coroutine waits, or in place of its first step."""
        if self._state < STEPPED:
            raised = error[1] if len(error) > 1 and error[1] is not None else error[0]
            self._state = STEPPED
            self._steps = _undone(self._operation, raised if isinstance(raised, BaseException) else raised())
            return self.__next__()
        if self.begun() is None:
            raise error[0]
        try:
            return self._steps.throw(*error)
        except BaseException:
            self.let_go()
            raise

    def __aenter__(self):
        """Await the call, and enter its result: `async with aiompi.File.Open(...) as file`."""
        return _entered(self)

    def __aexit__(self, kind, error, traceback):
        """Leave the result of the call."""
        return _left(self, kind, error, traceback)

    cdef int let_go(self) except -1:
        """Replace the failed or withdrawn operation by a request that has only its description and its outcome.

        A traceback may refer to this object for long, and would keep the operation's memory alive.
        """
        cdef Request operation = self._operation
        cdef Request last = Request(self._engine)
        words = self.__name__
        self._state = ENDED
        self._operation = last
        self.say(words, None, ABSENT, ABSENT)
        last._done, last._cancelled, last._error = operation._done, operation._cancelled, operation._error
        return 0

    def close(self):
        """End the coroutine."""
        cdef bint fresh = self._state < STEPPED
        self._state = ENDED
        if fresh:
            _abandon(self._operation)
        if self._steps is not None:
            self._steps.close()

    def __del__(self):
        if self._state == FRESH and self._operation is not None:
            _forgotten(self, 1)

    # The methods of a request; the operation answers. A program that takes the outcome here need not await the call.

    def done(self):
        return self._operation.done()

    def cancelled(self):
        return self._operation.cancelled()

    def unseen_error(self):
        return self._operation.unseen_error()

    def exception(self):
        error = self._operation.exception()
        self.taken()
        return error

    def result(self):
        if self._operation.done():
            self.taken()
        return self._operation.result()

    cdef void taken(self) noexcept:
        if self._state == FRESH:
            self._state = ENDED

    @property
    def status(self):
        return self._operation.status

    def cancel(self):
        return self._operation.cancel()

    def free(self):
        self.taken()
        self._operation.free()

    def add_done_callback(self, callback, *, context=None):
        self._operation.add_done_callback(callback, context=context)

    def remove_done_callback(self, callback):
        return self._operation.remove_done_callback(callback)

    def when_done(self, callback):
        self._operation.when_done(callback)

    def forget(self, callback):
        self._operation.forget(callback)


cdef int take_step(object self, object value, PyObject **got) except -1:
    """Make the first or the next step. This is the `am_send` of the class; it returns PYGEN_RETURN or PYGEN_NEXT."""
    cdef AwaitableCall awaited = <AwaitableCall>self
    cdef Request operation = awaited._operation
    cdef int status
    if awaited._state < STEPPED and awaited.at_once(operation):
        awaited._state = ENDED
        awaited._steps = None  # a tool may have looked at them
        value = operation.result()
        Py_INCREF(value)
        got[0] = <PyObject *>value
        return PYGEN_RETURN
    if awaited._state == ENDED:
        raise _awaited_twice(self)
    awaited._state = STEPPED
    try:
        status = PyIter_Send(awaited.begun(), None, got)
    except BaseException:
        awaited.let_go()
        raise
    if status == PYGEN_RETURN:
        awaited._state = ENDED
    return status


step_by(AwaitableCall, <void *>take_step)


cdef AwaitableCall awaitable_of(Request operation):
    """Return the request for the await of an operation."""
    cdef AwaitableCall made = AwaitableCall.__new__(AwaitableCall)
    made.own(operation)
    return made
