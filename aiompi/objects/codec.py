"""Objects to messages and back: which format, and the frames around it."""

from __future__ import annotations

import contextlib
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgpack

from aiompi.errors import Exception as MPIException
from aiompi.errors import InvalidTypeError, OtherError, RemoteProtocolError
from aiompi.objects import type_tags
from aiompi.objects.decode import Decoder
from aiompi.objects.encode import ATOMS, ATOMS_WITHOUT_INT, Encoder
from aiompi.objects.type_tags import InexpressibleError

#: memory to send: unsigned bytes, contiguous
Segment: TypeAlias = bytes | memoryview

OUT_OF_BAND: Final = 16 * 2**10  # bytes: where a segment of its own starts to be cheaper than copies
ALIGNMENT: Final = 64  # bytes: a cache line, and the widest vector registers

_KINDS: Final = 0xC1
_PICKLE: Final = 0xC7
_BUFFERS: Final = 0xC8
_MARKS: Final = frozenset({_KINDS, _PICKLE, _BUFFERS})
_KINDS_HEADER: Final = struct.Struct("<BI")
_BUFFERS_HEADER: Final = struct.Struct("<BxxxIQ")
_TUPLE: Final = bytes([type_tags.TUPLE])
_FLAT_TUPLE: Final = _KINDS_HEADER.pack(_KINDS, 1) + _TUPLE
_NO_BUFFERS: Final[Iterator[memoryview]] = iter(())
_PICKLE_MARK: Final = bytes([_PICKLE])
_PROTO: Final = 0x80  # what pickles of protocol 2 and later begin with; in msgpack all of an empty dict
_STOP: Final = ord(".")
_PADDING: Final = bytes(ALIGNMENT)
_PROTOCOL: Final = 5
_unpack: Final = msgpack.unpackb

_FEW: Final = 32  # items; more are looked at before they are packed in vain
# Fewer are looked at only while this many objects follow one that was packed in vain: a look takes 0.4 us, as much as
# to pack a small dict, and saves the copy of long bytes. Programs send the same kinds of objects again and again.
_WARY: Final = 64
_are_atoms: Final = ATOMS.issuperset
_may_be_simple: Final = frozenset({*ATOMS, list, dict}).issuperset

