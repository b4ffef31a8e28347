"""Windows in shared memory: each member of a communicator shows a block, which all others read.

A short block goes into the slot of the member (`shm_sync`). A long block goes into memory that all members read, the
window, and the slot holds its position. Each member leaves the window when it has read enough.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from aiompi.coll.block import Block
from aiompi.coll.shm_slots import Content, post
from aiompi.coll.shm_sync import meet, meet_with_objects, take_pause, together
from aiompi.comm import Channel
from aiompi.engine import SlotGroup
from aiompi.errors import OtherError

#: is given what each rank shows
Look: TypeAlias = Callable[[Sequence[Content]], None]

_WORD = 8
_DONE, _FAILED = b"\1", b"\0"


def exhibit(channel: Channel, block: Block, look: Look) -> Coroutine[Any, None, bool]:
    """Show what a block holds, and look at what those of all ranks do.

    A block is as long as those of all others; see `exhibit_written`. For objects see `exhibit_short`.
    """
    value, nbytes, room = block.memory, block.nbytes, channel.room
    if value is None:
        return exhibit_short(channel, lambda: b"".join(block.payload) if nbytes <= room else b"", look)
    if nbytes <= room:
        return _post(channel, bytes(value), look)

    def write(memory: memoryview) -> None:
        memory[:] = value

    return _expose(channel, nbytes, write, look)


def exhibit_written(
    channel: Channel, nbytes: int, write: Callable[[memoryview], None], look: Look
) -> Coroutine[Any, None, bool]:
    """Show something, and look at what all show.

    Args:
        nbytes: that each rank shows.
        write: puts it into memory of this length.
        look: is given what each rank shows, its own included, which is there until it returns.

    Returns:
        False, on all ranks alike, if they cannot do that, or not yet, or not all have memory for it.

    Raises:
        InvalidRootError, InvalidOpError, OtherError, InvalidCountError: as `aiompi.coll.shm_slots.post`.
        ProcessFailedError: a rank is dead.
    """
    if nbytes > channel.room:
        return _expose(channel, nbytes, write, look)
    own = memoryview(bytearray(nbytes))
    write(own)
    return _post(channel, own, look)


def exhibit_short(channel: Channel, make: Callable[[], Content], look: Look) -> Coroutine[Any, None, bool]:
    """Show the messages of objects, if they are short on all ranks.

    Args:
        make: that of this rank, in at most `Channel.room` bytes; empty if it is longer.
        look: is given those of all ranks.

    Returns:
        False, on all ranks alike, if they cannot do that, or not yet, or one message is too long, or was lately.

    Raises:
        InvalidRootError, InvalidOpError, OtherError: as `aiompi.coll.shm_slots.post`.
        ProcessFailedError: a rank is dead.
    """
    return _show_nothing() if take_pause(channel) else _show(channel, make, look)


async def _show_nothing() -> bool:
    return False


async def _show(channel: Channel, make: Callable[[], Content], look: Look) -> bool:
    contents = await meet_with_objects(channel, make)
    if contents is None:
        return False
    look(contents)
    return True


async def _post(channel: Channel, own: Content, look: Look) -> bool:
    contents = await meet(channel, own, len(own))
    if contents is None:
        return False
    look(contents)
    return True


async def _expose(channel: Channel, nbytes: int, write: Callable[[memoryview], None], look: Look) -> bool:
    async def act(assembly: SlotGroup) -> bool:
        window = ShmWindow(channel, assembly, nbytes)
        try:
            if window.own is not None:
                write(window.own)
            if not await window.open():
                return False
            look(window.views)
            return True
        finally:
            window.leave()

    return bool(await together(channel, act))


class ShmWindow:
    """What all expose in a call, for this rank. At its end it must be left, whatever has happened.

    Args:
        channel: of the call.
        assembly: of the members.
        nbytes: that each exposes.

    Attributes:
        own: memory of this rank, None if it has none for this.
        views: by rank, what all show, of which this one may still write its own.
    """

    __slots__ = ("_assembly", "_channel", "_nbytes", "_place", "own", "views")

    def __init__(self, channel: Channel, assembly: SlotGroup, nbytes: int) -> None:
        self._channel = channel
        self._assembly = assembly
        self._nbytes = nbytes
        exhibit = assembly.exhibit(nbytes)
        self._place = b"" if exhibit is None else exhibit.place.to_bytes(_WORD)
        self.own = None if exhibit is None else exhibit.memory
        self.views: list[memoryview] = []

    def show(self, value: memoryview, but: slice) -> None:
        """Put a value into the own memory, if there is any, but for a segment that nobody else looks at."""
        if self.own is not None:
            self.own[: but.start] = value[: but.start]
            self.own[but.stop :] = value[but.stop :]

    async def open(self) -> bool:
        """Show what is in the own memory; False, on all ranks alike, if one of them has no memory for it.

        Raises:
            InvalidRootError, InvalidOpError, OtherError, InvalidCountError: as `aiompi.coll.shm_slots.post`.
            RemoteProtocolError: a rank shows something that is not there.
            ProcessFailedError: a rank is dead.
        """
        places = await post(self._channel, self._assembly, self._place, self._nbytes)
        if not all(places) or self.own is None:
            return False
        del places[self._channel.rank]
        # Now, because a rank that has read enough may leave the job, and its memory with it.
        read, nbytes = self._assembly.read, self._nbytes
        self.views += [read(member, int.from_bytes(place), nbytes) for member, place in enumerate(places)]
        self.views.insert(self._channel.rank, self.own)
        return True

    async def work(self, task: Callable[[], None]) -> None:
        """Do what the others wait for, and wait until each has done that.

        Raises:
            Exception: of the task.
            OtherError: that of another rank has failed.
        """
        failure = None
        try:
            task()
        except BaseException as error:  # an interrupt, too: the others wait for this rank
            failure = error
        outcomes = await post(self._channel, self._assembly, _DONE if failure is None else _FAILED, self._nbytes)
        if failure is not None:
            raise failure
        for rank, outcome in enumerate(outcomes):
            if outcome != _DONE:
                raise OtherError(f"{self._channel.where}: rank {rank} could not do its part; see the error there")

    def leave(self) -> None:
        """Look at nothing any more, and show nothing."""
        # An error keeps the frames that it came through, but shall not keep the memory.
        self.own = None
        self.views.clear()
        self._assembly.retire()
