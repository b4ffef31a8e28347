"""Those who take turns: started one by one, and left out when they fail, so that the others go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

from aiompi.bench.contender import BenchError, Conversation, bind, cores
from aiompi.bench.osu.peers import OURS, Peer

T = TypeVar("T")

#: seconds that who has failed gets to end
_GRACE: Final = 1.0


class LeftOut(Protocol):
    """Is told of somebody who is left out."""

    def __call__(self, name: str, error: BenchError, begun: bool) -> None:
        """Begun: whether it had been started before, and has failed since."""


class Endpoint:
    """Those who take turns.

    Args:
        peers: all of them by name.
        left_out: is told who has failed, unless it is one of ours, without whom there is nothing to compare.
    """

    def __init__(self, peers: Mapping[str, Peer], left_out: LeftOut) -> None:
        self._peers = peers
        self._left_out = left_out
        self._there: dict[str, Conversation] = {}
        self._begun: set[str] = set()
        self._gone: set[str] = set()

    @property
    def names(self) -> list[str]:
        """Those who are there."""
        return list(self._there)

    @contextlib.contextmanager
    def started(self, names: Collection[str], ranks: int) -> Iterator[None]:
        """A block in which those of these names are there who have not failed before.

        Raises:
            BenchError: one of ours did not start.
        """
        with contextlib.ExitStack() as stack:
            for name in names:
                if name not in self._gone:
                    self._there[name] = stack.enter_context(Conversation(self._peers[name].start(ranks)))
                    self.each([name], lambda _, one: bind([one], cores()[:ranks]))
            self._begun.update(self._there)
            yield
            self._there.clear()

    def each(self, names: Iterable[str], do: Callable[[str, Conversation], T]) -> dict[str, T]:
        """What comes of these, one after the other; who fails is left out from then on.

        Raises:
            BenchError: one of ours failed.
        """
        found = {}
        for name in names:
            if name in self._there:
                try:
                    found[name] = do(name, self._there[name])
                except BenchError as error:
                    self._leave_out(name, error)
        return found

    def _leave_out(self, name: str, error: BenchError) -> None:
        if name in OURS:
            raise error
        self._there.pop(name).close(_GRACE)
        self._gone.add(name)
        self._left_out(name, error, name in self._begun)
