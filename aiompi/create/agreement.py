"""Agreement on the context identifiers of a new communicator (IMPI 0.0, section 4.3)."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aiompi.coll.signature import Signature
from aiompi.comm import Channel, Communicator
from aiompi.comm.contexts import MAX_CID, ContextIds
from aiompi.create.union import Union
from aiompi.engine import Request
from aiompi.errors import OtherError

T = TypeVar("T")

_LARGEST: Final = 2**64 - 1
_LEAP: Final = 2**16


class Agreement(ABC):
    """The way in which processes agree.

    Args:
        comm: from which the new communicator is made.
    """

    __slots__ = ("_comm",)

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    @abstractmethod
    async def reach(self, union: Union) -> int:
        """Find a pair of identifiers that none of the processes has used.

        Args:
            union: all processes that must agree.

        Returns:
            The even one, for point-to-point communication; the next one is for collectives.

        Raises:
            OtherError: there are no more identifiers.
        """

    @abstractmethod
    def end(self) -> None:
        """The constructor has ended."""

    def _none_left(self) -> OtherError:
        return OtherError(
            f"{self._comm.label}, rank {self._comm.rank}: out of context identifiers, of which there are {MAX_CID}, "
            "two for each communicator that is ever made"
        )


class NativeAgreement(Agreement):
    """Agreement of processes that reach each other natively, of which several may be under way.

    Each process proposes the lowest pair above all that it uses, and sets it aside. The largest proposal wins: that
    is the maximum over the processes, plus one and plus two, and whoever had proposed less raises its own maximum.
    If all had proposed the same, which is usual, one step is enough.

    Constructors may be under way on several communicators at once, even in different orders in different processes.
    So a process may be unable to take what wins, because another agreement has taken it there meanwhile: it then
    proposes a higher one, and all do another step. How much higher differs from process to process, so that two
    agreements do not go on getting into each other's way.

    In a job with other IMPI clients, communicators of one client stay outside the numbering of the others (`inner`).
    """

    __slots__ = ()

    async def reach(self, union: Union) -> int:
        comm = self._comm
        ids = comm.ids if _is_one_implementation(comm) else comm.ids.inner
        ids.begin()
        try:
            return await self._reach(union, ids, f"{comm.engine.rank} {ids.agreements}")
        finally:
            ids.end()

    async def _reach(self, union: Union, ids: ContextIds, who: str) -> int:
        pair, step = ids.propose(), 0
        while True:
            highest, lowest = await union.maximum(pair, _LARGEST - pair)
            if highest >= MAX_CID:
                raise self._none_left()
            if highest == _LARGEST - lowest:
                return highest
            step += 1
            if pair != highest:
                leap = zlib.crc32(f"{who} {step}".encode()) % _LEAP
                pair = highest if ids.take(highest) else ids.propose(leap)

    def end(self) -> None:
        """Nothing to do."""


class AgreementOverClients(Agreement):
    """Agreement as IMPI has it: the largest identifier that any of the processes uses, plus one and plus two.

    It takes one step, in which a process cannot tell whether another agreement of its own ends with the same. So those
    of one process run one after the other, in the order in which they were called for.
    """

    __slots__ = ("_before", "_ended")

    def __init__(self, comm: Communicator) -> None:
        super().__init__(comm)
        self._before: Request[None] | None = comm.ids.latest
        self._ended: Request[None] = Request(comm.engine)
        comm.ids.latest = self._ended

    async def reach(self, union: Union) -> int:
        if self._before is not None and not self._before.done():
            await self._before
        ids = self._comm.ids
        (highest,) = await union.maximum(ids.highest | 1)
        if highest >= MAX_CID - 1:
            raise self._none_left()
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
    over_clients: bool | None = None,
) -> Request[T]:
    """Start a constructor, as a collective on a communicator.

    Args:
        run: makes the coroutine of it.
        operation: its name, on which the processes must agree.
        over_clients: whether the processes agree as IMPI has it; by default if the communicator spans clients.
    """
    agreement = agreement_of(comm, over_clients)

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


def agreement_of(comm: Communicator, over_clients: bool | None = None) -> Agreement:
    """The way in which those agree who make a communicator out of this one; see `construct`."""
    if over_clients is None:
        over_clients = not comm.native
    return AgreementOverClients(comm) if over_clients else NativeAgreement(comm)


async def alike(union: Union, number: int) -> bool:
    """Whether all processes give the same number, 0..2**64-1."""
    highest, lowest = await union.maximum(number, _LARGEST - number)
    return highest == _LARGEST - lowest
