"""The array of structures of examples 3.34 and 3.35 (4.17 and 4.18 of MPI-3.1), as C lays it out.

struct Partstruct {
    int class;
    double d[6];
    char b[7];
} particle[1000];
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from aiompi.datatype import CHAR, DOUBLE, INT, Datatype

Particles: TypeAlias = np.ndarray[Any, np.dtype[np.void]]

PARTSTRUCT = np.dtype([("class", np.intc), ("d", np.double, 6), ("b", np.byte, 7)], align=True)
COUNT = 1000
UNTOUCHED = 0x55  # in every byte of memory that nothing was received into


def particles() -> Particles:
    """Particles of classes 0 to 2, some of class 0 next to each other."""
    random = np.random.default_rng(334)
    made = blank(COUNT)
    made["class"] = random.integers(0, 3, COUNT)
    made["d"] = random.random((COUNT, 6))
    made["b"] = random.integers(-128, 128, (COUNT, 7))
    return made


def blank(count: int) -> Particles:
    return np.full(count * PARTSTRUCT.itemsize, UNTOUCHED, np.uint8).view(PARTSTRUCT)


def particle_struct(displacements: Sequence[int]) -> Datatype:
    """Type of a structure whose components are at these displacements, or addresses."""
    return Datatype.Create_struct([1, 6, 7], displacements, [INT, DOUBLE, CHAR])


def class_zero_one_by_one(particle: Particles) -> tuple[list[int], list[int]]:
    """Block lengths and indices of the particles of class 0: a block for each."""
    indices = np.flatnonzero(particle["class"] == 0).tolist()
    return [1] * len(indices), indices


def class_zero_in_blocks(particle: Particles) -> tuple[list[int], list[int]]:
    """Block lengths and indices of the particles of class 0: a block for all that are next to each other."""
    lengths: list[int] = []
    indices: list[int] = []
    previous = False
    for index, zero in enumerate((particle["class"] == 0).tolist()):
        if zero and previous:
            lengths[-1] += 1
        elif zero:
            lengths.append(1)
            indices.append(index)
        previous = zero
    return lengths, indices


def check_received(received: Particles, sent: Particles) -> None:
    """Check that particles are those sent, with their padding untouched, and that no other memory was touched."""
    expected = blank(len(received))
    for field in ("class", "d", "b"):
        expected[field][: len(sent)] = sent[field]
    assert received.tobytes() == expected.tobytes()
