"""Objects to messages and back: which format, and the frames around it."""

from __future__ import annotations

import builtins
import pickle
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgpack

from aiompi.errors import Exception, InvalidTypeError, OtherError, RemoteProtocolError
from aiompi.objects import kinds
from aiompi.objects.decode import Decoder
from aiompi.objects.encode import ATOMS, ATOMS_WITHOUT_INT, Encoder
from aiompi.objects.kinds import InexpressibleError

#: memory to send: unsigned bytes, contiguous
Segment: TypeAlias = bytes | memoryview

OUT_OF_BAND: Final = 4096  # bytes: where a segment of its own starts to be cheaper than a copy
ALIGNMENT: Final = 64  # bytes: a cache line, and the widest vector registers

_KINDS: Final = 0xC1
_PICKLE: Final = 0xC7
_BUFFERS: Final = 0xC8
_MARKS: Final = frozenset({_KINDS, _PICKLE, _BUFFERS})
_KINDS_HEADER: Final = struct.Struct("<BI")
_BUFFERS_HEADER: Final = struct.Struct("<BxxxIQ")
_FLAT_TUPLE: Final = _KINDS_HEADER.pack(_KINDS, 1) + bytes([kinds.TUPLE])
_PICKLE_MARK: Final = bytes([_PICKLE])
_PADDING: Final = bytes(ALIGNMENT)

# The packer writes bytearray and memoryview like bytes, and says nothing. In a body without the lead bytes of the
# three there is none of them: 0.15 us for a small body, a fifth of what looking at the objects costs.
_may_hold_bytes: Final = re.compile(rb"[\xc4-\xc6]").search
_SMALL_BODY: Final = 256  # bytes
_FEW: Final = 32  # items
_NESTING: Final = ATOMS | {list, dict}

# What the packer raises for what it cannot express: other types, ints beyond 64 bits, lone surrogates, cycles.
_REFUSALS: Final = (TypeError, ValueError, OverflowError)
# A packer keeps the memory of its largest message; from here on, bytes, it is given back.
_RETAINED: Final = 2**20
_JOINED: Final = 16 * 2**10  # bytes: up to here a copy is cheaper than one more segment


class Codec:
    """Turns objects into messages and back.

    msgpack expresses None, bool, int, float, complex, str, bytes, bytearray, memoryview, tuple, list, dict with any
    keys, set, frozenset, range, slice, NumPy arrays and scalars of any dtype but object, and dataclasses. Other
    types, and subclasses of these, are pickled.

    Args:
        pickle: whether objects that msgpack cannot express may be pickled, and pickles be read. Without it
            dataclasses are received only if their modules are already imported.
        out_of_band: bytes; payloads of at least this size are sent from where they lie.
    """

    __slots__ = ("_out_of_band", "_pack", "_pickle")

    def __init__(self, *, pickle: bool = True, out_of_band: int = OUT_OF_BAND) -> None:
        self._pickle = pickle
        self._out_of_band = out_of_band
        self._pack = _new_pack()

    def dumps(self, obj: object) -> tuple[list[Segment], int]:
        """The message of an object.

        Args:
            obj: not to be changed while the segments are in use: payloads alias its memory.

        Returns:
            What to send, piece after piece, and its length in bytes. A small object is a single bytes.

        Raises:
            InvalidTypeError: the object cannot be pickled, or would have to be while pickling is off.
        """
        try:
            body = self._pack(obj) if type(obj) in ATOMS else self._pack_simple(obj)
        except _REFUSALS:
            body = None
        if body is None:
            return self._dumps_any(obj)
        nbytes = len(body)
        if nbytes > _RETAINED:
            self._pack = _new_pack()
        return [body], nbytes

    def loads(self, message: bytes | bytearray | memoryview) -> Any:
        """The object of a message.

        Args:
            message: unsigned bytes, contiguous. It belongs to the object from now on: arrays that were sent out of
                band are views of it, writable when it is.

        Raises:
            RemoteProtocolError: the message is malformed.
            InvalidTypeError: it is pickled, and pickling is off.
            OtherError: it is a pickle that cannot be read here; the cause says why.
        """
        try:
            if message[0] not in _MARKS:
                return _unpack(message)
            return self._loads_marked(memoryview(message).cast("B"))
        except Exception:
            raise
        except builtins.Exception as error:
            raise RemoteProtocolError(
                f"malformed message of {len(message)} bytes: {type(error).__name__}: {error}; "
                "all ranks must run the same version of aiompi and of the program"
            ) from error

    def _pack_simple(self, obj: Any) -> bytes | None:
        """The message of an object that msgpack alone expresses; None if it does not, or it takes long to tell."""
        kind = type(obj)
        if kind is dict:
            found = set(map(type, obj.values()))
        elif kind is list or kind is tuple:
            found = set(map(type, obj))
        elif kind is bytes and len(obj) < self._out_of_band:
            return self._pack(obj)
        else:
            return None
        if found <= ATOMS:
            return self._pack(obj) if kind is not tuple else _FLAT_TUPLE + self._pack(list(obj))
        if kind is tuple or len(obj) > _FEW or not found <= _NESTING:
            return None
        body = self._pack(obj)
        return None if len(body) > _SMALL_BODY or _may_hold_bytes(body) else body

    def _dumps_any(self, obj: object) -> tuple[list[Segment], int]:
        try:
            encoder, body = self._encode(obj)
        except (InexpressibleError, *_REFUSALS, RecursionError) as reason:
            if not self._pickle:
                raise _not_allowed(obj, reason) from None
            return self._dumps_pickle(obj)
        types = encoder.kinds
        if encoder.buffers or any(types):
            body = [_KINDS_HEADER.pack(_KINDS, len(types)), types, body]
        return _framed(body, encoder.buffers)

    def _encode(self, obj: object) -> tuple[Encoder, bytes]:
        encoder = Encoder(self._out_of_band)
        try:
            return encoder, _new_pack_any(encoder.encode(obj))
        except OverflowError:
            encoder = Encoder(self._out_of_band, ATOMS_WITHOUT_INT)
            return encoder, _pack_any(encoder.encode(obj))
