"""The native core. Each file of this folder has one subject.

`aiompi.core` describes the two forms of the core, and the general path, which handles what the core leaves to it.
"""

from aiompi.core.sources import check as _check_sources

cdef extern from *:
    const unsigned int AIOMPI_SOURCES  # of the command line of the compiler

_check_sources(AIOMPI_SOURCES)  # first: what is imported below may have changed as well

cimport cython
from cpython.buffer cimport PyBUF_FULL_RO, PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, \
    PyBuffer_IsContiguous, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, Py_TYPE
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.type cimport PyType_IsSubtype
from libc.errno cimport EFAULT, ESRCH
from libc.limits cimport INT_MIN
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove
from posix.unistd cimport close

from contextvars import copy_context
from operator import index
from os import strerror
from sys import modules as _modules
from time import monotonic, sleep
from types import GenericAlias
from warnings import warn

from aiompi.core.allocation import LARGE as _LARGE
from aiompi.core.allocation import allocate, copied
from aiompi.core.awaits import abandon as _abandon
from aiompi.core.awaits import awaited_twice as _awaited_twice
from aiompi.core.awaits import entered as _entered
from aiompi.core.awaits import forgotten as _forgotten
from aiompi.core.awaits import in_words as _in_words
from aiompi.core.awaits import left as _left
from aiompi.core.awaits import missing as _missing
from aiompi.core.awaits import origin as _origin
from aiompi.core.awaits import state as _state
from aiompi.core.awaits import undone as _undone
from aiompi.core.awaits import waiting as _waiting
from aiompi.core.mode import SENDS as _SENDS
from aiompi.core.mode import Mode
from aiompi.core.pure.progress import AWAITS_PER_TURN as _AWAITS_PER_TURN
from aiompi.core.pure.recorder import COPY as _WAY_COPY
from aiompi.core.pure.recorder import DIRECT as _WAY_DIRECT
from aiompi.core.pure.recorder import FAILED as _WAY_FAILED
from aiompi.core.pure.recorder import GET as _REC_GET
from aiompi.core.pure.recorder import HEAD as _RECORD_HEAD
from aiompi.core.pure.recorder import PUT as _REC_PUT
from aiompi.core.pure.recorder import RECORDS as _RECORDS
from aiompi.core.pure.recorder import RECV as _REC_RECV
from aiompi.core.pure.recorder import RING as _WAY_RING
from aiompi.core.pure.recorder import SEND as _REC_SEND
from aiompi.core.pure.recorder import COLLECTIVE as _REC_COLLECTIVE
from aiompi.core.pure.recorder import SLOTS as _WAY_SLOTS
from aiompi.core.pure.recorder import WAIT as _REC_WAIT
from aiompi.constants import TAG_UB as _TAG_UB
from aiompi.errors import InternalError, LocalProtocolError, PendingError, ProcessFailedPendingError, RemoteProtocolError
from aiompi.status import Status

cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object)
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1
    bint PyMemoryView_Check(object)
    bint PyType_Check(object)
    object PyMemoryView_FromObject(object)
    object PyMemoryView_FromMemory(char *, Py_ssize_t, int)
    PyObject *PyDict_GetItemWithError(dict, object) except? NULL
    bint PyDict_Next(object, Py_ssize_t *, PyObject **, PyObject **)
    const Py_ssize_t PY_SSIZE_T_MAX
    Py_ssize_t PyDict_Size(object)
    Py_ssize_t PyBytes_GET_SIZE(object)
    Py_ssize_t Py_SIZE(object)
    PyObject **PySequence_Fast_ITEMS(object)

cdef Py_ssize_t LARGE = _LARGE
cdef long long AWAITS_PER_TURN = _AWAITS_PER_TURN

cdef extern from "buffers.h":
    ctypedef struct memory_t:
        char *data
        Py_ssize_t nbytes
        bint readonly
    bint array_class(object)
    bint view_released(object)
    bint array_plain(object)
    int array_number(object)
    Py_ssize_t array_itemsize(object)
    bint array_memory(object, memory_t *)
    int memory_export(object, memory_t *, Py_buffer *, int) except -1

