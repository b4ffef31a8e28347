"""The class `Codec`, which converts objects to messages and back: it chooses the format, and frames the message."""

from __future__ import annotations

import contextlib
import functools
import pickle
import struct
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, TypeAlias, TypeVar

import msgpack

from aiompi.core import FOREIGN, OTHER, TUPLES, PlainCodec, contents
from aiompi.errors import InvalidTypeError, MPIError, OtherError, RemoteProtocolError
from aiompi.objects import pickles, steps, type_tags
from aiompi.objects.decode import HASHED, Decoder
from aiompi.objects.encode import ATOMS, ATOMS_WITHOUT_INT, EXTENSIONS, Encoder
from aiompi.objects.pickles import Input, Output, Steps
from aiompi.objects.type_tags import InexpressibleError

T = TypeVar("T")

#: memory to send: contiguous unsigned bytes
Segment: TypeAlias = bytes | memoryview

OUT_OF_BAND: Final = 16 * 2**10  # bytes from which on a separate segment is cheaper than a copy
ALIGNMENT: Final = 64  # bytes: a cache line, and the widest vector registers

_TAGS: Final = 0xC1
_PICKLE: Final = 0xC7
_BUFFERS: Final = 0xC8
_MARKS: Final = frozenset({_TAGS, _PICKLE, _BUFFERS})
_TAGS_HEADER: Final = struct.Struct("<BI")
_BUFFERS_HEADER: Final = struct.Struct("<BxxxIQ")
_TUPLE: Final = bytes([type_tags.TUPLE])
_LIST: Final = bytes([type_tags.LIST])
_NO_BUFFERS: Final[Iterator[memoryview]] = iter(())
_PICKLE_MARK: Final = bytes([_PICKLE])
_BUFFERS_MARK: Final = bytes([_BUFFERS])
_PROTO: Final = 0x80  # first byte of pickles of protocol 2 and later; in msgpack a complete empty dict
_STOP: Final = ord(".")
_PADDING: Final = bytes(ALIGNMENT)
_PROTOCOL: Final = 5
_unpack: Final = msgpack.unpackb
# Exceptions of the packer for objects that it cannot express: other types, dtypes with objects, ints beyond 64 bits,
# lone surrogates, cycles, memory with gaps.
_REFUSALS: Final = (InexpressibleError, TypeError, ValueError, OverflowError, BufferError)
_may_be_simple: Final = frozenset({*ATOMS, list, dict}).issuperset
#: reasons to pickle
_INEXPRESSIBLE: Final = (InexpressibleError, RecursionError, ValueError)
# The packer keeps the memory of its largest message. It is replaced after messages larger than this, bytes.
_RETAINED: Final = 2**20
#: memory with which a packer of one message begins, bytes
_ROOM: Final = 1024
_JOINED: Final = 16 * 2**10  # bytes up to which a copy is cheaper than one more segment


