/* Predefined operations on vectors of the common types: to[i] becomes from[i] o to[i]. NumPy's operations give the
   same.

   Integers wrap around, so they are added and multiplied without a sign. Python combines all other types and
   operations. */
#pragma once
#include "buffers.h"
#include <stddef.h>
#include <stdint.h>

/* in the order of `aiompi.op.predefined` */
enum { OP_NONE, OP_MAX, OP_MIN, OP_SUM, OP_PROD, OP_LAND, OP_LOR, OP_LXOR, OP_BAND, OP_BOR, OP_BXOR };

typedef void combine_t(void *to, const void *from, size_t count);

#define COMBINE(name, type, expression)                                              \
  static void name(void *to, const void *from, size_t count) {                       \
    type *restrict r = (type *)to;                                                    \
    const type *restrict l = (const type *)from;                                      \
    for (size_t i = 0; i < count; i++) {                                              \
      type a = l[i], b = r[i];                                                        \
      r[i] = (type)(expression);                                                      \
    }                                                                                 \
  }
#define REALS(name, type)                                      \
  COMBINE(name##_max, type, a >= b || a != a ? a : b)          \
  COMBINE(name##_min, type, a <= b || a != a ? a : b)          \
  COMBINE(name##_sum, type, a + b)                             \
  COMBINE(name##_prod, type, a * b)                            \
  static combine_t *const name[] = {NULL, name##_max, name##_min, name##_sum, name##_prod, NULL, NULL, NULL, NULL, NULL, NULL};
#define INTEGERS(name, type, whole)                            \
  COMBINE(name##_max, type, a >= b ? a : b)                    \
  COMBINE(name##_min, type, a <= b ? a : b)                    \
  COMBINE(name##_sum, type, (whole)a + (whole)b)               \
  COMBINE(name##_prod, type, (whole)a * (whole)b)              \
  COMBINE(name##_land, type, a && b)                           \
  COMBINE(name##_lor, type, a || b)                            \
  COMBINE(name##_lxor, type, !a != !b)                         \
  COMBINE(name##_band, type, a & b)                            \
  COMBINE(name##_bor, type, a | b)                             \
  COMBINE(name##_bxor, type, a ^ b)                            \
  static combine_t *const name[] = {NULL, name##_max, name##_min, name##_sum, name##_prod, name##_land, name##_lor,   \
                                    name##_lxor, name##_band, name##_bor, name##_bxor};

INTEGERS(of_int8, int8_t, uint32_t)
INTEGERS(of_uint8, uint8_t, uint32_t)
INTEGERS(of_int16, int16_t, uint32_t)
INTEGERS(of_uint16, uint16_t, uint32_t)
INTEGERS(of_int32, int32_t, uint32_t)
INTEGERS(of_uint32, uint32_t, uint32_t)
INTEGERS(of_int64, int64_t, uint64_t)
INTEGERS(of_uint64, uint64_t, uint64_t)
REALS(of_float, float)
REALS(of_double, double)

/* Return the function that applies an operation to elements of a NumPy type; NULL if there is none. */
static combine_t *combine_of(int operation, int type, size_t size) {
  combine_t *const *table = NULL;
  if (operation <= OP_NONE || operation > OP_BXOR) return NULL;
  if (type == NPY_FLOAT) table = of_float;
  else if (type == NPY_DOUBLE) table = of_double;
  else if (type >= NPY_BYTE && type <= NPY_ULONGLONG) { /* signed and unsigned ones take turns */
    int sign = (type - NPY_BYTE) % 2 == 0;
    if (size == 1) table = sign ? of_int8 : of_uint8;
    else if (size == 2) table = sign ? of_int16 : of_uint16;
    else if (size == 4) table = sign ? of_int32 : of_uint32;
    else if (size == 8) table = sign ? of_int64 : of_uint64;
  }
  return table ? table[operation] : NULL;
}

/* Do the same for the elements of an array, and set `size` to the bytes of an element. Return NULL also if the array's
   memory is not aligned to that size. */
static combine_t *combine_array(PyObject *array, int operation, size_t *size) {
  const PyArray_Descr *descr = ((PyArrayObject_fields *)array)->descr;
  *size = descr->elsize;
  if (!*size || (uintptr_t)((PyArrayObject_fields *)array)->data % *size) return NULL;
  return combine_of(operation, descr->type_num, *size);
}

static int same_type(PyObject *one, PyObject *other) {
  return ((PyArrayObject_fields *)one)->descr->type_num == ((PyArrayObject_fields *)other)->descr->type_num;
}
