# What objects hold. `aiompi.core.pure.contents` has the same function in Python.
#
# The function runs no code of the object or of its class. So nothing changes during the look, and borrowed references
# suffice.

cdef enum:
    _TUPLES = 1
    _FOREIGN = 2
    _OTHER = 4
    _MANY = 8
    DEEPEST = 500

TUPLES = _TUPLES
FOREIGN = _FOREIGN
OTHER = _OTHER
MANY = _MANY

cdef PyObject *NONE_TYPE = <PyObject *>Py_TYPE(None)


def contents(obj, set foreign not None, Py_ssize_t longest, bytearray sequences=None, Py_ssize_t most=PY_SSIZE_T_MAX):
    """Return the kinds of objects inside an object, at any depth, that msgpack's packer cannot express by itself.

    Args:
        obj: any object. An instance of a subclass counts as OTHER, and so does a dict with keys other than None, bool,
            int, float and str.
        foreign: further types; of NumPy's arrays only arrays of plain numbers count.
        longest: length from which on bytes count as OTHER.
        sequences: bytearray to which the search appends a byte for each list (0) and each tuple (1), after the bytes
            for its items.
        most: number of items of all containers together; an object with more items counts as MANY.

    Returns:
        0 if msgpack's packer expresses the whole object. Otherwise a sum: TUPLES if the object holds tuples, FOREIGN if
        it holds objects of the types in `foreign`, OTHER if it holds any other object or is nested too deeply, and MANY
        if it has more than `most` items. With OTHER or MANY the search ends early, so other terms may be missing.
    """
    return found_in(<PyObject *>obj, foreign, longest, sequences, &most, DEEPEST)


cdef bint is_atom(PyObject *kind) noexcept:
    return kind == <PyObject *>str or kind == <PyObject *>int or kind == <PyObject *>float or \
        kind == <PyObject *>bool or kind == NONE_TYPE


cdef int found_in(
    PyObject *obj, set foreign, Py_ssize_t longest, bytearray sequences, Py_ssize_t *most, int depth
) except -1:
    cdef PyObject *kind = <PyObject *>Py_TYPE(<object>obj)
    cdef PyObject *key
    cdef PyObject *value
    cdef PyObject **items
    cdef Py_ssize_t i = 0
    cdef int found = 0
    if is_atom(kind):
        return 0
    if kind == <PyObject *>bytes:
        return 0 if PyBytes_GET_SIZE(<object>obj) < longest else _OTHER
    if kind == <PyObject *>dict and depth:
        most[0] -= PyDict_Size(<object>obj)
        if most[0] < 0:
            return _MANY
        while found < _OTHER and PyDict_Next(<object>obj, &i, &key, &value):
            if not is_atom(<PyObject *>Py_TYPE(<object>key)):
                return _OTHER
            found |= found_in(value, foreign, longest, sequences, most, depth - 1)
        return found
    if (kind == <PyObject *>list or kind == <PyObject *>tuple) and depth:
        most[0] -= Py_SIZE(<object>obj)
        if most[0] < 0:
            return _MANY
        items = PySequence_Fast_ITEMS(<object>obj)
        for i in range(Py_SIZE(<object>obj)):
            found |= found_in(items[i], foreign, longest, sequences, most, depth - 1)
            if found >= _OTHER:
                return found
        if sequences is not None:
            sequences.append(kind == <PyObject *>tuple)
        return found | _TUPLES if kind == <PyObject *>tuple else found
    # A metaclass other than `type` may define the hash of the class in Python, so such a class is not looked up.
    if <PyObject *>Py_TYPE(<object>kind) != <PyObject *>type or <object>kind not in foreign:
        return _OTHER
    return _FOREIGN if not is_array(<object>obj) or array_plain(<object>obj) else _OTHER
