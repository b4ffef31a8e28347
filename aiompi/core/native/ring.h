/* A ring of frames: one direction between two processes, the writer and the reader.

   A position is the number of bytes before it since the beginning, and never decreases. The place of a byte is its
   position modulo the size of the ring, which is a power of two. A frame begins at a multiple of LINE with a header of
   48 bytes (see aiompi.wire.frame), which the payload follows. The kind in the header is a word of 32 bits:

   | kind          | meaning                                                                        |
   |---------------|--------------------------------------------------------------------------------|
   | 0             | nothing is there yet                                                           |
   | 1 to 254      | a frame that is there as a whole, in one piece: WHOLE bytes of payload at most |
   | 255           | nothing more up to the end of the ring: the next frame is at its beginning     |
   | + STREAMED    | a frame whose payload may still be written, and may go round the ring          |
   | + EXPOSED     | an RTS whose message the reader can copy; a table of its pieces is the payload |

   The reader polls the kind where the next header will be, so a frame with up to 16 bytes is one cache line.

   Each of the following words has one end that stores it, and a memory order of C11. W is the writer of the ring, R its
   reader:

   kind       W stores it (release) when header and payload are written; for a streamed frame, when the header and a
              part are written. R loads it (acquire), and so sees them. Earlier, W has stored 0 as the kind of the next
              header, in room that R has given back. R looks at the next header only after this frame, and so never
              finds the kind of an earlier lap there.
   written    W stores it (release) after each part of a streamed payload: the position up to which the payload is
              written. R loads it (acquire). W stores it before the kind of its frame, so that R, once it has seen the
              kind, finds no position of an earlier frame. The store for the last part also publishes the 0 in the next
              header.
   tail       R stores it (release) after its last load from the room that it gives back. W loads it (acquire) before it
              writes there again. It is a multiple of LINE. R stores it for every eighth of the ring, when W wants room,
              and before R sleeps.
   watching   R stores it (relaxed): the number of its current sleep, 0 if R is awake. W looks at it after each
              publication.
   wanting    W stores it (relaxed): the number of its last wait for room. R looks at it after it has read, and before
              it sleeps.
   granted    R stores it (release): bytes of credit that R has granted besides those in frames. W loads it (acquire).
              It publishes no other word.
   reads      R stores it (relaxed): 1 if R may read the memory of W by the kernel. It is a hint.
   retracted, done, claims: see copy.h.

   Neither end sleeps while the other end takes it to be awake. An end that is about to sleep stores `watching` (or
   `wanting`), passes a sequentially consistent fence and looks at the kind (or the tail) once more. An end that moves
   the kind (or the tail) stores it, passes such a fence and looks at `watching` (or `wanting`). The two fences have a
   single order. The loads after the second fence see the stores before the first one. So at least one end sees the
   store of the other. A sleep has a number, and an end is woken once per number.

   Neither end trusts the other. An end copies each position that the other end has stored to a local variable, checks
   the copy against its own position, and then uses the copy. All places are taken modulo the size that was agreed when
   the memory was mapped. So whatever the other end stores, no function touches memory outside of the ring; it returns
   WRONG. */
#pragma once
#include "atomics.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  LINE = 64,
  HEADER = 48,
  WHOLE = 131072,   /* bytes of payload up to which a frame is written as a whole */
  STEP = 16384,     /* bytes of a streamed payload that are published at a time; a longer message is streamed */
  SKIP = 255,
  STREAMED = 0x100,
  EXPOSED = 0x200,
  PIECES = 64,      /* pieces of an exposed message */
  DIRECTION = 1024, /* bytes from the words of one direction to those of the other */
  LOOKS = 200,      /* polls for the next part of a payload; to write one takes some microseconds */
  CRUMB = 4096,     /* bytes of a part after which LOOKS begins again: single bytes must not hold the reader */
};
enum { WRONG = -1 };
/* no payload is longer, so that sums of positions do not overflow */
#define LONGEST ((uint64_t)1 << 62)
#define UP(position) (((position) + (LINE - 1)) & ~(uint64_t)(LINE - 1))

typedef struct {
  uint32_t kind;
  int32_t tag, source;
  uint32_t credit;
  uint64_t context, length, srqid, drqid;
} header_t;
_Static_assert(sizeof(header_t) == HEADER, "the header of aiompi.wire.frame");

