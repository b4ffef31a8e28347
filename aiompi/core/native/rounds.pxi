# Collectives of long blocks among ranks that share memory: they go through slots in rounds.
#
# First all members post. Then each member knows that all have made the same call, and that both places of each member are
# free. After that each round moves a slice of every block in two or three steps. A rank publishes a step by adding 1 to its
# `steps` (slots.h). Each rank makes all steps of a call, even if it has nothing to do in some of them. Therefore the number
# of its steps tells all ranks how far it has come. The steps of a round are:
#
#   moves        1 A rank writes its slice into one of its places. It uses both places by turns, so it may be a round ahead.
#                2 The rank reads slices of other ranks.
#   reductions   1 A rank writes its slice into its first place.
#                2 The rank combines its part of the slices of all ranks, from the last rank down, into its second place.
#                3 The rank reads the combined parts of all ranks.
#
# So each rank combines one of n parts of a vector, and copies each byte of its block into a place and out of it once. At the
# end a rank waits until all ranks have made all steps: then the places are free for the next call.

cdef enum:
    STEPS_AT_ONCE = 32        # steps that a rank makes at most before its event loop gets a turn


@cython.final
cdef class RoundsExchange(SlotExchange):
    """A call of a collective with long blocks: complete when this rank has made all steps of all rounds."""

    cdef uint64_t before          # steps of each rank before the call
    cdef uint64_t extent, slice   # bytes of a block, and of its slice in each round
    cdef uint64_t round, rounds
    cdef int step, steps          # of a round, from 0
    cdef uint32_t root, rank, size
    cdef bint one_writes, one_reads, for_each, combines, moving
    cdef size_t item              # bytes of an item of a reduction
    cdef const char *source       # `data` and `to` until the call has ended
    cdef char *target

    cdef int prepare(self) except -1:
        """Plan the rounds of a call whose memory is known."""
        cdef slots_t *slots = &self.group.slots
        cdef meeting_t *call = &self.call
        cdef int collective = call.note & 0xFF
        cdef uint64_t room = slots.room
        self.rank, self.size = slots.rank, slots.size
        self.root = <uint32_t>(call.note >> 16) - 1
        self.one_writes, self.one_reads = collective == BCAST, collective == REDUCE
        self.for_each, self.combines = collective == ALLTOALL, collective == REDUCE or collective == ALLREDUCE
        self.extent = self.claimed()
        if self.for_each:
            self.extent //= self.size
            room //= self.size
        if self.combines:
            self.item = self.extent // self.count
        self.slice = room // LINE * LINE
        self.rounds = (self.extent + self.slice - 1) // self.slice
        self.steps = 3 if self.combines else 2
        self.before = slots.steps
        self.source, self.target = self.data, self.to
        call.first, call.seen, call.last = 0, 0, self.size
        call.length = 0  # no contribution is in a cell
        return 0

    cdef int go_on(self) except -1:
        """Make up to STEPS_AT_ONCE steps; return 1 if all steps of the call are made, otherwise 0."""
        cdef Slots group = self.group
        cdef slots_t *slots = &group.slots
        cdef meeting_t *call = &self.call
        cdef int made
        if self.moving:
            return 0
        held = self.content, self.place  # keeps the memory: another thread may end the call during a step
        if not call.target:
            self.aim()
        for made in range(STEPS_AT_ONCE):
            if not have_come(slots, call.seen, call.last, call.number, call.target):
                return 0
            if self.round == self.rounds:
                return 1
            self.moving = True
            with nogil:
                self.make_step()
            self.moving = False
            if group.closed or self._done:
                return 0
            slots_step(slots)
            group.wake(call.number, slots.steps)
            self.moved, self.asleep_for = True, 0
            self.step += 1
            if self.step == self.steps:
                self.step = 0
                self.round += 1
            self.aim()
        self.hurries = True
        return 0

    cdef void aim(self) noexcept nogil:
        """Find the members that this rank's next step waits for, and the number of steps that they must have made."""
        cdef meeting_t *call = &self.call
        cdef uint64_t now = self.before + self.steps * self.round
        call.seen, call.last = 0, self.size
        if self.round == self.rounds:
            call.target = now
        elif self.step:
            call.target = now + self.step
            if self.step == self.steps - 1 and self.one_reads and self.rank != self.root:
                call.last = 0
            elif self.one_writes:
                call.seen = call.last = 0
                if self.rank != self.root:
                    call.seen, call.last = self.root, self.root + 1
        else:  # all have read the place, which was written one round ago in a reduction, otherwise two rounds ago
            call.target = now - 1 if self.combines else now - 2
            if self.round < (1 if self.combines else 2) or (self.one_writes and self.rank != self.root):
                call.target, call.last = 1, 0

    cdef void make_step(self) noexcept nogil:
        """Copy or combine what the next step of this rank needs."""
        cdef uint64_t start = self.round * self.slice
        cdef uint64_t nbytes = self.slice if self.slice < self.extent - start else self.extent - start
        if self.step == 0:
            if not self.one_writes or self.rank == self.root:
                self.write(start, nbytes)
        elif self.step < self.steps - 1:
            self.reduce(nbytes)
        elif self.one_writes:
            if self.rank != self.root:
                memcpy(self.target + start, slots_place(&self.group.slots, self.root, self.round % PLACES), nbytes)
        elif self.combines:
            if not self.one_reads or self.rank == self.root:
                self.collect(start, nbytes)
        else:
            self.read(start, nbytes)

    cdef void write(self, uint64_t start, uint64_t nbytes) noexcept nogil:
        """Write a slice of the block into this rank's place; in an alltoall, a slice of the block for each rank."""
        cdef char *place = slots_place(&self.group.slots, self.rank, 0 if self.combines else self.round % PLACES)
        cdef uint32_t member
        if not self.for_each:
            memcpy(place, self.source + start, nbytes)
            return
        for member in range(self.size):
            if member != self.rank:
                memcpy(place + member * self.slice, self.source + member * self.extent + start, nbytes)

    cdef void read(self, uint64_t start, uint64_t nbytes) noexcept nogil:
        """Copy the slices for this rank out of the places of all."""
        cdef uint64_t offset = self.rank * self.slice if self.for_each else 0
        cdef const char *own = self.source + start + (self.rank * self.extent if self.for_each else 0)
        cdef char *to
        cdef uint32_t member
        for member in range(self.size):
            to = self.target + member * self.extent + start
            if member != self.rank:
                memcpy(to, slots_place(&self.group.slots, member, self.round % PLACES) + offset, nbytes)
            elif to != own:
                memcpy(to, own, nbytes)

    cdef uint64_t part(self, uint64_t nbytes, uint32_t member) noexcept nogil:
        """Return where the part of a slice begins that a member combines."""
        return nbytes // self.item * member // self.size * self.item

    cdef void reduce(self, uint64_t nbytes) noexcept nogil:
        """Combine the own part of the slices of all."""
        cdef slots_t *slots = &self.group.slots
        cdef uint64_t first = self.part(nbytes, self.rank), length = self.part(nbytes, self.rank + 1) - first
        cdef char *into = slots_place(slots, self.rank, 1)
        cdef uint32_t member = self.size - 1
        memcpy(into, slots_place(slots, member, 0) + first, length)
        while member:
            member -= 1
            self.combine(into, slots_place(slots, member, 0) + first, length // self.item)

    cdef void collect(self, uint64_t start, uint64_t nbytes) noexcept nogil:
        """Copy the parts of all that have been combined."""
        cdef uint64_t first
        cdef uint32_t member
        for member in range(self.size):
            first = self.part(nbytes, member)
            memcpy(self.target + start + first, slots_place(&self.group.slots, member, 1), self.part(nbytes, member + 1) - first)

    cdef object unlike(self):
        """Return None: the cells hold no contributions."""

    cdef object take(self):
        """Do nothing: the steps have taken everything."""
