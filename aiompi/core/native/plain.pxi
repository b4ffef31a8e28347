# Small plain objects, to messages and back. `aiompi.core.pure.plain` has the same class in Python.

cdef extern from "plain.h":
    enum:
        PLAIN_DEEPEST
    ctypedef struct packed_t:
        unsigned char *at
        const unsigned char *end
    bint plain_pack(packed_t *, object, int)
    PyObject *plain_object(const unsigned char *, Py_ssize_t) except? NULL

cdef enum:
    PLAIN = 1024  # most bytes of a message that is coded here: for longer ones the calls of a codec matter little


cdef class PlainCodec:
    """The base of a codec, which codes small plain objects; see `aiompi.objects.Codec`."""

    cdef public Py_ssize_t _out_of_band

    def dumps(self, obj):
        """Return the segments and the length of the message of an object."""
        cdef unsigned char message[PLAIN]
        cdef Py_ssize_t nbytes = self.pack(obj, message)
        if not nbytes:
            return self._dumps(obj)
        return [PyBytes_FromStringAndSize(<char *>message, nbytes)], nbytes

    cdef Py_ssize_t pack(self, obj, unsigned char *message) noexcept:
        """Write the message of an object in PLAIN bytes at most; return its length, 0 if the object is not plain."""
        cdef packed_t packed
        packed.at = message
        packed.end = message + (PLAIN if self._out_of_band > PLAIN else self._out_of_band)
        return packed.at - message if plain_pack(&packed, obj, PLAIN_DEEPEST) else 0

    def loads(self, message):
        """Return the object of a message."""
        cdef unsigned char kept[PLAIN]
        cdef PyObject *found = NULL
        cdef Py_buffer view
        cdef Py_ssize_t nbytes
        PyObject_GetBuffer(message, &view, PyBUF_SIMPLE)
        nbytes = view.len
        if nbytes <= PLAIN:
            memcpy(kept, view.buf, nbytes)
        PyBuffer_Release(&view)
        if nbytes <= PLAIN:
            found = plain_object(kept, nbytes)
        if found == NULL:
            return self._loads(message)
        value = <object>found
        Py_DECREF(value)
        return value

    def __call__(self, message):
        return self.loads(message)

    def _dumps(self, obj):
        """Return what `dumps` returns, for any object."""
        raise NotImplementedError

    def _loads(self, message):
        """Return what `loads` returns, for any message."""
        raise NotImplementedError
