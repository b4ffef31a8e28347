"""Type signatures: the sequence of basic types in a type map (sections 3.12 and 3.12.5).

A signature is stored as it was built: as parts with repetition counts. A billion repetitions of a struct are one part,
so a signature needs no more memory than the calls that made it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from aiompi.constants import UNDEFINED
from aiompi.datatype.arguments import Integers

if TYPE_CHECKING:
    from aiompi.datatype.datatype import Datatype

# The fingerprint of a sequence is a polynomial whose coefficients represent the basic types. The fingerprints of
# repetitions and concatenations follow from those of the parts. Two different sequences have equal fingerprints with a
# probability of length / _MODULUS.
_MODULUS: Final = 2**127 - 1
_POINT: Final = 0x5851F42D4C957F2D14057B7EF767814F


class Signature:
    """A sequence of basic types. Two signatures are equal if their sequences are, however they were built.

    Iteration yields maximal runs `(basic, n)`: the basic type `n` times.

    Attributes:
        size: size of all elements, bytes.
        count: number of basic elements.
    """

    __slots__ = ("_basic", "_known", "_parts", "count", "size")

    _basic: Datatype | None
    _parts: tuple[tuple[Signature, int], ...]
    _known: int | None
    size: int
    count: int

    @classmethod
    def of(cls, basic: Datatype, name: str, size: int) -> Signature:
        """Return the signature of the basic type with a name and a size in bytes."""
        self = cls.__new__(cls)
        digest = hashlib.blake2b(name.encode(), digest_size=15).digest()
        self._basic, self._parts, self.size, self.count = basic, (), size, 1
        self._known = int.from_bytes(digest)
        return self

    @classmethod
    def _of_parts(cls, parts: tuple[tuple[Signature, int], ...]) -> Signature:
        if len(parts) == 1 and parts[0][1] == 1:
            return parts[0][0]
        self = cls.__new__(cls)
        self._basic, self._parts = None, parts
        self.size = sum(part.size * n for part, n in parts)
        self.count = sum(part.count * n for part, n in parts)
        self._known = None
        if len(parts) > 1:  # now, because signatures may be nested too deeply for recursion later
            self._known = self._fingerprint
        return self

    @property
    def _fingerprint(self) -> int:
        """Hash of the sequence; for repetitions of one part it is computed at the first use."""
        if self._known is None:
            self._known = 0
            for part, n in self._parts:
                repeated = part._fingerprint * _series(part.count, n)
                self._known = (self._known * _power(part.count * n) + repeated) % _MODULUS
        return self._known

    def repeat(self, count: int, stride: int = 0) -> Signature:
        """Return the sequence repeated `count` times. `stride`, which other forms of a type map need, has no effect."""
        if count == 0 or not self.count:
            return EMPTY
        if len(self._parts) == 1:
            ((part, n),) = self._parts
            return Signature._of_parts(((part, n * count),))
        return Signature._of_parts(((self, count),))

    def place(self, displacements: Integers, lengths: Integers | int, extent: int) -> Signature:
        """Return the sequence once for each copy in all blocks."""
        if isinstance(lengths, int):
            return self.repeat(lengths * displacements.size)
        longest = int(lengths.max(initial=0))
        return self.repeat(int(lengths.sum()) if longest * lengths.size < 2**63 else sum(lengths.tolist()))

    def shift(self, nbytes: int) -> Signature:
        return self

    @staticmethod
    def concat(parts: Iterable[Signature]) -> Signature:
        """Return the concatenation of several signatures."""
        merged: list[tuple[Signature, int]] = []
        for signature in parts:
            if not signature.count:
                continue
            part, n = signature._parts[0] if len(signature._parts) == 1 else (signature, 1)
            if merged and merged[-1][0] == part:
                n += merged.pop()[1]
            merged.append((part, n))
        return Signature._of_parts(tuple(merged))

    def elements(self, nbytes: int, external: bool = False) -> int:
        """Return the number of basic elements in a message of `nbytes` bytes, whose items have this signature.

        Args:
            nbytes: length of the message, which may hold any number of items.
            external: True if the message is in external32.

        Returns:
            The number of elements; UNDEFINED if the message ends within an element, or if it has bytes but the items
            have no elements.
        """
        size_of: Callable[[Signature], int] = Signature._external_size if external else attrgetter("size")
        size = size_of(self)
        if size == 0:
            return 0 if nbytes == 0 else UNDEFINED
        items, rest = divmod(nbytes, size)
        found = items * self.count
        node = self
        while rest:
            if node._basic is not None:
                return UNDEFINED
            for part, n in node._parts:
                size = size_of(part)
                if rest < size * n:
                    break
                rest -= size * n
                found += part.count * n
            items, rest = divmod(rest, size)
            found += items * part.count
            node = part
        return found

    def _external_size(self) -> int:
        if self._basic is not None:
            return self._basic.external.size
        return sum(part._external_size() * n for part, n in self._parts)

    def nbytes(self, elements: int) -> int:
        """Inverse of `elements()`: return the length of a message of `elements` basic elements.

        Raises:
            ValueError: the type has no elements.
        """
        if elements and not self.count:
            raise ValueError(f"a message of {elements} elements cannot be made of a type without elements")
        total, node = 0, self
        while elements:
            items, elements = divmod(elements, node.count)
            total += items * node.size
            for part, n in node._parts:
                if elements < part.count * n:
                    break
                elements -= part.count * n
                total += part.size * n
            else:
                break
            node = part
        return total

    def __iter__(self) -> Iterator[tuple[Datatype, int]]:
        run: Datatype | None = None
        length = 0
        for basic, n in self._runs():
            if basic is run:
                length += n
                continue
            if run is not None:
                yield run, length
            run, length = basic, n
        if run is not None:
            yield run, length

    def _runs(self) -> Iterator[tuple[Datatype, int]]:
        """Yield runs; neighbouring runs may have the same basic type."""
        stack: list[Iterator[tuple[Signature, int]]] = [iter([(self, 1)])]
        while stack:
            for part, n in stack[-1]:
                if part._basic is not None:
                    yield part._basic, n
                    continue
                stack.append(iter(part._parts) if n == 1 else itertools.repeat((part, 1), n))
                break
            else:
                stack.pop()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Signature):
            return NotImplemented
        return self is other or (
            (self.count, self.size) == (other.count, other.size) and self._fingerprint == other._fingerprint
        )

    def __hash__(self) -> int:
        return hash((self._fingerprint, self.count))

    def __repr__(self) -> str:
        if self._basic is not None:
            return self._basic.name
        return "(" + ", ".join(f"{n} x {part!r}" for part, n in self._parts) + ")"


@functools.lru_cache(maxsize=1024)
def _power(count: int) -> int:
    return pow(_POINT, count, _MODULUS)


@functools.lru_cache(maxsize=1024)
def _series(count: int, n: int) -> int:
    """Return 1 + x + ... + x**(n - 1) modulo _MODULUS, where x is `_power(count)`."""
    return (_power(count * n) - 1) * pow(_power(count) - 1, -1, _MODULUS) % _MODULUS


EMPTY: Final = Signature._of_parts(())
