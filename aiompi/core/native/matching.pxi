# Matching: which message meets which receive. `aiompi.core.pure.matching` has the same classes in Python.

cdef class PeerBase


cdef class MessageBase:
    """A message that has arrived, or was announced, before a receive for it was posted."""

    cdef entry_t entry
    cdef bint kept
    cdef bint plain  # a receive may take the message without telling its sender
    cdef object _data
    cdef public object peer, matcher, landing, offer
    cdef public uint64_t length, srqid, note
    cdef public int64_t eager
    cdef public bint rts, sync, asked, early

    def __init__(self, peer, matcher, int source, int tag, uint64_t length, uint64_t srqid, *, bint rts, bint sync):
        if self.kept:
            raise InternalError("a message that is kept is not made anew")
        self.peer = peer
        self.matcher = matcher
        self.entry.source = source
        self.entry.tag = tag
        self.length = length
        self.srqid = srqid
        self.rts = rts
        self.sync = sync
        self.plain = False

    @property
    def data(self):
        return PyMemoryView_FromObject(self._data) if type(self._data) is bytearray else self._data

    @data.setter
    def data(self, data):
        self._data = data

    @property
    def source(self):
        return self.entry.source

    @property
    def tag(self):
        return self.entry.tag

    @property
    def order(self):
        return self.entry.order

    @order.setter
    def order(self, uint64_t order):
        self.entry.order = order


cdef class MatchQueues:
    """The posted receives and the unexpected messages of one context."""

    cdef queue_t posted_queue, kept_queue
    # The lists keep the objects in the queues alive, each at the `index` of its entry.
    cdef list _receives, _messages
    cdef uint64_t last
    cdef public object sources, error
    cdef public dict early
    cdef public list probes

    def __cinit__(self, *args, **kwargs):
        queue_init(&self.posted_queue)
        queue_init(&self.kept_queue)
        self._receives = []
        self._messages = []

    def __init__(self):
        self.sources = {}
        self.early = {}
        self.probes = []

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    def __dealloc__(self):
        queue_free(&self.posted_queue)
        queue_free(&self.kept_queue)

    def post(self, PostedReceive receive not None):
        """Post a receive."""
        if receive.posted:
            raise InternalError("a receive is posted twice")
        receive.entry.index = len(self._receives)
        self._receives.append(receive)
        self.last += 1
        receive.entry.order = self.last
        receive.posted = True
        queue_append(&self.posted_queue, &receive.entry)

    cdef bint comes_from(self, long long rank, int source) except -1:
        """Return True if messages of rank `rank` of the world surely carry the source number `source`."""
        return self.sources.get(rank) == source

    cdef bint keeps(self) except -1:
        """Return True if an unexpected message need only be queued: no probe waits, and receives can be posted."""
        return not self.probes and self.error is None

    cdef bint meet(self, PostedReceive receive) except -1:
        """Post a receive, or give it the message that has come; return False if the general path must do it."""
        cdef entry_t *found
        cdef MessageBase message
        if self.early:
            return False
        found = queue_search(&self.kept_queue, receive.entry.source, receive.entry.tag)
        if found == NULL:
            self.post(receive)
            return True
        message = <MessageBase>self._messages[found.index]
        if not message.plain or not isinstance(message.peer, PeerBase):
            return False
        (<PeerBase>message.peer).hand_over(message, receive)
        return True

    cdef int unpost(self, PostedReceive receive) except -1:
        if self._receives[receive.entry.index] is not receive:
            raise InternalError("a receive is posted elsewhere")
        cdef PostedReceive other = <PostedReceive>self._receives.pop()
        queue_remove(&self.posted_queue, &receive.entry)
        receive.posted = False
        if other is not receive:
            other.entry.index = receive.entry.index
            self._receives[receive.entry.index] = other
        return 0

    cdef PostedReceive match(self, int source, int tag):
        """Do what `take_posted` does, but leave it to the caller to resume the receive, so that no Python code runs."""
        cdef entry_t *found = queue_match(&self.posted_queue, source, tag)
        if found == NULL:
            return None
        cdef PostedReceive receive = <PostedReceive>self._receives[found.index]
        self.unpost(receive)
        self.last += 1
        receive.entry.order = self.last
        return receive

    def take_posted(self, int source, int tag):
        """Take the first posted receive that matches an incoming message; return None if no receive matches.

        The receive is no longer posted, and its `order` is set to that of the message.
        """
        cdef PostedReceive receive = self.match(source, tag)
        if receive is not None and receive._done:
            receive.resume()
        return receive

    def first_posted(self, int source, int tag):
        """Return the first posted receive with exactly this source and tag (or wildcards); None if none is posted."""
        cdef entry_t *found = queue_find(&self.posted_queue, source, tag)
        return None if found == NULL else self._receives[found.index]

    def withdraw(self, PostedReceive receive not None):
        """Withdraw a posted receive; return False if it has been matched."""
        if not receive.posted:
            return False
        self.unpost(receive)
        return True

    def posted(self):
        """Iterate over all posted receives in their order; the caller may withdraw them during the iteration."""
        cdef list found = []
        cdef entry_t *entry = self.posted_queue.first
        while entry != NULL:
            found.append(self._receives[entry.index])
            entry = entry.later
        return iter(found)

    @property
    def arrivals(self):
        """Number of unexpected messages."""
        return self.kept_queue.count

    def unexpected(self):
        """Iterate over all unexpected messages in order of arrival; the caller may remove them during the iteration."""
        cdef list found = []
        cdef entry_t *entry = self.kept_queue.first
        while entry != NULL:
            found.append(self._messages[entry.index])
            entry = entry.later
        return iter(found)

    def keep(self, MessageBase message not None):
        """Keep a message for which no receive is posted, behind all others."""
        self.last += 1
        message.entry.order = self.last
        self.hold(message)
        queue_append(&self.kept_queue, &message.entry)

    def restore(self, MessageBase message not None):
        """Put a matched message back in its place, so that no later message of its sender is ahead of it."""
        self.hold(message)
        queue_insert(&self.kept_queue, &message.entry)

    cdef int hold(self, MessageBase message) except -1:
        if message.kept:
            raise InternalError("a message is kept twice")
        message.entry.index = len(self._messages)
        self._messages.append(message)
        message.kept = True
        return 0

    def find_unexpected(self, int source, int tag):
        """Return the message that a receive with these arguments would match now (section 3.8), or None."""
        cdef entry_t *found = queue_search(&self.kept_queue, source, tag)
        return None if found == NULL else self._messages[found.index]

    def remove_unexpected(self, MessageBase message not None):
        """Remove a message that has been matched, or recalled by its sender."""
        if not message.kept:
            raise InternalError("a message that is removed was not kept")
        if self._messages[message.entry.index] is not message:
            raise InternalError("a message is kept elsewhere")
        cdef MessageBase other = <MessageBase>self._messages.pop()
        queue_remove(&self.kept_queue, &message.entry)
        message.kept = False
        if other is not message:
            other.entry.index = message.entry.index
            self._messages[message.entry.index] = other
