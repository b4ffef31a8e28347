/* The records of a traced rank, and the place in the program from which a call comes. aiompi/core/pure/recorder.py has
   the layout of the records. */

#ifndef AIOMPI_RECORDER_H
#define AIOMPI_RECORDER_H

#include <Python.h>
#include <frameobject.h>
#include <stdint.h>
#include <time.h>

typedef struct {
  uint64_t begin, wait, end, context, nbytes;
  int32_t peer, tag;
  uint32_t place, wait_place;
  uint8_t kind, way;
  uint16_t word;
  uint32_t unused;
} record_t;

/* A place in the program: the called code of the library, the code and instruction that call it, and the code and
   instruction that call the caller. */
typedef struct {
  PyObject *called, *code, *caller;
  int instruction, from;
  uint32_t number;
} site_t;

/* What is known of a code: whether it belongs to the library. */
typedef struct {
  PyObject *code;
  int kind;
} code_t;

static inline uint64_t recorder_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t recorder_mix(uint64_t hash, uint64_t more) { return (hash ^ more) * 0xFF51AFD7ED558CCDu; }

static inline size_t recorder_hash(const void *code, size_t mask) {
  return (size_t)(recorder_mix((uint64_t)(uintptr_t)code >> 4, 0) >> 32) & mask;
}

static inline size_t recorder_place(const site_t *site, size_t mask) {
  uint64_t hash = recorder_mix((uint64_t)(uintptr_t)site->called >> 4, (uint64_t)site->instruction);
  hash = recorder_mix(hash ^ hash >> 32, (uint64_t)(uintptr_t)site->code >> 4);
  hash = recorder_mix(hash ^ hash >> 32, (uint64_t)(uintptr_t)site->caller >> 4 ^ (uint64_t)site->from << 40);
  return (size_t)(hash >> 32) & mask;
}

static inline int recorder_same(const site_t *a, const site_t *b) {
  return a->called == b->called && a->code == b->code && a->instruction == b->instruction && a->caller == b->caller &&
         a->from == b->from;
}

/* Return a new reference to the frame that runs; NULL without an error if there is none. */
static inline PyObject *recorder_frame(void) {
  PyFrameObject *frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  return (PyObject *)frame;
}

/* The caller of a frame, whose reference it takes. */
static inline PyObject *recorder_back(PyObject *frame) {
  PyFrameObject *back = PyFrame_GetBack((PyFrameObject *)frame);
  Py_DECREF(frame);
  return (PyObject *)back;
}

/* The code of a frame, borrowed: the frame keeps it. */
static inline PyObject *recorder_code(PyObject *frame) {
  PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
  Py_DECREF(code);
  return (PyObject *)code;
}

static inline int recorder_instruction(PyObject *frame) { return PyFrame_GetLasti((PyFrameObject *)frame); }

#endif