/* Words that different ends write, or that change at different times, are in different cache lines. */
typedef struct {
  uint64_t written __attribute__((aligned(LINE)));
  uint64_t wanting __attribute__((aligned(LINE)));
  uint64_t done __attribute__((aligned(LINE)));
  uint64_t retracted;
  uint64_t claims __attribute__((aligned(LINE)));
  uint64_t tail __attribute__((aligned(LINE)));
  uint64_t granted;
  uint64_t watching __attribute__((aligned(LINE)));
  uint64_t reads;
} words_t;
_Static_assert(sizeof(words_t) <= DIRECTION, "the words of a direction");

typedef struct {
  words_t *words;
  char *memory;
  uint64_t size, mask;
  uint64_t head;     /* where the next byte is written */
  uint64_t limit;    /* bytes before this can be written, as far as is known */
  uint64_t whole;    /* bytes of payload up to which a frame is written as a whole */
  header_t *streamed; /* the header of a streamed frame that is not published yet */
  uint64_t wait, answered, granted;
  int bell;          /* eventfd that wakes the reader */
} writer_t;

typedef struct {
  words_t *words;
  char *memory;
  uint64_t size, mask;
  uint64_t tail;     /* everything before this has been read */
  uint64_t told;     /* the last `tail` that the writer was told */
  uint64_t given;    /* `told` when the writer was last woken for room */
  uint64_t missing;  /* of a streamed payload */
  uint64_t whole;    /* bytes of payload that a frame may have as a whole */
  uint64_t wait, answered, granted;
  int watching;
  int bell;          /* eventfd that wakes the writer */
} reader_t;

/* Wake the other end by adding 0 to the counter of its eventfd. No end reads the counter, which is never 0 (see
   aiompi.driver.doorbells). So adding 0 always finds room, and never waits, whatever counter and flags the other end
   sets. (The exception is a counter above the largest value that can be written, which the kernel reaches at the end of
   asynchronous I/O. A process that causes this could as well stop this one.) */
static inline void ring_bell(int bell) {
  uint64_t nothing = 0;
  while (write(bell, &nothing, sizeof nothing) < 0 && errno == EINTR) {}
}

static inline uint32_t *kind_at(char *memory, uint64_t place) { return (uint32_t *)(memory + place); }

static inline void ring_init(writer_t *w, reader_t *r, char *segment, uint64_t prefix, uint64_t size, int bell, int first) {
  int out = first ? 0 : 1;
  memset(w, 0, sizeof *w);
  memset(r, 0, sizeof *r);
  w->words = (words_t *)(segment + out * DIRECTION);
  r->words = (words_t *)(segment + (1 - out) * DIRECTION);
  w->memory = segment + prefix + out * size;
  r->memory = segment + prefix + (1 - out) * size;
  w->size = r->size = size;
  w->mask = r->mask = size - 1;
  w->limit = size;
  w->whole = r->whole = size / 4 < WHOLE ? size / 4 : WHOLE;
  w->bell = r->bell = bell;
}

/* The writer. */

/* Look how far the reader is; return WRONG if that is not possible. */
static int writer_refresh(writer_t *w) {
  uint64_t tail = LOAD_ACQUIRE(&w->words->tail);
  if (tail & (LINE - 1) || tail > w->head || w->head - tail > w->size || tail + w->size < w->limit) return WRONG;
  w->limit = tail + w->size;
  return 0;
}

/* Return 1 if there is room for a frame up to a position, and for the kind of the next frame; 0 if there is none. */
static inline int writer_fits(writer_t *w, uint64_t after) {
  if (after + LINE <= w->limit) return 1;
  if (writer_refresh(w) < 0) return WRONG;
  return after + LINE <= w->limit;
}

/* Bytes of a streamed payload that can be written in one piece now. A line is left for the kind of the next frame. */
static inline int64_t writer_room(writer_t *w) {
  if (w->limit < w->head + LINE + STEP && writer_refresh(w) < 0) return WRONG;
  uint64_t room = w->limit < w->head + LINE ? 0 : w->limit - LINE - w->head;
  uint64_t rest = w->size - (w->head & w->mask);
  return room < rest ? room : rest;
}

/* Find the place of a frame of `nbytes` bytes with its header, in one piece. Return 1 if there is room, 0 if there is
   none. A frame that does not fit before the end of the ring goes to the beginning of the ring. */
static int writer_reserve(writer_t *w, uint64_t nbytes, char **place) {
  uint64_t at = w->head & w->mask;
  int fits;
  if (at + nbytes > w->size) {
    uint64_t next = (w->head | w->mask) + 1;
    if ((fits = writer_fits(w, next)) <= 0) return fits;
    STORE_RELAXED(kind_at(w->memory, 0), 0);
    STORE_RELEASE(kind_at(w->memory, at), SKIP);
    w->head = next;
    at = 0;
  }
  if ((fits = writer_fits(w, UP(w->head + nbytes))) <= 0) return fits;
  *place = w->memory + at;
  return 1;
}

