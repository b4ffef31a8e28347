/* Combines two vectors element by element: to[i] becomes from[i] o to[i]. Each change is atomic, since other processes
   change `to` meanwhile. With FETCH_REPLACE to[i] becomes from[i], and with FETCH_ONLY to[i] does not change. `before`,
   unless it is NULL, gets the elements as they were. */
#pragma once
#include "combine.h"
#include <string.h>

enum { FETCH_REPLACE = OP_BXOR + 1, FETCH_ONLY };

#define FETCH_ON(type)                                                                                              \
  for (size_t i = 0; i < count; i++) {                                                                              \
    type *word = (type *)to + i, old = __atomic_load_n(word, __ATOMIC_SEQ_CST);                                     \
    union { type word; float single; double twice; } made, operand;                                                 \
    memcpy(&operand.word, (const char *)from + i * sizeof(type), sizeof(type)); /* it may be at any address */       \
    while (operation != FETCH_ONLY) {                                                                               \
      if (operation == FETCH_REPLACE) made.word = operand.word;                                                     \
      else {                                                                                                        \
        made.word = old;                                                                                            \
        combine(&made, &operand, 1);                                                                                \
      }                                                                                                             \
      if (__atomic_compare_exchange_n(word, &old, made.word, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;         \
    }                                                                                                               \
    if (before) memcpy((char *)before + i * sizeof(type), &old, sizeof(type));                                      \
  }

/* The same for sums, by far the most common operation: three times as fast, because no function is called for each
   element. */
#define FETCH_SUMS(word_t, value_t)                                                                                 \
  for (size_t i = 0; i < count; i++) {                                                                              \
    word_t *word = (word_t *)to + i, old = __atomic_load_n(word, __ATOMIC_SEQ_CST), made;                           \
    value_t value, operand;                                                                                         \
    memcpy(&operand, (const char *)from + i * sizeof operand, sizeof operand);                                      \
    do {                                                                                                            \
      memcpy(&value, &old, sizeof value);                                                                           \
      value += operand;                                                                                             \
      memcpy(&made, &value, sizeof made);                                                                           \
    } while (!__atomic_compare_exchange_n(word, &old, made, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));                \
    if (before) memcpy((char *)before + i * sizeof old, &old, sizeof old);                                          \
  }

static void fetch_and_combine(combine_t *combine, int operation, void *to, const void *from, void *before, size_t count,
                              size_t size) {
  if (combine == of_double_sum) FETCH_SUMS(uint64_t, double)
  else if (combine == of_int64_sum || combine == of_uint64_sum) FETCH_SUMS(uint64_t, uint64_t)
  else if (combine == of_float_sum) FETCH_SUMS(uint32_t, float)
  else if (combine == of_int32_sum || combine == of_uint32_sum) FETCH_SUMS(uint32_t, uint32_t)
  else if (size == 1) FETCH_ON(uint8_t)
  else if (size == 2) FETCH_ON(uint16_t)
  else if (size == 4) FETCH_ON(uint32_t)
  else FETCH_ON(uint64_t)
}

/* The same while no other process accesses the elements. */
static void combine_alone(combine_t *combine, int operation, void *to, const void *from, void *before, size_t count,
                          size_t size) {
  size_t nbytes = count * size;
  int apart = (const char *)to + nbytes <= (const char *)from || (const char *)from + nbytes <= (const char *)to;
  int fetched = (char *)to + nbytes <= (char *)before || (char *)before + nbytes <= (char *)to;
  int aligned = (uintptr_t)from % size == 0;
  if (!apart || !aligned || (before && (!fetched || before == from))) {
    fetch_and_combine(combine, operation, to, from, before, count, size);
    return;
  }
  if (before) memcpy(before, to, nbytes);
  if (operation == FETCH_REPLACE) memcpy(to, from, nbytes);
  else if (operation != FETCH_ONLY) combine(to, from, count);
}

#define SWAP_ON(type)                                                                                               \
  {                                                                                                                 \
    type value, old;                                                                                                \
    memcpy(&value, from, sizeof value);                                                                             \
    memcpy(&old, expected, sizeof old);                                                                             \
    __atomic_compare_exchange_n((type *)to, &old, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                    \
    memcpy(before, &old, sizeof old);                                                                               \
  }

/* Set an element if it equals the expected one; `before` gets the element as it was. */
static void fetch_and_swap(void *to, const void *from, const void *expected, void *before, size_t size) {
  if (size == 1) SWAP_ON(uint8_t)
  else if (size == 2) SWAP_ON(uint16_t)
  else if (size == 4) SWAP_ON(uint32_t)
  else SWAP_ON(uint64_t)
}

/* Return 1 for an array of integers, each of which the processor can change atomically. */
static int fetch_whole(PyObject *array) {
  const PyArray_Descr *descr = ((PyArrayObject_fields *)array)->descr;
  return combine_of(OP_BAND, descr->type_num, descr->elsize) != NULL;
}

/* Return 1 if the elements of an array can be combined atomically, by every operation that is defined for them. */
static int fetch_serves(PyObject *array) {
  const PyArray_Descr *descr = ((PyArrayObject_fields *)array)->descr;
  return combine_of(OP_SUM, descr->type_num, descr->elsize) != NULL;
}
