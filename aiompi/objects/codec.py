"""The class `Codec`, which converts objects to messages and back: choice of the format, and its frame."""

from __future__ import annotations

import contextlib
import pickle
import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

import msgpack

from aiompi.errors import Exception as MPIException
from aiompi.errors import InvalidTypeError, OtherError, RemoteProtocolError
from aiompi.objects import pickles, steps, type_tags
from aiompi.objects.decode import HASHED, Decoder
from aiompi.objects.encode import ATOMS, ATOMS_WITHOUT_INT, Encoder
from aiompi.objects.pickles import Input, Output, Steps
from aiompi.objects.type_tags import InexpressibleError

T = TypeVar("T")

#: memory to send: contiguous unsigned bytes
Segment: TypeAlias = bytes | memoryview

OUT_OF_BAND: Final = 16 * 2**10  # bytes: from here on a separate segment is cheaper than a copy
ALIGNMENT: Final = 64  # bytes: a cache line, and the widest vector registers

_TAGS: Final = 0xC1
_PICKLE: Final = 0xC7
_BUFFERS: Final = 0xC8
_MARKS: Final = frozenset({_TAGS, _PICKLE, _BUFFERS})
_TAGS_HEADER: Final = struct.Struct("<BI")
_BUFFERS_HEADER: Final = struct.Struct("<BxxxIQ")
_TUPLE: Final = bytes([type_tags.TUPLE])
_FLAT_TUPLE: Final = _TAGS_HEADER.pack(_TAGS, 1) + _TUPLE
_NO_BUFFERS: Final[Iterator[memoryview]] = iter(())
_PICKLE_MARK: Final = bytes([_PICKLE])
_BUFFERS_MARK: Final = bytes([_BUFFERS])
_PROTO: Final = 0x80  # first byte of pickles of protocol 2 and later; in msgpack a complete empty dict
_STOP: Final = ord(".")
_PADDING: Final = bytes(ALIGNMENT)
_PROTOCOL: Final = 5
_unpack: Final = msgpack.unpackb

_FEW: Final = 32  # items; larger containers are checked before an attempt to pack them
# After a failed attempt to pack an object, this many smaller containers are checked first. A check takes 0.4 us, as
# long as packing a small dict, and avoids copies of long bytes. Programs tend to send similar objects repeatedly.
_CHECKS: Final = 64
_are_atoms: Final = ATOMS.issuperset
_may_be_simple: Final = frozenset({*ATOMS, list, dict}).issuperset

# Exceptions of the packer for objects that it cannot express: other types, ints beyond 64 bits, lone surrogates,
# cycles, memory with gaps.
_REFUSALS: Final = (TypeError, ValueError, OverflowError, BufferError)
#: reasons to pickle
_INEXPRESSIBLE: Final = (InexpressibleError, RecursionError, ValueError)
# A packer keeps the memory of its largest message. It is replaced after messages larger than this, bytes.
_RETAINED: Final = 2**20
_JOINED: Final = 16 * 2**10  # bytes: up to here a copy is cheaper than one more segment


