"""Windows in shared memory: each member of a communicator shows a block, which all others read.

A short block goes into the slot of the member (`shm_sync`). A long block goes into memory that all members read, the
window, and the slot holds its position. Each member leaves the window when it has read enough.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from aiompi.coll.block import Block
from aiompi.coll.shm_slots import Content, publish
from aiompi.coll.shm_sync import backs_off, exchange_objects, exchange_slots, run_in_turn
from aiompi.comm import Channel
from aiompi.engine import SlotGroup
from aiompi.errors import OtherError

#: function that is called with the block of each rank
Look: TypeAlias = Callable[[Sequence[Content]], None]

_WORD = 8
_DONE, _FAILED = b"\1", b"\0"


def share(channel: Channel, block: Block, look: Look) -> Coroutine[Any, None, bool]:
    """Show a block to all others, and look at the blocks of all ranks.

    All blocks have the same length; see `share_written`. For objects see `share_objects`.
    """
    value, nbytes, room = block.memory, block.nbytes, channel.room
    if value is None:
        return share_objects(channel, lambda: b"".join(block.payload) if nbytes <= room else b"", look)
    if nbytes <= room:
        return _show(exchange_slots(channel, bytes(value), nbytes), look)

    def write(memory: memoryview) -> None:
        memory[:] = value

    return _expose(channel, nbytes, write, look)


def share_written(
    channel: Channel, nbytes: int, write: Callable[[memoryview], None], look: Look
) -> Coroutine[Any, None, bool]:
    """Show bytes that a function writes, and look at those of all ranks.

    Args:
        nbytes: number of bytes that each rank shows.
        write: function that writes them into memory of this length.
        look: function that is called with the bytes of each rank, its own included; they are valid until it returns.

    Returns:
        False, on all ranks alike, if shared memory cannot be used, or not yet, or has no room at one of them.

    Raises:
        InvalidRootError, InvalidOpError, OtherError, InvalidCountError: as `aiompi.coll.shm_slots.publish`.
        ProcessFailedError: a rank is dead.
    """
    if nbytes > channel.room:
        return _expose(channel, nbytes, write, look)
    own = memoryview(bytearray(nbytes))
    write(own)
    return _show(exchange_slots(channel, own, nbytes), look)


def share_objects(channel: Channel, make: Callable[[], Content], look: Look) -> Coroutine[Any, None, bool]:
    """Show the messages of objects, if they are short on all ranks.

    Args:
        make: function that makes the message of this rank, at most `Channel.room` bytes; empty if it is longer.
        look: function that is called with the messages of all ranks.

    Returns:
        False, on all ranks alike, if shared memory cannot be used, or not yet, or if a message is or was lately too
        long (see `aiompi.coll.shm_sync.Backoff`).

    Raises:
        InvalidRootError, InvalidOpError, OtherError: as `aiompi.coll.shm_slots.publish`.
        ProcessFailedError: a rank is dead.
    """
    return _show_nothing() if backs_off(channel) else _show(exchange_objects(channel, make), look)


async def _show_nothing() -> bool:
    return False


async def _show(exchange: Coroutine[Any, None, Sequence[Content] | None], look: Look) -> bool:
    contents = await exchange
    if contents is None:
        return False
    look(contents)
    return True


async def _expose(channel: Channel, nbytes: int, write: Callable[[memoryview], None], look: Look) -> bool:
    async def act(slots: SlotGroup) -> bool:
        window = ShmWindow(channel, slots, nbytes)
        try:
            if window.own is not None:
                write(window.own)
            if not await window.open():
                return False
            look(window.views)
            return True
        finally:
            window.leave()

    return bool(await run_in_turn(channel, act))


class ShmWindow:
    """The windows of all members in one call, as this rank sees them. It must call `leave` at the end in any case.

    Args:
        channel: channel of the call.
        slots: the slots of the members.
        nbytes: bytes of each window.

    Attributes:
        own: memory of this rank; None if there is no room for it.
        views: by rank, the windows of all members; this rank may still write its own.
    """

    __slots__ = ("_slots", "_channel", "_nbytes", "_place", "own", "views")

    def __init__(self, channel: Channel, slots: SlotGroup, nbytes: int) -> None:
        self._channel = channel
        self._slots = slots
        self._nbytes = nbytes
        block = slots.allocate(nbytes)
        self._place = b"" if block is None else block[0].to_bytes(_WORD)
        self.own = None if block is None else block[1]
        self.views: list[memoryview] = []

    def show(self, value: memoryview, but: slice) -> None:
        """Write a value into the window of this rank, if it has one, except for a segment that no other rank reads."""
        if self.own is not None:
            self.own[: but.start] = value[: but.start]
            self.own[but.stop :] = value[but.stop :]

    async def open(self) -> bool:
        """Let all members read the window of this rank; return False, on all ranks alike, if one has no window.

        Raises:
            InvalidRootError, InvalidOpError, OtherError, InvalidCountError: as `aiompi.coll.shm_slots.publish`.
            RemoteProtocolError: a rank has published a position where it shares no memory.
            ProcessFailedError: a rank is dead.
        """
        places = await publish(self._channel, self._slots, self._place, self._nbytes)
        if not all(places) or self.own is None:
            return False
        del places[self._channel.rank]
        # All at once, because a rank that has read enough may leave the job, and its memory with it.
        read, nbytes = self._slots.read, self._nbytes
        self.views += [read(member, int.from_bytes(place), nbytes) for member, place in enumerate(places)]
        self.views.insert(self._channel.rank, self.own)
        return True

    async def work(self, task: Callable[[], None]) -> None:
        """Run a task for which the others wait, and wait until the tasks of all members have ended.

        Raises:
            Exception: an exception of the task.
            OtherError: the task of another rank has failed.
        """
        failure = None
        try:
            task()
        except BaseException as error:  # an interrupt, too: the others wait for this rank
            failure = error
        outcomes = await publish(self._channel, self._slots, _DONE if failure is None else _FAILED, self._nbytes)
        if failure is not None:
            raise failure
        for rank, outcome in enumerate(outcomes):
            if outcome != _DONE:
                raise OtherError(f"{self._channel.where}: rank {rank} could not do its part; see the error there")

    def leave(self) -> None:
        """Close the windows: read no other one any more, and let the memory of this rank be used again."""
        # A traceback keeps the frames, which must not keep the memory.
        self.own = None
        self.views.clear()
        self._slots.retire()
