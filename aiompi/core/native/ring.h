/* A ring of frames: one direction between two processes, one of which writes and the other of which reads.

   Positions count bytes since the beginning and never return; the place of a byte is its position modulo the size of
   the ring, a power of two. A frame begins at a multiple of LINE: a header (as in aiompi.wire.frame, 48 bytes), and its
   payload behind it. The kind in the header is a word of 32 bits:

   | kind          | meaning                                                                        |
   |---------------|--------------------------------------------------------------------------------|
   | 0             | nothing is there yet                                                           |
   | 1 to 254      | a frame that is there as a whole, in one piece: WHOLE bytes of payload at most |
   | 255           | nothing more up to the end of the ring: the next frame is at its beginning     |
   | + STREAMED    | a frame whose payload may still be written, and may go round the ring          |
   | + EXPOSED     | an RTS whose message the reader can copy; a table of its pieces is the payload |

   The reader polls the kind where the next header will be, so a frame with up to 16 bytes is one cache line.

   Which end writes which word, and the order that each needs (C11; W the writer, R the reader of the ring):

   kind       W, release, when header and payload are there (of a streamed frame the header and a part). R, acquire: so
              it sees them. Before that, W has stored 0 as the kind of the header behind this frame, so R, which looks
              there only after this frame, never sees a kind of an earlier lap. That header lies in room that R has
              given back.
   written    W, release, after each part of a streamed payload: the position up to which it is there. R, acquire. It is
              stored before the kind of its frame, so that R, which has seen the kind, sees no position of an earlier
              frame. Behind the last part it also publishes the 0 of the header that follows.
   tail       R, release, after its last load from what it gives back; W, acquire, before it writes there again. Always
              a multiple of LINE. R stores it for every eighth of the ring, when W wants room, and before it sleeps.
   watching   R, relaxed: the number of its current sleep, 0 if it is awake. W looks after what it has published.
   wanting    W, relaxed: the number of its last wait for room. R looks when it has read, and before it sleeps.
   granted    R, release; W, acquire: bytes of credit that R has granted, beside what frames tell. It publishes nothing.
   reads      R, relaxed: 1 if it may read the memory of W by the kernel. A hint.
   retracted, done, claims: see copy.h.

   No end sleeps while the other believes it awake. One that is about to sleep stores `watching` (or `wanting`), passes a
   sequentially consistent fence and looks at the kind (or the tail) once more. One that moves these stores them, passes
   such a fence and looks at `watching` (or `wanting`). Of two such fences one is first in their single order; the loads after
   the other one see what was stored before the first. So at least one end sees what the other has stored. A sleep has
   a number, and an end is woken once per number.

   Neither end believes the other. Each position that the other one has stored is copied to a local variable, checked
   against the own position, and then used. All places are taken modulo the size that was agreed when the memory was
   mapped. So whatever the other one writes, nothing outside of the ring is touched, and a function returns WRONG. */
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
  STEP = 16384,     /* bytes of a streamed payload that are published at once; a longer message is streamed */
  SKIP = 255,
  STREAMED = 0x100,
  EXPOSED = 0x200,
  PIECES = 64,      /* pieces of an exposed message */
  DIRECTION = 1024, /* bytes from the words of one direction to those of the other */
  LOOKS = 200,      /* looks for the next part of a payload, which takes some microseconds to write */
  CRUMB = 4096,     /* bytes of a part that are worth these looks again: a writer of single bytes would hold its reader */
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

/* Words that different ends write, or that change at different times, are in different lines. */
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
  uint64_t told;     /* what the writer knows of that */
  uint64_t given;    /* what it knew when it was last woken for room */
  uint64_t missing;  /* of a streamed payload */
  uint64_t whole;    /* bytes of payload that a frame may have as a whole */
  uint64_t wait, answered, granted;
  int watching;
  int bell;          /* eventfd that wakes the writer */
} reader_t;

/* Wake the other end. It never reads its bell, whose counter is not 0 (see aiompi.driver.doorbells): there is always room
   for 0, so that this never waits, whatever the other end writes to the counter and sets of the flags. (Only if it has the
   kernel add to the largest counter that can be written, at the end of asynchronous I/O, there is none. A process that
   wants that could as well stop this one.) */
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

/* Return 1 if a frame may end at a position, with room for the kind of the next one; 0 if there is no room. */
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

/* Find the place of a frame of `nbytes` bytes with its header, in one piece: 1 if there is one, 0 if there is no room.
   A frame that fits nowhere before the end of the ring goes to its beginning. */
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

/* Write a part of a streamed payload, for which there is room; `last` if it is the last one. */
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

/* Write a piece of a streamed payload for which `writer_reserve` has found room, whatever the reader says since then. */
static inline void writer_piece(writer_t *w, uint32_t kind, const char *from, uint64_t nbytes, int last) {
  for (uint64_t part; nbytes; from += part, nbytes -= part) {
    part = nbytes < STEP ? nbytes : STEP;
    writer_part(w, kind, from, part, last && part == nbytes);
  }
}

/* Wake the reader if it sleeps, after something was published; return 1 if it did. */
static inline int writer_wake(writer_t *w) {
  FENCE();
  uint64_t wait = LOAD_RELAXED(&w->words->watching);
  if (__builtin_expect(!wait || wait == w->answered, 1)) return 0;
  w->answered = wait;
  ring_bell(w->bell);
  return 1;
}

/* Write as much of a piece of a streamed payload as there is room for; return the number of bytes, or WRONG. A reader that
   sleeps is woken by the caller, when all that can be written is there: earlier, it would take the core of its writer
   where they share one. */
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

/* Begin to wait for room, after there was none; return 0 if the reader has given some back meanwhile. */
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

/* Wake the writer if it waits for room and there is more than when it was last woken; return 1 if so. A writer that
   has begun to wait since then, and has not seen that room, is woken by the same bell, which was rung after `tail` was
   stored. So two ends that wait for each other's progress do not wake each other for nothing. */
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

/* Bytes of a streamed payload that are there, in one piece; WRONG if its writer cannot be where it says that it is. */
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

/* Copy bytes of a streamed payload that are there, and look for more, a limited number of times; return the number, or
   WRONG. Without memory to copy to they are dropped. The last bytes of the payload move the reader behind the frame. */
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

/* Look at the next frame. Return 0 if there is none, 1 with its header and the place of its payload, or WRONG. The
   header is a copy, and the kind in it has may be any number but 0 and 255. */
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
    if (!(r->tail & r->mask)) return WRONG; /* nothing needs that, and a ring of nothing else would never end */
    reader_advance(r, (r->tail | r->mask) + 1);
  }
}

/* Return 1 if a frame with so many bytes of payload can be at the tail as a whole. */
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

/* Look until there is something to read in one of the rings, or room in one, and return 1; 0 after some seconds. */
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
