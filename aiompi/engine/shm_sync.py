"""SlotExchanges: each of a few ranks posts something where all the others see it, and waits until all have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from aiompi.engine.request import Request

if TYPE_CHECKING:
    from aiompi.engine.seams import Driver


#: what a rank has posted: two numbers for others to compare, and the content
SlotEntry: TypeAlias = tuple[int, int, bytes]

#: bytes that can be posted in one of the first communicators of a job, up to which that takes less than to expose them;
#: and in one of the others, for which addresses are reserved as well
ROOM: Final = 32 * 2**10 - 64
LITTLE_ROOM: Final = 2 * 2**10 - 64
#: number of the first ones, more than which few programs make
FIRST_COMMUNICATORS: Final = 64

_ONCE: Final = range(1)


def ordinal(context: int) -> int:
    """Which of the communicators of a job it is, by its context id, which all members know: each has two of them."""
    return context // 2


def room(context: int) -> int:
    """Bytes that the members of a communicator can post, by its context id."""
    return ROOM if ordinal(context) < FIRST_COMMUNICATORS else LITTLE_ROOM


class SlotExchange(Request[list[SlotEntry]]):
    """Complete when all others have posted; the result is what they have, in their order.

    What others have posted may be overwritten after this rank has posted in the next round.
    """

    __slots__ = ()

    @abstractmethod
    def ready(self) -> bool:
        """Whether all have posted by now."""

    @abstractmethod
    def absent(self) -> list[int]:
        """World ranks of those who have not posted by now."""

    @abstractmethod
    def watch(self) -> bool:
        """Be woken by whoever posts last; False when all have posted by now."""

    @abstractmethod
    def end(self) -> None:
        """All have posted."""

    def cancel(self) -> bool:
        """A posting cannot be taken back: others may have seen it."""
        return False


class SlotExchanges:
    """Those in which a rank has posted, and others have not. They are looked at together before it sleeps.

    They are asked before all links: it takes less time, and a rank that has posted mostly waits for nothing else.

    Args:
        driver: of the rank.
    """

    __slots__ = ("_driver", "_lingering", "_open")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lingering = False
        self._open: list[SlotExchange] = []

    def __iter__(self) -> Iterator[SlotExchange]:
        return iter([*self._open])

    def add(self, current: SlotExchange) -> None:
        """Wait for the others of a round."""
        self._lingering = self._lingering or self._driver.start_polling(self, first=True)
        self._open.append(current)
        if not self._lingering and not current.watch():
            self.poll()

    def remove(self, current: SlotExchange) -> None:
        """Wait no longer."""
        self._open.remove(current)

    def clear(self) -> None:
        """Wait for nobody any more."""
        self._open.clear()

    def poll(self, looks: range = _ONCE) -> bool:
        """See which are complete; whether one is.

        Args:
            looks: how often to look at most.
        """
        if not self._open:
            return False  # most often: it stays among those who are asked for a while
        found = False
        for _ in looks:
            for current in [*self._open]:
                # One at a time: the end of one may fail the others. It is removed when its end is told, not before: a
                # signal handler that raises here must not leave a round that nobody looks at any more.
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
        """Whether nothing is under way (see `aiompi.engine.seams.Poller`)."""
        return not self._open

    def rest(self) -> bool:
        """Be woken from now on (see `aiompi.engine.seams.Poller`)."""
        watching = [current.watch() for current in self._open]
        self._lingering = not all(watching)
        if self._lingering:
            self.poll()
        return not self._lingering
