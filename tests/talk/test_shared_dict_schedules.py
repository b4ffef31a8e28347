"""Shared dicts in random schedules: members come, leave, are killed and cut off at every point between two messages.

The members have their real exchanges, on a communicator that delivers the next message of a pair when the schedule says
so. Each write adds a power of four to one key, so that the digits of a value say which writes are in it, and how often.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from aiompi.errors import InvalidRankError, ProcessFailedError
from aiompi.objects import Codec
from aiompi.talk.exchange import ExchangeOfTeam
from aiompi.talk.shared_dict import Dicts, newest

pytestmark = pytest.mark.asyncio


class Receive:
    """A receive of one message."""

    def __init__(self) -> None:
        self.message: memoryview | None = None
        self.callback: Callable[[Any], object] = lambda _: None
        self.is_cancelled = False

    def done(self) -> bool:
        return self.message is not None or self.is_cancelled

    def cancelled(self) -> bool:
        return self.is_cancelled

    def cancel(self) -> None:
        self.is_cancelled = True

    def exception(self) -> None:
        return None

    def result(self) -> memoryview | None:
        return self.message

    def when_done(self, callback: Callable[[Any], object]) -> None:
        self.callback = callback

    def complete(self, message: bytes) -> None:
        self.message = memoryview(message)
        self.callback(self)


class Network:
    """The messages of one world."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.under_way: defaultdict[tuple[int, int], deque[bytes]] = defaultdict(deque)
        self.receives: dict[tuple[int, int], Receive] = {}

    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs between which a message can be delivered."""
        return [pair for pair, messages in self.under_way.items() if messages and self.waiting(pair)]

    def waiting(self, pair: tuple[int, int]) -> bool:
        receive = self.receives.get(pair)
        return receive is not None and not receive.done()

    def deliver(self, pair: tuple[int, int]) -> None:
        self.receives[pair].complete(self.under_way[pair].popleft())


class Core:
    """The communicator of one rank."""

    def __init__(self, network: Network, rank: int) -> None:
        self.network, self.rank = network, rank
        self.engine = SimpleNamespace(recorder=None)

    def send(self, segments: Sequence[bytes], nbytes: int, rank: int, tag: int) -> Receive:
        self.network.under_way[self.rank, rank].append(b"".join(segments))
        sent = Receive()
        sent.message = memoryview(b"")
        return sent

    def irecv(self, memory: None, rank: int, tag: int, form: type) -> Receive:
        self.network.receives[rank, self.rank] = receive = Receive()
        return receive


class Member:
    """A member of a team, without a process."""

    def __init__(self, name: str) -> None:
        self.name, self.era = name, 0
        self.exchange = ExchangeOfTeam()
        self.dicts = Dicts(self.exchange, Codec())
        self.core: Any = None
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def value(self) -> int:
        return Codec().loads(self.dicts.copies.get("d", {}).get("k", b"\0"))

    def detach(self) -> None:
        self.core = None
        self.exchange.detach()

    def kill(self) -> None:
        self.detach()
        for task in self.tasks:
            task.cancel()


class Schedule:
    """A random course of events.

    Attributes:
        members: in the job, the oldest first. One of them stays all the time.
        cut_off: members that the job has expelled, and that do not know it.
        acknowledged: the digits of writes that have results.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.members = [Member(str(n)) for n in range(self.random.randint(2, 4))]
        self.stays = self.random.choice(self.members)
        self.cut_off: list[Member] = []
        self.networks: list[Network] = []
        self.acknowledged: set[int] = set()
        self.totals: list[int] = []
        self.written = self.joined = self.generation = 0

    async def run(self) -> None:
        await self.assemble(complete=True)
        events = [*[self.deliver] * 30, *[self.write] * 8, self.detach, self.cancel, self.change, self.cut]
        for _ in range(150):
            await self.random.choice(events)()
        self.members += self.cut_off
        for complete in (False, True):
            await self.assemble(complete)
        await self.settle()
        values = {member.value for member in self.members}
        assert len(values) == 1
        assert len({member.dicts.version for member in self.members}) == 1
        assert all(not member.tasks for member in self.members), "every write ends"
        digits = in_digits(values.pop())
        assert set(digits) <= {"0", "1"}, "no write is made twice"
        assert all(digits[-1 - n] == "1" for n in self.acknowledged), "no acknowledged write is lost"
        for before, after in zip(sorted(self.totals), sorted(self.totals)[1:], strict=False):
            assert before != after, "each write has its place in the order"
            assert set(in_digits(after - before)) <= {"0", "1"}, "the results are of one order"

    async def write(self) -> None:
        member = self.random.choice(self.members + self.cut_off)
        task = asyncio.create_task(self.add(member, self.written))
        self.written += 1
        member.tasks.add(task)
        task.add_done_callback(member.tasks.discard)
        await asyncio.sleep(0)

    async def add(self, member: Member, digit: int) -> None:
        with contextlib.suppress(ProcessFailedError, InvalidRankError):  # cut off, or not yet in a world
            total = await member.dicts.write("add", "d", "k", 4**digit, None)
            self.acknowledged.add(digit)
            self.totals.append(total)
            for each in self.members:
                if each.core is not None and each.core.network is self.networks[-1]:
                    assert in_digits(each.value)[-1 - digit] == "1", "an acknowledged write can be read at all members"

    async def deliver(self) -> None:
        pairs = [(network, pair) for network in self.networks for pair in network.pairs()]
        if pairs:
            network, pair = self.random.choice(pairs)
            network.deliver(pair)
            await asyncio.sleep(0)

    async def settle(self) -> None:
        """Deliver everything."""
        await asyncio.sleep(0)
        while any(network.pairs() for network in self.networks):
            await self.deliver()
        for _ in range(3):
            await asyncio.sleep(0)

    async def cancel(self) -> None:
        tasks = [task for member in self.members for task in member.tasks]
        if tasks:
            self.random.choice(tasks).cancel()
            await asyncio.sleep(0)

    async def detach(self) -> None:
        """A member learns of the next world before others do."""
        member = self.random.choice(self.members)
        if member.core is not None:
            member.detach()

    async def change(self) -> None:
        """Members come, leave, are killed, or come again; then there is a new world, perhaps not for all."""
        mortal = [member for member in self.members if member is not self.stays]
        if mortal and self.random.random() < 0.6:
            member = self.random.choice(mortal)
            self.members.remove(member)
            member.kill()
        if self.random.random() < 0.6:
            self.joined += 1
            self.members.append(Member(f"new {self.joined}"))
        if self.cut_off and self.random.random() < 0.5:
            self.members.append(self.cut_off.pop())
        if self.random.random() < 0.1:  # the job is served again, and members come in another order
            self.random.shuffle(self.members)
            self.generation = 0
            self.rejoin()
        await self.assemble(complete=self.random.random() < 0.6)

    def rejoin(self) -> None:
        for member in self.members + self.cut_off:
            member.era += bool(member.exchange.lines)

    async def cut(self) -> None:
        """The job expels a member, which goes on in its world for a while."""
        mortal = [member for member in self.members if member is not self.stays]
        if mortal:
            member = self.random.choice(mortal)
            self.members.remove(member)
            self.cut_off.append(member)
            await self.assemble(complete=self.random.random() < 0.6)

    async def assemble(self, complete: bool) -> None:
        """Go on in a new world, as `Team` does; if it is not complete, some members fail to introduce themselves."""
        members = self.members
        for member in members:
            if member.core is not None:
                member.detach()
        told = [(each.name, each.exchange.births(), each.era, each.dicts.version) for each in members]
        source, state = newest([version for *_, version in told]), None
        if source is not None:
            codec = Codec()
            state = b"".join(codec.dumps(members[source].dicts.state())[0])
        network = Network(len(members))
        self.networks = [*self.networks[-3:], network]
        names, era = [name for name, *_ in told], max(era for _, _, era, _ in told)
        self.generation += 1
        number = (era << 32) + self.generation
        for rank, member in enumerate(members):
            if complete or self.random.random() < 0.5:
                member.era = era
                member.core = Core(network, rank)
                member.dicts.adopt(number, names, rank, None if state is None else Codec().loads(state))
                member.exchange.attach(member.core, names, [births.get(member.name) for _, births, *_ in told], number)
                member.dicts.resume()
                assert all(in_digits(member.value)[-1 - n] == "1" for n in self.acknowledged), "a new member has all"
        await asyncio.sleep(0)


def in_digits(value: int) -> str:
    """Return a number to the base 4, with at least 200 digits."""
    digits = []
    while value:
        value, digit = divmod(value, 4)
        digits.append(str(digit))
    return "".join(reversed(digits)).rjust(200, "0")


@pytest.mark.parametrize("part", range(4))
async def test_no_acknowledged_write_is_lost_and_none_is_made_twice(part: int) -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    for seed in range(50 * part, 50 * part + 50):
        schedule = Schedule(seed)
        try:
            await schedule.run()
        except AssertionError as error:
            raise AssertionError(f"in schedule {seed}: {error}") from error
        assert not unhandled, f"in schedule {seed}"
    assert schedule.acknowledged
