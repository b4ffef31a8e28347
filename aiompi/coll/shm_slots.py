"""What the members of a communicator show each other through slots, and the check that all call the same collective."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiompi.coll.block import compare, mismatch
from aiompi.comm import Channel
from aiompi.engine import Message, MessageListener
from aiompi.errors import Exception, InvalidCountError, OtherError

if TYPE_CHECKING:
    from aiompi.core._native import SlotExchange

#: function that is called with what some ranks have shown
Look: TypeAlias = Callable[[Sequence[bytes]], None]
#: algorithm of the same collective that sends messages, for calls in which the members share no slots, or not yet
Substitute: TypeAlias = Callable[..., Coroutine[Any, None, None]]

#: bits of a claim for the number of bytes; the bits above hold the number of the call modulo `_NUMBERS`
_NBYTES: Final = 48
_AMOUNT: Final = 2**_NBYTES - 1
_NUMBERS: Final = 2**15


def channel_of(exchange: SlotExchange) -> Channel:
    """Return the channel of a call that waits for others."""
    return Channel(exchange.comm, exchange.tag, exchange.name, exchange.note)


def listen(exchange: SlotExchange, alarm: MessageListener) -> None:
    """Listen for a rank that sends a message instead of posting."""
    channel = channel_of(exchange)
    channel.alert(alarm, functools.partial(_disturb, channel, exchange))


def _disturb(channel: Channel, exchange: SlotExchange, message: Message) -> None:
    """Fail a call: a rank that sends a message before it has posted has made another call."""
    if exchange.done() or exchange.posted(message.source):
        return  # it is already in the part of the call that sends
    error: Exception = InvalidCountError(mismatch(channel, message.source, message.length, exchange.nbytes))
    try:
        compare(channel, message.source, message.note)
    except Exception as disagreement:
        error = disagreement
    exchange.fail(error)


def blame(exchange: SlotExchange, rank: int, note: int, claim: int) -> Exception | None:
    """Return the error if a rank does not take part in the same call; None if it does.

    Args:
        note, claim: what that rank has posted.
    """
    channel = channel_of(exchange)
    try:
        compare(channel, rank, note)
    except Exception as disagreement:
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