class Codec:
    """Converts objects to messages and back.

    msgpack expresses None, bool, int, float, complex, str, bytes, bytearray, memoryview, tuple, list, dict with any
    keys, set, frozenset, range, slice, NumPy arrays and scalars of any dtype that is built into NumPy and has neither
    objects, titles nor metadata, and dataclasses. Other types, and subclasses of these, are pickled.

    Args:
        pickle: True to pickle objects that msgpack cannot express, and to accept pickles. If False, dataclasses
            are received only if their modules are already imported.
        out_of_band: bytes; payloads of at least this size are sent without a copy.
    """

    __slots__ = ("_checks_left", "_out_of_band", "_pack", "_pack_any", "_pickle")

    def __init__(self, *, pickle: bool = True, out_of_band: int = OUT_OF_BAND) -> None:
        self._pickle = pickle
        self._out_of_band = out_of_band
        self._pack, self._pack_any = _packers()
        self._checks_left = 0

    def dumps(self, obj: object) -> tuple[list[Segment], int]:
        """Return the message of an object.

        Args:
            obj: the object, which must not change while the segments are in use: payloads alias its memory.

        Returns:
            The segments to send in order, and their total length in bytes. A small object is a single bytes object.

        Raises:
            InvalidTypeError: the object cannot be pickled, or pickling is required and switched off.
        """
        try:
            body = self._pack(obj) if type(obj) in ATOMS else self._pack_simple(obj)
        except _REFUSALS:
            if not self._checks_left:
                self._pack, self._pack_any = _packers()  # discards the unknown amount of data they have packed
            self._checks_left = _CHECKS
            body = None
        if body is None:
            return self._dumps_any(obj)
        nbytes = len(body)
        if nbytes > _RETAINED:
            self._pack, self._pack_any = _packers()
        return [body], nbytes

    is_large = staticmethod(steps.is_large)

    def dumps_in_steps(self, obj: Any) -> Generator[None, None, tuple[list[Segment], int]]:
        """Do the same as `dumps` for a large object, in steps; the object must not change meanwhile.

        Raises:
            RuntimeError: it has changed.
        """
        try:
            return (yield from self._packed_in_steps(obj))
        except _INEXPRESSIBLE as reason:
            cause = reason.with_traceback(None)
        return (yield from Steps(lambda suspend: self._dumps_inexpressible(obj, cause, Output(suspend))).run())

    def _packed_in_steps(self, obj: Any) -> Generator[None, None, tuple[list[Segment], int]]:
        if type(obj) in (list, dict) and _may_be_simple(map(type, obj.values() if type(obj) is dict else obj)):
            with contextlib.suppress(InexpressibleError, *_REFUSALS):
                body = steps.Body(msgpack.Packer(strict_types=True).pack, None, _check_simple)
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
        return _tagged(encoder, memoryview(body.value))

    def loads(self, message: bytes | bytearray | memoryview) -> Any:
        """Return the object of a message.

        Args:
            message: contiguous unsigned bytes, which the object takes over: arrays that were sent out of band are views
                of them, and writable if they are. A plain pickle, which a program may have sent as memory, is accepted
                too. The object of an empty message is None.

        Raises:
            RemoteProtocolError: the message is malformed.
            InvalidTypeError: the message is pickled, and pickling is off.
            OtherError: the message is a pickle that cannot be read here; the cause says why.
            OSError: required modules cannot be imported, because there are too few file descriptors.
        """
        try:
            mark = message[0]
            if mark not in _MARKS:
                return _unpack(message, strict_map_key=False, unicode_errors="surrogatepass")
            if mark == _TAGS:
                return self._loads_tagged(memoryview(message), _NO_BUFFERS)
            return self._loads_marked(memoryview(message).cast("B"))
        except (MPIException, MemoryError, OSError):
            raise
        except Exception as error:
            return self._loads_foreign(message, error)

    __call__ = loads

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
        """Do the same as `loads`, in steps."""
        try:
            view = memoryview(message).cast("B")
            body, buffers = _split(view) if view[0] == _BUFFERS else (view, [])
            unused, tags = iter(buffers), b""
            hook: Callable[[list[Any]], Any] | None = None
            if body[0] == _TAGS:
                tags, body = _split_tags(body)
            elif body[0] == _PICKLE:
                return (yield from Steps(lambda suspend: self._loads_marked(view, suspend)).run())
            elif buffers:
                return self.loads(message)
            left = iter(tags)
            if not HASHED.isdisjoint(tags):

                def decode(suspend: Callable[[], None]) -> Any:
                    revive = Decoder(left, unused, self._pickle, suspend).revive
                    return _finished(steps.unpacked(body, revive), suspend)

                obj = yield from Steps(decode).run()
            else:
                if tags:
                    hook = Decoder(left, unused, self._pickle).revive if tags.strip(_TUPLE) else tuple
                obj = yield from steps.unpacked(body, hook)
            if next(unused, None) is not None or (hook is not tuple and next(left, None) is not None):
                raise ValueError("type tags or buffers without objects")
            return obj
        except (MPIException, MemoryError, OSError):
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

    def _pack_simple(self, obj: Any) -> bytes | None:
        """Return the message of an object if a quick check shows that msgpack has its types; None for other objects."""
        kind = type(obj)
        if kind is dict or kind is list:
            if (self._checks_left or len(obj) > _FEW) and not self._looks_simple(obj.values() if kind is dict else obj):
                return None
            body = self._pack(obj)
            # The packer writes bytearray and memoryview as bytes. A body without the lead bytes of such values contains
            # none of them. This check takes 0.1 us, while a check of all objects takes 0.8 us.
            if (0xC4 in body or 0xC5 in body or 0xC6 in body) and not _is_simple(obj):
                self._checks_left = _CHECKS
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
        """Return True if the types of the items of a container suggest that msgpack can pack them."""
        simple = _may_be_simple(map(type, items))
        self._checks_left = max(0, self._checks_left - 1) if simple else _CHECKS
        return simple

    def _dumps_any(self, obj: object) -> tuple[list[Segment], int]:
        try:
            return _finished(self._packed_in_steps(obj)) if steps.is_large(obj) else self._encode(obj)
        except _INEXPRESSIBLE as reason:
            return self._dumps_inexpressible(obj, reason)

    def _dumps_inexpressible(
        self, obj: object, reason: BaseException, output: Output | None = None
    ) -> tuple[list[Segment], int]:
        """Pickle an object, because msgpack cannot express it for this reason; see `_dumps_pickle`."""
        if not self._pickle:
            raise InvalidTypeError(_not_without_pickle(obj, reason)) from None
        return self._dumps_pickle(obj, output)

    def _encode(self, obj: object) -> tuple[list[Segment], int]:
        encoder = Encoder(self._out_of_band)
        try:
            body = self._pack_any(encoder.encode(obj))
        except (OverflowError, UnicodeEncodeError):
            encoder = Encoder(self._out_of_band, ATOMS_WITHOUT_INT)
            body = msgpack.packb(encoder.encode(obj), unicode_errors="surrogatepass")
        if len(body) > _RETAINED:
            self._pack, self._pack_any = _packers()
        return _tagged(encoder, body)

    def _dumps_pickle(self, obj: object, output: Output | None) -> tuple[list[Segment], int]:
        """Pickle an object, into a file if there is one."""
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
            raise InvalidTypeError(
                f"cannot send an object of type {_name(type(obj))}: it cannot be pickled "
                f"({type(error).__name__}: {error}); send its data instead, or give its class a __reduce__ method"
            ) from error
        return _framed(_PICKLE_MARK, data, buffers)

    def _loads_marked(self, message: memoryview, suspend: Callable[[], None] | None = None) -> Any:
        body, buffers = _split(message) if message[0] == _BUFFERS else (message, [])
        unused = iter(buffers)
        if body[0] == _PICKLE:
            obj = self._loads_pickle(body[1:], unused, suspend)
        elif body[0] == _TAGS:
            obj = self._loads_tagged(body, unused)
        else:
            raise ValueError(f"body of format {body[0]:#x}")
        if next(unused, None) is not None:
            raise ValueError("buffers without objects")
        return obj

    def _loads_tagged(self, body: memoryview, buffers: Iterator[memoryview]) -> Any:
        tags, value = _split_tags(body)
        if not tags.strip(_TUPLE):
            return _unpack(value, list_hook=tuple, strict_map_key=False, unicode_errors="surrogatepass")
        unused = iter(tags)
        revive = Decoder(unused, buffers, self._pickle).revive
        obj = _unpack(value, list_hook=revive, strict_map_key=False, unicode_errors="surrogatepass")
        if next(unused, None) is not None:
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
    """Return the result of steps, between which a function is called."""
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            result: T = stop.value
            return result
        suspend()


