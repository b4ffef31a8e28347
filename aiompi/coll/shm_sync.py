"""Collectives through slots: how the members of a communicator begin to use slots, and the order of calls.

Before the members use slots they must hand memory to each other. In each of the first calls of collectives, the members
try to share slots, and agree whether all members have succeeded. All members count their calls in the same way, so all
know whether the next call tries to share slots. If some of `n` members are not connected yet, the next `n` calls use
messages. These calls take about as long as connecting all members. So a program with few calls does not pay for
connections between all members.

The members use slots in the order of their calls, which is the same for all members. Therefore a call uses slots at its
beginning, before any other wait. A call that must wait for another event first holds its turn (`hold_turn`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from aiompi.coll.block import Block, compare, mismatch
from aiompi.comm import Channel, Communicator
from aiompi.engine import MOST_IN_ROUNDS, ROOM, ChainedRequest, Endpoint, Message, MessageListener, Request
from aiompi.engine.schedule import settled
from aiompi.errors import InvalidCountError, MPIError, OtherError, TruncationError

if TYPE_CHECKING:
    from aiompi.core._native import BlockExchange, SlotExchange, SlotGroup

T = TypeVar("T")
#: function that is called with the shown data of some ranks
Look: TypeAlias = Callable[[Sequence[bytes]], None]
#: algorithm of the same collective with messages, for calls in which the members have no slots, or not yet
Substitute: TypeAlias = Callable[..., Coroutine[Any, None, None]]

#: bits of a claim for the number of bytes; the bits above hold the number of the call modulo `_NUMBERS`
_NBYTES: Final = 48
_AMOUNT: Final = 2**_NBYTES - 1
_NUMBERS: Final = 2**15
#: calls in which the members try to share slots, before they use messages for good
_ATTEMPTS: Final = 8
#: states of a member before a try: it lacks descriptors or addresses; it has them; it also shares memory with all
_UNABLE: Final = 0
_ABLE: Final = 1
_CONNECTED: Final = 2
#: most consecutive calls that use messages because objects were too long for slots
_LONGEST_BACKOFF: Final = 255


def channel_of(exchange: SlotExchange | BlockExchange) -> Channel:
    """Return the channel of a call that waits for others."""
    return Channel(exchange.comm, exchange.tag, exchange.name, exchange.note)


def listen(exchange: SlotExchange, alarm: MessageListener) -> None:
    """Listen for a rank that sends a message instead of posting."""
    channel = channel_of(exchange)
    channel.alert(alarm, functools.partial(_disturb, channel, exchange))


def _disturb(channel: Channel, exchange: SlotExchange, message: Message) -> None:
    """Fail a call if a rank sends a message before it has posted: the sender has made another call."""
    if exchange.done() or exchange.posted(message.source):
        return  # the sender has posted, and now sends messages in the same call
    error = _disagreement(channel, message.source, message.note)
    exchange.fail(error or InvalidCountError(mismatch(channel, message.source, message.length, exchange.nbytes)))


def _disagreement(channel: Channel, rank: int, note: int) -> MPIError | None:
    """Return the error if the note of a rank is from another call; None if it is from this call."""
    try:
        compare(channel, rank, note)
    except MPIError as disagreement:
        return disagreement
    return None


def blame(exchange: SlotExchange, rank: int, note: int, claim: int) -> MPIError | None:
    """Return the error if a rank does not take part in the same call; None if it does.

    Args:
        note, claim: posted by that rank.
    """
    channel = channel_of(exchange)
    disagreement = _disagreement(channel, rank, note)
    if disagreement is not None:
        return disagreement
    their_nth, nbytes = divmod(claim, 2**_NBYTES)
    nth = exchange.tag % _NUMBERS
    if their_nth != nth:
        return OtherError(
            f"{channel.where}: for rank {rank} this is collective {their_nth} on the communicator, for this rank "
            f"{nth}; call the same collectives in the same order on all ranks"
        )
    if nbytes != exchange.nbytes:
        return InvalidCountError(mismatch(channel, rank, nbytes, exchange.nbytes))
    return None


def blame_sender(exchange: BlockExchange, source: int, note: int, came: int, expected: int) -> MPIError | None:
    """Return the error if the message of a rank does not belong to this call; None if it does.

    Args:
        note: number that the message carries.
        came, expected: bytes of the message.
    """
    channel = channel_of(exchange)
    disagreement = _disagreement(channel, source, note)
    if disagreement is not None or came == expected:
        return disagreement
    return (TruncationError if came > expected else InvalidCountError)(mismatch(channel, source, came, expected))


class ShmSync:
    """The state of the slots of a communicator at this rank.

    Args:
        alarm: listens for messages of ranks that do not use slots.

    Attributes:
        slots: the slots of the members; None until all share them.
        attempts: remaining number of attempts to share slots.
        latest: the last begun call; the next call waits for it.
        affordable: True if all members have the descriptors and addresses for slots.
        patience: number of calls that still use messages before the members connect.
        holder: channel of the call that holds its turn.
        backoffs: by note, the backoffs of collectives on objects.
    """

    __slots__ = ("_alarm", "affordable", "attempts", "backoffs", "holder", "latest", "patience", "slots")

    def __init__(self, alarm: MessageListener) -> None:
        self._alarm = alarm
        self.slots: SlotGroup | None = None
        self.attempts = _ATTEMPTS
        self.affordable = False
        self.patience = 0
        self.latest: Request[Any] | None = None
        self.holder: Channel | None = None
        self.backoffs: dict[int, Backoff] = {}

    def backs_off(self, note: int) -> bool:
        """Count the next call of a collective on objects; return True if it uses messages."""
        backoff = self.backoffs.get(note)
        return backoff is not None and backoff.take()

    # Called by slots.

    def listen(self, exchange: SlotExchange) -> None:
        """Listen for a rank that sends a message instead of posting."""
        listen(exchange, self._alarm)

    def hush(self) -> None:
        """Listen no more."""
        self._alarm.unset()

    def blame(self, exchange: SlotExchange, rank: int, note: int, claim: int) -> MPIError | None:
        """Return the error if a rank does not take part in the same call; None if it does."""
        return blame(exchange, rank, note, claim)


class Backoff:
    """A backoff: after an object was too long for a slot, the next calls of the collective on objects use messages.

    The first backoff has 1 call, the next one 3, then 7 and so on. All ranks see that an object is too long, so all
    have the same backoff.
    """

    __slots__ = ("_calls", "_left")

    def __init__(self) -> None:
        self._calls = self._left = 0

    def lengthen(self) -> None:
        """Begin a backoff that is longer than the previous backoff."""
        self._calls = self._left = min(2 * self._calls + 1, _LONGEST_BACKOFF)

    def take(self) -> bool:
        """Count a call; return True if it belongs to the backoff."""
        if not self._left:
            return False
        self._left -= 1
        return True


async def show(
    channel: Channel, nbytes: int, make: Callable[[], bytes], look: Look, wanted: range | None = None
) -> bool:
    """Show the contribution of this rank, and read the contributions of some ranks.

    Args:
        nbytes: most bytes that a rank shows; known to all ranks.
        make: function that returns the contribution of this rank.
        look: function that is called with the contributions of the wanted ranks, in their order.
        wanted: ranks for which this one waits; all by default.

    Returns:
        True if the contributions were shown. False if the members do not have slots, or do not have them yet, or if a
        slot has no room for `nbytes`. All ranks return the same value.

    Raises:
        InvalidRootError, InvalidOpError, OtherError: a rank has called another collective, has passed another root or
            operation, or has made more or fewer calls before (modulo 2**15).
        InvalidCountError: a rank contributes another number of bytes.
        ProcessFailedError: a rank is dead.
    """
    sync = _sync_of(channel)
    if sync is None or nbytes > channel.room:
        return False
    contents = await _exchange(channel, sync, lambda slots: _publish(channel, sync, slots, make(), nbytes, wanted))
    if contents is None:
        return False
    look(contents)
    return True


async def show_objects(channel: Channel, make: Callable[[], bytes], look: Look, wanted: range | None = None) -> bool:
    """Show the messages of objects, if the wanted messages are short. All ranks want the same messages.

    Args:
        make: function that returns the message of this rank; empty bytes if the message has more than `Channel.room`
            bytes.
        look: function that is called with the messages of the wanted ranks.
        wanted: ranks for which this one waits; all by default.

    Returns:
        True if the messages were shown. False if the members do not have slots, or do not have them yet, or if a wanted
        message is too long or was too long in a recent call (see `Backoff`). All ranks return the same value.

    Raises:
        MPIError: as of `show`.
    """
    sync = _sync_of(channel)
    if sync is None:
        return False
    note = channel.note

    async def act(slots: SlotGroup) -> list[bytes] | None:
        # Inside the turn of this call: the backoff depends on the previous calls, and the next calls depend on the
        # backoff.
        if sync.backs_off(note):
            return None
        contents = await _publish(channel, sync, slots, make(), 0, wanted)
        if all(contents):
            sync.backoffs.pop(note, None)
            return contents
        sync.backoffs.setdefault(note, Backoff()).lengthen()
        return None

    contents = await _exchange(channel, sync, act)
    if contents is None:
        return False
    look(contents)
    return True


async def _publish(
    channel: Channel, sync: ShmSync, slots: SlotGroup, content: bytes, nbytes: int, wanted: range | None
) -> list[bytes]:
    """Post, and wait until the wanted ranks have posted; return their contributions."""
    ranks = range(channel.size) if wanted is None else wanted
    contents: list[bytes] = await _latest(sync, slots.publish(channel, content, nbytes, ranks.start, ranks.stop))
    return contents


def _latest(sync: ShmSync, current: SlotExchange) -> SlotExchange:
    """Let the next call wait for a call that has begun."""
    if not current.done():
        if sync.latest is None or sync.latest.done():
            sync.latest = current
        current.attend()
    return current


def has_rounds(channel: Channel) -> bool:
    """Return True if long blocks go through slots in rounds, provided that the members have slots."""
    return channel.room >= ROOM and channel.size <= MOST_IN_ROUNDS


async def share_in_rounds(channel: Channel, begin: Callable[[SlotGroup], SlotExchange | None]) -> bool:
    """Run a collective whose blocks are too long for a slot: each round moves one slice of every block.

    Args:
        begin: function that begins the core's call; it returns None, on all ranks alike, if the core cannot make the
            call.

    Returns:
        True if the collective has run. False if the members do not have slots, or do not have them yet, or if `begin`
        has returned None. All ranks return the same value.

    Raises:
        MPIError: as of `show`.
    """
    sync = _sync_of(channel)
    if sync is None or not has_rounds(channel):
        return False

    async def act(slots: SlotGroup) -> bool:
        current = begin(slots)
        if current is not None:
            await _latest(sync, current)
        return current is not None

    return bool(await _exchange(channel, sync, act))


def _exchange(
    channel: Channel, sync: ShmSync, act: Callable[[SlotGroup], Coroutine[Any, None, T]]
) -> Coroutine[Any, None, T | None]:
    """Run `act` at the turn of this call.

    The result is None on all ranks if the members do not have slots, or do not have them yet.
    """
    slots, before = sync.slots, sync.latest
    if slots is not None and (before is None or before.done()):
        return act(slots)
    return _in_turn(channel, sync, act)


async def hold_turn(channel: Channel, run: Callable[[], Coroutine[Any, None, T]]) -> T:
    """Run a coroutine while later calls wait, because the coroutine uses slots more than once or after other waits."""
    sync = _sync_of(channel)
    if sync is None:
        return await run()

    async def hold() -> T:
        sync.holder = channel
        try:
            return await run()
        finally:
            sync.holder = None

    return await _turn(channel, sync, hold)


def _sync_of(channel: Channel) -> ShmSync | None:
    """Return the state of the slots; None if the members have none."""
    if not channel.ordered:
        return None
    sync = channel.comm.attached.of(ShmSync)
    if sync is None:
        sync = channel.comm.attached.put(ShmSync(channel.alarm()))
    return sync if sync.slots is not None or sync.attempts else None


async def _in_turn(channel: Channel, sync: ShmSync, act: Callable[[SlotGroup], Coroutine[Any, None, T]]) -> T | None:
    """Wait for the previous call, and then act, or try to share slots."""

    async def attempt() -> T | None:
        if sync.slots is not None:
            return await act(sync.slots)
        if sync.patience:
            sync.patience -= 1
        elif sync.attempts:
            sync.attempts -= 1
            if sync.affordable:
                slots = _assemble(channel.comm)
                if await _agreed(channel, slots is not None) and slots is not None:
                    _share(channel.comm, sync, slots)
            else:  # agree first, so that no member connects to a member without resources
                ready = await _agreed(channel, _readiness(channel.comm))
                sync.affordable = ready >= _ABLE
                sync.patience = channel.size if ready == _ABLE else 0
        return None

    return await (attempt() if sync.holder is channel else _turn(channel, sync, attempt))


async def _turn(channel: Channel, sync: ShmSync, run: Callable[[], Coroutine[Any, None, T]]) -> T:
    """Wait for the previous call, then run this call; the next call waits for the end of this call."""
    engine, before = channel.comm.engine, sync.latest
    turn: ChainedRequest[None] = ChainedRequest(engine)
    sync.latest = turn
    try:
        if before is not None and not before.done():
            before.attend()  # a signal handler may have raised between its start and its wait
            await settled([before])
        return await run()
    finally:
        turn.complete()


def _share(comm: Communicator, sync: ShmSync, slots: SlotGroup) -> None:
    """Use slots from now on."""
    engine = comm.engine
    slots.use(sync, engine.spins, engine.yields_core)
    sync.slots = slots


def _readiness(comm: Communicator) -> int:
    slot_provider, others = comm.engine.environment.slot_provider, _others(comm)
    if slot_provider is None or not slot_provider.affords(comm.context_id, others):
        return _UNABLE
    return _CONNECTED if slot_provider.connected(others) else _ABLE


def _assemble(comm: Communicator) -> SlotGroup | None:
    slot_provider = comm.engine.environment.slot_provider
    return None if slot_provider is None else slot_provider.assemble(comm.context_id, comm.rank, _others(comm))


def _others(comm: Communicator) -> list[Endpoint]:
    engine = comm.engine
    return [engine.peer(rank) for rank in comm.targets if rank != engine.rank]


async def _agreed(channel: Channel, able: int) -> int:
    """Return the minimum of `able` over all ranks, by dissemination: each message has the minimum received so far."""
    rank, size = channel.rank, channel.size
    distance = 1
    while distance < size:
        answer = Block.of(1)
        arrival = answer.irecv(channel, (rank - distance) % size)
        send = Block(memoryview(bytes([able]))).isend(channel, (rank + distance) % size)
        await arrival
        await send
        able = min(able, answer.data[0])
        distance *= 2
    return able


def share(channel: Channel, block: Block, look: Look, wanted: range | None = None) -> Coroutine[Any, None, bool]:
    """Show a block to other ranks, and read the blocks of the wanted ranks, by default of all; see `show`.

    All blocks have the same length, except blocks of objects (see `show_objects`).
    """
    value = block.memory
    if value is None:
        return show_objects(channel, lambda: content(block, channel.room), look, wanted)
    return show(channel, block.nbytes, lambda: bytes(value), look, wanted)


def content(block: Block, room: int) -> bytes:
    """Return the content of a block, empty if it is longer than `room`."""
    return b"".join(block.payload) if block.nbytes <= room else b""


def joined(blocks: Iterable[Block]) -> bytes:
    """Return the concatenated contents of blocks."""
    return b"".join([piece for block in blocks for piece in block.payload])
