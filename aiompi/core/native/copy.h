/* The kernel copies a message between the memory of two processes, for its receiver alone or for both ends.

   A long message is cut into parts. Both ends claim parts in order from one counter, so the cores of both work. An end
   that is busy with other work only delays the copy. These words belong to the direction from the sender to the
   receiver (ring.h):

   claims     Both ends write it, by compare-and-swap. The high half is the number of the invitation, the low half the
              count of the parts that are claimed. Only the receiver changes the number: it begins an invitation, and
              ends it with number 0. A claim compares number and count at once, so a late sender claims no part of a
              later message. Each change is an acquire and a release, but this reasoning needs no more than the single
              order of all changes of the word.
   done       The sender stores it (release) after each part that it has written: the number of the invitation, FAILED
              if the kernel has refused the copy, and the count of written parts. The receiver loads it (acquire), and
              so finds the parts in its memory.
   retracted  The sender counts here how often it was about to change the memory of messages that it has announced, and
              passes a release fence after the store. The receiver loads the count after its copy, behind an acquire
              fence. So a receiver that has read a changed byte finds another count, and asks for the message.

   The receiver gives its memory back only when the sender no longer writes there. First the receiver ends the
   invitation, which tells it the count of claimed parts and prevents further claims. Then it waits until `done` shows
   that the sender has written all parts that it has claimed, or until the sender has ended. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ring.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum {
  PART = 128 * 1024,
  YIELDS = 5, /* yields of the receiver's core while the sender writes the last parts */
};
#define FAILED ((uint64_t)1 << 31)
#define NO_PART (~(uint64_t)0)

typedef struct {
  uint64_t address, length;
} piece_t;

/* Copy between this process and another one; return 0 or the number of an error. */
static int kernel_copy(int write, int pid, uint64_t here, uint64_t there, uint64_t nbytes) {
  while (nbytes) {
    struct iovec local = {(void *)(uintptr_t)here, nbytes}, remote = {(void *)(uintptr_t)there, nbytes};
    ssize_t n = write ? process_vm_writev(pid, &local, 1, &remote, 1, 0) : process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EFAULT;
    here += n;
    there += n;
    nbytes -= n;
  }
  return 0;
}

/* Copy the bytes from `start` to `stop` of a message. One end has the message in pieces: this process if it writes,
   otherwise the process `pid`. The other end has it in one piece. */
static int copy_part(int write, int pid, const piece_t *pieces, int count, uint64_t whole, uint64_t start, uint64_t stop) {
  uint64_t before = 0;
  for (int i = 0; i < count && before < stop; before += pieces[i++].length) {
    uint64_t from = start > before ? start - before : 0;
    uint64_t to = stop - before < pieces[i].length ? stop - before : pieces[i].length;
    if (from >= to) continue;
    uint64_t piece = pieces[i].address + from, other = whole + before + from;
    int error = write ? kernel_copy(1, pid, piece, other, to - from) : kernel_copy(0, pid, other, piece, to - from);
    if (error) return error;
  }
  return 0;
}

/* Claim the next part; return its index, or NO_PART if all parts are claimed or the invitation has ended. */
static uint64_t claim_part(words_t *words, uint32_t number, uint64_t parts) {
  uint64_t seen = LOAD_RELAXED(&words->claims);
  while (seen >> 32 == number && (uint32_t)seen < parts)
    if (__atomic_compare_exchange_n(&words->claims, &seen, seen + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return (uint32_t)seen;
  return NO_PART;
}

/* Write parts of a message to its receiver, up to `most` bytes; return 1 if there may be more, 0 if not. `written`
   counts the parts, and `copied` their bytes. `written` never exceeds the parts of the message, whatever the receiver
   does to `claims`. */
static int assist(words_t *words, uint32_t number, int pid, const piece_t *pieces, int count, uint64_t address,
                  uint64_t length, uint64_t most, uint32_t *written, uint64_t *copied) {
  uint64_t parts = (length + PART - 1) / PART;
  for (uint64_t bytes = 0; bytes < most; bytes += PART) {
    uint64_t part = *written < parts ? claim_part(words, number, parts) : NO_PART;
    if (part == NO_PART) return 0;
    uint64_t start = part * PART, stop = length - start < PART ? length : start + PART;
    int error = copy_part(1, pid, pieces, count, address, start, stop);
    ++*written;
    if (!error) *copied += stop - start;
    STORE_RELEASE(&words->done, (uint64_t)number << 32 | (error ? FAILED : 0) | *written);
    if (error) return 0;
  }
  return 1;
}

/* Return 1 if the sender has written the parts that it has claimed, 0 if not yet, WRONG if the kernel refused one. */
static int assisted(words_t *words, uint32_t number, uint64_t claimed) {
  if (!claimed) return 1;
  uint64_t done = LOAD_ACQUIRE(&words->done);
  if (done >> 32 != number) return 0;
  if ((uint32_t)(done & ~FAILED) < claimed) return 0;
  return done & FAILED ? WRONG : 1;
}

/* Wait until `assisted` returns 1 or WRONG: poll for some microseconds, and then let other processes run a few times.
   Return 0 if the sender still writes. */
static int await_assisted(words_t *words, uint32_t number, uint64_t claimed) {
  for (int looks = 10 * LOOKS; looks; looks--) {
    int found = assisted(words, number, claimed);
    if (found) return found;
    RELAX();
  }
  for (int yields = YIELDS; yields; yields--) {
    sched_yield();
    int found = assisted(words, number, claimed);
    if (found) return found;
  }
  return 0;
}

static inline int process_open(int pid) { return syscall(SYS_pidfd_open, pid, 0); }
static inline int process_signal(int pidfd) { return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0 ? errno : 0; }

/* Return the error of a read at address 0 of another process, where nothing is mapped: EFAULT if this process may read
   the memory of the other one, ESRCH if the other one has ended, even if it is a zombie. */
static inline int process_probe(int pid) {
  char byte;
  return kernel_copy(0, pid, (uint64_t)(uintptr_t)&byte, 0, 1);
}

/* Allow a process and its descendants to trace this one, as Yama requires; 0 allows none. Return the error. */
static inline int process_tracer(int pid) { return prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0) ? errno : 0; }
