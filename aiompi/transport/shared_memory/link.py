"""The link to a peer on this host: frames through the two rings of a segment."""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, Final

from aiompi.engine import Driver, Peer
from aiompi.engine.seams import BufferOwner
from aiompi.errors import RemoteProtocolError
from aiompi.transport.dial import EXHAUSTED, describe
from aiompi.transport.shared_memory.cma import has_ended, process_of
from aiompi.transport.shared_memory.export import Export
from aiompi.transport.shared_memory.inbound import FRAME_COST
from aiompi.transport.shared_memory.ring import CHUNK, TAIL, Outgoing
from aiompi.transport.shared_memory.sharing import Segment, Sharing
from aiompi.transport.stream import COPY_LIMIT
from aiompi.wire.frame import EAGER, Payload

if TYPE_CHECKING:
    from aiompi.transport.shared_memory.transport import SharedMemory

#: chunks read per turn at most, so that one busy peer does not starve the loop
BUDGET: Final = 4
_TURNS: Final = range(BUDGET)
#: bytes read per turn at most, if messages are longer than chunks: a message of 1 MiB needs no other turn
_MOST: Final = 2 * BUDGET * CHUNK
#: bytes written per turn at most: many, since the time between two turns is that of a chunk
_WRITTEN: Final = 8 * CHUNK
#: bytes written by the call that sends a frame at most: a turn may have many such calls
_BEGUN: Final = 4 * CHUNK
#: bytes that can be written in the time that a frame takes beside its payload
_WRITE_COST: Final = 4 * FRAME_COST


