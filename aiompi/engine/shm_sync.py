"""Slot exchanges: each of a few ranks fills a slot that all the others see, and waits until all have done so.

Collectives on ranks that share memory are made of them. `SlotProvider` and `SlotGroup` are implemented by the
transport of shared memory; `SlotExchanges` holds the exchanges in progress of a rank.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from aiompi.engine.request import Request

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.seams import Driver


#: the content of a slot: two numbers for the other ranks to compare, and bytes
SlotEntry: TypeAlias = tuple[int, int, bytes]
#: memory of this rank that other ranks read: where they find it, and its bytes
WindowBlock: TypeAlias = tuple[int, memoryview]

#: bytes of a slot in the first communicators of a job; longer blocks are exposed, which is faster for them
ROOM: Final = 32 * 2**10 - 64
#: bytes of a slot in all other communicators, for which addresses are reserved as well
LITTLE_ROOM: Final = 2 * 2**10 - 64
#: number of the first communicators. Few programs make more.
FIRST_COMMUNICATORS: Final = 64

_ONCE: Final = range(1)


def ordinal(context: int) -> int:
    """Return the number of a communicator in its job. All members know its context id; each has two of them."""
    return context // 2


def room(context: int) -> int:
    """Return the bytes of a slot in a communicator, by its context id."""
    return ROOM if ordinal(context) < FIRST_COMMUNICATORS else LITTLE_ROOM


class SlotGroup(Protocol):
    """Ranks that each have a slot which all the others see."""

    def publish(self, content: bytes | memoryview, note: int, claim: int) -> SlotExchange:
        """Fill the slot of the next round. The round before must be complete.

        Args:
            content: at most `room` bytes.
            note, claim: numbers beside it.
        """

    def allocate(self, nbytes: int) -> WindowBlock | None:
        """Return memory that all others read once this rank has sent its place; None if that is impossible.

        Nothing is written into it after `retire`. It is used again when all members have called that.
        """

    def read(self, member: int, place: int, nbytes: int) -> memoryview:
        """Return the memory of a window of another member.

        Args:
            member: its position among the others.
            place: where it is, as that member has told in its slot.

        Raises:
            RemoteProtocolError: it shares no such memory.
        """

    def retire(self) -> None:
        """Read no more of the windows of others, and write no more into that of this rank."""


class SlotProvider(Protocol):
    """Memory of this rank that others read: slots, long messages, and messages to several of them."""

    def affords(self, context: int, peers: Sequence[Endpoint]) -> bool:
        """Return True if this process has descriptors and addresses for `assemble`. Nothing is opened for it yet."""

    def assemble(self, context: int, peers: Sequence[Endpoint]) -> SlotGroup | None:
        """Prepare the slots of a communicator; None if not all members see the others' slots, or not yet.

        Args:
            context: id of the communicator.
            peers: all members but this rank.
        """


class SlotExchange(Request[list[SlotEntry]]):
    """One round: complete when all others have filled their slots. The result is the entries in their order.

    The slots may be overwritten after this rank has filled its own in the next round.

    Attributes:
        context: id of the communicator.
    """

    context: int

    __slots__ = ("context",)

    @abstractmethod
    def ready(self) -> bool:
        """Return True if all others have filled their slots by now."""

    @abstractmethod
    def absent(self) -> list[int]:
        """Return the world ranks that have not filled their slots by now."""

    @abstractmethod
    def watch(self) -> bool:
        """Ask the last rank to wake this one; return False if all have filled their slots by now."""

    @abstractmethod
    def end(self) -> None:
        """Complete the exchange: all have filled their slots."""

    def cancel(self) -> bool:
        """Do nothing: other ranks may have seen the slot."""
        return False


class SlotExchanges:
    """The exchanges in which this rank has filled its slot, and others have not. All are polled before it sleeps.

    They are polled before all links: that takes less time, and a rank in an exchange mostly waits for nothing else.

    Args:
        driver: the driver of the rank.
    """

    __slots__ = ("_driver", "_lingering", "_open")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lingering = False
        self._open: list[SlotExchange] = []

    def __iter__(self) -> Iterator[SlotExchange]:
        return iter([*self._open])

    def add(self, current: SlotExchange) -> None:
        """Wait for the others of an exchange."""
        self._lingering = self._lingering or self._driver.start_polling(self, first=True)
        self._open.append(current)
        if not self._lingering and not current.watch():
            self.poll()

    def remove(self, current: SlotExchange) -> None:
        """Wait for this exchange no longer."""
        self._open.remove(current)

    def clear(self) -> None:
        """Wait for no exchange any more."""
        self._open.clear()

    def poll(self, looks: range = _ONCE) -> bool:
        """Complete the exchanges that are ready; return True if one was.

        Args:
            looks: how often to look at most.
        """
        if not self._open:
            return False  # the usual case: this object stays among the pollers for a while
        found = False
        for _ in looks:
            for current in [*self._open]:
                # One at a time: the end of one may fail the others. It is removed only after its waiters were told: a
                # signal handler that raises here must not leave an exchange that is polled no more.
                if current._done or current.ready():
                    if not current._done:
                        current.end()
                    if current in self._open:
                        self._open.remove(current)
                    found = True
            if found or not self._open:
                break
        return found

    def stale(self) -> bool:
        """Return True if no exchange is in progress (see `aiompi.engine.seams.Poller`)."""
        return not self._open

    def rest(self) -> bool:
        """Be woken from now on (see `aiompi.engine.seams.Poller`)."""
        watching = [current.watch() for current in self._open]
        self._lingering = not all(watching)
        if self._lingering:
            self.poll()
        return not self._lingering
