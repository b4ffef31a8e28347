"""Two processes, on two cores, exchange messages of all lengths through one pair of rings, to show wrong memory orders.

    python tests/core/order.py COUNT SEED [READER READER]

Each process sends COUNT messages to the other one: empty ones, of one cache line and of several, that go round the end
of the ring, that are streamed because they are longer than it, and that both processes copy by the kernel, of which the
sender changes some before they are copied. The content of each is compared, and their order. A READER is "spins" or
"sleeps", or "both": what a process does when it finds nothing. By default all pairs take a turn. The headers of
aiompi/core/native argue why the order is right.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from aiompi.core._native import Assistance, Outgoing, PeerProcess
from aiompi.wire import frame
from aiompi.wire.frame import HEADER
from support.frames import Header
from support.rings import RingPair

RING: Final = 2**16
WHOLE: Final = RING // 4
READERS: Final = ("spins", "sleeps", "both")
#: messages that are prepared, and taken in turn
PREPARED: Final = 4096
SHORT: Final = (0, 1, 8, 8, 8, 15, 16, 17, 64, 79, 80, 81)
LINES: Final = (100, 500, 1000, 3000)
NOISE: Final = random.Random(0).randbytes(2**20)
#: bytes that both processes copy
COPIED: Final = (100_000, 300_000, 500_000)


class Message:
    """A message that is prepared."""

    def __init__(self, index: int, chance: random.Random, copied: bool) -> None:
        kind = chance.random()
        self.copied = copied and kind > 0.999
        if kind < 0.9:
            nbytes = chance.choice(SHORT)
        elif kind < 0.985:
            nbytes = chance.choice(LINES)
        elif kind < 0.995:
            nbytes = chance.randrange(WHOLE)
        else:
            nbytes = chance.choice(COPIED) if self.copied else chance.randrange(WHOLE, 2 * RING)
        start = chance.randrange(len(NOISE) - nbytes)
        self.content = NOISE[start : start + nbytes]
        self.short = nbytes <= WHOLE and not self.copied
        cut = chance.randrange(nbytes + 1) if nbytes > 100 else 0
        self.pieces = [self.content[:cut], self.content[cut:]] if cut else [self.content]
        kind = frame.RTS if self.copied else frame.EAGER
        self.header = HEADER.pack(*Header(kind, index, length=nbytes))
        self.data = HEADER.pack(*Header(frame.DATA, index, length=nbytes))


class Place:
    """Where a streamed message goes."""

    def __init__(self, end: End, header: Header) -> None:
        self._end, self._header = end, header
        self._memory, self.filled = memoryview(bytearray(header.length)), 0

    def room(self) -> memoryview:
        return self._memory[self.filled :]

    def advance(self, nbytes: int) -> None:
        if self.filled == len(self._memory):
            self._end.take(self._header.kind, self._header.tag, self._memory)


class End:
    """One process: sends and receives, and looks again or sleeps when it can do neither."""

    def __init__(self, pair: RingPair, index: int, pid: int, count: int, seed: int, reader: str) -> None:
        self.pair, self.index, self.count, self.reader = pair, index, count, reader
        self.ring = pair.ends[index]
        self.ring.process = self.process = PeerProcess(pid)
        if self.process.reachable:
            self.ring.copies()
        self.chance = random.Random(f"{seed} {index}")
        tables = [random.Random(f"{seed} {number} messages") for number in range(2)]
        self.outgoing, self.incoming = (
            [Message(i, tables[number], True) for i in range(PREPARED)] for number in (index, 1 - index)
        )
        self.sent = self.received = self.copied = self.asked = self.slept = 0
        self.answers: deque[Outgoing] = deque()
        self.part: Outgoing | None = None
        self.shown: tuple[Message, bytearray] | None = None
        self.ended = self.told = self.blocked = False

    # What comes.

    def frame(self, header: tuple[int, ...], payload: Any) -> None:
        if header[0] == frame.EAGER:
            self.take(header[0], header[1], payload)
            return
        found = Header(*header)
        if found.kind == frame.DATA:
            self.take(found.kind, found.tag, payload)
        elif found.kind == frame.FINI:
            self.ended = True
        elif found.kind == frame.INVITE:
            self.assist(found)
        else:
            self.answered(found.kind)

    def land(self, header: tuple[int, ...]) -> Place:
        return Place(self, Header(*header))

    def take(self, kind: int, tag: int, payload: Any) -> None:
        if kind == frame.EAGER:
            assert tag == self.received % PREPARED, f"{tag} comes as number {self.received}"
            self.received += 1
        content = self.incoming[tag].content
        assert bytes(payload) == content, f"message {tag} of {len(content)} bytes is wrong, or has {len(payload)}"

    def offer(self, header: tuple[int, ...], offer: Any) -> None:
        """Copy a message, in most cases beside its sender."""
        found = Header(*header)
        assert found.tag == self.received % PREPARED
        self.received += 1
        memory = memoryview(bytearray(found.length))
        invited = offer.invite(memory) if self.chance.random() < 0.8 else None
        if invited is not None and self.part is None:
            number, address = invited
            said = Header(frame.INVITE, number, length=found.length, drqid=address)
            self.ring.put(HEADER.pack(*said), [])  # where there is no room, this process copies all
        done = 0
        while done < found.length:
            done = offer.copy(memory, done, self.chance.choice((10_000, 2**40)), found.length)
        offer.close()
        right = offer.stands()
        if right:
            assert bytes(memory) == self.incoming[found.tag].content, f"message {self.received - 1} is copied wrongly"
            self.copied += 1
        self.answers.append(Outgoing(HEADER.pack(*Header(frame.SYNCACK if right else frame.CTS)), []))

    # What goes.

    def assist(self, invitation: Header) -> None:
        """Write parts of the message that the other process copies."""
        if self.shown is not None:
            memory = memoryview(self.shown[1])
            pieces = [memory[:100], memory[100:]]
            assistance = Assistance(
                self.process, pieces, invitation.length, invitation.drqid, invitation.tag, self.ring
            )
            while assistance.write(self.chance.choice((2**17, 2**40))):
                pass

    def show(self, message: Message) -> bool:
        """Let the other process copy a message."""
        memory = bytearray(message.content)
        view = memoryview(memory)
        if not self.ring.expose(message.header, [view[:100], view[100:]]):
            return False
        self.shown = message, memory
        if self.chance.random() < 0.3:
            for _ in range(self.chance.choice((0, 100, 1000, 10_000))):
                pass
            self.change()
        return True

    def change(self) -> None:
        """Change memory that the other process may copy."""
        assert self.shown is not None
        self.ring.retract()
        self.shown[1][:] = bytes(len(self.shown[1]))

    def answered(self, kind: int) -> None:
        """Use the memory of a copied message again, and send the message if the other one has asked for it."""
        assert self.shown is not None
        message = self.shown[0]
        self.change()
        self.shown = None
        if kind == frame.CTS:
            self.asked += 1
            self.answers.append(Outgoing(message.data, message.pieces))

    def send(self) -> bool:
        """Write what there is room for; return True if anything was written."""
        before, put = self.ring.written, self.ring.put
        while True:
            while self.part is None and not self.answers and self.sent < self.count:
                message = self.outgoing[self.sent % PREPARED]
                if not message.short:
                    break
                if not put(message.header, message.pieces):
                    self.blocked = True
                    return self.ring.written != before
                self.sent += 1
            if not self._sent_one():
                return self.ring.written != before

    def _sent_one(self) -> bool:
        ring = self.ring
        self.blocked = True
        if self.part is None and self.answers:
            self.part = self.answers.popleft()
        if self.part is not None:
            ring.write(self.part, 2**40)
            if not self.part.done:
                return False
            self.part = None
            return True
        if self.sent == self.count:
            if self.shown is None and not self.told:
                self.told = ring.put(HEADER.pack(*Header(frame.FINI)), [])
                return self.told
            self.blocked = not self.told and self.shown is None
            return False
        message = self.outgoing[self.sent % PREPARED]
        if message.copied and ring.peer_copies and self.shown is not None:
            self.blocked = False  # one at a time
            return False
        if message.copied and ring.peer_copies:
            if not self.show(message):
                return False
        else:
            header = HEADER.pack(*Header(frame.EAGER, self.sent % PREPARED, length=len(message.content)))
            self.part = Outgoing(header, message.pieces)
        self.sent += 1
        return True

    # The loop.

    def run(self) -> None:
        idle = 0
        budgets = [self.chance.choice((1, 5000, 2**40, 2**40, 2**40)) for _ in range(101)]
        for turn in itertools.count():
            if self.ring.pending:
                self.ring.read(self, budgets[turn % len(budgets)])
                self.send()
            elif not self.send():
                if self.ended and self.told and self.part is None and not self.answers:
                    return
                if self.reader == "sleeps" or (self.reader == "both" and self.chance.random() < 0.5):
                    self.sleep()
                    continue
                self.ring.read(self, 1)  # which tells the other process of room
                idle += 1
                if idle % 1000 == 0:
                    os.sched_yield()  # there may be one core for both

    def sleep(self) -> None:
        """Sleep until the other process wakes this one, unless there is something to do."""
        if self.blocked and not self.ring.want():
            return
        if self.ring.watch():
            self.slept += 1
            assert self.pair.sleep(self.index), "there is something to do, and this process was not woken"


def exchange(count: int, seed: int, readers: tuple[str, str]) -> list[str]:
    """Let two processes exchange messages; return what they say."""
    pair, parent = RingPair(RING), os.getpid()
    hear, say = os.pipe()
    child = os.fork()
    index = int(not child)
    end = End(pair, index, child or parent, count, seed, readers[index])
    if not child:
        code = 1
        try:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with its parent, whatever that finds
            end.run()
            os.write(say, f"{end.received} {end.copied} {end.asked} {end.slept}".encode())
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    end.run()
    os.close(say)
    assert os.waitpid(child, 0)[1] == 0
    with open(hear, encoding="ascii") as other:
        said = other.read()
    pair.close()
    return [f"{end.received} {end.copied} {end.asked} {end.slept}", said]


def main() -> None:
    """Do what the command line asks for."""
    count, seed, *readers = sys.argv[1:]
    for pair in [tuple(readers)] if readers else itertools.combinations_with_replacement(READERS, 2):
        began = time.monotonic()
        found = exchange(int(count), int(seed), pair)
        for reader, text in zip(pair, found, strict=True):
            received, copied, asked, slept = text.split()
            assert received == count
            print(f"{reader}: {received} received, {copied} copied, {asked} of its own asked for, {slept} times asleep")
        print(f"{time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