# What the packer raises for what it cannot express: other types, ints beyond 64 bits, lone surrogates, cycles, memory
# with gaps.
_REFUSALS: Final = (TypeError, ValueError, OverflowError, BufferError)
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

    __slots__ = ("_out_of_band", "_pack", "_pack_any", "_pickle", "_wary")

    def __init__(self, *, pickle: bool = True, out_of_band: int = OUT_OF_BAND) -> None:
        self._pickle = pickle
        self._out_of_band = out_of_band
        self._pack, self._pack_any = _packers()
        self._wary = 0

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
            if not self._wary:
                self._pack, self._pack_any = _packers()  # nobody knows how much they have packed in vain
            self._wary = _WARY
            body = None
        if body is None:
            return self._dumps_any(obj)
        nbytes = len(body)
        if nbytes > _RETAINED:
            self._pack, self._pack_any = _packers()
        return [body], nbytes

    def loads(self, message: bytes | bytearray | memoryview) -> Any:
        """The object of a message.

        Args:
            message: unsigned bytes, contiguous. It belongs to the object from now on: arrays that were sent out of
                band are views of it, writable when it is. A plain pickle, which a program may have sent as memory, is
                taken too; without bytes it is None.

        Raises:
            RemoteProtocolError: the message is malformed.
            InvalidTypeError: it is pickled, and pickling is off.
            OtherError: it is a pickle that cannot be read here; the cause says why.
            OSError: modules that are needed for it cannot be imported, for want of descriptors.
        """
        try:
            mark = message[0]
            if mark not in _MARKS:
                return _unpack(message, strict_map_key=False, unicode_errors="surrogatepass")
            if mark == _KINDS:
                return self._loads_kinds(memoryview(message), _NO_BUFFERS)
            return self._loads_marked(memoryview(message).cast("B"))
        except (MPIException, MemoryError, OSError):
            raise
        except Exception as error:
            return self._loads_strange(message, error)

    def _loads_strange(self, message: bytes | bytearray | memoryview, error: Exception) -> Any:
        """The object of a message that no codec has made."""
        if len(message) == 0:
            return None
        if is_pickle(message):
            with contextlib.suppress(pickle.UnpicklingError, EOFError):
                return self._loads_pickle(memoryview(message), _NO_BUFFERS)
        raise RemoteProtocolError(
            f"malformed message of {len(message)} bytes: {type(error).__name__}: {error}; receive with Recv what "
            "was sent from memory, with Send, and run the same version of aiompi and of the program on all ranks"
        ) from error

    def _pack_simple(self, obj: Any) -> bytes | None:
        """The message of an object whose types are quickly told to be msgpack's own; None of any other."""
        kind = type(obj)
        if kind is dict or kind is list:
            if len(obj) > _FEW:
                return self._pack(obj) if _is_flat(obj) else None
            if self._wary and not self._looks_simple(obj.values() if kind is dict else obj):
                return None
            body = self._pack(obj)
            # The packer writes bytearray and memoryview as if they were bytes. A body without the lead bytes of such
            # values has none of them, which takes 0.1 us to find out, where a look at all objects takes 0.8 us.
            if (0xC4 in body or 0xC5 in body or 0xC6 in body) and not _is_flat(obj):
                self._wary = _WARY
                if len(body) > _RETAINED:
                    self._pack, self._pack_any = _packers()
                return None
            return body
        if kind is tuple:
            return _FLAT_TUPLE + self._pack(list(obj)) if _is_flat(obj) else None
        if kind is bytes:
            return self._pack(obj) if len(obj) < self._out_of_band else None
        return None

    def _looks_simple(self, items: Iterable[Any]) -> bool:
        """Return True if it will not be in vain to pack the items of a container, as far as their types tell."""
        simple = _may_be_simple(map(type, items))
        self._wary = self._wary - 1 if simple else _WARY
        return simple

    def _dumps_any(self, obj: object) -> tuple[list[Segment], int]:
        try:
            encoder, body = self._encode(obj)
        except (InexpressibleError, RecursionError, ValueError) as reason:
            if not self._pickle:
                raise InvalidTypeError(_not_without_pickle(obj, reason)) from None
            return self._dumps_pickle(obj)
        types, buffers = encoder.kinds, encoder.buffers
        head = _KINDS_HEADER.pack(_KINDS, len(types)) + types if buffers or any(types) else b""
        return _framed(head, body, buffers)

    def _encode(self, obj: object) -> tuple[Encoder, bytes]:
        encoder = Encoder(self._out_of_band)
        try:
            body = self._pack_any(encoder.encode(obj))
        except (OverflowError, UnicodeEncodeError):
            encoder = Encoder(self._out_of_band, ATOMS_WITHOUT_INT)
            body = msgpack.packb(encoder.encode(obj), unicode_errors="surrogatepass")
        if len(body) > _RETAINED:
            self._pack, self._pack_any = _packers()
        return encoder, body

    def _dumps_pickle(self, obj: object) -> tuple[list[Segment], int]:
        buffers: list[memoryview] = []

        def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
            try:
                view = buffer.raw()
            except BufferError:
                return True
            if view.nbytes < self._out_of_band:
                return True
            buffers.append(view)
            return False

        try:
            data = pickle.dumps(obj, _PROTOCOL, buffer_callback=keep_in_band)
        except MemoryError:
            raise
        except Exception as error:
            raise InvalidTypeError(
                f"cannot send an object of type {_name(type(obj))}: it cannot be pickled "
                f"({type(error).__name__}: {error}); send its data instead, or give its class a __reduce__ method"
            ) from error
        return _framed(_PICKLE_MARK, data, buffers)

    def _loads_marked(self, message: memoryview) -> Any:
        body, buffers = _split(message) if message[0] == _BUFFERS else (message, [])
        unused = iter(buffers)
        if body[0] == _PICKLE:
            obj = self._loads_pickle(body[1:], unused)
        elif body[0] == _KINDS:
            obj = self._loads_kinds(body, unused)
        else:
            raise ValueError(f"body of format {body[0]:#x}")
        if next(unused, None) is not None:
            raise ValueError("buffers that belong to nothing")
        return obj

    def _loads_kinds(self, body: memoryview, buffers: Iterator[memoryview]) -> Any:
        _, count = _KINDS_HEADER.unpack_from(body)
        start = _KINDS_HEADER.size + count
        types = bytes(body[_KINDS_HEADER.size : start])
        value = body[start:]
        if not types.strip(_TUPLE):
            return _unpack(value, list_hook=tuple, strict_map_key=False, unicode_errors="surrogatepass")
        unused = iter(types)
        revive = Decoder(unused, buffers, self._pickle).revive
        obj = _unpack(value, list_hook=revive, strict_map_key=False, unicode_errors="surrogatepass")
        if next(unused, None) is not None:
            raise ValueError("more kinds than arrays")
        return obj

    def _loads_pickle(self, data: memoryview, buffers: Iterator[memoryview]) -> Any:
        if not self._pickle:
            raise InvalidTypeError(
                "received a pickled object while pickling is off: switch it off at the sender too, "
                "or on here (AIOMPI_PICKLE=1, aiompi.rc.pickle = True)"
            )
        try:
            return pickle.loads(data, buffers=buffers)
        except (pickle.UnpicklingError, EOFError, MemoryError):
            raise
        except Exception as error:
            raise OtherError(
                f"cannot unpickle a received object ({type(error).__name__}: {error}); "
                "its class must be importable here, and the same as at the sender"
            ) from error