/* Write all of a header but its kind. */
static inline void header_write(char *place, const header_t *h) {
  memcpy(place + sizeof h->kind, (const char *)h + sizeof h->kind, HEADER - sizeof h->kind);
}

/* Publish the frame that was written at `place`. */
static inline void writer_publish(writer_t *w, char *place, uint32_t kind, uint64_t nbytes) {
  uint64_t after = UP(w->head + nbytes);
  STORE_RELAXED(kind_at(w->memory, after & w->mask), 0);
  STORE_RELEASE((uint32_t *)place, kind);
  w->head = after;
}

/* Begin a streamed frame; return 0 if there is no room. The reader sees it with the first part of its payload. */
static int writer_begin(writer_t *w, const header_t *h) {
  int fits = writer_fits(w, UP(w->head + HEADER));
  if (fits <= 0) return fits;
  w->streamed = (header_t *)(w->memory + (w->head & w->mask));
  header_write((char *)w->streamed, h);
  w->head += HEADER;
  return 1;
}

/* Write a part of a streamed payload, for which there is room; `last` marks the last part. */
static inline void writer_part(writer_t *w, uint32_t kind, const char *from, uint64_t nbytes, int last) {
  memcpy(w->memory + (w->head & w->mask), from, nbytes);
  uint64_t end = w->head + nbytes;
  w->head = last ? UP(end) : end;
  if (last) STORE_RELAXED(kind_at(w->memory, w->head & w->mask), 0);
  STORE_RELEASE(&w->words->written, end);
  if (w->streamed) {
    STORE_RELEASE(&w->streamed->kind, kind | STREAMED);
    w->streamed = NULL;
  }
}

/* Write a piece of a streamed payload for which `writer_reserve` has found room, whatever position the reader has
   stored since then. */
static inline void writer_piece(writer_t *w, uint32_t kind, const char *from, uint64_t nbytes, int last) {
  for (uint64_t part; nbytes; from += part, nbytes -= part) {
    part = nbytes < STEP ? nbytes : STEP;
    writer_part(w, kind, from, part, last && part == nbytes);
  }
}

/* Wake the reader if it sleeps, after something was published; return 1 if it slept. */
static inline int writer_wake(writer_t *w) {
  FENCE();
  uint64_t wait = LOAD_RELAXED(&w->words->watching);
  if (__builtin_expect(!wait || wait == w->answered, 1)) return 0;
  w->answered = wait;
  ring_bell(w->bell);
  return 1;
}

/* Write as much of a piece of a streamed payload as there is room for; return the number of bytes written, or WRONG.
   The caller wakes a sleeping reader after all writing: on a shared core, a reader that wakes earlier would take the
   core from its writer. */
static int64_t writer_stream(writer_t *w, uint32_t kind, const char *from, uint64_t nbytes, int last) {
  uint64_t done = 0;
  while (done < nbytes) {
    int64_t room = writer_room(w);
    if (room <= 0) return room < 0 ? WRONG : (int64_t)done;
    uint64_t part = nbytes - done;
    if (part > (uint64_t)room) part = room;
    if (part > STEP) part = STEP;
    writer_part(w, kind, from + done, part, last && done + part == nbytes);
    done += part;
  }
  return done;
}

/* Begin to wait for room; return 0 if the reader has given back room meanwhile. */
static int writer_want(writer_t *w) {
  uint64_t before = w->limit;
  STORE_RELAXED(&w->words->wanting, ++w->wait);
  FENCE();
  if (writer_refresh(w) < 0) return WRONG;
  return w->limit == before;
}

/* Return 1 if the reader has given back room since the last look. */
static inline int writer_moved(const writer_t *w) { return LOAD_RELAXED(&w->words->tail) + w->size != w->limit; }

/* The reader. */

/* Give back what has been read. */
static inline void reader_tell(reader_t *r) {
  uint64_t tail = r->tail & ~(uint64_t)(LINE - 1);
  if (tail == r->told) return;
  r->told = tail;
  STORE_RELEASE(&r->words->tail, tail);
}

static inline void reader_advance(reader_t *r, uint64_t tail) {
  r->tail = tail;
  if (tail - r->told > r->size / 8) reader_tell(r);
}

/* Wake the writer if it waits for room, and there is more room than at its last wake-up. Return 1 if this end rang the
   bell. A writer that has begun to wait since then without seeing that room needs no second bell: the first was rung
   after `tail` was stored. So two ends that wait for each other's progress do not wake each other for nothing. */
