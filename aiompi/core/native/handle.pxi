# Handles of requests, as programs of MPI hold them. `aiompi.core.pure.handle` has the same in Python.
#
# The functions are for long lists of requests of one class.

cdef class RequestHandle:
    """A handle of an operation, which is null once the operation has been completed."""

    cdef public object _core
    cdef bint listed

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)


cdef object handle_of(kind, Request request):
    """Return a new handle; the request itself if `kind` is None."""
    if kind is None:
        return request
    if not PyType_Check(kind) or not PyType_IsSubtype(kind, RequestHandle):
        raise TypeError("a class of handles is expected")
    cdef RequestHandle handle = <RequestHandle>new_by(RequestHandle, kind, _NO_ARGUMENTS)
    handle._core = request
    return handle


cdef bint is_plain(operation):
    """Return True if an operation has only two possible outcomes: success, or an error."""
    if type(operation) is Request:
        return (<Request>operation)._value is None
    return isinstance(operation, PostedReceive) and (<PostedReceive>operation).plain


cdef bint has_succeeded(operation):
    """Return True if a plain operation has succeeded."""
    return is_plain(operation) and (<Request>operation)._done and (<Request>operation)._error is None


def pending_of(requests, kind):
    """Return the operations of a list that are pending, the last one first.

    Returns:
        None if the list holds a handle twice, an object of another class than `kind`, or a handle whose operation has
        failed or is not plain (see `is_plain`). Null handles are allowed.
    """
    cdef list pending = []
    cdef RequestHandle handle
    cdef Py_ssize_t i = 0
    if type(requests) is not list:
        return None
    for each in reversed(<list>requests):
        if type(each) is not kind or not isinstance(each, RequestHandle) or (<RequestHandle>each).listed:
            pending = None
            break
        handle = <RequestHandle>each
        handle.listed = True
        i += 1
        if handle._core is None or has_succeeded(handle._core):
            continue
        if not is_plain(handle._core) or (<Request>handle._core)._done:
            pending = None
            break
        pending.append(handle._core)
    for each in reversed(<list>requests):
        if not i:
            break
        (<RequestHandle>each).listed = False
        i -= 1
    return pending


def drop_done(list pending not None):
    """Remove operations from the end of a list as long as the last one has succeeded."""
    while pending and has_succeeded(pending[len(pending) - 1]):
        pending.pop()


def take_all(requests, kind):
    """Make the handles null and return True if all operations are plain and successful; otherwise return False."""
    if type(requests) is not list:
        return False
    for each in <list>requests:
        if type(each) is not kind or not isinstance(each, RequestHandle):
            return False
        if (<RequestHandle>each)._core is not None and not has_succeeded((<RequestHandle>each)._core):
            return False
    for each in <list>requests:
        if isinstance(each, RequestHandle):
            let_go(<RequestHandle>each)
    return True


cdef int let_go(RequestHandle handle) except -1:
    """Make a handle null if its operation has succeeded.

    After the caller's check, a finalizer may have added a handle whose operation is not complete. The function leaves
    such a handle as it is.
    """
    operation = handle._core
    if has_succeeded(operation):
        handle._core = None
        if isinstance(operation, PostedReceive):
            (<PostedReceive>operation)._memory = None  # an exporter may be resized from now on
    return 0