def is_pickle(data: bytes | bytearray | memoryview) -> bool:
    """Return True if bytes begin and end like a plain pickle, as no message of the codec does.

    Pickles of protocols 0 and 1 begin with a letter, which as a message is a complete small number.
    """
    return len(data) > 1 and data[0] <= _PROTO and data[-1] == _STOP


def _is_flat(obj: Any) -> bool:
    """Return True if a list, a tuple or a dict holds only atoms."""
    return _are_atoms(map(type, obj)) and (type(obj) is not dict or _are_atoms(map(type, obj.values())))


def _is_simple(obj: Any) -> bool:
    """Return True if a list or a dict holds only atoms, and lists and dicts of them in any depth."""
    level = [obj]
    while level:
        if not _are_atoms(map(type, chain.from_iterable(each for each in level if type(each) is dict))):
            return False
        items = list(chain.from_iterable(each.values() if type(each) is dict else each for each in level))
        if not _may_be_simple(map(type, items)):
            return False
        level = [item for item in items if type(item) is list or type(item) is dict]
    return True


def _packers() -> tuple[Callable[[Any], bytes], Callable[[Any], bytes]]:
    """Return two pack functions: for exact types only, and for trees made by an encoder.

    They are reused, because making a packer costs more than packing a message. Neither has a `default` function, so
    packing runs no Python code and cannot be reentered.
    """
    return msgpack.Packer(strict_types=True).pack, msgpack.Packer().pack


def _tagged(encoder: Encoder, body: Segment) -> tuple[list[Segment], int]:
    """Return the message of a body that an encoder has made, and its length."""
    tags, buffers = encoder.tags, encoder.buffers
    head = _TAGS_HEADER.pack(_TAGS, len(tags)) + tags if buffers or any(tags) else b""
    return _framed(head, body, buffers)


def _check_simple(items: Any, body: bytes) -> None:
    """Check that msgpack expresses items exactly; see `_pack_simple`.

    Raises:
        TypeError: it may not.
    """
    if (0xC4 in body or 0xC5 in body or 0xC6 in body) and not _is_simple(items):
        raise TypeError


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


@lru_cache(16)
def _lengths(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}Q")


def _joined(*parts: Segment) -> list[Segment]:
    if sum(map(len, parts)) <= _JOINED:
        return [b"".join(parts)]
    return [part for part in parts if part]


def _split_tags(body: memoryview) -> tuple[bytes, memoryview]:
    """Return the type tags and the msgpack value of a body that begins with tags."""
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
