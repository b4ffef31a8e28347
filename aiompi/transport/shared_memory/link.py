"""Frames of one peer through the two rings of a segment."""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, Final

from aiompi.engine import Driver, Peer
from aiompi.engine.seams import BufferOwner
from aiompi.errors import RemoteProtocolError
from aiompi.transport.dial import EXHAUSTED, describe
from aiompi.transport.shared_memory.export import POOL, SLOTS, Export
from aiompi.transport.shared_memory.inbound import FRAME_COST
from aiompi.transport.shared_memory.outbound import NO_ROOM, RING_FIRST, Outgoing
from aiompi.transport.shared_memory.ring import CHUNK, TAIL
from aiompi.transport.shared_memory.segment import Segment
from aiompi.transport.shared_memory.sharing import Sharing
from aiompi.transport.shared_memory.slots import SIZE as SLOT_BYTES
from aiompi.transport.stream import COPIED
from aiompi.wire.frame import EAGER, Payload

if TYPE_CHECKING:
    from aiompi.transport.shared_memory.transport import SharedMemory

#: chunks that are read per turn, so that one busy peer does not starve the loop
BUDGET: Final = 4
_TURNS: Final = range(BUDGET)
#: bytes per turn, if single messages are longer than chunks: so many that one of 1 MiB does not need another turn
_MOST: Final = 2 * BUDGET * CHUNK
#: bytes that are written per turn: many, since what is between two turns takes as long as a chunk
_WRITTEN: Final = 8 * CHUNK
#: bytes that are written at most by the call that sends a frame: in a turn there may be many of them
_BEGUN: Final = 4 * CHUNK
#: bytes that a frame counts for beside its own, where they are written
_WRITE_COST: Final = 4 * FRAME_COST


