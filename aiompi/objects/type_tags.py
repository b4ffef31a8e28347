"""Type tags: the Python type that an array of the msgpack body represents.

msgpack has one array type. A message with arrays that are not lists therefore begins with a string of type tags, one
byte for each array, in the order in which the arrays end. So msgpack's C code does most of the work: the sender packs
tuples without a copy, and the receiver converts each array with one call.
"""

from __future__ import annotations

from typing import Final

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
ARRAY: Final = 13  # dtype, Fortran order, payload, *shape
SCALAR: Final = 14  # dtype, bytes
# A payload is the bytes themselves, or None for the next buffer after the body.


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
