"""`Contenders`: the started jobs that take turns. A job that fails is left out, and the others continue."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

from aiompi.bench.contender import BenchError, Conversation, bind, cores
from aiompi.bench.osu.peers import OURS, Peer

T = TypeVar("T")

#: seconds that a failed contender gets to end
_GRACE: Final = 1.0


class LeftOut(Protocol):
    """Callback for a contender that is left out."""

    def __call__(self, name: str, error: BenchError, begun: bool) -> None:
        """Report a failure. `begun` is True if the contender had been started before it failed."""


class Contenders:
    """The contenders that take turns.

    Args:
        peers: all peers by name.
        left_out: called when a contender fails. A failure of aiompi ends the command, as nothing is left to compare.
    """

    def __init__(self, peers: Mapping[str, Peer], left_out: LeftOut) -> None:
        self._peers = peers
        self._left_out = left_out
        self._there: dict[str, Conversation] = {}
        self._begun: set[str] = set()
        self._gone: set[str] = set()

    @property
    def names(self) -> list[str]:
        """Names of the contenders that run."""
        return list(self._there)

    @contextlib.contextmanager
    def started(self, names: Collection[str], ranks: int) -> Iterator[None]:
        """Return a context in which the named contenders run, except contenders that have failed before.

        Raises:
            BenchError: aiompi did not start.
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
        """Call `do` for one contender after the other. Return the results, without contenders that fail.

        Raises:
            BenchError: aiompi failed.
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