class RingLink:
    """Frames of one peer through shared memory; before it is there, a queue for them (a `SocketLink`, and a `Poller`).

    The connected socket over which it was handed over stays open: its end is the end of the peer.
    """

    def __init__(self, transport: SharedMemory, peer: Peer, dialled: bool) -> None:
        self.peer = peer
        self._transport = transport
        self._dialled = dialled
        self._rounds = transport.engine.slot_exchanges
        self._driver: Driver = transport.engine.driver
        # As in a stream: without progress in the background a send is complete only when its bytes have left.
        self._copying = transport.engine.driver.background
        self._socket: socket.socket | None = None
        self._segment: Segment | None = None
        self.sharing: Sharing | None = None
        self._queue: deque[Outgoing] = deque()
        self._sleepers = transport.engine.wake_callbacks
        self._lingering = False
        self._seen = 0  # what had been read when `stale` was last called
        self._closed = False

    @property
    def idle(self) -> bool:
        return not self._queue

    @property
    def closed(self) -> bool:
        return self._closed

    # The beginning.

    def open(self, sock: socket.socket) -> None:
        """Use a socket whose peer has proven the key. The end that has dialled makes the memory for both."""
        self._socket = sock
        if not self._dialled:
            self._driver.add_reader(sock.fileno(), self._introduced)
            return
        try:
            self._use(Segment.create(self._transport.ring_size, sock))
        except OSError as error:
            self._failed(error)

    def _introduced(self) -> None:
        """The first that the socket has to say is the segment."""
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
        """There is no segment."""
        cause = describe(error)
        (self.prevented if error.errno in EXHAUSTED else self.lost)(cause)

    def prevented(self, cause: str) -> None:
        needed = bool(self._queue) or not self._dialled  # what is queued is lost, or what the peer has sent
        promised = any(frame.owner is None and frame.pieces[-1][0] == EAGER for frame in self._queue)
        self._transport.give_up(self, cause, needed, promised)

    def _use(self, segment: Segment) -> None:
        assert self._socket is not None
        self._segment = segment
        self.sharing = Sharing(self, self._transport, self._socket, segment)
        segment.inbound.yield_core_until = segment.outbound.yield_core_until = self._driver.yield_core_until
        segment.outbound.uncrowded = self._transport.engine.core_per_rank
        self._driver.add_reader(self._socket.fileno(), self._spoken)
        self._driver.add_doorbell(segment.doorbell, self._hand_out, self._turn)
        segment.ring_self()  # to write what is queued and to begin to watch

    # Sending.

    def dispatch(self, header: bytes, payload: Payload) -> bool:
        segment = self._segment
        several = len(payload) > 1
        if segment is None or self._queue or (several and sum(map(len, payload)) > CHUNK):
            return False
        piece = payload[0] if payload else b""
        rest = payload[1:] if several else ()
        try:
            written = segment.outbound.put(header, piece, 0, False, rest)
            if written == RING_FIRST:
                segment.outbound.ring()
                self.expect_asleep()
                written = segment.outbound.put(header, piece, 0, False, rest)
        except RemoteProtocolError as error:
            self.lost(str(error))
            return False
        return written != NO_ROOM

    def expect_asleep(self) -> None:
        """The peer has been found asleep: it is rung for at the beginning of the next call that sends to it."""
        self._sleepers[self.peer.rank] = self._wake

    def _wake(self) -> None:
        """Ring for a frame that is being prepared, if the peer is still found asleep at such times."""
        segment = self._segment
        if segment is None or not segment.outbound.sleepy:
            self._sleepers.pop(self.peer.rank, None)
        elif not self._queue and segment.outbound.rings_early():
            segment.outbound.ring()

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        if self.dispatch(header, payload):
            return True
        segment = self._segment
        if segment is None or self._queue:
            return self._enqueue(header, payload, owner)
        return self._start(segment, Outgoing(header, payload, owner))

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

    def _start(self, segment: Segment, frame: Outgoing) -> bool:
        """Write a frame in pieces, the rest of it later; whether the memory of its owner is free."""
        self._queue.append(frame)
        self._flush(segment, _BEGUN)
        return bool(frame.pieces) and not self._closed and self._kept(frame)

    def _kept(self, frame: Outgoing) -> bool:
        """Copy what waits of a small frame where that completes its send; whether it was."""
        if not self._copying or sum(map(len, frame.pieces)) > COPIED:
            return False
        frame.copy()
        frame.owner = None
        return True

    def _enqueue(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        if self._closed:
            if owner is not None:
                self.peer.orphan(owner)
            return False
        frame = Outgoing(header, payload, owner)
        self._queue.append(frame)
        return self._kept(frame)

    def opened_to(self, area: Export) -> bool:
        """Let the peer read an area of this rank; whether it can by now."""
        return self.sharing is not None and self.sharing.open_to(area) is not None

    def rouse(self) -> None:
        """Wake the peer, which sleeps though nothing was sent to it."""
        if self._segment is not None:
            self._segment.ring()

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        if lent and self.sharing is not None:
            self.sharing.take_back()
        for frame in self._queue:
            if frame.owner is owner:
                frame.copy()

    def _flush(self, segment: Segment, budget: int) -> None:
        """Write what is queued, as long as there is room and the budget of bytes lasts."""
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
            if outbound.must_ring():
                segment.ring()
            budget -= fresh + _WRITE_COST
            fresh = 0
            if not frame.pieces:
                if frame.owner is not None:
                    frame.owner.sent()  # first: the owner would never be told if a signal handler raised before it
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
    # `_turn` then or in the next turn, for all else. While this lingers it calls `poll` instead, until `rest`.

    def _hand_out(self) -> bool:
        """Hand out what the peer has rung for; return True if everything else can be done in the next turn.

        Frames that the peer writes meanwhile may be seen only then, and also that it begins to wait for room.
        """
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
        """Read and write for a turn. Return True if a doorbell or a poll will call this again for more."""
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
            if inbound.must_ring():
                segment.ring()
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
                taken = inbound.take(self.peer, looks)
                if taken is not None:
                    return taken
                if self._driver.single and inbound.take_first(self.peer):
                    return True
            elif not inbound.pending():
                if not segment.outbound.room:
                    return False
                self._turn()
                return True
            left = inbound.read(self.peer, CHUNK)
        except RemoteProtocolError as error:
            self.lost(str(error))
            return True
        # Nothing was read, so the writer waits for room.
        if not self._closed and (left <= 0 or left == CHUNK or queue):
            self._turn()
        return True

    def stale(self) -> bool:
        if self._segment is None:
            return True
        # One that copies a long message meanwhile counts as stale: its doorbell tells of the rest.
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
        if segment.inbound.must_ring():
            segment.ring()
        self._lingering = not watching
        return watching

    # The end.

    def _receive_import(self) -> bool:
        """The peer hands over an area; False if it has closed."""
        sharing = self.sharing
        if sharing is None:
            return False
        imported = sharing.receive()
        if imported is None:
            return False
        if imported.kind == SLOTS:
            self._transport.peer_slots[self.peer.rank] = imported.read(0, SLOT_BYTES)
        elif imported.kind == POOL:
            self._transport.pools[self.peer.rank] = imported
        return True

    def _spoken(self) -> None:
        """The peer hands over memory, or has closed."""
        try:
            if self._receive_import():
                return
        except (BlockingIOError, InterruptedError):
            return
        except RemoteProtocolError as error:
            self.lost(str(error))
            return
        except OSError as error:
            if error.errno in EXHAUSTED:
                return  # the peer will do without
            # a reset is an end too
        self._hung_up()

    def _hung_up(self) -> None:
        """The peer has closed: what it has written before is still to be read."""
        segment = self._segment
        if segment is None:
            return  # a signal handler has made a call, which has found that first
        try:
            if segment.inbound.read(self.peer, BUDGET * CHUNK) > 0 and not self._closed:
                self._end()
        except RemoteProtocolError as error:
            self.lost(str(error))

    def _end(self) -> None:
        self._look_once_more()
        whole = self._segment is None or self._segment.inbound.between_frames
        if whole and self.peer.finalize_error is not None:
            self.close()
            if not self._transport.linked(self.peer):
                self.peer.mark_closed()
        else:
            self.lost("its connection closed")

    def lost(self, cause: str) -> None:
        """The connection is of no use any more."""
        self._look_once_more()
        self.close()
        self.peer.connection_lost(cause)
        self._transport.drained()

    def _look_once_more(self) -> None:
        """See what the peer has posted before it left, while there is a way to what it has exposed."""
        if not self._closed:
            self._rounds.poll()

    def hang_up(self) -> None:
        """Close in good order: what is in the ring the peer reads, even if this process is no more."""
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
            sharing.take_back()  # the peer may still copy what is not the message any more
        if segment is not None:
            self._driver.remove_reader(segment.doorbell)
            segment.close()
        for landing in self.peer.landings:
            landing.divert()  # as long as it is known whether the peer is alive
        if sharing is not None:
            pools, pool = self._transport.pools, sharing.imports.get(POOL)
            if pool is not None and pools.get(self.peer.rank) is pool:
                del pools[self.peer.rank]
            sharing.close()
        sock, self._socket = self._socket, None
        if sock is not None:
            self._driver.remove_reader(sock.fileno())
            sock.close()
        for owner in owners:
            self.peer.orphan(owner)
