/* Objects that are plain and small, to msgpack and back: None, bool, int, float, str, and bytes, lists and dicts of
   them.

   Both functions give up at anything unusual; the codec in Python then does the whole work, or raises the error. So
   bytes of a peer are never an error here. The message is in memory of the caller that no other code can change
   meanwhile: making a list or a dict may start a garbage collection, and so run any code. No code of Python runs while
   an object is packed. */
#pragma once
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { PLAIN_DEEPEST = 16 };

typedef struct {
  uint8_t *at;
  const uint8_t *end;
} packed_t;

/* Write a byte, and a number of `size` bytes that follows it, big-endian. Return 0 if there is no room. */
static int plain_put(packed_t *p, uint8_t first, uint64_t number, int size) {
  if (p->end - p->at <= size) return 0;
  *p->at++ = first;
  while (size--) *p->at++ = (uint8_t)(number >> 8 * size);
  return 1;
}

/* Write the head of an object of length `n`. A length below `short_end` is a part of the first byte. A greater one
   follows in 1 byte after `longer` if `has_byte`, or in 2 bytes after `longer` + `has_byte`. Return 0 for a length
   above 2 bytes, or if there is no room. */
static int plain_head(packed_t *p, uint8_t first, Py_ssize_t short_end, uint8_t longer, int has_byte, Py_ssize_t n) {
  if (n < short_end) return plain_put(p, (uint8_t)(first | n), 0, 0);
  if (has_byte && n <= UINT8_MAX) return plain_put(p, longer, n, 1);
  return n <= UINT16_MAX && plain_put(p, (uint8_t)(longer + has_byte), n, 2);
}

static int plain_bytes_of(packed_t *p, const char *data, Py_ssize_t n) {
  if (p->end - p->at < n) return 0;
  memcpy(p->at, data, n);
  p->at += n;
  return 1;
}

static int plain_int(packed_t *p, PyObject *object) {
  int overflow;
  long long n = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow > 0) {
    unsigned long long large = PyLong_AsUnsignedLongLong(object);
    if (large == (unsigned long long)-1 && PyErr_Occurred()) return PyErr_Clear(), 0;
    return plain_put(p, 0xcf, large, 8);
  }
  if (overflow) return 0;
  if (n >= 0) {
    if (n < 0x80) return plain_put(p, (uint8_t)n, 0, 0);
    if (n <= UINT8_MAX) return plain_put(p, 0xcc, n, 1);
    if (n <= UINT16_MAX) return plain_put(p, 0xcd, n, 2);
    return n <= UINT32_MAX ? plain_put(p, 0xce, n, 4) : plain_put(p, 0xcf, n, 8);
  }
  if (n >= -32) return plain_put(p, (uint8_t)n, 0, 0);
  if (n >= INT8_MIN) return plain_put(p, 0xd0, n, 1);
  if (n >= INT16_MIN) return plain_put(p, 0xd1, n, 2);
  return n >= INT32_MIN ? plain_put(p, 0xd2, n, 4) : plain_put(p, 0xd3, n, 8);
}

static int plain_text(packed_t *p, PyObject *object) {
  Py_ssize_t n = PyUnicode_GET_LENGTH(object);
  const char *data;
  if (PyUnicode_IS_COMPACT_ASCII(object)) data = (const char *)PyUnicode_1BYTE_DATA(object);
  else if (!(data = PyUnicode_AsUTF8AndSize(object, &n))) return PyErr_Clear(), 0; /* a lone surrogate */
  return plain_head(p, 0xa0, 32, 0xd9, 1, n) && plain_bytes_of(p, data, n);
}

