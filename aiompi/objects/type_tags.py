"""Type tags: the Python type that an array of the msgpack body represents.

msgpack has one array type. A message with arrays that are not lists therefore begins with a string of type tags, one
byte for each array, in the order in which the arrays end. So msgpack's C code does most of the work: the sender packs
tuples without a copy, and the receiver converts each array with one call.

Objects of NumPy are packed as extension types, which need no tags. So msgpack packs a dict with a NumPy array directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

LIST: Final = 0
TUPLE: Final = 1
SET: Final = 2
FROZENSET: Final = 3
PAIRS: Final = 4  # key, value, key, value...: a dict with keys that msgpack cannot hold
COMPLEX: Final = 5  # real, imaginary
INTEGER: Final = 6  # two's complement, little-endian: an int beyond 64 bits
BYTES: Final = 7  # payload
BYTEARRAY: Final = 8  # payload
MEMORYVIEW: Final = 9  # read-only, format, payload, *shape
RANGE: Final = 10  # start, stop, step
SLICE: Final = 11  # start, stop, step
DATACLASS: Final = 12  # module:qualname, *values of the fields
#: codes of msgpack's extension types, whose bytes are a msgpack array of these items
ARRAY: Final = 1  # dtype, Fortran order, payload, *shape
SCALAR: Final = 2  # dtype, bytes
#: most bits of the numbers of a range; computing its length divides them
RANGE_BITS: Final = 4096
#: most dimensions of an array, as of NumPy and memoryview
_DIMENSIONS: Final = 64
_INT: Final = frozenset({int})
# A payload is the bytes themselves, or None for the next buffer after the body.


def is_shape(shape: Sequence[Any]) -> bool:
    """Return True for the lengths of an array along its dimensions."""
    possible = len(shape) <= _DIMENSIONS and _INT.issuperset(map(type, shape))
    return possible and min(shape, default=0) >= 0 and max(shape, default=0) < 2**63


class InexpressibleError(Exception):
    """An object that only pickle can express, because msgpack cannot express it exactly.

    Args:
        kind: type of the object.
        reason: the reason, if the type alone does not explain it.
    """

    def __init__(self, kind: type, reason: str = "") -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason
