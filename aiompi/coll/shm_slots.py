"""Slots of a collective: what each member writes for all others, and the check that all call the same collective."""

from __future__ import annotations

import functools
from typing import Final, TypeAlias

from aiompi.coll.block import compare, mismatch
from aiompi.comm import Channel
from aiompi.engine import Message, MessageListener, SlotEntry, SlotExchange, SlotGroup
from aiompi.errors import Exception, InvalidCountError, OtherError

#: what a rank has written into its slot
Content: TypeAlias = bytes | memoryview

#: bits of a claim for the number of bytes; the bits above hold the number of the call modulo `_NUMBERS`
_NBYTES: Final = 48
_NUMBERS: Final = 2**15


def claim_of(channel: Channel, nbytes: int) -> int:
    """Return a number for others to compare: the bytes contributed, and above them the number of the call."""
    return nbytes | channel.tag % _NUMBERS << _NBYTES


async def publish(channel: Channel, slots: SlotGroup, content: Content, nbytes: int) -> list[Content]:
    """Write the slot of this rank, and wait until all members have written theirs.

    Args:
        content: at most `Channel.room` bytes.
        nbytes: bytes that this rank contributes to the collective; the same on all ranks.

    Returns:
        The content of the slot of each rank.

    Raises:
        InvalidRootError, InvalidOpError, OtherError: a rank has called another collective, or with another root or
            operation, or has made another number of calls before (modulo 2**15).
        InvalidCountError: a rank contributes another number of bytes.
    """
    alarm: MessageListener = channel.comm.shm_sync.alarm
    claim = claim_of(channel, nbytes)
    current = slots.publish(content, channel.note, claim)
    try:
        expect(channel, alarm, nbytes, current)
        return collected(channel, content, claim, await current)
    finally:
        alarm.unset()


def expect(channel: Channel, alarm: MessageListener, nbytes: int, current: SlotExchange) -> None:
    """Listen for a rank that sends a message instead of writing its slot."""
    if not current.done():
        channel.alert(alarm, functools.partial(_disturb, channel, current, nbytes))


def _disturb(channel: Channel, current: SlotExchange, expected: int, message: Message) -> None:
    """Fail the exchange: a rank that sends a message before it has ended has made another call."""
    if current.done() or current.ready():
        return
    error: Exception = InvalidCountError(mismatch(channel, message.source, message.length, expected))
    try:
        compare(channel, message.source, message.note)
    except Exception as disagreement:
        error = disagreement
    channel.comm.engine.slot_exchanges.remove(current)
    current.fail(error)


def collected(channel: Channel, own: Content, claim: int, entries: list[SlotEntry]) -> list[Content]:
    """Return the content of each slot, once the calls of all ranks have been compared."""
    note = channel.note
    contents: list[Content] = []
    for their_note, theirs, content in entries:
        if their_note != note or theirs != claim:
            _compare(channel, entries, claim)
        contents.append(content)
    contents.insert(channel.rank, own)
    return contents


def _compare(channel: Channel, entries: list[SlotEntry], ours: int) -> None:
    """Raise the error of ranks that do not take part in the same call."""
    slots = channel.comm.shm_sync.slots
    if slots is not None:
        slots.retire()  # no rank will read windows that were opened for this call
    others = [rank for rank in range(channel.size) if rank != channel.rank]
    nth, expected = divmod(ours, 2**_NBYTES)
    for rank, (note, claim, _) in zip(others, entries, strict=True):
        compare(channel, rank, note)
        their_nth, nbytes = divmod(claim, 2**_NBYTES)
        if their_nth != nth:
            raise OtherError(
                f"{channel.where}: for rank {rank} this is collective {their_nth} on the communicator, for this rank "
                f"{nth}; call the same collectives in the same order on all ranks"
            )
        if nbytes != expected:
            raise InvalidCountError(mismatch(channel, rank, nbytes, expected))
