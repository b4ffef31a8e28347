# Requests: operations that have been started. `aiompi.core.pure.request` has the same class in Python.

cdef double _PAUSE = 1e-3  # seconds between two checks of whether an operation can be withdrawn

cdef int ABSENT = INT_MIN  # partner or tag of an operation that has none


@cython.freelist(64)
cdef class Request:
    """An operation in progress; the call that returned it has started it.

    `await request` waits for it and returns its result. Cancelling the awaiting task does not cancel the operation:
    await the request again, or `cancel` it. A request also has the methods of `asyncio.Future` that `asyncio.wait` and
    done callbacks need.
    """

    cdef public object _engine, _error, _value, _callbacks, _waiter
    cdef public object record, starter
    cdef public uint64_t traced
    cdef public bint _done, _cancelled, _error_seen
    cdef object _call, _comm  # what `repr` says of it, with the following
    cdef int _partner, _tag

    def __init__(self, engine):
        self._engine = engine

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    @property
    def operation(self):
        """The operation in progress: the request itself, or for an `AwaitableCall` the request that it awaits."""
        return self

    def describe(self, call, comm=None, partner=None, tag=None):
        """Set the parts of `repr`: the call, such as "recv from", the communicator, and the envelope if there is one.

        Args:
            comm: communicator; its `label` is read only when the text is made.
        """
        self.say(call, comm, ABSENT if partner is None else partner, ABSENT if tag is None else tag)

    cdef void say(self, call, comm, int partner, int tag) noexcept:
        self._call = call
        self._comm = comm
        self._partner = partner
        self._tag = tag

    cdef object text(self):
        partner = None if self._partner == ABSENT else self._partner
        return _in_words(self._call, self._comm, partner, None if self._tag == ABSENT else self._tag)

    def done(self):
        """Return True if the operation is complete: it has succeeded, has failed, or was cancelled."""
        return self._done

    def cancelled(self):
        """Return True if the operation was cancelled before it took effect (section 3.8)."""
        return self._cancelled

    cdef int check_done(self) except -1:
        if not self._done:
            raise PendingError("the request is not complete: await it, or test done() first")
        return 0

    def exception(self):
        """Return the error that ended the operation, None if it succeeded.

        Raises:
            PendingError: it is not complete.
        """
        self.check_done()
        self._error_seen = True
        return self._error

    def unseen_error(self):
        """Return the error of the completed operation; None if `result` or `exception` has already reported it."""
        return None if self._error_seen else self._error

    cdef object plain_result(self):
        self.check_done()
        if self._error is not None:
            self._error_seen = True
            raise self._error
        return self._value

    def result(self):
        """Return the result of the operation: an object, a Status, or None.

        Raises:
            PendingError: it is not complete.
            aiompi.MPIError: the operation failed.
        """
        return self.plain_result()

    def outcome(self):
        """Return `result`, but None in place of a Status: the callers read `status` if they need it."""
        value = self.result()
        return None if isinstance(value, Status) else value

    @property
    def status(self):
        """The status of the completed operation; for a send, the empty status (section 3.7.3)."""
        return Status.of(cancelled=self._cancelled)

    def cancel(self):
        """Ask for cancellation (MPI_Cancel, section 3.8). The call is local, and the request must still be completed.

        Returns:
            True if the request was not complete yet.
        """
        return not self._done

    def free(self):
        """Free the request (MPI_Request_free, section 3.7.3): the operation completes by itself.

        No call can report an error of the operation any more, so an error ends the job (section 2.7).
        """
        self._engine.disown(self)

    def add_done_callback(self, callback, *, context=None):
        """Call `callback(request)` in a later turn of the driver, once the request is complete.

        Args:
            context: the context in which the callback runs; a copy of the current one by default.
        """
        soon = _Soon(callback, copy_context() if context is None else context)
        if self._done:
            soon(self)
        else:
            self.when_done(soon)

    def remove_done_callback(self, callback):
        """Undo `add_done_callback`; return the number of callbacks removed."""
        before = self._callbacks or []
        kept = [each for each in before if not (isinstance(each, _Soon) and each.callback == callback)]
        self._callbacks = kept or None
        return len(before) - len(kept)

    def when_done(self, callback):
        """Call `callback` inside the call that completes the request. The request must not be complete yet."""
        if self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def forget(self, callback):
        """Undo `when_done`; do nothing if the callback has been called already."""
        if self._callbacks is not None and callback in self._callbacks:
            self._callbacks.remove(callback)

    def complete(self, value=None):
        """End the operation with success."""
        self._value = value
        self._finish()

    def fail(self, error):
        """End the operation with an error; do nothing if it is complete."""
        if not self._done:
            self._error = error
            self._engine.failures += 1
            self._finish()

    def _finish(self):
        self._done = True
        if self.traced:
            note_end(self)
        self.tell()

    cdef int tell(self) except -1:
        """Continue what waits for the request."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        callbacks = self._callbacks
        if callbacks is not None:
            self._callbacks = None
            for callback in callbacks:
                callback(self)
        return 0

    cdef int finish(self) except -1:
        """End the operation, in the usual case without a call of Python."""
        if self._callbacks is None and self._waiter is None and not self.traced:
            self._done = True
        else:
            self._finish()
        return 0

    def attend(self):
        """Make progress without further calls from now on. Only requests that `begin` has returned need this call."""

    def follow(self, int place):
        """Return the inner request for which this request waits at present; None if it waits for no other request.

        `place` is the number of the place that waits.
        """
        return None

    def spin(self):
        """Poll for a short while before the driver waits; return True if the operation is complete."""
        return self._done

    def withdraw(self):
        """Undo the operation as far as possible. Only its owner may call this, and only when it is `quiescent`."""
        self.cancel()

    def outlives_await(self):
        """Return True if the operation goes on after its call was dropped without an await; False for a receive."""
        return True

    def lost_message_error(self):
        """Return the error of the message that `withdraw` could not put back and has lost; None if no message is lost.

        The result is None also if a call has already reported the error. The caller reports the returned error.
        """
        return None

    def quiescent(self):
        """Return True if no other process writes, or will write, into the operation's memory."""
        return True

    def settle(self):
        """Wait until the operation can be withdrawn at once.

        An error that interrupts this wait, such as another cancellation, is raised when the wait is over, because the
        caller must not use the memory earlier.
        """
        interrupt = None
        while not self.quiescent():
            pause = Request(self._engine)
            self._engine.driver.call_later(_PAUSE, pause.complete)
            try:
                yield from pause.suspend()
            except (GeneratorExit, LocalProtocolError):  # this code cannot wait, for example in another event loop
                raise
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                interrupt = None  # the error refers to its frames, which must not refer to the error

    def suspend(self):
        """Wait for completion. A schedule waits by yielding the request; other code waits as the driver does."""
        engine = self._engine
        if engine.stepping:
            yield self
            return
        if self._waiter is not None:
            yield from self._suspend_too()
            return
        waiter = engine.driver.waiter(self)
        if waiter is None:
            return
        if engine.recorder is not None:
            engine.recorder.waits(self)
        self._waiter = waiter
        try:
            yield from waiter
        finally:
            self._waiter = None

    def _suspend_too(self):
        """Wait for a request that other code already waits for."""
        waiter = self._engine.driver.waiter(self)
        if waiter is None:
            return

        def wake(_):
            if not waiter.done():
                waiter.set_result(None)

        self.when_done(wake)
        try:
            yield from waiter
        except BaseException:
            self.forget(wake)
            raise

    def __await__(self):
        if self._done and needs_no_turn(self._engine):
            return _Ready(self)
        return self._waiting()

    def _waiting(self):
        if self._done and self._engine.turn_due():
            yield
        while not self._done:  # repeated if a receive was interrupted, and was resumed before this code continued
            yield from self.suspend()
        return self.result()

    @property
    def __name__(self):
        """The operation in words, such as "recv from 3, tag 7, on MPI_COMM_WORLD"; tools show it."""
        return type(self).__name__ if self._call is None else self.text()

    def __repr__(self):
        return f"<{self.__name__}: {_state(self.operation)}>"


@cython.final
@cython.freelist(8)
cdef class _Ready:
    """The await of a request that is complete."""

    cdef Request _request

    def __cinit__(self, Request request):
        self._request = request

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(self._request.result())


@cython.final
cdef class _Soon:
    """A public done callback: called by the driver, never inside the engine."""

    cdef readonly object callback, context

    def __init__(self, callback, context):
        self.callback = callback
        self.context = context

    def __call__(self, request):
        request._engine.driver.call_soon(self.context.run, self.callback, request)