class Codec(PlainCodec):
    """Converts objects to messages and back.

    msgpack expresses None, bool, int, float, complex, str, bytes, bytearray, memoryview, tuple, list, dict with any
    keys, set, frozenset, range, slice, dataclasses, and NumPy arrays and scalars. The dtype of these arrays and scalars
    must be built into NumPy, without objects, titles and metadata. Other types, and subclasses, are pickled.

    Args:
        pickle: True to pickle objects that msgpack cannot express, and to accept pickles. If False, the receiver
            accepts a dataclass only if its module is already imported, and a large set or dict only if at most
            `MOST_ALIKE` keys have the same hash. `__init__` of a dataclass does not run.
        out_of_band: bytes; payloads of at least this size are sent without a copy.
    """

    __slots__ = ("_extension", "_mapping", "_pack", "_pickle")

    def __init__(self, *, pickle: bool = True, out_of_band: int = OUT_OF_BAND) -> None:
        self._pickle = pickle
        self._out_of_band = out_of_band
        self._pack = msgpack.Packer().pack  # has no function for other types, so it runs no other code
        decoder = Decoder(iter(()), iter(()), pickle)
        self._extension, self._mapping = decoder.extension, None if pickle else decoder.mapping

    def _dumps(self, obj: object) -> tuple[list[Segment], int]:
        found = contents(obj, EXTENSIONS, self._out_of_band)
        if found < OTHER:
            try:
                if found:
                    return self._dumps_simple(obj, found)
                body = self._pack(obj)
                nbytes = len(body)
                if nbytes > _RETAINED:
                    self._pack = msgpack.Packer().pack
                return [body], nbytes
            except _REFUSALS:
                self._pack = msgpack.Packer().pack  # discards its partial data
        return self._dumps_any(obj)

    def _dumps_simple(self, obj: object, found: int) -> tuple[list[Segment], int]:
        """Return the message of an object that msgpack expresses with tags for tuples and extensions for NumPy."""
        tags = bytearray()
        if found & TUPLES:
            contents(obj, EXTENSIONS, self._out_of_band, tags)
        encoder = Encoder(self._out_of_band)
        strict = bool(found & FOREIGN)  # some scalars of NumPy are subclasses of Python's types
        body = msgpack.Packer(strict_types=strict, default=encoder.leaf, buf_size=_ROOM).pack(obj)
        return _tagged(tags, body, encoder.buffers)

    is_large = staticmethod(steps.is_large)

    def dumps_in_steps(self, obj: Any) -> Generator[None, None, tuple[list[Segment], int]]:
        """Do what `dumps` does for a large object, in steps. The object must not change before the last step.

        Raises:
            RuntimeError: the object has changed.
        """
        try:
            return (yield from self._packed_in_steps(obj))
        except _INEXPRESSIBLE as reason:
            cause = reason.with_traceback(None)
        return (yield from Steps(lambda suspend: self._dumps_inexpressible(obj, cause, Output(suspend))).run())

    def _packed_in_steps(self, obj: Any) -> Generator[None, None, tuple[list[Segment], int]]:
        if type(obj) in (list, dict) and _may_be_simple(map(type, obj.values() if type(obj) is dict else obj)):
            with contextlib.suppress(*_REFUSALS):
                body = steps.Body(msgpack.Packer().pack, None, self._check_simple)
                yield from body.add(obj)
                return [memoryview(body.value)], len(body.value)
        encoder = Encoder(self._out_of_band)
        body = steps.Body(msgpack.Packer().pack, encoder)
        try:
            yield from body.add(obj)
        except (OverflowError, UnicodeEncodeError):
            encoder = Encoder(self._out_of_band, ATOMS_WITHOUT_INT)
            body = steps.Body(msgpack.Packer(unicode_errors="surrogatepass").pack, encoder)
            yield from body.add(obj)
        return _tagged(encoder.tags, memoryview(body.value), encoder.buffers)

    def _check_simple(self, items: Any) -> None:
        """Check that msgpack expresses items without type tags and extensions.

        Raises:
            TypeError: it does not.
        """
        if contents(items, EXTENSIONS, self._out_of_band):
            raise TypeError

    def _loads(self, message: bytes | bytearray | memoryview) -> Any:
        try:
            mark = message[0]
            if mark not in _MARKS:
                return _unpack(  # the same as with `_hooks`, but faster
                    message,
                    ext_hook=self._extension,
                    object_pairs_hook=self._mapping,
                    strict_map_key=False,
                    unicode_errors="surrogatepass",
                )
            if mark == _TAGS:
                return self._loads_value(memoryview(message), _NO_BUFFERS)
            return self._loads_marked(memoryview(message).cast("B"))
        except (MPIError, MemoryError, OSError):
            raise
        except Exception as error:
            return self._loads_foreign(message, error)

    @staticmethod
    def is_large_message(message: bytes | bytearray | memoryview) -> bool:
        """Return True if the object of a message is to be decoded in steps."""
        nbytes, mark = len(message), message[:1]
        if mark == _BUFFERS_MARK and nbytes > _BUFFERS_HEADER.size:
            _, count, nbytes = _BUFFERS_HEADER.unpack_from(message)
            mark = message[_BUFFERS_HEADER.size + 8 * count :][:1]
        if mark == _PICKLE_MARK:
            return nbytes > pickles.LARGE
        return nbytes > steps.LARGE_BYTES and not is_pickle(message)

    def loads_in_steps(self, message: bytes | bytearray | memoryview) -> Generator[None, None, Any]:
        """Do what `loads` does, in steps."""
        try:
            view = memoryview(message).cast("B")
            body, buffers = _split(view) if view[0] == _BUFFERS else (view, [])
            unused = iter(buffers)
            if body[0] == _PICKLE:
                return (yield from Steps(lambda suspend: self._loads_marked(view, suspend)).run())
            tags, value = _split_tags(body)
            left = iter(tags or b"")
            decoder = Decoder(left, unused, self._pickle)
            hooks = _hooks(decoder, tags)
            if self._pickle and HASHED.isdisjoint(tags or b""):
                obj = yield from steps.unpacked(value, hooks)
            else:

                def decode(suspend: Callable[[], None]) -> Any:
                    decoder.suspend = suspend
                    return _finished(steps.unpacked(value, hooks), suspend)

                obj = yield from Steps(decode).run()
            if next(unused, None) is not None or (hooks.get("list_hook") is not tuple and next(left, None) is not None):
                raise ValueError("type tags or buffers without objects")
            return obj
        except (MPIError, MemoryError, OSError):
            raise
        except Exception as error:
            return self._loads_foreign(message, error)

    def _loads_foreign(self, message: bytes | bytearray | memoryview, error: Exception) -> Any:
        """Return the object of a message that was not made by a codec."""
        if len(message) == 0:
            return None
        if is_pickle(message):
            with contextlib.suppress(pickle.UnpicklingError, EOFError):
                return self._loads_pickle(memoryview(message), _NO_BUFFERS)
        raise RemoteProtocolError(
            f"malformed message of {len(message)} bytes: {type(error).__name__}: {error}; use Recv for "
            "data that was sent with Send, and run the same version of aiompi and of the program on all ranks"
        ) from error

    def _dumps_any(self, obj: object) -> tuple[list[Segment], int]:
        try:
            return _finished(self._packed_in_steps(obj)) if steps.is_large(obj) else self._encode(obj)
        except _INEXPRESSIBLE as reason:
            return self._dumps_inexpressible(obj, reason)

    def _dumps_inexpressible(
        self, obj: object, reason: BaseException, output: Output | None = None
    ) -> tuple[list[Segment], int]:
        """Pickle an object; `reason` says why msgpack cannot express it. See `_dumps_pickle`."""
        if not self._pickle:
            raise InvalidTypeError(_not_without_pickle(obj, reason)) from None
        return self._dumps_pickle(obj, output)

    def _encode(self, obj: object) -> tuple[list[Segment], int]:
        encoder = Encoder(self._out_of_band)
        try:
            body = msgpack.Packer(buf_size=_ROOM).pack(encoder.encode(obj))
        except (OverflowError, UnicodeEncodeError):
            encoder = Encoder(self._out_of_band, ATOMS_WITHOUT_INT)
            body = msgpack.packb(encoder.encode(obj), unicode_errors="surrogatepass")
        return _tagged(encoder.tags, body, encoder.buffers)

    def _dumps_pickle(self, obj: object, output: Output | None) -> tuple[list[Segment], int]:
        """Pickle an object, into the file `output` if it is not None."""
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
            if output is None:
                data: Segment = pickle.dumps(obj, _PROTOCOL, buffer_callback=keep_in_band)
            else:
                pickle.Pickler(output, _PROTOCOL, buffer_callback=keep_in_band).dump(obj)
                data = memoryview(output.data)
        except MemoryError:
            raise
        except Exception as error:
            if hasattr(type(obj), "__await__"):
                remedy = "await it, and send its result"
            else:
                remedy = "send its data instead, or give its class a __reduce__ method"
            raise InvalidTypeError(
                f"cannot send an object of type {_name(type(obj))}: it cannot be pickled "
                f"({type(error).__name__}: {error}); {remedy}"
            ) from error
        return _framed(_PICKLE_MARK, data, buffers)

    def _loads_marked(self, message: memoryview, suspend: Callable[[], None] | None = None) -> Any:
        body, buffers = _split(message) if message[0] == _BUFFERS else (message, [])
        unused = iter(buffers)
        if body[0] == _PICKLE:
            obj = self._loads_pickle(body[1:], unused, suspend)
        else:
            obj = self._loads_value(body, unused)
        if next(unused, None) is not None:
            raise ValueError("buffers without objects")
        return obj

    def _loads_value(self, body: memoryview, buffers: Iterator[memoryview]) -> Any:
        tags, value = _split_tags(body)
        left = iter(tags or b"")
        hooks = _hooks(Decoder(left, buffers, self._pickle), tags)
        obj = _unpack(value, **hooks)
        if hooks.get("list_hook") is not tuple and next(left, None) is not None:
            raise ValueError("more type tags than arrays")
        return obj

    def _loads_pickle(
        self, data: memoryview, buffers: Iterator[memoryview], suspend: Callable[[], None] | None = None
    ) -> Any:
        if not self._pickle:
            raise InvalidTypeError(
                "received a pickled object while pickling is off: switch it off at the sender too, "
                "or on here (AIOMPI_PICKLE=1, aiompi.rc.pickle = True)"
            )
        try:
            if suspend is None:
                return pickle.loads(data, buffers=buffers)
            return pickle.Unpickler(Input(data, suspend), buffers=buffers).load()
        except (pickle.UnpicklingError, EOFError, MemoryError):
            raise
        except Exception as error:
            raise OtherError(
                f"cannot unpickle a received object ({type(error).__name__}: {error}); "
                "its class must be importable here, and the same as at the sender"
            ) from error


