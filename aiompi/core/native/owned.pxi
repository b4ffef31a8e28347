# The await of an operation that belongs to it. `aiompi.core.pure.owned` has the same class in Python.

cdef class OwnedBase:
    """An operation as the asyncio face awaits it."""

    cdef public object _request, _steps
    cdef object _name

    def __init__(self, request, name="operation"):
        self._request = request
        self._name = name

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    @property
    def __name__(self):
        """The name by which tools show the operation."""
        return self._name

    def __await__(self):
        request = self._request
        if isinstance(request, Request):
            engine = (<Request>request)._engine
            if (<Request>request)._done:
                if needs_no_turn(engine):
                    self._request = None
                    return _Ready(request)
            elif not engine.stepping and engine.driver.completes_soon(request):
                self._request = None
                return _Ready(request)
        return self._wait()

    def _wait(self):
        """Wait step by step."""
        raise NotImplementedError