/* Write None, a bool, an int, a float or a str; return 0 for anything else. */
static int plain_atom(packed_t *p, PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (type == &PyUnicode_Type) return plain_text(p, object);
  if (type == &PyLong_Type) return plain_int(p, object);
  if (object == Py_None) return plain_put(p, 0xc0, 0, 0);
  if (type == &PyBool_Type) return plain_put(p, object == Py_True ? 0xc3 : 0xc2, 0, 0);
  if (type == &PyFloat_Type) {
    double number = PyFloat_AS_DOUBLE(object);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return plain_put(p, 0xcb, bits, 8);
  }
  return 0;
}

/* Write an object; return 0 if it is not plain, is nested deeper than `depth`, or does not fit. */
static int plain_pack(packed_t *p, PyObject *object, int depth) {
  PyTypeObject *type = Py_TYPE(object);
  if (type == &PyDict_Type) {
    PyObject *key, *value;
    Py_ssize_t i = 0;
    if (!depth || !plain_head(p, 0x80, 16, 0xde, 0, PyDict_GET_SIZE(object))) return 0;
    while (PyDict_Next(object, &i, &key, &value))
      if (!plain_atom(p, key) || !plain_pack(p, value, depth - 1)) return 0;
    return 1;
  }
  if (type == &PyList_Type) {
    Py_ssize_t n = PyList_GET_SIZE(object);
    if (!depth || !plain_head(p, 0x90, 16, 0xdc, 0, n)) return 0;
    for (Py_ssize_t i = 0; i < n; i++)
      if (!plain_pack(p, PyList_GET_ITEM(object, i), depth - 1)) return 0;
    return 1;
  }
  if (type == &PyBytes_Type) {
    Py_ssize_t n = PyBytes_GET_SIZE(object);
    return plain_head(p, 0, 0, 0xc4, 1, n) && plain_bytes_of(p, PyBytes_AS_STRING(object), n);
  }
  return plain_atom(p, object);
}

/* Read a number of `size` bytes, big-endian; return 0 if there are fewer. */
static int plain_number(const uint8_t **at, const uint8_t *end, int size, uint64_t *number) {
  if (end - *at < size) return 0;
  for (*number = 0; size; size--) *number = *number << 8 | *(*at)++;
  return 1;
}

static PyObject *plain_unpack(const uint8_t **at, const uint8_t *end, int depth);

/* A cache of the dict keys that were read last. Most messages have the same keys as earlier ones, and a look-up takes a
   fraction of the time of making, hashing and dropping a str. */
enum { PLAIN_KEYS = 256 };
static PyObject *plain_keys[PLAIN_KEYS];

/* Return a key: no list or dict. */
static PyObject *plain_key(const uint8_t **at, const uint8_t *end) {
  PyObject *key;
  const uint8_t *data = *at + 1;
  Py_ssize_t n = *at < end && **at >= 0xa0 && **at < 0xc0 ? **at & 31 : -1;
  uint32_t place = 0;
  if (n < 0 || n >= end - *at) return plain_unpack(at, end, 0);
  for (Py_ssize_t i = 0; i < n; i++) place = (place ^ data[i]) * 0x01000193;
  place = (place ^ place >> 16) % PLAIN_KEYS;
  if ((key = plain_keys[place]) && PyUnicode_GET_LENGTH(key) == n && !memcmp(PyUnicode_1BYTE_DATA(key), data, n)) {
    *at = data + n;
    return Py_NewRef(key);
  }
  if ((key = plain_unpack(at, end, 0)) && PyUnicode_IS_COMPACT_ASCII(key)) {
    PyUnicode_InternInPlace(&key); /* so that a look-up in the dict need not compare its letters */
    Py_XSETREF(plain_keys[place], Py_NewRef(key));
  }
  return key;
}

static PyObject *plain_list(const uint8_t **at, const uint8_t *end, uint64_t n, int depth) {
  PyObject *list, *item;
  if (!depth || n > (uint64_t)(end - *at) || !(list = PyList_New(n))) return NULL;
  for (uint64_t i = 0; i < n; i++) {
    if (!(item = plain_unpack(at, end, depth - 1))) return Py_DECREF(list), NULL;
    PyList_SET_ITEM(list, i, item);
  }
  return list;
}

