"""The link to a peer on this host: frames through the two rings of a segment."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from aiompi.core._native import Ring, RingPoller
from aiompi.core.pure.recorder import BELL, shown
from aiompi.engine import Driver, Peer
from aiompi.engine.blame import cause_of
from aiompi.engine.seams import BufferOwner
from aiompi.transport.dial import EXHAUSTED, describe
from aiompi.transport.shared_memory.backlog import Backlog
from aiompi.transport.shared_memory.sharing import Segment, Sharing
from aiompi.transport.shared_memory.slots import SlotArea
from aiompi.transport.unread import MAX_UNREAD
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.core import Recorder
    from aiompi.transport.shared_memory.transport import SharedMemory

#: most bytes that a poll reads, so that one busy peer does not starve other peers; and most bytes that a turn reads
_POLLED: Final = 256 * 2**10
BUDGET: Final = 2 * 2**20
#: budget that reads a ring full of the shortest frames, per byte of the ring
_FULL: Final = 65
#: most bytes written per turn, and most bytes written by one call, of which a turn may have many
WRITTEN: Final = 2 * 2**20
BEGUN: Final = 2**20


class RingLink(RingPoller):
    """The link to one peer through a segment; it queues frames until the segment exists (a `SocketLink` and `Poller`).

    The socket that has carried the segment stays connected. Its end of file shows that the peer has ended.
    """

    far = False

    def __init__(self, transport: SharedMemory, peer: Peer, dialled: bool) -> None:
        self.peer = peer
        self._transport = transport
        self._dialled = dialled
        self._rounds = transport.exchanges
        self._driver: Driver = transport.engine.driver
        self._socket: socket.socket | None = None
        self._segment: Segment | None = None
        self.sharing: Sharing | None = None
        # As in `connection`: without progress in the background a send is complete only when its bytes have left.
        self._queue = Backlog(copying=self._driver.background)
        self._lingering = False
        self._seen = 0  # read position at the last call of `stale`
        self._rang_itself = False
        self.closed = False

    @property
    def idle(self) -> bool:
        return not self._queue

    def open(self, sock: socket.socket) -> None:
        """Use a socket whose peer has proven the key. The rank that has dialled makes the segment."""
        self._socket = sock
        if not self._dialled:
            self._driver.add_reader(sock.fileno(), self._introduced)
            return
        try:
            self._use(Segment.create(self._transport.ring_size, sock))
        except OSError as error:
            self._failed(error)

    def _introduced(self) -> None:
        """Receive the segment, which the peer sends first."""
        assert self._socket is not None
        try:
            segment = Segment.receive(self._socket)
            if segment is not None:
                self._use(segment)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._failed(error)
        except Exception as error:
            self.lost(cause_of(error))
        else:
            if segment is None:
                self._end()

    def _failed(self, error: OSError) -> None:
        if error.errno in EXHAUSTED:
            self._transport.exhausted(self, describe(error))
        else:
            self.lost(describe(error))

    def cannot_connect(self, cause: str) -> None:
        frames_lost = bool(self._queue) or not self._dialled  # frames in the queue, or frames of a peer that dialled
        self._transport.cannot_connect(self, cause, frames_lost, self._queue.completed_early)

    def _use(self, segment: Segment) -> None:
        assert self._socket is not None
        self._segment = segment
        self._ring = ring = segment.ring
        ring.queued = bool(self._queue)
        if self.peer.link is self:
            self.peer.ring = ring
        self.sharing = Sharing(self, self._transport, self._socket, ring)
        self._driver.add_reader(self._socket.fileno(), self._spoken)
        self._driver.add_doorbell(segment.doorbell, self._hand_out, self._turn)
        self._again()  # so that a turn writes the queue and begins to watch

    # Sending.

    def dispatch(self, header: bytes, payload: Payload) -> bool:
        ring = self._ring
        if ring is None or self._queue:
            return False
        try:
            return ring.put(header, payload)
        except Exception as error:
            self.lost(cause_of(error))
            return False

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        if self.dispatch(header, payload):
            return True
        if self.closed:
            if owner is not None:
                self.peer.buffer_unsent(owner)
            return False
        ring, queue = self._ring, self._queue
        first = not queue
        frame = queue.add(header, payload, owner)
        if frame is None:
            if queue.unread.frames == MAX_UNREAD:
                self._driver.call_soon(self.lost, f"it does not read what is sent to it: {MAX_UNREAD} frames")
            return False
        if ring is not None:
            ring.queued = True
            if first:
                self._flush(BEGUN)
        return not (frame.done or self.closed) and queue.keeps(frame)

    def grant(self, nbytes: int) -> bool:
        if self._ring is not None:
            self._ring.grant(nbytes)
        return self._ring is not None

    def granted(self) -> int:
        ring = self._ring
        try:
            return 0 if ring is None else ring.granted()
        except Exception as error:
            self.lost(cause_of(error))
            return 0

    def shown(self, area: SlotArea) -> Ring | None:
        """Let the peer read the slots of this rank; return the `Ring` that can wake the peer, or None on failure."""
        return self._ring if self.sharing is not None and self.sharing.show(area) else None

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        if lent and self.sharing is not None:
            self.sharing.take_back()
        self._queue.copy_of(owner)

    def _flush(self, budget: int) -> None:
        """Write queued frames as long as there is room and the budget of bytes lasts."""
        ring, queue = self._ring, self._queue
        try:
            while queue and ring is not None:
                budget = queue.write(ring, budget)
                if queue and budget <= 0:
                    if not self._lingering:
                        self._again()
                    return
                if queue and (self._lingering or ring.want()):
                    return
            if ring is not None:
                ring.queued = False
            self._transport.drained()
        except BaseException as error:
            self._again()
            self.lost(cause_of(error))

    # Receiving. When the peer has rung, the driver calls `_hand_out` at once, so that waiting code continues, and
    # `_turn` at once or in the next turn for all other work. While the link is polled, the driver calls `poll` instead,
    # until `rest`.

    def _hand_out(self) -> bool:
        """Deliver messages after the peer rang the doorbell; return True if other work can wait for the next turn."""
        ring = self._ring
        assert ring is not None
        if self._transport.engine.recorder is not None:
            self._record_bell(self._transport.engine.recorder)
        try:
            left = ring.read(self.peer, _POLLED)
            found = left < _POLLED or self._rounds.poll()
        except Exception as error:
            self.lost(cause_of(error))
            return True
        return self.closed or (found and not self._queue and not ring.pending)

    def _record_bell(self, recorder: Recorder) -> None:
        """Record that the peer has woken this rank, unless this rank has rung its own doorbell."""
        if not self._rang_itself:
            recorder.end(recorder.start(BELL, 0, shown(self.peer.rank), 0, 0))
        self._rang_itself = False

    def _turn(self) -> None:
        ring = self._ring
        assert ring is not None
        try:
            self._lingering = self._lingering or self._driver.start_polling(self)
            left = ring.read(self.peer, BUDGET)
            if self._queue:
                self._flush(WRITTEN)
            self._rounds.poll()
            quiet = self.closed or self._lingering or (left > 0 and ring.watch())
        except BaseException as error:
            self._again()
            self.lost(cause_of(error))
        else:
            if not quiet:
                self._again()

    def _again(self) -> None:
        """Let the driver call `_turn` again."""
        if self._segment is not None:
            self._rang_itself = True
            self._segment.ring_self()

    def failed(self, error: Exception) -> None:
        self.lost(cause_of(error))

    def write_on(self) -> None:
        self._flush(WRITTEN)

    def look(self) -> None:
        ring = self._ring
        if ring is None or not ring.pending:
            return
        try:
            ring.read(self.peer, self._transport.ring_size * _FULL)
        except Exception as error:
            self.lost(cause_of(error))
        finally:
            if not self._lingering:
                self._again()  # the read has ended the watch

    def stale(self) -> bool:
        if self._ring is None:
            return True
        # A peer that is copying a long message counts as stale, and rings when it continues.
        before, self._seen = self._seen, self._ring.position
        return self._seen == before and not self._queue

    def rest(self) -> bool:
        self._lingering = False
        if self._queue:
            self._flush(WRITTEN)
        self._lingering = self._ring is not None and not self._ring.watch()
        return not self._lingering

    def _spoken(self) -> None:
        """Handle a readable socket: the peer hands over its slots, or has closed."""
        try:
            if self.sharing is not None and self.sharing.receive():
                return
            ring = self._ring
            if ring is None:
                return  # a call by a signal handler has found the end first
            # Read what the peer has written before.
            if ring.read(self.peer, BUDGET) > 0 and not self.closed:
                self._end()
        except Exception as error:
            self.lost(cause_of(error))

    def _end(self) -> None:
        """End the link of a peer that has closed its socket; in good order if the peer has announced its end."""
        self._rounds.poll()  # read the frames that the peer wrote before it left
        whole = self._ring is None or self._ring.between_frames
        if whole and self.peer.finalize_error is not None:
            self.close()
            if not self._transport.linked(self.peer):
                self.peer.mark_closed()
            self._transport.drained()  # the queued frames are not needed any more
        else:
            self.lost("its connection closed")

    def lost(self, cause: str) -> None:
        if self.closed:
            return
        self._rounds.poll()
        self.close()
        self.peer.connection_lost(cause)
        self._transport.drained()

    def disown(self) -> None:
        """Forget the segment in a forked child: the parent process shares it with the peer."""
        if self._ring is not None:
            self._ring.stop()  # a call that is reading reads no further
        if self.peer.ring is self._ring:
            self.peer.ring = None
        self._ring = self._segment = self.sharing = None

    def close_gracefully(self) -> None:
        """Close in good order: the peer reads what is in the ring, even after the end of this process."""
        self.close()

    def close(self) -> None:
        self.closed = True
        if self.peer.ring is self._ring:
            self.peer.ring = None
        owners = self._queue.drop()
        self._transport.links.discard(self)
        segment, self._segment, self._ring = self._segment, None, None
        sharing, self.sharing = self.sharing, None
        if sharing is not None:
            sharing.take_back()  # the peer may still copy from memory that changes now
        if segment is not None:
            self._driver.remove_reader(segment.doorbell)
            segment.close()
        for landing in self.peer.landings:
            landing.divert()  # while it is known whether the peer is alive
        if sharing is not None:
            sharing.close()
        sock, self._socket = self._socket, None
        if sock is not None:
            self._driver.remove_reader(sock.fileno())
            sock.close()
        for owner in owners:
            self.peer.buffer_unsent(owner)
