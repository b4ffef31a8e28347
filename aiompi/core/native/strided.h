/* Copies of runs of bytes between memory and a message, at regular or irregular places. */
#pragma once
#include <stdint.h>
#include <string.h>

typedef struct {
  int64_t count, memory, packed; /* repetitions, and the distances between them on both sides */
} dim_t;

typedef struct {
  int64_t memory, packed, run; /* place of the first run on both sides, and its length */
  int64_t low, high, end;      /* span in memory, and end in the message */
  int64_t places;              /* number of irregular places; 0: one, which is regular */
  const int64_t *offsets, *starts, *runs; /* the places on both sides, and the lengths unless they are equal */
  int64_t dims;
  int word; /* bytes that are reversed, 2, 4 or 8; 0: none */
  dim_t dim[]; /* twice: in the order of the message, for packing, and in the order of memory, for unpacking. To */
               /* write in sequence and read out of order costs the caches less than the reverse. */
} block_t;

static inline void copy_run(char *to, const char *from, int64_t run, int word) {
  if (word == 0) {
    memmove(to, from, run);
    return;
  }
  for (int64_t i = 0; i < run; i += word) {
    uint64_t value = 0;
    memcpy(&value, from + i, word);
    value = __builtin_bswap64(value) >> (64 - 8 * word);
    memcpy(to + i, &value, word);
  }
}

/* Copies runs of a constant length, which compilers turn into loads and stores. */
#define EACH(n, to, from)                              \
  case n:                                              \
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < count; i++) memcpy(to, from, n); \
    break;
#define EVERY_LENGTH(to, from)                                            \
  EACH(1, to, from) EACH(2, to, from) EACH(4, to, from) EACH(8, to, from) \
  EACH(16, to, from)

/* Copy runs in a regular stride. */
static void copy_row(char *to, const char *from, int64_t count, int64_t to_step, int64_t from_step,
                     int64_t run, int word) {
  switch (word ? 0 : run) {
    EVERY_LENGTH(to + i * to_step, from + i * from_step)
    default:
      for (int64_t i = 0; i < count; i++) copy_run(to + i * to_step, from + i * from_step, run, word);
  }
}

/* Copy runs at irregular places. */
static void copy_places(const block_t *block, char *to, const char *from, const int64_t *there,
                        const int64_t *here) {
  const int64_t count = block->places, *runs = block->runs;
  switch (block->word || runs ? 0 : block->run) {
    EVERY_LENGTH(to + there[i], from + here[i])
    default:
      for (int64_t i = 0; i < count; i++)
        copy_run(to + there[i], from + here[i], runs ? runs[i] : block->run, block->word);
  }
}

/* Copy the repetitions of a block from one of its dims on, inwards. */
static void copy_dims(const block_t *block, int64_t at, char *memory, char *packed, int unpacking) {
  if (at == block->dims) {
    if (unpacking)
      copy_places(block, memory, packed, block->offsets, block->starts);
    else
      copy_places(block, packed, memory, block->starts, block->offsets);
    return;
  }
  dim_t dim = block->dim[unpacking ? block->dims + at : at];
  if (at + 1 == block->dims && !block->places) {
    if (unpacking)
      copy_row(memory, packed, dim.count, dim.memory, dim.packed, block->run, block->word);
    else
      copy_row(packed, memory, dim.count, dim.packed, dim.memory, block->run, block->word);
    return;
  }
  for (int64_t i = 0; i < dim.count; i++, memory += dim.memory, packed += dim.packed)
    copy_dims(block, at + 1, memory, packed, unpacking);
}

/* Copy `count` items, each of which has the block: `extent` apart in memory, and `size` apart in the message. */
static void copy_block(const block_t *block, int64_t count, int64_t extent, int64_t size, char *memory,
                       char *packed, int unpacking) {
  memory += block->memory;
  packed += block->packed;
  if (block->dims || block->places)
    for (; count; count--, memory += extent, packed += size) copy_dims(block, 0, memory, packed, unpacking);
  else if (unpacking)
    copy_row(memory, packed, count, extent, size, block->run, block->word);
  else
    copy_row(packed, memory, count, size, extent, block->run, block->word);
}
