"""What an array of the msgpack body stands for, when it is not simply a list.

msgpack has one array type. A message with anything but lists in it therefore begins with a string of kinds,
one byte for each array, in the order in which arrays end. msgpack's C code stays in charge on both sides that
way: sending, tuples are packed where they lie; receiving, one call per array turns it into what it was.
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
# A payload is the bytes themselves, or None: the next buffer behind the body.


class InexpressibleError(Exception):
    """An object that msgpack cannot express exactly, so that pickle has to.

    Args:
        kind: type of the object.
        reason: why not, when the type alone does not say it.
    """

    def __init__(self, kind: type, reason: str = "") -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason
