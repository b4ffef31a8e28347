"""Ranks that share slots, without a job: each has an engine of its own, and a test makes and polls the calls of all."""

from __future__ import annotations

import os
import struct
from types import SimpleNamespace
from typing import Any

from aiompi import core
from aiompi.coll.select import _DIRECT
from aiompi.coll.signature import note_of
from aiompi.core._native import LONG_PLACES, SLOTS_PREFIX, Request, SlotExchange, SlotExchanges, SlotGroup
from aiompi.errors import OtherError
from aiompi.wire import memory
from support.rings import RingPair

ROOM = 2048
CELLS, CELL, FIRST_CELL, SHORT = 16, 256, 128, 224
#: the words of a cell
STAMP, NOTE, CLAIM, LENGTH, CONTENT = range(0, 40, 8)


class Sync:
    """What slots know of their communicator."""

    def __init__(self) -> None:
        self.latest: Request[Any] | None = None
        self.listening = 0
        self.blamed: list[int] = []

    def listen(self, exchange: SlotExchange) -> None:
        self.listening += 1

    def hush(self) -> None:
        self.listening -= 1

    def blame(self, exchange: SlotExchange, rank: int, note: int, claim: int) -> Exception | None:
        self.blamed.append(rank)
        return OtherError(f"rank {rank} has called {note:#x}")


class Engine(core.ProgressBase):
    """What slots need of a rank."""

    def __init__(self, driver: Any = None) -> None:
        super().__init__(driver)
        self.rank = 0
        self.error: Exception | None = None
        self.stepping = self.degraded = False
        self.failures = 0
        self.slot_exchanges: list[Any] = []


class Members:
    """Ranks that share slots, each with an engine of its own, none with a driver that polls.

    Attributes:
        groups, comms, exchanges: by rank.
        driver: the driver of all.
        memories: their slots, in which a test may write what it likes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.memories = []
        for _ in range(size):
            fd, mapped = memory.create(SLOTS_PREFIX + LONG_PLACES * ROOM)
            os.close(fd)
            self.memories.append(memoryview(mapped))
        self.pairs = {(i, j): RingPair() for i in range(size) for j in range(i + 1, size)}
        self.driver = driver = SimpleNamespace(start_polling=lambda poller, first: False)
        self.engines = [Engine(driver) for _ in range(size)]
        self.exchanges = [SlotExchanges(driver, engine.slot_exchanges) for engine in self.engines]
        self.syncs = [Sync() for _ in range(size)]
        self.comms = [SimpleNamespace(collectives=0) for _ in range(size)]
        self.groups = []
        for rank in range(size):
            rings = [None if other == rank else self.ends(rank, other)[0] for other in range(size)]
            group = SlotGroup(
                self.engines[rank], self.exchanges[rank], 2, rank, ROOM, self.memories, rings, range(10, 10 + size)
            )
            group.use(self.syncs[rank], False, False)
            group.limit({note_of(name, None, None): ROOM // size for name in _DIRECT})
            self.groups.append(group)

    def ends(self, rank: int, other: int) -> tuple[Any, RingPair]:
        pair = self.pairs[min(rank, other), max(rank, other)]
        return pair.ends[rank > other], pair

    def rung(self, rank: int) -> bool:
        """Return True if another rank has woken this one since the last call."""
        found = False
        for (low, high), pair in self.pairs.items():
            if rank in (low, high):
                found |= pair.rung(rank == high)
        return found

    def call(self, rank: int, name: str, *args: Any) -> SlotExchange:
        exchange = getattr(self.groups[rank], name)(self.comms[rank], *args)
        assert exchange is not None
        exchange.attend()
        return exchange

    def word(self, rank: int, number: int, name: int) -> memoryview:
        """Return a word of the cell of a call."""
        start = FIRST_CELL + number % CELLS * CELL + name
        return self.memories[rank][start : start + 8].cast("Q")

    def post(self, rank: int, number: int, note: int, claim: int, content: bytes, length: int | None = None) -> None:
        """Post as a hostile rank does."""
        start = FIRST_CELL + number % CELLS * CELL
        fields = struct.pack("=QQQ", note, claim, len(content) if length is None else length)
        self.memories[rank][start + 8 : start + 32 + len(content)] = fields + content
        self.word(rank, number, STAMP)[0] = number

    def finish(self, *calls: SlotExchange) -> None:
        for _ in range(3):
            for exchanges in self.exchanges:
                exchanges.poll()
        assert all(call.done() for call in calls)
        for call in calls:
            call.result()

    def close(self) -> None:
        for group in self.groups:
            group.dissolve()
        for pair in self.pairs.values():
            pair.close()