static inline int reader_answer(reader_t *r) {
  uint64_t wait = LOAD_RELAXED(&r->words->wanting);
  if (__builtin_expect(wait == r->answered, 1)) return 0;
  reader_tell(r);
  if (r->told == r->given) return 0;
  r->given = r->told;
  r->answered = wait;
  ring_bell(r->bell);
  return 1;
}

/* Return the bytes of a streamed payload that can be read in one piece; WRONG if the writer's position is impossible.
   */
static inline int64_t reader_there(reader_t *r) {
  uint64_t written = LOAD_ACQUIRE(&r->words->written);
  if (written < r->tail || written - r->tail > r->size) return WRONG;
  uint64_t there = written - r->tail, rest = r->size - (r->tail & r->mask);
  if (there > rest) there = rest;
  return there < r->missing ? there : r->missing;
}

/* Return 1 if there is something to read. */
static inline int reader_pending(reader_t *r) {
  if (r->missing) return LOAD_RELAXED(&r->words->written) != r->tail;
  return LOAD_RELAXED(kind_at(r->memory, r->tail & r->mask)) != 0;
}

/* Copy the bytes of a streamed payload that are there, and poll for more a limited number of times. Return the number
   of bytes copied, or WRONG. Without a destination the bytes are dropped. The last bytes of the payload move the reader
   behind the frame. */
static int64_t reader_stream(reader_t *r, char *to, uint64_t nbytes) {
  uint64_t done = 0;
  for (int looks = LOOKS; done < nbytes;) {
    int64_t there = reader_there(r);
    if (there < 0) return WRONG;
    if (!there) {
      reader_answer(r);
      if (!--looks) break;
      RELAX();
      continue;
    }
    if (there >= CRUMB) looks = LOOKS;
    if ((uint64_t)there > nbytes - done) there = nbytes - done;
    if (to) memcpy(to + done, r->memory + (r->tail & r->mask), there);
    done += there;
    r->missing -= there;
    reader_advance(r, r->missing ? r->tail + there : UP(r->tail + there));
  }
  return done;
}

/* Begin to sleep; return 0 if there is something to do first. */
static int reader_watch(reader_t *r) {
  reader_tell(r);
  STORE_RELAXED(&r->words->watching, ++r->wait);
  r->watching = 1;
  FENCE();
  reader_answer(r);
  if (!reader_pending(r)) return 1;
  STORE_RELAXED(&r->words->watching, 0);
  r->watching = 0;
  return 0;
}

static inline void reader_wake(reader_t *r) {
  if (!r->watching) return;
  r->watching = 0;
  STORE_RELAXED(&r->words->watching, 0);
}

/* Look at the next frame. Return 0 if there is none; 1, the frame's header and the place of its payload if there is
   one; or WRONG. The header is a copy, and the kind in it may be any number but 0 and 255. */
static inline int reader_next(reader_t *r, header_t *h, const char **payload) {
  for (;;) {
    char *place = r->memory + (r->tail & r->mask);
    uint32_t kind = LOAD_ACQUIRE((uint32_t *)place);
    if (!kind) return 0;
    if (kind != SKIP) {
      memcpy(h, place, HEADER);
      h->kind = kind;
      *payload = place + HEADER;
      return 1;
    }
    if (!(r->tail & r->mask)) return WRONG; /* no writer skips a whole lap, and a ring of such skips would never end */
    reader_advance(r, (r->tail | r->mask) + 1);
  }
}

/* Return 1 if a frame at the tail can have `nbytes` bytes of payload in one piece. */
static inline int reader_holds(const reader_t *r, uint64_t nbytes) {
  return nbytes <= r->whole && (r->tail & r->mask) + HEADER + nbytes <= r->size;
}

/* Looking at several rings. */

typedef struct {
  reader_t *reader;
  const writer_t *writer; /* NULL if nothing waits for room */
} watched_t;

enum { PER_CLOCK = 16 }; /* rounds of looks between two looks at the clock */

static inline double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Poll until one of the rings has something to read, or room to write, and return 1; return 0 after `seconds`. */
static int rings_watch(const watched_t *watched, size_t count, double seconds) {
  double end = seconds_now() + seconds;
  do {
    for (int round = 0; round < PER_CLOCK; round++) {
      for (size_t i = 0; i < count; i++)
        if (reader_pending(watched[i].reader) || (watched[i].writer && writer_moved(watched[i].writer))) return 1;
      RELAX();
    }
  } while (seconds_now() < end);
  return 0;
}
