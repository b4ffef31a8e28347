/* Slots: the contributions of each rank of a communicator, in memory that the rank alone writes and all other ranks
   map.

   The members make the same calls in the same order, and number the calls from 1. In each call a rank posts: it writes
   its contribution, if it has one, into one of its 16 cells, which the number chooses, and then stores the number in
   the cell. Then the rank waits for the members whose contributions it needs: in a barrier for all, in a broadcast for
   the root, and at the root for nobody. By posting, a rank also says that it has read all that it needs of earlier
   calls.

   So the cell of call n - 16 may be written again once all have posted in a later call. A rank checks this in every
   eighth call only: when all have posted in call n - 8, they have finished the calls up to n - 9, and the cells of
   calls n to n + 7 are free. A contribution that is longer than a cell goes to one of two places behind the cells. A
   place is written again when all have posted in a call after the one for which the place was used.

   Only the owner writes the words of its slots. Their memory orders (C11) are:

   stamp      The owner stores the stamp of a cell (release) when the rest of the cell is written. Others load it
              (acquire), and so see the contribution. They also see that the owner has finished earlier calls, since the
              owner has loaded the contributions to those calls before.
   note, claim, length, content   The owner writes them by plain stores before the stamp. Before it writes them again,
              it has loaded (acquire) a stamp of each reader that the reader stored after its last load from them.
   steps      The owner stores it (release) after each step of a call in rounds (rounds.pxi): the number of its steps so
              far. Others load it (acquire), and so see what the owner has written into its places in these steps. They
              also see that the owner has finished its reads of these steps.
   wanted, target   The owner stores them (relaxed) before `asleep`: the members for which the owner waits, and the
              number of steps that these members must make. The target 0 means that they must post.
   asleep     The owner stores it (release): the number of the call in which the owner waits for the wanted members.
              Others load it (acquire) after they have posted or made a step.

   No rank sleeps while it may go on. A rank that is about to sleep stores `asleep`, passes a sequentially consistent
   fence, and looks at the stamps, or the steps, once more. A rank that has posted or made a step passes such a fence.
   Then it looks which ranks sleep in this call, and whether all members that a sleeper wants have come so far. The
   fences of the sleeper and of the wanted members have a single order. If the sleeper's fence is the last one, the
   sleeper sees all stamps or steps. Otherwise the member with the last fence sees all of them and sees that the sleeper
   sleeps, and wakes it. So only the last wanted member wakes a sleeper.

   No rank trusts the words of another. A stamp may be any number: a rank whose stamp is too high counts as posted, and
   its contribution is then nonsense. Lengths are cut to the room of a place, and places are taken modulo their number.
   */
#pragma once
#include "ring.h"
#include <sched.h>

enum {
  CELLS = 16,
  LOOK = 8,          /* calls between two checks of which cells may be written again */
  SHORT = 224,       /* bytes of a contribution that are in a cell */
  PLACES = 2,        /* for long ones */
  SLOTS_HEAD = 4224, /* bytes of all that is before these places */
};

typedef struct {
  uint64_t stamp __attribute__((aligned(LINE)));
  uint64_t note, claim, length;
  char content[SHORT];
} cell_t;

typedef struct {
  uint64_t asleep __attribute__((aligned(LINE)));
  uint64_t wanted, target;
  uint64_t steps __attribute__((aligned(LINE)));
  cell_t cells[CELLS];
} shown_t;
_Static_assert(sizeof(shown_t) == SLOTS_HEAD, "the layout of slots");

/* The slots of all members, as one of them sees them. */
typedef struct {
  shown_t **shown;       /* by rank in the communicator */
  uint64_t room;         /* bytes of a place for a long contribution */
  uint64_t number;       /* of the last call */
  uint64_t used[PLACES]; /* the calls for which the places were written */
  uint64_t longs;        /* long contributions so far */
  uint64_t steps;        /* of calls in rounds so far */
  uint32_t rank, size;
} slots_t;

/* A call of this rank. */
typedef struct {
  uint64_t number, note, claim, length;
  uint64_t target;      /* the awaited members must have made so many steps; 0: must have posted */
  uint32_t first, last; /* the members that it waits for: `first` to `last` - 1 */
  uint32_t seen;        /* all members before this one have come */
  int posted;
} meeting_t;

static inline cell_t *cell_of(const slots_t *s, uint32_t member, uint64_t number) {
  return &s->shown[member]->cells[number % CELLS];
}

static inline int has_posted(const slots_t *s, uint32_t member, uint64_t number) {
  return LOAD_ACQUIRE(&cell_of(s, member, number)->stamp) >= number;
}

static inline int have_posted(const slots_t *s, uint32_t first, uint32_t last, uint64_t number) {
  while (first < last && has_posted(s, first, number)) first++;
  return first >= last;
}

/* Return 1 if the members `first` to `last` - 1 have made `target` steps, or have posted in a call if `target` is 0. */
static inline int have_come(const slots_t *s, uint32_t first, uint32_t last, uint64_t number, uint64_t target) {
  if (!target) return have_posted(s, first, last, number);
  while (first < last && LOAD_ACQUIRE(&s->shown[first]->steps) >= target) first++;
  return first >= last;
}