cdef extern from "queue.h" nogil:
    enum:
        ANY
    ctypedef struct entry_t:
        entry_t *later
        int32_t source, tag
        uint64_t order
        size_t index
    ctypedef struct queue_t:
        entry_t *first
        size_t count
    void queue_init(queue_t *)
    void queue_free(queue_t *)
    void queue_append(queue_t *, entry_t *)
    void queue_insert(queue_t *, entry_t *)
    void queue_remove(queue_t *, entry_t *)
    entry_t *queue_find(queue_t *, int32_t, int32_t)
    entry_t *queue_match(queue_t *, int32_t, int32_t)
    entry_t *queue_search(queue_t *, int32_t, int32_t)

cdef extern from "ring.h" nogil:
    enum:
        LINE
        HEADER
        STEP
        STREAMED
        EXPOSED
        PIECES
    const uint64_t LONGEST
    ctypedef struct header_t:
        uint32_t kind, credit
        int32_t tag, source
        uint64_t context, length, srqid, drqid
    ctypedef struct words_t:
        uint64_t written, retracted, done, claims, tail, granted, reads
    ctypedef struct writer_t:
        words_t *words
        uint64_t head, whole, granted
        int bell
    ctypedef struct reader_t:
        words_t *words
        uint64_t tail, missing, whole, granted
        int bell
    uint64_t LOAD_RELAXED(void *)
    uint64_t LOAD_ACQUIRE(void *)
    void STORE_RELAXED(uint64_t *, uint64_t)
    void STORE_RELEASE(uint64_t *, uint64_t)
    uint64_t EXCHANGE(uint64_t *, uint64_t)
    void FENCE()
    void RELAX()
    uint64_t UP(uint64_t)
    void ring_init(writer_t *, reader_t *, char *, uint64_t, uint64_t, int, int)
    void ring_bell(int)
    int writer_reserve(writer_t *, uint64_t, char **)
    void header_write(char *, header_t *)
    void writer_publish(writer_t *, char *, uint32_t, uint64_t)
    int writer_begin(writer_t *, header_t *)
    int64_t writer_stream(writer_t *, uint32_t, const char *, uint64_t, int)
    void writer_piece(writer_t *, uint32_t, const char *, uint64_t, int)
    int writer_wake(writer_t *)
    int writer_want(writer_t *)
    int writer_moved(writer_t *)
    int reader_pending(reader_t *)
    int reader_next(reader_t *, header_t *, const char **)
    int reader_holds(reader_t *, uint64_t)
    void reader_advance(reader_t *, uint64_t)
    int64_t reader_stream(reader_t *, char *, uint64_t)
    int reader_watch(reader_t *)
    void reader_wake(reader_t *)
    int reader_answer(reader_t *)
    ctypedef struct watched_t:
        reader_t *reader
        const writer_t *writer
    int rings_watch(const watched_t *, size_t, double)
    double seconds_now()

cdef extern from "copy.h" nogil:
    enum:
        PART
    const uint64_t NO_PART
    ctypedef struct piece_t:
        uint64_t address, length
    int kernel_copy(int, int, uint64_t, uint64_t, uint64_t)
    int copy_part(int, int, piece_t *, int, uint64_t, uint64_t, uint64_t)
    uint64_t claim_part(words_t *, uint32_t, uint64_t)
    int assist(words_t *, uint32_t, int, piece_t *, int, uint64_t, uint64_t, uint64_t, uint32_t *,
               uint64_t *)
    int await_assisted(words_t *, uint32_t, uint64_t)
    int process_open(int)
    int process_signal(int)
    int process_probe(int)
    int process_tracer(int)

include "strided.pxi"
include "buffers.pxi"
include "recorder.pxi"
include "progress.pxi"
include "request.pxi"
include "driver.pxi"
include "awaitable.pxi"
include "send.pxi"
include "receive.pxi"
include "matching.pxi"
include "peer.pxi"
include "ring.pxi"
include "copy.pxi"
include "contents.pxi"
include "plain.pxi"
include "polling.pxi"
include "handle.pxi"
include "communicator.pxi"
include "slots.pxi"
include "rounds.pxi"
include "collectives.pxi"
include "exchange.pxi"
include "atomics.pxi"
include "window.pxi"
