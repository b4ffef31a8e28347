/* Queues of receives and messages: hashed by their envelope, and in one order.

   An entry is a part of the Python object that it stands for. The queue does not own the object. The queue's user keeps
   the object in a list, at the position `index`, where Python's garbage collector sees it.

   Few entries are in one chain. With more entries there are more chains, and entries with the same envelope are in the
   same chain. Chains are in the order of their entries. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 16, FIRST_CHAINS = 64, ANY = -1 };

typedef struct entry {
  struct entry *next, *prev;     /* in its chain */
  struct entry *later, *earlier; /* among all entries of the queue */
  int32_t source, tag;           /* as given: ANY stands for a wildcard */
  uint64_t order;
  size_t index;
} entry_t;

typedef struct {
  entry_t *first, *last;
} chain_t;

typedef struct {
  chain_t one;      /* the only chain while there are few entries */
  chain_t *chains;  /* `mask` + 1 chains: `one`, or memory of their own */
  size_t mask, count;
  size_t kinds[4];  /* entries without wildcards, with any tag, with any source, with both */
  entry_t *first, *last;
  entry_t *hint;    /* the entry that was last put back between others; NULL if it has left */
} queue_t;

static inline void queue_init(queue_t *q) {
  memset(q, 0, sizeof *q);
  q->chains = &q->one;
}

static inline void queue_free(queue_t *q) {
  if (q->chains != &q->one) free(q->chains);
  q->one = (chain_t){NULL, NULL};
  q->chains = &q->one;
  q->mask = 0;
}

static inline chain_t *queue_chain(queue_t *q, int32_t source, int32_t tag) {
  uint64_t key = (uint64_t)(uint32_t)source << 32 | (uint32_t)tag;
  return &q->chains[(key * 0x9E3779B97F4A7C15ull) >> 40 & q->mask];
}

static inline int queue_kind(const entry_t *e) { return (e->source == ANY) << 1 | (e->tag == ANY); }

static inline void chain_append(chain_t *c, entry_t *e) {
  e->next = NULL;
  e->prev = c->last;
  if (c->last) c->last->next = e; else c->first = e;
  c->last = e;
}

/* Use more chains; if there is no memory for them, the queue keeps the chains that it has. */
static void queue_grow(queue_t *q) {
  size_t n = q->mask ? 4 * (q->mask + 1) : FIRST_CHAINS;
  chain_t *chains = calloc(n, sizeof *chains);
  if (!chains) return;
  queue_free(q);
  q->chains = chains;
  q->mask = n - 1;
  for (entry_t *e = q->first; e; e = e->later) chain_append(queue_chain(q, e->source, e->tag), e);
}

/* Add an entry whose order is above all others. */
static inline void queue_append(queue_t *q, entry_t *e) {
  e->later = NULL;
  e->earlier = q->last;
  if (q->last) q->last->later = e; else q->first = e;
  q->last = e;
  q->count++;
  q->kinds[queue_kind(e)]++;
  chain_append(queue_chain(q, e->source, e->tag), e);
  if (q->count > FEW && q->count > 2 * (q->mask + 1)) queue_grow(q);
}

/* Add an entry where its order belongs. The hint finds entries that are put back one after the other, which is the
   usual case. */
static void queue_insert(queue_t *q, entry_t *e) {
  if (!q->last || q->last->order <= e->order) {
    queue_append(q, e);
    return;
  }
  entry_t *near = q->hint ? q->hint : q->first; /* `e` comes behind this entry; NULL if it is the first */
  while (near && near->order > e->order) near = near->earlier;
  if (near) while (near->later && near->later->order < e->order) near = near->later;
  e->earlier = near;
  e->later = near ? near->later : q->first;
  if (near) near->later = e; else q->first = e;
  e->later->earlier = e; /* `later` is not NULL, since `e` is not the last entry */
  chain_t *c = queue_chain(q, e->source, e->tag);
  entry_t *before = NULL;
  if (q->hint && queue_chain(q, q->hint->source, q->hint->tag) == c) {
    before = q->hint;
    while (before && before->order > e->order) before = before->prev;
  }
  for (entry_t *n = before ? before->next : c->first; n && n->order < e->order; n = n->next) before = n;
  e->prev = before;
  e->next = before ? before->next : c->first;
  if (before) before->next = e; else c->first = e;
  if (e->next) e->next->prev = e; else c->last = e;
  q->hint = e;
  q->count++;
  q->kinds[queue_kind(e)]++;
}

static inline void queue_remove(queue_t *q, entry_t *e) {
  chain_t *c = queue_chain(q, e->source, e->tag);
  if (e->prev) e->prev->next = e->next; else c->first = e->next;
  if (e->next) e->next->prev = e->prev; else c->last = e->prev;
  if (e->earlier) e->earlier->later = e->later; else q->first = e->later;
  if (e->later) e->later->earlier = e->earlier; else q->last = e->earlier;
  if (q->hint == e) q->hint = e->earlier;
  q->kinds[queue_kind(e)]--;
  if (!--q->count && q->mask) queue_free(q);
}

/* The first entry with exactly this envelope. */
static inline entry_t *queue_find(queue_t *q, int32_t source, int32_t tag) {
  for (entry_t *e = queue_chain(q, source, tag)->first; e; e = e->next)
    if (e->source == source && e->tag == tag) return e;
  return NULL;
}

/* The first receive that matches a message. */
static inline entry_t *queue_match(queue_t *q, int32_t source, int32_t tag) {
  if (!q->mask) {
    for (entry_t *e = q->one.first; e; e = e->next)
      if ((e->source == source || e->source == ANY) && (e->tag == tag || e->tag == ANY)) return e;
    return NULL;
  }
  entry_t *found = NULL;
  for (int kind = 0; kind < 4; kind++) {
    if (!q->kinds[kind]) continue;
    entry_t *e = queue_find(q, kind & 2 ? ANY : source, kind & 1 ? ANY : tag);
    if (e && (!found || e->order < found->order)) found = e;
  }
  return found;
}

/* The first message that a receive matches. */
static inline entry_t *queue_search(queue_t *q, int32_t source, int32_t tag) {
  if (source != ANY && tag != ANY) return queue_find(q, source, tag);
  entry_t *e = q->first;
  while (e && !((source == ANY || e->source == source) && (tag == ANY || e->tag == tag))) e = e->later;
  return e;
}