def _finished(generator: Generator[None, None, T], suspend: Callable[[], None] = lambda: None) -> T:
    """Return the result of steps; call a function between them."""
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            result: T = stop.value
            return result
        suspend()


def is_pickle(data: bytes | bytearray | memoryview) -> bool:
    """Return True if bytes begin and end like a plain pickle. No message of the codec does.

    Pickles of protocols 0 and 1 begin with a letter. The only messages of the codec that begin with a letter are small
    integers, which are one byte long.
    """
    return len(data) > 1 and data[0] <= _PROTO and data[-1] == _STOP


def _hooks(decoder: Decoder, tags: bytes | None) -> dict[str, Any]:
    """Return the arguments with which msgpack unpacks a value.

    Args:
        decoder: makes the objects.
        tags: type tags of the arrays; None if all arrays are lists.
    """
    hooks: dict[str, Any] = {"ext_hook": decoder.extension, "strict_map_key": False, "unicode_errors": "surrogatepass"}
    if tags is not None:
        hooks["list_hook"] = decoder.revive if tags.strip(_TUPLE) or not decoder.imports else tuple
    if not decoder.imports:
        hooks["object_pairs_hook"] = decoder.mapping
    return hooks


def _tagged(tags: bytearray, body: Segment, buffers: list[memoryview]) -> tuple[list[Segment], int]:
    """Return the message of a packed value with type tags, and its length."""
    needed = body[0] in _MARKS or tags.strip(_LIST)
    return _framed(_TAGS_HEADER.pack(_TAGS, len(tags)) + tags if needed else b"", body, buffers)


