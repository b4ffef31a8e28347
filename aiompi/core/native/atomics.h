/* Words that two processes share, with the orders of C11. All of them are read and written by these functions only.

   Sanitizers, and compilers for other processors, need nothing else: the only processor instruction here is the hint to
   wait, which may be left out. */
#pragma once
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ __volatile__("yield" ::: "memory")
#else
#define RELAX() __asm__ __volatile__("" ::: "memory")
#endif

#define LOAD_RELAXED(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define LOAD_ACQUIRE(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE_RELAXED(p, value) __atomic_store_n((p), (value), __ATOMIC_RELAXED)
#define STORE_RELEASE(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)
#define EXCHANGE(p, value) __atomic_exchange_n((p), (value), __ATOMIC_SEQ_CST)
#define FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Operations on words of 1, 2, 4 and 8 bytes for programs that share memory, all sequentially consistent. Each returns
   the word as it was. */
enum { ATOMIC_LOAD, ATOMIC_STORE, ATOMIC_ADD, ATOMIC_EXCHANGE, ATOMIC_COMPARE };

#define ATOMIC_ON(type)                                                                                             \
  {                                                                                                                 \
    type *word = (type *)place, old = (type)expected;                                                               \
    switch (action) {                                                                                               \
    case ATOMIC_LOAD: return __atomic_load_n(word, __ATOMIC_SEQ_CST);                                               \
    case ATOMIC_STORE: __atomic_store_n(word, (type)value, __ATOMIC_SEQ_CST); return 0;                             \
    case ATOMIC_ADD: return __atomic_fetch_add(word, (type)value, __ATOMIC_SEQ_CST);                                \
    case ATOMIC_EXCHANGE: return __atomic_exchange_n(word, (type)value, __ATOMIC_SEQ_CST);                          \
    }                                                                                                               \
    __atomic_compare_exchange_n(word, &old, (type)value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                    \
    return old;                                                                                                     \
  }

static inline uint64_t atomic_do(int action, void *place, int size, uint64_t value, uint64_t expected) {
  if (size == 1) ATOMIC_ON(uint8_t)
  if (size == 2) ATOMIC_ON(uint16_t)
  if (size == 4) ATOMIC_ON(uint32_t)
  ATOMIC_ON(uint64_t)
}
