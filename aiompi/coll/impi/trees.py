"""The two trees of chapter 4 of IMPI 0.0, over numbers 0..n-1 with the root 0, and the functions that make them.

Barrier and Bcast use the tree of highest bits, in which the parent of a number is the number without its highest bit.
Gather, Gatherv and Reduce use the tree of lowest bits, with the number without its lowest bit as the parent. For n = 8:

    highest bits            lowest bits

          0                       0
        / | \\                   / | \\
       1  2  4                 1  2  4
      /|  |                       |  |\\
     3 5  6                       3  5 6
     |                                 |
     7                                 7
"""

from __future__ import annotations


def cubedim(n: int) -> int:
    """Smallest i with 2**i >= n; -1 for n <= 0 (section 4.2)."""
    return (n - 1).bit_length() if n > 0 else -1


def highbit(r: int, dim: int) -> int:
    """Position of the highest bit that is set among the low `dim` bits of r, -1 if there is none (section 4.2)."""
    return (r & ((1 << dim) - 1)).bit_length() - 1


def high_parent(number: int) -> int:
    """The number without its highest bit."""
    return number ^ (1 << highbit(number, number.bit_length()))


def high_children(number: int, n: int) -> list[int]:
    """The children below n in the tree of highest bits, the one with the smallest bit first."""
    dim = cubedim(n)
    children = [number | 1 << bit for bit in range(highbit(number, dim) + 1, dim)]
    return [child for child in children if child < n]


def low_parent(number: int) -> int:
    """The number without its lowest bit."""
    return number & (number - 1)


def low_children(number: int, n: int) -> list[int]:
    """The children below n in the tree of lowest bits, the one with the smallest bit first.

    Below a child c of 0 are the numbers c..2c-1.
    """
    lowest = number & -number or 1 << cubedim(n)
    children = [number | 1 << bit for bit in range(cubedim(lowest))]
    return [child for child in children if child < n]
