"""`Processes`: the processes that a rank knows, in its world and outside of it (MPI-2, chapter 5).

Within a rank each process has a number: its rank in the world, or a number from FIRST_MET on. Processes that the rank
meets later, such as spawned processes, get numbers from FIRST_MET on. These numbers are never used twice, and mean
nothing to other ranks. All processes understand the `Name` of a process: its job, and its number in that job.

Processes meet by an introduction, which gives each process the name and the business card of the others, and a
`Namespace`. With the key of the namespace each process proves to the others that it is the introduced process. The
agent of a job gives its processes the keys of other jobs for such proofs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from aiompi.engine.obituaries import Obituaries
from aiompi.errors import InvalidGroupError
from aiompi.wire.control import BusinessCard
from aiompi.wire.hello import NO_NAMESPACE, Namespace

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine

#: the first number of processes outside the world
FIRST_MET: Final = 2**40


class Name(NamedTuple):
    """A process, as all processes name it.

    Attributes:
        job: id of its job.
        process: its number in the job, unique for the lifetime of the job.
    """

    job: bytes
    process: int


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program that several ranks of a new world run.

    Attributes:
        argv: executable and arguments.
        count: number of ranks.
        directory: working directory; empty for the working directory of this process.
        environ: variables added to the environment of this process.
        hosts: the name of each machine and its number of ranks; empty for this machine.
    """

    argv: tuple[str, ...]
    count: int = 1
    directory: str = ""
    environ: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hosts: tuple[tuple[str, int], ...] = ()


