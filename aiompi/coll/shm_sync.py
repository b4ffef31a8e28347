"""Synchronisation through shared memory: each member of a communicator writes its slot, which all others read.

Before that the members must hand memory to each other. This takes some calls of a collective. In each of them the
members try, and agree on whether all have succeeded. All members count their calls alike, so that all know the state.

The members exchange slots in the order of their calls, which is the same for all. A call therefore does so at its
beginning, before it waits for anything else. A call with several exchanges holds its turn (`together`, `in_one_turn`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aiompi.coll.block import Block
from aiompi.coll.shm_slots import Content, claim_of, collected, expect, post
from aiompi.comm import Channel, Communicator
from aiompi.engine import ChainedRequest, Endpoint, MessageListener, Request, SlotGroup
from aiompi.engine.schedule import settled

T = TypeVar("T")
#: calls in which the members try to share slots, before they use messages for good
_ATTEMPTS: Final = 8
#: largest number of calls in a row that use messages because objects were too long for slots
_LONGEST_PAUSE: Final = 255


class ShmSync:
    """The state of the slots of a communicator at this rank.

    Args:
        alarm: listens for messages that come instead of slots.

    Attributes:
        assembly: the slots of the members; None until all share them.
        attempts: number of attempts to share them that are left.
        latest: the last call that has begun; the next one waits for it.
        affordable: True if all members have the descriptors and addresses for slots.
        holder: channel of the call that holds its turn.
        pauses: by note, the pauses of collectives on objects.
    """

    __slots__ = ("affordable", "alarm", "assembly", "attempts", "holder", "latest", "pauses")

    def __init__(self, alarm: MessageListener) -> None:
        self.alarm = alarm
        self.assembly: SlotGroup | None = None
        self.attempts = _ATTEMPTS
        self.affordable = False
        self.latest: Request[Any] | None = None
        self.holder: Channel | None = None
        self.pauses: dict[int, Pause] = {}

    def take_pause(self, note: int) -> bool:
        """Count the next call of a collective on objects; return True if it uses messages."""
        pause = self.pauses.get(note)
        return pause is not None and pause.take()


class Pause:
    """A number of calls of a collective on objects that use messages, after an object was too long for a slot.

    The first pause has 1 call, the next one 3, then 7 and so on. All ranks see that an object is too long, and count
    alike.
    """

    __slots__ = ("_calls", "_left")

    def __init__(self) -> None:
        self._calls = self._left = 0

    def lengthen(self) -> None:
        """Begin a pause that is longer than the last one."""
        self._calls = self._left = min(2 * self._calls + 1, _LONGEST_PAUSE)

    def take(self) -> bool:
        """Count a call; return True if it belongs to the pause."""
        if not self._left:
            return False
        self._left -= 1
        return True


async def meet(channel: Channel, content: Content, nbytes: int) -> list[Content] | None:
    """Exchange slots with all members.

    Args:
        content: at most `Channel.room` bytes.
        nbytes: bytes that this rank contributes to the collective; the same on all ranks.

    Returns:
        The content of the slot of each rank; None, on all ranks alike, if they share no slots, or not yet.

    Raises:
        InvalidRootError, InvalidOpError, OtherError, InvalidCountError: see `post`.
    """
    meeting = _meeting(channel)
    if meeting is None:
        return None
    assembly, before = meeting.assembly, meeting.latest
    if assembly is None or (before is not None and not before.done()):
        return await _in_turn(channel, meeting, lambda assembly: post(channel, assembly, content, nbytes))
    claim = claim_of(channel, nbytes)
    meeting.latest = current = assembly.post(content, channel.note, claim)
    try:
        if current.done():
            return collected(channel, content, claim, current.result())
        expect(channel, meeting.alarm, nbytes, current)
        return collected(channel, content, claim, await current)
    finally:
        meeting.alarm.unset()
        if meeting.latest is current:
            meeting.latest = None  # its error would keep other objects alive


def take_pause(channel: Channel) -> bool:
    """Return True if it is certain by now that a call belongs to a `Pause`; then it does not use slots."""
    meeting: ShmSync | None = channel.comm.meeting
    if meeting is None or not meeting.pauses or not channel.meets:
        return False
    before = meeting.latest
    return (before is None or before.done()) and meeting.take_pause(channel.note)


async def meet_with_objects(channel: Channel, make: Callable[[], Content]) -> list[Content] | None:
    """Exchange the messages of objects through slots, if they are short on all ranks.

    Args:
        make: function that makes the message, at most `Channel.room` bytes; empty if it is longer.

    Returns:
        The message of each rank; None, on all ranks alike, if one is too long, or was lately (see `Pause`), or if the
        members share no slots, or not yet.

    Raises:
        InvalidRootError, InvalidOpError, OtherError, InvalidCountError: see `post`.
    """
    meeting = _meeting(channel)
    if meeting is None:
        return None
    note, before = channel.note, meeting.latest
    if meeting.assembly is None or (before is not None and not before.done()):

        async def act(assembly: SlotGroup) -> list[Content] | None:
            # Only now, because it depends on the previous calls.
            if meeting.take_pause(note):
                return None
            return _short(meeting, note, await post(channel, assembly, make(), 0))

        return await _in_turn(channel, meeting, act)
    return _short(meeting, note, await meet(channel, make(), 0))


def _short(meeting: ShmSync, note: int, contents: list[Content] | None) -> list[Content] | None:
    """Return the contents of all slots; None if one is empty because its object was too long."""
    if contents is None or all(contents):
        meeting.pauses.pop(note, None)
        return contents
    meeting.pauses.setdefault(note, Pause()).lengthen()
    return None


async def together(channel: Channel, act: Callable[[SlotGroup], Coroutine[Any, None, T]]) -> T | None:
    """Run a coroutine with several exchanges after the previous calls have ended and before the next one begins.

    Args:
        act: function that makes the coroutine, which ends when its last exchange is complete.

    Returns:
        The result of the coroutine; None, on all ranks alike, if the members share no slots, or not yet.
    """
    meeting = _meeting(channel)
    return None if meeting is None else await _in_turn(channel, meeting, act)


async def in_one_turn(channel: Channel, run: Callable[[], Coroutine[Any, None, T]]) -> T:
    """Run a coroutine that exchanges slots more than once, or not at its beginning."""
    meeting = _meeting(channel)
    if meeting is None:
        return await run()

    async def hold() -> T:
        meeting.holder = channel
        try:
            return await run()
        finally:
            meeting.holder = None

    return await _turn(channel, meeting, hold)


def _meeting(channel: Channel) -> ShmSync | None:
    """Return the state of the slots; None if the members share none."""
    if not channel.meets:
        return None
    meeting: ShmSync | None = channel.comm.meeting
    if meeting is None:
        meeting = channel.comm.meeting = ShmSync(channel.alarm())
    return meeting if meeting.assembly is not None or meeting.attempts else None


async def _in_turn(
    channel: Channel, meeting: ShmSync, act: Callable[[SlotGroup], Coroutine[Any, None, T | None]]
) -> T | None:
    """Wait for the previous call, and then act, or try to share slots."""

    async def meet() -> T | None:
        if meeting.assembly is not None:
            return await act(meeting.assembly)
        if meeting.attempts:
            meeting.attempts -= 1
            if not meeting.affordable:  # asked first: a rank that cannot should not be connected to
                meeting.affordable = await _agreed(channel, _affords(channel.comm))
                return None
            assembly = _assemble(channel.comm)
            if await _agreed(channel, assembly is not None):
                meeting.assembly = assembly
        return None

    return await (meet() if meeting.holder is channel else _turn(channel, meeting, meet))


async def _turn(channel: Channel, meeting: ShmSync, run: Callable[[], Coroutine[Any, None, T]]) -> T:
    """Wait for the previous call, and let the next one wait for this one."""
    engine, before = channel.comm.engine, meeting.latest
    turn: ChainedRequest[None] = ChainedRequest(engine)
    meeting.latest = turn
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
        told = Block.of(1)
        arrival = told.irecv(channel, (rank - distance) % size)
        send = Block(memoryview(bytes([able]))).isend(channel, (rank + distance) % size)
        await arrival
        await send
        able = able and told.data[0] == 1
        distance *= 2
    return able
