"""Synchronisation through shared memory: each member of a communicator writes its slot, which all others read.

Before that the members must hand memory to each other. This takes some calls of a collective. In each of them the
members try, and agree on whether all have succeeded. All members count their calls alike, so that all know the state.

The members exchange slots in the order of their calls, which is the same for all. A call therefore does so at its
beginning, before it waits for anything else. A call with several exchanges holds its turn (`run_in_turn`, `hold_turn`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aiompi.coll.block import Block
from aiompi.coll.shm_slots import Content, claim_of, collected, expect, publish
from aiompi.comm import Channel, Communicator
from aiompi.engine import ChainedRequest, Endpoint, MessageListener, Request, SlotGroup
from aiompi.engine.schedule import settled

T = TypeVar("T")
#: calls in which the members try to share slots, before they use messages for good
_ATTEMPTS: Final = 8
#: largest number of calls in a row that use messages because objects were too long for slots
_LONGEST_BACKOFF: Final = 255


class ShmSync:
    """The state of the slots of a communicator at this rank.

    Args:
        alarm: listens for messages that come instead of slots.

    Attributes:
        slots: the slots of the members; None until all share them.
        attempts: number of attempts to share them that are left.
        latest: the last call that has begun; the next one waits for it.
        affordable: True if all members have the descriptors and addresses for slots.
        holder: channel of the call that holds its turn.
        backoffs: by note, the backoffs of collectives on objects.
    """

    __slots__ = ("affordable", "alarm", "slots", "attempts", "holder", "latest", "backoffs")

    def __init__(self, alarm: MessageListener) -> None:
        self.alarm = alarm
        self.slots: SlotGroup | None = None
        self.attempts = _ATTEMPTS
        self.affordable = False
        self.latest: Request[Any] | None = None
        self.holder: Channel | None = None
        self.backoffs: dict[int, Backoff] = {}

    def backs_off(self, note: int) -> bool:
        """Count the next call of a collective on objects; return True if it uses messages."""
        backoff = self.backoffs.get(note)
        return backoff is not None and backoff.take()


class Backoff:
    """A number of calls of a collective on objects that use messages, after an object was too long for a slot.

    The first backoff has 1 call, the next one 3, then 7 and so on. All ranks see that an object is too long, and count
    alike.
    """

    __slots__ = ("_calls", "_left")

    def __init__(self) -> None:
        self._calls = self._left = 0

    def lengthen(self) -> None:
        """Begin a backoff that is longer than the last one."""
        self._calls = self._left = min(2 * self._calls + 1, _LONGEST_BACKOFF)

    def take(self) -> bool:
        """Count a call; return True if it belongs to the backoff."""
        if not self._left:
            return False
        self._left -= 1
        return True


async def exchange_slots(channel: Channel, content: Content, nbytes: int) -> list[Content] | None:
    """Exchange slots with all members.

    Args:
        content: at most `Channel.room` bytes.
        nbytes: bytes that this rank contributes to the collective; the same on all ranks.

    Returns:
        The content of the slot of each rank; None, on all ranks alike, if they share no slots, or not yet.

    Raises:
        InvalidRootError, InvalidOpError, OtherError, InvalidCountError: see `publish`.
    """
    sync = _sync_of(channel)
    if sync is None:
        return None
    slots, before = sync.slots, sync.latest
    if slots is None or (before is not None and not before.done()):
        return await _in_turn(channel, sync, lambda slots: publish(channel, slots, content, nbytes))
    claim = claim_of(channel, nbytes)
    sync.latest = current = slots.publish(content, channel.note, claim)
    try:
        if current.done():
            return collected(channel, content, claim, current.result())
        expect(channel, sync.alarm, nbytes, current)
        return collected(channel, content, claim, await current)
    finally:
        sync.alarm.unset()
        if sync.latest is current:
            sync.latest = None  # its error would keep other objects alive


def backs_off(channel: Channel) -> bool:
    """Return True if it is certain by now that a call belongs to a `Backoff`; then it does not use slots."""
    sync: ShmSync | None = channel.comm.shm_sync
    if sync is None or not sync.backoffs or not channel.ordered:
        return False
    before = sync.latest
    return (before is None or before.done()) and sync.backs_off(channel.note)


async def exchange_objects(channel: Channel, make: Callable[[], Content]) -> list[Content] | None:
    """Exchange the messages of objects through slots, if they are short on all ranks.

    Args:
        make: function that makes the message, at most `Channel.room` bytes; empty if it is longer.

    Returns:
        The message of each rank; None, on all ranks alike, if one is too long, or was lately (see `Backoff`), or if the
        members share no slots, or not yet.

    Raises:
        InvalidRootError, InvalidOpError, OtherError, InvalidCountError: see `publish`.
    """
    sync = _sync_of(channel)
    if sync is None:
        return None
    note, before = channel.note, sync.latest
    if sync.slots is None or (before is not None and not before.done()):

        async def act(slots: SlotGroup) -> list[Content] | None:
            # Only now, because it depends on the previous calls.
            if sync.backs_off(note):
                return None
            return _short(sync, note, await publish(channel, slots, make(), 0))

        return await _in_turn(channel, sync, act)
    return _short(sync, note, await exchange_slots(channel, make(), 0))


def _short(sync: ShmSync, note: int, contents: list[Content] | None) -> list[Content] | None:
    """Return the contents of all slots; None if one is empty because its object was too long."""
    if contents is None or all(contents):
        sync.backoffs.pop(note, None)
        return contents
    sync.backoffs.setdefault(note, Backoff()).lengthen()
    return None


async def run_in_turn(channel: Channel, act: Callable[[SlotGroup], Coroutine[Any, None, T]]) -> T | None:
    """Run a coroutine with several exchanges after the previous calls have ended and before the next one begins.

    Args:
        act: function that makes the coroutine, which ends when its last exchange is complete.

    Returns:
        The result of the coroutine; None, on all ranks alike, if the members share no slots, or not yet.
    """
    sync = _sync_of(channel)
    return None if sync is None else await _in_turn(channel, sync, act)


async def hold_turn(channel: Channel, run: Callable[[], Coroutine[Any, None, T]]) -> T:
    """Run a coroutine that exchanges slots more than once, or not at its beginning."""
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
    """Return the state of the slots; None if the members share none."""
    if not channel.ordered:
        return None
    sync: ShmSync | None = channel.comm.shm_sync
    if sync is None:
        sync = channel.comm.shm_sync = ShmSync(channel.alarm())
    return sync if sync.slots is not None or sync.attempts else None


async def _in_turn(
    channel: Channel, sync: ShmSync, act: Callable[[SlotGroup], Coroutine[Any, None, T | None]]
) -> T | None:
    """Wait for the previous call, and then act, or try to share slots."""

    async def attempt() -> T | None:
        if sync.slots is not None:
            return await act(sync.slots)
        if sync.attempts:
            sync.attempts -= 1
            if not sync.affordable:  # asked first: a rank that cannot should not be connected to
                sync.affordable = await _agreed(channel, _affords(channel.comm))
                return None
            slots = _assemble(channel.comm)
            if await _agreed(channel, slots is not None):
                sync.slots = slots
        return None

    return await (attempt() if sync.holder is channel else _turn(channel, sync, attempt))


async def _turn(channel: Channel, sync: ShmSync, run: Callable[[], Coroutine[Any, None, T]]) -> T:
    """Wait for the previous call, and let the next one wait for this one."""
    engine, before = channel.comm.engine, sync.latest
    turn: ChainedRequest[None] = ChainedRequest(engine)
    sync.latest = turn
    try:
        if before is not None and not before.done():
            await settled([before])
        return await run()
    finally:
        turn.complete()


def _affords(comm: Communicator) -> bool:
    slot_provider = comm.engine.slot_provider
    return slot_provider is not None and slot_provider.affords(comm.context_id, _others(comm))


def _assemble(comm: Communicator) -> SlotGroup | None:
    slot_provider = comm.engine.slot_provider
    return None if slot_provider is None else slot_provider.assemble(comm.context_id, _others(comm))


def _others(comm: Communicator) -> list[Endpoint]:
    engine = comm.engine
    return [engine.peer(rank) for rank in comm.targets if rank != engine.rank]


async def _agreed(channel: Channel, able: bool) -> bool:
    """Return True if all ranks are able, by dissemination: a message covers all ranks heard of so far."""
    rank, size = channel.rank, channel.size
    distance = 1
    while distance < size:
        answer = Block.of(1)
        arrival = answer.irecv(channel, (rank - distance) % size)
        send = Block(memoryview(bytes([able]))).isend(channel, (rank + distance) % size)
        await arrival
        await send
        able = able and answer.data[0] == 1
        distance *= 2
    return able