def is_pickle(data: bytes | bytearray | memoryview) -> bool:
    """Return True if bytes begin and end as a plain pickle does, which no message of the codec does.

    Protocols 0 and 1 begin with a letter, which as a message is all of a small number.
    """
    return len(data) > 1 and data[0] <= _PROTO and data[-1] == _STOP


def _is_flat(obj: Any) -> bool:
    """Return True if a list, a tuple or a dict holds nothing but atoms."""
    return _are_atoms(map(type, obj)) and (type(obj) is not dict or _are_atoms(map(type, obj.values())))


def _packers() -> tuple[Callable[[Any], bytes], Callable[[Any], bytes]]:
    """Pack functions: for exact types only, and for what an encoder made.

    They are used again and again, because a packer costs more to make than a message. As neither has a `default`
    function, packing runs no Python code and cannot be entered a second time.
    """
    return msgpack.Packer(strict_types=True).pack, msgpack.Packer().pack


def _framed(head: bytes, body: bytes, buffers: list[memoryview]) -> tuple[list[Segment], int]:
    """Segments of a message, and its length: a body, what stands before it, and the buffers behind it."""
    nbytes = len(head) + len(body)
    if not buffers:
        return ([head + body] if nbytes <= _JOINED else _joined(head, body)), nbytes
    lengths = _lengths(len(buffers)).pack(*map(len, buffers))
    head = _BUFFERS_HEADER.pack(_BUFFERS, len(buffers), nbytes) + lengths + head
    nbytes = len(head) + len(body)
    padding = -nbytes % ALIGNMENT
    segments = _joined(head, body, _PADDING[:padding])
    nbytes += padding
    for buffer in buffers:
        if padding := -nbytes % ALIGNMENT:
            segments.append(_PADDING[:padding])
        segments.append(buffer)
        nbytes += padding + len(buffer)
    return segments, nbytes


@lru_cache(16)
def _lengths(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}Q")


def _joined(*parts: bytes) -> list[Segment]:
    if sum(map(len, parts)) <= _JOINED:
        return [b"".join(parts)]
    return [part for part in parts if part]


def _split(message: memoryview) -> tuple[memoryview, list[memoryview]]:
    """The body and the buffers of a message.

    Raises:
        ValueError, struct.error: its lengths do not add up.
    """
    _, count, nbody = _BUFFERS_HEADER.unpack_from(message)
    start = _BUFFERS_HEADER.size + 8 * count
    end = start + nbody
    if end > len(message):
        raise ValueError(f"{count} buffers and a body of {nbody} bytes")
    buffers = []
    body = message[start:end]
    for nbytes in _lengths(count).unpack_from(message, _BUFFERS_HEADER.size):
        start = end + -end % ALIGNMENT
        end = start + nbytes
        buffers.append(message[start:end])
    if end != len(message):
        raise ValueError(f"lengths that add up to {end} bytes")
    return body, buffers


def _not_without_pickle(obj: object, reason: BaseException) -> str:
    culprit, detail = type(obj), f" ({type(reason).__name__}: {reason})"
    if isinstance(reason, InexpressibleError):
        culprit, detail = reason.kind, f" {reason.reason}" if reason.reason else ""
    elif isinstance(reason, RecursionError) or "recursion" in str(reason):
        detail = " that is nested too deeply, or contains itself"
    return (
        f"cannot send an object of type {_name(culprit)}{detail} while pickling is off: send built-in types, "
        "dataclasses and NumPy arrays, or switch pickling on (AIOMPI_PICKLE=1, aiompi.rc.pickle = True)"
    )


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