static PyObject *plain_dict(const uint8_t **at, const uint8_t *end, uint64_t n, int depth) {
  PyObject *dict, *key, *value;
  if (!depth || n > (uint64_t)(end - *at) / 2 || !(dict = PyDict_New())) return NULL;
  for (; n; n--) {
    int set = -1;
    if (!(key = plain_key(at, end))) break;
    if ((value = plain_unpack(at, end, depth - 1))) {
      set = PyDict_SetItem(dict, key, value);
      Py_DECREF(value);
    }
    Py_DECREF(key);
    if (set) break;
  }
  return n ? (Py_DECREF(dict), NULL) : dict;
}

static PyObject *plain_span(const uint8_t **at, const uint8_t *end, uint64_t n, int text) {
  const char *data = (const char *)*at;
  if (n > (uint64_t)(end - *at)) return NULL;
  *at += n;
  return text ? PyUnicode_DecodeUTF8(data, n, "surrogatepass") : PyBytes_FromStringAndSize(data, n);
}

/* Return the object that begins at a place, and move the place behind the object. Return NULL, perhaps with an
   exception, if the object is not plain. */
static PyObject *plain_unpack(const uint8_t **at, const uint8_t *end, int depth) {
  uint64_t n;
  uint8_t first;
  if (*at >= end) return NULL;
  first = *(*at)++;
  if (first < 0x80) return PyLong_FromLong(first);
  if (first < 0x90) return plain_dict(at, end, first & 15, depth);
  if (first < 0xa0) return plain_list(at, end, first & 15, depth);
  if (first < 0xc0) return plain_span(at, end, first & 31, 1);
  if (first >= 0xe0) return PyLong_FromLong((int8_t)first);
  switch (first) {
  case 0xc0: Py_RETURN_NONE;
  case 0xc2: Py_RETURN_FALSE;
  case 0xc3: Py_RETURN_TRUE;
  case 0xc4: case 0xc5: return plain_number(at, end, 1 << (first - 0xc4), &n) ? plain_span(at, end, n, 0) : NULL;
  case 0xcb: {
    double number;
    if (!plain_number(at, end, 8, &n)) return NULL;
    memcpy(&number, &n, sizeof n);
    return PyFloat_FromDouble(number);
  }
  case 0xcc: case 0xcd: case 0xce: case 0xcf:
    return plain_number(at, end, 1 << (first - 0xcc), &n) ? PyLong_FromUnsignedLongLong(n) : NULL;
  case 0xd0: return plain_number(at, end, 1, &n) ? PyLong_FromLong((int8_t)n) : NULL;
  case 0xd1: return plain_number(at, end, 2, &n) ? PyLong_FromLong((int16_t)n) : NULL;
  case 0xd2: return plain_number(at, end, 4, &n) ? PyLong_FromLong((int32_t)n) : NULL;
  case 0xd3: return plain_number(at, end, 8, &n) ? PyLong_FromLongLong((int64_t)n) : NULL;
  case 0xd9: case 0xda: return plain_number(at, end, 1 << (first - 0xd9), &n) ? plain_span(at, end, n, 1) : NULL;
  case 0xdc: return plain_number(at, end, 2, &n) ? plain_list(at, end, n, depth) : NULL;
  case 0xde: return plain_number(at, end, 2, &n) ? plain_dict(at, end, n, depth) : NULL;
  }
  return NULL;
}

/* Return the object that all these bytes encode; NULL without an exception if they encode no plain object. */
static PyObject *plain_object(const uint8_t *at, Py_ssize_t nbytes) {
  const uint8_t *end = at + nbytes;
  PyObject *object = plain_unpack(&at, end, PLAIN_DEEPEST);
  if (object && at < end) Py_CLEAR(object);
  if (!object) PyErr_Clear();
  return object;
}