class Processes:
    """The processes that a rank knows.

    Args:
        engine: the engine of the rank.

    Attributes:
        job: id of the job.
        first: number that rank 0 of the world has in the job. The other ranks of the world have the next numbers.
        namespaces: the namespaces in which other processes may address this process, by id.
        cards: business cards by number.
        expecting: operations that wait for the introduction of a process.
        ports: the ports that this process has opened, by their names.
        obituaries: why processes of spawned jobs have failed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.job = NO_NAMESPACE
        self.first = 0
        self.namespaces: dict[bytes, Namespace] = {}
        self.cards: dict[int, BusinessCard] = {}
        self.expecting: set[object] = set()
        self.ports: dict[str, Namespace] = {}
        self.obituaries = Obituaries(engine.environment)
        self._next = FIRST_MET
        self._names: dict[int, Name] = {}  # of the processes that were met
        self._numbers: dict[Name, int] = {}
        # By the number of a process: its namespaces, with its index in each. Messages use the last one.
        self._addresses: dict[int, list[tuple[Namespace, int]]] = {}
        self._references: dict[int, int] = {}  # number of a met process -> count of the communicators that refer to it
        self._gone: set[int] = set()  # processes that were met and have left their job or failed

    def enrol(self, job: bytes, key: bytes, first: int, pairs: bytes = b"") -> None:
        """Record the job of this rank, before any communication.

        Args:
            job: its id.
            key: the key that all ranks of the job share; empty if each pair of ranks has a key of its own.
            first: number that rank 0 of the world has in the job.
            pairs: keys that this rank shares with each rank of the world.
        """
        self.job, self.first = job, first
        self.namespaces[job] = Namespace(job, key, first + self._engine.rank, pairs=pairs, first=first)

    @property
    def own(self) -> Name:
        """The name of this process."""
        return Name(self.job, self.first + self._engine.rank)

    def name(self, number: int) -> Name:
        """Return the name of a process.

        Raises:
            InvalidGroupError: it was forgotten.
        """
        if not self.knows(number):
            raise InvalidGroupError(f"a group has {self.label(number)}: no communicator refers to it any more")
        return self._names[number] if number >= FIRST_MET else Name(self.job, self.first + number)

    def knows(self, number: int) -> bool:
        """Return True unless the process was forgotten."""
        return number < FIRST_MET or number in self._names

    @property
    def has_met(self) -> bool:
        """True if this rank knows processes that are not of its world."""
        return bool(self._names)

    def number(self, name: Name) -> int | None:
        """Return the number of a process, None if this rank does not know it."""
        if name.job == self.job and 0 <= name.process - self.first < self._engine.size:
            return name.process - self.first
        return self._numbers.get(name)

    def of_job(self, process: int) -> int | None:
        """Return the number of a process of the job of this rank, None if this rank does not know it."""
        return self.number(Name(self.job, process))

    def is_stranger(self, number: int) -> bool:
        """Return True for a process of another job, and for a forgotten process."""
        return not self.knows(number) or self.name(number).job != self.job

    def label(self, number: int) -> str:
        """Return what error messages call a process."""
        if number < FIRST_MET:
            return f"rank {number}"
        name = self._names.get(number)
        if name is None:
            return "a process that was forgotten"
        return f"process {name.process}" + ("" if name.job == self.job else f" of job {name.job.hex()[:8]}")

    # Connections.

    def namespace_of(self, number: int) -> tuple[Namespace, int]:
        """Return the namespace in which a process is addressed, and the index of the process in this namespace."""
        addresses = self._addresses.get(number)
        return addresses[-1] if addresses else (self.namespaces[self.job], self.name(number).process)

    def caller(self, namespace: bytes, index: int) -> int | None:
        """Return the number of a connecting process, None if it is unknown or is this rank itself.

        Args:
            namespace: id of the namespace whose key the process has proven.
            index: its index there.
        """
        if namespace == self.job:
            number = self.of_job(index)
        else:
            known = self.namespaces.get(namespace)
            number = None if known is None else known.number(index)
        return None if number == self._engine.rank else number

    # Meeting and forgetting.

    def meet(self, name: Name, card: BusinessCard, namespace: Namespace, index: int) -> int:
        """Record an introduced process; return its number. A process that is known already keeps its number.

        Args:
            namespace: the namespace for addressing a process of another job.
            index: its index there.
        """
        number = self.number(name)
        if number is None or (number >= FIRST_MET and not self._is_there(number)):
            number, self._next = self._next, self._next + 1
            self._names[number] = name
            self._numbers[name] = number
            self.cards[number] = card
            self._references[number] = 0
        if name.job != self.job:
            self._addresses.setdefault(number, []).append((namespace, index))
            self.namespaces[namespace.id] = namespace
            namespace.members[index] = number
        return number

    def _is_there(self, number: int) -> bool:
        peer = self._engine.known_peer(number)
        return number not in self._gone and (peer is None or (peer.error is None and peer.finalize_error is None))

    def retain(self, numbers: Iterable[int]) -> list[int]:
        """Count a communicator's references to processes; return the processes outside the world, for `release`."""
        met = [number for number in numbers if number >= FIRST_MET]
        for number in met:
            self._references[number] += 1
        return met

    def release(self, met: Iterable[int]) -> None:
        """Record that a communicator no longer refers to these processes, which may now be forgotten."""
        for number in met:
            self._references[number] -= 1
            self.forget_unused(number)

    def gone(self, number: int) -> bool:
        """Record that a process has left its job or failed; return True if this rank has forgotten the process."""
        if number < FIRST_MET:
            return False
        if number in self._names:
            self._gone.add(number)
            self.forget_unused(number)
        return number not in self._names

    def forget_unused(self, number: int) -> None:
        """Forget a process to which nothing refers.

        A process of this job is forgotten only after its end: until then it may send messages on communicators that it
        has not freed.
        """
        name = self._names.get(number)
        if name is None or self._references[number] or (name.job == self.job and number not in self._gone):
            return
        del self._names[number], self._references[number], self.cards[number]
        starters = self.obituaries.starters
        if name.job in starters and all(other.job != name.job for other in self._names.values()):
            del starters[name.job]
        self._gone.discard(number)
        if self._numbers.get(name) == number:
            del self._numbers[name]
        for namespace, index in self._addresses.pop(number, ()):
            del namespace.members[index]
            if not namespace.members and not namespace.open:
                self.namespaces.pop(namespace.id, None)
        peer = self._engine.forget(number)
        if peer is not None:
            self._engine.environment.forgotten(peer)
