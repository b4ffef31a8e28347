"""Postings: what the members of a communicator post in a round of a meeting, and what does not fit together."""

from __future__ import annotations

import functools
from typing import Final, TypeAlias

from aiompi.coll.block import compare, mismatch
from aiompi.comm import Channel
from aiompi.engine import Message, MessageListener, SlotEntry, SlotExchange, SlotGroup
from aiompi.errors import Exception, InvalidCountError, OtherError

#: what a rank has posted
Content: TypeAlias = bytes | memoryview

#: bits of a claim that tell the bytes, and numbers that those above them tell
_NBYTES: Final = 48
_NUMBERS: Final = 2**15


def claim_of(channel: Channel, nbytes: int) -> int:
    """What a rank claims of its call: the bytes that it contributes, and above them the number of the call."""
    return nbytes | channel.tag % _NUMBERS << _NBYTES


async def post(channel: Channel, assembly: SlotGroup, content: Content, nbytes: int) -> list[Content]:
    """Post in the next round.

    Args:
        content: at most `Channel.room` bytes.
        nbytes: that this rank contributes to the collective, as many as all others.

    Returns:
        What each rank has posted.

    Raises:
        InvalidRootError, InvalidOpError, OtherError: a rank has called another collective, or with another root or
            operation, or has made another number of calls before, as far as 15 bits tell.
        InvalidCountError: a rank contributes more, or less.
    """
    alarm: MessageListener = channel.comm.meeting.alarm
    claim = claim_of(channel, nbytes)
    current = assembly.post(content, channel.note, claim)
    try:
        expect(channel, alarm, nbytes, current)
        return collected(channel, content, claim, await current)
    finally:
        alarm.unset()


def expect(channel: Channel, alarm: MessageListener, nbytes: int, current: SlotExchange) -> None:
    """Be told when a rank sends a message in the place of its posting."""
    if not current.done():
        channel.alert(alarm, functools.partial(_disturb, channel, current, nbytes))


def _disturb(channel: Channel, current: SlotExchange, expected: int, message: Message) -> None:
    """A rank takes part by a message, which it may only do after the round: it has not called what this rank has."""
    if current.done() or current.ready():
        return
    error: Exception = InvalidCountError(mismatch(channel, message.source, message.length, expected))
    try:
        compare(channel, message.source, message.note)
    except Exception as disagreement:
        error = disagreement
    channel.comm.engine.slot_exchanges.remove(current)
    current.fail(error)


def collected(channel: Channel, own: Content, claim: int, postings: list[SlotEntry]) -> list[Content]:
    """What each rank has posted, after a comparison of what all must agree on."""
    note = channel.note
    contents: list[Content] = []
    for their_note, theirs, content in postings:
        if their_note != note or theirs != claim:
            _compare(channel, postings, claim)
        contents.append(content)
    contents.insert(channel.rank, own)
    return contents


def _compare(channel: Channel, postings: list[SlotEntry], ours: int) -> None:
    """Tell what others have posted that do not take part in the same call."""
    assembly = channel.comm.meeting.assembly
    if assembly is not None:
        assembly.retire()  # some may have exposed memory for this round, which nobody will read
    others = [rank for rank in range(channel.size) if rank != channel.rank]
    nth, expected = divmod(ours, 2**_NBYTES)
    for rank, (note, claim, _) in zip(others, postings, strict=True):
        compare(channel, rank, note)
        their_nth, nbytes = divmod(claim, 2**_NBYTES)
        if their_nth != nth:
            raise OtherError(
                f"{channel.where}: for rank {rank} this is collective {their_nth} on the communicator, for this rank "
                f"{nth}; call the same collectives in the same order on all ranks"
            )
        if nbytes != expected:
            raise InvalidCountError(mismatch(channel, rank, nbytes, expected))
