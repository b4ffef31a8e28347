"""Accounts: what a rank tells about what it waits for, and what follows when all ranks have told.

Ranks give them when AIOMPI_DEBUG is set; the launcher asks for them, puts them together and prints the result.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

#: characters of each text, and waits and members, that an account holds at most
MAX_TEXT: Final = 300
MAX_WAITS: Final = 16
MAX_MEMBERS: Final = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """An operation that a call of the program waits for.

    Attributes:
        call: name and arguments, such as "Recv(source=1, tag=5)".
        place: where in the program the call is that waits, such as "app.py:12".
        seconds: since when.
        comm: what messages call the communicator; empty if there is none.
        on: ranks of the world that it waits for; empty if that is not known, or any will do.
        algorithm: of a collective; may be empty.
        context: of the communicator, with `number` what ranks have in common that are in the same collective.
        number: of a collective, counted on its communicator from 1; 0 for other calls.
        members: of the communicator of a collective, ranks of the world.
        within: when it was started by an earlier call: where, and what waits for it now.
    """

    call: str
    place: str
    seconds: float
    comm: str = ""
    on: tuple[int, ...] = ()
    algorithm: str = ""
    context: int = -1
    number: int = 0
    members: tuple[int, ...] = ()
    within: str = ""

    @property
    def title(self) -> str:
        """Which call it is."""
        number = f" #{self.number}" if self.number else ""
        return f"{self.call}{number} on {self.comm}" if self.comm else self.call

    @property
    def collective(self) -> tuple[int, int] | None:
        """Which collective it is, for all ranks the same; None for another call."""
        return (self.context, self.number) if self.number else None

    def __str__(self) -> str:
        reason = f", waiting for {_ranks(self.on)}" if self.on else ""
        algorithm = f" ({self.algorithm})" if self.algorithm else ""
        within = f" {self.within}" if self.within else ""
        return f"{self.title}{algorithm}{within} at {self.place} for {self.seconds:.1f} s{reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """What a rank tells.

    Attributes:
        waits: its calls that wait.
        counts: how many collectives it has called, by the contexts of the communicators that it has used.
        last: its last call that has ended, if none waits.
    """

    waits: tuple[Wait, ...] = ()
    counts: Mapping[int, int] = dataclasses.field(default_factory=dict)
    last: str = ""

    def pack(self) -> dict[str, Any]:
        """As msgpack types."""
        waits = [dataclasses.astuple(wait) for wait in self.waits[:MAX_WAITS]]
        return {"waits": waits, "counts": list(self.counts.items()), "last": self.last[:MAX_TEXT]}

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Account:
        """The account that was packed; an empty one if it cannot be read."""
        try:
            waits = tuple(itertools.starmap(_wait, packed["waits"][:MAX_WAITS]))
            return cls(waits, {int(context): int(count) for context, count in packed["counts"]}, str(packed["last"]))
        except (KeyError, OverflowError, TypeError, ValueError):
            return cls()


def _wait(
    call: Any,
    place: Any,
    seconds: Any,
    comm: Any,
    on: Any,
    algorithm: Any,
    context: Any,
    number: Any,
    members: Any,
    within: Any,
) -> Wait:
    return Wait(
        str(call)[:MAX_TEXT],
        str(place)[:MAX_TEXT],
        float(seconds),
        str(comm)[:MAX_TEXT],
        tuple(map(int, on[:MAX_MEMBERS])),
        str(algorithm)[:MAX_TEXT],
        int(context),
        int(number),
        tuple(map(int, members[:MAX_MEMBERS])),
        str(within)[:MAX_TEXT],
    )


def compare(accounts: Mapping[int, Account], silent: Sequence[int]) -> str:
    """What the ranks do, and what follows: who has not come to a collective, and who wait for each other.

    Args:
        accounts: by rank of the world.
        silent: ranks that were asked and have not answered.

    Returns:
        Lines for the user.
    """
    lines = ["some ranks have been waiting for a while; this is what all do:"]
    for rank in sorted({*accounts, *silent}):
        lines += (f"  rank {rank}: {line}" for line in _state(accounts.get(rank)))
    lines += _findings(accounts, silent)
    return "\n".join(lines)


def _state(account: Account | None) -> list[str]:
    if account is None:
        return ["no answer: it computes, or waits for something else, and makes no MPI call"]
    if account.waits:
        return [str(wait) for wait in account.waits]
    return [f"in no MPI call; {account.last}" if account.last else "in no MPI call"]


def _findings(accounts: Mapping[int, Account], silent: Sequence[int]) -> Iterator[str]:
    seen = set()
    for account in accounts.values():
        for wait in account.waits:
            if wait.collective is not None and wait.collective not in seen:
                seen.add(wait.collective)
                yield from _absent(wait, accounts, silent)
    yield from _circle(accounts)


def _absent(wait: Wait, accounts: Mapping[int, Account], silent: Sequence[int]) -> Iterator[str]:
    """Who of the members of a collective is not in it."""
    for rank in wait.members:
        account = accounts.get(rank)
        if account is None:
            if rank in silent:
                yield f"rank {rank} may not have come to {wait.title}: it does not answer"
            continue
        own = [other for other in account.waits if other.collective == wait.collective]
        where = "; ".join(f"it is in {other.title} at {other.place}" for other in account.waits)
        where = where or f"it is {_state(account)[0]}"
        if any(other.call != wait.call for other in own):
            yield f"ranks disagree: rank {rank} has called {own[0].title} at {own[0].place}, others {wait.title}"
        elif not own and account.counts.get(wait.context, 0) < wait.number:
            yield f"rank {rank} has not come to {wait.title}: {where}"
        elif not own and any(rank in other.on for other in _waits_in(wait, accounts)):
            yield f"rank {rank} is past {wait.title}, where others wait for it: {where}"


def _waits_in(wait: Wait, accounts: Mapping[int, Account]) -> Iterator[Wait]:
    for account in accounts.values():
        yield from (other for other in account.waits if other.collective == wait.collective)


def _circle(accounts: Mapping[int, Account]) -> Iterator[str]:
    """Ranks with a single wait each, for one rank each, that wait for each other in a circle."""
    waits_for = {
        rank: account.waits[0].on[0]
        for rank, account in accounts.items()
        if len(account.waits) == 1 and len(account.waits[0].on) == 1
    }
    left = set(waits_for)
    while left:
        path = [left.pop()]
        while (following := waits_for.get(path[-1])) in left:
            left.discard(following)
            path.append(following)
        if following in path:
            circle = path[path.index(following) :]
            circle = circle[(first := circle.index(min(circle))) :] + circle[:first]
            steps = (f"rank {rank} for rank {waits_for[rank]}" for rank in circle)
            yield f"ranks wait in a circle: {', '.join(steps)}"


def _ranks(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"rank{'s' if len(numbers) > 1 else ''} {shown}"
