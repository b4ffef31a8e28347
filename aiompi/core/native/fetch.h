/* Combines a vector with one that other processes change meanwhile, each element as one: to[i] becomes from[i] o to[i],
   from[i] with FETCH_REPLACE, and stays with FETCH_ONLY. `before` gets what was there, unless it is NULL. */
#pragma once
#include "combine.h"
#include <string.h>

enum { FETCH_REPLACE = OP_BXOR + 1, FETCH_ONLY };

#define FETCH_ON(type)                                                                                              \
  for (size_t i = 0; i < count; i++) {                                                                              \
    type *word = (type *)to + i, old = __atomic_load_n(word, __ATOMIC_SEQ_CST);                                     \
    union { type word; float single; double twice; } made;                                                          \
    while (operation != FETCH_ONLY) {                                                                               \
      if (operation == FETCH_REPLACE) memcpy(&made.word, (const char *)from + i * sizeof(type), sizeof(type));      \
      else {                                                                                                        \
        made.word = old;                                                                                            \
        combine(&made, (const char *)from + i * sizeof(type), 1);                                                   \
      }                                                                                                             \
      if (__atomic_compare_exchange_n(word, &old, made.word, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;         \
    }                                                                                                               \
    if (before) memcpy((char *)before + i * sizeof(type), &old, sizeof(type));                                      \
  }

static void fetch_and_combine(combine_t *combine, int operation, void *to, const void *from, void *before, size_t count,
                              size_t size) {
  if (size == 1) FETCH_ON(uint8_t)
  else if (size == 2) FETCH_ON(uint16_t)
  else if (size == 4) FETCH_ON(uint32_t)
  else FETCH_ON(uint64_t)
}

/* Return 1 if elements of an array can be combined so. Then all operations that are defined for them can. */
static int fetch_serves(PyObject *array) {
  const PyArray_Descr *descr = ((PyArrayObject_fields *)array)->descr;
  return combine_of(OP_SUM, descr->type_num, descr->elsize) != NULL;
}
