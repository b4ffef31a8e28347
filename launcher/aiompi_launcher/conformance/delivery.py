"""Delivers scripts to the processes under test, and ends tests (section 5.3; protocol in README.md).

Delivery uses only MPI messages on COMM_WORLD. The master, the simulated process of the lowest rank, sends each process
under test a header of 4 MPI_INT, then the text as MPI_CHAR: the name of the script, a newline, the script. At the end
of a test the master sends DONE to all other processes. Each process answers with `done` and its level.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiompi_launcher.conformance.script import Level, Machine, Mpi, MPIFailure, ScriptError, parse
from aiompi_launcher.conformance.script.machine import Exit, Memory

HEADER_TAG: Final = 32000
TEXT_TAG: Final = 32001
DONE_TAG: Final = 32002
ANSWER_TAG: Final = 32003
LEVEL_TAG: Final = 32004
DONE: Final = b"DONE"
ANSWER: Final = b"done"
LONGEST_TEXT: Final = 2**20

#: name of the first test, which is built into the interpreter; in place of a script, its text is the pattern
FIRST_TEST: Final = "delivery"
PATTERN_LENGTHS: Final = (1, 95, 700)


class DeliveryError(Exception):
    """A message that carries a script is wrong; the text of the error says what arrived and what was expected."""


class Caller(Mpi, Protocol):
    """Calls that delivery needs besides those of scripts."""

    async def send(self, memory: Memory, count: int, datatype: Any, dest: int, tag: int, comm: Any) -> None: ...
    async def recv(self, memory: Memory, count: int, datatype: Any, source: int, tag: int, comm: Any) -> Any: ...
    async def comm_rank(self, comm: Any) -> int: ...

    def set_simulated(self, simulated: frozenset[int]) -> None:
        """Set the ranks that are simulated, for `TEST_simulated`."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A script as delivered.

    Attributes:
        number: number of the test, from 1; 0 for the first test.
        master: rank of its sender.
        first, count: the range of simulated ranks.
    """

    number: int
    master: int
    first: int
    count: int
    text: bytes

    @property
    def name(self) -> str:
        return self.text.partition(b"\n")[0].decode("ascii", "replace")

    @property
    def source(self) -> str:
        return self.text.partition(b"\n")[2].decode("ascii", "replace")


def pattern(length: int) -> bytes:
    """Return the text of the first test: its name, then `length` printable ASCII characters in a fixed pattern."""
    body = bytes(32 + (index + index // 95) % 95 for index in range(length))
    return FIRST_TEST.encode() + b"\n" + body


def check_pattern(text: bytes) -> str:
    """Return the error in the text of the first test, or an empty string."""
    wanted = pattern(len(text) - len(FIRST_TEST) - 1)
    for index, (actual, right) in enumerate(zip(text, wanted, strict=False)):
        if actual != right:
            return f"character {index} of {len(text)} is {actual:#04x}, not {right:#04x}"
    return "" if len(text) == len(wanted) else f"{len(text)} characters came, not {len(wanted)}"


class Line:
    """Sends and receives small messages between two processes.

    Args:
        mpi: calls of this process.
    """

    def __init__(self, mpi: Caller) -> None:
        self._mpi = mpi
        self._world = mpi.constant("MPI_COMM_WORLD")

    async def send(self, data: bytes, datatype: str, count: int, dest: int, tag: int) -> None:
        memory = Memory(memoryview(bytearray(data)))
        await self._mpi.send(memory, count, self._mpi.constant(datatype), dest, tag, self._world)

    async def receive(self, size: int, datatype: str, count: int, source: int, tag: int) -> tuple[bytes, int]:
        """Receive into memory; return it and the rank of the sender."""
        memory = bytearray(size)
        status = await self._mpi.recv(
            Memory(memoryview(memory)), count, self._mpi.constant(datatype), source, tag, self._world
        )
        return bytes(memory), int(status.source)

    # Scripts.

    async def deliver(self, delivery: Delivery, dest: int) -> None:
        """Send a script to a process under test."""
        header = struct.pack("4i", len(delivery.text), delivery.number, delivery.first, delivery.count)
        await self.send(header, "MPI_INT", 4, dest, HEADER_TAG)
        await self.send(delivery.text, "MPI_CHAR", len(delivery.text), dest, TEXT_TAG)

    async def accept(self) -> Delivery:
        """Wait for the next script.

        Raises:
            DeliveryError: the messages that come are no script.
        """
        header, master = await self.receive(16, "MPI_INT", 4, self._mpi.constant("MPI_ANY_SOURCE"), HEADER_TAG)
        length, number, first, count = struct.unpack("4i", header)
        if not 0 < length <= LONGEST_TEXT:
            swapped = int.from_bytes(header[:4], "big" if sys.byteorder == "little" else "little", signed=True)
            hint = f" ({swapped} with its bytes swapped: MPI_INT is sent big-endian)"
            raise DeliveryError(
                f"the header of a script says {length} characters; 1 to {LONGEST_TEXT} are possible"
                f"{hint if 0 < swapped <= LONGEST_TEXT else ''}"
            )
        text, _ = await self.receive(length, "MPI_CHAR", length, master, TEXT_TAG)
        return Delivery(number, master, first, count, text)

    # The end of a test.

    async def end(self, master: int, level: Level) -> None:
        """Receive DONE from the master; answer `done` and the level.

        Raises:
            DeliveryError: something else comes.
        """
        word, _ = await self.receive(4, "MPI_CHAR", 4, master, DONE_TAG)
        if word != DONE:
            raise DeliveryError(f"DONE was due at the end of the test, {word!r} came")
        await self.send(ANSWER, "MPI_CHAR", 4, master, ANSWER_TAG)
        await self.send(struct.pack("i", level), "MPI_INT", 1, master, LEVEL_TAG)

    async def collect(self, ranks: list[int], on_answer: Callable[[int], None]) -> dict[int, Level]:
        """As the master, send DONE to all others and receive their levels.

        Raises:
            DeliveryError: an answer is wrong.
        """
        for rank in ranks:
            await self.send(DONE, "MPI_CHAR", 4, rank, DONE_TAG)
        levels = {}
        for rank in ranks:
            word, _ = await self.receive(4, "MPI_CHAR", 4, rank, ANSWER_TAG)
            if word != ANSWER:
                raise DeliveryError(f"rank {rank} answers {word!r} to DONE, not {ANSWER!r}")
            number, _ = await self.receive(4, "MPI_INT", 1, rank, LEVEL_TAG)
            levels[rank] = Level(max(0, min(struct.unpack("i", number)[0], Level.FAIL)))
            on_answer(rank)
        return levels


class Console(Protocol):
    """Where a process under test prints."""

    def print(self, text: str) -> None: ...
    def report(self, text: str) -> None: ...


async def perform(delivery: Delivery, mpi: Caller, console: Console) -> tuple[Level, bool]:
    """Run a script in this process.

    Returns:
        The most severe thing that happened, and whether the interpreter is to end.
    """
    if delivery.number == 0:
        wrong = check_pattern(delivery.text)
        console.report(f"Result: Fail: {wrong}" if wrong else "Result: Pass")
        return (Level.FAIL if wrong else Level.NOTHING), False
    try:
        machine = Machine(parse(delivery.source), mpi, console)
    except ScriptError as error:
        console.report(f"Error in script {delivery.name}: {error}")
        return Level.INDETERMINATE, False
    return await run(machine, delivery.name, console)


async def run(machine: Machine, name: str, console: Console) -> tuple[Level, bool]:
    """Run a machine to its end; turn exceptions into a level."""
    try:
        await machine.run()
    except Exit:
        return machine.level, True
    except ScriptError as error:
        console.report(f"Error in script {name}: {error}")
        return max(machine.level, Level.INDETERMINATE), False
    except MPIFailure as error:
        console.report(f"Result: Fail: {error}")
        return Level.FAIL, False
    return machine.level, False


async def follow(mpi: Caller, console: Console) -> None:
    """In a process under test, receive and run scripts, and answer DONE after each, until a script exits.

    Raises:
        DeliveryError, MPIFailure: the implementation under test cannot even deliver scripts.
    """
    line = Line(mpi)
    rank = await mpi.comm_rank(mpi.constant("MPI_COMM_WORLD"))
    leaving = False
    while not leaving:
        delivery = await line.accept()
        mpi.set_simulated(frozenset(range(delivery.first, delivery.first + delivery.count)))
        level, leaving = await perform(delivery, mpi, console)
        console.print(f"END EXECUTING rank {rank}\n")
        await line.end(delivery.master, level)
        console.print(f"{delivery.name} rank {rank} done\n")
