"""Agreement on the context identifiers of a new communicator (IMPI 0.0, section 4.3)."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aiompi.coll.signature import Signature
from aiompi.comm import Channel, Communicator
from aiompi.comm.contexts import MAX_CID, ContextIds
from aiompi.create.impi import ImpiOneGroup, ImpiTwoGroups
from aiompi.create.participants import OneGroup, Participants, TwoGroups
from aiompi.engine import Request
from aiompi.errors import OtherError

T = TypeVar("T")

_LARGEST: Final = 2**64 - 1
_LEAP: Final = 2**16


class Agreement(ABC):
    """A protocol by which processes agree on the identifiers of a new communicator.

    Args:
        comm: communicator from which the new one is made.

    Attributes:
        alike: True if all processes have given `reach` the same number. Always True in the protocol of IMPI, which does
            not compare the numbers.
    """

    __slots__ = ("_comm", "alike")

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.alike = True

    @abstractmethod
    async def reach(self, participants: Participants, number: int = 0) -> int:
        """Find a pair of identifiers that none of the processes has used.

        Args:
            participants: the processes that must agree.
            number: 0..2**64-1; the processes compare their numbers without an extra message (see `alike`).

        Returns:
            The even identifier, for point-to-point communication; collectives use the next one.

        Raises:
            OtherError: no identifier is left.
        """

    @abstractmethod
    def end(self) -> None:
        """Record that the constructor has ended."""


def none_left(comm: Communicator) -> OtherError:
    """Return the error of a communicator that cannot be made."""
    return OtherError(
        f"{comm.label}, rank {comm.rank}: out of context identifiers, of which there are {MAX_CID}, two for each "
        "communicator that is ever made"
    )


class NativeAgreement(Agreement):
    """The protocol of processes that exchange native messages; several agreements may be in progress at once.

    Each process proposes the lowest pair above all its identifiers, and reserves it. The largest proposal wins. A
    process with a lower proposal raises its own maximum. Usually all processes propose the same pair, and one step is
    enough.

    Constructors may run on several communicators at once, in a different order in each process. So another agreement
    may already have taken the winning pair at a process. This process then proposes a higher pair, and all processes do
    another step. The distance to the higher pair differs from process to process, so that two agreements do not collide
    repeatedly.

    In a job with other IMPI clients, communicators within one client take their identifiers from a separate range
    (`ContextIds.inner`).
    """

    __slots__ = ()

    async def reach(self, participants: Participants, number: int = 0) -> int:
        comm = self._comm
        ids = comm.ids if _is_one_implementation(comm) else comm.ids.inner
        ids.begin()
        try:
            return await self._reach(participants, ids, number, f"{comm.engine.rank} {ids.agreements}")
        finally:
            ids.end()

    async def _reach(self, participants: Participants, ids: ContextIds, number: int, seed: str) -> int:
        pair, step = ids.propose(), 0
        while True:
            highest, lowest, most, least = await participants.maximum(pair, _LARGEST - pair, number, _LARGEST - number)
            self.alike = most == _LARGEST - least
            if highest >= MAX_CID:
                raise none_left(self._comm)
            if highest == _LARGEST - lowest:
                return highest
            step += 1
            if pair != highest:
                leap = zlib.crc32(f"{seed} {step}".encode()) % _LEAP
                pair = highest if ids.take(highest) else ids.propose(leap)

    def end(self) -> None:
        """Do nothing: native agreements are independent of each other."""


class ImpiAgreement(Agreement):
    """The protocol of IMPI: the new identifiers follow the largest identifier that any of the processes uses.

    The protocol has one step, so two overlapping agreements of a process could end with the same identifiers. Therefore
    the agreements of a process run one after the other, in the order of the calls.
    """

    __slots__ = ("_before", "_ended")

    def __init__(self, comm: Communicator) -> None:
        super().__init__(comm)
        self._before: Request[None] | None = comm.ids.latest
        self._ended: Request[None] = Request(comm.engine)
        comm.ids.latest = self._ended

    async def reach(self, participants: Participants, number: int = 0) -> int:
        if self._before is not None and not self._before.done():
            await self._before
        ids = self._comm.ids
        (highest,) = await participants.maximum(ids.highest | 1)
        if highest >= MAX_CID - 1:
            raise none_left(self._comm)
        ids.highest = highest + 2
        return highest + 1

    def end(self) -> None:
        if not self._ended.done():
            self._ended.complete()


def _is_one_implementation(comm: Communicator) -> bool:
    universe = comm.engine.universe
    return universe is None or universe.native or len(universe.clients) < 2


def construct(
    comm: Communicator,
    run: Callable[[Channel, Agreement], Coroutine[Any, None, T]],
    operation: str,
    spans_clients: bool | None = None,
) -> Request[T]:
    """Start a constructor, as a collective on a communicator.

    Args:
        run: function that makes the coroutine of the constructor.
        operation: name of the constructor, on which the processes must agree.
        spans_clients: True to use the protocol of IMPI, False to use the native protocol; by default the protocol of
            IMPI if the communicator spans clients.
    """
    agreement = agreement_of(comm, spans_clients)

    async def collective(channel: Channel) -> T:
        try:
            return await run(channel, agreement)
        finally:
            agreement.end()

    try:
        return comm.start_on(comm.channel(operation, Signature.of(operation).note), collective)
    except BaseException:
        agreement.end()
        raise


def agreement_of(comm: Communicator, spans_clients: bool | None = None) -> Agreement:
    """Return the protocol for communicators made from this one; see `construct`."""
    if spans_clients is None:
        spans_clients = not comm.native
    return ImpiAgreement(comm) if spans_clients else NativeAgreement(comm)


async def alike(participants: Participants, number: int) -> bool:
    """Return True if all processes give the same number, 0..2**64-1."""
    highest, lowest = await participants.maximum(number, _LARGEST - number)
    return highest == _LARGEST - lowest


def participants_of(channel: Channel) -> Participants:
    """Return the processes that call a constructor on a communicator.

    Args:
        channel: channel of the call; on an intercommunicator it leads to the remote group.
    """
    native, local = channel.comm.native, channel.local
    if local is channel:
        return OneGroup(channel) if native else ImpiOneGroup(channel)
    return (TwoGroups if native else ImpiTwoGroups)(local, channel)