/* Return the number of the call in which all members must have posted before this rank may post; 0 if it may now. */
static inline uint64_t slots_bar(const slots_t *s, const meeting_t *m) {
  uint64_t bar = m->number % LOOK ? 0 : m->number - LOOK;
  if (m->length <= SHORT) return bar;
  uint64_t used = s->used[s->longs % PLACES];
  return used && used + 1 > bar ? used + 1 : bar;
}

/* Write the contribution of this rank, for which there is room, and publish it. */
static inline void slots_post(slots_t *s, meeting_t *m, const char *content) {
  shown_t *own = s->shown[s->rank];
  cell_t *cell = cell_of(s, s->rank, m->number);
  cell->note = m->note;
  cell->claim = m->claim;
  cell->length = m->length;
  if (m->length <= SHORT) {
    if (m->length) memcpy(cell->content, content, m->length);
  } else {
    uint64_t place = s->longs++ % PLACES;
    s->used[place] = m->number;
    memcpy(cell->content, &place, sizeof place);
    memcpy((char *)(own + 1) + place * s->room, content, m->length);
  }
  STORE_RELEASE(&cell->stamp, m->number);
  m->posted = 1;
  FENCE();
}

/* Publish a step of a call in rounds. */
static inline void slots_step(slots_t *s) {
  shown_t *own = s->shown[s->rank];
  if (own->asleep) STORE_RELAXED(&own->asleep, 0); /* this rank is awake again, in the same call */
  STORE_RELEASE(&own->steps, ++s->steps);
  FENCE();
}

/* Find a place of a member. */
static inline char *slots_place(const slots_t *s, uint32_t member, uint64_t place) {
  return (char *)(s->shown[member] + 1) + place * s->room;
}

/* Return the first member from `member` on that this rank must wake. Such a member sleeps in the call until some ranks,
   this one among them, have made `steps` steps (0: have posted), and now all of them have. Return the number of members
   if there is none. A member that has been woken still looks asleep for a while, so each step wakes only members that
   wait for exactly this step. */
static inline uint32_t slots_sleeper(const slots_t *s, uint32_t member, uint64_t number, uint64_t steps) {
  for (; member < s->size; member++) {
    const shown_t *shown = s->shown[member];
    if (LOAD_ACQUIRE(&shown->asleep) != number || member == s->rank) continue;
    uint64_t wanted = LOAD_RELAXED(&shown->wanted);
    uint32_t first = wanted >> 32, last = (uint32_t)wanted < s->size ? (uint32_t)wanted : s->size;
    if (s->rank < first || s->rank >= last || LOAD_RELAXED(&shown->target) != steps) continue;
    if (have_come(s, first, last, number, steps)) break;
  }
  return member;
}

/* Return the number of the call in which members must post next, and set `first` and `last` to these members: before
   this rank posts all members, afterwards the members that contribute. */
static inline uint64_t slots_wanted(const slots_t *s, const meeting_t *m, uint32_t *first, uint32_t *last) {
  *first = m->posted ? m->seen : 0;
  *last = m->posted ? m->last : s->size;
  return m->posted ? m->number : slots_bar(s, m);
}

/* Begin to sleep; return 0 if the call may go on instead. */
static int slots_sleep(slots_t *s, const meeting_t *m) {
  shown_t *own = s->shown[s->rank];
  uint32_t first, last;
  uint64_t number = slots_wanted(s, m, &first, &last);
  STORE_RELAXED(&own->wanted, (uint64_t)first << 32 | last);
  STORE_RELAXED(&own->target, m->target);
  STORE_RELEASE(&own->asleep, number);
  FENCE();
  return !have_come(s, first, last, number, m->target);
}

/* Look whether a call may go on, for a limited time in seconds. With more ranks than cores, the rank offers its core to
   other processes in between. The time that they use does not count, but a process that keeps the core for long ends
   the look. */
static int slots_spin(const slots_t *s, const meeting_t *m, int yields, double limit) {
  double start = 0, last_look = 0;
  uint32_t first, last;
  uint64_t number = slots_wanted(s, m, &first, &last);
  for (int looks = 0;; looks++) {
    while (first < last && have_come(s, first, first + 1, number, m->target)) first++;
    if (first >= last) return 1;
    if (yields) sched_yield();
    else RELAX();
    if (!yields && looks % 32) continue;
    double now = seconds_now();
    if (!start) start = last_look = now;
    if (now - last_look > 300e-6) return 0;
    if (yields && now - last_look > 10e-6) start += now - last_look;
    last_look = now;
    if (now - start > limit) return 0;
  }
}

/* Find the contribution of a member to a call in which it has posted. `length` gets its bytes, at most those of a
   place. */
static inline const char *slots_content(const slots_t *s, uint32_t member, uint64_t number, uint64_t *length) {
  const cell_t *cell = cell_of(s, member, number);
  uint64_t place, nbytes = LOAD_RELAXED((uint64_t *)&cell->length);
  *length = nbytes < s->room ? nbytes : s->room;
  if (*length <= SHORT) return cell->content;
  memcpy(&place, cell->content, sizeof place);
  return (const char *)(s->shown[member] + 1) + place % PLACES * s->room;
}