class RingLink:
    """Frames of one peer through a segment, and a queue for them until there is one (a `SocketLink` and a `Poller`).

    The connected socket over which the segment was handed over stays open, and is closed when the peer ends.
    """

    far = False

    def __init__(self, transport: SharedMemory, peer: Peer, dialled: bool) -> None:
        self.peer = peer
        self._transport = transport
        self._dialled = dialled
        self._rounds = transport.engine.slot_exchanges
        self._driver: Driver = transport.engine.driver
        # As in `stream`: without progress in the background a send is complete only when its bytes have left.
        self._copying = transport.engine.driver.background
        self._socket: socket.socket | None = None
        self._segment: Segment | None = None
        self.sharing: Sharing | None = None
        self._queue: deque[Outgoing] = deque()
        self._sleepers = transport.engine.wake_callbacks
        self._lingering = False
        self._seen = 0  # the position up to which had been read when `stale` was last called
        self._closed = False
        self._process = 0  # of the peer, if it is in the same pid namespace

    @property
    def idle(self) -> bool:
        return not self._queue

    @property
    def closed(self) -> bool:
        return self._closed

    def reads_no_more(self) -> bool:
        """Return True if the peer reads no memory of this rank any more: it has finalized, or its process has ended."""
        return self._closed and (self.peer.finalize_error is not None or self._process <= 0 or has_ended(self._process))

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
        except RemoteProtocolError as error:
            self.lost(str(error))
        else:
            if segment is None:
                self._end()

    def _failed(self, error: OSError) -> None:
        cause = describe(error)
        (self.cannot_connect if error.errno in EXHAUSTED else self.lost)(cause)

    def cannot_connect(self, cause: str) -> None:
        frames_lost = bool(self._queue) or not self._dialled  # those in the queue, or those of the peer
        completed_early = any(frame.owner is None and frame.pieces[-1][0] == EAGER for frame in self._queue)
        self._transport.cannot_connect(self, cause, frames_lost, completed_early)

    def _use(self, segment: Segment) -> None:
        assert self._socket is not None
        self._segment = segment
        self._process = process_of(self._socket)
        self.sharing = Sharing(self, self._transport, self._socket, segment)
        segment.inbound.yield_core_until = self._driver.yield_core_until
        segment.outbound.uncrowded = self._transport.engine.core_per_rank
        self._driver.add_reader(self._socket.fileno(), self._spoken)
        self._driver.add_doorbell(segment.doorbell, self._hand_out, self._turn)
        segment.ring_self()  # so that a turn writes the queue and begins to watch

    # Sending.

    def dispatch(self, header: bytes, payload: Payload) -> bool:
        segment = self._segment
        several = len(payload) > 1
        if segment is None or self._queue or (several and sum(map(len, payload)) > CHUNK):
            return False
        piece = payload[0] if payload else b""
        rest = payload[1:] if several else ()
        outbound = segment.outbound
        try:
            written = outbound.put(header, piece, 0, False, rest)
        except RemoteProtocolError as error:
            self.lost(str(error))
            return False
        if outbound.sleepy and outbound.uncrowded:
            self._sleepers[self.peer.rank] = self._wake  # called as the next send to it begins
        return written

    def _wake(self) -> None:
        """Ring for a frame that is being prepared, if the peer is still found asleep at such times."""
        segment = self._segment
        if segment is None or not segment.outbound.sleepy:
            self._sleepers.pop(self.peer.rank, None)
        elif not self._queue:
            segment.outbound.ring_early()

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        if self.dispatch(header, payload):
            return True
        segment = None if self._queue else self._segment
        if self._closed:
            if owner is not None:
                self.peer.buffer_unsent(owner)
            return False
        frame = Outgoing(header, payload, owner)
        self._queue.append(frame)
        if segment is not None:
            self._flush(segment, _BEGUN)
        return bool(frame.pieces) and not self._closed and self._kept(frame)

    def grant(self, nbytes: int) -> bool:
        segment = self._segment
        if segment is None:
            return False
        segment.inbound.grant(nbytes)
        return True

    def granted(self) -> int:
        segment = self._segment
        try:
            return 0 if segment is None else segment.outbound.granted()
        except RemoteProtocolError as error:
            self.lost(str(error))
            return 0

    def _kept(self, frame: Outgoing) -> bool:
        """Copy the rest of a small frame, if its send is complete then; return True if so."""
        if not self._copying or sum(map(len, frame.pieces)) > COPY_LIMIT:
            return False
        frame.copy()
        frame.owner = None
        return True

    def opened_to(self, area: Export) -> bool:
        """Hand an export of this rank to the peer; return True if the peer has mapped it by now."""
        return self.sharing is not None and self.sharing.open_to(area) is not None

    def rouse(self) -> None:
        """Wake the peer, to which nothing was sent."""
        if self._segment is not None:
            self._segment.outbound.ring()

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        if lent and self.sharing is not None:
            self.sharing.take_back()
        for frame in self._queue:
            if frame.owner is owner:
                frame.copy()

    def _flush(self, segment: Segment, budget: int) -> None:
        """Write queued frames as long as there is room and the budget of bytes lasts."""
        try:
            self._write(segment, budget)
        except RemoteProtocolError as error:
            self.lost(str(error))
        except BaseException:
            self._again()
            raise

    def _write(self, segment: Segment, budget: int) -> None:
        outbound, queue = segment.outbound, self._queue
        fresh = 0
        while queue:
            frame = queue[0]
            nbytes = frame.write(outbound) if frame.pieces else 0
            fresh += nbytes
            if nbytes and frame.pieces and fresh < CHUNK:
                continue
            outbound.wake()
            budget -= fresh + _WRITE_COST
            fresh = 0
            if not frame.pieces:
                if frame.owner is not None:
                    frame.owner.sent()  # before `popleft`: a signal handler may raise in between
                if queue and queue[0] is frame:
                    queue.popleft()
            elif not nbytes and (self._lingering or outbound.want()):
                return
            if budget <= 0 and queue:
                if not self._lingering:
                    segment.ring_self()
                return
        self._transport.drained()

    # Receiving. When the peer has rung, the driver calls `_hand_out` at once, so that waiting code continues, and
    # `_turn` then or in the next turn, for all else. While the link lingers it calls `poll` instead, until `rest`.

    def _hand_out(self) -> bool:
        """Hand out what the peer has rung for; return True if everything else can be done in the next turn."""
        segment = self._segment
        assert segment is not None
        inbound, peer = segment.inbound, self.peer
        try:
            if not self._queue and (inbound.take(peer) or (inbound.expect() and inbound.take(peer))):
                return self._closed or not self._queue
            left = inbound.read(peer, CHUNK)
            found = left > 0 if left < CHUNK else self._rounds.poll()
        except RemoteProtocolError as error:
            self.lost(str(error))
            return True
        return self._closed or (found and not self._queue and not inbound.pending())

    def _turn(self) -> None:
        segment = self._segment
        assert segment is not None
        try:
            self._lingering = self._lingering or self._driver.start_polling(self)
            settled = not self._queue and not self._lingering and segment.inbound.settle()
            watching = settled or self._attend(segment)
            self._rounds.poll()
        except RemoteProtocolError as error:
            self.lost(str(error))
        except BaseException:
            self._again()
            raise
        else:
            if not watching:
                self._again()

    def _again(self) -> None:
        if self._segment is not None:
            self._segment.ring_self()

    def _attend(self, segment: Segment) -> bool:
        """Read and write for a turn; return True if a doorbell or a poll shows when there is more to do."""
        inbound, uncrowded = segment.inbound, segment.outbound.uncrowded
        budget = _MOST
        for turn in _TURNS:
            left = inbound.read(self.peer, CHUNK)
            budget -= CHUNK - left
            if self._queue:
                if not turn:
                    self._flush(segment, _WRITTEN)
            elif left == CHUNK and inbound.expect(midst=uncrowded):
                continue
            if self._closed:
                return True
            if left > 0:
                done = self._lingering or inbound.watch()
            else:
                done = False
                inbound.fence()
            inbound.wake()
            if done:
                return True
            if budget <= 0:
                break
        return self._lingering

    def poll(self, looks: range) -> bool:
        segment = self._segment
        if segment is None:
            return False
        inbound, queue = segment.inbound, self._queue
        try:
            if not queue:
                taken = inbound.take(self.peer, looks, self._driver.single)
                if taken is not None:
                    return taken
            elif not inbound.pending():
                if not segment.outbound.room:
                    return False
                self._turn()
                return True
            left = inbound.read(self.peer, CHUNK)
        except RemoteProtocolError as error:
            self.lost(str(error))
            return True
        # If nothing was read the writer waits for room.
        if not self._closed and (left <= 0 or left == CHUNK or queue):
            self._turn()
        return True

    def stale(self) -> bool:
        if self._segment is None:
            return True
        # A peer that copies a long message meanwhile counts as stale, and rings when it goes on.
        before, self._seen = self._seen, self._segment.inbound.words[TAIL]
        return self._seen == before and not self._queue

    def rest(self) -> bool:
        segment = self._segment
        if segment is None:
            self._lingering = False
            return True
        watching = segment.inbound.watch()
        try:
            if self._queue:
                watching = segment.outbound.want() and watching
        except RemoteProtocolError as error:
            self.lost(str(error))
            return True
        segment.inbound.wake()
        self._lingering = not watching
        return watching

    def _spoken(self) -> None:
        """Handle a readable socket: the peer hands over an export, or has closed."""
        try:
            if self.sharing is not None and self.sharing.receive():
                return
        except (BlockingIOError, InterruptedError):
            return
        except RemoteProtocolError as error:
            self.lost(str(error))
            return
        except OSError as error:
            if error.errno in EXHAUSTED:
                return  # the peer does without
            # Otherwise it is a reset, which is an end, too.
        segment = self._segment
        if segment is None:
            return  # a call by a signal handler has found the end first
        try:  # to read what the peer has written before
            if segment.inbound.read(self.peer, BUDGET * CHUNK) > 0 and not self._closed:
                self._end()
        except RemoteProtocolError as error:
            self.lost(str(error))

    def _end(self) -> None:
        """End the link of a peer that has closed its socket, in good order if it has said farewell."""
        self._poll_rounds()
        whole = self._segment is None or self._segment.inbound.between_frames
        if whole and self.peer.finalize_error is not None:
            self.close()
            if not self._transport.linked(self.peer):
                self.peer.mark_closed()
            self._transport.drained()  # what was still queued is not needed any more
        else:
            self.lost("its connection closed")

    def lost(self, cause: str) -> None:
        self._poll_rounds()
        self.close()
        self.peer.connection_lost(cause)
        self._transport.drained()

    def _poll_rounds(self) -> None:
        """Take what the peer posted before it left, while the memory that it exposed can be read."""
        if not self._closed:
            self._rounds.poll()

    def close_gracefully(self) -> None:
        """Close in good order: the peer reads what is in the ring, even after the end of this process."""
        self.close()

    def close(self) -> None:
        self._closed = True
        owners = [frame.owner for frame in self._queue if frame.owner is not None]
        self._queue.clear()
        self._transport.links.discard(self)
        self._sleepers.pop(self.peer.rank, None)
        segment, self._segment = self._segment, None
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
