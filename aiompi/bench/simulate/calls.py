"""Calls of the collectives with contributions that have a length and no content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from aiompi.bench.simulate.network import Model, Network, Node
from aiompi.coll.accumulator import Accumulator
from aiompi.coll.block import Block
from aiompi.coll.registry import COLLECTIVES
from aiompi.core.allocation import allocate


class Shade(Block):
    """A block that has only a length. All ranks share its memory, and no rank reads or writes it."""

    __slots__ = ()

    def part(self, start: int, stop: int) -> Shade:
        assert self.memory is not None
        return Shade(self.memory[start:stop])

    def copy(self, other: Block) -> None:
        """Do nothing: the model has no cost for copies."""


class ShadeAccumulator(Accumulator):
    """A vector of bytes without values.

    Args:
        node: rank, which is busy while it combines.
        memory: memory of the length of the vector.
    """

    __slots__ = ("_memory", "_node")

    def __init__(self, node: Node, memory: memoryview) -> None:
        self._node = node
        self._memory = memory

    @property
    def count(self) -> int:
        return len(self._memory)

    @property
    def memory(self) -> memoryview:
        return self._memory

    def block(self) -> Block:
        return Shade(self._memory)

    def incoming(self) -> Block:
        return self.block()

    def room(self) -> Block:
        return self.block()

    def started(self, room: Block) -> ShadeAccumulator:
        return self

    def replacement(self) -> Block:
        return self.block()

    def absorb(self, lower: bool) -> None:
        self._node.combine(len(self._memory))

    def take(self, room: Block, lower: bool) -> None:
        self.absorb(lower)

    def adopt(self) -> None:
        pass

    def combine(self, contributions: Sequence[bytes | memoryview]) -> None:
        """Do nothing: simulated ranks share no memory."""

    def part(self, start: int, stop: int) -> ShadeAccumulator:
        return ShadeAccumulator(self._node, self._memory[start:stop])

    def join(self, *parts: Accumulator) -> None:
        pass

    def keep(self, part: Accumulator) -> None:
        assert isinstance(part, ShadeAccumulator)
        self._memory = part._memory


# Functions that return the arguments of an algorithm on a rank, from memory of the length of its block or vector.
Arguments: TypeAlias = Callable[[Node, memoryview], tuple[Any, ...]]


def _blocks(node: Node, memory: memoryview) -> list[Block]:
    return [Shade(memory) for _ in range(node.size)]


def _at_root(node: Node, memory: memoryview) -> list[Block] | None:
    return None if node.rank else _blocks(node, memory)


def _segments(node: Node, memory: memoryview) -> list[int]:
    """Return their lengths, as equal as possible."""
    length, size = len(memory), node.size
    return [(rank + 1) * length // size - rank * length // size for rank in range(size)]


ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "barrier": lambda node, memory: (),
    "bcast": lambda node, memory: (Shade(memory), 0),
    "gather": lambda node, memory: (Shade(memory), _at_root(node, memory), 0),
    "scatter": lambda node, memory: (_at_root(node, memory), Shade(memory), 0),
    "allgather": lambda node, memory: (_blocks(node, memory),),
    "alltoall": lambda node, memory: (_blocks(node, memory), _blocks(node, memory)),
    "reduce": lambda node, memory: (ShadeAccumulator(node, memory), 0),
    "allreduce": lambda node, memory: (ShadeAccumulator(node, memory),),
    "reduce_scatter": lambda node, memory: (ShadeAccumulator(node, memory), _segments(node, memory)),
    "scan": lambda node, memory: (ShadeAccumulator(node, memory),),
    "exscan": lambda node, memory: (ShadeAccumulator(node, memory),),
}


def predict(collective: str, algorithm: str, size: int, nbytes: int, model: Model) -> float:
    """Return the predicted seconds of a call.

    Args:
        collective, algorithm: names in the registry.
        size: number of ranks.
        nbytes: bytes of one rank's block, or of the vector.
        model: model of the network.
    """
    run = COLLECTIVES[collective].algorithm(algorithm).run
    arguments, memory = ARGUMENTS[collective], allocate(nbytes)
    return Network(size, model).run(lambda node: run(node, *arguments(node, memory)))  # type: ignore[arg-type]