def _framed(head: bytes, body: Segment, buffers: list[memoryview]) -> tuple[list[Segment], int]:
    """Return the segments of a message (head, body, buffers) and its length."""
    nbytes = len(head) + len(body)
    if not buffers:
        return (_joined(head, body) if head else [body]), nbytes
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


@functools.lru_cache(16)
def _lengths(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}Q")


def _joined(*parts: Segment) -> list[Segment]:
    if sum(map(len, parts)) <= _JOINED:
        return [b"".join(parts)]
    return [part for part in parts if part]


def _split_tags(body: memoryview) -> tuple[bytes | None, memoryview]:
    """Return the type tags of a body (None if the body has none), and the msgpack value of the body."""
    if body[0] != _TAGS:
        return None, body
    _, count = _TAGS_HEADER.unpack_from(body)
    start = _TAGS_HEADER.size + count
    return bytes(body[_TAGS_HEADER.size : start]), body[start:]


def _split(message: memoryview) -> tuple[memoryview, list[memoryview]]:
    """Return the body and the buffers of a message.

    Raises:
        ValueError, struct.error: the lengths in the message do not match its size.
    """
    _, count, nbody = _BUFFERS_HEADER.unpack_from(message)
    start = _BUFFERS_HEADER.size + 8 * count
    end = start + nbody
    if not count or end > len(message):
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
